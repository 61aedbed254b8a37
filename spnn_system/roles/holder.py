"""A data holder: its features and its theta stay with it, and at the label holder the labels and
the last layer too.
"""

import json
import math
import time
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import pandas as pd
import torch
from torch import nn

from ppkit.models import classification_loss
from ppkit.spnn.party import Holder
from spnn_system import columns, data
from spnn_system.config import Config
from spnn_system.roles.party import FeaturesTooLarge, Party, RowOrder, RowsDiffer
from spnn_system.roles.weights import Optimiser, Start, put_back
from spnn_system.run.checkpoints import write_secret
from spnn_system.run.reports import say
from spnn_system.run.role_folder import FEATURES, METRICS, SCORES


def main(config: Config, name: str, *, resume: bool = False) -> int:
    """Run one holder to its end; returns the exit code of `Party.play`.

    ValueError or FileNotFoundError in one sentence if its file is not right: before it says hello.
    """
    X, y, ids = data.read(config, name, tell=say)
    party = Party(config, name, resume=resume, data_digest=data.data_digest(X, y, ids))
    return party.play(lambda party: HolderWork(party, X, y, ids).do(), columns=X.shape[1])


class Last:
    """What the label holder has beside: labels, the last layer, and the loss of every epoch."""

    def __init__(self, output: nn.Module, y: torch.Tensor):
        self.output, self.y = output, y
        # of every finished epoch; of the present one: the sum over its records so far
        self.losses: list[float] = []
        self.running = 0.0


class HolderWork:
    """All that a holder does between the plan and the last word.

    A step: its side of the protocol, so that the server gets h1; then dL/dh1 from the server, and
    theta moves along X_i^T dL/dh1. The label holder in between gets h_L, and sends dL/dh_L before
    it moves its own layer.
    """

    def __init__(self, party: Party, X: torch.Tensor, y: torch.Tensor | None, ids: list[str]):
        self.party, self.X, self.ids = party, X, ids
        self.config, self.training = party.config, party.config.training
        self.side = party.side_as(Holder)
        self.n, self.widths = self.training.train_rows, party.config.model.hidden
        self.folder = party.folder.path
        start, columns = Start(party.config, party.root), party.plan.columns
        self.theta = start.theta(columns, self.config.names.index(party.role))
        parameters = [("theta", self.theta)]
        self.last: Last | None = None
        if party.role == self.config.label_holder:
            output = start.output(columns)
            # new rows have no labels
            self.last = Last(output, torch.empty(0) if y is None else y)
            parameters += output.named_parameters()
        self.part = nn.ParameterDict(parameters)
        put_back(self.config, party.role, self.part)
        self.optimiser = Optimiser(self.part, self.training, party.root)
        self.seconds: dict[str, list[float]] = {"online": [], "offline": []}

    def do(self) -> None:
        """All of it, in order."""
        party, side, training = self.party, self.side, self.training
        began = time.perf_counter()
        self._compare_rows()
        order = party.row_order()
        party.run(side.connect())
        if self.n:
            with self._naming_features(self.X[: self.n]):
                side.load(self.X[: self.n])
                party.run(side.prepare())
        notes = party.saves.begin(
            party.plan.start, side, self.part, self.optimiser, **self._notes()
        )
        self.seconds = notes["seconds"]
        if self.last is not None:
            self.last.losses, self.last.running = notes["losses"], notes["running"]
        now = time.perf_counter()
        once = now - began
        for epoch in party.epochs():
            now, batches = self._spent("offline", epoch, now), order.epoch(epoch)
            for number in party.steps():
                self._step(batches[number])
                if training.saves_after(party.progress.step):
                    now = self._spent("online", epoch, now)
                    party.saves.save(**self._notes())
            now = self._spent("online", epoch, now)
        logits = self._test(order)
        if self.config.trained is None:
            party.saves.leave()
            names = json.dumps(data.features(self.config, party.role))
            write_secret(self.folder / FEATURES, names.encode())
        if self.last is not None and self.config.trained:
            self._leave_scores(logits)
        elif self.last is not None:
            test = time.perf_counter() - now
            self._leave_metrics(self.last, logits, {**self.seconds, "once": once, "test": test})

    def _notes(self) -> dict[str, Any]:
        """What a checkpoint keeps beside the parameters."""
        losses, running = (self.last.losses, self.last.running) if self.last else ([], 0.0)
        return {"losses": losses, "running": running, "seconds": self.seconds}

    def _spent(self, on: str, epoch: int, since: float) -> float:
        """Add the seconds since then to those of an epoch, over all resumptions; returns the time
        it is.
        """
        now = time.perf_counter()
        spent = self.seconds[on]
        spent += [0.0] * (epoch + 1 - len(spent))
        spent[epoch] += now - since
        return now

    def _compare_rows(self) -> None:
        """Every holder tells every other how many rows it has and the digest of their ids; the
        first tells the rest.
        """
        config, me = self.config, self.party.role
        mine = {"rows": len(self.X), "ids": data.ids_digest(self.ids)}
        others = [name for name in config.names if name != me]
        for name in others:
            self.party.send(name, "rows and ids", mine)
        if me == config.names[0]:
            for receiver in config.roles[1 : -len(config.names)]:  # the server and the dealer
                self.party.send(receiver, "test rows", {"n": len(self.X) - self.n})
        for name in others:
            theirs = self.party.receive_count(name, "rows and ids", "rows")
            if theirs != mine:
                what = "other ids, or ids in another order"
                if theirs["rows"] != mine["rows"]:
                    what = f"{mine['rows']:,} and {theirs['rows']:,} rows"
                raise RowsDiffer(
                    f"all holders must have the same rows in the same order: holder {me} and "
                    f"holder {name} have {what}",
                    name,
                )

    def _step(self, rows: torch.Tensor) -> None:
        party = self.party
        with self._naming_features(self.X[: self.n]):
            party.run(self.side.step(rows, self.theta))
        if self.last is not None:
            self._learn(self.last, rows)
        G = party.receive_tensor("server", "dL/dh1", (len(rows), self.widths[0]))
        self.theta.grad = (G.T @ self.side.batch).T
        self.optimiser.step()

    def _learn(self, last: Last, rows: torch.Tensor) -> None:
        """The label holder's loss of a batch: its gradients, of which the server gets dL/dh_L."""
        step = self.party.progress.step
        h_L = self.party.receive_tensor("server", "h_L", (len(rows), self.widths[-1]))
        h_L.requires_grad_()
        loss = classification_loss(last.output(h_L), last.y[rows])
        value = float(loss.detach())
        if not math.isfinite(value):
            cause = "lower the learning rate"
            if step == 1:
                cause = "nothing was learnt yet, so features of a holder are far too large"
            raise ValueError(f"the loss is {value} at step {step}: {cause}")
        last.running += value * len(rows)
        if step % self.training.steps_per_epoch == 0:
            last.losses.append(last.running / self.n)
            last.running = 0.0
        # SGLD is on the summed loss, SGD on the mean one
        lost = loss * len(rows) if self.training.optimiser == "sgld" else loss
        last.output.zero_grad()
        lost.backward()
        self.party.send("server", "dL/dh_L", h_L.grad)

    def _test(self, order: RowOrder) -> torch.Tensor:
        """The test rows, or those to predict, go through the protocol, forward only.

        Returns their logits (n, n_outputs) at the label holder, none at the others.
        """
        party, X = self.party, self.X[self.n :]
        logits = [torch.empty(0, self.config.model.n_outputs)]
        party.progress.step += 1
        with self._naming_features(X):
            self.side.load(X)
            party.run(self.side.prepare())
        with torch.no_grad():
            for rows in order.in_turn(len(X)):
                with self._naming_features(X):
                    party.run(self.side.step(rows, self.theta))
                if self.last is not None:
                    h_L = party.receive_tensor("server", "h_L", (len(rows), self.widths[-1]))
                    logits.append(self.last.output(h_L))
                party.progress.step += 1
        return torch.cat(logits).double()

    @contextmanager
    def _naming_features(self, X: torch.Tensor) -> Iterator[None]:
        """Say whose fault it is if the protocol refuses this holder's numbers.

        X: what they are made from.  In the first step, and where new rows go through, the weights
        are not what is too large: FeaturesTooLarge, which names the columns here and nowhere else.
        """
        try:
            yield
        except ValueError as error:
            step, last = self.party.progress.step, self.party.progress.last
            has_learnt = 1 < step <= last
            if type(error) is not ValueError or has_learnt:
                raise
            names = data.features(self.config, self.party.role)
            largest = columns.listed(columns.largest(X.numpy(), names))
            raise FeaturesTooLarge(
                f"holder {self.party.role} has columns that are far too large to send: {largest}; "
                f"{columns.STANDARDISE}: a smaller lr does not help"
            ) from None

    def _leave_scores(self, logits: torch.Tensor) -> None:
        """The label holder keeps id and score of every row: the probability of label 1 as "score",
        or of several classes each one's, as "score_0", "score_1", ...
        """
        scores, columns = logits.sigmoid(), ["score"]
        if logits.shape[1] > 1:
            scores, columns = logits.softmax(1), [f"score_{c}" for c in range(logits.shape[1])]
        table = pd.DataFrame(scores, index=pd.Index(self.ids, name=data.ID), columns=columns)
        write_secret(self.folder / SCORES, table.to_csv().encode())

    def _leave_metrics(self, last: Last, logits: torch.Tensor, seconds: dict[str, Any]) -> None:
        config, y = self.config, last.y[self.n :]
        measured: dict[str, float]
        if config.model.classes == 2:
            # here: it brings scikit-learn, which takes seconds to load
            from ppkit import evaluation

            measured = {
                "test_auc": evaluation.auc(y.numpy(), logits[:, 0].numpy()),
                "test_loss": evaluation.log_loss(y.numpy(), logits[:, 0].numpy()),
                "test_positives": int(y.sum()),
            }
        else:
            measured = {
                "test_accuracy": float((logits.argmax(1) == y).double().mean()),
                "test_loss": float(classification_loss(logits, y)),
            }
        metrics = {
            "run": config.run,
            "source": config.source,
            "secrets": config.protocol.origin,
            "epochs": len(last.losses),
            "steps": len(last.losses) * self.training.steps_per_epoch,
            "losses": last.losses,
            "test_rows": len(y),
            **measured,
            "seconds": seconds,
        }
        write_secret(self.folder / METRICS, json.dumps(metrics, indent=1).encode())
