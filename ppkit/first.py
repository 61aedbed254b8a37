"""`ppkit first`: one card transaction read out of one gradient, before any lesson."""

from pathlib import Path

import numpy as np
import torch

from ppkit import models, project, show
from ppkit.backtracking import analytic
from ppkit.datasets import Dataset, load


def read_out(cards: Dataset, row: int, *, rng: torch.Generator) -> tuple[np.ndarray, np.ndarray]:
    """What a bank with one transaction puts into its model, and what the aggregator computes from
    the gradient it gets.

    a = (dL/dw) / (dL/db), for logistic regression on transaction a

    cards: the stand-in or the real file.  row: which transaction is the bank's only one.
    Returns both as float64 arrays: all columns but Time, which counts seconds over two days.
    Source: kanodia2020, section 5.2.
    """
    transaction = torch.tensor(np.asarray(cards.X[row : row + 1, 1:], dtype=np.float64))
    bank = models.mlp((transaction.shape[1], 1), rng=rng, dtype=torch.float64)
    dw, db = analytic.shared_gradient(bank, transaction, torch.tensor([int(cards.y[row])]))
    return transaction[0].numpy(), np.asarray((dw / db)[0])


def run(*, row: int = 7) -> Path:
    """Read transaction `row` of the stand-in out of its gradient, print both side by side, draw
    them; returns the picture.

    No real row is ever shown, so the stand-in is taken also where the real file is.
    """
    cards = load("creditcard", source="standin", rows=100, seed=0)
    truth, found = read_out(cards, row, rng=torch.Generator().manual_seed(0))
    names = cards.feature_names[1:]
    same = int(np.isclose(found, truth, rtol=1e-12, atol=0).sum())
    print(
        "A bank trains on one card transaction. It keeps the transaction and sends only the "
        "gradient of its model.\n"
        "The aggregator divides the gradient of the weights by the gradient of the bias:\n"
    )
    shown = [names.index(name) for name in ("Amount", "V1", "V2", "V3", "V14")]
    print(
        show.table(
            {
                names[i]: {"the transaction": truth[i], "read out of the gradient": found[i]}
                for i in shown
            },
            digits=2,
            data=cards,
        )
    )
    print(
        f"\n{same} of {len(names)} numbers come back, each to twelve digits.\n"
        f"(Stand-in data: no customer is shown. Next: `make lab`, narrative 2_backtracking.)"
    )
    return _drawn(names, truth, found, cards)


def _drawn(names, truth, found, cards: Dataset) -> Path:
    fig, ax = show.new(height=3.4)
    places = np.arange(len(names) - 1)  # Amount has another unit: it stands in the title
    ax.bar(
        places, truth[:-1], color=show.COLOURS["plain"], label="what the bank kept: one transaction"
    )
    ax.plot(
        places,
        found[:-1],
        "o",
        color=show.COLOURS["attained"],
        markersize=5,
        label="what the server computed from the gradient that the bank sent",
    )
    ax.set_xticks(places, names[:-1], rotation=90, fontsize=8)
    ax.set_ylabel("value of the column")
    ax.set_title("One card transaction, read out of one gradient", loc="left", pad=44)
    ax.legend(loc="lower left", bbox_to_anchor=(0, 1), borderaxespad=0.2)
    show.finish(
        fig,
        "first",
        f"Its amount is {truth[-1]:.2f}, read out as {found[-1]:.2f}. V1 to V28: principal "
        "components, which the card file has in place of named columns. The attack is "
        "kanodia2020's: one division.",
        data=cards,
    )
    target = project.root() / "runs" / "first.png"
    target.parent.mkdir(exist_ok=True)
    fig.savefig(target)
    return target
