"""zhou2021's Algorithm 3: the first layer under Paillier's encryption,
many fixed-point numbers in one ciphertext.

The server makes the keys; holder 1 sends Enc(X_1 theta_1) to holder 2, each adds its own encryption
and passes the sum on, the last one sends it to the server, which decrypts h1 = sum_i X_i theta_i.
As published every element is a ciphertext of its own (`first_layer_elementwise`, by phe: slow and
obvious). Here a plaintext of 2,047 bits is filled with 49 numbers.

Who sees what (semi-honest, the server colludes with nobody). A holder sees a ciphertext whose key
it lacks. The server sees the last ciphertext only: (1 + n)^m h_n^(a_1 + ... + a_k), m the packed
sums. m is a function of the sums alone, carries included, since no field overflows into the next;
the exponents do not depend on anybody's numbers. So a simulator makes the server's view from h1
alone, exactly, and nobody need randomise the sum again. Every holder must *encrypt* its part,
though: if it only multiplied (1 + n)^m_i onto what came in, who sees both ciphertexts (the holder
before it, or anyone on the wire) would divide them and read m_i. And the way from holder to holder
must be closed to the server, whose key opens it.

phe (1.5, https://github.com/data61/python-paillier) is under the GPLv3: who passes on a work that
builds on it takes on its conditions. Only `phe_keys` and `first_layer_elementwise` use it.
"""

import secrets
from collections.abc import Sequence
from concurrent.futures import Executor
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING

import gmpy2
import numpy as np
import torch
from gmpy2 import mpz
from torch import Tensor

from ppkit.spnn.fixed_point import FRACTIONAL_BITS
from ppkit.spnn.paillier_keys import PrivateKey, PublicKey
from ppkit.spnn.paillier_keys import generate_keys as generate_keys  # who encrypts makes keys, too
from ppkit.spnn.randomness import Stream
from ppkit.validation import must_be

if TYPE_CHECKING:
    import phe

EXPONENT = -(FRACTIONAL_BITS // 4)  # phe counts in powers of 16
_CHUNK = 32  # ciphertexts a worker takes at a time: 20 to 80 ms


@dataclass(frozen=True)
class Packing:
    """How many bits each number of a ciphertext is given: declared before anything is encrypted,
    equal for all holders.

    field_bits = value_bits + ceil(log2 n_terms);  a number v is stored as v + 2^(value_bits - 1)

    The offset makes every number non-negative, so that a negative one does not borrow from its
    neighbour; a sum of n_terms of them stays below n_terms 2^value_bits <= 2^field_bits, so that
    none carries into it.
    value_bits: -2^(value_bits-1) <= v < 2^(value_bits-1), 2 to 63. 40 holds |x theta| < 2^23 at 16
    fractional bits.
    n_terms: encryptions that may be added up, >= 1: the number of holders.
    ValueError if out of range, or if field_bits > 64 (a sum could leave int64).

    >>> Packing(value_bits=40, n_terms=2).field_bits
    41
    """

    value_bits: int = 40
    n_terms: int = 2

    def __post_init__(self):
        must_be("a whole number >= 1", value_bits=self.value_bits, n_terms=self.n_terms)
        for name in ("value_bits", "n_terms"):  # NumPy's have a fixed length
            object.__setattr__(self, name, int(getattr(self, name)))
        if not 2 <= self.value_bits <= 63 or self.n_terms < 1 or self.field_bits > 64:
            raise ValueError(
                "value_bits must be 2 to 63 and n_terms >= 1 with room for their sum in 64 bits, "
                f"got {self.value_bits} and {self.n_terms}"
            )

    @property
    def field_bits(self) -> int:
        return self.value_bits + (self.n_terms - 1).bit_length()

    @property
    def offset(self) -> int:
        return 1 << (self.value_bits - 1)

    def n_fields(self, public: PublicKey) -> int:
        """Numbers per ciphertext; ValueError if the key is too small for one."""
        room = public.bits - 1  # every integer of that many bits is below n
        if self.field_bits > room:
            raise ValueError(
                f"a key of {public.bits} bits is too small for the packing: it holds {room} bits "
                f"and one field takes {self.field_bits}"
            )
        return room // self.field_bits

    def pack(self, public: PublicKey, values: Tensor) -> list[int]:
        """The plaintexts for int64 values in row-major order, the first number lowest; ValueError
        if one is out of range."""
        size, fields = self.n_fields(public), []
        for value in values.flatten().tolist():
            if not -self.offset <= value < self.offset:
                raise ValueError(
                    f"{value} is out of range: value_bits={self.value_bits} holds "
                    f"[{-self.offset}, {self.offset})"
                )
            fields.append(value + self.offset)
        starts = range(0, len(fields), size)
        return [int(gmpy2.pack(fields[i : i + size], self.field_bits)) for i in starts]

    def unpack(
        self, public: PublicKey, plaintexts: list[int], n_values: int, *, n_terms: int
    ) -> Tensor:
        """The sums of n_terms packed values, (n_values,) int64; ValueError if a plaintext is no
        such sum."""
        size, sums = self.n_fields(public), []
        most = n_terms * ((1 << self.value_bits) - 1)
        for start, plaintext in zip(range(0, n_values, size), plaintexts, strict=True):
            fields = gmpy2.unpack(mpz(plaintext), self.field_bits)
            count = min(size, n_values - start)
            if len(fields) > count or max(fields, default=0) > most:
                raise ValueError(
                    f"a decrypted plaintext is no sum of {n_terms} packings with "
                    f"value_bits={self.value_bits}"
                )
            fields += [0] * (count - len(fields))  # gmpy2 leaves out zeros at the top
            sums += [int(f) - n_terms * self.offset for f in fields]
        return torch.tensor(sums, dtype=torch.int64)


@dataclass(frozen=True)
class Ciphertexts:
    """An encrypted tensor.

    payload: the ciphertexts one after the other, each `ciphertext_bytes` long, big-endian: what is
    sent. Its length depends on the shape, the packing and the key, never on the numbers.
    public: the key they are under.  shape: of the tensor inside.  packing: how it is packed.
    n_terms: how many encryptions are added up in it.  Everything but the payload is public.
    """

    payload: bytes = field(repr=False)
    public: PublicKey
    shape: tuple[int, ...]
    packing: Packing
    n_terms: int

    def integers(self) -> list[int]:
        """The ciphertexts as integers modulo n^2."""
        return self.public.integers(self.payload)


def encrypt(
    public: PublicKey,
    values: Tensor,
    *,
    packing: Packing,
    stream: Stream | None = None,
    pool: Executor | None = None,
) -> Ciphertexts:
    """Encrypt a tensor of fixed-point numbers, many in each ciphertext.

    values: int64 of any shape, in the range of the packing (`fixed_point.encode` of X_i theta_i).
    stream: where the randomness comes from; default the operating system. Two calls with the same
    words of a stream give away the differences of their values; `Stream.seeded_for_teaching` is for
    teaching only.
    pool: a ProcessPoolExecutor spreads the ciphertexts over its processes, best started by "spawn"
    (they load no torch); the randomness is drawn here.
    Returns Ciphertexts with n_terms=1.  ValueError if a value is out of range, with the value and
    the range, or if the key is too small for the packing.
    Guarantee: two tensors of one shape cannot be told apart without the private key, under the
    assumptions of `paillier_keys`.
    Source: zhou2021, Algorithm 3, line 2.  Departs from it: packed, at a fixed scale (phe sends
    every number's own exponent in the clear, that is, its size).

    >>> public, private = generate_keys(bits=512, teaching=True)
    >>> packing = Packing(value_bits=40, n_terms=2)
    >>> a, b = (encrypt(public, torch.tensor([z]), packing=packing) for z in ([-3, 4], [1, -9]))
    >>> decrypt(private, add(public, a, b)).tolist()
    [[-2, -5]]
    """
    if values.dtype != torch.int64:
        raise ValueError(f"values must be an int64 tensor, got {values.dtype}")
    plaintexts = packing.pack(public, values)
    width = public.exponent_bytes
    needed = width * len(plaintexts)
    exponents = secrets.token_bytes(needed) if stream is None else stream.random_bytes(needed)
    parts = range(0, len(plaintexts), _CHUNK)
    spread = map if pool is None else pool.map
    encrypted = spread(
        public.encrypt_integers,
        [plaintexts[i : i + _CHUNK] for i in parts],
        [exponents[i * width : (i + _CHUNK) * width] for i in parts],
    )
    return Ciphertexts(
        public.payload([c for part in encrypted for c in part]),
        public,
        tuple(values.shape),
        packing,
        1,
    )


def add(public: PublicKey, a: Ciphertexts, b: Ciphertexts) -> Ciphertexts:
    """The encryption of the sum of two encrypted tensors: products modulo n^2; no private key.

    Both must be encoded with the same number of fractional bits, which no ciphertext shows.
    ValueError if the keys, the packings or the shapes differ, or if more terms were added than the
    packing has head-room for.
    Source: zhou2021, Algorithm 3, line 3.
    """
    if (public, a.packing, a.shape) != (a.public, b.packing, b.shape) or public != b.public:
        raise ValueError("both must be under the key given, with one packing and one shape")
    n_terms = a.n_terms + b.n_terms
    if n_terms > a.packing.n_terms:
        raise ValueError(
            f"the packing has head-room for n_terms={a.packing.n_terms}, the sum would have "
            f"{n_terms}"
        )
    square = mpz(public.n) ** 2
    products = [mpz(x) * y % square for x, y in zip(a.integers(), b.integers(), strict=True)]
    return replace(a, payload=public.payload(products), n_terms=n_terms)


def decrypt(private: PrivateKey, c: Ciphertexts, *, pool: Executor | None = None) -> Tensor:
    """The sums inside, int64 of the tensor's shape, exact.

    pool: as for `encrypt`; its processes are handed the private key.
    ValueError if the ciphertexts are under another key, or if what is inside is no sum of as many
    packed tensors.
    Source: zhou2021, Algorithm 3, line 4.
    """
    if private.public != c.public:
        raise ValueError("the ciphertexts are under another key than the private key's")
    ciphertexts = c.integers()
    spread = map if pool is None else pool.map
    decrypted = spread(
        private.decrypt_integers,
        [ciphertexts[i : i + _CHUNK] for i in range(0, len(ciphertexts), _CHUNK)],
    )
    plaintexts = [m for part in decrypted for m in part]
    return c.packing.unpack(
        c.public, plaintexts, torch.Size(c.shape).numel(), n_terms=c.n_terms
    ).reshape(c.shape)


def phe_keys(private: PrivateKey) -> tuple["phe.PaillierPublicKey", "phe.PaillierPrivateKey"]:
    """The same key pair as phe's objects (public, private)."""
    import phe  # here: who needs no oracle owes nothing to its licence

    public_key = phe.PaillierPublicKey(private.public.n)
    return public_key, phe.PaillierPrivateKey(public_key, private.p, private.q)


def first_layer_elementwise(
    public_key: "phe.PaillierPublicKey",
    private_key: "phe.PaillierPrivateKey",
    products: Sequence[Tensor | np.ndarray | list],
) -> Tensor:
    """Algorithm 3 as published: one ciphertext for every element of every holder, by phe; 21 ms an
    element at 2,048 bits with gmpy2, 190 ms without.

    products: X_i theta_i of each holder as `fixed_point.encode` gives it, int64, all of one shape;
    tensors, or lists and arrays of whole numbers.
    Returns their sum, int64, what the server decrypts; exact below 2^53.
    ValueError if there are none, or if shapes or types are others.
    Source: zhou2021, Algorithm 3.  Departs from it: the exponent is fixed (16^-4 = 2^-16), since
    phe sends it in the clear.

    >>> keys = phe_keys(generate_keys(bits=512, teaching=True)[1])
    >>> first_layer_elementwise(
    ...     *keys, [torch.tensor([65536, -1]), torch.tensor([-32768, -1])]
    ... ).tolist()
    [32768, -2]
    """
    import phe

    encoded = [torch.as_tensor(z) for z in products]
    forms = {(tuple(z.shape), z.dtype) for z in encoded}
    if len(forms) != 1 or {dtype for _, dtype in forms} != {torch.int64}:
        got = ", ".join(f"{shape} of {dtype}" for shape, dtype in sorted(forms, key=str))
        raise ValueError(
            f"products must be int64 tensors of one shape, one or more, got {got or 'none'}"
        )

    def encrypted(number: int) -> "phe.EncryptedNumber":
        return public_key.encrypt(phe.EncodedNumber(public_key, number % public_key.n, EXPONENT))

    # each holder, lines 2 and 3
    ciphertexts = [[encrypted(v) for v in z.flatten().tolist()] for z in encoded]
    sums = ciphertexts[0]
    for own in ciphertexts[1:]:  # holder to holder, line 3
        sums = [before + mine for before, mine in zip(sums, own, strict=True)]
    h1 = [round(private_key.decrypt(c) * 2**FRACTIONAL_BITS) for c in sums]  # the server, line 4
    return torch.tensor(h1, dtype=torch.int64).reshape(encoded[0].shape)
