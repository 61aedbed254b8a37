"""A message as bytes and back: every bit and the layout in memory; what is no message is refused
with a reason.
"""

import json
import subprocess
import sys

import numpy as np
import pytest
import torch
from hypothesis import example, given, settings
from hypothesis import strategies as st

from spnn_system.transport import frames
from spnn_system.transport.frames import Frame, Malformed, pack, unpack


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


# frames of all kinds, whole, torn and damaged
every = settings(derandomize=True, deadline=None, max_examples=200)
texts = st.text(st.characters(codec="utf-8", categories=("L", "N", "P")), min_size=1, max_size=200)
whole_numbers = st.integers(0, (1 << 63) - 1)
json_values = st.recursive(
    st.none() | st.booleans() | st.integers(-(1 << 70), 1 << 70) | st.floats() | st.text(),
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(st.text(), inner, max_size=3),
    max_leaves=6,
)
dicts = st.dictionaries(
    st.text(max_size=5),
    st.integers() | st.floats(allow_nan=False, allow_infinity=False),
    max_size=4,
)


@st.composite
def tensors(draw):
    """Any bits, in rows, in columns, with gaps, or one row for all."""
    dtype = draw(st.sampled_from([getattr(torch, name) for name in frames._DTYPES]))
    shape = draw(st.lists(st.integers(0, 6), max_size=3))
    whole = numbers(*shape, dtype=dtype)
    if not shape:
        return whole
    turned = whole.permute(*reversed(range(len(shape)))) if draw(st.booleans()) else whole
    match draw(st.sampled_from(["dense", "every other", "repeated", "part"])):
        case "every other":
            return turned[::2]
        case "repeated":
            return turned[:1].expand(5, *turned.shape[1:]) if turned.shape[0] else turned
        case "part":
            return turned[1:]
    return turned


every_frame = st.builds(
    Frame,
    run=texts,
    sender=texts,
    receiver=texts,
    number=whole_numbers,
    step=whole_numbers,
    phase=texts,
    name=texts,
    payload=tensors() | st.binary(max_size=300) | dicts,
)


def same_bits(one, other):
    one, other = one.contiguous().reshape(-1), other.contiguous().reshape(-1)
    return one.dtype == other.dtype and torch.equal(one.view(torch.uint8), other.view(torch.uint8))


def in_columns(tensor):
    return tensor.dim() == 2 and tensor.t().is_contiguous() and not tensor.is_contiguous()


@pytest.mark.slow
@every
@given(every_frame)
def test_what_arrives_is_what_was_sent_to_the_bit(sent):
    got = unpack(pack(sent))
    assert pack(sent) == pack(got)
    for field in ("run", "sender", "receiver", "number", "step", "phase", "name"):
        assert getattr(got, field) == getattr(sent, field)
    if isinstance(sent.payload, torch.Tensor):
        assert got.payload.shape == sent.payload.shape and same_bits(got.payload, sent.payload)
        assert in_columns(got.payload) == in_columns(sent.payload)
        assert got.payload.is_contiguous() or in_columns(got.payload)
    else:
        assert got.payload == sent.payload


@pytest.mark.slow
@every
@given(every_frame, st.data())
def test_a_torn_frame_is_malformed(sent, data):
    good = pack(sent)
    cut = data.draw(st.integers(1, len(good) - 1))
    more = data.draw(st.binary(min_size=1, max_size=20))
    for torn in (good[:cut], good + more, good[:cut] + good, more + good):
        with pytest.raises(Malformed):
            unpack(torn)


@pytest.mark.slow
@every
@given(
    every_frame, st.lists(st.tuples(st.integers(0), st.integers(1, 255)), min_size=1, max_size=8)
)
def test_a_damaged_frame_is_a_frame_or_malformed_and_nothing_else(sent, damages):
    bad = bytearray(pack(sent))
    for place, change in damages:
        bad[place % len(bad)] ^= change
    try:
        got = unpack(bytes(bad))
    except Malformed:
        return
    # of another order of keys, or with other spaces, at most
    assert unpack(pack(got)).name == got.name


def test_a_product_with_what_arrived_is_the_product_with_what_was_sent_to_the_bit():
    rng = torch.Generator().manual_seed(1)
    X, G = torch.randn(500, 14, generator=rng), torch.randn(8, 500, generator=rng).T
    got = unpack(pack(frame(G))).payload
    assert torch.equal((got.T @ X).T, (G.T @ X).T) and got.data_ptr() % 64 == 0


def test_the_bytes_are_these():
    texts = json.dumps(
        ["r", "A", "B", "online", "s", 0, 7, "bytes", "", [], "", 3], separators=(",", ":")
    ).encode()
    assert (
        pack(Frame("r", "A", "B", 0, 7, "online", "s", b"abc"))
        == b"PPK1<" + len(texts).to_bytes(4, "big") + texts + b"abc"
    )
    column_major = torch.tensor([[1.0, 2.0], [3.0, 4.0]]).T
    assert pack(frame(column_major)).endswith(
        b'"tensor","float32",[2,2],"F",16]' + np.array([1, 2, 3, 4], "<f4").tobytes()
    )


def test_what_is_sent_is_what_was_there_when_it_was_sent():
    tensor = torch.zeros(4)
    content = pack(frame(tensor))
    tensor += 1
    got = unpack(content).payload
    assert torch.equal(got, torch.zeros(4))
    got += 1  # nor do receiver and record share memory
    assert torch.equal(unpack(content).payload, torch.zeros(4))


@pytest.mark.parametrize(
    "payload, says",
    [
        (torch.zeros(3, dtype=torch.float16), "got float16"),
        (torch.zeros(3, dtype=torch.bool), "got bool"),
        (np.zeros(3), "got ndarray"),
        ("text", "got str"),
        (None, "got NoneType"),
    ],
)
def test_what_cannot_be_sent_is_refused(payload, says):
    with pytest.raises(ValueError, match=says):
        pack(frame(payload))


def with_head(change):
    """A frame of a 4 x 3 float32 tensor whose head was changed by hand."""
    good = pack(frame(numbers(4, 3)))
    length = int.from_bytes(good[5:9], "big")
    fields = json.loads(good[9 : 9 + length])
    head = json.dumps(change(fields)).encode()
    return good[:5] + len(head).to_bytes(4, "big") + head + good[9 + length :]


GOOD = ["first-try", "A", "server", "online", "x", 3, 2, "tensor", "float32", [4, 3], "C", 48]
near = (
    st.sampled_from(["bytes", "json", "pickle", "float64", "object", "", "C", "F", 0, -1, 48, 12])
    | st.lists(st.sampled_from([-4, -3, 0, 1, 2, 3, 4, 6, 12, 1 << 31, 1 << 60]), max_size=9)
    | st.just(["float32"])
)


@pytest.mark.slow
@every
@given(st.dictionaries(st.integers(0, 11), near | json_values, max_size=3))
@example({7: "bytes"})
@example({7: "bytes", 8: "", 9: [], 10: ""})
@example({10: "F"})
@example({8: "uint8", 9: [2, 3, 8], 10: "F"})
@example({5: True})
@example({5: 1 << 63})
@example({11: 1 << 40})
def test_a_changed_head_is_a_frames_or_malformed_and_nothing_else(changes):
    fields = [changes.get(place, value) for place, value in enumerate(GOOD)]
    try:
        got = unpack(with_head(lambda _: fields))
    except Malformed:
        assert changes
        return
    assert [got.name, got.number, got.step] == fields[4:7] and fields[11] == 48
    if isinstance(got.payload, torch.Tensor):
        assert [str(got.payload.dtype), list(got.payload.shape)] == [
            f"torch.{fields[8]}",
            fields[9],
        ]


@every
@given(json_values)
def test_what_is_no_list_of_fields_is_no_head(fields):
    with pytest.raises(Malformed):
        unpack(with_head(lambda _: fields))


@pytest.mark.parametrize("opens", [b"PPK1>", b"PPK2<", b"\x80\x04PPK1<"])
def test_what_begins_otherwise_is_no_frame(opens):
    with pytest.raises(Malformed, match="a frame begins with"):
        unpack(opens + pack(frame(b"x"))[5:])


@pytest.mark.parametrize(
    "body",
    [
        b'{"a":' + b"[" * 150_000,
        b'{"a":' + b"9" * 100_000 + b"}",
        b'{"a":"' + b"\xff" * 9 + b'"}',
        b'{"a": 1!',
    ],
)
def test_json_that_python_cannot_read_is_malformed(body):
    for wrong in (body, b"[1, 2]"):
        with pytest.raises(Malformed, match="the body is no 'json'"):
            unpack(of_json(wrong))


def of_json(body):
    said = ["r", "A", "B", "control", "s", 0, 7, "json", "", [], "", len(body)]
    head = json.dumps(said).encode()
    return b"PPK1<" + len(head).to_bytes(4, "big") + head + body


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
