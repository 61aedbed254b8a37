"""Runs over the network for the tests of the roles: small rows, one folder a run, and the same
training in one process.
"""

import atexit
import contextlib
import functools
import json
from dataclasses import dataclass, field
from unittest import mock

import numpy as np
import pandas as pd
import torch
from role_nursery import Nursery
from waiting import FAR

from ppkit import evaluation
from ppkit.models import classification_loss
from ppkit.spnn.layer import SPNN
from ppkit.spnn.randomness import Stream
from ppkit.spnn.training import Schedule, train
from ppkit.spnn.vertical import Vertical
from spnn_system import config, example
from spnn_system.config import TORCH_OPTIMISERS
from spnn_system.roles.party import RowOrder
from spnn_system.roles.server import own_layers
from spnn_system.transport import certificates, frames


@functools.cache
def nursery() -> Nursery:
    """One for all tests of this process."""
    opened = Nursery().__enter__()
    atexit.register(opened.__exit__)
    return opened


HIDDEN, ACTIVATION = (4, 3), "sigmoid"


def small_rows(columns=(3, 2), *, train_rows=230, test_rows=90, seed=5, classes=2) -> Vertical:
    """Rows with something to learn."""
    rng = torch.Generator().manual_seed(seed)
    n = train_rows + test_rows
    X = torch.randn(n, sum(columns), generator=rng)
    score = X.sum(dim=1) + torch.randn(n, generator=rng)
    y = sum((score > 0.5 + 2 * i).long() for i in range(classes - 1))
    cut = {"train": slice(0, train_rows), "test": slice(train_rows, n)}
    return Vertical(
        parts={
            key: [part.contiguous() for part in X[rows].split(list(columns), dim=1)]
            for key, rows in cut.items()
        },
        y={key: y[rows] for key, rows in cut.items()},
        rows={key: np.arange(n)[rows] for key, rows in cut.items()},
        holders=list(columns),
        feature_names=tuple(f"x{i}" for i in range(sum(columns))),
        source="drawn for a test",
    )


def made(folder, vertical, **settings) -> config.Config:
    """The files of a run, certificates too."""
    settings = {
        "protocol": "masked",
        "secrets": "teaching",
        "seed": 3,
        "hidden": HIDDEN,
        "activation": ACTIVATION,
        "batch": 100,
        "lr": 1.5,
        "epochs": 2,
        "timeout": FAR,
        "start_timeout": FAR,
        "checkpoint_every": 2,
        **settings,
    }
    path = example.write(folder, vertical, **settings)
    loaded = config.load(path)
    certificates.make(loaded.network.certificates, loaded.roles)
    return loaded


def started(conf, *, resume=False, paths=None, first=None) -> dict:
    """first: code by role, as `Nursery.start` has it."""
    return {
        role: nursery().start(
            conf,
            role,
            resume=resume,
            path=(paths or {}).get(role),
            first=(first or {}).get(role, ""),
        )
        for role in conf.roles
    }


class Forked:
    """What the launcher starts with subprocess.Popen, forked by the nursery instead: the same
    roles, without the seconds in which each of them loads torch.
    """

    def __init__(self, command, *, stdout, **_):
        role, path = command[command.index("spnn_system") + 1 :][:2]
        conf = config.load(path)
        more = ["--predict"] if "--predict" in command else []
        conf = conf.prediction() if more else conf
        self._role = nursery().start(conf, role, resume="--resume" in command, more=more)
        self.pid = self._role.pid

    @property
    def returncode(self):
        return self._role.code()

    poll = lambda self: self.returncode
    wait = lambda self: self._role.wait()


def finished(conf, **how) -> dict:
    """Run all roles to their end, which must be a good one."""
    roles = started(conf, **how)
    codes = lambda: {name: role.code() for name, role in roles.items()}
    nursery().until(
        lambda: None not in codes().values() or any(codes().values()), "the end of all roles"
    )
    # one that stopped may leave others waiting
    assert not any(codes().values()), (codes(), {name: role.said() for name, role in roles.items()})
    return roles


def status(conf) -> dict:
    try:
        return json.loads((conf.folder_of("coordinator") / "status.json").read_text())
    except FileNotFoundError:
        return {"state": "", "step": 0, "sentence": ""}


def heard(conf) -> set[tuple[str, str]]:
    """(role, kind) of what the coordinator has in its record so far; the last frame may be half
    there.
    """
    found, path = set(), conf.folder_of("coordinator") / "received.frames"
    with contextlib.suppress(frames.Malformed):
        for frame in frames.recorded(path) if path.exists() else ():
            found.add((frame.sender, frame.payload["kind"]))
    return found


def parts_of(conf) -> dict[str, np.ndarray]:
    """All parameters that the roles left, under the names of `alone`."""
    found = {}
    for role in (*conf.names, "server"):
        with np.load(conf.folder_of(role) / "parameters.npz") as archive:
            found |= {f"{role}.{name}": archive[name] for name in archive.files}
    return found


def metrics_of(conf) -> dict:
    return json.loads((conf.folder_of(conf.label_holder) / "metrics.json").read_text())


@dataclass
class Alone:
    """What the same training gives in one process."""

    parameters: dict[str, np.ndarray]
    losses: list[float]
    measured: dict[str, float]
    messages: pd.DataFrame
    moved: dict[str, float]  # how far each part is from its start
    seen: dict[str, list[torch.Tensor]] = field(default_factory=dict)


def alone(conf, vertical, **choices) -> Alone:
    """SPNN and training.train with the same seeds, as the notebooks have them."""
    seed, t = conf.training.seed, conf.training
    stream = Stream.seeded_for_teaching(seed)
    net = SPNN(
        vertical.holders,
        conf.model.hidden,
        rng=torch.Generator().manual_seed(seed),
        n_outputs=conf.model.n_outputs,
        protocol=conf.protocol.name,
        activation=conf.model.activation,
        label_holder=conf.names.index(conf.label_holder),
        stream=stream,
        **({"form": conf.protocol.form} if conf.protocol.name == "ss" else {}),
        **conf.protocol.choices,
        **choices,
    )
    if conf.layers is not None:
        net.hidden = own_layers(conf)
    batches, start = (
        [],
        {name: value.detach().numpy().copy() for name, value in _parts(conf, net).items()},
    )

    def criterion(logits, y):
        value = classification_loss(logits, y)
        if logits.requires_grad:
            batches.append((float(value.detach()), len(y)))
        return value

    n_steps, epoch = t.epochs * t.steps_per_epoch, iter(range(t.epochs))
    key = (
        Stream.seeded_for_teaching(seed).derive(conf.names[0]).derive("order of the rows").key
        if t.order == "reshuffled"
        else None
    )
    order = RowOrder(t.train_rows, t.batch, key)
    with mock.patch.object(
        torch, "randperm", lambda n, generator: torch.cat(order.epoch(next(epoch)))
    ):
        record = train(
            net,
            *vertical["train"],
            Schedule(epochs=t.epochs, batch=t.batch, order=t.order),
            criterion=criterion,
            look_at=range(n_steps),
            optimiser=getattr(torch.optim, {"sgd": "SGD", **TORCH_OPTIMISERS}[t.optimiser])(
                net.parameters(), lr=t.lr
            ),
            rng=torch.Generator(),
        )
    losses = [
        sum(value * n for value, n in batches[i : i + t.steps_per_epoch]) / t.train_rows
        for i in range(0, n_steps, t.steps_per_epoch)
    ]
    messages = net.transcript.table()
    parts, y = vertical["test"]
    net.prepare(parts)
    with torch.no_grad():
        logits = torch.cat([net(rows) for rows in torch.arange(len(y)).split(t.batch)]).double()
    parameters = {name: value.detach().numpy() for name, value in _parts(conf, net).items()}
    moved = {name: float(np.abs(value - start[name]).max()) for name, value in parameters.items()}
    seen = {
        "h1": [look.h1 for look in record.looks],
        "dL/dh1": [look.h1_grad for look in record.looks],
        "h_L": [look.h_last for look in record.looks],
        "dL/dh_L": [look.h_last_grad for look in record.looks],
    }
    return Alone(
        parameters,
        losses,
        {
            "test_auc": evaluation.auc(y.numpy(), logits[:, 0].numpy()),
            "test_loss": evaluation.log_loss(y.numpy(), logits[:, 0].numpy()),
        }
        if conf.model.classes == 2
        else {
            "test_accuracy": np.mean(logits.numpy().argmax(axis=1) == y.numpy()),
            "test_loss": float(classification_loss(logits, y)),
        },
        messages,
        moved,
        seen,
    )


def _parts(conf, net) -> dict[str, torch.Tensor]:
    return {
        **{f"{name}.theta": theta for name, theta in zip(conf.names, net.theta)},
        **{f"server.{name}": value for name, value in net.hidden.state_dict().items()},
        **{f"{conf.label_holder}.{name}": value for name, value in net.output.named_parameters()},
    }


def same(conf, expected: Alone) -> None:
    """The run's parameters, losses and measures are those of one process, to the bit."""
    found = parts_of(conf)
    assert found.keys() == expected.parameters.keys()
    for name, value in expected.parameters.items():
        assert found[name].dtype == value.dtype and found[name].shape == value.shape, name
        assert np.array_equal(found[name], value), (
            f"{name} differs by {np.abs(found[name] - value).max()}"
        )
    metrics = metrics_of(conf)
    assert metrics["losses"] == expected.losses
    assert {name: metrics[name] for name in expected.measured} == expected.measured
