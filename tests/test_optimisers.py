"""torch's optimisers without its compiler: the same bits, and nothing of the compiler loaded."""

import copy
import itertools
import pickle
import subprocess
import sys

import pytest
import torch
from torch import nn

from ppkit import optimisers

NAMES = ("Adadelta", "Adagrad", "Adam", "AdamW", "Adamax", "NAdam", "RAdam", "RMSprop", "SGD")
TYPES = (torch.float32, torch.float64)
N_STEPS = 6


def grid(**values):
    """Each combination of one value a setting."""
    return [dict(zip(values, chosen)) for chosen in itertools.product(*values.values())]


SGD = grid(lr=[0.3, 0.01], momentum=[0.0, 0.9], weight_decay=[0.0, 0.1], maximize=[False, True]) + [
    {"lr": 0.1, "momentum": 0.9, "nesterov": True},
    {"lr": 0.1, "momentum": 0.9, "nesterov": True, "weight_decay": 0.1},
    {"lr": 0.1, "momentum": 0.9, "dampening": 0.5},
    {"lr": 0.1, "momentum": 0.9, "foreach": True},
    {"lr": 0.1, "momentum": 0.9, "fused": True},
]
ADAM = grid(
    lr=[0.3, 0.001], weight_decay=[0.0, 0.1], amsgrad=[False, True], maximize=[False, True]
) + [
    {"lr": 0.1, "betas": (0.5, 0.9), "eps": 1e-3},
    {"lr": 0.1, "foreach": True},
    {"lr": 0.1, "fused": True, "weight_decay": 0.1},
]
RMSPROP = grid(
    lr=[0.3, 0.001], momentum=[0.0, 0.9], centered=[False, True], weight_decay=[0.0, 0.1]
) + [{"lr": 0.1, "alpha": 0.5, "foreach": True}]
OTHERS = grid(lr=[0.3, 0.001], weight_decay=[0.0, 0.1]) + [{"lr": 0.1, "foreach": True}]
SETTINGS = {"SGD": SGD, "Adam": ADAM, "AdamW": ADAM, "RMSprop": RMSPROP}
CASES = [
    (name, settings, dtype)
    for name in NAMES
    for settings in SETTINGS.get(name, OTHERS)
    for dtype in TYPES
]


def network(dtype=torch.float64):
    drawn = torch.Generator().manual_seed(3)
    net = nn.Sequential(nn.Linear(4, 3), nn.ReLU(), nn.Linear(3, 2)).to(dtype)
    with torch.no_grad():
        for parameter in net.parameters():
            parameter.normal_(generator=drawn)
    return net


def backward(net, optimiser, step):
    """The gradient of batch number `step`, by zero_grad and backward."""
    drawn = torch.Generator().manual_seed(step)
    X = torch.randn(8, 4, generator=drawn, dtype=torch.float64).to(next(net.parameters()).dtype)
    y = torch.randint(2, (8,), generator=drawn)
    optimiser.zero_grad()
    nn.functional.cross_entropy(net(X), y).backward()


def trained(net, optimiser, steps=range(N_STEPS)):
    for step in steps:
        backward(net, optimiser, step)
        optimiser.step()
    return [parameter.detach().clone() for parameter in net.parameters()]


def assert_same_bits(ours, theirs):
    for mine, its in zip(ours, theirs, strict=True):
        assert mine.dtype == its.dtype
        assert torch.equal(mine, its)


@pytest.mark.parametrize(("name", "settings", "dtype"), CASES)
def test_the_same_bits_as_torch_optim(name, settings, dtype):
    ours, theirs = network(dtype), network(dtype)
    lean = getattr(optimisers, name)(ours.parameters(), **settings)
    its = getattr(torch.optim, name)(theirs.parameters(), **settings)
    start = [parameter.detach().clone() for parameter in ours.parameters()]
    after = trained(ours, lean)
    assert_same_bits(after, trained(theirs, its))
    assert not torch.equal(after[0], start[0])


@pytest.mark.parametrize("name", NAMES)
def test_groups_and_schedules_as_torch_optim(name):
    ends = []
    for kinds in (optimisers, torch.optim):
        net = network()
        optimiser = getattr(kinds, name)([{"params": net[0].parameters(), "lr": 0.2}], lr=0.01)
        optimiser.add_param_group({"params": net[2].parameters(), "weight_decay": 0.1})
        schedule = torch.optim.lr_scheduler.ExponentialLR(optimiser, gamma=0.5)
        for step in range(N_STEPS):
            trained(net, optimiser, [step])
            schedule.step()
        assert [group["lr"] for group in optimiser.param_groups] == pytest.approx(
            [0.2 * 0.5**N_STEPS, 0.01 * 0.5**N_STEPS]
        )
        ends.append([parameter.detach() for parameter in net.parameters()])
    assert_same_bits(*ends)


@pytest.mark.parametrize("name", NAMES)
@pytest.mark.parametrize("first", [optimisers, torch.optim])
@pytest.mark.parametrize("then", [optimisers, torch.optim])
def test_a_kept_state_goes_on_in_either(name, first, then):
    # with torch's own: NAdam does not go on as if it had not stopped, also there
    ends = []
    for kinds in ((first, then), (torch.optim, torch.optim)):
        net = network()
        settings = {"momentum": 0.9} if name in ("SGD", "RMSprop") else {}
        begun, resumed = (getattr(one, name)(net.parameters(), lr=0.1, **settings) for one in kinds)
        trained(net, begun, range(3))
        resumed.load_state_dict(pickle.loads(pickle.dumps(begun.state_dict())))
        ends.append(trained(net, resumed, range(3, 6)))
    assert_same_bits(*ends)


def test_an_optimiser_can_be_copied_and_pickled():
    net = network()
    optimiser = optimisers.Adam(net.parameters(), lr=0.1)
    trained(net, optimiser)
    for copied in (copy.deepcopy(optimiser), pickle.loads(pickle.dumps(optimiser))):
        assert type(copied) is optimisers.Adam
        copied.step()


def test_hooks_are_called_once_a_step():
    net, calls = network(), []
    optimiser = optimisers.SGD(net.parameters(), lr=0.1)
    optimiser.register_step_pre_hook(lambda *_: calls.append("before"))
    optimiser.register_step_post_hook(lambda *_: calls.append("after"))
    trained(net, optimiser, range(2))
    assert calls == ["before", "after", "before", "after"]


def test_a_closure_gives_the_loss_and_has_gradients():
    net = network()
    optimiser = optimisers.SGD(net.parameters(), lr=0.1)

    def closure():
        optimiser.zero_grad()
        loss = net(torch.ones(1, 4, dtype=torch.float64)).square().sum()
        loss.backward()
        return loss

    before = optimiser.step(closure)
    assert closure() < before


def test_a_step_leaves_no_graph_unless_it_is_asked_for():
    for differentiable in (False, True):
        start = torch.ones(2, requires_grad=True)
        moved = start.clone() if differentiable else start
        if differentiable:
            moved.retain_grad()
        moved.grad = torch.ones(2)
        optimiser = optimisers.SGD([moved], lr=0.1, differentiable=differentiable)
        optimiser.step()
        assert (moved.grad_fn is not None) == differentiable
        assert torch.is_grad_enabled()


# One process for all of them; what it prints names the first that loads a compiler.
BEGIN = "import sys, torch\nX, y = torch.ones(8, 3), torch.arange(8) % 2\n"
SAY = "print({entry!r}, *sorted({{'sympy', 'torch._dynamo'}} & set(sys.modules)), sep=': ')\n"
ENTRIES = {
    "DP-SGD": """
from ppkit import models, optimisers
from ppkit.dpsgd import DPOptimizer
rng = torch.Generator()
net = models.mlp((3, 2), rng=rng)
inner = optimisers.Adam(net.parameters(), lr=.1)
DPOptimizer(inner, l2_norm_clip=1.0, noise_multiplier=1.0, rng=rng).step(net, X, y)
""",
    "SPNN": """
from ppkit import optimisers
from ppkit.spnn.layer import SPNN
from ppkit.spnn.training import SGLD, Schedule, train
net = SPNN([2, 1], (4,), rng=torch.Generator())
parts = [X[:, :2], X[:, 2:]]
train(net, parts, y, Schedule(epochs=1, batch=4), optimiser=optimisers.SGD(net.parameters(), lr=.1))
noisy = SGLD(net.parameters(), lr=.1, rng=torch.Generator())
train(net, parts, y, Schedule(epochs=1, batch=4, loss="sum"), optimiser=noisy)
""",
    "rivals": """
from ppkit.spnn.rivals import PiecewiseNet
net = PiecewiseNet([2, 1], (4,), rng=torch.Generator())
net.prepare([X.double()[:, :2], X.double()[:, 2:]])
net.step(torch.arange(8), y.double(), lr=.1)
""",
    "banks": """
from ppkit.backtracking import banks
rng = torch.Generator()
training = banks.Training(n_epochs=1)
banks.fit(banks.network(3, rng), X.double(), y, training=training, rng=rng)
""",
    "property attack": """
import numpy
from ppkit.attacks import property, property_defences
rng = numpy.random.default_rng(0)
property.infer(X.double(), y, X.double(), attacker="mlp", rng=rng)
defender = property_defences.Defender(3, strength=1.0, rng=torch.Generator())
defender.guard((X.double() * y[:, None]).requires_grad_().clone(), y)
""",
    "a role": """
from ppkit.spnn.randomness import Stream
from spnn_system.config import TORCH_OPTIMISERS, Training
from spnn_system.roles.weights import Optimiser
for name in ("sgd", "sgld", *TORCH_OPTIMISERS):
    part = torch.nn.Linear(3, 1)
    part(X).sum().backward()
    optimiser = Optimiser(part, Training(train_rows=1, optimiser=name), Stream(bytes(32)))
    optimiser.step()
    optimiser.state = optimiser.state
""",
}


@pytest.mark.processes
@pytest.mark.slow
def test_a_first_step_loads_no_compiler():
    code = BEGIN + "".join(step + SAY.format(entry=entry) for entry, step in ENTRIES.items())
    ended = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True)
    assert (ended.stdout.splitlines(), ended.stderr) == (list(ENTRIES), "")
