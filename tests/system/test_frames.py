"""A message as bytes and back: every bit and the layout in memory; what is no message is refused
with a reason.
"""

import json
import subprocess
import sys

import numpy as np
import pytest
import torch

from spnn_system.transport import frames
from spnn_system.transport.frames import Frame, Malformed, opening, pack, pieces, unpack


def frame(payload, **changes):
    return Frame(
        **{
            "run": "first-try",
            "sender": "A",
            "receiver": "server",
            "number": 3,
            "step": 2,
            "phase": "online",
            "name": "<theta>",
            "payload": payload,
            **changes,
        }
    )


def numbers(*shape, dtype=torch.float32):
    words = torch.randint(
        0, 256, (*shape, 8), dtype=torch.uint8, generator=torch.Generator().manual_seed(0)
    )
    return (
        words[..., : torch.empty(0, dtype=dtype).element_size()]
        .contiguous()
        .view(dtype)
        .reshape(shape)
    )


DENSE = {
    "rows": numbers(5, 3),
    "columns": numbers(3, 5).T,
    "one number": numbers(),
    "one row": numbers(1, 7),
    "one column": numbers(7, 1),
    "one row of a column-major": numbers(7, 1).T,
    "nothing": numbers(0, 8),
    "three dimensions": numbers(2, 3, 4).permute(2, 0, 1),
    "part of a longer one": numbers(9, 3)[2:6],
    **{
        str(dtype): numbers(4, 6, dtype=dtype)
        for dtype in (torch.float64, torch.int32, torch.int64, torch.uint8)
    },
}
WITH_GAPS = {
    "a slice of columns": numbers(6, 8)[:, 1:4],
    "every other row, column-major": numbers(3, 8).T[::2],
    "one row for all": numbers(1, 4).expand(6, 4),
}


def same_bits(one, other):
    one, other = one.contiguous().reshape(-1), other.contiguous().reshape(-1)
    return one.dtype == other.dtype and torch.equal(one.view(torch.uint8), other.view(torch.uint8))


@pytest.mark.parametrize("tensor", DENSE.values(), ids=DENSE)
def test_a_dense_tensor_keeps_every_bit_its_shape_and_its_strides(tensor):
    sent = frame(tensor)
    got = unpack(pack(sent))
    assert (
        got.payload.shape == tensor.shape
        and got.payload.stride() == tensor.stride()
        and same_bits(got.payload, tensor)
    )
    fields = ("run", "sender", "receiver", "number", "step", "phase", "name")
    assert [getattr(got, field) for field in fields] == [getattr(sent, field) for field in fields]


@pytest.mark.parametrize("tensor", WITH_GAPS.values(), ids=WITH_GAPS)
def test_a_tensor_with_gaps_is_closed_up_in_the_same_order_of_dimensions(tensor):
    got = unpack(pack(frame(tensor))).payload
    assert same_bits(got, tensor) and got.shape == tensor.shape
    assert got.numel() == got.untyped_storage().nbytes() // got.element_size()
    order = lambda t: sorted(range(t.dim()), key=lambda d: -t.stride(d))
    assert order(got) == order(tensor)


def test_a_product_with_what_arrived_is_the_product_with_what_was_sent_to_the_bit():
    rng = torch.Generator().manual_seed(1)
    X, G = torch.randn(500, 14, generator=rng), torch.randn(8, 500, generator=rng).T
    got = unpack(*pieces(frame(G), 1000)).payload
    assert torch.equal((got.T @ X).T, (G.T @ X).T) and got.data_ptr() % 64 == 0


def test_bytes_and_small_dicts_go_through():
    assert (
        unpack(pack(frame(b"\x00seed"))).payload == b"\x00seed"
        and unpack(pack(frame(b""))).payload == b""
    )
    body = {"widths": [8, 8], "lr": 0.001, "name": "übung", "none": None}
    assert unpack(pack(frame(body))).payload == body


def test_the_bytes_are_these():
    texts = json.dumps(
        ["r", "A", "B", "online", "s", 0, 7, "bytes", "", [], [], 3], separators=(",", ":")
    ).encode()
    assert (
        pack(Frame("r", "A", "B", 0, 7, "online", "s", b"abc"))
        == b"PPK1<" + len(texts).to_bytes(4, "big") + texts + b"abc"
    )
    column_major = torch.tensor([[1.0, 2.0], [3.0, 4.0]]).T
    assert pack(frame(column_major)).endswith(
        b'"tensor","float32",[2,2],[1,2],16]' + np.array([1, 2, 3, 4], "<f4").tobytes()
    )


@pytest.mark.parametrize("size", [1, 7, 200, 4096, frames.PIECE_BYTES])
def test_pieces_are_the_same_bytes_and_only_a_head_is_longer_than_asked_for(size):
    sent = frame(numbers(50, 8).T)
    parts = pieces(sent, size)
    head = opening(parts[0])
    assert (
        b"".join(parts) == pack(sent)
        and head.total_bytes == len(pack(sent))
        and head.body_bytes == 1600
    )
    assert max(map(len, parts[1:]), default=0) <= size and len(parts[0]) <= max(
        size, head.head_bytes
    )
    assert same_bits(unpack(*parts).payload, sent.payload)


def test_what_is_sent_is_what_was_there_when_it_was_sent():
    tensor = torch.zeros(4)
    parts = pieces(frame(tensor))
    tensor += 1
    got = unpack(*parts).payload
    assert torch.equal(got, torch.zeros(4))
    got += 1  # nor do receiver and record share memory
    assert torch.equal(unpack(*parts).payload, torch.zeros(4))


@pytest.mark.parametrize(
    "payload, says",
    [
        (torch.zeros(3, dtype=torch.float16), "got float16"),
        (torch.zeros(3, dtype=torch.bool), "got bool"),
        (np.zeros(3), "got ndarray"),
        ("text", "got str"),
        (None, "got NoneType"),
        ({"x": float("nan")}, "JSON"),
        ({"x": object()}, "JSON knows"),
        ({"x": "y" * (1 << 20)}, "at most 1048576 bytes"),
    ],
)
def test_what_cannot_be_sent_is_refused(payload, says):
    with pytest.raises(ValueError, match=says):
        pack(frame(payload))


@pytest.mark.parametrize(
    "field, value",
    [
        ("run", ""),
        ("sender", "A\n"),
        ("name", "x" * 201),
        ("phase", 3),
        ("receiver", None),
        ("number", -1),
        ("number", True),
        ("step", 1.0),
        ("step", -1),
        ("step", 1 << 63),
    ],
)
def test_a_field_out_of_range_is_refused(field, value):
    with pytest.raises(ValueError, match="texts of 1 to 200|whole numbers >= 0"):
        pack(frame(b"", **{field: value}))
    with pytest.raises(ValueError, match="size must be between 1 and 1048576, got 0"):
        pieces(frame(b""), 0)


def with_head(change):
    """A frame of a 4 x 3 float32 tensor whose head was changed by hand."""
    good = pack(frame(numbers(4, 3)))
    length = int.from_bytes(good[5:9], "big")
    fields = json.loads(good[9 : 9 + length])
    head = json.dumps(change(fields)).encode()
    return good[:5] + len(head).to_bytes(4, "big") + head + good[9 + length :]


def put(place, value):
    return lambda fields: [*fields[:place], value, *fields[place + 1 :]]


WRONG_HEADS = {
    "too few fields": lambda fields: fields[1:],
    "no list": lambda fields: {"run": "x"},
    "a number": lambda fields: 5,
    "number below 0": put(5, -1),
    "a number as text": put(5, "0"),
    "a run of no length": put(0, ""),
    "another kind": put(7, "pickle"),
    "another type": put(8, "object"),
    "type of no text": put(8, ["float32"]),
    "a shape too large": put(9, [4, 4]),
    "a shape below 0": put(9, [-4, -3]),
    "a shape of no list": put(9, 12),
    "overlap": put(10, [1, 1]),
    "a gap": put(10, [6, 2]),
    "stride below 0": put(10, [-3, 1]),
    "too few strides": put(10, [1]),
    "bytes with a shape": put(7, "bytes"),
    "more bytes than there are": put(11, 52),
    "no end": put(11, 1 << 40),
    "twelve times nothing": lambda fields: [*fields[:9], [0, 1 << 60], [1 << 60, 1], 0],
}


@pytest.mark.parametrize("change", WRONG_HEADS.values(), ids=WRONG_HEADS)
def test_a_head_that_makes_no_sense_is_malformed(change):
    with pytest.raises(Malformed):
        unpack(with_head(change))


def test_every_cut_and_every_byte_too_many_is_malformed():
    good = pack(frame(numbers(4, 3)))
    for end in range(len(good)):
        with pytest.raises(Malformed):
            unpack(good[:end])
    for parts in [
        (),
        (b"",),
        (good, b"x"),
        (good[:-1], b"xx"),
        (b"PPK1>" + good[5:],),
        (b"\x80\x04" + good,),
    ]:
        with pytest.raises(Malformed):
            unpack(*parts)
    with pytest.raises(Malformed, match="no JSON"):
        unpack(pack(frame({"a": 1}))[:-1] + b"!")
    with pytest.raises(Malformed, match="no dict"):
        unpack(pack(frame({"a": 1})).replace(b'{"a": 1}', b"[1, 2,3]"))


@pytest.mark.parametrize(
    "body",
    [b'{"a":' + b"[" * 150_000, b'{"a":' + b"9" * 100_000 + b"}", b'{"a":"' + b"\xff" * 9 + b'"}'],
)
def test_json_that_python_cannot_read_is_malformed(body):
    texts = ["r", "A", "B", "control", "s", 0, 7, "json", "", [], [], len(body)]
    head = json.dumps(texts).encode()
    with pytest.raises(Malformed, match="the body is no JSON"):
        unpack(b"PPK1<" + len(head).to_bytes(4, "big") + head + body)


@pytest.mark.parametrize(
    "shape, strides",
    [([0, 1 << 62], [1, 1]), ([0, 1 << 40, 1 << 40], [1, 1, 1]), ([0] + 7 * [1 << 31], 8 * [1])],
)
def test_a_tensor_of_nothing_with_lengths_that_torch_cannot_multiply_is_malformed(shape, strides):
    with pytest.raises(Malformed, match="does not fill 0 bytes"):
        unpack(with_head(lambda fields: [*fields[:9], shape, strides, 0])[:-48])


def test_bytes_changed_at_random_give_a_frame_or_malformed_and_nothing_else():
    rng, good = np.random.default_rng(0), pack(frame(numbers(4, 3)))
    refused = 0
    for _ in range(2000):
        bad = bytearray(good)
        for place in rng.integers(0, len(good) - 48, 3):
            bad[place] = rng.integers(0, 256)
        try:
            unpack(bytes(bad))
        except Malformed:
            refused += 1
    assert refused > 1000


def test_a_record_gives_its_frames_back_and_says_where_it_is_cut(tmp_path):
    file = tmp_path / "received.bin"
    packed = [pack(frame(numbers(3), number=0)), pack(frame(b"x", number=1))]
    file.write_bytes(b"".join(len(one).to_bytes(8, "big") + one for one in packed))
    assert [one.number for one in frames.recorded(file)] == [0, 1]
    file.write_bytes(file.read_bytes()[:-1])
    with pytest.raises(Malformed, match="received.bin ends in the middle"):
        list(frames.recorded(file))


@pytest.mark.processes
def test_the_transport_starts_without_torch_numpy_and_pandas():
    code = (
        "import sys, spnn_system.transport.endpoint; print(sorted({'torch', 'numpy', 'pandas'} & "
        "set(sys.modules)))"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "[]"
