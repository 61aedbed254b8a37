"""Training on shares against the same network in the clear, and what each party gets to see of
it."""

from unittest import mock

import numpy as np
import pytest
import torch
from scipy import stats
from transcripts import seen_by
from uniform_bytes import unusual_bytes

from ppkit import evaluation
from ppkit.models import PiecewiseSigmoid
from ppkit.spnn.dealer import NAMES
from ppkit.spnn.messages import Transcript
from ppkit.spnn.randomness import Stream
from ppkit.spnn.rivals import PiecewiseNet
from ppkit.spnn.secureml import SecureML

UNIT = 2.0**-16
NETS = {
    "sigmoid": ((8, 8), "piecewise"),
    "one hidden layer": ((5,), "piecewise"),
    "ReLU last": ((12, 6, 4), ("piecewise", "piecewise", "relu")),
}


def problem(hidden=(8, 8), activation="piecewise", *, n=300, widths=(5, 3), seed=0):
    rng = torch.Generator().manual_seed(seed)
    net = PiecewiseNet(widths, hidden, activation=activation, rng=rng)
    X = torch.randn(n, sum(widths), generator=rng, dtype=torch.float64)
    y = (X[:, 0] - X[:, -1] + torch.randn(n, generator=rng) > 0.5).long()
    parts = list(X.split(list(widths), dim=1))
    net.prepare(parts)
    return net, parts, y


def shared(net, parts, y, *, truncation="dealer", keep="sizes", seed=0):
    made = SecureML(
        net,
        truncation=truncation,
        transcript=Transcript(keep),
        stream=Stream.seeded_for_teaching(seed),
    )
    made.prepare(parts, y)
    return made


def by_hand(net, X, y):
    """Oracle: forward and backward in numpy, a layer at a time, with the indicator for the slope.
    Gradients are sums."""
    kept, a = [], X.numpy()
    for (theta, bias), kind in zip(net.layers(), net.kinds):
        z = a @ theta.numpy() + (0 if bias is None else bias.numpy())
        slope = (np.abs(z) < 0.5) if kind == "piecewise" else z > 0
        kept.append((a, z, slope, theta.numpy()))
        a = np.clip(z + 0.5, 0, 1) if kind == "piecewise" else np.maximum(z, 0)
    delta, gradients = a - y.numpy()[:, None], []
    for i in reversed(range(len(kept))):
        gradients.insert(0, (kept[i][0].T @ delta, delta.sum(axis=0)))
        if i:
            delta = (delta @ kept[i][3].T) * kept[i - 1][2]
    return kept, gradients


def bounds(net, X, y, *, lr):
    """How far the shared run may be off: of z, layer by layer, and of every theta after one step.
    Derivation in the test."""
    u, t = UNIT / 2, UNIT
    kept, gradients = by_hand(net, X, y)
    of_a, of_z, errors = np.full(X.shape, u), [], []
    for a, _, _, theta in kept:
        errors.append(of_a)
        of_a = of_a @ np.abs(theta) + (np.abs(a) + of_a).sum(axis=1, keepdims=True) * u + u + t
        of_z.append(of_a)
    a_last = np.clip(kept[-1][1] + 0.5, 0, 1)
    delta, of_delta, of_theta = a_last - y.numpy()[:, None], of_z[-1], []
    for i in reversed(range(len(kept))):
        a, _, _, theta = kept[i]
        of_g = np.abs(a).T @ of_delta + errors[i].T @ (np.abs(delta) + of_delta) + t
        rate = lr / len(X)
        of_theta.insert(
            0,
            (
                u + rate * of_g + rate * 2.0**-16 * np.abs(gradients[i][0]) + t,
                u + rate * of_delta.sum(axis=0) + rate * 2.0**-16 * np.abs(gradients[i][1]) + t,
            ),
        )
        if i:
            slope = kept[i - 1][2]
            of_delta = slope * (
                of_delta @ np.abs(theta).T
                + (np.abs(delta) + of_delta).sum(axis=1, keepdims=True) * u
                + t
            )
            delta = (delta @ theta.T) * slope
    return of_z, of_theta


def test_the_clear_net_is_secureml_by_hand():
    for hidden, activation in NETS.values():
        net, parts, y = problem(hidden, activation)
        before = [(theta.clone(), None if b is None else b.clone()) for theta, b in net.layers()]
        kept, gradients = by_hand(net, torch.cat(parts, dim=1), y)
        assert np.allclose(net(torch.arange(len(y))).detach().numpy(), kept[-1][1], atol=1e-12)
        net.step(torch.arange(len(y)), y, lr=0.7)
        for (theta, b), (old, old_b), (g, g_b) in zip(net.layers(), before, gradients):
            assert np.allclose(theta.numpy(), old.numpy() - 0.7 / len(y) * g, atol=1e-12)
            assert b is None or np.allclose(
                b.numpy(), old_b.numpy() - 0.7 / len(y) * g_b, atol=1e-12
            )


def test_the_clear_nets_loss_has_p_minus_y_for_its_gradient():
    z = torch.linspace(-2, 2, 401, dtype=torch.float64)[:, None].requires_grad_()
    y = (torch.arange(401) % 2).double()
    PiecewiseNet.loss(z, y).backward()
    p = PiecewiseSigmoid()(z.detach())
    assert torch.allclose(z.grad, (p - y[:, None]) / 401, atol=1e-15)
    assert float(PiecewiseNet.loss(torch.zeros(2, 1), torch.tensor([0, 1]))) == 0.125
    assert all(
        PiecewiseNet.loss(torch.tensor([[a]]), torch.tensor([b])) >= 0
        for a in (-3.0, -0.1, 0.4, 3.0)
        for b in (0, 1)
    )


@pytest.mark.parametrize("truncation", ["dealer", "secureml"])
@pytest.mark.parametrize("name", NETS)
def test_forward_and_one_step_stay_within_the_derived_bound(name, truncation):
    """With u = 2^-17 for what is rounded once and t = 2^-16
    for what is truncated:

        e_z <= e_a |theta| + (|a| + e_a) u + u + t        e_f(z) <= e_z, as f moves nothing apart
        e_delta <= slope (e_delta' |theta|^T + (|delta'| + e_delta') u + t),
            where both sides agree on the slope
        e_theta <= u + lr/|B| (|a|^T e_delta + e_a^T (|delta| + e_delta) + t + 2^-16 |gradient|) + t

    (rate = lr/|B| is kept to a share 2^-17). Rows where a z lies within e_z of a corner of f are
    left out, few of them.
    """
    hidden, activation = NETS[name]
    net, parts, y = problem(hidden, activation)
    X = torch.cat(parts, dim=1)
    of_z, _ = bounds(net, X, y, lr=1.0)
    clear = torch.ones(len(y), dtype=torch.bool)
    for (_, z, _, _), e, kind in zip(by_hand(net, X, y)[0], of_z, net.kinds):
        corner = np.abs(np.abs(z) - 0.5) if kind == "piecewise" else np.abs(z)
        clear &= torch.from_numpy((corner > e).all(axis=1))
    assert clear.float().mean() > 0.95
    parts, y, X = [part[clear] for part in parts], y[clear], X[clear]
    of_z, of_theta = bounds(net, X, y, lr=1.0)
    assert (
        of_z[-1].max() < 0.002 and max(e.max() for e, _ in of_theta) < 0.001
    )  # the bound says something
    net.prepare(parts)
    on_shares = shared(net, parts, y, truncation=truncation)
    error = (on_shares.logits(parts) - net.logits(parts)).abs().numpy()
    assert (error <= of_z[-1]).all() and error.max() > 0
    rows = torch.arange(len(y))
    on_shares.step(rows, lr=1.0)
    start = [theta.clone() for theta, _ in net.layers()]
    net.step(rows, y, lr=1.0)
    revealed = PiecewiseNet(net.holders, hidden, activation=activation, rng=torch.Generator())
    on_shares.copy_to(revealed)
    for (theta, b), (got, got_b), (e, e_b), old in zip(
        net.layers(), revealed.layers(), of_theta, start
    ):
        assert ((got - theta).abs().numpy() <= e).all()
        assert (theta - old).abs().max() > 5 * e.max()  # the step is far larger than the bound
        assert (b is None) == (got_b is None) and (
            b is None or ((got_b - b).abs().numpy() <= e_b).all()
        )


@pytest.mark.slow
@pytest.mark.parametrize("name", ["sigmoid", "ReLU last"])
def test_forty_steps_on_shares_are_those_in_the_clear(name):
    """Errors grow with the steps and the slope's jumps; stated: logits within .02, loss and AUC
    within .001."""
    hidden, activation = NETS[name]
    net, parts, y = problem(hidden, activation, n=800)
    on_shares, before = shared(net, parts, y), float(net.loss(net.logits(parts), y))
    for step in range(40):
        rows = torch.arange(200) + 200 * (step % 4)
        on_shares.step(rows, lr=1.0)
        net.step(rows, y[rows], lr=1.0)
    got, want = on_shares.logits(parts), net.logits(parts)
    assert (got - want).abs().max() < 0.02
    assert (
        abs(float(net.loss(got, y)) - float(net.loss(want, y))) < 0.001
        and float(net.loss(want, y)) < 0.7 * before
    )
    aucs = [evaluation.auc(y.numpy(), logits[:, 0].numpy()) for logits in (got, want)]
    assert abs(aucs[0] - aucs[1]) < 0.001 and aucs[1] > 0.8


def test_the_update_is_not_biased():
    """A gradient of 0: theta must stay on average. Mean error of an update in units of 2^-16, over
    4,000 weights: |mean| has deviation < 1 / sqrt(4000)."""
    moved = {}
    for truncation in ("dealer", "secureml"):
        net = PiecewiseNet((40, 10), (80,), rng=torch.Generator().manual_seed(3))
        parts = [torch.zeros(4, 40).double(), torch.zeros(4, 10).double()]
        on_shares = shared(net, parts, torch.tensor([0, 1, 0, 1]), truncation=truncation)
        after = PiecewiseNet((40, 10), (80,), rng=torch.Generator())
        on_shares.step(torch.arange(4), lr=0.01)
        on_shares.copy_to(after)
        first = (after.layers()[0][0] - torch.round(net.layers()[0][0] / UNIT) * UNIT) / UNIT
        moved[truncation] = float(first.mean())
    assert abs(moved["dealer"]) < 0.1 and abs(moved["secureml"]) < 0.1


def test_all_that_is_opened_is_uniform():
    """Chi-square over the 256 values of a byte, for each kind of message to each party, over one
    step and a prediction.

    Failure chance 1e-7 for all of them together (Bonferroni; the seed is fixed). The data are all
    alike and far from uniform, so a message without its mask is seen at once.
    """
    net, _, _ = problem((8, 8), ("piecewise", "relu"), n=4)
    parts = [
        torch.full((600, 5), 0.25, dtype=torch.float64),
        torch.full((600, 3), -1.0, dtype=torch.float64),
    ]
    on_shares = shared(net, parts, torch.ones(600, dtype=torch.int64), keep="payloads")
    for _ in range(3):
        on_shares.step(torch.arange(600), lr=0.5)
    seen: dict = {}
    for message in on_shares.transcript.messages:
        if message.name != "seed":
            seen.setdefault((message.receiver, message.name), []).append(
                np.frombuffer(message.payload.numpy().tobytes(), np.uint8)
            )
    names = {name for _, name in seen}
    assert {
        "X - U",
        "theta - v",
        "a - u",
        "delta - d",
        "z + r",
        "x + r",
        "g + a",
        "p + b",
        "s ^ q",
        "delta + u",
    } <= names
    for key, payloads in seen.items():
        counts = np.bincount(np.concatenate(payloads), minlength=256)
        assert counts.sum() >= 256, key
        assert stats.chisquare(counts).pvalue > 1e-7 / len(seen), key


def opened_words(transcript):
    """Every ring element that both parties know: X - U from one, all others as the sum of what the
    two sent."""
    words, waiting = [], {}
    for message in transcript.messages:
        if (
            message.phase == "offline"
            or message.payload.dtype != torch.int64
            or message.name == "share of weights"
        ):
            continue
        payload = message.payload.flatten()
        if message.name == "X - U":
            words.append(payload)
        elif message.name in waiting:
            words.append(waiting.pop(message.name) + payload)
        else:
            waiting[message.name] = payload
    assert not waiting
    return torch.cat(words)


@pytest.mark.parametrize("truncation", ["dealer", "secureml"])
def test_no_mask_serves_two_secrets(truncation):
    """Two secrets below 2^24 under one mask, or under a mask and its negative, would differ or add
    up to less than 2^25.

    Among M opened words and their negatives, truly masked, some pair is that close with chance
    < (2M)^2/2 2^26/2^64 < 1e-4 (the seed is fixed). Inputs, activations, errors, weights and
    numbers to be compared are all below 2^24 here; products before truncation need not be, and
    their masks are `TruncationPair`s, which refuse to serve twice.
    """
    net, parts, y = problem((3, 2), n=10, widths=(2, 2))
    on_shares = shared(net, parts, y, truncation=truncation, keep="payloads")
    for _ in range(2):
        on_shares.step(torch.arange(10), lr=0.5)
    words = opened_words(on_shares.transcript)
    assert len(words) > 400
    both = torch.cat([words, -words]).numpy()
    order = np.argsort(both)
    close = np.diff(both[order]) < 2**25
    assert not close.any()


def seen_and_drawn(party, step):
    """One shape at a time, all ring elements that a party knows: what it receives, draws from its
    seed, and sees opened."""
    drawn, words = {}, Stream.words

    def recorded(stream, shape):
        drawn.setdefault(stream.key, []).append(words(stream, shape))
        return drawn[stream.key][-1]

    with mock.patch.object(Stream, "words", recorded):
        transcript = step()
    [key] = [message.payload for message in seen_by(transcript, party) if message.name == "seed"]
    sent = [{}, {}]
    for message in transcript.messages:
        if (
            message.phase == "online"
            and message.name != "X - U"
            and message.name != "share of weights"
        ):
            sent[NAMES.index(message.sender)].setdefault(message.name, []).append(message.payload)
    pairs = [pair for name in sent[0] for pair in zip(sent[0][name], sent[1][name], strict=True)]
    known = (
        [m.payload for m in seen_by(transcript, party) if m.name != "seed"]
        + drawn[key]
        + [a + b for a, b in pairs]
    )
    found: dict = {}
    for each in known:
        if each.dtype == torch.int64 and each.numel() >= 8_000:  # what `unusual_bytes` needs
            found.setdefault(each.numel(), []).append(each.flatten())
    return found


@pytest.mark.slow
@pytest.mark.parametrize("party", NAMES)
def test_no_two_things_that_a_party_knows_are_one_secret_under_one_mask(party):
    """Of any two that it received, drew from its own seed or saw opened, in one shape, the sum and
    the difference are uniform: chance of a false alarm 1e-9 each (the seed is fixed), some hundreds
    of them."""
    parts = [
        torch.full((2_000, 4), 0.25, dtype=torch.float64),
        torch.full((2_000, 4), -1.0, dtype=torch.float64),
    ]
    net = PiecewiseNet(
        (4, 4), (8, 8), activation=("piecewise", "relu"), rng=torch.Generator().manual_seed(0)
    )

    def step():
        on_shares = shared(net, parts, torch.ones(2_000, dtype=torch.int64), keep="payloads")
        on_shares.step(torch.arange(2_000), lr=0.5)
        return on_shares.transcript

    found = seen_and_drawn(party, step)
    assert sum(len(of_one_shape) for of_one_shape in found.values()) > 30
    for of_one_shape in found.values():
        for i, one in enumerate(of_one_shape):
            assert unusual_bytes(one) == 0
            for other in of_one_shape[:i]:
                assert unusual_bytes(one - other) == 0 and unusual_bytes(one + other) == 0


def test_rows_are_opened_under_a_new_mask_every_time():
    """The same rows, prepared twice and predicted twice: were a mask kept, two messages would be
    alike."""
    net, parts, y = problem(n=200)
    on_shares = shared(net, parts, y, keep="payloads")
    on_shares.prepare(parts, y)
    for _ in range(2):
        on_shares.logits(parts)
    for party in NAMES:
        sent = [
            m.payload.flatten() for m in seen_by(on_shares.transcript, party) if m.name == "X - U"
        ]
        assert len(sent) == 4
        assert not any((one == other).any() for i, one in enumerate(sent) for other in sent[:i])


def test_the_messages_of_a_prediction_are_these_and_the_logits_go_to_a_only():
    net, parts, y = problem((3, 2), n=10, widths=(2, 2))
    on_shares = shared(net, parts, y, truncation="secureml")
    on_shares.logits(parts)
    sent = [
        (m.sender, m.receiver, m.name)
        for m in on_shares.transcript.messages
        if m.step == 1 and m.phase == "online"
    ]
    both = lambda *names: [(*way, name) for name in names for way in (("A", "B"), ("B", "A"))]
    activation = both("x + r", "g + a", "p + b", "g + a", "p + b", "s ^ q", "a - u")
    assert sent == [
        *both("X - U", "theta - v", "theta - v", "theta - v"),
        *activation,
        *activation,
        ("B", "A", "share of logits"),
    ]


def test_masks_are_fresh_for_every_step_and_x_is_opened_once():
    net, parts, y = problem(n=50)
    on_shares = shared(net, parts, y, keep="payloads")
    rows = torch.arange(50)
    for _ in range(2):
        on_shares.step(rows, lr=1e-6)  # so small that hardly a weight moves
    sent = {}
    for message in seen_by(on_shares.transcript, "B"):
        sent.setdefault((message.sender, message.name), []).append(message.payload)
    for (sender, name), payloads in sent.items():
        if sender == "A" and name not in ("X - U", "share of weights"):
            half = len(payloads) // 2
            assert len(payloads) == 2 * half and half
            assert all(
                (a != b).double().mean() > 0.5 for a, b in zip(payloads[:half], payloads[half:])
            ), name
    assert len(sent["A", "X - U"]) == 1 and sent["A", "X - U"][0].shape == (50, 5)
    keys = [message.payload for message in on_shares.transcript.messages if message.name == "seed"]
    assert len(keys) == 2 and keys[0] != keys[1]


def test_secrets_come_from_the_operating_system_unless_seeded():
    net, parts, y = problem(n=8)
    opened = []
    for stream in (None, None, Stream.seeded_for_teaching(1), Stream.seeded_for_teaching(1)):
        transcript = Transcript("payloads")
        SecureML(net, transcript=transcript, stream=stream).prepare(parts, y)
        opened.append(
            torch.cat(
                [
                    m.payload.flatten()
                    for m in transcript.messages
                    if m.name in ("X - U", "share of weights")
                ]
            )
        )
    assert (
        not (opened[0] == opened[1]).any()
        and torch.equal(opened[2], opened[3])
        and not (opened[0] == opened[2]).any()
    )


def test_bytes_and_rounds_of_a_step_are_as_counted_by_hand():
    n, (d, h1, h2) = 48, (8, 6, 4)
    net, parts, y = problem((h1, h2), n=n)
    for truncation, rounds, per_number in (("dealer", 27, 8), ("secureml", 20, 0)):
        on_shares = shared(net, parts, y, truncation=truncation)
        on_shares.step(torch.arange(n), lr=0.1)
        table = on_shares.transcript.table().query("step == 1 and phase == 'online'")
        weights, units = d * h1 + h1 * h2 + h2, n * (h1 + h2)
        expected = (
            8 * weights  # theta - v
            + 8 * units  # a - u
            + 18.25 * (units + n)  # activations
            + 8 * (units + n)
            + 8 * units  # delta - d, delta + u
            + per_number
            * (2 * units + n + weights)  # truncations of z, of delta theta^T, of gradients
            + per_number * (weights + h2 + 1)
        )  # and of the steps, of biases too
        assert table.groupby("sender")["n_bytes"].sum().to_dict() == {"A": expected, "B": expected}
        assert table["round"].nunique() == rounds and set(table["receiver"]) == set(NAMES)
        once = on_shares.transcript.table().query("name == 'X - U'")
        assert once["n_bytes"].tolist() == [8 * n * 5, 8 * n * 3]


def test_dealing_ahead_is_the_same_step_and_serves_once():
    net, parts, y = problem(n=40)
    rows, results = torch.arange(30), []
    for ahead in (False, True):
        on_shares = shared(net, parts, y)
        dealt = on_shares.deal(rows, lr=0.5) if ahead else None
        on_shares.step(rows, lr=0.5, dealt=dealt)
        results.append(on_shares.logits(parts))
    assert torch.equal(*results)
    sent = len(on_shares.transcript.messages)
    with pytest.raises(ValueError, match="StepMasks can serve once and was used before"):
        on_shares.step(rows, lr=0.5, dealt=dealt)
    fresh = on_shares.deal(rows, lr=0.5)
    dealt_messages = len(on_shares.transcript.messages) - sent
    for other in ({"rows": rows + 1, "lr": 0.5}, {"rows": rows, "lr": 0.25}):
        with pytest.raises(ValueError, match="dealt for other rows or for another lr"):
            on_shares.step(other["rows"], lr=other["lr"], dealt=fresh)
    assert len(on_shares.transcript.messages) == sent + dealt_messages


def test_the_net_it_starts_from_stays_as_it_is():
    net, parts, y = problem(n=20)
    before = [theta.clone() for theta, _ in net.layers()]
    on_shares = shared(net, parts, y)
    on_shares.step(torch.arange(20), lr=0.5)
    assert all(torch.equal(a, b) for a, (b, _) in zip(before, net.layers()))


def test_bad_input_is_named():
    net, parts, y = problem(n=20)
    for k in (1, 3):
        with pytest.raises(
            ValueError, match=f"SecureML is for 2 parties, got a net of {k} holders"
        ):
            SecureML(PiecewiseNet([4] * k, (3,), rng=torch.Generator()))
    with pytest.raises(ValueError, match="truncation must be one of .*, got 'round'"):
        SecureML(net, truncation="round")
    with pytest.raises(ValueError, match="has the activations piecewise and relu, got 'sigmoid'"):
        PiecewiseNet([4, 4], (3,), activation="sigmoid", rng=torch.Generator())
    made = SecureML(net)
    with pytest.raises(ValueError, match="SecureML has no rows yet: call prepare"):
        made.step(torch.arange(3), lr=0.1)
    with pytest.raises(ValueError, match=r"y must be \(20,\) labels 0 or 1, got tensor"):
        made.prepare(parts, y[1:])
    with pytest.raises(ValueError, match="labels 0 or 1, got tensor"):
        made.prepare(parts, 2 * y)
    with pytest.raises(
        ValueError, match=r"and the same rows, at least one, got shapes \[\(20, 5\), \(19, 3\)\]"
    ):
        made.prepare([parts[0], parts[1][1:]], y)
    with pytest.raises(ValueError, match="X theta may reach .*, outside .*63-bit products"):
        made.prepare([1e9 * parts[0], parts[1]], y)
    bad = parts[1].clone()
    bad[3, 1] = torch.nan
    for refused in (lambda: made.prepare([parts[0], bad], y), lambda: made.logits([parts[0], bad])):
        with pytest.raises(ValueError, match="X theta may reach nan, outside"):
            refused()
    made.prepare(parts, y)
    for lr in (0.0, -1.0, float("nan"), float("inf")):
        with pytest.raises(ValueError, match=f"lr must be a finite number > 0, got {lr}"):
            made.step(torch.arange(3), lr=lr)
    for rows in (torch.arange(0), torch.tensor([3, 20]), [-1], torch.ones(20) > 0, [0.5]):
        with pytest.raises(ValueError, match="rows must be 0 to 19, at least one, got tensor"):
            made.step(rows, lr=0.1)
    made.step([0, 3], lr=0.1)


# --- between SPNN and SecureML: the first i layers on shares ---


@pytest.mark.slow
@pytest.mark.parametrize("truncation", ["dealer", "secureml"])
@pytest.mark.parametrize("name", ["sigmoid", "ReLU last"])
def test_any_number_of_private_layers_trains_the_network_in_the_clear(name, truncation):
    hidden, activation = NETS[name]
    for private in range(1, len(hidden) + 1):
        net, parts, y = problem(hidden, activation)
        made = SecureML(
            net, private=private, truncation=truncation, stream=Stream.seeded_for_teaching(private)
        )
        made.prepare(parts, y)
        rows = torch.arange(len(y))
        for _ in range(12):
            made.step(rows, lr=0.5)
            net.step(rows, y, lr=0.5)
        revealed = problem(hidden, activation)[0]
        assert not torch.equal(revealed.layers()[-1][0], net.layers()[-1][0])
        made.copy_to(revealed)
        for (theta, b), (clear, clear_b) in zip(revealed.layers(), net.layers()):
            assert (theta - clear).abs().max() < 2e-3
            assert b is None or (b - clear_b).abs().max() < 2e-3
        assert (made.logits(parts) - net.logits(parts)).abs().max() < 2e-2


def test_private_layers_send_holders_noise_and_the_server_one_layer():
    """What the server gets adds up to z of the last private layer; what the holders get is uniform,
    but for A's last hidden layer.  Chance of a false alarm: 1e-9 a kind of message, under 40."""
    net, parts, y = problem(n=2_000)
    made = SecureML(net, private=2, transcript=Transcript(), stream=Stream.seeded_for_teaching(5))
    made.prepare(parts, y)
    with torch.no_grad():
        z = net.hidden[:2](sum(part @ theta for part, theta in zip(parts, net.theta)))
    made.step(torch.arange(len(y)), lr=0.5)
    by_name = {}
    for message in made.transcript.messages:
        by_name.setdefault((message.receiver, message.name), []).append(message.payload)
    seen = sum(by_name["server", "share of z"]) * UNIT
    assert (seen - z).abs().max() < 1e-3
    assert {name for who, name in by_name if who == "server"} == {"share of z", "dL/dh_L"}
    for who in NAMES:
        words = by_name[who, "share of dL/dz"][0]
        assert unusual_bytes(words) == 0
    assert ("B", "h_L") not in by_name and ("A", "h_L") in by_name


def test_as_many_private_layers_as_there_are_is_secureml_itself():
    net, _, _ = problem()
    for private in (0, 3, 1.5, True):
        with pytest.raises(ValueError, match="private must be one of None, 1, 2, got"):
            SecureML(net, private=private)


@pytest.mark.slow
@pytest.mark.parametrize("lr", [1e10, 1e15])
def test_weights_that_ran_away_are_refused_where_they_are_opened(lr):
    """In plaintext they reach 5e8 and 5e13: products have gone round the ring long before."""
    rng = torch.Generator().manual_seed(0)
    X = torch.randn(200, 5, generator=rng, dtype=torch.float64)
    parts, y = [X[:, :3], X[:, 3:]], (X.sum(dim=1) > 0).long()
    net = PiecewiseNet([3, 2], (4,), rng=torch.Generator().manual_seed(0))
    start = net.theta[0].detach().clone()
    shared = SecureML(net, stream=Stream.seeded_for_teaching(0))
    shared.prepare(parts, y)
    for step in range(20):
        shared.step(torch.arange(200).split(50)[step % 4], lr=lr)
    for opens in (lambda: shared.logits(parts), lambda: shared.copy_to(net)):
        with pytest.raises(ValueError, match="the training has run away, take a smaller lr"):
            opens()
    assert torch.equal(net.theta[0], start)
