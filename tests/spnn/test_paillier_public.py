"""What a holder takes for the server's public key, and what it computes from it by itself."""

import hashlib
import math

import gmpy2
import pytest
import torch

from ppkit.spnn import encrypted
from ppkit.spnn.messages import Mailroom, Malformed, Transcript
from ppkit.spnn.paillier_keys import PublicKey, generate_keys
from ppkit.spnn.protocols import protocol_of, side_of

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


def connected(payload, bits=BITS):
    """Holder A of protocol he, after the server's message came."""
    holder = side_of("A", protocol="he", names=["A", "B"], columns=[2, 2], width=3, key_bits=bits)
    program = holder.connect()
    next(program)
    with pytest.raises(StopIteration):
        program.send(payload)
    return holder


@pytest.mark.parametrize("what", WRONG)
def test_a_holder_refuses_each_wrong_key_and_names_the_server(what):
    n, why = WRONG[what]
    sentence = f"a public key must be a product of two large primes, 512 bits long: this one {why}"
    said = f"'public key' of the server: {sentence}"
    with pytest.raises(ValueError, match=f"^{sentence}"):
        PublicKey(n).check(BITS)
    payload = n.to_bytes(-(-n.bit_length() // 8), "big")
    if len(payload) != BITS // 8:
        said = "'public key' of the server must be 64 bytes, a key of 512 bits, got 66 bytes"
    with pytest.raises(Malformed) as refused:
        connected(payload)
    assert str(refused.value).startswith(said) and "\n" not in str(refused.value)
    assert refused.value.role == "server"


@pytest.mark.parametrize("payload", [b"", None, {"n": 5}, torch.zeros(64, dtype=torch.uint8)])
def test_what_is_no_key_at_all_is_refused(payload):
    sentence = "^'public key' of the server must be 64 bytes, a key of 512 bits, got "
    with pytest.raises(Malformed, match=sentence):
        connected(payload)


def test_a_key_below_the_agreed_length_is_refused_though_it_is_a_good_one():
    """As a server does that wants keys of which anyone finds the primes."""
    public, _ = generate_keys(512, teaching=True)
    assert connected(encrypted.key_out(public)).public == public
    with pytest.raises(Malformed, match="must be 256 bytes, a key of 2,048 bits, got 64 bytes"):
        connected(encrypted.key_out(public), bits=2048)
    with pytest.raises(Malformed, match="this one has 505 bits"):
        connected((public.n >> 7).to_bytes(64, "big"))


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


def test_h_n_never_travels():
    private = generate_keys(BITS, teaching=True)[1]
    protocol = protocol_of("he", [2, 2], transcript=Transcript(), keys=private)
    sent = [message for message in protocol.transcript.messages if message.name == "public key"]
    assert [(message.receiver, message.payload) for message in sent] == [
        (holder, private.public.n.to_bytes(BITS // 8, "big")) for holder in ("A", "B")
    ]
    assert all(holder.public.h_n == by_hand(private.public.n) for holder in protocol.holders)


def test_keys_given_must_have_the_length_that_is_asked_for():
    private = generate_keys(BITS, teaching=True)[1]
    with pytest.raises(Malformed, match="must be 32 bytes, a key of 256 bits, got 64 bytes"):
        protocol_of("he", [2, 2], transcript=Transcript(), keys=private, key_bits=256)


def test_a_key_that_comes_again_is_checked_again():
    """As in a resumed run: the server says its key anew, and nothing is taken on trust."""
    public, _ = generate_keys(BITS, teaching=True)
    holder = connected(encrypted.key_out(public))
    program = holder.connect()
    next(program)
    with pytest.raises(Malformed, match="is a prime"):
        program.send(WRONG["prime"][0].to_bytes(64, "big"))
    assert holder.public == public


def test_the_holders_of_a_room_stop_at_a_wrong_key():
    def server():
        for name in ("A", "B"):
            yield encrypted.Send(name, "public key", WRONG["square"][0].to_bytes(64, "big"))

    common = dict(protocol="he", names=["A", "B"], columns=[2, 2], width=3, key_bits=BITS)
    programs = {name: side_of(name, **common).connect() for name in ("A", "B")}
    with pytest.raises(Malformed, match="is a power of a smaller number"):
        Mailroom(Transcript()).run({"server": server(), **programs})


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
