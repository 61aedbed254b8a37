"""One message between two roles as bytes: a JSON head and a plain buffer, nothing that runs code
when it is read.

    "PPK1" | byte order, "<" or ">" | length of the head, 4 bytes | head, JSON in UTF-8 | body

This file imports no torch before the first tensor, so that the coordinator starts at once.
"""

from __future__ import annotations

import json
import math
import sys
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    import torch

PIECE_BYTES = 1 << 20  # a piece on the wire is never longer
_START = b"PPK1" + (b"<" if sys.byteorder == "little" else b">")
_OPENING = len(_START) + 4
ROWS, COLUMNS = "C", "F"  # which lie one after the other in a body
_DTYPES = {"float32": 4, "float64": 8, "int32": 4, "int64": 8, "uint8": 1}


class Malformed(ValueError):
    """Bytes that are no frame."""


@dataclass(frozen=True, slots=True, eq=False)
class Frame:
    """One message.  run: the run's id.  number: 0, 1, 2, ... on this directed link.  step: >= 0, 0
    for what is sent once.

    sender, receiver, phase, name: printable texts.
    payload: a tensor (float32, float64, int32, int64, uint8), bytes, or a small dict of what JSON
    knows; not in repr.
    """

    run: str
    sender: str
    receiver: str
    number: int
    step: int
    phase: str
    name: str
    payload: torch.Tensor | bytes | dict = field(repr=False)


def pack(frame: Frame) -> bytes:
    """A frame as bytes; a tensor keeps dtype and shape, and a matrix whose columns lie one after
    the other keeps that too, so that products with it round as in one process.

    Any other tensor (a slice, an expanded one) arrives with its rows one after the other.
    ValueError for a payload that does not fit.

    >>> frame = unpack(pack(Frame("first-try", "A", "server", 0, 1, "online", "words", b"abc")))
    >>> frame.sender, frame.name, frame.payload
    ('A', 'words', b'abc')
    """
    about, held = body(frame.payload)
    texts = [frame.run, frame.sender, frame.receiver, frame.phase, frame.name]
    fields = [*texts, frame.number, frame.step, *about, len(held)]
    head = json.dumps(fields, separators=(",", ":")).encode()
    return b"".join([_START, len(head).to_bytes(4, "big"), head, held])


def unpack(content: bytes) -> Frame:
    """The frame of these bytes; the payload is the receiver's own copy.

    Malformed, with the reason, for anything that `pack` did not make.
    """
    if content[: len(_START)] != _START:
        raise Malformed(f"a frame begins with {_START!r}, got {content[: len(_START)]!r}")
    end = _OPENING + int.from_bytes(content[len(_START) : _OPENING], "big")
    try:
        *texts, number, step, kind, dtype, shape, order, size = json.loads(content[_OPENING:end])
        run, sender, receiver, phase, name = texts
    except (ValueError, TypeError, RecursionError):
        raise Malformed("the head is no list of fields in JSON") from None
    held = memoryview(content)[end:]
    if not all(isinstance(text, str) and text.isprintable() and text for text in texts):
        raise Malformed(
            f"run, sender, receiver, phase and name are printable texts, got {texts!r:.200}"
        )
    if not all(type(count) is int and 0 <= count < 1 << 63 for count in (number, step)):
        raise Malformed(f"number and step are whole numbers >= 0, got {number!r:.30} {step!r:.30}")
    if size != len(held):
        raise Malformed(f"the frame says {size!r:.60} bytes of a body and has {len(held)}")
    payload = _payload(kind, dtype, shape, order, held)
    return Frame(run, sender, receiver, number, step, phase, name, payload)


def recorded(path: Path | str) -> Iterator[Frame]:
    """The frames of a record that an Endpoint kept: each with its length, 8 bytes, before it.
    Malformed if it is cut off.
    """
    with open(path, "rb") as file:
        while length := file.read(8):
            frame = file.read(int.from_bytes(length, "big"))
            if len(length) < 8 or len(frame) != int.from_bytes(length, "big"):
                raise Malformed(f"{Path(path).name} ends in the middle of a frame")
            yield unpack(frame)


def body(payload: Any) -> tuple[list, memoryview | bytes]:
    """What the head says of a payload (kind, dtype, shape, order), and its bytes, without a copy
    where that can be.
    """
    if isinstance(payload, bytes):
        return ["bytes", "", [], ""], payload
    if isinstance(payload, dict):
        return ["json", "", [], ""], json.dumps(payload, sort_keys=True).encode()
    torch = sys.modules.get("torch")
    if torch is None or not isinstance(payload, torch.Tensor):
        raise ValueError(f"a payload is a tensor, bytes or a dict, got {type(payload).__name__}")
    dtype = str(payload.dtype).removeprefix("torch.")
    if dtype not in _DTYPES:
        raise ValueError(
            f"a tensor that is sent has one of the types {', '.join(_DTYPES)}, got {dtype}"
        )
    tensor = payload.detach()
    turned = tensor.dim() == 2 and tensor.t().is_contiguous() and not tensor.is_contiguous()
    flat = (tensor.t() if turned else tensor).contiguous().reshape(-1)
    held = flat.numpy().view("uint8").data
    return ["tensor", dtype, list(tensor.shape), COLUMNS if turned else ROWS], held


def _payload(kind: Any, dtype: Any, shape: Any, order: Any, held: memoryview) -> Any:
    """What a body of this kind and form stands for.  Malformed if it is none."""
    if kind == "bytes":
        return bytes(held)
    try:
        return (
            _tensor(dtype, shape, order, held)
            if kind == "tensor"
            else dict(json.loads(bytes(held)))
        )
    except (ValueError, TypeError, KeyError, RuntimeError, RecursionError) as error:
        raise Malformed(f"the body is no {kind!r:.60}: {error}") from None


def _tensor(dtype: str, shape: list[int], order: str, held: memoryview) -> torch.Tensor:
    """A tensor of this form with these bytes, in memory of torch's own: aligned as in one process,
    so products are too.
    """
    import torch

    if min(shape, default=0) < 0 or math.prod(shape) * _DTYPES[dtype] != len(held):
        raise ValueError(f"shape {shape} does not fill {len(held)} bytes of {dtype}")
    flat = torch.empty(len(held) // _DTYPES[dtype], dtype=getattr(torch, dtype))
    flat.numpy().view("uint8").data[:] = held
    return flat.view(shape[::-1]).t() if order == COLUMNS else flat.view(shape)
