"""The first layer h1 = X_1 theta_1 + ... + X_k theta_k by protocol: one name, one class, one interface."""

from __future__ import annotations

from collections.abc import Sequence

from ppkit.spnn.encrypted import Encrypted
from ppkit.spnn.holders import Plain, Protocol
from ppkit.spnn.masked import Masked
from ppkit.spnn.secret_sharing import FORMS, Lean, Published

PROTOCOLS = ("plain", "ss", "he", "masked")


def protocol_of(name: str, holders: Sequence[int], *, form: str | None = None, **choices) -> Protocol:
    """The protocol object of this name.

    name: one of PROTOCOLS.  form: of "ss", "published" (Algorithm 2) or "lean", default "lean".  holders: columns of each.
    choices: transcript, stream, dtype, and what the protocol itself takes (truncation; key_bits, value_bits,
    elementwise, keys, pool, teaching; word_bits).
    ValueError for an unknown name or form, TypeError for a choice that the protocol does not know.
    """
    if name not in PROTOCOLS:
        raise ValueError(f"protocol must be one of {PROTOCOLS}, got {name!r}")
    if form is not None and name != "ss":
        raise ValueError(f"form is a choice of protocol 'ss', got form={form!r} with {name!r}")
    if form not in (None, *FORMS):
        raise ValueError(f"form must be one of {FORMS}, got {form!r}")
    if name == "ss":
        return (Published if form == "published" else Lean)(holders, **choices)
    return {"plain": Plain, "he": Encrypted, "masked": Masked}[name](holders, **choices)
