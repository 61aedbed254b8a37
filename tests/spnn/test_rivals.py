"""The rivals of SPNN: NN is models.mlp cut in three, SplitNN is NN with blocks of zeros."""

from functools import partial

import pytest
import torch

from ppkit.models import mlp, n_parameters
from ppkit.spnn.rivals import NN, SplitNN, even_widths


def rng(seed=0):
    return torch.Generator().manual_seed(seed)


def columns(holders, n=50, seed=1, dtype=torch.float64):
    return [
        torch.randn(n, width, generator=rng(seed + i), dtype=dtype)
        for i, width in enumerate(holders)
    ]


@pytest.mark.parametrize("holders", [[28], [14, 14], [10, 9, 9], [2] * 14])
def test_nn_is_the_multilayer_perceptron_however_the_columns_are_cut(holders):
    net = NN(holders, (8, 8), rng=rng(3), dtype=torch.float64)
    whole = mlp((28, 8, 8, 1), rng=rng(3), activation="sigmoid", dtype=torch.float64)
    torch.nn.init.zeros_(whole[0].bias)  # the first layer has none
    parts = columns(holders)
    net.prepare(parts)
    rows = torch.tensor([4, 0, 31])
    torch.testing.assert_close(
        net(rows), whole(torch.cat(parts, dim=1)[rows]), rtol=1e-12, atol=1e-14
    )
    torch.testing.assert_close(
        net.logits(parts), whole(torch.cat(parts, dim=1)).detach(), rtol=1e-12, atol=1e-14
    )
    assert n_parameters(net) == n_parameters(whole) - 8


def test_h1_and_h_last_are_what_the_docstring_says_and_keep_their_gradients():
    parts = columns([3, 2])
    net = NN([3, 2], (5, 4), rng=rng(), dtype=torch.float64)
    net.prepare(parts)
    rows = torch.arange(10, 30)
    logits = net(rows)
    logits.sum().backward()
    h1 = sum(part[rows] @ theta for part, theta in zip(parts, net.theta)).detach()
    torch.testing.assert_close(net.h1.detach(), h1, rtol=1e-12, atol=1e-14)
    torch.testing.assert_close(logits, net.output(net.h_last), rtol=0, atol=0)
    assert net.h_last.shape == (20, 4) and float(net.h_last.detach().min()) > 0
    torch.testing.assert_close(net.h_last.grad, net.output.weight.detach().expand(20, 4))
    for part, theta in zip(
        parts, net.theta
    ):  # what each holder computes by itself from the gradient it is sent
        torch.testing.assert_close(theta.grad, part[rows].T @ net.h1.grad, rtol=1e-12, atol=1e-14)


@pytest.mark.parametrize(
    "holders, width", [([14, 14], 8), ([10, 9, 9], 8), ([6, 6, 6, 5, 5], 8), ([2] * 14, 14)]
)
def test_splitnn_is_nn_with_zeros_between_the_holders_at_the_same_total_width(holders, width):
    split = SplitNN(holders, (8, 8), rng=rng(), dtype=torch.float64)
    whole = NN(holders, (width, 8), rng=rng(), dtype=torch.float64)
    blocks = torch.block_diag(*[theta.detach() for theta in split.theta]).split(holders)
    with torch.no_grad():
        for theta, block in zip(whole.theta, blocks):
            theta.copy_(block)
        for ours, theirs in zip(whole.output.parameters(), split.output.parameters()):
            ours.copy_(theirs)
        for ours, theirs in zip(whole.hidden.parameters(), split.hidden.parameters()):
            ours.copy_(theirs)
    parts = columns(holders)
    torch.testing.assert_close(split.logits(parts), whole.logits(parts), rtol=1e-12, atol=1e-14)
    split.prepare(parts)
    assert split(torch.arange(4)).shape == (4, 1) and split.h1.shape == (4, width)


def test_one_holder_alone_makes_splitnn_the_plaintext_network():
    parts = columns([6])
    split = SplitNN([6], (8, 4), rng=rng(2), dtype=torch.float64)
    whole = mlp((6, 8, 4, 1), rng=rng(2), activation="sigmoid", dtype=torch.float64)
    first_biasless = torch.sigmoid(parts[0] @ whole[0].weight.T)
    expected = whole[4](torch.sigmoid(whole[2](first_biasless)))
    with torch.no_grad():
        for ours, theirs in ((split.hidden[1], whole[2]), (split.output, whole[4])):
            for one, other in zip(ours.parameters(), theirs.parameters()):
                one.copy_(other)
    torch.testing.assert_close(split.logits(parts), expected.detach(), rtol=1e-12, atol=1e-14)


def test_no_holders_column_reaches_anothers_neurons():
    holders, hidden = [3, 3, 2], (7, 6, 5)
    net = SplitNN(holders, hidden, rng=rng(), dtype=torch.float64)
    parts = [part.requires_grad_() for part in columns(holders, n=40)]
    encoded = net.first(parts)
    ends = torch.tensor(even_widths(7, 3)).cumsum(0).tolist()
    assert encoded.shape == (40, 7) and ends[-1] == 7
    start = 0
    for i, end in enumerate(ends):
        own = torch.autograd.grad(
            encoded[:, start:end].sum(), parts, retain_graph=True, allow_unused=True
        )
        reached = [g is not None and bool(g.any()) for g in own]
        assert reached == [j == i for j in range(3)]
        start = end


@pytest.mark.parametrize("holders", [[3, 3, 2], [2] * 6])
def test_deep_encoders_are_networks_of_their_holders_alone(holders):
    """Each holder's two layers are computed apart, and concatenated for the server's layer."""
    net = SplitNN(holders, (7, 5, 4), rng=rng(), dtype=torch.float64, depth=2)
    parts = columns(holders, n=40)
    first, second = (even_widths(max(width, len(holders)), len(holders)) for width in (7, 5))
    blocks, server = net.hidden[1], net.hidden[3]
    encoded, row, column = [], 0, 0
    for part, theta, inward, outward in zip(parts, net.theta, first, second):
        weight = blocks.weight[row : row + outward, column : column + inward]
        own = torch.sigmoid(part @ theta) @ weight.T + blocks.bias[row : row + outward]
        encoded.append(torch.sigmoid(own))
        row, column = row + outward, column + inward
    assert (row, column) == tuple(blocks.weight.shape)
    expected = net.output(torch.sigmoid(server(torch.cat(encoded, dim=1))))
    torch.testing.assert_close(net.logits(parts), expected.detach(), rtol=1e-12, atol=1e-14)


def test_training_leaves_no_weight_between_two_holders():
    net = SplitNN([3, 3], (4, 4), rng=rng(), depth=2)
    net.prepare([part.float() for part in columns([3, 3], n=20)])
    steps = torch.optim.SGD(net.parameters(), lr=0.5)
    before = net.hidden[1].weight.detach().clone()
    for _ in range(3):
        steps.zero_grad()
        net(torch.arange(20)).square().mean().backward()
        steps.step()
    moved = (net.hidden[1].weight.detach() != before).tolist()
    assert moved == [[True] * 2 + [False] * 2] * 2 + [[False] * 2 + [True] * 2] * 2
    assert not net.hidden[1].weight[:2, 2:].any()


@pytest.mark.parametrize("depth", [0, 3, 1.5])
def test_a_depth_out_of_range_is_refused(depth):
    with pytest.raises(ValueError, match="depth must be one of 1, 2, got"):
        SplitNN([3, 3], (4, 4), rng=rng(), depth=depth)


def test_every_activation_stands_where_it_was_asked_for():
    kinds = ("sigmoid", "piecewise", "relu")
    net = SplitNN([3, 3], (4, 4, 4), activation=kinds, rng=rng())
    found = [type(m).__name__ for m in net.hidden if not list(m.parameters())]
    assert found == ["Sigmoid", "PiecewiseSigmoid", "ReLU"]


def test_the_start_is_drawn_from_rng_alone():
    before = torch.get_rng_state()
    for make in (NN, SplitNN, partial(SplitNN, depth=2)):
        first, again, other = (make([3, 2], (4, 4), rng=rng(seed)) for seed in (1, 1, 2))
        assert all(torch.equal(p, q) for p, q in zip(first.parameters(), again.parameters()))
        assert not torch.equal(first.theta[0], other.theta[0])
    assert torch.equal(torch.get_rng_state(), before)
    assert (
        float(SplitNN([4, 4], (8, 8), rng=rng()).theta[0].detach().abs().max()) > 8**-0.5
    )  # own fan-in, not that of all columns


@pytest.mark.parametrize(
    "wrong, said",
    [
        ({"hidden": (8, 0)}, "sizes must be at least two widths >= 1, got"),
        ({"n_outputs": 0}, r"sizes must be at least two widths >= 1, got \(.*, 0\)"),
        ({"activation": "tanh"}, "activation must be one of .* got 'tanh'"),
    ],
)
@pytest.mark.parametrize("make", [NN, SplitNN])
def test_bad_settings_are_named(make, wrong, said):
    with pytest.raises(ValueError, match=said):
        make(**{"holders": [3, 2], "hidden": (4, 4), "rng": rng(), **wrong})


@pytest.mark.parametrize(
    "parts, said",
    [
        ([torch.zeros(5, 3)], r"parts must have 3 \+ 2 columns .*, got shapes \[\(5, 3\)\]"),
        ([torch.zeros(5, 3), torch.zeros(5, 3)], r"parts must have 3 \+ 2 columns"),
        (
            [torch.zeros(5, 3), torch.zeros(4, 2)],
            r"and the same rows, at least one, got shapes \[\(5, 3\), \(4, 2\)\]",
        ),
        (
            [torch.zeros(0, 3), torch.zeros(0, 2)],
            r"at least one, got shapes \[\(0, 3\), \(0, 2\)\]",
        ),
    ],
)
def test_bad_parts_are_named(parts, said):
    net = NN([3, 2], (4, 4), rng=rng())
    for take in (net.prepare, net.logits):
        with pytest.raises(ValueError, match=said):
            take(parts)


def test_a_net_without_rows_says_so():
    with pytest.raises(ValueError, match=r"call prepare\(parts\) first"):
        NN([3, 2], (4, 4), rng=rng())(torch.arange(2))


@pytest.mark.parametrize("total, k", [(28, 2), (28, 5), (555, 4), (3, 3), (7, 1)])
def test_shares_are_nearly_equal(total, k):
    shares = even_widths(total, k)
    assert sum(shares) == total and len(shares) == k and max(shares) - min(shares) <= 1


@pytest.mark.parametrize("k", [0, 4])
def test_shares_for_nobody_or_too_many_are_refused(k):
    with pytest.raises(ValueError, match=f"3 cannot be dealt to {k}"):
        even_widths(3, k)
