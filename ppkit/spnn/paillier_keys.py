"""Paillier's encryption of whole integers: keys, encryption from a table of powers, decryption by
the two primes.

    c = (1 + n)^m h_n^a mod n^2,    h = -x^2 mod n,    h_n = h^n mod n^2,
    a uniform on [0, 2^(bits/2))

Paillier's own c = (1 + n)^m r^n takes a full power per ciphertext. Damgard, Jurik and Nielsen fix
the base h_n, so that its powers can be tabled once per key (one entry for every byte of the
exponent, no squarings left), and take an exponent of half the key's length. What decrypts one
decrypts the other: phe's private key reads these ciphertexts and the reverse.
They draw x at random, and the key is n and h. Here x is a hash of n (SHAKE-256), which is as good
as a random number if the hash behaves like one: n is the whole key, and every holder computes h_n
by itself. A holder that took h_n from the server could be given 1, and would encrypt without
randomness: 1 + n m tells m to whoever sees it.

What it rests on: that n-th powers modulo n^2 look like any numbers (Paillier's assumption), and
that h^a for an exponent of half length looks like h^a for a full one; Goldreich and Rosen derive
the second from the hardness of factoring n, for a random base. p = q = 3 mod 4 and
gcd(p - 1, q - 1) = 2 make the squares modulo n a cyclic group of odd order and -1 a non-square with
Jacobi symbol 1, so that h generates what has Jacobi symbol 1, up to small prime factors of p - 1
and q - 1.

What a holder checks (`PublicKey.check`): n has the agreed length, is 1 modulo 4, is neither a prime
nor a power, has no small factor, and gives an h_n that is 0, 1 or -1 modulo no factor. What it
cannot check: that n has two prime factors only, both large, 3 modulo 4 and drawn at random. Whoever
finds the factors reads what holders send each other, as the server could.
A proof in zero knowledge exists ("Paillier-Blum modulus", Canetti and others,
2020); the kit has none. That the server makes its key as `generate_keys` does is part of
"semi-honest".

Not constant in time: which table entries are read, and how long a product with 1 takes, depend on
a; a power modulo p^2 depends on p. Who shares the holder's processor and watches its caches may
learn a, divide h_n^a out and read m; at the server the key. Between machines only sums of many
thousand steps can be timed. For a kit in which all parties are objects of one process that changes
nothing; on rented machines it would.

This file imports no torch, so that a worker process starts at once. Damgard, Jurik, Nielsen: "A
generalization of Paillier's public-key system with applications to electronic voting" (2010),
section 4.2.
"""

import hashlib
import math
import secrets
from dataclasses import dataclass, field
from functools import lru_cache

import gmpy2
from gmpy2 import mpz

from ppkit.validation import must_be

SECURE_BITS = 2048
_SMALL = 1 << 16  # a factor below is small


@dataclass(frozen=True)
class PublicKey:
    """What the server hands to every holder.

    n: product of two secret primes, a multiple of 16 bits long; plaintexts are integers in [0, n).
    """

    n: int

    @property
    def h_n(self) -> int:
        """The base of the randomness, in [1, n^2), from n alone; takes 40 ms at 2,048 bits."""
        n_bytes = self.bits // 8
        wide = hashlib.shake_256(self.n.to_bytes(n_bytes, "big")).digest(n_bytes + 16)
        x = int.from_bytes(wide, "big") % self.n  # uniform but for 2^-128
        return int(gmpy2.powmod(-x * x % self.n, self.n, self.n**2))

    def check(self, bits: int) -> None:
        """Refuse what `generate_keys(bits)` never makes, as far as that shows without the primes.

        bits: the length that was agreed.  ValueError in one sentence that names what is wrong
        first: the length, a factor below 65,536, a prime, a power, 3 modulo 4, or an h_n without
        randomness modulo a factor.
        Guarantee: no more than that; what a holder cannot check stands at the head of this file.

        >>> PublicKey(7 * 2305843009213693951).check(64)  # doctest: +ELLIPSIS
        Traceback (most recent call last):
        ValueError: a public key must be a product of two large primes, ... one has the factor 7
        """
        n, wrong = mpz(self.n), ""
        if self.bits != bits:
            wrong = f"has {self.bits:,} bits"
        elif (factor := gmpy2.gcd(n, gmpy2.primorial(_SMALL))) > 1:
            wrong = f"has the factor {factor}"
        elif gmpy2.is_prime(n):
            wrong = "is a prime"
        elif gmpy2.is_power(n):
            wrong = "is a power of a smaller number"
        elif n % 4 != 1:
            wrong = "is 3 modulo 4, as no product of two primes is that are 3 modulo 4 themselves"
        elif gmpy2.gcd(self.h_n * (self.h_n**2 - 1), n) > 1:
            wrong = (
                "has an h_n that is 0, 1 or -1 modulo a factor of n, and would hide nothing there"
            )
        if wrong:
            raise ValueError(
                "a public key must be a product of two large primes, "
                f"{bits:,} bits long: this one {wrong}"
            )

    @property
    def bits(self) -> int:
        """Length of n in bits, the size that security is named by."""
        return self.n.bit_length()

    @property
    def exponent_bytes(self) -> int:
        """Bytes of randomness that one ciphertext takes: half the key's length."""
        return self.bits // 16

    @property
    def ciphertext_bytes(self) -> int:
        """Bytes of one ciphertext on the wire: twice the key's length, whatever it holds."""
        return self.bits // 4

    def payload(self, ciphertexts: list[int]) -> bytes:
        """Ciphertexts as they travel: one after the other, big-endian."""
        return b"".join(int(c).to_bytes(self.ciphertext_bytes, "big") for c in ciphertexts)

    def integers(self, payload: bytes) -> list[int]:
        """The ciphertexts of a payload."""
        starts = range(0, len(payload), self.ciphertext_bytes)
        return [int.from_bytes(payload[i : i + self.ciphertext_bytes], "big") for i in starts]

    def encrypt_integers(self, plaintexts: list[int], exponents: bytes) -> list[int]:
        """One ciphertext for each integer: (1 + n m) h_n^a mod n^2.

        plaintexts: integers m in [0, n).  exponents: `exponent_bytes` fresh, secret, uniform bytes
        for each of them, never used again: who knows a reads m, and two ciphertexts with one a give
        away the difference of their plaintexts.
        Returns integers in [1, n^2).  ValueError if there are too few or too many exponents, or a
        plaintext is out of range.
        """
        width, n = self.exponent_bytes, mpz(self.n)
        if len(exponents) != width * len(plaintexts):
            raise ValueError(
                f"{len(plaintexts)} plaintexts need {width * len(plaintexts)} bytes of exponents, "
                f"got {len(exponents)}"
            )
        if plaintexts and not (min(plaintexts) >= 0 and max(plaintexts) < n):
            raise ValueError(
                "a plaintext is out of range: it must be >= 0 and smaller than the key's n"
            )
        square, table, ciphertexts = n * n, _powers(self), []
        for i, m in enumerate(plaintexts):
            c = 1 + n * m
            for row, digit in zip(table, exponents[i * width : (i + 1) * width], strict=True):
                c = c * row[digit] % square
            ciphertexts.append(int(c))
        return ciphertexts


@dataclass(frozen=True)
class PrivateKey:
    """What the server keeps.

    public: the key that belongs to it.  p, q: the primes, not shown by repr.  ValueError if p q is
    not the key's n.
    """

    public: PublicKey
    p: int = field(repr=False)
    q: int = field(repr=False)

    def __post_init__(self):
        if self.p * self.q != self.public.n or self.p == self.q:
            raise ValueError("p and q must be the two primes of the public key, p q = n")

    def decrypt_integers(self, ciphertexts: list[int]) -> list[int]:
        """The plaintexts, modulo p and modulo q apart and put together (Chinese remainder theorem).

        m mod p = L_p(c^(p-1) mod p^2) / L_p((1 + n)^(p-1) mod p^2),    L_p(u) = (u - 1)/p,
        and L_p((1 + n)^(p-1) mod p^2) = -q mod p

        Two powers of half length with half the exponent: a quarter of the work of one modulo n^2.
        Returns integers in [0, n).  ValueError for what no encryption under this key gives.
        """
        p, q = mpz(self.p), mpz(self.q)
        p2, q2 = p * p, q * q
        over_p, over_q, p_in_q = gmpy2.invert(-q, p), gmpy2.invert(-p, q), gmpy2.invert(p, q)
        plaintexts = []
        for c in ciphertexts:
            if not 0 < c < p2 * q2 or c % p == 0 or c % q == 0:
                raise ValueError(
                    "a ciphertext is out of range: it must be > 0, below n^2 and without a factor "
                    "of n"
                )
            in_p = (gmpy2.powmod(c % p2, p - 1, p2) - 1) // p * over_p % p
            in_q = (gmpy2.powmod(c % q2, q - 1, q2) - 1) // q * over_q % q
            plaintexts.append(int(in_p + p * ((in_q - in_p) * p_in_q % q)))
        return plaintexts


def generate_keys(
    bits: int = SECURE_BITS, *, teaching: bool = False
) -> tuple[PublicKey, PrivateKey]:
    """A key pair made for Damgard, Jurik and Nielsen's randomness, from the operating system's
    CSPRNG.

    bits: length of n, a multiple of 16, at least 2,048 (a tenth of a second).  teaching: allows
    from 64 bits on, for lessons and tests only: 512 bits are factored in hours.
    Returns (public_key, private_key).  ValueError for another length.

    >>> public_key, private_key = generate_keys(bits=512, teaching=True)
    >>> public_key.bits, private_key.p % 4, private_key.q % 4
    (512, 3, 3)
    """
    must_be("a whole number >= 1", bits=bits)
    bits, least = int(bits), 64 if teaching else SECURE_BITS  # NumPy's whole numbers overflow
    if bits < least or bits % 16:
        hint = "" if teaching else "; teaching=True allows small keys, which protect nothing"
        raise ValueError(f"bits must be a multiple of 16 and at least {least:,}, got {bits}{hint}")
    p, q = _prime(bits // 2), _prime(bits // 2)
    while p == q or math.gcd(p - 1, q - 1) != 2:
        q = _prime(bits // 2)
    public = PublicKey(p * q)
    return public, PrivateKey(public, p, q)


def _prime(bits: int) -> int:
    """A random prime = 3 mod 4 with its two highest bits set, so that a product of two has exactly
    twice the length."""
    while True:
        candidate = mpz(secrets.randbits(bits)) | 3 << (bits - 2) | 3
        if gmpy2.is_prime(
            candidate, 40
        ):  # Baillie-PSW, which no known composite passes, and Miller-Rabin
            return int(candidate)


@lru_cache(maxsize=4)  # 17 MB and 0.2 s per 2,048-bit key
def _powers(public: PublicKey) -> list[list[mpz]]:
    """Of h_n, for exponents of `exponent_bytes`."""
    return powers(public.h_n, mpz(public.n) ** 2, public.exponent_bytes)


def powers(base: int, modulus: mpz, n_bytes: int) -> list[list[mpz]]:
    """table[i][d] = base^(d 256^i) mod modulus: one row for every byte of an exponent, lowest
    first, one entry for its value.
    """
    base, table = mpz(base), []
    for _ in range(n_bytes):
        row = [mpz(1)]
        for _ in range(255):
            row.append(row[-1] * base % modulus)
        table.append(row)
        base = row[-1] * base % modulus
    return table
