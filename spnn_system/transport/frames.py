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
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    import torch

PIECE_BYTES = 1 << 20  # a piece on the wire is never longer
MAX_BYTES = 1 << 32  # nor a frame
_HEAD_BYTES, _JSON_BYTES, _TEXT = 1 << 14, 1 << 20, 200
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

    sender, receiver, phase, name: texts of 1 to 200 characters.
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


@dataclass(frozen=True, slots=True)
class Head:
    """What stands before the body: a frame but for its payload, the body's kind and form, and how
    long all is.
    """

    frame: Frame
    kind: str
    shape: tuple[int, ...]
    dtype: str
    order: str
    body_bytes: int
    head_bytes: int

    @property
    def total_bytes(self) -> int:
        """Bytes of the whole frame."""
        return self.head_bytes + self.body_bytes


def pack(frame: Frame) -> bytes:
    """A frame as bytes; a tensor keeps dtype and shape, and a matrix whose columns lie one after
    the other keeps that too, so that products with it round as in one process.

    Any other tensor (a slice, an expanded one) arrives with its rows one after the other.
    ValueError for a payload or a field that does not fit.

    >>> frame = unpack(pack(Frame("first-try", "A", "server", 0, 1, "online", "words", b"abc")))
    >>> frame.sender, frame.name, frame.payload
    ('A', 'words', b'abc')
    """
    return b"".join(pieces(frame))


def pieces(frame: Frame, size: int = PIECE_BYTES) -> list[bytes]:
    """The same bytes cut into pieces of at most `size`; the head is whole in the first.  Copies the
    payload once.

    size: 1 to PIECE_BYTES; a first piece with a longer head is longer.
    """
    about, held = body(frame.payload)
    texts = [frame.run, frame.sender, frame.receiver, frame.phase, frame.name]
    problem = _wrong(texts, [frame.number, frame.step])
    if problem:
        raise ValueError(problem)
    head = json.dumps(
        [*texts, frame.number, frame.step, *about, len(held)], separators=(",", ":")
    ).encode()
    first = _START + len(head).to_bytes(4, "big") + head
    room = max(0, size - len(first))
    return [
        first + bytes(held[:room]),
        *(bytes(held[i : i + size]) for i in range(room, len(held), size)),
    ]


def unpack(*parts: bytes) -> Frame:
    """The frame of these bytes, whole or in its pieces; the payload is the receiver's own copy.

    Malformed, with the reason, for anything that `pieces` did not make.
    """
    head = opening(parts[0])
    found = sum(map(len, parts))
    if found != head.total_bytes:
        raise Malformed(f"the frame says {head.total_bytes} bytes and has {found}")
    bodies = [memoryview(parts[0])[head.head_bytes :], *parts[1:]]
    payload = _tensor(head, bodies) if head.kind == "tensor" else b"".join(bodies)
    if head.kind == "json":
        try:
            payload = json.loads(payload)
        except (ValueError, RecursionError) as error:
            raise Malformed(f"the body is no JSON: {error}") from None
        if not isinstance(payload, dict):
            raise Malformed("the JSON body is no dict")
    return replace(head.frame, payload=payload)


def opening(part: bytes) -> Head:
    """The head, out of a frame's first piece; every field is checked.  Malformed if it is none."""
    if part[: len(_START)] != _START:
        raise Malformed(f"a frame begins with {_START!r}, got {bytes(part[: len(_START)])!r}")
    length = int.from_bytes(part[len(_START) : _OPENING], "big")
    if length > _HEAD_BYTES or len(part) < _OPENING + length:
        raise Malformed(f"a head of {length} bytes is too long or not all there")
    try:
        fields = json.loads(bytes(part[_OPENING : _OPENING + length]))
        *texts, number, step, kind, dtype, shape, order, size = fields
    except (ValueError, TypeError, RecursionError):
        raise Malformed("the head is no list of fields in JSON") from None
    problem = (
        "five texts stand in a head" if len(texts) != 5 else _wrong(texts, [number, step, size])
    )
    if problem or size > MAX_BYTES:
        raise Malformed(problem or f"a body has at most {MAX_BYTES} bytes, this one says {size}")
    _check_form(kind, dtype, shape, order, size)
    run, sender, receiver, phase, name = texts
    return Head(
        Frame(run, sender, receiver, number, step, phase, name, b""),
        kind,
        tuple(shape),
        dtype,
        order,
        size,
        _OPENING + length,
    )


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


def _wrong(texts: list[Any], counts: list[Any]) -> str | None:
    """What is wrong with a head's texts and whole numbers, in one sentence, or None."""
    for text in texts:
        if not isinstance(text, str) or not 1 <= len(text) <= _TEXT or not text.isprintable():
            return (
                f"run, sender, receiver, phase and name are texts of 1 to {_TEXT} printable "
                f"characters, got {text!r:.60}"
            )
    for count in counts:
        if isinstance(count, bool) or not isinstance(count, int) or not 0 <= count < 1 << 63:
            return f"number and step are whole numbers >= 0, got {count!r:.60}"
    return None


def _check_form(kind: Any, dtype: Any, shape: Any, order: Any, size: int) -> None:
    """Malformed unless kind and form make sense and a tensor of them fills the body exactly."""
    if kind not in ("tensor", "bytes", "json"):
        raise Malformed(f"a body is tensor, bytes or json, got {kind!r:.60}")
    if kind != "tensor":
        if (dtype, shape, order) != ("", [], "") or (kind == "json" and size > _JSON_BYTES):
            raise Malformed(
                f"a body of kind {kind} has no shape, and JSON at most {_JSON_BYTES} bytes"
            )
        return
    right = isinstance(shape, list) and len(shape) <= 8 and not _wrong([], shape)
    if not (
        right
        and isinstance(dtype, str)
        and dtype in _DTYPES
        and (order == ROWS or order == COLUMNS and len(shape) == 2)
    ):
        raise Malformed(
            f"no tensor has dtype {dtype!r:.60}, shape {shape!r:.60}, order {order!r:.60}"
        )
    # torch multiplies lengths, also those beside one of 0
    too_long = math.prod(length or 1 for length in shape) > 1 << 32
    if too_long or math.prod(shape) * _DTYPES[dtype] != size:
        raise Malformed(f"shape {shape} does not fill {size} bytes of {dtype}")


def body(payload: Any) -> tuple[list, memoryview | bytes]:
    """What the head says of a payload (kind, dtype, shape, order), and its bytes, without a copy
    where that can be.
    """
    if isinstance(payload, (bytes, bytearray, memoryview)):
        return ["bytes", "", [], ""], memoryview(payload).cast("B") if payload else b""
    if isinstance(payload, dict):
        try:
            held = json.dumps(payload, allow_nan=False, sort_keys=True).encode()
        except (TypeError, ValueError) as error:
            raise ValueError(
                f"a dict can be sent if JSON knows all that is in it: {error}"
            ) from None
        if len(held) > _JSON_BYTES:
            raise ValueError(
                f"a dict takes at most {_JSON_BYTES} bytes as JSON, this one {len(held)}"
            )
        return ["json", "", [], ""], held
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
    held = memoryview(flat.numpy()).cast("B") if len(flat) else b""
    return ["tensor", dtype, list(tensor.shape), COLUMNS if turned else ROWS], held


def _tensor(head: Head, bodies: list[bytes | memoryview]) -> torch.Tensor:
    """A tensor of this form with these bytes, in memory of torch's own: aligned as in one process,
    so products are too.
    """
    import torch

    flat = torch.empty(math.prod(head.shape), dtype=getattr(torch, head.dtype))
    if head.body_bytes:
        room, at = memoryview(flat.numpy()).cast("B"), 0
        for body in bodies:
            room[at : at + len(body)] = body
            at += len(body)
    return flat.view(head.shape[::-1]).t() if head.order == COLUMNS else flat.view(head.shape)
