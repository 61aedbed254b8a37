"""The first layer under Paillier: what a holder takes for the server's public key, and what each
party sees."""

import functools

import pytest
import torch
from spnn_parties import HOLDERS, KEYS, made, simulator
from transcripts import seen_by
from wrong_keys import BITS, WRONG

from ppkit.spnn.encrypted import key_from, key_out
from ppkit.spnn.fixed_point import encode
from ppkit.spnn.messages import Mailroom, Malformed, Send, Transcript
from ppkit.spnn.paillier import Ciphertexts, add, decrypt, encrypt
from ppkit.spnn.paillier_keys import PublicKey, generate_keys
from ppkit.spnn.party import Setup
from ppkit.spnn.protocols import party_of


def connected(payload, bits=BITS):
    """Holder A of protocol he, after the server's message came."""
    holder = party_of("A", Setup(["A", "B"], [2, 2], 3, key_bits=bits), protocol="he")
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
    assert connected(key_out(public)).public == public
    with pytest.raises(Malformed, match="must be 256 bytes, a key of 2,048 bits, got 64 bytes"):
        connected(key_out(public), bits=2048)
    with pytest.raises(Malformed, match="this one has 505 bits"):
        connected((public.n >> 7).to_bytes(64, "big"))


def test_h_n_never_travels():
    private = generate_keys(BITS, teaching=True)[1]
    protocol = simulator("he", [2, 2], 3, keys=private, key_bits=BITS)
    sent = [message for message in protocol.transcript.messages if message.name == "public key"]
    assert [(message.receiver, message.payload) for message in sent] == [
        (holder, private.public.n.to_bytes(BITS // 8, "big")) for holder in ("A", "B")
    ]
    assert all(holder.public.h_n == private.public.h_n for holder in protocol.holders)


def test_a_key_that_comes_again_is_checked_again():
    """As in a resumed run: the server says its key anew, and nothing is taken on trust."""
    public, _ = generate_keys(BITS, teaching=True)
    holder = connected(key_out(public))
    program = holder.connect()
    next(program)
    with pytest.raises(Malformed, match="is a prime"):
        program.send(WRONG["prime"][0].to_bytes(64, "big"))
    assert holder.public == public


def test_the_holders_of_a_room_stop_at_a_wrong_key():
    def server():
        for name in ("A", "B"):
            yield Send(name, "public key", WRONG["square"][0].to_bytes(64, "big"))

    setup = Setup(["A", "B"], [2, 2], 3, key_bits=BITS)
    programs = {name: party_of(name, setup, protocol="he").connect() for name in ("A", "B")}
    with pytest.raises(Malformed, match="is a power of a smaller number"):
        Mailroom(Transcript()).run({"server": server(), **programs})


def test_a_public_key_travels_as_n_alone():
    sent = key_out(KEYS.public)
    assert key_from("server", sent, 256) == KEYS.public and len(sent) == 32
    for payload in (b"", b"1234", sent + b"5"):
        said = f"must be 32 bytes, a key of 256 bits, got {len(payload)} bytes"
        with pytest.raises(Malformed, match=said):
            key_from("server", payload, 256)


def test_the_server_gets_exactly_the_sum_of_the_rounded_parts():
    for k in HOLDERS:
        protocol, parts, thetas = made("he", k)
        wanted = sum(encode(part @ theta) for part, theta in zip(parts, thetas)).double() / 2**16
        assert torch.equal(protocol.forward(slice(None), thetas), wanted)


def test_a_key_too_small_is_refused():
    with pytest.raises(
        ValueError, match="bits must be a multiple of 16 and at least 2,048, got 1024"
    ):
        simulator("he", [3, 2], 1, keys=None, key_bits=1024, teaching=False)


@pytest.fixture(scope="module")
def run():
    private = generate_keys(512, teaching=True)[1]
    columns, rng = [4, 3, 3], torch.Generator().manual_seed(0)
    protocol = simulator(
        "he", columns, 5, dtype=torch.float64, keys=private, key_bits=private.public.bits
    )
    parts = [torch.randn(20, d, generator=rng, dtype=torch.float64) for d in columns]
    thetas = [torch.randn(d, 5, generator=rng, dtype=torch.float64) for d in columns]
    protocol.prepare(parts)
    h1 = []
    for _ in range(2):
        protocol.transcript.next_step()
        h1.append(protocol.forward(slice(0, 9), thetas))
    return protocol, private, h1, [encode(part[:9] @ theta) for part, theta in zip(parts, thetas)]


def test_under_paillier_a_holder_sees_ciphertexts_of_one_size_that_never_come_twice(run):
    """A simulator encrypts zeros; that nobody without the key tells the two apart is Paillier's
    assumption, not a statistic."""
    protocol, private, _, parts = run
    packing = protocol.server.packing
    chain = [m for m in protocol.transcript.messages if m.name == "Enc(X theta)"]
    assert [(m.sender, m.receiver) for m in chain] == [("A", "B"), ("B", "C"), ("C", "server")] * 2
    simulated = encrypt(private.public, torch.zeros_like(parts[0]), packing=packing)
    assert {len(m.payload) for m in chain} == {len(simulated.payload)}
    for one, two in zip(chain[:3], chain[3:]):  # the same numbers again
        a, b = (
            Ciphertexts(m.payload, private.public, tuple(parts[0].shape), packing, 1)
            for m in (one, two)
        )
        assert not set(a.integers()) & set(b.integers())
    assert [m.name for m in seen_by(protocol.transcript, "A")] == ["public key"]


def test_under_paillier_every_holder_encrypts_with_randomness_of_its_own(run):
    """c (1 + n)^m has c's randomness, c mod n: who gets c and then that reads m off the
    quotient."""
    protocol, private, _, parts = run
    packing = protocol.server.packing
    sent = [m.payload for m in protocol.transcript.messages if m.name == "Enc(X theta)"][:3]
    chain = [
        Ciphertexts(each, private.public, tuple(parts[0].shape), packing, i + 1).integers()
        for i, each in enumerate(sent)
    ]
    for one, two in zip(chain, chain[1:]):
        assert len(one) == len(two) and all((a - b) % private.public.n for a, b in zip(one, two))


def test_under_paillier_the_servers_view_is_made_from_h1_alone(run):
    """Plaintexts, with all that packing puts around the numbers, are the same function of h1
    whoever had which part."""
    protocol, private, h1, _ = run
    packing = protocol.server.packing
    total = (h1[0] * 2**16).long()
    [real, _] = [m.payload for m in seen_by(protocol.transcript, "server")]
    zeros = [encrypt(private.public, torch.zeros_like(total), packing=packing) for _ in range(2)]
    simulated = functools.reduce(
        lambda a, b: add(private.public, a, b),
        [encrypt(private.public, total, packing=packing), *zeros],
    )
    real = Ciphertexts(real, private.public, tuple(total.shape), packing, 3)
    assert len(real.payload) == len(simulated.payload)
    assert private.decrypt_integers(real.integers()) == private.decrypt_integers(
        simulated.integers()
    )


def test_under_paillier_a_server_that_listens_between_holders_reads_the_parts(run):
    """Why the way from holder to holder must be closed to it."""
    protocol, private, _, parts = run
    packing = protocol.server.packing
    overheard = [m.payload for m in seen_by(protocol.transcript, "B") if m.name == "Enc(X theta)"][
        0
    ]
    read = decrypt(
        private, Ciphertexts(overheard, private.public, tuple(parts[0].shape), packing, 1)
    )
    assert torch.equal(read, parts[0])
