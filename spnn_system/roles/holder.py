"""A data holder: its features and its theta stay with it, and at the label holder the labels and the last layer too."""

from __future__ import annotations

import json
import math
import time

import torch

from ppkit.models import classification_loss
from spnn_system import data
from spnn_system.run.checkpoints import write
from spnn_system.config import Config
from spnn_system.roles.order import Order
from spnn_system.roles.endings import RowsDiffer
from spnn_system.roles.part import Part
from spnn_system.roles.sides import positions, seek, side_of
from spnn_system.roles.weights import Optimiser, Start, loss_factor
from spnn_system.roles.server import SERVER


def main(config: Config, name: str, *, resume: bool = False) -> int:
    """Run one holder to its end; returns the exit code of `Part.play`.

    ValueError or FileNotFoundError in one sentence if its file is not right: before it says hello.
    """
    X, y, ids = data.read(config, name)
    part = Part(config, name, resume=resume, data_digest=data.data_digest(X, y, ids))
    return part.play(lambda part: HolderWork(part, X, y, ids).do(), columns=X.shape[1])


class HolderWork:
    """All that a holder does between the plan and the last word.

    A step: its side of the protocol, so that the server gets h1; then dL/dh1 from the server, and theta moves along
    X_i^T dL/dh1. The label holder in between gets h_L, and sends dL/dh_L before it moves its own layer.
    """

    def __init__(self, part: Part, X: torch.Tensor, y: torch.Tensor | None, ids: list[str]):
        self.part, self.X, self.y, self.ids = part, X, y, ids
        config, plan = part.config, part.plan
        self.n = plan["train_rows"]
        self.side = side_of(part)
        start = Start(part.root, seed=config.training.seed if part.teaching else None)
        self.theta = start.theta(plan["columns"], plan["width"], config.names.index(part.role))
        self.parameters = [self.theta]
        self.output = None
        if y is not None:
            self.output = start.output(plan["columns"], config.model.hidden if part.teaching else [plan["last_width"]])
            self.parameters += self.output.parameters()
        self.optimiser = Optimiser(self.parameters, name=plan["optimiser"], lr=plan["lr"], stream=part.root)
        self.losses: list[float] = []                                # of every finished epoch
        self.running = 0.0                                           # of the present one: the sum over its records so far
        self.seconds: dict[str, list[float] | float] = {"online": [], "offline": []}

    def do(self) -> None:
        part, side = self.part, self.side
        began = time.perf_counter()
        self._compare_rows()
        part.expect(len(self.X) - self.n)
        order = Order.agreed(part, self.n, part.plan["batch"])
        part.run(side.connect())
        side.load(self.X[: self.n])
        part.run(side.prepare())
        self._restore()
        self.seconds["once"] = time.perf_counter() - began
        waits = time.perf_counter()
        for epoch in part.epochs(self._reached):
            began = self._spent("offline", epoch, waits)
            for rows in order.left(part, epoch):
                self._step(rows)
                if part.step % part.n_steps == 0:
                    self.losses.append(self.running / self.n)
                    self.running = 0.0
                if part.agreed(part.step):
                    began = self._spent("online", epoch, began)
                    self._save()
            waits = self._spent("online", epoch, began)
        self._test(order)
        part.leave({"theta": self.theta} | ({} if self.output is None else dict(self.output.named_parameters())))

    def _spent(self, on: str, epoch: int, since: float) -> float:
        """Add the seconds since then to those of an epoch, over all resumptions; returns the time it is."""
        now = time.perf_counter()
        spent = self.seconds[on]
        spent += [0.0] * (epoch + 1 - len(spent))
        spent[epoch] += now - since
        return now

    def _compare_rows(self) -> None:
        """Every holder tells every other how many rows it has and the digest of their ids; the first tells server and dealer."""
        part, config = self.part, self.part.config
        mine = {"rows": len(self.X), "ids": data.ids_digest(self.ids)}
        others = [name for name in config.names if name != part.role]
        for name in others:
            part.send(name, "rows and ids", mine)
        if part.role == config.names[0]:
            for receiver in (SERVER, *(["dealer"] if config.dealer is not None else [])):
                part.send(receiver, "test rows", {"n": len(self.X) - self.n})
        for name in others:
            theirs = part.receive_counts(name, "rows and ids", "rows")
            if theirs != mine:
                what = (f"{mine['rows']:,} and {theirs['rows']:,} rows" if theirs["rows"] != mine["rows"]
                        else "other ids, or ids in another order")
                raise RowsDiffer(f"all holders must have the same rows in the same order: holder {part.role} and "
                                 f"holder {name} have {what}", name)

    def _step(self, rows: torch.Tensor) -> None:
        part, side = self.part, self.side
        part.run(side.step(rows, self.theta))
        gradients = []
        if self.output is not None:
            h_L = part.receive_tensor(SERVER, "h_L", (len(rows), part.plan["last_width"])).requires_grad_()
            loss = classification_loss(self.output(h_L), self.y[rows])
            if not math.isfinite(value := float(loss.detach())):
                raise ValueError(f"the loss is {value} at step {part.step}: lower the learning rate")
            self.running += value * len(rows)
            factor = loss_factor(part.plan["optimiser"], len(rows))
            back, *gradients = torch.autograd.grad(loss * factor if factor != 1.0 else loss, [h_L, *self.output.parameters()])
            part.send(SERVER, "dL/dh_L", back)
        G = part.receive_tensor(SERVER, "dL/dh1", (len(rows), part.plan["width"]))
        self.optimiser.step([(G.T @ side.batch).T, *gradients])

    def _test(self, order: Order) -> None:
        """The test rows go through the protocol, forward only; the label holder measures."""
        part, side, logits = self.part, self.side, []
        X, began = self.X[self.n :], time.perf_counter()
        part.step += 1
        side.load(X)
        part.run(side.prepare())
        with torch.no_grad():
            for rows in order.in_turn(len(X)):
                part.run(side.step(rows, self.theta))
                if self.output is not None:
                    h_L = part.receive_tensor(SERVER, "h_L", (len(rows), part.plan["last_width"]))
                    logits.append(self.output(h_L)[:, 0])
                part.step += 1
        self.seconds["test"] = time.perf_counter() - began
        if self.output is None:
            return
        from ppkit import evaluation                        # here: it brings scikit-learn, which takes seconds to load

        y, z = self.y[self.n :].numpy(), torch.cat(logits).double().numpy()
        metrics = {"run": part.config.run, "source": part.config.source,
                   "secrets": part.config.protocol.origin, "epochs": len(self.losses),
                   "steps": len(self.losses) * part.n_steps,
                   "losses": self.losses, "test_auc": evaluation.auc(y, z), "test_loss": evaluation.log_loss(y, z),
                   "test_rows": len(y), "test_positives": int(y.sum()), "seconds": self.seconds}
        write(part.folder / "metrics.json", json.dumps(metrics, indent=1).encode())

    def _reached(self) -> bool:
        below = self.part.plan.get("stop_below", 0.0)
        return bool(self.losses) and self.losses[-1] < below

    def _save(self) -> None:
        arrays = {"theta": self.theta.detach().numpy()}
        if self.output is not None:
            arrays |= {"weight": self.output.weight.detach().numpy(), "bias": self.output.bias.detach().numpy()}
        self.part.save(arrays | self.optimiser.state, {"streams": positions(self.side), "losses": self.losses,
                                                       "running": self.running, "seconds": self.seconds})

    def _restore(self) -> None:
        kept = self.part.restore()
        if kept is None:
            self._save()
            return
        with torch.no_grad():
            self.theta.copy_(torch.from_numpy(kept.arrays["theta"]))
            if self.output is not None:
                self.output.weight.copy_(torch.from_numpy(kept.arrays["weight"]))
                self.output.bias.copy_(torch.from_numpy(kept.arrays["bias"]))
        self.optimiser.state = kept.arrays
        self.losses, self.running = list(kept.notes["losses"]), kept.notes["running"]
        self.seconds = kept.notes["seconds"]
        seek(self.side, kept.notes["streams"])
