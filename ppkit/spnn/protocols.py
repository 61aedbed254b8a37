"""The first layer h1 = X_1 theta_1 + ... + X_k theta_k by protocol: one name, one class, one
interface; whole, or by parties."""

from collections.abc import Sequence

from ppkit.spnn.dealerless import Dealerless
from ppkit.spnn.encrypted import Encrypted
from ppkit.spnn.lean import Lean
from ppkit.spnn.masked import Masked
from ppkit.spnn.messages import SERVER, Transcript
from ppkit.spnn.party import DealerParty, Holder, Server, Setup
from ppkit.spnn.published import Published
from ppkit.spnn.simulator import Plain, Simulator
from ppkit.validation import one_of

PROTOCOLS = ("plain", "ss", "he", "masked")
FORMS = {"published": Published, "lean": Lean, "dealerless": Dealerless}


def simulator_of(
    setup: Setup, *, protocol: str, form: str | None = None, transcript: Transcript
) -> Simulator:
    """All parties of a protocol in one process.

    protocol: one of PROTOCOLS.  form: of "ss", "published" (Algorithm 2), "lean" or "dealerless"
    (Algorithm 2, for two holders), default "lean".  ValueError for an unknown one.
    """
    return _class_of(protocol, form)(setup, transcript)


def party_of(
    role: str, setup: Setup, *, protocol: str, form: str | None = None
) -> Holder | Server | DealerParty:
    """One party of a protocol, with nothing of the others: what a process of its own runs.

    A holder: connect() once, load(X) and prepare() once per data set, step(rows, theta) for every
    batch. The server: connect(), prepare(n_rows), step(n), which returns h1.
    The dealer, for "ss": connect(), prepare(n_rows), deal(rows) for every batch. All but load give
    a Program.
    role: a holder's name, "server" or "dealer".  setup: what this party has; its stream is the root
    secret of this role alone.  protocol, form: as in `simulator_of`.
    The same messages as in process come out where stream is the simulator's stream.derive(role).
    ValueError for a role that the protocol has not.

    >>> party_of("A", Setup(["A", "B"], [14, 14], 8), protocol="masked").others
    ['B']
    """
    return _class_of(protocol, form).party(role, setup)


def names_received(
    role: str,
    *,
    protocol: str,
    form: str | None = None,
    names: Sequence[str],
    label_holder: str | None = None,
) -> dict[str, set[str]]:
    """Which messages a role gets in a whole training, by sender: {sender: names}; whatever else
    comes is no part of it.

    label_holder: the name of the holder that gets h_L and sends its gradient back; None: the first
    layer's messages alone, without dL/dh1.
    ValueError for an unknown protocol or form.

    >>> names_received("B", protocol="masked", names=["A", "B"], label_holder="A")
    {'A': {'seed'}, 'server': {'dL/dh1'}}
    """
    messages = _class_of(protocol, form).messages(names)
    if label_holder is not None:
        messages += [(SERVER, name, "dL/dh1") for name in names]
        messages += [(SERVER, label_holder, "h_L"), (label_holder, SERVER, "dL/dh_L")]
    received: dict[str, set[str]] = {}
    for sender, receiver, name in messages:
        if receiver == role:
            received.setdefault(sender, set()).add(name)
    return received


def _class_of(protocol: str, form: str | None) -> type[Simulator]:
    one_of(PROTOCOLS, protocol=protocol)
    if protocol == "ss":
        form = "lean" if form is None else form
        one_of(FORMS, form=form)
        return FORMS[form]
    if form is not None:
        raise ValueError(f"form is a choice of protocol 'ss', got form={form!r} with {protocol!r}")
    return {"plain": Plain, "he": Encrypted, "masked": Masked}[protocol]
