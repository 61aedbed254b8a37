"""From a population to 264 features: 69 raw attributes, effect coding, spending patterns."""

import numpy as np

from .cardholders import DAY
from .merchants import N_CODES, SHOPS_PER_CODE, world
from .population import Population
from .schema import CATEGORICAL, DERIVED, NUMERIC
from .spending_patterns import spending_patterns

HOUR = 3600
# days of 2013: New Year, King, Presidents, Memorial, 4 July
_HOLIDAYS = (0, 20, 48, 146, 184)
_MONTH_STARTS = np.array([0, 31, 59, 90, 120, 151, 181, 212, 243])


def features(population: Population, keep: np.ndarray | None = None) -> np.ndarray:
    """The features of the rows in keep (ascending indices; default all), float32 (len(keep), 264).

    A row's features depend on its own attributes and on earlier rows of the same account only; the
    rows that are not kept still count in the past of those that are.
    """
    keep = np.arange(len(population.rows["who"])) if keep is None else np.asarray(keep)
    categories, numbers = raw_attributes(population, keep)
    derived = spending_patterns(population, keep)
    columns = [
        *(effect_code(categories[name], len(levels)) for name, levels in CATEGORICAL.items()),
        *(
            (np.log1p(numbers[name]) if skewed else numbers[name])[:, None]
            for name, skewed in NUMERIC.items()
        ),
        *(derived[name][:, None] for name in DERIVED),
    ]
    return np.hstack(columns, dtype=np.float32, casting="same_kind")


def effect_code(codes: np.ndarray, n_levels: int) -> np.ndarray:
    """Effect coding: level i < n_levels - 1 is the unit vector i, the last level is -1 everywhere.

    codes: (N,) in 0..n_levels - 1.  Returns int8 (N, n_levels - 1).  Fits nothing: the levels are
    public.

    >>> effect_code(np.array([0, 1, 2]), 3).tolist()
    [[1, 0], [0, 1], [-1, -1]]
    """
    table = np.vstack([np.eye(n_levels - 1, dtype=np.int8), np.full(n_levels - 1, -1, np.int8)])
    return table[codes]


def raw_attributes(population: Population, keep: np.ndarray) -> tuple[dict, dict]:
    """The 69 raw attributes of the rows in keep: level codes and numbers (float64), by name."""
    accounts, places = population.accounts, world()
    rows = {name: column[keep] for name, column in population.rows.items()}
    who, city, merchant, time = rows["who"], rows["city"], rows["merchant"], rows["time"]
    day = time // DAY
    month = np.searchsorted(_MONTH_STARTS, day, side="right") - 1
    found = {
        "merchant_code": rows["code"],
        "merchant_country": places.country[city],
        "merchant_region": places.region[city],
        "merchant_size": places.size[merchant],
        "merchant_risk": places.risk[merchant],
        "merchant_chain": places.chain[merchant],
        "hour_band": time % DAY // (3 * HOUR),
        "weekday": (day + 1) % 7,
        "month": month,
        "holiday": np.isin(day, _HOLIDAYS).astype(np.int8),
    }
    categories = {
        name: found[name] if name in found else rows[name] if name in rows else accounts[name][who]
        for name in CATEGORICAL
    }
    now = time / DAY
    home = accounts["home"][who]
    ticket = (
        places.log_amount[np.arange(len(places.price)) // SHOPS_PER_CODE % N_CODES] + places.price
    )
    found = {
        "account_age_days": day - accounts["opened"][who],
        "cash_limit": accounts["credit_limit"][who] * accounts["cash_share"][who],
        "days_since_card_issue": day - accounts["issued"][who],
        "days_since_contact_change": _since_change(now, accounts, "contact", who),
        "days_since_credential_change": _since_change(now, accounts, "credential", who),
        "merchant_mean_ticket": np.round(np.exp(ticket), 2)[merchant],
        "merchant_age_days": places.age_days[merchant],
        "merchant_daily_count": places.daily_count[merchant],
        "merchant_chargebacks": places.chargebacks[merchant],
        "merchant_east_km": places.east[city],
        "merchant_north_km": places.north[city],
        "amount": rows["cents"] / 100,
        "distance_home_km": np.hypot(
            places.east[city] - places.east[home], places.north[city] - places.north[home]
        ),
        "day_of_month": day - _MONTH_STARTS[month] + 1,
    }
    numbers = {
        name: found[name] if name in found else rows[name] if name in rows else accounts[name][who]
        for name in NUMERIC
    }
    return categories, {name: np.asarray(values, np.float64) for name, values in numbers.items()}


def _since_change(now: np.ndarray, accounts: dict, what: str, who: np.ndarray) -> np.ndarray:
    again = accounts[f"{what}_changes_again"][who]
    return np.maximum(
        np.where(now >= again, now - again, now - accounts[f"{what}_changed"][who]), 0.0
    )
