"""What each protocol of the first layer costs, and who sees what: stated, and as the messages of
one step show it."""

from __future__ import annotations

from collections.abc import Sequence

import pandas as pd
import torch

from ppkit.spnn.holders import DEALER, SERVER
from ppkit.spnn.layer import FirstLayer
from ppkit.spnn.messages import Message, Transcript

KINDS = {
    "plain": {"protocol": "plain"},
    "ss, published": {"protocol": "ss", "form": "published"},
    "ss, lean": {"protocol": "ss", "form": "lean"},
    "masked": {"protocol": "masked"},
    "he": {"protocol": "he"},
}


def costs(
    holders: Sequence[int] = (14, 14),
    width: int = 8,
    *,
    n_rows: int = 5_000,
    kinds: Sequence[str] = tuple(KINDS),
    **he_choices,
) -> pd.DataFrame:
    """One training step of the first layer by every protocol, counted from the messages it sends.

    holders: columns of each.  width: of h1.  n_rows: the data set is one batch of so many random
    rows; all counts depend on sizes only.  kinds: some of KINDS.  he_choices: what protocol "he"
    takes (keys=, key_bits=, pool=); at the default sizes it takes seconds.
    Returns one row a kind: bytes of one step by link (between holders; holders to server; server to
    holders, which is the gradient of h1 to each), rounds of the forward pass, bytes once per data
    set, bytes of the dealer in a step (offline), compute in words, what the server and what holder
    A received in one step (names from the transcript), and who learns what, as stated.

    >>> table = costs((2, 1), 4, n_rows=10, kinds=("plain", "masked"))
    >>> table.loc["masked", ["between holders", "to server", "rounds", "once"]].tolist()
    [0, 320, 1, 32]
    """
    unknown = [kind for kind in kinds if kind not in KINDS]
    if unknown:
        raise ValueError(f"kinds must be some of {tuple(KINDS)}, got {unknown[0]!r}")
    return pd.DataFrame(
        {kind: _counted(kind, holders, width, n_rows, he_choices) for kind in kinds}
    ).T


def _counted(kind: str, holders: Sequence[int], width: int, n_rows: int, he_choices: dict) -> dict:
    rng, transcript = torch.Generator().manual_seed(0), Transcript(keep="sizes")
    choices = KINDS[kind] | (he_choices if kind == "he" else {})
    layer = FirstLayer(holders, width, rng=rng, transcript=transcript, **choices)
    layer.prepare([torch.randn(n_rows, columns, generator=rng) for columns in holders])
    layer(slice(None)).sum().backward()
    step = [message for message in transcript.messages if message.step == 1]
    online = [message for message in step if message.phase == "online"]
    first = layer.protocol.holders[0].name
    return {
        "between holders": _bytes(m for m in online if SERVER not in (m.sender, m.receiver)),
        "to server": _bytes(m for m in online if m.receiver == SERVER),
        "from server": _bytes(m for m in online if m.sender == SERVER),
        "rounds": len({m.round for m in online if m.sender != SERVER}),
        "once": _bytes(m for m in transcript.messages if m.step == 0),
        "dealer": _bytes(m for m in step if m.sender == DEALER),
        "compute": layer.protocol.compute,
        "server received": _names(m for m in step if m.receiver == SERVER),
        f"{first} received": _names(m for m in step if m.receiver == first),
        "who learns what": f"{layer.protocol.sees}; all holders: dL/dh1",
    }


def _bytes(messages) -> int:
    return sum(message.n_bytes for message in messages)


def _names(messages) -> str:
    seen: list[Message] = list(messages)
    return ", ".join(dict.fromkeys(f"{message.name} from {message.sender}" for message in seen))
