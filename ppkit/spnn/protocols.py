"""The first layer h1 = X_1 theta_1 + ... + X_k theta_k by protocol: one name, one class, one
interface; whole, or by sides."""

from collections.abc import Sequence

import torch

from ppkit.refusals import one_of

from .dealerless import Dealerless
from .encrypted import Encrypted
from .in_process import Plain, Protocol
from .lean import Lean
from .masked import Masked
from .messages import DEALER, SERVER
from .published import Published
from .randomness import Stream
from .sides import Side, check_parties

PROTOCOLS = ("plain", "ss", "he", "masked")
FORMS = ("published", "lean", "dealerless")


def protocol_of(
    name: str, holders: Sequence[int], *, form: str | None = None, **choices
) -> Protocol:
    """The protocol object of this name, all parties in one process.

    name: one of PROTOCOLS.  form: of "ss", "published" (Algorithm 2), "lean" or
    "dealerless" (Algorithm 2, for two holders), default "lean".
    holders: columns of each.
    choices: transcript, stream, dtype, and what the protocol itself takes (truncation; key_bits,
    value_bits, elementwise, keys, pool, teaching).
    ValueError for an unknown name or form, TypeError for a choice that the protocol does not know.
    """
    return _class_of(name, form)(holders, **choices)


def side_of(
    role: str,
    *,
    protocol: str,
    form: str | None = None,
    names: Sequence[str],
    columns: Sequence[int],
    width: int,
    stream: Stream | None = None,
    dtype: torch.dtype = torch.float32,
    **choices,
) -> Side:
    """One party's side of a protocol, with nothing of the others: what a process of its own runs.

    A holder: connect() once, load(X) and prepare() once per data set, step(rows, theta) for every
    batch; deal(rows), for "ss", takes what was dealt ahead of a step. The server: connect(),
    prepare(n_rows), step(n), which returns h1.
    The dealer, for "ss": connect(), prepare(n_rows), deal(rows) for every batch. All but load give
    a Program.
    role: a holder's name, "server" or "dealer".  protocol, form, choices: as in `protocol_of`, but
    elementwise; a choice of another party's side is accepted and left aside.  names, columns: of
    all holders, in one order at all parties.
    width: of h1, >= 1.  stream: the root secret of this role alone;
    None: the operating system's CSPRNG.
    The same messages as in process come out where stream is `Protocol`'s stream.derive(role).
    ValueError for fewer than two holders, a holder without columns or a role that the protocol has
    not, TypeError for an unknown choice.

    >>> side_of("A", protocol="masked", names=["A", "B"], columns=[14, 14], width=8).others
    ['B']
    """
    check_parties(list(columns))
    return _class_of(protocol, form).side(
        role, names=names, columns=columns, width=width, stream=stream, dtype=dtype, **choices
    )


def names_received(
    role: str,
    *,
    protocol: str,
    form: str | None = None,
    names: Sequence[str],
    label_holder: str | None = None,
    truncation: str | None = None,
) -> dict[str, set[str]]:
    """Which messages a role gets in a whole training, by sender: {sender: names}; whatever else
    comes is no part of it.

    label_holder: the name of the holder that gets h_L and sends its gradient back; None: the first
    layer's messages alone, without dL/dh1.  truncation: of form "published", as in `protocol_of`.
    ValueError for an unknown protocol or form.

    >>> names_received("B", protocol="masked", names=["A", "B"], label_holder="A")
    {'A': {'seed'}, 'server': {'dL/dh1'}}
    """
    kind, names = _class_of(protocol, form), list(names)
    received = {sender: set() for sender in (*names, SERVER, DEALER)}
    for sender, to, name in kind.messages(names, truncation):
        if to == role:
            received[sender].add(name)
    if label_holder is not None and role == SERVER:
        received[label_holder].add("dL/dh_L")
    elif label_holder is not None and role != DEALER:
        received[SERVER] |= {"dL/dh1", "h_L"} if role == label_holder else {"dL/dh1"}
    return {sender: expected for sender, expected in received.items() if expected}


def _class_of(name: str, form: str | None) -> type[Protocol]:
    one_of(PROTOCOLS, protocol=name)
    if form is not None and name != "ss":
        raise ValueError(f"form is a choice of protocol 'ss', got form={form!r} with {name!r}")
    one_of((None, *FORMS), form=form)
    ss = {"published": Published, "dealerless": Dealerless}
    return {"plain": Plain, "ss": ss.get(form, Lean), "he": Encrypted, "masked": Masked}[name]
