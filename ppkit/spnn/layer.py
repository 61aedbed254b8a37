"""The first layer as a torch module whose weights stay with the holders, the whole network of three
parts, and what one step costs by every protocol."""

from collections.abc import Sequence

import pandas as pd
import torch
from torch import Tensor, nn

from ppkit.models import activations, mlp
from ppkit.spnn.messages import DEALER, SERVER, Transcript, holder_names
from ppkit.spnn.paillier_keys import SECURE_BITS, PrivateKey
from ppkit.spnn.party import Rows, Setup
from ppkit.spnn.protocols import simulator_of
from ppkit.spnn.randomness import Stream
from ppkit.spnn.ring import total
from ppkit.validation import one_of

KINDS = ("plain", "ss, published", "ss, lean", "masked", "he")  # protocol, form


class FirstLayer(nn.Module):
    """h1 = X_1 theta_1 + ... + X_k theta_k, computed by the chosen protocol; loss.backward()
    reaches every theta_i.

    backward: the server sends G = dL/dh1 to each holder,
        and holder i computes dL/dtheta_i = X_i^T G by itself

    holders: columns of each holder, k >= 2.  width: of h1, >= 1.  protocol: one of
    protocols.PROTOCOLS; form: of "ss", one of protocols.FORMS, default "lean".
    rng: draws theta, the same numbers for every protocol and every way to split the columns.
    key_bits, teaching, keys: of Paillier's, where the protocol has them: the length, >= 2,048,
    below only with teaching=True; a PrivateKey to use instead of making one.
    dtype: torch.float32 or torch.float64, of X, theta and what forward returns.
    stream: source of all secrets; None: the operating system's CSPRNG;
    a seeded one is for teaching only.
    transcript: where messages are written down; None: a new one that keeps sizes only.
    theta: a ParameterList, theta[i] (d_i, width) stays with holder i.  h1: after a forward pass,
    what the server got, outside autograd; after backward h1.grad is what the holders got.
    Start: theta ~ U(-1/sqrt(d), 1/sqrt(d)), d = sum of d_i.
    ValueError where an argument is out of range.
    Source: zhou2021, Fig. 4 and section 4.3. As there, the layer has no bias.

    >>> layer = FirstLayer([2, 1], 4, protocol="masked", rng=torch.Generator().manual_seed(0))
    >>> layer.prepare([torch.ones(5, 2), torch.ones(5, 1)])
    >>> layer([0, 3]).sum().backward()
    >>> layer.theta[1].grad.tolist()
    [[2.0, 2.0, 2.0, 2.0]]
    """

    h1: Tensor

    def __init__(
        self,
        holders: Sequence[int],
        width: int,
        *,
        rng: torch.Generator,
        protocol: str = "ss",
        form: str | None = None,
        dtype: torch.dtype = torch.float32,
        stream: Stream | None = None,
        transcript: Transcript | None = None,
        key_bits: int = SECURE_BITS,
        teaching: bool = False,
        keys: PrivateKey | None = None,
    ):
        super().__init__()
        self.transcript = Transcript(keep="sizes") if transcript is None else transcript
        setup = Setup(
            names=holder_names(len(holders)),
            columns=holders,
            width=width,
            stream=stream,
            dtype=dtype,
            key_bits=key_bits if keys is None else keys.public.bits,
            teaching=teaching,
            keys=keys,
        )
        self.protocol = simulator_of(
            setup, protocol=protocol, form=form, transcript=self.transcript
        )
        weight = mlp((sum(holders), width), rng=rng, dtype=dtype).get_parameter("0.weight")
        parts = weight.detach().split(list(holders), dim=1)
        self.theta = nn.ParameterList(nn.Parameter(part.T.contiguous()) for part in parts)

    def prepare(self, X_parts: Sequence[Tensor]) -> None:
        """Give each holder its columns (N, d_i) of the data set, once; rows in the same order at
        all of them.

        ValueError that names the holder, if shapes or row counts do not fit or a value is not
        finite.
        """
        self.protocol.prepare(X_parts)

    def forward(self, rows: Rows) -> Tensor:
        """h1 of these rows of the data set, at the server: (n, width).  rows: a slice, row numbers,
        or a tensor of them."""
        self.transcript.next_step()
        return _ByProtocol.apply(self, rows, *self.theta)


class _ByProtocol(torch.autograd.Function):
    """Autograd's view of a protocol: it sees no shares, masks or ciphertexts, only h1 and each
    holder's own X_i^T G."""

    @staticmethod
    def forward(ctx, layer, rows, *thetas):
        h1 = layer.protocol.forward(rows, thetas)
        ctx.transcript, ctx.seen = layer.transcript, h1.detach()
        ctx.holders = [(holder.name, holder.batch) for holder in layer.protocol.holders]
        layer.h1 = ctx.seen
        return h1

    @staticmethod
    def backward(ctx, G):
        ctx.seen.grad = G
        ctx.transcript.next_round()
        gradients = []
        for (name, X), is_needed in zip(ctx.holders, ctx.needs_input_grad[2:]):
            ctx.transcript.send(SERVER, name, "dL/dh1", G)
            gradients.append((G.T @ X).T if is_needed else None)
        return None, None, *gradients


def hand_over(
    h: Tensor, transcript: Transcript, sender: str, receiver: str, name: str, *, seen: Tensor
) -> Tensor:
    """The same tensor, sent from one party to another; its gradient dL/d(name) travels back in the
    backward pass.

    What Fig. 4 of the paper writes as h.to("client_a"). Returns h with both messages written down,
    each in a new round.
    seen: a tensor that gets the gradient as its .grad, for who wants to look at it: h.detach().
    """
    transcript.next_round()
    transcript.send(sender, receiver, name, h)
    handed = h.view_as(h)

    def back(gradient: Tensor) -> None:
        seen.grad = gradient
        transcript.next_round()
        transcript.send(receiver, sender, f"dL/d{name}", gradient)

    if handed.requires_grad:
        handed.register_hook(back)
    return handed


class SPNN(nn.Module):
    """The network in three parts: the holders' first layer, the server's hidden layers,
    the label holder's output.

    h1 = X theta at the server by protocol;  h_L = f(h1) on the server;
    logits = h_L w + b at the label holder

    holders, protocol, form, rng, dtype, stream, transcript, key_bits, teaching, keys: as in
    `FirstLayer`; the start is that of `models.mlp` with the same rng, for every protocol and every
    way to split the columns.
    hidden: widths of the hidden layers, the first is h1's, e.g. (8, 8).  activation: one of
    models.ACTIVATIONS for all hidden layers, or one each.  n_outputs: logits, 1 for a binary task,
    else one a class.
    label_holder: number of the holder with the labels.
    first, hidden, output: the three parts; the loss is the label holder's to compute, from the
    logits. For layers of your own put any module from (n, hidden[0]) to (n, hidden[-1]) in the
    place of `hidden`. After a forward pass h1 and h_last are what the server and the label holder
    got, outside autograd; after backward their .grad was sent back.
    ValueError where an argument is out of range, or no holder has the labels.
    Source: zhou2021, Algorithm 1, Fig. 4 and equations 3 and 4.

    >>> net = SPNN([2, 1], (4, 3), protocol="masked", rng=torch.Generator().manual_seed(0))
    >>> net.prepare([torch.ones(5, 2), torch.ones(5, 1)])
    >>> tuple(net([0, 3]).shape)
    (2, 1)
    """

    h_last: Tensor

    def __init__(
        self,
        holders: Sequence[int],
        hidden: Sequence[int] = (8, 8),
        *,
        rng: torch.Generator,
        protocol: str = "ss",
        form: str | None = None,
        activation: str | Sequence[str] = "sigmoid",
        n_outputs: int = 1,
        label_holder: int = 0,
        dtype: torch.dtype = torch.float32,
        stream: Stream | None = None,
        transcript: Transcript | None = None,
        key_bits: int = SECURE_BITS,
        teaching: bool = False,
        keys: PrivateKey | None = None,
    ):
        super().__init__()
        widths = tuple(hidden)
        if not widths or any(width < 1 for width in widths) or n_outputs < 1:
            raise ValueError(
                f"hidden must be at least one width >= 1 and n_outputs >= 1, got {widths} and "
                f"{n_outputs}"
            )
        kinds = activations(activation, len(widths))
        one_of(range(len(holders)), label_holder=label_holder)
        self.first = FirstLayer(
            holders,
            widths[0],
            rng=rng,
            protocol=protocol,
            form=form,
            dtype=dtype,
            stream=stream,
            transcript=transcript,
            key_bits=key_bits,
            teaching=teaching,
            keys=keys,
        )
        self.transcript = self.first.transcript
        self.label_holder = self.first.protocol.holders[label_holder].name
        names = activation if isinstance(activation, str) else list(activation)[1:]
        rest = mlp((*widths, n_outputs), rng=rng, activation=names, dtype=dtype)
        self.hidden, self.output = nn.Sequential(kinds[0], *list(rest)[:-1]), rest[-1]

    @property
    def h1(self) -> Tensor:
        """What the server got in the last forward pass, before the activation; .grad after
        backward."""
        return self.first.h1

    @property
    def theta(self) -> nn.ParameterList:
        """The holders' weights: theta[i] (d_i, width) is holder i's."""
        return self.first.theta

    def prepare(self, X_parts: Sequence[Tensor]) -> None:
        """Give each holder its columns of the data set, once, test rows too if they are to go
        through the protocol."""
        self.first.prepare(X_parts)

    def forward(self, rows: Rows) -> Tensor:
        """Logits of these rows at the label holder: (n, n_outputs)."""
        h_L = self.hidden(self.first(rows))
        self.h_last = h_L.detach()
        return self.output(
            hand_over(h_L, self.transcript, SERVER, self.label_holder, "h_L", seen=self.h_last)
        )

    @torch.no_grad()
    def logits(self, X_parts: Sequence[Tensor]) -> Tensor:
        """Logits (N, n_outputs) of any rows, in plaintext and without messages: for measuring by
        who has all columns.  ValueError for parts that do not fit the holders."""
        shapes, widths = [tuple(X.shape) for X in X_parts], [len(theta) for theta in self.theta]
        if shapes != [(len(X_parts[0]), width) for width in widths]:
            raise ValueError(
                f"parts must have {' + '.join(map(str, widths))} columns and the same rows, got "
                f"shapes {shapes}"
            )
        parts = [X.to(theta.dtype) @ theta for X, theta in zip(X_parts, self.theta, strict=True)]
        return self.output(self.hidden(total(parts)))


def costs(
    holders: Sequence[int] = (14, 14),
    width: int = 8,
    *,
    n_rows: int = 5_000,
    kinds: Sequence[str] = KINDS,
    keys: PrivateKey | None = None,
) -> pd.DataFrame:
    """One training step of the first layer by every protocol, counted from the messages it sends.

    holders: columns of each.  width: of h1.  n_rows: the data set is one batch of so many random
    rows; all counts depend on sizes only.  kinds: some of KINDS.  keys: those of protocol "he",
    which takes seconds at the default sizes; None: new ones.
    Returns one row a kind: bytes of one step by link (between holders; holders to server; server to
    holders, which is the gradient of h1 to each), rounds of the forward pass, bytes once per data
    set, bytes of the dealer in a step (offline), compute in words, and who learns what, as stated.

    >>> table = costs((2, 1), 4, n_rows=10, kinds=("plain", "masked"))
    >>> table.loc["masked", ["between holders", "to server", "rounds", "once"]].tolist()
    [0, 320, 1, 32]
    """
    return pd.DataFrame({kind: _counted(kind, holders, width, n_rows, keys) for kind in kinds}).T


def _counted(
    kind: str, holders: Sequence[int], width: int, n_rows: int, keys: PrivateKey | None
) -> dict:
    protocol, _, form = kind.partition(", ")
    rng = torch.Generator().manual_seed(0)
    layer = FirstLayer(holders, width, rng=rng, protocol=protocol, form=form or None, keys=keys)
    layer.prepare([torch.randn(n_rows, columns, generator=rng) for columns in holders])
    layer(slice(None)).sum().backward()
    sent = layer.transcript.table()
    step = sent[sent["step"] == 1]
    online = step[step["phase"] == "online"]
    from_server, to_server = online["sender"] == SERVER, online["receiver"] == SERVER
    n_bytes = lambda table: int(table["n_bytes"].sum())
    return {
        "between holders": n_bytes(online[~(from_server | to_server)]),
        "to server": n_bytes(online[to_server]),
        "from server": n_bytes(online[from_server]),
        "rounds": online[~from_server]["round"].nunique(),
        "once": n_bytes(sent[sent["step"] == 0]),
        "dealer": n_bytes(step[step["sender"] == DEALER]),
        "compute": layer.protocol.compute,
        "who learns what": f"{layer.protocol.sees}; all holders: dL/dh1",
    }
