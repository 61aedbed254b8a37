import hashlib
import math
import pickle
import secrets

import gmpy2
import phe
import pytest
from wrong_keys import BITS, WRONG, P, Q

from ppkit.spnn.paillier_keys import PrivateKey, PublicKey, generate_keys


@pytest.fixture(scope="module")
def keys():
    return generate_keys(bits=512, teaching=True)


def by_phe(private):
    public_key = phe.PaillierPublicKey(private.public.n)
    return public_key, phe.PaillierPrivateKey(public_key, private.p, private.q)


def plaintexts_for(public):
    n = public.n
    return [0, 1, 2, n - 1, n - 2, n // 2, n // 2 + 1, *(secrets.randbelow(n) for _ in range(25))]


@pytest.mark.parametrize("bits", [64, 80, 256, 512, 2048])
def test_keys_meet_the_conditions_of_damgard_jurik_and_nielsen(bits):
    for _ in range(1 if bits == 2048 else 8):
        public, private = generate_keys(bits=bits, teaching=bits < 2048)
        p, q, n = private.p, private.q, public.n
        assert n == p * q and public.bits == bits and p.bit_length() == q.bit_length() == bits // 2
        assert (
            gmpy2.is_prime(p)
            and gmpy2.is_prime(q)
            and p % 4 == q % 4 == 3
            and math.gcd(p - 1, q - 1) == 2
        )
        assert math.gcd(n, (p - 1) * (q - 1)) == 1  # Paillier's own condition
        assert (
            gmpy2.powmod(public.h_n, math.lcm(p - 1, q - 1), n * n) == 1
        )  # an n-th power: hides, carries no plaintext
        assert gmpy2.legendre(public.h_n, p) == gmpy2.legendre(public.h_n, q) == -1  # -x^2, not x^2


@pytest.mark.slow
def test_the_default_is_2048_bits_and_keys_differ():
    (one, _), (other, _) = generate_keys(), generate_keys()
    assert one.bits == other.bits == 2048 and math.gcd(one.n, other.n) == 1


def test_the_table_of_powers_gives_the_formula(keys):
    public, private = keys
    n, width = public.n, public.exponent_bytes
    assert width * 8 == public.bits // 2
    plaintexts = plaintexts_for(public)
    edge = [bytes(width), b"\xff" * width, b"\x01" + bytes(width - 1), bytes(width - 1) + b"\x80"]
    exponents = edge + [secrets.token_bytes(width) for _ in plaintexts[len(edge) :]]
    expected = [
        (1 + n * m) * pow(public.h_n, int.from_bytes(a, "little"), n * n) % (n * n)
        for m, a in zip(plaintexts, exponents, strict=True)
    ]
    assert public.encrypt_integers(plaintexts, b"".join(exponents)) == expected
    assert private.decrypt_integers(expected) == plaintexts


def test_phe_reads_what_we_encrypt_and_we_read_what_phe_encrypts(keys):
    public, private = keys
    phe_public, phe_private = by_phe(private)
    plaintexts = plaintexts_for(public)
    ours = public.encrypt_integers(
        plaintexts, secrets.token_bytes(public.exponent_bytes * len(plaintexts))
    )
    assert [phe_private.raw_decrypt(c) for c in ours] == plaintexts
    assert private.decrypt_integers([phe_public.raw_encrypt(m) for m in plaintexts]) == plaintexts


@pytest.mark.slow
def test_a_2048_bit_key_does_the_same_with_phe():
    public, private = generate_keys()
    phe_public, phe_private = by_phe(private)
    plaintexts = [0, public.n - 1, secrets.randbelow(public.n)]
    ours = public.encrypt_integers(plaintexts, secrets.token_bytes(3 * 128))
    assert [phe_private.raw_decrypt(c) for c in ours] == plaintexts
    assert private.decrypt_integers([phe_public.raw_encrypt(m) for m in plaintexts]) == plaintexts


def test_products_decrypt_to_sums(keys):
    public, private = keys
    a, b = (
        public.encrypt_integers([m], secrets.token_bytes(public.exponent_bytes))[0]
        for m in (public.n - 5, 12)
    )
    assert private.decrypt_integers([a * b % public.n**2]) == [7]


def test_two_keys_have_tables_of_their_own(keys):
    public, _ = keys
    other, other_private = generate_keys(bits=512, teaching=True)
    for key in (public, other, public):
        key.encrypt_integers([3], bytes(key.exponent_bytes))
    assert other_private.decrypt_integers(
        other.encrypt_integers([3], b"\x05" * other.exponent_bytes)
    ) == [3]


def test_keys_travel_and_hide_their_secrets(keys):
    public, private = keys
    public.encrypt_integers([1], bytes(public.exponent_bytes))  # the table is no part of the key
    assert len(pickle.dumps(public)) < 1000 and pickle.loads(pickle.dumps(private)) == private
    assert str(private.p) not in repr(private) and str(private.q) not in repr(private)


@pytest.mark.parametrize(
    "bits, teaching, message",
    [
        (
            1024,
            False,
            r"at least 2,048, got 1024; teaching=True allows small keys, which protect nothing",
        ),
        (2050, False, r"a multiple of 16 and at least 2,048, got 2050"),
        (48, True, r"at least 64, got 48"),
        (520, True, r"a multiple of 16 .* got 520"),
    ],
)
def test_lengths_are_refused(bits, teaching, message):
    with pytest.raises(ValueError, match=message):
        generate_keys(bits=bits, teaching=teaching)


def test_bad_integers_are_refused(keys):
    public, private = keys
    room = bytes(public.exponent_bytes)
    for m in (-1, public.n):
        with pytest.raises(ValueError, match="plaintext is out of range"):
            public.encrypt_integers([m], room)
    for exponents in (b"", room[1:], room + room):
        with pytest.raises(
            ValueError, match=f"1 plaintexts need 32 bytes of exponents, got {len(exponents)}"
        ):
            public.encrypt_integers([1], exponents)
    for c in (0, -1, public.n**2, private.p, private.q * 5):
        with pytest.raises(ValueError, match="ciphertext is out of range"):
            private.decrypt_integers([c])
    for p, q in ((private.p, private.p), (private.p + 4, private.q)):
        with pytest.raises(ValueError, match="p and q must be the two primes"):
            PrivateKey(public, p, q)
    with pytest.raises(ValueError, match="p and q must be"):
        PrivateKey(PublicKey(49), 7, 7)


def test_lengths_of_our_own_keys_are_as_before():
    public = PublicKey((1 << 2047) + 1)
    assert (public.exponent_bytes, public.ciphertext_bytes) == (128, 512)


def test_the_published_vectors_of_phe():
    """python-paillier, its own tests of regression: n = 126869 = 293 * 433, m = 10100 with r =
    74384, and m = 1 with r = 1.
    """
    private = PrivateKey(PublicKey(126869), 293, 433)
    assert private.decrypt_integers([935906717, 126870]) == [10100, 1]
    for m, r, c in ((10100, 74384, 935906717), (1, 1, 126870)):
        assert pow(1 + 126869, m, 126869**2) * pow(r, 126869, 126869**2) % 126869**2 == c


def test_the_wrong_keys_are_wrong_in_one_way_each():
    """All but the first two have the agreed length, and none but those named a small factor."""
    for what, (n, _) in list(WRONG.items())[2:]:
        assert n.bit_length() == BITS, what
    small = math.prod(filter(gmpy2.is_prime, range(2, 1 << 16)))
    factors = {what: math.gcd(n, small) for what, (n, _) in list(WRONG.items())[2:]}
    assert factors == {
        "even": 2,
        "a small factor": 65_521,
        "two of them": 3027,
        "prime": 1,
        "square": 1,
        "power": 1,
        "of another kind": 1,
    }
    assert WRONG["prime"][0] % 4 == 3 and WRONG["of another kind"][0] % 4 == 3 and P * P % 4 == 1


@pytest.mark.parametrize("bits", [64, 80, 256, 2048])
def test_every_key_that_is_made_is_taken(bits):
    for _ in range(1 if bits == 2048 else 40):
        public, _ = generate_keys(bits, teaching=bits < 2048)
        public.check(bits)


def by_hand(n):
    """h_n in plain Python: -x^2 to the n-th power; x is the hash of n, 16 bytes longer than n."""
    n_bytes = n.bit_length() // 8
    hashed = hashlib.shake_256(n.to_bytes(n_bytes, "big")).digest(n_bytes + 16)
    x = int.from_bytes(hashed, "big") % n
    return pow(n - x * x % n, n, n * n)


def test_h_n_is_computed_from_n_alone():
    public, private = generate_keys(BITS, teaching=True)
    assert public.h_n == by_hand(public.n) == PublicKey(public.n).h_n
    assert repr(public) == f"PublicKey(n={public.n})"
    pinned = hashlib.sha256(b"%d" % PublicKey(P * Q).h_n).hexdigest()
    assert pinned[:16] == "50a4292f1bd2c06b"  # every machine computes the same
    phi = (private.p - 1) * (private.q - 1)
    assert pow(public.h_n, phi, public.n**2) == 1 != public.h_n  # an n-th power: no plaintext
    assert {gmpy2.legendre(public.h_n, p) for p in (private.p, private.q)} == {-1}


@pytest.mark.slow
@pytest.mark.parametrize("residue", [0, 1, -1])
def test_a_key_whose_randomness_is_none_modulo_a_factor_is_refused(residue):
    """n = 65537 q with h_n = residue modulo 65537: found by search, a few hundred thousand q."""
    p, q = 65_537, int(gmpy2.next_prime(2**63 // 65_537 + 2**45))
    while True:
        n = p * q
        if n % 4 == 1 and n.bit_length() == 64:
            wide = hashlib.shake_256(n.to_bytes(8, "big")).digest(24)
            x = int.from_bytes(wide, "big") % p  # n mod p = 0, so x mod n mod p is this
            if -x * x % p == residue % p:  # h; its n-th power: n is odd, p - 1 a power of two
                break
        q = int(gmpy2.next_prime(q))
    assert PublicKey(n).h_n % p == residue % p
    with pytest.raises(ValueError, match="has an h_n that is 0, 1 or -1 modulo a factor of n"):
        PublicKey(n).check(64)
