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
from types import SimpleNamespace

import torch
from torch import nn

from ppkit.refusals import must_be, one_of

from .comparison import ONE, Slope, activate, deal_activation
from .dealer import NAMES, Once, Shares, TruncationPair, TwoPartyDealer
from .fixed_point import FRACTIONAL_BITS, check_product, decode, encode, row_reach
from .messages import SERVER, Transcript
from .randomness import Stream
from .rivals import PiecewiseNet, linear_layers
from .sharing import TRUNCATIONS, Opened, TwoParties, flat, shaped, share, truncate
from .sides import check_rows

_ROOM = 63  # bits of a product that every truncation takes
_HEAD_ROOM = 2.0**29  # of a sum of products and of a weight


@dataclass
class StepMasks(Once):
    """All that is dealt for one batch, layer by layer as `SecureML._deal_layers` says.  The rest is
    for training: rows, lr, and shift, the bits by which lr/|B| is scaled up."""

    layers: list[SimpleNamespace]
    rows: torch.Tensor | None = None
    lr: float = 0.0
    shift: int = 0
    cut_gradient: TruncationPair | None = None
    cut_update: TruncationPair | None = None


class SecureML:
    """Full training on shares mod 2^64: two parties, semi-honest, with a dealer.

    net: a PiecewiseNet of two holders; A shares out its weights as they are now, and the net is
    left as it is (whoever drew them knows the start, as in zhou2021).
    private: i, layers on shares, from the first, 1 to all but the output; None: all, output and
    loss too.
    truncation: "dealer" (never fails, 8 bytes more a number), "secureml" or "floor"
    (`sharing.truncate`).  transcript: where messages are written down; None: sizes only, in
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
        self.kinds, self.truncation = net.kinds, truncation
        self._clear: nn.Sequential | None = None  # at the server, but the last layer, which is A's
        if private is not None:  # net.hidden is an activation, a layer, an activation, ...
            self._clear = copy.deepcopy(nn.Sequential(*net.hidden[2 * (private - 1) :], net.output))
        self.transcript = transcript if transcript is not None else Transcript(keep="sizes")
        self._checked, self._pair = net._checked, TwoParties(self.transcript)
        self._dealer = TwoPartyDealer(
            self.transcript, stream=None if stream is None else stream.derive("dealer")
        )
        self._own = None if stream is None else stream.derive("weights")
        self._deltas = None if stream is None else stream.derive("deltas")
        self._start = layers[0][0].detach()
        self._thetas = [self._shared(theta) for theta, _ in layers[:private]]
        self._biases = [None if b is None else self._shared(b) for _, b in layers[:private]]
        self._x: Opened | None = None

    def prepare(self, parts: Sequence[torch.Tensor], y: torch.Tensor) -> None:
        """Take the training rows: each holder opens its columns under a mask to the other, once;
        the labels stay with A.

        parts: (N, holders[i]) a holder, of the net's dtype, finite.  y: (N,) in {0, 1}.
        ValueError if they do not fit, or a product with the weights at the start could leave the
        fixed-point range.
        """
        parts = self._checked(parts)
        y = torch.as_tensor(y)
        if y.shape != (len(parts[0]),) or not bool(((y == 0) | (y == 1)).all()):
            raise ValueError(
                f"y must be ({len(parts[0])},) labels 0 or 1, got shape {tuple(y.shape)}, "
                f"values {y.unique()[:5].tolist()}"
            )
        self._x, self._y = self._open_inputs(parts), y.long()

    def deal(self, rows: torch.Tensor, *, lr: float) -> StepMasks:
        """The dealer's part of one step on these rows, which depends on no secret: what `step` does
        first by itself."""
        if self._x is None:
            raise ValueError("SecureML has no rows yet: call prepare(parts, y) first")
        must_be("a finite number > 0", lr=lr)
        check_rows(rows, len(self._y))
        rows = torch.as_tensor(rows)
        shift = min(max(math.ceil(math.log2(len(rows) / lr)) + FRACTIONAL_BITS, 1), 62)
        n_weights = sum(theta[0].numel() for theta in self._thetas)
        n_biases = sum(bias[0].numel() for bias in self._biases if bias is not None)
        return StepMasks(
            self._deal_layers(self._rows(rows).u, backward=True),
            rows,
            lr,
            shift,
            self._cut(n_weights, FRACTIONAL_BITS),
            self._cut(n_weights + n_biases, shift),
        )

    def step(self, rows: torch.Tensor, *, lr: float, dealt: StepMasks | None = None) -> None:
        """One step of gradient descent on some of the prepared rows.

        rows: row numbers, (n,) int64.  lr: > 0, finite.  dealt: of `deal(rows, lr=lr)`; None: dealt
        now.
        ValueError if nothing was prepared, rows or lr is not accepted, or dealt is for others or
        was used before.
        """
        self.transcript.next_step()
        dealt, rows = dealt if dealt is not None else self.deal(rows, lr=lr), torch.as_tensor(rows)
        if dealt.lr != lr or not torch.equal(dealt.rows, rows):
            raise ValueError(
                f"these StepMasks were dealt for other rows or for another lr: {dealt.lr}, not {lr}"
            )
        dealt.use()
        x, thetas = self._rows(rows), self._open_thetas(dealt)
        inputs, slopes, p, z = self._forward(x, thetas, dealt)
        delta = (
            self._delta_in_clear(z, rows, lr)
            if p is None
            else [p[0] - self._y[rows][:, None] * ONE, p[1]]
        )
        gradients = [None] * len(thetas)
        of_biases: list[Shares] = []
        for i in reversed(range(len(thetas))):
            masks = dealt.layers[i]
            seen = self._masked("delta - d", delta, masks.d)
            self._pair.next_round()
            gradients[i] = inputs[i].t().times(seen, masks.gradient)
            if self._biases[i] is not None:
                of_biases.insert(0, [share.sum(dim=0) for share in delta])
            if i:
                back = self._truncated(
                    seen.times(thetas[i].t(), masks.back), FRACTIONAL_BITS, masks.cut_back
                )
                delta = shaped(slopes[i - 1].times(self._pair, flat([back])), back[0].shape)
        self._update(gradients, of_biases, lr / len(rows), dealt)

    def logits(self, parts: Sequence[torch.Tensor]) -> torch.Tensor:
        """Logits (N, 1) float64 of any rows, such as the test rows, revealed to A; the weights stay
        shared.  ValueError for logits beyond the head-room."""
        self.transcript.next_step()
        x = self._open_inputs(self._checked(parts))
        dealt = StepMasks(self._deal_layers(x.u, backward=False))
        *_, z = self._forward(x, self._open_thetas(dealt), dealt)
        if self._clear is not None:
            with torch.no_grad():
                return self._clear[-1](self._to_last_layer(self._to_server(z)))
        opened = z[0] + self.transcript.send(NAMES[1], NAMES[0], "share of logits", z[1])
        return _in_room("the logits", decode(opened))

    def copy_to(self, net: PiecewiseNet) -> None:
        """Reveal the weights to both parties, and put them into a net of the same shape.

        ValueError, and the net stays as it is, for weights beyond the head-room.
        """
        opened = [
            [
                None if shares is None else self._pair.open("share of weights", shares)
                for shares in pair
            ]
            for pair in zip(self._thetas, self._biases)
        ]
        private = [
            [None if z is None else _in_room("the weights", decode(z)) for z in pair]
            for pair in opened
        ]
        net.load_layers([*private, *linear_layers(self._clear or [])])

    def _delta_in_clear(self, z: Shares, rows: torch.Tensor, lr: float) -> Shares:
        """The rest of the network: server and A compute and update it, the server shares out
        |B| dL/dz."""
        h = self._to_server(z).requires_grad_()
        self._clear.zero_grad()
        last = self._to_last_layer(h)
        last.retain_grad()
        (PiecewiseNet.loss(self._clear[-1](last), self._y[rows]) * len(rows)).backward()
        self.transcript.send(NAMES[0], SERVER, "dL/dh_L", last.grad)
        self._pair.next_round()
        with torch.no_grad():
            for p in self._clear.parameters():
                p -= lr / len(rows) * p.grad
        delta = share(encode(h.grad), stream=self._deltas)
        for name, part in zip(NAMES, delta):
            self.transcript.send(SERVER, name, "share of dL/dz", part)
        self._pair.next_round()
        return delta

    def _to_server(self, z: Shares) -> torch.Tensor:
        for name, part in zip(NAMES, z):
            self.transcript.send(name, SERVER, "share of z", part)
        self._pair.next_round()
        return decode(z[0] + z[1])

    def _to_last_layer(self, h: torch.Tensor) -> torch.Tensor:
        """What the server computes from z_(i-1), and sends to A."""
        last = self._clear[:-1](h)
        self.transcript.send(SERVER, NAMES[0], "h_L", last.detach())
        self._pair.next_round()
        return last

    def _forward(
        self, x: Opened, thetas: list[Opened], dealt: StepMasks
    ) -> tuple[list[Opened], list[Slope], Shares, Shares]:
        """Every layer's input, the slopes of the hidden layers, and shares of p (if it has masks)
        and of the logits."""
        inputs, slopes = [x], []
        for i, (theta, bias, masks) in enumerate(zip(thetas, self._biases, dealt.layers)):
            z = inputs[-1].times(theta, masks.forward)
            if bias is not None:
                z = [z + b * ONE for z, b in zip(z, bias)]
            z = self._truncated(z, FRACTIONAL_BITS, masks.cut)
            if masks.activation is None:
                return inputs, slopes, None, z
            out, slope = activate(self._pair, flat([z]), masks.activation)
            out = shaped(out, z[0].shape)
            if i + 1 < len(thetas):
                slopes.append(slope)
                inputs.append(self._masked("a - u", out, dealt.layers[i + 1].u))
                self._pair.next_round()
        return inputs, slopes, out, z

    def _update(
        self, gradients: list[Shares], of_biases: list[Shares], rate: float, dealt: StepMasks
    ) -> None:
        """theta <- theta - rate gradient;
        gradients of theta have 32 fractional bits, of biases 16."""
        moves = self._truncated(flat(gradients), FRACTIONAL_BITS, dealt.cut_gradient)
        if of_biases:
            moves = [torch.cat(pair) for pair in zip(moves, flat(of_biases))]
        factor = round(rate * 2.0**dealt.shift)
        moved = self._truncated([share * factor for share in moves], dealt.shift, dealt.cut_update)
        targets = self._thetas + [bias for bias in self._biases if bias is not None]
        sizes = [target[0].numel() for target in targets]
        for party, steps in enumerate(moved):
            for target, step in zip(targets, steps.split(sizes)):
                target[party] = target[party] - step.view(target[party].shape)

    def _deal_layers(self, u: Shares, *, backward: bool) -> list[SimpleNamespace]:
        """For each layer of one batch masks u of its input, v of theta, d of delta, and shares of
        products.

        forward: of u v.  gradient: of u^T d.  back: of d v^T.  cut, cut_back: to truncate z, and
        delta theta^T; None where a local truncation needs nothing.  Backward masks are None where
        nothing goes backward, activation where only logits are wanted.
        """
        n, dealt, dealer, last = len(u[0]), [], self._dealer, len(self._thetas) - 1
        for i, (theta, kind) in enumerate(zip(self._thetas, self.kinds)):
            out, hidden = (n, theta[0].shape[1]), backward and i > 0
            v, d = dealer.mask(tuple(theta[0].shape)), dealer.mask(out) if backward else None
            activation = (
                deal_activation(dealer, math.prod(out), kind, backward=backward and i < last)
                if i < last or (backward and self._clear is None)
                else None
            )
            dealt.append(
                SimpleNamespace(
                    u=u,
                    v=v,
                    forward=dealer.product(u, v),
                    cut=self._cut(out, FRACTIONAL_BITS),
                    activation=activation,
                    d=d,
                    gradient=dealer.product([m.t() for m in u], d) if backward else None,
                    back=dealer.product(d, [m.t() for m in v]) if hidden else None,
                    cut_back=self._cut((n, theta[0].shape[0]), FRACTIONAL_BITS) if hidden else None,
                )
            )
            u = dealer.mask(out) if i < last else u
        return dealt

    def _open_inputs(self, parts: list[torch.Tensor]) -> Opened:
        """X - U: each holder masks its own columns and sends them; its share of U is 0 in the
        other's columns."""
        for part in parts:
            check_product(row_reach(part), self._start, n_terms=len(parts), bits=_ROOM)
        seen, u, widths = [], [], [part.shape[1] for part in parts]
        for party, part in enumerate(parts):
            own = self._dealer.streams(2)[party].words(tuple(part.shape))
            seen.append(
                self.transcript.send(NAMES[party], NAMES[1 - party], "X - U", encode(part) - own)
            )
            zeros = [torch.zeros(len(part), width, dtype=torch.int64) for width in widths]
            u.append(torch.cat([*zeros[:party], own, *zeros[party + 1 :]], dim=1))
        self._pair.next_round()
        return Opened(torch.cat(seen, dim=1), u)

    def _open_thetas(self, dealt: StepMasks) -> list[Opened]:
        opened = [
            self._masked("theta - v", theta, masks.v)
            for theta, masks in zip(self._thetas, dealt.layers)
        ]
        self._pair.next_round()
        return opened

    def _masked(self, name: str, shares: Shares, masks: Shares) -> Opened:
        return Opened(self._pair.open(name, [x - u for x, u in zip(shares, masks)]), masks)

    def _rows(self, rows: torch.Tensor) -> Opened:
        return Opened(self._x.seen[rows], [u[rows] for u in self._x.u])

    def _cut(self, shape: int | tuple[int, ...], bits: int) -> TruncationPair | None:
        return self._dealer.truncation_pair(shape, bits) if self.truncation == "dealer" else None

    def _truncated(self, shares: Shares, bits: int, pair: TruncationPair | None) -> Shares:
        shares = truncate(shares, bits, how=self.truncation, pair=pair, open=self._pair.open)
        if pair is not None:
            self._pair.next_round()
        return shares

    def _shared(self, weights: torch.Tensor) -> Shares:
        shares = share(encode(weights), stream=self._own)
        self.transcript.send(NAMES[0], NAMES[1], "share of weights", shares[1])
        return shares


def _in_room(what: str, values: torch.Tensor) -> torch.Tensor:
    """The same values.  ValueError for one beyond the head-room: on the way there products went
    round the ring."""
    largest = float(values.abs().max())
    if largest >= _HEAD_ROOM:
        raise ValueError(
            f"{what} reach {largest:.3g}, and shares have room below {_HEAD_ROOM:.3g} only: the "
            "training has run away, take a smaller lr"
        )
    return values
