"""wang2018, DPSTGD: the paper's formulas (`formulas`), and its uploads (`uploads`),
server, participants and training loop (`training`)."""

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
from ppkit.dpstgd.training import History, run_arm, run_arms, train
from ppkit.dpstgd.uploads import DPSGD, DPSTGD, PlainSGD

__all__ = [
    "DPSGD",
    "DPSTGD",
    "TABLE_1",
    "History",
    "PlainSGD",
    "advanced_budget",
    "basic_budget",
    "dense_bits",
    "run_arm",
    "run_arms",
    "sampled_epsilon",
    "selection_probability_product",
    "selection_ratio_bound",
    "train",
    "upload_bits",
]
