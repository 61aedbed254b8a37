import functools
import multiprocessing
import sys
from concurrent.futures import ProcessPoolExecutor

import gmpy2
import numpy as np
import pytest
import torch

from ppkit.spnn import paillier
from ppkit.spnn.fixed_point import decode, encode
from ppkit.spnn.paillier import (
    Ciphertexts,
    Packing,
    PublicKey,
    add,
    decrypt,
    encrypt,
    first_layer_elementwise,
)
from ppkit.spnn.randomness import Stream


@pytest.fixture(scope="module")
def keys():
    return paillier.generate_keys(bits=512, teaching=True)


def draw(shape, value_bits, rng):
    """Values of the packing's whole range, each end of it with chance 1/8."""
    low, high = -(1 << value_bits - 1), (1 << value_bits - 1) - 1
    values = torch.randint(low, high, shape, generator=rng)
    kind = torch.randint(0, 8, shape, generator=rng)
    return torch.where(kind == 0, low, torch.where(kind == 1, high, values))


def summed(public, parts, packing, **settings):
    return functools.reduce(
        functools.partial(add, public),
        [encrypt(public, z, packing=packing, **settings) for z in parts],
    )


def packed_by_hand(values, packing, per_ciphertext, *, n_terms):
    """Oracle: sum_j (v_j + n_terms 2^(b-1)) 2^(w j) for each ciphertext, in whole integers."""
    shifted = [v + n_terms * 2 ** (packing.value_bits - 1) for v in values.flatten().tolist()]
    groups = [shifted[i : i + per_ciphertext] for i in range(0, len(shifted), per_ciphertext)]
    return [sum(v * 2 ** (packing.field_bits * j) for j, v in enumerate(group)) for group in groups]


@pytest.mark.parametrize("value_bits", [2, 17, 40, 61])
@pytest.mark.parametrize("n_holders", [1, 2, 3, 4, 5])
def test_the_sum_of_all_holders_is_exact(keys, n_holders, value_bits):
    public, private = keys
    packing = Packing(value_bits=value_bits, n_terms=n_holders)
    rng = torch.Generator().manual_seed(100 * value_bits + n_holders)
    for shape in [(1,), (packing.n_fields(public) + 1,), (7, 8), (3, 5, 2)]:
        parts = [draw(shape, value_bits, rng) for _ in range(n_holders)]
        total = decrypt(private, summed(public, parts, packing))
        assert total.dtype == torch.int64 and torch.equal(total, sum(parts))


@pytest.mark.parametrize("n_holders", [1, 2, 3, 4, 5])
def test_the_ends_of_the_range_neither_carry_nor_borrow(keys, n_holders):
    public, private = keys
    packing = Packing(value_bits=40, n_terms=n_holders)
    low, high = -(2**39), 2**39 - 1
    for pattern in ([low], [high], [low, high], [high, low], [-1, 0], [0], [high, low, 0, -1]):
        z = torch.tensor((pattern * 40)[:29])
        assert torch.equal(
            decrypt(private, summed(public, [z] * n_holders, packing)), n_holders * z
        )


def test_the_widest_field_uses_all_of_int64(keys):
    public, private = keys
    for value_bits, n_terms in [(63, 1), (63, 2), (62, 4)]:
        z = torch.tensor([-(2 ** (value_bits - 1)), 2 ** (value_bits - 1) - 1] * 5)
        assert torch.equal(
            decrypt(private, summed(public, [z] * n_terms, Packing(value_bits, n_terms))),
            n_terms * z,
        )


def test_it_equals_algorithm_3_by_phe_to_the_last_bit(keys):
    public, private = keys
    rng = torch.Generator().manual_seed(3)
    h = [4.0 * torch.randn(6, 5, generator=rng, dtype=torch.float64) for _ in range(3)]
    products = [encode(part) for part in h]
    oracle = first_layer_elementwise(*paillier.phe_keys(private), products)
    assert torch.equal(oracle, sum(products))
    ours = decrypt(private, summed(public, products, Packing(n_terms=3)))
    assert torch.equal(ours, oracle)
    assert (decode(ours) - sum(h)).abs().max() <= 3 * 2**-17


def test_fewer_terms_than_declared_and_one_alone(keys):
    public, private = keys
    packing, z = Packing(n_terms=5), torch.arange(-20, 20)
    one = encrypt(public, z, packing=packing)
    assert torch.equal(decrypt(private, one), z) and one.n_terms == 1
    three = add(public, add(public, one, one), one)
    assert torch.equal(decrypt(private, three), 3 * z) and three.n_terms == 3


def test_the_order_of_addition_is_free(keys):
    public, private = keys
    packing = Packing(n_terms=4)
    parts = [encrypt(public, torch.tensor([k, -k]), packing=packing) for k in (1, 10, 100, 1000)]
    paired = add(public, add(public, parts[3], parts[1]), add(public, parts[0], parts[2]))
    assert decrypt(private, paired).tolist() == [1111, -1111]


def test_no_rows_give_no_ciphertexts(keys):
    public, private = keys
    nothing = encrypt(public, torch.empty((0, 8), dtype=torch.int64), packing=Packing())
    assert nothing.payload == b"" and decrypt(private, add(public, nothing, nothing)).shape == (
        0,
        8,
    )


def test_strided_values_are_taken_in_row_major_order(keys):
    public, private = keys
    z = torch.arange(24).reshape(4, 6).t()
    assert torch.equal(decrypt(private, encrypt(public, z, packing=Packing())), z)


def test_fields_and_bytes_at_the_papers_size():
    public = PublicKey(2**2047 + 1)
    assert [Packing(40, k).field_bits for k in (1, 2, 3, 4, 5)] == [40, 41, 42, 42, 43]
    assert [Packing(bits).n_fields(public) for bits in (32, 40, 48, 63)] == [62, 49, 41, 31]
    ciphertexts = -(-5000 * 8 // 49)
    assert (ciphertexts, public.ciphertext_bytes * ciphertexts) == (
        817,
        418_304,
    )  # phe: 40,000 ciphertexts, 20.5 MB


def test_size_tells_the_shape_only(keys):
    public, _ = keys
    sizes = {
        len(encrypt(public, torch.full((30,), v), packing=Packing()).payload)
        for v in (0, 1, -(2**39), 2**39 - 1)
    }
    assert sizes == {128 * 3}  # 12 numbers in each ciphertext, 2 x 512 bits each


def test_the_servers_view_is_made_from_the_sum_alone(keys):
    """Its ciphertext is (1 + n)^m h_n^(a_1 + a_2 + a_3), m the packed sum: bit for bit what a
    simulator makes that knows h1."""
    public, private = keys
    n, packing, per = public.n, Packing(value_bits=40, n_terms=3), 12
    rng = torch.Generator().manual_seed(5)
    h1 = torch.randint(-(2**38), 2**38, (29,), generator=rng)
    width, count = public.exponent_bytes, 3
    drawn = [
        Stream.seeded_for_teaching(seed).words(width * count // 8).numpy().tobytes()
        for seed in (1, 2, 3)
    ]
    exponents = [
        sum(int.from_bytes(a[i * width : (i + 1) * width], "little") for a in drawn)
        for i in range(count)
    ]
    m = packed_by_hand(h1, packing, per, n_terms=3)
    simulated = [
        (1 + n * m_i) * pow(public.h_n, a, n * n) % (n * n)
        for m_i, a in zip(m, exponents, strict=True)
    ]
    for _ in range(4):  # however the sum is split between the holders
        first, second = (torch.randint(-(2**37), 2**37, (29,), generator=rng) for _ in range(2))
        split = [first, second, h1 - first - second]
        encrypted = [
            encrypt(public, z, packing=packing, stream=Stream.seeded_for_teaching(seed))
            for z, seed in zip(split, (1, 2, 3), strict=True)
        ]
        last = functools.reduce(functools.partial(add, public), encrypted)
        assert last.integers() == simulated
        assert private.decrypt_integers(last.integers()) == m
        assert len({c.payload for c in encrypted} | {last.payload}) == 4


def test_every_holder_hides_its_own_part(keys):
    """What B sends, divided by what B received, is B's encryption; without its randomness it would
    be 1 + n m, open to all."""
    public, _ = keys
    n, packing, x_b = public.n, Packing(), torch.tensor([123456])
    a = encrypt(public, torch.tensor([-7]), packing=packing)

    def quotient(ab):
        return ab * int(gmpy2.invert(a.integers()[0], n * n)) % (n * n)

    m_b = packed_by_hand(x_b, packing, 12, n_terms=1)[0]
    bare = a.integers()[0] * (1 + n * m_b) % (n * n)
    assert (quotient(bare) - 1) // n == m_b  # the short-cut that is not taken
    sent = add(public, a, encrypt(public, x_b, packing=packing)).integers()[0]
    assert (quotient(sent) - 1) % n != 0


def test_every_ciphertext_has_randomness_of_its_own(keys):
    public, _ = keys
    z = torch.zeros(
        12 * 70, dtype=torch.int64
    )  # more ciphertexts than are encrypted in one go, twice over
    first, second = (encrypt(public, z, packing=Packing()).integers() for _ in range(2))
    assert len(set(first + second)) == 140
    assert all((c - 1) % public.n for c in first)


def test_randomness_comes_from_the_operating_system_unless_a_stream_is_given(keys, monkeypatch):
    public, _ = keys
    asked = []

    def counted(n_bytes):
        asked.append(n_bytes)
        return b"\x07" * n_bytes

    monkeypatch.setattr(paillier.secrets, "token_bytes", counted)
    z, n = torch.zeros(30, dtype=torch.int64), public.n
    fixed = encrypt(public, z, packing=Packing())
    assert asked == [3 * 32]  # three ciphertexts, half of 512 bits each: not one bit less
    a = int.from_bytes(b"\x07" * 32, "little")
    by_hand = [
        (1 + n * m) * pow(public.h_n, a, n * n) % (n * n)
        for m in packed_by_hand(z, Packing(), 12, n_terms=1)
    ]
    assert fixed.integers() == by_hand
    one, same = (
        encrypt(public, z, packing=Packing(), stream=Stream.seeded_for_teaching(4))
        for _ in range(2)
    )
    assert one == same and asked == [96]
    stream = Stream.seeded_for_teaching(4)
    again, later = (encrypt(public, z, packing=Packing(), stream=stream) for _ in range(2))
    assert again == one and not set(later.integers()) & set(one.integers())  # a stream moves on


def test_a_stream_serves_keys_whose_exponents_are_no_whole_words():
    public, private = paillier.generate_keys(bits=80, teaching=True)  # exponents of 5 bytes
    z = torch.arange(-3, 4)
    assert torch.equal(decrypt(private, encrypt(public, z, packing=Packing(), stream=Stream())), z)


def test_workers_give_the_same_and_load_no_torch(keys):
    public, private = keys
    rng = torch.Generator().manual_seed(6)
    z, packing = draw((90, 8), 40, rng), Packing()
    with ProcessPoolExecutor(2, mp_context=multiprocessing.get_context("spawn")) as pool:
        spread = encrypt(
            public, z, packing=packing, stream=Stream.seeded_for_teaching(1), pool=pool
        )
        assert spread == encrypt(public, z, packing=packing, stream=Stream.seeded_for_teaching(1))
        assert len(spread.integers()) == 60  # more than one worker takes at a time
        assert torch.equal(decrypt(private, add(public, spread, spread), pool=pool), 2 * z)
        # imported here, for the worker that answers may have had none of the work
        loaded = "__import__('ppkit.spnn.paillier_keys') and 'torch' in __import__('sys').modules"
        assert not pool.submit(eval, loaded).result() and "torch" in sys.modules
        processes = list(pool._processes.values())
    assert processes and not any(process.is_alive() for process in processes)


def test_phe_sends_the_size_of_a_float_and_the_oracle_does_not(keys):
    public_key, private_key = paillier.phe_keys(keys[1])
    assert public_key.encrypt(1000.0).exponent != public_key.encrypt(0.001).exponent
    seen, honest = [], public_key.encrypt
    public_key.encrypt = lambda number: seen.append(number.exponent) or honest(number)
    first_layer_elementwise(
        public_key,
        private_key,
        [encode(torch.tensor([1000.0, 0.001])), encode(torch.tensor([0.0, -5.0]))],
    )
    assert seen == [-4] * 4


def test_overflow_is_refused_with_the_number_and_the_range(keys):
    public, _ = keys
    for value, shown in [(2**39, "549755813888"), (-(2**39) - 1, "-549755813889")]:
        with pytest.raises(
            ValueError,
            match=rf"^{shown} is out of range: value_bits=40 holds \[-549755813888, 549755813888\)",
        ):
            encrypt(public, torch.tensor([0, value]), packing=Packing())
    with pytest.raises(ValueError, match=r"head-room for n_terms=2, the sum would have 3"):
        z = encrypt(public, torch.tensor([1]), packing=Packing(n_terms=2))
        add(public, add(public, z, z), z)


def test_a_key_too_small_for_the_packing_is_refused():
    public, private = paillier.generate_keys(bits=64, teaching=True)
    message = (
        "a key of 64 bits is too small for the packing: it holds 63 bits and one field takes 64"
    )
    with pytest.raises(ValueError, match=message):
        encrypt(public, torch.tensor([1]), packing=Packing(value_bits=63, n_terms=2))
    z = torch.tensor([-(2**61), 2**61 - 1])  # 63 bits just fit
    assert torch.equal(
        decrypt(private, encrypt(public, z, packing=Packing(value_bits=62, n_terms=2))), z
    )


def test_what_does_not_belong_together_is_refused(keys):
    public, private = keys
    other, _ = paillier.generate_keys(bits=512, teaching=True)
    z, packing = torch.tensor([1, 2]), Packing()
    a = encrypt(public, z, packing=packing)
    for b, message in [
        (encrypt(other, z, packing=packing), "must be under the key given"),
        (encrypt(public, z, packing=Packing(value_bits=41)), "with one packing"),
        (encrypt(public, z[:1], packing=packing), "one shape"),
    ]:
        with pytest.raises(ValueError, match=message):
            add(public, a, b)
    with pytest.raises(ValueError, match="must be under the key given"):
        add(other, a, a)
    with pytest.raises(ValueError, match="under another key"):
        decrypt(private, encrypt(other, z, packing=packing))


@pytest.mark.parametrize(
    "value_bits, n_terms, message",
    [
        (1, 2, "value_bits must be 2 to 63 .* got 1 and 2"),
        (64, 1, "got 64 and 1"),
        (40, 0, "n_terms must be a whole number >= 1, got 0"),
        (40.5, 2, "value_bits must be a whole number >= 1, got 40.5"),
        (62, 5, "room for their sum in 64 bits, got 62 and 5"),
    ],
)
def test_impossible_packings_are_refused(value_bits, n_terms, message):
    with pytest.raises(ValueError, match=message):
        Packing(value_bits=value_bits, n_terms=n_terms)


@pytest.mark.parametrize("kind", [np.int64, float])
def test_whole_numbers_of_other_types_are_whole_numbers(keys, kind):
    packing = Packing(value_bits=kind(63), n_terms=kind(2))
    assert packing == Packing(value_bits=63, n_terms=2) and packing.field_bits == 64
    z = torch.tensor([1 - 2**62, 2**62 - 1])
    assert torch.equal(decrypt(keys[1], encrypt(keys[0], z, packing=packing)), z)
    assert paillier.generate_keys(bits=kind(64), teaching=True)[0].bits == 64


def test_the_oracle_takes_lists_and_arrays(keys):
    got = first_layer_elementwise(*paillier.phe_keys(keys[1]), [[65536, -1], np.array([-32768, 3])])
    assert got.tolist() == [32768, 2]


@pytest.mark.parametrize(
    "products, got",
    [
        ([], "none"),
        ([torch.zeros(2, 3).long(), torch.zeros(3, 2).long()], "(2, 3) of torch.int64, (3, 2) of"),
        ([torch.tensor([1.5])], "(1,) of torch.float32"),
        ([[1.5], [2.5]], "(1,) of torch.float32"),
    ],
)
def test_the_oracle_adds_what_has_one_shape(keys, products, got):
    with pytest.raises(ValueError, match="products must be int64 tensors of one shape") as no:
        first_layer_elementwise(*paillier.phe_keys(keys[1]), products)
    assert f"got {got}" in str(no.value)


@pytest.mark.parametrize(
    "values, got",
    [(torch.tensor([1.5]), "torch.float32"), (torch.tensor([float("nan")]), "torch.float32")],
)
def test_only_fixed_point_integers_are_encrypted(keys, values, got):
    with pytest.raises(ValueError, match=f"values must be an int64 tensor, got {got}"):
        encrypt(keys[0], values, packing=Packing())


def test_a_plaintext_that_is_no_packed_sum_is_refused(keys):
    public, private = keys
    packing = Packing(value_bits=40, n_terms=3)  # fields of 42 bits; a sum of one stays below 2^40
    for plaintext in (public.n - 1, 1 << 42 * 2, 1 << 40):
        c = public.encrypt_integers([plaintext], b"\x05" * public.exponent_bytes)[0]
        forged = Ciphertexts(c.to_bytes(public.ciphertext_bytes, "big"), public, (2,), packing, 1)
        with pytest.raises(ValueError, match="no sum of 1 packings with value_bits=40"):
            decrypt(private, forged)
