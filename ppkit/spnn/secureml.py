"""The rival SecureML: a whole network trained on shares of two parties; and what lies between it
and SPNN, a network whose first i layers are (zhou2021, 4.6).

Per layer, on shares: z = a theta + b, truncated, then the piecewise sigmoid (or ReLU) by secure
comparison; backwards
    delta_L = p - y,  delta_l = s_l (delta_(l+1) theta_(l+1)^T),
    theta_l <- theta_l - lr/|B| a_(l-1)^T delta_l.
Nothing is opened but numbers under masks from the dealer. A number that enters several products is
opened under one mask, once.

With i private layers the same holds for l < i. The server gets z_(i-1), as it gets h1 in SPNN, goes
on in the clear up to the last layer, which is A's, and hands out delta_(i-1) in shares: no holder
sees the gradient of what the server sees.
"""

import copy
import math
from collections.abc import Sequence
from dataclasses import dataclass

import torch
from torch import Tensor, nn

from ppkit.spnn.comparison import ONE, ActivationMasks, Slope, activate, deal_activation
from ppkit.spnn.dealer import NAMES, Once, Shares, TruncationPair, TwoPartyDealer
from ppkit.spnn.fixed_point import FRACTIONAL_BITS, check_product, decode, encode, row_reach
from ppkit.spnn.messages import SERVER, Transcript
from ppkit.spnn.party import row_numbers
from ppkit.spnn.randomness import Stream
from ppkit.spnn.rivals import Layer, PiecewiseNet, linear_layers
from ppkit.spnn.sharing import (
    Opened,
    TwoParties,
    flat,
    shaped,
    share,
    truncate,
    truncated_part,
    with_mask,
)
from ppkit.validation import must_be, one_of

TRUNCATIONS = ("dealer", "secureml")
_ROOM = 63  # bits of a product that every truncation takes
_HEAD_ROOM = 2.0**29  # of a sum of products and of a weight


@dataclass
class LayerMasks:
    """What is dealt for one layer of one batch: masks u of its input, v of theta, d of delta, and
    shares of products.

    forward: of u v.  gradient: of u^T d.  back: of d v^T.  cut, cut_back: to truncate z, and
    delta theta^T; None where a local truncation needs nothing.  Backward masks are empty where
    nothing goes backward; activation is None where only logits are wanted.
    """

    u: Shares
    v: Shares
    forward: Shares
    cut: TruncationPair | None
    activation: ActivationMasks | None
    d: Shares
    gradient: Shares
    back: Shares
    cut_back: TruncationPair | None


@dataclass
class StepMasks(Once):
    """All that is dealt for one batch.  shift: the bits by which lr/|B| is scaled up."""

    layers: list[LayerMasks]
    rows: Tensor
    lr: float
    shift: int
    cut_gradient: TruncationPair | None
    cut_update: TruncationPair | None


class SecureML:
    """Full training on shares mod 2^64: two parties, semi-honest, with a dealer.

    net: a PiecewiseNet of two holders; A shares out its weights as they are now, and the net is
    left as it is (whoever drew them knows the start, as in zhou2021).
    private: i, layers on shares, from the first, 1 to all but the output; None: all, output and
    loss too.
    truncation: "dealer" (never fails, 8 bytes more a number) or "secureml" (`sharing.truncate`).
     transcript: where messages are written down; None: sizes only, in
    self.transcript.
    stream: None: all secrets from the operating system's CSPRNG; one seeded for teaching makes them
    repeat.

    prepare(parts, y) once, step(rows, lr=...) as often as wanted; logits(parts) for any rows;
    copy_to(net) reveals.
    Error against PiecewiseNet: inputs, weights and every product are rounded to 2^-16; a |z| that
    close to 1/2 may fall on the other side of the slope's jump.  Head-room: |z| and |sum over the
    batch of a delta| < 2^29, which is checked at the start and nobody can check on shares: weights
    that left it on the way are refused where `logits` or `copy_to` opens something.
    Guarantee: each holder receives uniform numbers only, besides what `logits` and `copy_to` open
    by name; with `private` A also gets the last hidden layer, and the server z_(i-1) and dL/dh_L:
    nothing is promised about what these give away.
    Source: SecureML (Mohassel and Zhang 2017), section 4.  Departs from it: a dealer instead of
    oblivious transfer; secure comparison by masked opening instead of garbled circuits; the holders
    are the two servers, so that each one's columns are their own sharing; p - y is divided by |B|
    in the update, as 16 bits leave only 13 steps from 0 to 1/5,000.
    ValueError for another number of holders or of private layers, or another truncation.

    >>> net = PiecewiseNet([2, 1], (4,), rng=torch.Generator().manual_seed(0))
    >>> shared = SecureML(net)
    >>> shared.prepare(
    ...     [torch.ones(5, 2).double(), torch.ones(5, 1).double()], torch.tensor([0, 1, 0, 1, 1])
    ... )
    >>> shared.step(torch.arange(4), lr=0.5)
    """

    def __init__(
        self,
        net: PiecewiseNet,
        *,
        private: int | None = None,
        truncation: str = "dealer",
        transcript: Transcript | None = None,
        stream: Stream | None = None,
    ):
        if len(net.holders) != len(NAMES):
            raise ValueError(f"SecureML is for 2 parties, got a net of {len(net.holders)} holders")
        one_of(TRUNCATIONS, truncation=truncation)
        layers = net.layers()
        one_of((None, *range(1, len(layers))), private=private)
        stream = Stream() if stream is None else stream
        self.kinds, self.truncation = net.kinds, truncation
        self.transcript = Transcript(keep="sizes") if transcript is None else transcript
        self._checked, self._pair = net.checked, TwoParties(self.transcript)
        self._dealer = TwoPartyDealer(self.transcript, stream=stream.derive("dealer"))
        self._own, self._of_deltas = stream.derive("weights"), stream.derive("deltas")
        # at the server, but the last layer, which is A's
        self._clear = nn.Sequential()
        if private is not None:  # net.hidden is an activation, a layer, an activation, ...
            self._clear = copy.deepcopy(
                nn.Sequential(*list(net.hidden)[2 * (private - 1) :], net.output)
            )
        self._start = layers[0][0]
        self._thetas = [self._shared(theta) for theta, _ in layers[:private]]
        self._biases = [self._shared(bias) for _, bias in layers[:private] if bias is not None]
        self._x, self._y = Opened(torch.empty(0, 0), []), torch.empty(0)

    def prepare(self, parts: Sequence[Tensor], y: Tensor) -> None:
        """Take the training rows: each holder opens its columns under a mask to the other, once;
        the labels stay with A.

        parts: (N, holders[i]) a holder, of the net's dtype, finite.  y: (N,) in {0, 1}.
        ValueError if they do not fit, or a product with the weights at the start could leave the
        fixed-point range.
        """
        parts = self._checked(parts)
        y = torch.as_tensor(y)
        if y.shape != (len(parts[0]),) or not bool(((y == 0) | (y == 1)).all()):
            raise ValueError(f"y must be ({len(parts[0])},) labels 0 or 1, got {y}")
        self._x, self._y = self._open_inputs(parts), y.long()

    def deal(self, rows: Tensor, *, lr: float) -> StepMasks:
        """The dealer's part of one step on these rows, which depends on no secret: what `step` does
        first by itself."""
        if not len(self._y):
            raise ValueError("SecureML has no rows yet: call prepare(parts, y) first")
        must_be("a finite number > 0", lr=lr)
        rows = row_numbers(rows, len(self._y))
        shift = min(max(math.ceil(math.log2(len(rows) / lr)) + FRACTIONAL_BITS, 1), 62)
        n_weights = sum(theta[0].numel() for theta in self._thetas)
        n_biases = sum(bias[0].numel() for bias in self._biases)
        return StepMasks(
            self._deal_layers(self._rows(rows).u, backward=True),
            rows,
            lr,
            shift,
            self._cut((n_weights,), FRACTIONAL_BITS),
            self._cut((n_weights + n_biases,), shift),
        )

    def step(self, rows: Tensor, *, lr: float, dealt: StepMasks | None = None) -> None:
        """One step of gradient descent on some of the prepared rows.

        rows: row numbers, (n,) int64.  lr: > 0, finite.  dealt: of `deal(rows, lr=lr)`; None: dealt
        now.
        ValueError if nothing was prepared, rows or lr is not accepted, or dealt is for others or
        was used before.
        """
        self.transcript.next_step()
        dealt, rows = dealt or self.deal(rows, lr=lr), torch.as_tensor(rows)
        if dealt.lr != lr or not torch.equal(dealt.rows, rows):
            raise ValueError(
                f"these StepMasks were dealt for other rows or for another lr: {dealt.lr}, not {lr}"
            )
        dealt.use()
        thetas = self._open_thetas(dealt.layers)
        inputs, slopes, p, z = self._forward(self._rows(rows), thetas, dealt.layers)
        if len(self._clear):
            delta = self._delta_in_clear(z, rows, lr)
        else:
            delta = [p[0] - self._y[rows][:, None] * ONE, p[1]]
        of_thetas: list[Shares] = []
        of_biases: list[Shares] = []
        for i in reversed(range(len(thetas))):
            masks = dealt.layers[i]
            seen = self._masked("delta - d", delta, masks.d)
            self._pair.next_round()
            of_thetas.insert(0, inputs[i].t().times(seen, masks.gradient))
            if i:
                of_biases.insert(0, [share.sum(dim=0) for share in delta])
                back = seen.times(thetas[i].t(), masks.back)
                back = self._truncated(back, FRACTIONAL_BITS, masks.cut_back)
                delta = shaped(slopes[i - 1].times(self._pair, flat([back])), back[0].shape)
        self._update(of_thetas, of_biases, lr / len(rows), dealt)

    def logits(self, parts: Sequence[Tensor]) -> Tensor:
        """Logits (N, 1) float64 of any rows, such as the test rows, revealed to A; the weights stay
        shared.  ValueError for logits beyond the head-room."""
        self.transcript.next_step()
        x = self._open_inputs(self._checked(parts))
        dealt = self._deal_layers(x.u, backward=False)
        *_, z = self._forward(x, self._open_thetas(dealt), dealt)
        if len(self._clear):
            with torch.no_grad():
                return self._clear[-1](self._to_last_layer(self._to_server(z)))
        self.transcript.send(NAMES[1], NAMES[0], "share of logits", z[1])
        return _in_room("the logits", decode(z[0] + z[1]))

    def copy_to(self, net: PiecewiseNet) -> None:
        """Reveal the weights to both parties, and put them into a net of the same shape.

        ValueError, and the net stays as it is, for weights beyond the head-room.
        """
        layers: list[Layer] = [(self._opened(self._thetas[0]), None)]
        for theta, bias in zip(self._thetas[1:], self._biases):
            layers.append((self._opened(theta), self._opened(bias)))
        net.load_layers([*layers, *linear_layers(self._clear)])

    def _opened(self, shares: Shares) -> Tensor:
        return _in_room("the weights", decode(self._pair.open("share of weights", shares)))

    def _delta_in_clear(self, z: Shares, rows: Tensor, lr: float) -> Shares:
        """The rest of the network: server and A compute and update it, the server shares out
        |B| dL/dz."""
        h = self._to_server(z).requires_grad_()
        last, weights = self._to_last_layer(h), list(self._clear.parameters())
        loss = PiecewiseNet.loss(self._clear[-1](last), self._y[rows]) * len(rows)
        of_h, of_last, *of_weights = torch.autograd.grad(loss, [h, last, *weights])
        self.transcript.send(NAMES[0], SERVER, "dL/dh_L", of_last)
        self._pair.next_round()
        with torch.no_grad():
            for weight, gradient in zip(weights, of_weights):
                weight.sub_(lr / len(rows) * gradient)
        delta = share(encode(of_h), stream=self._of_deltas)
        for name, part in zip(NAMES, delta):
            self.transcript.send(SERVER, name, "share of dL/dz", part)
        self._pair.next_round()
        return delta

    def _to_server(self, z: Shares) -> Tensor:
        for name, part in zip(NAMES, z):
            self.transcript.send(name, SERVER, "share of z", part)
        self._pair.next_round()
        return decode(z[0] + z[1])

    def _to_last_layer(self, h: Tensor) -> Tensor:
        """What the server computes from z_(i-1), and sends to A."""
        last = self._clear[:-1](h)
        self.transcript.send(SERVER, NAMES[0], "h_L", last.detach())
        self._pair.next_round()
        return last

    def _forward(
        self, x: Opened, thetas: list[Opened], dealt: list[LayerMasks]
    ) -> tuple[list[Opened], list[Slope], Shares, Shares]:
        """Every layer's input, the slopes of the hidden layers, and shares of the last layer's
        activation (of z, if it has no masks) and of z."""
        inputs: list[Opened] = []
        slopes: list[Slope] = []
        for i, (theta, masks) in enumerate(zip(thetas, dealt)):
            inputs.append(x)
            z = x.times(theta, masks.forward)
            if i:
                z = [z + b * ONE for z, b in zip(z, self._biases[i - 1])]
            z = out = self._truncated(z, FRACTIONAL_BITS, masks.cut)
            if masks.activation is not None:
                out, slope = activate(self._pair, flat([z]), masks.activation)
                out = shaped(out, z[0].shape)
                slopes.append(slope)
            if i + 1 < len(thetas):
                x = self._masked("a - u", out, dealt[i + 1].u)
                self._pair.next_round()
        return inputs, slopes, out, z

    def _update(
        self, of_thetas: list[Shares], of_biases: list[Shares], rate: float, dealt: StepMasks
    ) -> None:
        """theta <- theta - rate gradient;
        gradients of theta have 32 fractional bits, of biases 16."""
        moves = self._truncated(flat(of_thetas), FRACTIONAL_BITS, dealt.cut_gradient)
        if of_biases:
            moves = flat([moves, *of_biases])
        factor = round(rate * 2.0**dealt.shift)
        moved = self._truncated([share * factor for share in moves], dealt.shift, dealt.cut_update)
        targets = self._thetas + self._biases
        sizes = [target[0].numel() for target in targets]
        for party, steps in enumerate(moved):
            for target, step in zip(targets, steps.split(sizes)):
                target[party] = target[party] - step.view(target[party].shape)

    def _deal_layers(self, u: Shares, *, backward: bool) -> list[LayerMasks]:
        """Masks for each layer of one batch, u those of its rows."""
        n, dealt, dealer, last = len(u[0]), [], self._dealer, len(self._thetas) - 1
        for i, (theta, kind) in enumerate(zip(self._thetas, self.kinds)):
            d_in, width = theta[0].shape
            v = dealer.mask((d_in, width))
            d = dealer.mask((n, width)) if backward else []
            activation = None
            if i < last or (backward and not len(self._clear)):
                is_hidden = backward and i < last
                activation = deal_activation(dealer, n * width, kind, backward=is_hidden)
            masks = LayerMasks(
                u=u,
                v=v,
                forward=dealer.product(u, v),
                cut=self._cut((n, width), FRACTIONAL_BITS),
                activation=activation,
                d=d,
                gradient=dealer.product([m.t() for m in u], d) if backward else [],
                back=[],
                cut_back=None,
            )
            if backward and i:
                masks.back = dealer.product(d, [m.t() for m in v])
                masks.cut_back = self._cut((n, d_in), FRACTIONAL_BITS)
            dealt.append(masks)
            if i < last:
                u = dealer.mask((n, width))
        return dealt

    def _open_inputs(self, parts: list[Tensor]) -> Opened:
        """X - U: each holder masks its own columns and sends them; its share of U is 0 in the
        other's columns."""
        own = []
        for part, stream in zip(parts, self._dealer.streams(2)):
            check_product(row_reach(part), self._start, n_terms=len(parts), bits=_ROOM)
            own.append(stream.words(tuple(part.shape)))
        seen = [encode(part) - mask for part, mask in zip(parts, own)]
        for sender, receiver, masked in zip(NAMES, reversed(NAMES), seen):
            self.transcript.send(sender, receiver, "X - U", masked)
        self._pair.next_round()
        a, b = own
        u = [torch.cat([a, torch.zeros_like(b)], 1), torch.cat([torch.zeros_like(a), b], 1)]
        return Opened(torch.cat(seen, dim=1), u)

    def _open_thetas(self, dealt: list[LayerMasks]) -> list[Opened]:
        opened = [
            self._masked("theta - v", theta, masks.v) for theta, masks in zip(self._thetas, dealt)
        ]
        self._pair.next_round()
        return opened

    def _masked(self, name: str, shares: Shares, masks: Shares) -> Opened:
        return Opened(self._pair.open(name, [x - u for x, u in zip(shares, masks)]), masks)

    def _rows(self, rows: Tensor) -> Opened:
        return Opened(self._x.seen[rows], [u[rows] for u in self._x.u])

    def _cut(self, shape: tuple[int, ...], bits: int) -> TruncationPair | None:
        return self._dealer.truncation_pair(shape, bits) if self.truncation == "dealer" else None

    def _truncated(self, shares: Shares, bits: int, pair: TruncationPair | None) -> Shares:
        if pair is None:
            return truncate(shares, bits)
        pair.use()
        masked = [with_mask(party, z, r) for party, (z, r) in enumerate(zip(shares, pair.mask))]
        c = self._pair.open("z + r", masked)
        self._pair.next_round()
        parts = enumerate(zip(pair.high, pair.top))
        return [truncated_part(party, c, high, top, bits) for party, (high, top) in parts]

    def _shared(self, weights: Tensor) -> Shares:
        shares = share(encode(weights), stream=self._own)
        self.transcript.send(NAMES[0], NAMES[1], "share of weights", shares[1])
        return shares


def _in_room(what: str, values: Tensor) -> Tensor:
    """The same values.  ValueError for one beyond the head-room: on the way there products went
    round the ring."""
    largest = float(values.abs().max())
    if largest >= _HEAD_ROOM:
        raise ValueError(
            f"{what} reach {largest:.3g}, and shares have room below {_HEAD_ROOM:.3g} only: the "
            "training has run away, take a smaller lr"
        )
    return values
