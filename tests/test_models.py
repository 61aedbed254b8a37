import pytest
import torch

from ppkit.models import PiecewiseSigmoid, mlp, n_parameters


def _generator(seed=0):
    return torch.Generator().manual_seed(seed)


def test_the_papers_network_has_14312_parameters():
    model = mlp((264, 50, 20, 2), rng=_generator())
    assert n_parameters(model) == 14_312
    assert [type(layer).__name__ for layer in model] == [
        "Linear",
        "ReLU",
        "Linear",
        "ReLU",
        "Linear",
    ]
    assert model(torch.zeros(3, 264)).shape == (3, 2)


def test_the_generator_decides_the_start_and_the_global_one_is_left_alone():
    before = torch.get_rng_state()
    first, again = mlp((5, 4, 2), rng=_generator(1)), mlp((5, 4, 2), rng=_generator(1))
    other = mlp((5, 4, 2), rng=_generator(2))
    assert torch.equal(torch.get_rng_state(), before)
    assert all(torch.equal(p, q) for p, q in zip(first.parameters(), again.parameters()))
    assert not torch.equal(first[0].weight, other[0].weight)
    assert first[0].weight.abs().max() <= 5**-0.5 and first[0].weight.std() > 0.1


def test_zero_start_and_dtype():
    model = mlp((5, 4, 2), rng=_generator(), start="zero", dtype=torch.float64)
    assert all(not p.any() and p.dtype == torch.float64 for p in model.parameters())


@pytest.mark.parametrize("sizes", [(5,), (5, 0, 2), ()])
def test_bad_sizes_are_named(sizes):
    with pytest.raises(ValueError, match=r"sizes must be at least two widths >= 1, got \("):
        mlp(sizes, rng=_generator())


def test_bad_start_is_named():
    with pytest.raises(ValueError, match="start must be one of .* got 'ones'"):
        mlp((2, 2), rng=_generator(), start="ones")


def test_the_default_activation_is_relu_and_the_choice_moves_no_parameter():
    """What notebooks 01 and 02 were run with stays bit for bit; a sigmoid network starts from the
    same numbers."""
    nets = [
        mlp((5, 4, 3, 2), rng=_generator(3), **choice)
        for choice in ({}, {"activation": "relu"}, {"activation": "sigmoid"})
    ]
    for net in nets[1:]:
        assert all(torch.equal(p, q) for p, q in zip(nets[0].parameters(), net.parameters()))
    X = torch.randn(6, 5, generator=_generator(4))
    assert torch.equal(nets[0](X), nets[1](X)) and not torch.equal(nets[0](X), nets[2](X))


def test_activations_layer_by_layer_equal_the_network_written_out():
    net = mlp(
        (5, 4, 3, 2, 1),
        rng=_generator(),
        activation=("sigmoid", "piecewise", "relu"),
        dtype=torch.float64,
    )
    X = torch.randn(40, 5, generator=_generator(1), dtype=torch.float64)
    (W1, b1), (W2, b2), (W3, b3), (W4, b4) = [
        (layer.weight, layer.bias) for layer in net if isinstance(layer, torch.nn.Linear)
    ]
    h = 1 / (1 + torch.exp(-(X @ W1.T + b1)))
    z = h @ W2.T + b2
    h = torch.where(
        z < -0.5, torch.zeros_like(z), torch.where(z > 0.5, torch.ones_like(z), z + 0.5)
    )
    h = torch.where(h @ W3.T + b3 > 0, h @ W3.T + b3, 0.0)
    torch.testing.assert_close(net(X), h @ W4.T + b4, rtol=1e-12, atol=1e-14)
    assert len(list(net)) == 7  # no activation behind the logits


def test_piecewise_slope_is_one_inside_and_zero_outside():
    z = torch.tensor([-2.0, -0.51, -0.49, 0.3, 0.49, 0.51, 7.0], requires_grad=True)
    PiecewiseSigmoid()(z).sum().backward()
    assert z.grad.tolist() == [0, 0, 1, 1, 1, 0, 0]


@pytest.mark.parametrize(
    "activation, said",
    [
        ("tanh", "activation must be one of relu, sigmoid, piecewise, got 'tanh'"),
        (("relu", "Relu"), "activation must be one of .* got 'Relu'"),
        (("relu",), r"activation must be one name or 2, one a hidden layer, got \('relu',\)"),
    ],
)
def test_bad_activations_are_named(activation, said):
    with pytest.raises(ValueError, match=said):
        mlp((5, 4, 3, 2), rng=_generator(), activation=activation)
