"""A data holder: its features and its theta stay with it, and at the label holder the labels and
the last layer too.
"""

import json
import math
import time
from collections.abc import Iterator
from contextlib import contextmanager

import pandas as pd
import torch
from torch import nn

from ppkit.models import classification_loss
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


class HolderWork:
    """All that a holder does between the plan and the last word.

    A step: its side of the protocol, so that the server gets h1; then dL/dh1 from the server, and
    theta moves along X_i^T dL/dh1. The label holder in between gets h_L, and sends dL/dh_L before
    it moves its own layer.
    """

    def __init__(self, party: Party, X: torch.Tensor, y: torch.Tensor | None, ids: list[str]):
        self.party, self.X, self.y, self.ids = party, X, y, ids
        self.config, self.training, self.side = party.config, party.config.training, party.side
        self.n, self.widths = self.training.train_rows, party.config.model.hidden
        start, columns = Start(party.config, party.root), party.plan.columns
        self.output = start.output(columns) if party.role == self.config.label_holder else None
        self.theta = start.theta(columns, self.config.names.index(party.role))
        last = self.output.named_parameters() if self.output else ()
        self.part = nn.ParameterDict([("theta", self.theta), *last])

    def do(self) -> None:
        """All of it, in order."""
        party, side = self.party, self.side
        began = time.perf_counter()
        self._compare_rows()
        order = party.row_order()
        party.run(side.connect())
        if self.n:
            with self._naming_features(self.X[: self.n]):
                side.load(self.X[: self.n])
                party.run(side.prepare())
        self._begin()
        self.seconds["once"] = time.perf_counter() - began
        waits = time.perf_counter()
        for epoch in party.epochs(self._reached):
            began, batches = self._spent("offline", epoch, waits), order.epoch(epoch)
            for number in party.steps():
                self._step(batches[number])
                if party.progress.step % self.training.steps_per_epoch == 0:
                    self.losses.append(self.running / self.n)
                    self.running = 0.0
                if self.training.saves_after(party.progress.step):
                    began = self._spent("online", epoch, began)
                    party.saves.save(losses=self.losses, running=self.running, seconds=self.seconds)
            waits = self._spent("online", epoch, began)
        logits = self._test(order)
        is_training = self.config.trained is None
        if logits is not None:
            leave = self._leave_metrics if is_training else self._leave_scores
            leave(logits)
        if is_training:
            party.saves.leave()
            names = json.dumps(data.features(self.config, party.role))
            write_secret(self.config.folder_of(party.role) / FEATURES, names.encode())

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
            for receiver in (role for role in ("server", "dealer") if role in config.roles):
                self.party.send(receiver, "test rows", {"n": len(self.X) - self.n})
        for name in others:
            theirs = self.party.receive_counts(name, "rows and ids", "rows")
            if theirs != mine:
                what = (
                    f"{mine['rows']:,} and {theirs['rows']:,} rows"
                    if theirs["rows"] != mine["rows"]
                    else "other ids, or ids in another order"
                )
                raise RowsDiffer(
                    f"all holders must have the same rows in the same order: holder {me} and "
                    f"holder {name} have {what}",
                    name,
                )

    def _step(self, rows: torch.Tensor) -> None:
        party = self.party
        with self._naming_features(self.X[: self.n]):
            party.run(self.side.step(rows, self.theta))
        if self.output is not None:
            h_L = party.receive_tensor(
                "server", "h_L", (len(rows), self.widths[-1])
            ).requires_grad_()
            loss = classification_loss(self.output(h_L), self.y[rows])
            if not math.isfinite(value := float(loss.detach())):
                cause = "lower the learning rate"
                if party.progress.step == 1:
                    cause = "nothing was learnt yet, so features of a holder are far too large"
                raise ValueError(f"the loss is {value} at step {party.progress.step}: {cause}")
            self.running += value * len(rows)
            # SGLD is on the summed loss, SGD on the mean one
            lost = loss * len(rows) if self.training.optimiser == "sgld" else loss
            self.output.zero_grad()
            lost.backward()
            party.send("server", "dL/dh_L", h_L.grad)
        G = party.receive_tensor("server", "dL/dh1", (len(rows), self.widths[0]))
        self.theta.grad = (G.T @ self.side.batch).T
        self.optimiser.step()

    def _test(self, order: RowOrder) -> torch.Tensor | None:
        """The test rows, or those to predict, go through the protocol, forward only.

        Returns their logits (n, n_outputs) at the label holder, None at the others.
        """
        party, logits = self.party, []
        X, began = self.X[self.n :], time.perf_counter()
        party.progress.step += 1
        with self._naming_features(X):
            self.side.load(X)
            party.run(self.side.prepare())
        with torch.no_grad():
            for rows in order.in_turn(len(X)):
                with self._naming_features(X):
                    party.run(self.side.step(rows, self.theta))
                if self.output is not None:
                    h_L = party.receive_tensor("server", "h_L", (len(rows), self.widths[-1]))
                    logits.append(self.output(h_L))
                party.progress.step += 1
        self.seconds["test"] = time.perf_counter() - began
        return torch.cat(logits).double() if logits else None

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
        several = [f"score_{c}" for c in range(logits.shape[1])]
        table = pd.DataFrame(
            logits.softmax(1) if several[1:] else logits.sigmoid(),
            index=pd.Index(self.ids, name=data.ID),
            columns=several if several[1:] else ["score"],
        )
        path = self.config.folder_of(self.party.role) / SCORES
        write_secret(path, table.to_csv().encode())

    def _leave_metrics(self, logits: torch.Tensor) -> None:
        config, y = self.config, self.y[self.n :]
        if config.model.classes == 2:
            from ppkit import (
                evaluation,
            )  # here: it brings scikit-learn, which takes seconds to load

            about = {
                "test_auc": evaluation.auc(y.numpy(), logits[:, 0].numpy()),
                "test_loss": evaluation.log_loss(y.numpy(), logits[:, 0].numpy()),
                "test_positives": int(y.sum()),
            }
        else:
            about = {
                "test_accuracy": float((logits.argmax(1) == y).double().mean()),
                "test_loss": float(classification_loss(logits, y)),
            }
        metrics = {
            "run": config.run,
            "source": config.source,
            "secrets": config.protocol.origin,
            "epochs": len(self.losses),
            "steps": len(self.losses) * self.training.steps_per_epoch,
            "losses": self.losses,
            "test_rows": len(y),
            **about,
            "seconds": self.seconds,
        }
        write_secret(
            config.folder_of(self.party.role) / METRICS, json.dumps(metrics, indent=1).encode()
        )

    def _reached(self) -> bool:
        """Whether the last epoch's loss is below what the label holder's rule to stop says; False
        at the others.
        """
        return (
            bool(self.losses)
            and self.output is not None
            and self.losses[-1] < self.training.stop_below
        )

    def _begin(self) -> None:
        """Start, or go on, with what a checkpoint keeps beside the parameters."""
        put_back(self.config, self.party.role, self.part)
        self.optimiser = Optimiser(self.part, self.training, self.party.root)
        notes = self.party.saves.begin(
            self.party.plan.start,
            self.side,
            self.part,
            self.optimiser,
            losses=[],
            running=0.0,
            seconds={"online": [], "offline": []},
        )
        # of every finished epoch; of the present one: the sum over its records so far
        self.losses: list[float] = notes["losses"]
        self.running: float = notes["running"]
        self.seconds: dict[str, list[float] | float] = notes["seconds"]
