"""What a right mend keeps, bug by bug.

`copies.judged` runs this file on a student's copy, whose ppkit comes first on the path; so it
imports nothing of this room, which the copy does not have. A check tests what the method
promises, never how it is written. It gives a sentence for each promise that does not hold.
Chance decides none of them: a right mend fails with a chance below 1e-9.
"""

import math
import sys
from collections.abc import Callable, Iterator
from typing import Any

import numpy as np
import torch
from scipy import stats
from torch import nn

Check = Callable[[], Iterator[str]]
CHECKS: dict[str, Check] = {}
RARE = 1e-10  # the chance at which a statistical test refuses


def check(function: Check) -> Check:
    """Enter a check under its name, which is the bug's."""
    CHECKS[function.__name__] = function
    return function


# --- wang2018


@check
def rows() -> Iterator[str]:
    """`mean_clipped`: one row moves each entry of the sum by at most B; no bound is the plain
    mean."""
    from ppkit import gradients

    model, X, y = _network(n_rows=8)
    bound = 0.1
    for scale in (1.0, 1e3):
        X[0] = scale * X[0]
        whole = 8 * gradients.mean_clipped(model, X, y, clip_bound=bound)
        for row in range(8):
            others = [k for k in range(8) if k != row]
            rest = 7 * gradients.mean_clipped(model, X[others], y[others], clip_bound=bound)
            moved = float((whole - rest).abs().max())
            if moved > bound * (1 + 1e-9):
                yield f"one row moves an entry of the sum by {moved:.3g}; {bound} is allowed"
                return
    plain = gradients.mean_plain(model, X, y)
    if not torch.allclose(gradients.mean_clipped(model, X, y, clip_bound=math.inf), plain):
        yield "without a bound the mean must be the plain mean of the gradients"
    single = gradients.mean_clipped(model, X[:1], y[:1], clip_bound=bound)
    if not torch.allclose(single, gradients.mean_plain(model, X[:1], y[:1]).clamp(-bound, bound)):
        yield "of a single row the mean must be that row's gradient, each entry cut to [-B, B]"


@check
def signs() -> Iterator[str]:
    """`gumbel_top_n`: a sign is + with chance 1 / (1 + exp(-2 g / scale)); no noise, no doubt."""
    from ppkit import mechanisms

    rng, n = np.random.default_rng(0), 20_000
    for entry in (1e-6, -0.3, 1.0):
        _, sign = mechanisms.gumbel_top_n(np.full(n, entry), n, scale=1.0, rng=rng)
        chance, seen = 1 / (1 + math.exp(-2 * entry)), int((sign > 0).sum())
        if not _plausible(seen, n, chance):
            yield (
                f"an entry of {entry:g} at scale 1 is sent as + in {seen / n:.1%} of uploads, and "
                f"{chance:.1%} would be right"
            )
    four = np.array([0.1, -3.0, 2.0, 0.0])
    chosen, sign = mechanisms.gumbel_top_n(four, 2, scale=0.0, rng=rng)
    if chosen.tolist() != [1, 2] or sign.tolist() != [-1, 1]:
        yield "without noise the largest entries must be sent, with their own signs"


@check
def sensitivity() -> Iterator[str]:
    """`DPSTGD`: the noise is made for 2 B / m, what a row in another's place does to the mean."""
    from ppkit import mechanisms
    from ppkit.dpstgd import uploads

    model, X, y = _network(n_rows=8)
    asked = []

    def recorded(g, n, *, scale, rng):
        asked.append(scale)
        return mechanisms.laplace_top_n(g, n, scale=scale, rng=rng)

    mechanisms.SELECTIONS["recorded"] = recorded
    try:
        for epsilon, bound, n_rows in ((1.0, 0.5, 8), (0.1, 0.5, 3), (2.0, 0.01, 1)):
            upload = uploads.DPSTGD(epsilon, 5, bound, selection="recorded")
            rng = np.random.default_rng(0)
            upload(model, X[:n_rows], y[:n_rows], expected_batch=4.0, rng=rng)
            right = 2 * bound / n_rows / epsilon
            if asked[-1] < right * (1 - 1e-9):
                yield (
                    f"{n_rows} rows, B = {bound}, epsilon {epsilon:g}: the scale of the noise is "
                    f"{asked[-1]:.3g}, and a row that is replaced needs {right:.3g}"
                )
            elif asked[-1] > right * (1 + 1e-9):
                yield f"the scale of the noise is {asked[-1]:.3g}: {right:.3g} is enough"
    finally:
        del mechanisms.SELECTIONS["recorded"]


@check
def sample() -> Iterator[str]:
    """No price lies below what an attack attains, where the rows are sampled."""
    for rate in (0.01, 0.1, 0.5):
        yield from _below_an_attack(rate, "add_remove")
    price, _ = _price_and_attack("gumbel", "add_remove", 0.01, 0.1, 1_431, 14_312)
    if price > 7.5:
        yield f"the price {price:.3g} holds, but 7.2 can be proved"


@check
def neighbours() -> Iterator[str]:
    """No price lies below what an attack attains, where a row is replaced; a row that is replaced
    moves a score twice as far."""
    for relation in ("replace_one", "add_remove"):
        for rate in (0.1, 1.0):
            yield from _below_an_attack(rate, relation)
    removed, replaced = (
        _price_and_attack("laplace", relation, 1.0, 1e-3, 1_431, 14_312)[0]
        for relation in ("add_remove", "replace_one")
    )
    if replaced < 1.9 * removed:
        yield (
            f"to replace a row costs {replaced / removed:.2f} times what it costs to remove one, "
            "and without sampling small prices differ by a factor of at least 2"
        )


def _below_an_attack(rate: float, relation: str) -> Iterator[str]:
    """A sentence if a price lies below what an attack attains."""
    for epsilon, n, d in ((0.1, 1_431, 14_312), (0.02, 1_431, 14_312), (1.0, 3, 8)):
        for mechanism in ("gumbel", "laplace"):
            price, attained = _price_and_attack(mechanism, relation, rate, epsilon, n, d)
            if price < attained * (1 - 1e-6):
                yield (
                    f"{n:,} signs by {mechanism} noise, epsilon {epsilon:g}, rate {rate:g}, "
                    f"{relation}: the price is {price:.3g}, and an attack attains {attained:.3g}"
                )
                return


def _price_and_attack(
    mechanism: str, relation: str, rate: float, epsilon: float, n: int, d: int
) -> tuple[float, float]:
    """The epsilon that is called proved, and the largest that an attack attains."""
    from ppkit import accounting, audit

    upload: dict[str, Any] = dict(
        mechanism=mechanism, neighbouring=relation, sample_rate=rate, n_uploads=n, n_parameters=d
    )
    price = accounting.get_upload_budget(epsilon, **upload)
    attained = audit.sign_count(epsilon, **upload)
    if mechanism == "laplace" and d <= 10:
        exact = audit.exact_top_n(epsilon, sample_rate=rate, n=n, d=d, neighbouring=relation)
        attained = max(attained, exact)
    return price.epsilon, attained


@check
def order() -> Iterator[str]:
    """`DPSGD`: one row moves the sum by at most C, whatever its gradient; the noise is
    N(0, (z C)^2), whatever the rows."""
    from ppkit.dpstgd import uploads

    model, X, y = _network(n_rows=8)
    X[0] *= 1e4
    y[0] = 1 - int(model(X[:1]).argmax())  # it is wrong, so its gradient is long
    clip, batch = 0.1, 4.0

    def answer(noise, n_rows, seed=0):
        upload = uploads.DPSGD(noise, clip)
        rng = np.random.default_rng(seed)
        rows = slice(8 - n_rows, 8)
        return batch * upload(model, X[rows], y[rows], expected_batch=batch, rng=rng)

    alone = batch * uploads.DPSGD(0.0, clip)(
        model, X[:1], y[:1], expected_batch=batch, rng=np.random.default_rng(0)
    )
    moved = float((answer(0.0, 8) - answer(0.0, 7)).norm())
    if max(moved, float(alone.norm())) > clip * (1 + 1e-6):
        yield f"one row moves the sum by {moved:.3g} in length; at most {clip} is allowed"
    if float(alone.norm()) < clip * (1 - 1e-6):
        yield "a row with a long gradient must keep a length of C"
    for n_rows in (8, 0):
        noise = torch.cat([answer(2.0, n_rows, k) - answer(0.0, n_rows) for k in range(20)])
        test = stats.kstest(noise.numpy(), "norm", args=(0, 2.0 * clip))
        if test.pvalue < RARE:
            yield (
                f"the noise on {n_rows} rows has deviation {float(noise.std()):.3g} and not "
                f"{2 * clip:.3g}, or depends on the rows"
            )


@check
def banks() -> Iterator[str]:
    """`train`: each bank draws samples and noise of its own, in every round."""
    from ppkit.dpstgd import training

    model, X, y = _network(n_rows=200)
    seen: list[tuple[bytes, ...]] = []

    class Recorder:
        def __call__(self, model, X, y, *, expected_batch, rng):
            noise = rng.standard_normal(4)
            seen.append((X.numpy().tobytes(), noise.tobytes()))
            return torch.zeros(sum(p.numel() for p in model.parameters()), dtype=X.dtype)

        def bits(self, size):
            return size

    training.train(
        model,
        [(X, y)] * 5,
        upload=Recorder(),
        lr=1.0,
        sample_rate=0.5,
        n_rounds=3,
        rng=np.random.default_rng(0),
    )
    for what, drawn in zip(("samples", "noise"), zip(*seen)):
        if len(set(drawn)) < len(drawn):
            yield f"5 banks in 3 rounds drew {len(set(drawn))} different {what}, not {len(drawn)}"


# --- kanodia2020


@check
def records() -> Iterator[str]:
    """`DPOptimizer`: one record moves the sum by at most 2 C when it is replaced."""
    model, X, y = _network(n_rows=8)
    clip = 0.1
    longest = 0.0
    for k in range(8):
        exchanged = X.clone()
        exchanged[k] *= -1e4
        before = _defended(model, X, y, clip=clip, noise=0.0)
        after = _defended(model, exchanged, y, clip=clip, noise=0.0)
        longest = max(longest, 8 * float((before - after).norm()))
    if longest > 2 * clip * (1 + 1e-6):
        yield f"a record in another's place moves the sum by {longest:.3g}; {2 * clip} is allowed"
    from ppkit import gradients

    plain = gradients.mean_plain(model, X, y)
    if not torch.allclose(_defended(model, X, y, clip=1e6, noise=0.0), plain):
        yield "a clip that no gradient reaches must leave the mean gradient as it is"


@check
def steps() -> Iterator[str]:
    """`DPOptimizer`: the noise of each step and each entry is drawn anew, N(0, (z C / M)^2)."""
    model, X, y = _network(n_rows=8, hidden=20)  # 182 entries: .6 by chance once in 1e19
    clean = _defended(model, X, y, clip=0.1, noise=0.0)
    noisy = _defended(model, X, y, clip=0.1, noise=2.0, n_steps=20)
    noise = (noisy - clean) * 8 / 0.2
    if any(torch.equal(noise[0], other) for other in noise[1:]):
        yield "two steps have the same noise: their difference has none"
        return
    if float(noise[0].std()) < 1e-6:
        yield "all entries of a step have the same noise: their differences have none"
        return
    if stats.kstest(noise.flatten().numpy(), "norm").pvalue < RARE:
        yield f"the noise has deviation {0.2 / 8 * float(noise.std()):.3g}, not {0.2 / 8:.3g}"
    together = np.corrcoef(noise.numpy())
    if np.abs(together - np.eye(len(noise))).max() > 0.6:
        yield "the noise of a step can be told from that of another step"


@check
def epochs() -> Iterator[str]:
    """`get_epsilon_epochs`: no less than the exact Gaussian mechanism, whose sum moves by 2 C."""
    from ppkit import accounting

    for noise, n_epochs in ((2.0, 1), (5.0, 10)):
        for relation, move in (("replace_one", 2), ("zero_out", 1)):
            price = accounting.get_epsilon_epochs(
                noise, delta=1e-5, n_epochs=n_epochs, neighbouring=relation
            )
            mu = move * math.sqrt(n_epochs) / noise
            spent = stats.norm.cdf(mu / 2 - price / mu)
            spent -= math.exp(price) * stats.norm.cdf(-mu / 2 - price / mu)
            where = f"{relation}, noise {noise:g}, {n_epochs} epochs"
            if spent > 1e-5 * (1 + 1e-4):
                yield f"{where}: at an epsilon of {price:.3g} the delta is {spent:.2g}, not 1e-05"
            elif spent < 0.99e-5:
                yield f"{where}: the price {price:.3g} holds, but a smaller one can be proved"


# --- wu2020


@check
def horizon() -> Iterator[str]:
    """`laplace_scale`: all answers together cost at most epsilon, and not much less."""
    from ppkit.collaboration import privacy

    for bound, n, times, epsilon, kappa in ((1.0, 100, 10, 1.0, 1), (3.0, 7, 400, 0.1, 2)):
        scale = privacy.laplace_scale(
            gradient_bound=bound, n_records=n, horizon=times, epsilon=epsilon, kappa=kappa
        )
        total = times * kappa * 2 * bound / n / scale
        if total > epsilon * (1 + 1e-9):
            yield f"{times} answers cost {total:.3g} together; the promise is {epsilon:g}"
        elif total < epsilon * (1 - 1e-9):
            yield f"{times} answers cost {total:.3g}: less noise keeps the promise of {epsilon:g}"


@check
def answers() -> Iterator[str]:
    """`train`: a bank that knows its own noise knows nothing of another's."""
    from ppkit.collaboration import losses, owners, privacy, training

    rng = np.random.default_rng(0)
    X = owners.clip_records(rng.standard_normal((40, 12)), l1_bound=1.0)
    y = np.sign(rng.standard_normal(40))
    two = owners.blocks(X, y, (20, 20))
    bounds = owners.Bounds(1.0, 1e6)

    def step(budgets):
        """What noise adds to the first step, in scales of one bank's noise: (400, 12)."""
        given = dict(
            loss=losses.hinge(), bounds=bounds, learning=training.Learning(2, 1.0), optimum=1.0
        )
        more = dict(n_runs=400, at="last", rng=np.random.default_rng(1))
        noisy = training.train(two, privacy=privacy.Privacy(budgets), **given, **more)
        exact = training.train(two, privacy=privacy.Privacy((np.inf, np.inf)), **given, **more)
        return (noisy.iterate - exact.iterate) / noisy.scales.max() * 2

    one, both = step((1.0, np.inf)), step((1.0, 1.0))
    for name, noise, variance in (("one noisy bank", one, 2.0), ("two noisy banks", both, 4.0)):
        if np.abs(noise).max() == 0 or abs(noise.var() / variance - 1) > 0.3:
            yield (
                f"{name}: the noise has a variance of {noise.var():.2f} scales squared, and "
                f"independent noise has {variance:g}"
            )
    flat = both.reshape(-1, both.shape[-1])
    if np.unique(flat, axis=1).shape[1] < flat.shape[1] or len(np.unique(flat[:, 0])) < len(flat):
        yield "two entries or two answers have the same noise: their difference has none"


@check
def tail() -> Iterator[str]:
    """`laplace`: independent noise of the Laplace law, with its tail."""
    from ppkit import mechanisms

    n, rng = 200_000, np.random.default_rng(0)
    noise = mechanisms.laplace(np.zeros(n), scale=2.0, rng=rng)
    if stats.kstest(noise, "laplace", args=(0, 2.0)).pvalue < RARE:
        yield "the noise does not have the Laplace law of its scale"
    far = int((np.abs(noise) > 2.0 * 6).sum())
    if not _plausible(far, n, math.exp(-6)):
        yield (
            f"{far} of {n:,} numbers lie beyond 6 scales, and {n * math.exp(-6):.0f} should: such "
            "an answer proves which neighbour it was not"
        )
    if len(np.unique(noise)) < 0.99 * n:
        yield "many entries have the same noise"


# --- zhou2021


@check
def masks() -> Iterator[str]:
    """`PairMasks`: a mask of its own in every step; the masks of all holders cancel."""
    from ppkit.spnn.masked import PairMasks
    from ppkit.spnn.randomness import Stream

    keys = {pair: bytes([sum(pair)]) * 32 for pair in ((0, 1), (0, 2), (1, 2))}
    holders = [
        PairMasks(i, {j: Stream(keys[min(i, j), max(i, j)]) for j in range(3) if j != i})
        for i in range(3)
    ]
    drawn = [torch.stack([holder.mask((50, 3)) for _ in range(6)]) for holder in holders]
    if bool(sum(drawn).any()):  # type: ignore[union-attr]
        yield "the masks of all holders must add up to 0 in every step"
    for k in range(6):
        for j in range(k):
            if bool((drawn[0][k] == drawn[0][j]).float().mean() > 0.1):
                yield f"steps {j + 1} and {k + 1} have the same mask"
                return
    bits = drawn[0].flatten().numpy().view(np.uint32)
    if _rank(bits[:300, None].view(np.uint8)) < 32:
        yield "the masks do not cover all numbers of 32 bits"


@check
def words() -> Iterator[str]:
    """`Stream`: no word is given out twice; the same key gives the same words."""
    from ppkit.spnn.randomness import Stream

    stream = Stream()
    calls = [stream.words(size).flatten() for size in (100, 100, (5, 3), 1, 301, 50)]
    drawn = torch.cat(calls)
    if len(drawn.unique()) < len(drawn):
        again = len(drawn) - len(drawn.unique())
        yield f"{again} of {len(drawn)} words were given out before: one mask hides two secrets"
    one, other = Stream(bytes(32)), Stream(bytes(32))
    whole = one.words(90)
    if not torch.equal(whole, torch.cat([other.words(41), other.words(49)])):
        yield "two Streams of one key must give the same words, in however many calls"
    ahead = Stream(bytes(32))
    ahead.seek(41)
    if not torch.equal(ahead.words(49), whole[41:]):
        yield "seek must go on with the word of its position"


@check
def triples() -> Iterator[str]:
    """What is dealt for one use is refused the second time."""
    from ppkit.spnn import dealer, sharing

    dealt = dealer.Dealer()
    triple = dealt.matmul_triple(2, 3, 2)
    x, y = (sharing.share(torch.ones(size, dtype=torch.int64)) for size in ((2, 3), (3, 2)))
    if sharing.reveal(sharing.beaver_matmul(x, y, triple)).tolist() != [[3, 3], [3, 3]]:
        yield "the product of two shared matrices is wrong"
    pair = dealt.truncation_pair((2,), 16)
    pair.use()
    for what in (triple, pair):
        for _ in range(2):
            try:
                what.use()
            except ValueError:
                continue
            yield f"a {type(what).__name__} that has served is not refused"
            return


@check
def key() -> Iterator[str]:
    """`Stream()`: 256 random bits, none of which follows from the others."""
    from ppkit.spnn.randomness import Stream

    keys = np.array([np.frombuffer(Stream().key, dtype=np.uint8) for _ in range(320)])
    if keys.shape[1] != 32:
        yield f"a key must have 32 bytes, and has {keys.shape[1]}"
    elif (rank := _rank(keys)) < 256:
        yield f"of the 256 bits of a key only {rank} are free: so many an attacker has to try"


@check
def exponents() -> Iterator[str]:
    """`encrypt`: fresh randomness of full length for each ciphertext."""
    from ppkit.spnn import paillier
    from ppkit.spnn.paillier_keys import PublicKey
    from ppkit.spnn.randomness import Stream

    public, private = paillier.generate_keys(128, teaching=True)
    drawn: list[bytes] = []

    class Recorder(PublicKey):
        def encrypt_integers(self, plaintexts, exponents):
            drawn.append(exponents)
            return super().encrypt_integers(plaintexts, exponents)

    values, packing = torch.arange(400), paillier.Packing(value_bits=40, n_terms=2)
    width = public.exponent_bytes
    for stream in (None, Stream()):
        drawn.clear()
        recorder = Recorder(public.n)
        for _ in range(2):
            paillier.encrypt(recorder, values, packing=packing, stream=stream)
        used = np.frombuffer(b"".join(drawn), dtype=np.uint8).reshape(-1, width)
        where = "the system's source" if stream is None else "a Stream"
        if len(np.unique(used, axis=0)) < len(used):
            yield f"with {where} two ciphertexts have one exponent: their quotient tells"
        elif (rank := _rank(used)) < 8 * width:
            yield f"with {where} {rank} of {8 * width} bits of an exponent are random"
    sealed = paillier.encrypt(public, values, packing=packing)
    if not torch.equal(paillier.decrypt(private, sealed), values):
        yield "what is encrypted must come back"


@check
def fields() -> Iterator[str]:
    """`Packing`: sums of as many terms as were declared come back, at the ends of the range too."""
    from ppkit.spnn import paillier

    public, private = paillier.generate_keys(512, teaching=True)
    for n_terms in (1, 2, 3, 5, 9):
        packing = paillier.Packing(value_bits=20, n_terms=n_terms)
        ends = torch.tensor([2**19 - 1, 2**19 - 1, -(2**19), 0, -(2**19), 2**19 - 1] * 6)
        try:
            total = paillier.encrypt(public, ends, packing=packing)
            for _ in range(n_terms - 1):
                more = paillier.encrypt(public, ends, packing=packing)
                total = paillier.add(public, total, more)
            right = torch.equal(paillier.decrypt(private, total), n_terms * ends)
        except ValueError:
            right = False
        if not right:
            yield f"the sum of {n_terms} large numbers runs over into its neighbour's field"
            return
    wide = paillier.Packing(value_bits=40, n_terms=2)
    if wide.n_fields(public) < 12:
        yield f"a key of 512 bits has room for 12 numbers of 40 bits, not {wide.n_fields(public)}"


@check
def shares() -> Iterator[str]:
    """`share`: all but one share are uniform in every bit, and so is the last one."""
    from ppkit.spnn import sharing
    from ppkit.spnn.randomness import Stream

    secret = torch.full((400,), 2**61 + 12345)
    for stream in (None, Stream()):
        for n_parties in (2, 3):
            split = sharing.share(secret, n_parties=n_parties, stream=stream)
            if not torch.equal(sharing.reveal(split), secret):
                yield "the shares must add up to the secret"
                return
            for share in split:
                bits = _rank((share - share[0])[1:, None].numpy().view(np.uint8))
                if bits < 64:
                    yield f"of the 64 bits of a share only {bits} are random"
                    return
            if any(len(share.unique()) < len(share) for share in split):
                yield "a share comes twice"


# --- what they share


def _network(n_rows: int, hidden: int = 5) -> tuple[nn.Sequential, torch.Tensor, torch.Tensor]:
    """A small network, rows and labels, always the same."""
    from ppkit import models

    rng = torch.Generator().manual_seed(0)
    model = models.mlp((6, hidden, 2), rng=rng, dtype=torch.float64)
    X = torch.randn((n_rows, 6), generator=rng, dtype=torch.float64)
    return model, X, torch.arange(n_rows) % 2


def _defended(model, X, y, *, clip: float, noise: float, n_steps: int = 0) -> torch.Tensor:
    """The gradient of DPOptimizer as one vector; of n_steps steps, a line each, if asked for."""
    from ppkit import dpsgd

    optimiser = dpsgd.DPOptimizer(
        torch.optim.SGD(model.parameters(), lr=0.1),
        l2_norm_clip=clip,
        noise_multiplier=noise,
        rng=torch.Generator().manual_seed(0),
    )
    found = []
    for _ in range(max(1, n_steps)):
        optimiser.backward(model, X, y)
        found.append(torch.cat([p.grad.flatten() for p in model.parameters()]))
    return torch.stack(found) if n_steps else found[0]


def _plausible(hits: int, trials: int, chance: float) -> bool:
    """Whether a count of hits is likely, by the exact binomial test."""
    return stats.binomtest(hits, trials, chance).pvalue >= RARE


def _rank(rows: np.ndarray) -> int:
    """How many bits of these rows are free: the rank of their bits modulo 2.

    rows: (n, b) uint8.  Random rows of w bits have rank w but for a chance of 2^(w - n).
    """
    basis: dict[int, int] = {}
    for row in rows:
        number = int.from_bytes(row.tobytes(), "big")
        while number:
            top = number.bit_length()
            if top not in basis:
                basis[top] = number
                break
            number ^= basis[top]
    return len(basis)


def verdict(name: str) -> list[str]:
    """What is not right in the copy that Python finds; empty if all is."""
    try:
        return list(CHECKS[name]())
    except Exception as error:
        return [f"the code does not run: {type(error).__name__}: {error}"]


if __name__ == "__main__":
    wrong = verdict(sys.argv[1])
    for sentence in wrong:
        print(f"Not right yet: {sentence}.")
    if not wrong:
        print("Right: the method keeps what it promises.")
    sys.exit(1 if wrong else 0)
