"""Accounts: who the customers are and what they are used to, given whether the account meets fraud."""

import numpy as np

from .schema import CATEGORICAL
from .world import N_CODES, N_HOME_CITIES, world

N_DAYS = 243                                # January to August
FRAUD_ACCOUNTS = 0.0209                     # share of accounts with at least one fraud

ATTRIBUTES = ("home_region", "card_product", "age_band", "income_band", "employment", "opened_through", "residence",
              "area", "statements", "autopay", "score_band", "second_holder", "network")


def accounts_given_class(has_fraud: np.ndarray, rng: np.random.Generator) -> dict[str, np.ndarray]:
    """Draw one account per entry of has_fraud (A,) bool: a dict of columns, habits and attributes.

    An account that meets fraud is somewhat more often online, on the road and short of tenure: risk is spread
    unevenly, but no habit decides the class.  Times are in days from the start of the eight months.
    """
    n, tilt, places = len(has_fraud), has_fraud.astype(float), world()
    income = rng.normal(0, 1, n)
    age = rng.integers(0, 6, n)
    home = rng.choice(N_HOME_CITIES, n, p=places.weight)
    drawn = {
        "has_fraud": has_fraud.astype(bool), "home": home,
        "home_region": places.region[home],
        "card_product": np.where(age == 0, 4, np.clip(np.round(1.2 + .8 * income + rng.normal(0, .8, n)), 0, 3)),
        "age_band": age,
        "income_band": np.clip(np.round(2.4 + 1.1 * income), 0, 5),
        "employment": np.where(age == 5, np.where(rng.random(n) < .8, 3, 0), _levels(rng, n, [.75, .11, .06, .0, .08])),
        "opened_through": _levels(rng, n, [.55, .28, .09, .08]),
        "residence": (rng.random(n) > .35 + .06 * age).astype(int) + (rng.random(n) < .05),
        "area": np.where(home < 30, 0, _levels(rng, n, [.2, .5, .3])),
        "statements": (rng.random(n) < .6 - .07 * age).astype(int),
        "autopay": (rng.random(n) < .35).astype(int),
        "score_band": np.clip(np.round(2 + .6 * income + rng.normal(0, .9, n)), 0, 4),
        "second_holder": (rng.random(n) < .18).astype(int),
        "network": _levels(rng, n, [.55, .35, .1]),
        "credit_limit": np.round(np.exp(8.3 + .5 * income + rng.normal(0, .4, n)), -2),
        "opened": -np.ceil(np.exp(rng.normal(7 - .15 * tilt, .8))),
        "n_cards": 1 + rng.poisson(.5, n),
        "payment_ratio": np.round(rng.beta(2, 1.2, n), 2),
        "cash_share": np.round(rng.uniform(.1, .4, n), 1),
        "n_products": rng.poisson(1.5, n),
        "late_payments": rng.poisson(.4, n),
        "disputes": rng.poisson(.12, n),
        "reported_income": np.round(np.exp(10.8 + .55 * income + rng.normal(0, .2, n)), -3),
        "issued": -np.ceil(rng.uniform(0, 1000, n)),
        "contact_changed": -np.ceil(rng.exponential(700, n)),
        "contact_changes_again": np.where(rng.random(n) < .25, rng.uniform(0, N_DAYS, n), np.inf),
        "credential_changed": -np.ceil(rng.exponential(250, n)),
        "credential_changes_again": np.where(rng.random(n) < .45, rng.uniform(0, N_DAYS, n), np.inf),
        # habits
        "amount_level": .25 * income + rng.normal(0, .3, n),
        "amount_spread": rng.uniform(.75, 1.25, n),
        "web_level": rng.normal(-.15 * age + .35 * tilt, 1.0, n),
        "pace": rng.gamma(2.2, 1 / 2.2, n),
        "loyalty": rng.beta(6, 3.5, n),
        "travel": rng.gamma(1.2, 1 / 1.2, n) * (1 + .25 * tilt),
        "peak_hour": _levels(rng, n, [.5, .3, .2]),
        "subscriptions": rng.poisson(.9, n),
        "shop_key": rng.integers(0, 1 << 20, n),
    }
    drawn["opening_balance"] = np.round(drawn["credit_limit"] * rng.beta(1, 3, n), 2)
    weights = places.lifestyle[rng.integers(0, 6, n)] + rng.normal(0, .7, (n, N_CODES))
    drawn["code_table"] = _cumulative(np.exp(weights))
    for name in ATTRIBUTES:
        drawn[name] = np.clip(drawn[name], 0, len(CATEGORICAL[name]) - 1).astype(np.int8)
    return drawn


def _levels(rng: np.random.Generator, n: int, shares: list[float]) -> np.ndarray:
    return rng.choice(len(shares), n, p=shares)


def _cumulative(weights: np.ndarray) -> np.ndarray:
    table = np.cumsum(weights, axis=1)
    table /= table[:, -1:]
    return table.astype(np.float32)
