"""Budgets that hold: what uploads cost (`get_...`), and the noise that keeps a budget
(`calibrate_...`).

    uploads               the top-n uploads of wang2018
    gaussian              DP-SGD, by the way in which batches are drawn
    random_allocation     DP-SGD, every record in one batch of its epoch, drawn for itself
    output_perturbation   one noisy vector, at any delta
    naming                a whole profile -> how often anybody names the right one of several
    privacy_loss          the loss of a sampled Gaussian over many rounds, at any delta
    renyi, composition    what they are built of

Every number is an upper bound, "a budget that holds", not "the cost"; `ppkit.audit` has lower
bounds beside it.
"""

from ppkit.accounting.budget import NEIGHBOURING, Budget
from ppkit.accounting.composition import amplified, kov_epsilon
from ppkit.accounting.gaussian import (
    calibrate_noise_multiplier,
    get_epsilon_epochs,
    get_epsilon_fixed_batches,
    get_epsilon_poisson,
)
from ppkit.accounting.naming import get_naming_bound
from ppkit.accounting.output_perturbation import get_epsilon_output_perturbation
from ppkit.accounting.random_allocation import get_epsilon_random_allocation
from ppkit.accounting.renyi import (
    FINE_ORDERS,
    bounded_range_curve,
    curve_epsilon,
    laplace_curve,
    sampled_epsilon,
    sampled_log_moments,
    to_epsilon,
)
from ppkit.accounting.uploads import (
    MECHANISMS,
    calibrate_upload,
    get_upload_budget,
    get_upload_budgets,
    rounds_within,
)

__all__ = [
    "FINE_ORDERS",
    "MECHANISMS",
    "NEIGHBOURING",
    "Budget",
    "amplified",
    "bounded_range_curve",
    "calibrate_noise_multiplier",
    "calibrate_upload",
    "curve_epsilon",
    "get_epsilon_epochs",
    "get_epsilon_fixed_batches",
    "get_epsilon_output_perturbation",
    "get_epsilon_poisson",
    "get_epsilon_random_allocation",
    "get_naming_bound",
    "get_upload_budget",
    "get_upload_budgets",
    "kov_epsilon",
    "laplace_curve",
    "rounds_within",
    "sampled_epsilon",
    "sampled_log_moments",
    "to_epsilon",
]
