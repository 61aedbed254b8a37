"""A proved budget, and the ranges that all accountants share."""

from dataclasses import dataclass

from ppkit.validation import must_be

NEIGHBOURING = ("add_remove", "replace_one")
MOST = 10**9  # rounds, rows, uploads, parameters
LEAST_RATE = 1e-12  # a smaller one is priced as this


@dataclass(frozen=True)
class Budget:
    """A proved (epsilon, delta), and the bound that proves it."""

    epsilon: float
    delta: float  # 0.0 where the bound is pure
    bound: str


def smallest(budgets: list[Budget]) -> Budget:
    """The one of least epsilon; the first of equals."""
    return min(budgets, key=lambda budget: budget.epsilon)


def counts(**numbers: int) -> list[int]:
    """The counts as whole numbers; ValueError for one that is none, or is above MOST."""
    must_be("a whole number >= 1", **numbers)
    for name, count in numbers.items():
        if count > MOST:
            raise ValueError(f"{name} must be at most 1,000,000,000, got {count}")
    return [int(count) for count in numbers.values()]
