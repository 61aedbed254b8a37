"""wang2018, DPSTGD: the paper's formulas (`formulas`), what uploads cost by them, for an attacker
and by a proof (`costs`), its uploads (`uploads`), server, participants and training loop
(`training`).

What trains needs torch, and is loaded at its first use: formulas alone take no torch.
"""

import importlib
from typing import TYPE_CHECKING, Any

from ppkit.dpstgd.costs import Cost, as_csv, side_by_side, upload_costs
from ppkit.dpstgd.formulas import (
    TABLE_1,
    advanced_budget,
    basic_budget,
    dense_bits,
    sampled_epsilon,
    selection_probability_product,
    selection_ratio_bound,
    upload_bits,
)

if TYPE_CHECKING:
    from ppkit.dpstgd.training import History, run_arm, run_arms, train
    from ppkit.dpstgd.uploads import DPSGD, DPSTGD, PlainSGD

_NEED_TORCH = {
    "History": "training",
    "run_arm": "training",
    "run_arms": "training",
    "train": "training",
    "DPSGD": "uploads",
    "DPSTGD": "uploads",
    "PlainSGD": "uploads",
}

__all__ = [
    "DPSGD",
    "DPSTGD",
    "TABLE_1",
    "Cost",
    "History",
    "PlainSGD",
    "advanced_budget",
    "as_csv",
    "basic_budget",
    "dense_bits",
    "run_arm",
    "run_arms",
    "sampled_epsilon",
    "selection_probability_product",
    "selection_ratio_bound",
    "side_by_side",
    "train",
    "upload_bits",
    "upload_costs",
]


def __getattr__(name: str) -> Any:
    if name not in _NEED_TORCH:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return getattr(importlib.import_module(f"{__name__}.{_NEED_TORCH[name]}"), name)
