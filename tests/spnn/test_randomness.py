import copy
import hashlib
import hmac
import math
import os
import pickle

import numpy as np
import pytest
import torch
from cryptography.hazmat.primitives.ciphers import Cipher, algorithms, modes
from scipy.stats import norm
from uniform_bytes import unusual_bytes

from ppkit.spnn import randomness
from ppkit.spnn.randomness import Stream


def keystream(key, n_words):
    """Oracle: the counters 0, 1, 2, ... one by one through AES in ECB mode."""
    cipher = Cipher(
        algorithms.AES(hmac.new(key, b"words", hashlib.sha256).digest()), modes.ECB()
    ).encryptor()
    blocks = b"".join(
        cipher.update(counter.to_bytes(16, "big")) for counter in range(n_words // 2 + 1)
    )
    return [
        int.from_bytes(blocks[8 * i : 8 * i + 8], "little", signed=True) for i in range(n_words)
    ]


def test_words_are_aes_in_counter_mode():
    key = bytes(range(32))
    assert Stream(key).words(101).tolist() == keystream(key, 101)


@pytest.mark.parametrize("sizes", [(1, 1, 1, 4), (3, 0, 5), (40_000, 3, 40_001), (32_768, 1)])
def test_the_keystream_goes_on_where_it_stopped(sizes):
    key = os.urandom(32)
    stream = Stream(key)
    parts = torch.cat([stream.words(size) for size in sizes])
    assert torch.equal(parts, Stream(key).words(sum(sizes)))
    assert len(parts.unique()) == len(parts)  # a repeated word: chance 72,804^2 / 2^65 = 1.5e-10


def test_shapes():
    key = os.urandom(32)
    assert torch.equal(Stream(key).words((7, 3)).view(-1), Stream(key).words(21))
    assert Stream().words((0, 3)).shape == (0, 3)
    assert Stream().words(()).shape == ()
    assert Stream().words(torch.Size([2, 2])).dtype == torch.int64


def test_a_fresh_key_comes_from_the_operating_system(monkeypatch):
    asked = []
    monkeypatch.setattr(os, "urandom", lambda size: asked.append(size) or b"k" * size)
    assert Stream().key == b"k" * 32
    Stream(b"j" * 32)
    assert asked == [32]


def test_keys_that_differ_in_one_bit_share_no_word():
    key = bytes(32)
    other = bytes(31) + b"\x01"
    assert not (Stream(key).words(1000) == Stream(other).words(1000)).any()


@pytest.mark.parametrize("key", [b"short", bytes(33), "x" * 32, 32])
def test_a_wrong_key_is_refused(key):
    with pytest.raises(ValueError, match="key must be 32 bytes"):
        Stream(key)


def test_both_ends_derive_the_same_stream_and_each_label_another():
    key = os.urandom(32)
    labels = [
        ("a",),
        ("a", "b"),
        ("ab",),
        ("b", "a"),
        ("a", 1),
        ("a", "1"),
        (1,),
        (-1,),
        ("",),
        ("", ""),
        ("a", ""),
        (11,),
        (1, 1),
        ("words",),
        ("derive",),
        ("asb",),
        ("ai1",),
    ]
    one, two = Stream(key), Stream(key)
    ours, theirs = (
        [one.derive(*label) for label in labels],
        [two.derive(*label) for label in labels],
    )
    assert [a.key for a in ours] == [b.key for b in theirs]
    assert len({stream.key for stream in ours} | {key}) == len(labels) + 1
    assert torch.equal(ours[3].words(9), theirs[3].words(9))
    every = torch.cat([stream.words(50) for stream in [*ours, one]])
    assert len(every.unique()) == len(every)  # chance 900^2 / 2^65


def test_derived_streams_do_not_depend_on_what_was_drawn_before():
    key = os.urandom(32)
    drawn = Stream(key)
    drawn.words(17)
    assert drawn.derive("step", 3).key == Stream(key).derive("step", 3).key


def test_the_same_labels_twice_are_refused():
    stream = Stream()
    stream.derive("mask", 1)
    stream.derive("mask", 2)
    with pytest.raises(
        ValueError,
        match=r"labels \('mask', 1\) were derived before: the same keystream would be used twice",
    ):
        stream.derive("mask", 1)


@pytest.mark.parametrize(
    "labels, says",
    [
        ((), "at least one label"),
        ((1.0,), r"got \(1.0,"),
        ((True,), r"got \(True,"),
        ((b"a",), r"got \(b'a',"),
    ],
)
def test_labels_are_strings_or_integers(labels, says):
    with pytest.raises(ValueError, match=says):
        Stream().derive(*labels)


@pytest.mark.parametrize("again", [copy.copy, copy.deepcopy, pickle.dumps])
def test_a_stream_cannot_be_doubled(again):
    with pytest.raises(TypeError, match="both copies would give the same words"):
        again(Stream())


def test_a_forked_process_may_not_go_on_with_it(monkeypatch):
    stream = Stream()
    monkeypatch.setattr(os, "getpid", lambda: -1)
    for use in (lambda: stream.words(1), lambda: stream.derive("mask", 1), lambda: stream.seek(1)):
        with pytest.raises(RuntimeError, match="this Stream was made in another process"):
            use()


def test_what_is_for_teaching_says_so_and_the_key_is_not_shown():
    taught = Stream.seeded_for_teaching(3)
    assert (
        repr(taught)
        == repr(taught.derive("a"))
        == "<Stream seeded for teaching with 3: NOT SECRET>"
    )
    assert torch.equal(taught.words(4), Stream.seeded_for_teaching(3).words(4))
    assert not torch.equal(
        Stream.seeded_for_teaching(3).words(4), Stream.seeded_for_teaching(4).words(4)
    )
    for stream in (Stream(b"k" * 32), Stream(b"k" * 32).derive("a")):
        assert repr(stream) == "<Stream, key hidden>"


def test_words_are_uniform_in_every_byte():
    """A false alarm has chance 1e-9."""
    assert unusual_bytes(Stream().words(200_000)) == 0
    biased = Stream().words(200_000) & ~(1 << 40)  # one bit of 64 stuck
    assert unusual_bytes(biased) > 0


@pytest.mark.parametrize("position", [0, 1, 2, 7, 100, 2**15, 2**15 + 1, 100_001])
def test_seeking_is_drawing_and_throwing_away(position):
    key = os.urandom(32)
    drawn, sought = Stream(key), Stream(key)
    assert drawn.position == 0
    drawn.words(position)
    sought.seek(position)
    assert drawn.position == sought.position == position
    for size in (1, 3, (2, 5), 0):  # the counter goes on from an odd and from an even word
        assert torch.equal(drawn.words(size), sought.words(size))
    assert drawn.position == sought.position == position + 14
    sought.seek(position + 14)
    assert torch.equal(drawn.words(2), sought.words(2))


def test_seeking_far_is_the_counter_of_the_oracle():
    """2^70 words on: the counter has 128 bits."""
    key, far = bytes(range(32)), 2**70 + 1
    stream = Stream(key)
    stream.seek(far)
    cipher = Cipher(
        algorithms.AES(hmac.new(key, b"words", hashlib.sha256).digest()), modes.ECB()
    ).encryptor()
    block = cipher.update((far // 2).to_bytes(16, "big"))
    assert stream.words(1).item() == int.from_bytes(block[8:], "little", signed=True)


def test_a_stream_never_goes_back():
    stream = Stream()
    stream.words(5)
    with pytest.raises(
        ValueError, match="a Stream goes forward only: 5 words were drawn, got position 4"
    ):
        stream.seek(4)
    assert stream.position == 5


def test_a_word_that_came_before_does_not_come_after_seeking():
    """Chance 60^2 / 2^65."""
    stream = Stream()
    parts = [stream.words(11)]
    for position in (11, 12, 17):
        stream.seek(position)
        parts.append(stream.words(1))
    parts.append(stream.words(20))
    words = torch.cat(parts)
    assert len(words.unique()) == len(words)


@pytest.mark.slow
def test_normals_have_the_normal_distribution_function():
    """Dvoretzky-Kiefer-Wolfowitz: n = 400,000 true normals lie further than eps from it with chance
    2 exp(-2 n eps^2) = 1e-9.
    """
    n, chance = 400_000, 1e-9
    eps = math.sqrt(math.log(2 / chance) / (2 * n))
    drawn = Stream().normals(n).sort().values.numpy()
    expected, steps = norm.cdf(drawn), np.arange(n + 1) / n
    assert max(np.abs(expected - steps[1:]).max(), np.abs(expected - steps[:-1]).max()) < eps


def test_normals_take_a_word_each_and_reach_their_tails(monkeypatch):
    """The words of the ends and of the middle, against scipy's distribution function."""
    first = {0: 2.0**-53, 1: 1.5 * 2.0**-52, 2**51: 0.5 + 2.0**-53, 2**40: (2**40 + 0.5) / 2.0**52}
    for v, share in first.items():
        word = torch.tensor([(v << 12) + 4095 - 2**64 * (v >= 2**51)])
        monkeypatch.setattr(Stream, "words", lambda self, shape, word=word: word)
        [z] = Stream().normals(1).tolist()
        assert z == pytest.approx(norm.ppf(share), rel=1e-12, abs=1e-15)
    word = torch.tensor([-1])  # all bits
    monkeypatch.setattr(Stream, "words", lambda self, shape: word)
    assert Stream().normals(1).item() == pytest.approx(norm.isf(2.0**-53), rel=1e-12)


def test_normals_move_the_stream_on_by_a_word_each():
    stream, other = Stream(bytes(32)), Stream(bytes(32))
    assert stream.normals((3, 5)).dtype == torch.float64 and stream.position == 15
    other.seek(15)
    assert torch.equal(stream.words(4), other.words(4))


def test_the_keystream_has_the_vector_of_sp_800_38a(monkeypatch):
    """NIST SP 800-38A, F.5.5: CTR-AES256, from the counter of the document on."""
    key = "603deb1015ca71be2b73aef0857d77811f352c073b6108d72d9810a30914dff4"
    counter = "f0f1f2f3f4f5f6f7f8f9fafbfcfdfeff"
    plaintext = (
        "6bc1bee22e409f96e93d7e117393172aae2d8a571e03ac9c9eb76fac45af8e51"
        "30c81c46a35ce411e5fbc1191a0a52eff69f2445df4f9b17ad2b417be66c3710"
    )
    ciphertext = (
        "601ec313775789a5b7a7f504bbf3d228f443e3ca4d62b59aca84e990cacaf5c5"
        "2b0930daa23de94ce87017ba2d84988ddfc9c58db67aada613c2dd08457941a6"
    )
    monkeypatch.setattr(randomness, "_prf", lambda key, text: key)  # no key of its own for words
    encryptor = Stream(bytes.fromhex(key))._at_block(int(counter, 16))
    assert encryptor.update(bytes.fromhex(plaintext)).hex() == ciphertext


@pytest.mark.parametrize(
    "key, text, mac",
    [
        (
            b"\x0b" * 20,
            b"Hi There",
            "b0344c61d8db38535ca8afceaf0bf12b881dc200c9833da726e9376c2e32cff7",
        ),
        (
            b"Jefe",
            b"what do ya want for nothing?",
            "5bdcc146bf60754e6a042426089575c75a003f089d2739839dec58b964ec3843",
        ),
    ],
)
def test_keys_are_made_by_the_hmac_of_rfc_4231(key, text, mac):
    assert randomness._prf(key, text).hex() == mac
