"""Random ring elements: AES-256 in counter mode, keyed by the operating system."""

import hashlib
import hmac
import os
from typing import Protocol

import torch
from cryptography.hazmat.primitives.ciphers import Cipher, algorithms, modes
from torch import Tensor

KEY_BYTES = 32
_ZEROS = memoryview(bytes(1 << 18))  # encrypted over and over: counter mode adds its keystream


class Seekable(Protocol):
    """Secrets that are drawn in sequence, each once."""

    @property
    def position(self) -> int:
        """How far it was drawn."""

    def seek(self, position: int) -> None:
        """Go on from a position that was noted.  ValueError for one that lies behind."""


class Stream:
    """Uniform 64-bit words that nobody without the key can tell from random ones; who has the key
    draws the same words.

    word_t = t-th eight bytes of AES-256-CTR(k_w, counter from 0),   k_w = HMAC-SHA256(key, "words")

    The counter only ever moves on, so no word of one Stream is given out twice. Two Streams made
    from one key give the same words: that is what a seed sent instead of a share is for, and the
    one way to repeat a keystream. So a Stream cannot be copied or pickled, gives neither words nor
    streams in a forked process, and `derive` refuses a label twice.
    key: 32 bytes, or None for a fresh key from the operating system's CSPRNG.  ValueError for
    another length.
    Guarantee: computational, if AES-256 is a pseudo-random permutation (advantage n^2/2^129 after n
    blocks: 2^-77 after a gigabyte) and HMAC-SHA256 a pseudo-random function.
    Source: NIST SP 800-38A (CTR), SP 800-108 (keys from labels).  Departs from zhou2021, which does
    not say how its random numbers are made.
    """

    def __init__(self, key: bytes | None = None):
        if key is None:
            key = os.urandom(KEY_BYTES)
        if not isinstance(key, bytes) or len(key) != KEY_BYTES:
            raise ValueError(f"key must be {KEY_BYTES} bytes")
        self.key = key
        self._taught_from: int | None = None
        self._derived: set[bytes] = set()
        self._process = os.getpid()
        self._position = 0
        self._cipher = self._at_block(0)

    def _at_block(self, block: int):
        return Cipher(
            algorithms.AES(_prf(self.key, b"words")), modes.CTR(block.to_bytes(16, "big"))
        ).encryptor()

    @property
    def position(self) -> int:
        """How many words were drawn so far."""
        return self._position

    def seek(self, position: int) -> None:
        """Leave out all words up to this position, at the cost of none: the next word is
        word_position.

        For who goes on where another Stream of the same key stopped, after a crash, say; who has
        both draws words twice.
        position: as `position` was there.  ValueError for one that lies behind: no word of one
        Stream is given out twice.
        RuntimeError, as in `derive`, in a forked process.

        >>> one, other = Stream(bytes(32)), Stream(bytes(32))
        >>> _ = one.words(1_000_001)
        >>> other.seek(one.position)
        >>> torch.equal(other.words(3), one.words(3))
        True
        """
        refuse_forked(self, self._process)
        if position < self._position:
            raise ValueError(
                f"a Stream goes forward only: {self._position} words were drawn, got position "
                f"{position}"
            )
        self._cipher = self._at_block(position // 2)
        if position % 2:
            self._cipher.update(bytes(8))
        self._position = position

    @classmethod
    def seeded_for_teaching(cls, seed: int) -> "Stream":
        """A Stream that gives the same words on every run: not secret, for lessons and tests only;
        its repr says so.

        >>> Stream.seeded_for_teaching(7)
        <Stream seeded for teaching with 7: NOT SECRET>
        """
        stream = cls(hashlib.sha256(b"ppkit, for teaching only: %d" % seed).digest())
        stream._taught_from = seed
        return stream

    def words(self, shape: int | tuple[int, ...]) -> Tensor:
        """The next words: int64 of this shape, each uniform on Z_2^64.

        >>> tuple(Stream().words((5, 2)).shape)
        (5, 2)

        RuntimeError, as in `derive`, in a process that was forked off the one that made this
        Stream.
        """
        refuse_forked(self, self._process)
        drawn = torch.empty(shape, dtype=torch.int64)
        if drawn.numel():
            room = drawn.view(-1).numpy().data.cast("B")
            for start in range(0, len(room), len(_ZEROS)):
                part = room[start : start + len(_ZEROS)]
                self._cipher.update_into(_ZEROS[: len(part)], part)
            self._position += drawn.numel()
        return drawn

    def normals(self, shape: int | tuple[int, ...]) -> Tensor:
        """The next standard normal numbers: float64 of this shape, one word each.

        z = Phi^-1((v + 1/2) / 2^52),   v = the first 52 bits of the word, from 0

        shape: as for `words`.  No value is beyond 8.21: of true normals one in 4 * 10^15 is.
        Source: inversion of the normal distribution function (torch.special.ndtri).

        >>> one, other = Stream(bytes(32)), Stream(bytes(32))
        >>> torch.equal(one.normals((2, 3)), other.normals((2, 3)))
        True
        """
        v = (self.words(shape) >> 12) & (2**52 - 1)
        return torch.special.ndtri((v.double() + 0.5) * 2.0**-52)

    def random_bytes(self, n: int) -> bytes:
        """The next n uniform bytes; what is left of the last word is dropped."""
        return self.words(-(-n // 8)).numpy().tobytes()[:n]

    def derive(self, *labels: str | int, remember: bool = True) -> "Stream":
        """An independent Stream for these labels (a purpose, a pair of holders, a step), the same
        for all with the key.

        key' = HMAC-SHA256(key, "derive" and the labels, each with its type and length)

        remember: False for a caller that itself gives no labels twice, such as numbers that only go
        up: then nothing is kept to check it by.
        labels: at least one; "1" and 1 are different labels,
        and ("a", "bc") differs from ("ab", "c").
        ValueError for labels that this Stream has derived before:
        the same keystream would be used twice.
        """
        refuse_forked(self, self._process)
        if not labels or any(type(label) not in (str, int) for label in labels):
            raise ValueError(f"labels must be str or int, at least one label, got {labels}")
        text = b"derive"
        for label in labels:
            encoded, kind = str(label).encode(), b"s" if isinstance(label, str) else b"i"
            text += kind + len(encoded).to_bytes(8, "big") + encoded
        key = _prf(self.key, text)
        if key in self._derived:
            raise ValueError(
                f"labels {labels} were derived before: the same keystream would be used twice"
            )
        if remember:
            self._derived.add(key)
        stream = Stream(key)
        stream._taught_from = self._taught_from
        return stream

    def __repr__(self) -> str:
        if self._taught_from is not None:
            return f"<Stream seeded for teaching with {self._taught_from}: NOT SECRET>"
        return "<Stream, key hidden>"

    def __reduce_ex__(self, protocol):
        raise TypeError(
            "a Stream cannot be copied or pickled: both copies would give the same words"
        )


def refuse_forked(secret: object, process: int) -> None:
    """RuntimeError unless this is the process (its number) in which a secret was made: a forked
    copy would use it again."""
    if os.getpid() != process:
        raise RuntimeError(
            f"this {type(secret).__name__} was made in another process; using it here would use "
            "its random "
            "words a second time"
        )


def _prf(key: bytes, text: bytes) -> bytes:
    return hmac.digest(key, text, hashlib.sha256)
