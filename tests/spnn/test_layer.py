"""The first layer inside torch: gradients, messages of a step, the bound of one pass, drift over a
training; bad input."""

import functools
import math

import pytest
import torch
from torch import nn
from transcripts import seen_by

from ppkit.models import classification_loss, mlp
from ppkit.spnn.layer import KINDS, SPNN, FirstLayer, costs, hand_over
from ppkit.spnn.messages import Transcript
from ppkit.spnn.paillier_keys import generate_keys
from ppkit.spnn.randomness import Stream
from ppkit.spnn.rivals import NN

KEYS = generate_keys(256, teaching=True)[1]
CHOICES = {
    "plain": {"protocol": "plain"},
    "masked": {"protocol": "masked"},
    "he": {"protocol": "he", "keys": KEYS},
    "lean": {"protocol": "ss"},
    "published": {"protocol": "ss", "form": "published"},
}
N, BATCH = 400, 100


@functools.cache
def data(n=N):
    rng = torch.Generator().manual_seed(5)
    X = torch.randn(n, 28, generator=rng, dtype=torch.float64)
    chance = torch.sigmoid(X @ torch.randn(28, generator=rng, dtype=torch.float64))
    return X, (chance > torch.rand(n, generator=rng, dtype=torch.float64)).double()


def network(choice="plain", holders=(14, 14), **others):
    X, _ = data()
    net = SPNN(
        holders,
        (8, 8),
        rng=torch.Generator().manual_seed(1),
        stream=Stream.seeded_for_teaching(2),
        **{"dtype": torch.float64} | CHOICES[choice] | others,
    )
    net.prepare([part.to(net.output.weight.dtype) for part in X.split(list(holders), dim=1)])
    return net


def reference():
    """The network on all columns in one place, started from the same generator."""
    net = mlp(
        (28, 8, 8, 1),
        rng=torch.Generator().manual_seed(1),
        activation="sigmoid",
        dtype=torch.float64,
    )
    net[0].bias = None
    return net


def test_the_start_is_that_of_the_network_in_one_place_however_the_columns_are_cut():
    whole, rival = (
        reference(),
        NN([14, 14], (8, 8), rng=torch.Generator().manual_seed(1), dtype=torch.float64),
    )
    for holders in ([14, 14], [1, 27], [4] * 7):
        net = network("masked", holders)
        assert [tuple(theta.shape) for theta in net.theta] == [(d, 8) for d in holders]
        assert torch.equal(torch.cat(list(net.theta)), whole[0].weight.T)
        for a, b, c in zip(
            list(net.hidden.parameters()) + list(net.output.parameters()),
            list(whole.parameters())[1:],
            list(rival.hidden.parameters()) + list(rival.output.parameters()),
            strict=True,
        ):
            assert torch.equal(a, b) and torch.equal(a, c)
    assert len(list(net.parameters())) == 7 + 4


@pytest.mark.parametrize("rows", [slice(None), slice(3, 50), torch.tensor([9, 0, 9, 4]), [1, 2]])
def test_plain_is_torchs_own_network_forward_and_backward(rows):
    X, y = data()
    net, whole = network(), reference()
    for _, logits in ((net, net(rows)), (whole, whole(X[rows]))):
        classification_loss(logits, y[rows]).backward()
    assert torch.allclose(net.h1, X[rows] @ whole[0].weight.T, rtol=0, atol=1e-13)
    assert torch.allclose(
        torch.cat([theta.grad for theta in net.theta]), whole[0].weight.grad.T, rtol=0, atol=1e-14
    )
    for a, b in zip(
        [*net.hidden.parameters(), *net.output.parameters()],
        list(whole.parameters())[1:],
        strict=True,
    ):
        assert torch.allclose(a.grad, b.grad, rtol=0, atol=1e-14)


def pass_bound(net, X, dh):
    """How far G = d(mean loss)/dh1 and the gradient of theta may move when h1 moves by at most dh,
    entry by entry.

    G = s'(h) * (W^T (s'(u) * w r)) / n with u = W s(h) + c, v = s(u), r = sigmoid(w v + b) - y.
    Each factor is bounded (s' <= 1/4, |r| <= 1) and Lipschitz (|s''| <= 1/(6 sqrt 3),
    sigmoid' <= 1/4); a product of three moves by at most the sum of one factor's move times the
    bounds of the others: a sum over paths, so absolute values of W and w serve.
    """
    slope, curve = 1 / 4, 1 / (6 * math.sqrt(3))
    W, w = net.hidden[1].weight.detach().abs(), net.output.weight.detach().abs()[0]
    du = slope * dh @ W.T
    dr = slope * (slope * du @ w)[:, None]
    back = slope * w @ W  # bound of |W^T (s'(u) * w r)|
    dback = (curve * du * w) @ W + slope * dr * (w @ W)
    dG = (curve * dh * back + slope * dback) / len(dh)
    return dG, X.abs().T @ dG


@pytest.mark.parametrize("holders", [(14, 14), (10, 9, 9)])
@pytest.mark.parametrize("choice", [choice for choice in CHOICES if choice != "plain"])
def test_one_pass_stays_within_the_derived_bound_forward_and_backward(choice, holders):
    X, y = data()
    rows, nets = torch.arange(0, N, 4), [network(choice, holders), network("plain", holders)]
    for net in nets:
        classification_loss(net(rows), y[rows]).backward()
    dh = nets[0].first.protocol.error_bound(rows, list(nets[0].theta))
    off = (nets[0].h1 - nets[1].h1).detach().abs()
    assert bool((off <= dh + 1e-12).all()) and off.max() > dh.max() / 20
    dG, dtheta = pass_bound(nets[1], X[rows], dh)
    assert bool(((nets[0].h1.grad - nets[1].h1.grad).abs() <= dG + 1e-15).all())
    moved = torch.cat([a.grad - b.grad for a, b in zip(nets[0].theta, nets[1].theta)]).abs()
    assert bool((moved <= dtheta + 1e-14).all()) and 0 < dtheta.max() < 2**-14


def rounded(values):
    return (values * 2.0**16).round() / 2.0**16


def trained(choice, *, round_X=False, round_theta=False, dtype=torch.float64):
    """Losses of 60 steps and h1 of all rows afterwards; the rounding is that of a plaintext run
    with rounded inputs."""
    X, y = (each.to(dtype) for each in data())
    net = network(choice, dtype=dtype)
    if round_X:
        net.prepare(rounded(X).split(14, dim=1))
    if round_theta:
        forward = net.first.protocol.forward
        net.first.protocol.forward = lambda rows, thetas: forward(
            rows, [rounded(theta) for theta in thetas]
        )
    optimiser, losses = torch.optim.SGD(net.parameters(), lr=2.0), []
    for step in range(60):
        rows = torch.arange(BATCH) + step * BATCH % N
        optimiser.zero_grad()
        loss = classification_loss(net(rows), y[rows])
        loss.backward()
        optimiser.step()
        losses.append(loss.item())
    with torch.no_grad():
        net(slice(None))
    return torch.tensor(losses, dtype=torch.float64), net.h1


@functools.cache
def drift(choice, **rounding):
    """(largest difference of losses, root mean square difference of h1) from the plaintext run of
    the same seed."""
    (losses, h1), (plain_losses, plain_h1) = (
        trained(choice, **rounding),
        trained("plain", dtype=rounding.get("dtype", torch.float64)),
    )
    return float((losses - plain_losses).abs().max()), float((h1 - plain_h1).pow(2).mean().sqrt())


@pytest.mark.slow
@pytest.mark.parametrize("choice", ["masked", "lean", "published"])
def test_over_a_training_the_drift_is_that_of_rounded_inputs_or_less_than_three_times_it(choice):
    """Algorithm 2's inputs are X and theta; for masked and lean, which round theta finely or not at
    all, X alone will do."""
    assert trained("plain")[0][-1] < 0.8 * trained("plain")[0][0]
    limits = [drift("plain", round_X=True, round_theta=True)]
    if choice != "published":
        limits.append(drift("plain", round_X=True))
    for limit in limits:
        assert all(0 < ours <= 3 * theirs for ours, theirs in zip(drift(choice), limit))


@pytest.mark.slow
@pytest.mark.parametrize("choice", ["masked", "lean"])
def test_in_float32_too(choice):
    """What float32 itself rounds is in both runs, and small beside 2^-17."""
    limit = drift("plain", round_X=True, dtype=torch.float32)
    assert all(
        0 < ours <= 3 * theirs for ours, theirs in zip(drift(choice, dtype=torch.float32), limit)
    )


def test_paillier_gives_what_masked_gives():
    """Both sum the same rounded parts: h1 is the same to the last digit, so what holds for a
    training with one holds for both."""
    nets = [network("he"), network("masked")]
    for net in nets:
        classification_loss(net(slice(0, 20)), data()[1][:20]).backward()
    assert torch.equal(nets[0].h1, nets[1].h1)
    assert all(
        torch.allclose(a.grad, b.grad, rtol=0, atol=1e-15)
        for a, b in zip(nets[0].theta, nets[1].theta)
    )


@pytest.mark.parametrize("label_holder", [0, 1])
def test_the_messages_of_a_step_are_the_papers(label_holder):
    X, y = data()
    net = network("masked", label_holder=label_holder, transcript=Transcript())
    classification_loss(net(slice(0, 10)), y[:10]).backward()
    holder, step = (
        "AB"[label_holder],
        [message for message in net.transcript.messages if message.step == 1],
    )
    assert [(m.sender, m.receiver, m.name, m.n_bytes) for m in step] == [
        ("A", "server", "masked X theta", 320),
        ("B", "server", "masked X theta", 320),
        ("server", holder, "h_L", 640),
        (holder, "server", "dL/dh_L", 640),
        ("server", "A", "dL/dh1", 640),
        ("server", "B", "dL/dh1", 640),
    ]
    first = step[0].round
    assert [m.round - first for m in step] == [0, 0, 1, 2, 3, 3]
    assert torch.equal(step[2].payload, net.h_last.detach()) and torch.equal(
        step[3].payload, net.h_last.grad
    )
    assert torch.equal(step[4].payload, net.h1.grad) and torch.equal(step[5].payload, net.h1.grad)
    with torch.no_grad():
        net(slice(0, 10))
    assert [m.name for m in net.transcript.messages if m.step == 2] == [
        "masked X theta",
        "masked X theta",
        "h_L",
    ]


def test_each_holder_computes_its_gradient_from_its_own_columns_and_what_it_was_sent():
    X, y = data()
    for choice in CHOICES:
        net = network(choice, (10, 9, 9), transcript=Transcript())
        rows = torch.tensor([3, 1, 4, 1, 5])
        classification_loss(net(rows), y[rows]).backward()
        for name, theta, part in zip("ABC", net.theta, X.split([10, 9, 9], dim=1)):
            [G] = [m.payload for m in seen_by(net.transcript, name) if m.name == "dL/dh1"]
            assert torch.allclose(theta.grad, part[rows].T @ G, rtol=0, atol=1e-15)


def test_weights_that_are_frozen_get_no_gradient():
    net = network("masked")
    net.theta[0].requires_grad_(False)
    net(slice(0, 5)).sum().backward()
    assert net.theta[0].grad is None and net.theta[1].grad.abs().sum() > 0


@pytest.mark.slow
def test_a_network_of_ones_own_reads_like_fig_4():
    """Five classes, own modules, Adam: what the paper shows in 44 lines."""
    X, _ = data()
    classes = (X[:, :1] > 0).long().flatten() + 2 * (X[:, 20] > 0).long()
    rng = torch.Generator().manual_seed(0)
    first = FirstLayer(
        [14, 14],
        16,
        protocol="masked",
        rng=rng,
        dtype=torch.float64,
        stream=Stream.seeded_for_teaching(0),
    )
    first.prepare(X.split(14, dim=1))
    server, output = (
        nn.Sequential(nn.ReLU(), nn.Linear(16, 8, dtype=torch.float64), nn.ReLU()),
        nn.Linear(8, 5, dtype=torch.float64),
    )
    for part in (server[1], output):
        nn.init.orthogonal_(part.weight, generator=rng)
        nn.init.zeros_(part.bias)
    optimiser, losses = (
        torch.optim.Adam(
            [*first.parameters(), *server.parameters(), *output.parameters()], lr=0.05
        ),
        [],
    )
    for _ in range(30):
        optimiser.zero_grad()
        h = server(first(slice(None)))
        h_L = hand_over(h, first.transcript, "server", "A", "h_L", seen=h.detach())
        loss = nn.functional.cross_entropy(output(h_L), classes)
        loss.backward()
        optimiser.step()
        losses.append(loss.item())
    assert losses[-1] < 0.3 * losses[0]
    assert first.transcript.step == 30 and len(first.transcript.messages) == 1 + 30 * 6


def test_measuring_in_plaintext_sends_nothing_and_agrees():
    X, _ = data()
    net = network("published")
    sent = len(net.transcript.messages)
    plain = net.logits(X.split(14, dim=1))
    assert len(net.transcript.messages) == sent and not plain.requires_grad
    with torch.no_grad():
        assert torch.allclose(net(slice(None)), plain, rtol=0, atol=1e-3)


@pytest.mark.parametrize("choice", CHOICES)
def test_float32_networks_get_float32(choice):
    X, y = data()
    net = network(choice, dtype=torch.float32)
    logits = net(slice(0, 30))
    classification_loss(logits, y[:30]).backward()
    assert logits.dtype == net.h1.dtype == net.theta[0].grad.dtype == torch.float32
    wanted = sum(
        part[:30].float() @ theta for part, theta in zip(data()[0].split(14, dim=1), net.theta)
    )
    assert torch.allclose(net.h1, wanted, rtol=0, atol=1e-3)


def test_measuring_takes_features_of_another_precision_as_preparing_does():
    X, _ = data()
    net = SPNN([14, 14], (8, 8), protocol="masked", rng=torch.Generator().manual_seed(0))
    parts = [part.double() for part in X.split(14, dim=1)]
    net.prepare(parts)
    assert torch.equal(net.logits(parts), net.logits([part.float() for part in parts]))


def test_activations_can_differ_by_layer():
    net = SPNN(
        [2, 2],
        (6, 5, 4),
        activation=("sigmoid", "sigmoid", "relu"),
        protocol="plain",
        n_outputs=3,
        rng=torch.Generator().manual_seed(0),
    )
    assert [type(module).__name__ for module in net.hidden] == [
        "Sigmoid",
        "Linear",
        "Sigmoid",
        "Linear",
        "ReLU",
    ]
    net.prepare([torch.ones(2, 2), torch.ones(2, 2)])
    assert net(slice(None)).shape == (2, 3)


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"label_holder": None}, "label_holder must be one of 0, 1, got None"),
        ({"label_holder": 2}, "label_holder must be one of 0, 1, got 2"),
        ({"label_holder": -1}, "label_holder must be one of 0, 1, got -1"),
        ({"holders": [28]}, r"SPNN needs at least 2 holders, got 1: \[28\]"),
        ({"protocol": "tls"}, "protocol must be one of .*, got 'tls'"),
        (
            {"hidden": ()},
            r"hidden must be at least one width >= 1 and n_outputs >= 1, got \(\) and 1",
        ),
        ({"hidden": (8, 0)}, r"got \(8, 0\) and 1"),
        ({"n_outputs": 0}, r"got \(8, 8\) and 0"),
        ({"activation": "tanh"}, "activation must be one of .* got 'tanh'"),
        ({"activation": ("relu",)}, "activation must be one name or 2"),
        (
            {"protocol": "he", "key_bits": 512},
            "bits must be a multiple of 16 and at least 2,048, got 512",
        ),
    ],
)
def test_a_network_that_cannot_be_is_refused(change, message):
    arguments = {"holders": [14, 14], "hidden": (8, 8), "protocol": "plain"} | change
    with pytest.raises(ValueError, match=message):
        SPNN(**arguments, rng=torch.Generator().manual_seed(0))


def test_a_first_layer_without_width_is_refused():
    with pytest.raises(ValueError, match=r"sizes must be at least two widths >= 1, got \(2, 0\)"):
        FirstLayer([1, 1], 0, rng=torch.Generator())


def test_a_training_that_diverges_says_so():
    net = network("masked")
    with torch.no_grad():
        net.theta[1].fill_(math.nan)
    with pytest.raises(
        ValueError, match="^theta of holder B is not finite: has the training diverged"
    ):
        net(slice(None))


@pytest.mark.slow
def test_bytes_and_rounds_are_those_of_the_formulas():
    """n rows, d = sum of d_i features, w wide: 8 bytes a ring element, 4 a word, 512 a ciphertext
    of 62 or fewer numbers."""
    (n, w, a, b), table = (40, 4, 3, 2), costs((3, 2), 4, n_rows=40)
    d = a + b
    published = 8 * (n * d + d * w + 2 * 2 * (n * d + d * w))
    ciphertexts = 512 * math.ceil(n * w / (2047 // 41))
    assert table["between holders"].to_dict() == {
        "plain": 0,
        "ss, published": published,
        "ss, lean": 2 * 8 * d * w,
        "masked": 0,
        "he": ciphertexts,
    }
    assert table["to server"].to_dict() == {
        "plain": 8 * n * w,
        "ss, published": 16 * n * w,
        "ss, lean": 8 * n * w,
        "masked": 8 * n * w,
        "he": ciphertexts,
    }
    assert table["from server"].tolist() == [8 * n * w] * 5
    assert table["rounds"].to_dict() == {
        "plain": 1,
        "ss, published": 3,
        "ss, lean": 2,
        "masked": 1,
        "he": 2,
    }
    assert table["dealer"].to_dict() == {
        "plain": 0,
        "ss, published": 4 * 8 * (n * d + d * w + n * w),
        "ss, lean": 8 * n * w,
        "masked": 0,
        "he": 0,
    }
    assert table.loc[["plain", "ss, published", "ss, lean", "masked"], "once"].tolist() == [
        0,
        0,
        4 * 32 + 2 * 8 * n * d,
        32,
    ]
    assert list(table.index) == list(KINDS)
