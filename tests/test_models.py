import pytest
import torch

from ppkit.models import mlp, n_parameters


def _generator(seed=0):
    return torch.Generator().manual_seed(seed)


def test_the_papers_network_has_14312_parameters():
    model = mlp((264, 50, 20, 2), rng=_generator())
    assert n_parameters(model) == 14_312
    assert [type(layer).__name__ for layer in model] == ["Linear", "ReLU", "Linear", "ReLU", "Linear"]
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
