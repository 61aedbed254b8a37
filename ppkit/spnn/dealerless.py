"""Algorithm 2 without a dealer: two holders make its triples themselves, by Paillier, packed.

zhou2021, 3.3.1, has A and B make them "collaboratively" and does not say how. Line 7 multiplies
one holder's <X> (n, d) with the other's <theta> (d, width). The first picks U, the second V, both
uniform mod 2^64, and each has a key of its own:

    second -> first    Enc(V_k), k = 1..d: the numbers of one row of V in one plaintext
    first -> second    Enc(sum_k U_ik V_k + R_i), i = 1..n, with fresh randomness
    first: W = -R mod 2^64,    second: W = (what it decrypts) mod 2^64,    together U V

Both happen at once, in both directions. Who sees what (semi-honest): the first ciphertexts under a
key that it lacks; the second sum_k U_ik V_k + R. That is a whole number below d 2^128 plus R,
uniform on at least d 2^(128 + 40) numbers: at most 2^-40 from R alone, in statistical distance,
for each number of the product. No field of a plaintext runs into the next one.
"""

from dataclasses import dataclass
from itertools import permutations

import gmpy2
import numpy as np
import torch
from gmpy2 import mpz
from torch import Tensor

from ppkit.spnn import ring
from ppkit.spnn.encrypted import key_from, key_out
from ppkit.spnn.messages import SERVER, Malformed, Receive, Send, bytes_from, said_of
from ppkit.spnn.paillier_keys import PrivateKey, PublicKey, powers
from ppkit.spnn.published import Published, PublishedHolder
from ppkit.spnn.randomness import Stream

MASK_BITS = 40  # by so many bits R is longer than what it hides
OFFERED, ANSWERED = "Enc(V)", "Enc(U V + R)"


@dataclass(frozen=True)
class Fields:
    """How the numbers of one row of a product lie in plaintexts.

    d: terms of each sum, >= 1.  width: numbers in a row.  key_bits: length of n.
    ValueError if a key is too short for one number.

    >>> fields = Fields(d=28, width=8, key_bits=2048)
    >>> fields.mask_bytes, fields.field_bits, fields.per_plaintext, fields.n_plaintexts
    (22, 177, 11, 1)
    """

    d: int
    width: int
    key_bits: int

    def __post_init__(self):
        if self.per_plaintext < 1:
            raise ValueError(
                f"a key of {self.key_bits} bits is too short for a triple: one number takes "
                f"{self.field_bits} bits"
            )

    @property
    def mask_bytes(self) -> int:
        """Of one number of R."""
        return -(-(128 + (self.d - 1).bit_length() + MASK_BITS) // 8)

    @property
    def field_bits(self) -> int:
        return 8 * self.mask_bytes + 1

    @property
    def per_plaintext(self) -> int:
        return (self.key_bits - 1) // self.field_bits

    @property
    def n_plaintexts(self) -> int:
        """For one row."""
        return -(-self.width // self.per_plaintext)

    def pack(self, rows: list[list[int]]) -> list[int]:
        """n_plaintexts plaintexts for each row of whole numbers."""
        return [
            int(gmpy2.pack(row[start : start + self.per_plaintext], self.field_bits))
            for row in rows
            for start in range(0, self.width, self.per_plaintext)
        ]

    def unpack(self, plaintexts: list[int]) -> list[list[int]]:
        """The rows again; ValueError for what is no row of this width."""
        rows: list[list[int]] = []
        for number, plaintext in enumerate(plaintexts):
            if number % self.n_plaintexts == 0:
                rows.append([])
            size = min(self.per_plaintext, self.width - len(rows[-1]))
            part = [int(m) for m in gmpy2.unpack(mpz(plaintext), self.field_bits)]
            if len(part) > size:
                raise ValueError(f"a plaintext holds more than {size} numbers")
            rows[-1] += part + [0] * (size - len(part))
        return rows


def offer(public: PublicKey, V: Tensor, fields: Fields, *, stream: Stream) -> list[int]:
    """The second holder's ciphertexts of V (d, width) int64, under its own key, row by row."""
    packed = fields.pack(V.numpy().view(np.uint64).tolist())
    return public.encrypt_integers(packed, stream.random_bytes(public.exponent_bytes * len(packed)))


def answer(
    public: PublicKey, offered: list[int], U: Tensor, fields: Fields, *, stream: Stream
) -> tuple[list[int], Tensor]:
    """The first holder's: ciphertexts of U V + R under the other's key, and its share W of U V.

    offered: of `offer`.  U: (n, d) int64.  Returns n * n_plaintexts whole numbers and (n, width)
    int64.
    The powers Enc(V_k)^(U_ik) come from a table of each base, one entry for every byte.
    """
    n, square, blocks = len(U), mpz(public.n) ** 2, fields.n_plaintexts
    drawn = stream.random_bytes(n * fields.width * fields.mask_bytes)
    R = np.frombuffer(drawn, np.uint8).reshape(n, fields.width, fields.mask_bytes)
    rows = [[int.from_bytes(r.tobytes(), "little") for r in row] for row in R]
    packed = fields.pack(rows)
    masks = public.encrypt_integers(
        packed, stream.random_bytes(public.exponent_bytes * len(packed))
    )
    sums, digits = [mpz(c) for c in masks], U.contiguous().numpy().view(np.uint8).reshape(n, -1, 8)
    for number, base in enumerate(offered):
        k, block = divmod(number, blocks)
        table = powers(base, square, 8)
        for i, exponent in enumerate(digits[:, k].tolist()):
            c = sums[i * blocks + block]
            for row, digit in zip(table, exponent):
                c = c * row[digit] % square
            sums[i * blocks + block] = c
    return [int(c) for c in sums], -_words(rows)


def opened(private: PrivateKey, answered: list[int], fields: Fields) -> Tensor:
    """The second holder's share W (n, width) int64 of U V.  ValueError for what `answer` never
    gives.
    """
    return _words(fields.unpack(private.decrypt_integers(answered)))


class _DealerlessHolder(PublishedHolder):
    """Has a key of its own."""

    def __init__(self, name, setup):
        if len(setup.names) != 2:
            raise ValueError(
                f"without a dealer there are 2 holders, got {len(setup.names)}: the truncation of "
                "more takes one"
            )
        super().__init__(name, setup)
        [self.other] = self.others
        self._private = setup.own_keys()
        self._fields = Fields(self.d, self.width, self._private.public.bits)

    def connect(self):
        mine = self._private.public
        yield Send(self.other, "public key", key_out(mine))
        self._public = key_from(self.other, (yield Receive(self.other, "public key")), mine.bits)
        if self._public == mine:
            raise Malformed(
                f"{said_of(self.other, 'public key')}: it is the key of holder {self.name}, who "
                "needs another's",
                self.other,
            )

    def cross_products(self, X, T):
        fields, mine, theirs = self._fields, self._private.public, self._public
        U, V = self.stream.words(tuple(X.shape)), self.stream.words(tuple(T.shape))
        offered = offer(mine, V, fields, stream=self.stream)
        yield Send(self.other, OFFERED, mine.payload(offered), "offline")
        came = yield Receive(self.other, OFFERED)
        offered = self._integers(OFFERED, came, self.d * fields.n_plaintexts, theirs)
        answered, W_first = answer(theirs, offered, U, fields, stream=self.stream)
        yield Send(self.other, ANSWERED, theirs.payload(answered), "offline")
        came = yield Receive(self.other, ANSWERED)
        answered = self._integers(ANSWERED, came, len(X) * fields.n_plaintexts, mine)
        try:
            W_second = opened(self._private, answered, fields)
        except ValueError as error:
            raise Malformed(f"{said_of(self.other, ANSWERED)}: {error}", self.other) from None
        yield Send(self.other, "X - U", X - U)
        yield Send(self.other, "Y - V", T - V)
        E = yield from self.receive(self.other, "X - U", X.shape)
        F = yield from self.receive(self.other, "Y - V", T.shape)
        # X (F + V), of which V is the other's: X F + W here, (X - U) V + W there
        return ring.matmul(X, F) + W_first + ring.matmul(E, V) + W_second

    def _integers(self, name: str, payload: object, size: int, public: PublicKey) -> list[int]:
        payload = bytes_from(self.other, name, payload, size * public.ciphertext_bytes)
        came = public.integers(payload)
        if not all(0 < c < public.n**2 for c in came):
            raise Malformed(f"{said_of(self.other, name)} is no ciphertext", self.other)
        return came


class Dealerless(Published):
    """Algorithm 2 as printed, for two holders that make their triples together, by packed Paillier.

    Truncation is SecureML's, as in `Published`.
    Guarantee: semi-honest, no two parties collude; nobody learns more than in `Published`, under
    Paillier's assumption (`paillier_keys`) and up to a statistical distance of 2^-40 for each
    number that is opened offline, n * width for each batch and direction.
    Source: zhou2021, section 3.3.1 and Algorithm 2.  Departs from it: how triples are made is this
    kit's choice; one factor of each is known whole to the holder whose secret it masks.
    """

    sees = (
        "server: two shares of h1, each of them uniform; holders: uniform shares, X - U and "
        "theta - V, ciphertexts under the other's key, masked sums under their own"
    )
    compute = (
        "2 (n + d) encryptions, 2 n decryptions and 2 n d powers of 64 bits for each batch; 6 ring "
        "products"
    )
    holder_class, dealer_class = _DealerlessHolder, None

    @classmethod
    def messages(cls, names):
        exchanged = ["public key", OFFERED, ANSWERED, "<X>", "<theta>", "X - U", "Y - V"]
        sent = [(*way, what) for way in permutations(names) for what in exchanged]
        return sent + [(name, SERVER, "<X theta>") for name in names]


def _words(rows: list[list[int]]) -> Tensor:
    """Whole numbers mod 2^64, int64."""
    words = np.array([[m % 2**64 for m in row] for row in rows], dtype=np.uint64)
    return torch.from_numpy(words.view(np.int64))
