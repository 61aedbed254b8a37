"""From a population to 264 features: 69 raw attributes, effect coding, spending patterns.

Spending patterns are what a transaction looks like beside the earlier ones of its account.
Sums of money enter as log(1 + dollars), times as log(1 + hours or days), distances as log(1 + km),
counts as log(1 + n); a score is the deviation from the account's own past mean in units of its own
past standard deviation.  Each of the functions gives some of schema.DERIVED, float64 (len(keep),)
each, for the rows in `keep`.

All running sums are taken over whole numbers (cents, metres, seconds), so they are exact: cutting
the table after a row, or computing other accounts beside this one, changes no bit of what came
before.
"""

import numpy as np
import pandas as pd

from .cardholders import DAY
from .merchants import N_CODES, SHOPS_PER_CODE, world
from .population import Population
from .schema import CATEGORICAL, DERIVED, NUMERIC

HOUR = 3600
# days of 2013: New Year, King, Presidents, Memorial, 4 July
_HOLIDAYS = (0, 20, 48, 146, 184)
_MONTH_STARTS = np.array([0, 31, 59, 90, 120, 151, 181, 212, 243])
_SPAN = np.int64(1) << 26  # seconds an account may occupy; eight months are 2.1e7
_WINDOWS = {
    "10min": HOUR // 6,
    "1h": HOUR,
    "6h": 6 * HOUR,
    "24h": DAY,
    "7d": 7 * DAY,
    "30d": 30 * DAY,
}
_NEVER = 400.0  # days, where there is no earlier row to count from
_MICRO = 10**6  # logarithms are summed as whole millionths


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
    now = time / DAY
    home = accounts["home"][who]
    ticket = (
        places.log_amount[np.arange(len(places.price)) // SHOPS_PER_CODE % N_CODES] + places.price
    )
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
    raw = {
        name: found[name] if name in found else rows[name] if name in rows else accounts[name][who]
        for name in (*CATEGORICAL, *NUMERIC)
    }
    categories = {name: raw[name] for name in CATEGORICAL}
    return categories, {name: np.asarray(raw[name], np.float64) for name in NUMERIC}


def _since_change(now: np.ndarray, accounts: dict, what: str, who: np.ndarray) -> np.ndarray:
    again = accounts[f"{what}_changes_again"][who]
    return np.maximum(
        np.where(now >= again, now - again, now - accounts[f"{what}_changed"][who]), 0.0
    )


class History:
    """Questions about the past of each row: "past" means earlier rows of the same account, never
    the row itself.
    """

    def __init__(self, who: np.ndarray, time: np.ndarray):
        """who: account of each row, ascending.  time: whole seconds in [0, 2**26), ascending within
        an account.
        """
        self.n = len(who)
        self.who = np.asarray(who, np.int64)
        self._key = self.who * _SPAN + np.asarray(time, np.int64)
        if self.n and (np.diff(self._key) < 0).any():
            raise ValueError("rows must be sorted by account and time")
        self.first = np.searchsorted(self.who, self.who)

    def since(self, seconds: int) -> np.ndarray:
        """(N,) index of the first row of the account that lies less than `seconds` before each
        row.
        """
        return np.searchsorted(self._key, self._key - seconds, side="right").clip(self.first)

    def total(self, values: np.ndarray, since: np.ndarray | None = None) -> np.ndarray:
        """(N,) sum of whole numbers over the past rows from index `since` (default: the account's
        first row) on.
        """
        prefix = np.append(0, np.cumsum(values, dtype=np.int64))
        return prefix[:-1] - prefix[self.first if since is None else since]

    def alike(self, codes: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """Past rows of the account with the same code: their number (N,) and the index of the last
        one, -1 if none.
        """
        groups = pd.Series(np.arange(self.n)).groupby([self.who, codes], sort=False)
        return groups.cumcount().to_numpy(), groups.shift(fill_value=-1).to_numpy()

    def total_alike(self, codes: np.ndarray, values: np.ndarray) -> np.ndarray:
        """(N,) sum of whole numbers over the past rows of the account with the same code."""
        so_far = pd.Series(values).groupby([self.who, codes], sort=False).cumsum()
        return so_far.to_numpy() - values


def spending_patterns(population: Population, keep: np.ndarray) -> dict[str, np.ndarray]:
    """The 61 derived features of the rows in keep (ascending indices), by name."""
    rows = population.rows
    past = History(rows["who"], rows["time"])
    metres = _metres(rows["city"], population.accounts["home"][rows["who"]])
    return (
        _against_last(rows, past, keep)
        | _velocities(population, past, metres, keep)
        | _own_past(rows, past, metres, keep)
        | _familiarity(rows, past, keep)
    )


def _against_last(rows: dict, past: History, keep: np.ndarray) -> dict[str, np.ndarray]:
    some = keep > past.first[keep]
    last = np.where(some, keep - 1, keep)
    log_cents = _log_cents(rows)
    hours = (rows["time"][keep] - rows["time"][last]) / HOUR
    km = _metres(rows["city"][keep], rows["city"][last]) / 1000
    web, country = rows["web"], world().country[rows["city"]]
    same = {"merchant": rows["merchant"], "code": rows["code"], "presence": web, "country": country}
    return {
        "amount_difference": _signed_log((rows["cents"][keep] - rows["cents"][last]) / 100),
        "amount_log_ratio": (log_cents[keep] - log_cents[last]) / _MICRO,
        "distance_from_last": np.log1p(km),
        "time_since_last": np.log1p(np.where(some, hours, 24 * _NEVER)),
        "speed_from_last": np.log1p(np.where(web[keep] | web[last], 0, km / (hours + 0.1))),
    } | {
        f"same_{name}": (some & (column[keep] == column[last])).astype(float)
        for name, column in same.items()
    }


def _velocities(
    population: Population, past: History, metres: np.ndarray, keep: np.ndarray
) -> dict[str, np.ndarray]:
    rows, accounts = population.rows, population.accounts
    who, time, cents, web = (rows[name] for name in ("who", "time", "cents", "web"))
    dollars = cents[keep] / 100
    small, away = cents < 1000, (metres > 150_000) & ~web
    declines, new = rows["declines_today"].astype(np.int64), past.alike(rows["merchant"])[0] == 0
    days = np.maximum((time[keep] - time[past.first[keep]]) / DAY, 1.0) + 5.0
    # dollars, a new account being given 30 in 5 days
    a_day = (past.total(cents)[keep] / 100 + 30.0) / days
    out = {}
    for label, seconds in _WINDOWS.items():
        since = past.since(seconds)
        count, spent = (keep - since[keep]), past.total(cents, since)[keep] / 100
        out[f"count_{label}"], out[f"sum_{label}"] = np.log1p(count), np.log1p(spent)
        if label in ("1h", "24h", "7d"):
            out[f"absent_count_{label}"] = np.log1p(past.total(web, since)[keep])
            out[f"absent_sum_{label}"] = np.log1p(past.total(cents * web, since)[keep] / 100)
        if label in ("1h", "24h"):
            out[f"small_count_{label}"] = np.log1p(past.total(small, since)[keep])
        if label in ("24h", "7d"):
            out[f"away_count_{label}"] = np.log1p(past.total(away, since)[keep])
            out[f"declines_{label}"] = past.total(declines, since)[keep]
            out[f"new_merchants_{label}"] = np.log1p(past.total(new, since)[keep])
            out[f"spend_pace_{label}"] = np.log((spent + dollars) / (a_day * (seconds / DAY)))
        if label == "24h":
            out["pace_24h"] = np.log((count + 1) / ((keep - past.first[keep] + 1) / days))
        if label == "30d":
            carried = accounts["opening_balance"] * (1 - accounts["payment_ratio"])
            owed = carried[who[keep]] + spent + dollars
            out["utilisation"] = np.minimum(owed / accounts["credit_limit"][who[keep]], 3.0)
    return out


def _own_past(
    rows: dict, past: History, metres: np.ndarray, keep: np.ndarray
) -> dict[str, np.ndarray]:
    n = keep - past.first[keep]
    cents, log_cents = rows["cents"], _log_cents(rows)
    log_metres = np.round(np.log1p(metres / 1000) * _MICRO).astype(np.int64)
    mean, deviation = _moments(past.total(cents)[keep], past.total(cents * cents)[keep], n)
    log_mean, log_deviation = _log_moments(log_cents, past, keep, n)
    far_mean, far_deviation = _log_moments(log_metres, past, keep, n)
    flags = {
        "absent": rows["web"],
        "abroad": world().country[rows["city"]] > 0,
        "night": rows["time"] % DAY < 6 * HOUR,
    }
    last = np.maximum(keep - 1, past.first[keep])
    gaps = (rows["time"][last] - rows["time"][past.first[keep]]) / HOUR / np.maximum(n - 1, 1)
    return {
        "past_count": np.log1p(n),
        "amount_mean": np.log1p(mean / 100),
        "amount_std": np.log1p(deviation / 100),
        "amount_score": np.where(n > 1, _signed_log((cents[keep] - mean) / (deviation + 500)), 0),
        "log_amount_mean": log_mean,
        "log_amount_std": log_deviation,
        "log_amount_score": np.where(
            n > 1, (log_cents[keep] / _MICRO - log_mean) / (log_deviation + 0.3), 0
        ),
        "distance_mean": far_mean,
        "distance_score": np.where(
            n > 1, (log_metres[keep] / _MICRO - far_mean) / (far_deviation + 0.5), 0
        ),
        "gap_mean": np.log1p(gaps),
    } | {f"{name}_share": past.total(flag)[keep] / (n + 3.0) for name, flag in flags.items()}


def _familiarity(rows: dict, past: History, keep: np.ndarray) -> dict[str, np.ndarray]:
    places, time = world(), rows["time"]
    shop_before, shop_last = past.alike(rows["merchant"])
    code_before, code_last = past.alike(rows["code"])
    log_cents = _log_cents(rows)
    code_mean = past.total_alike(rows["code"], log_cents)[keep] / np.maximum(code_before[keep], 1)
    same_hours = past.alike(time % DAY // (3 * HOUR))[0][keep]
    typical = places.log_amount[rows["code"][keep]] + places.price[rows["merchant"][keep]]
    return {
        "merchant_visits": np.log1p(shop_before[keep]),
        "merchant_first": (shop_before[keep] == 0).astype(float),
        "merchant_days": _days_since(time, shop_last, keep),
        "code_visits": np.log1p(code_before[keep]),
        "code_days": _days_since(time, code_last, keep),
        "code_amount_ratio": np.where(
            code_before[keep] > 0, (log_cents[keep] - code_mean) / _MICRO, 0
        ),
        "city_visits": np.log1p(past.alike(rows["city"])[0][keep]),
        "hour_share": (same_hours + 0.5) / (keep - past.first[keep] + 4.0),
        "ticket_ratio": np.log(rows["cents"][keep] / 100) - typical,
    }


def _log_cents(rows: dict) -> np.ndarray:
    return np.round(np.log(rows["cents"]) * _MICRO).astype(np.int64)


def _metres(a: np.ndarray, b: np.ndarray) -> np.ndarray:
    places = world()
    return np.round(
        1000 * np.hypot(places.east[a] - places.east[b], places.north[a] - places.north[b])
    ).astype(np.int64)


def _signed_log(values: np.ndarray) -> np.ndarray:
    return np.sign(values) * np.log1p(np.abs(values))


def _moments(
    total: np.ndarray, squares: np.ndarray, n: np.ndarray
) -> tuple[np.ndarray, np.ndarray]:
    """Mean and standard deviation (n - 1 below) from exact sums; 0 where there are too few."""
    mean = total / np.maximum(n, 1)
    variance = squares / np.maximum(n, 1) - mean * mean
    return mean, np.sqrt(np.maximum(variance, 0) * n / np.maximum(n - 1, 1))


def _log_moments(
    millionths: np.ndarray, past: History, keep: np.ndarray, n: np.ndarray
) -> tuple[np.ndarray, np.ndarray]:
    squares = past.total(millionths * millionths // _MICRO)[keep]
    return _moments(past.total(millionths)[keep] / _MICRO, squares / _MICRO, n)


def _days_since(time: np.ndarray, earlier: np.ndarray, keep: np.ndarray) -> np.ndarray:
    earlier = earlier[keep]
    return np.log1p(
        np.where(earlier >= 0, (time[keep] - time[np.maximum(earlier, 0)]) / DAY, _NEVER)
    )
