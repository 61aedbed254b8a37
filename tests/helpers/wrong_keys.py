"""Public keys that are wrong in one way each."""

import gmpy2

BITS = 512


def prime(bits, remainder=3):
    """The first prime of so many bits, its two highest set, that leaves this remainder modulo 4."""
    found = gmpy2.next_prime(3 << bits - 2)
    while found % 4 != remainder:
        found = gmpy2.next_prime(found)
    return int(found)


def multiple(factor):
    """factor times a prime, of BITS bits."""
    return factor * int(gmpy2.next_prime((3 << BITS - 2) // factor))


P, Q = prime(256), int(gmpy2.next_prime(prime(256, 1) + (1 << 200)))
WRONG = {
    "longer": (prime(264) * prime(264), "has 528 bits"),
    "a bit shorter": ((1 << BITS - 1) - 1, "has 511 bits"),
    "even": (multiple(2), "has the factor 2"),
    "a small factor": (multiple(65_521), "has the factor 65521"),
    "two of them": (multiple(3 * 1009), "has the factor 3027"),
    "prime": (prime(BITS), "is a prime"),
    "square": (P * P, "is a power of a smaller number"),
    "power": (
        int(gmpy2.next_prime(gmpy2.iroot(gmpy2.mpz(7) << BITS - 3, 3)[0])) ** 3,
        "is a power of a smaller number",
    ),
    "of another kind": (P * prime(256, 1), "is 3 modulo 4"),
}
