"""From a population to 264 features: 69 raw attributes, effect coding, spending patterns.

Spending patterns are what a transaction looks like beside the earlier ones of its account.
Sums of money enter as log(1 + dollars), times as log(1 + hours or days), distances as log(1 + km),
counts as log(1 + n); a score is the deviation from the account's own past mean in units of its own
past standard deviation.  Each of the functions gives some of schema.DERIVED, (N,) each.

All running sums are taken over whole numbers (cents, metres, seconds), so they are exact: cutting
the table after a row, or computing other accounts beside this one, changes no bit of what came
before.
"""

import numpy as np
import pandas as pd

from ppkit.datasets.transactions.cardholders import DAY
from ppkit.datasets.transactions.merchants import world
from ppkit.datasets.transactions.population import Population
from ppkit.datasets.transactions.schema import CATEGORICAL, DERIVED, NUMERIC, Columns

HOUR = 3600
# days of 2013: New Year, King, Presidents, Memorial, 4 July
_HOLIDAYS = (0, 20, 48, 146, 184)
_MONTH_STARTS = np.array([0, 31, 59, 90, 120, 151, 181, 212, 243])
_SPAN = np.int64(1) << 26  # seconds an account may occupy; eight months are 2.1e7
_WINDOWS = {"10min": 600, "1h": HOUR, "6h": 6 * HOUR, "24h": DAY, "7d": 7 * DAY, "30d": 30 * DAY}
_NEVER = 400.0  # days, where there is no earlier row to count from
_MICRO = 10**6  # logarithms are summed as whole millionths


def features(population: Population, keep: np.ndarray) -> np.ndarray:
    """The features of the rows in keep (ascending indices), float32 (len(keep), 264).

    A row's features depend on its own attributes and on earlier rows of the same account only; the
    rows that are not kept still count in the past of those that are.
    """
    raw, derived = raw_attributes(population, keep), spending_patterns(population)
    effects = [effect_code(raw[name], len(levels)) for name, levels in CATEGORICAL.items()]
    numbers = [np.log1p(raw[name]) if skewed else raw[name] for name, skewed in NUMERIC.items()]
    patterns = [derived[name][keep] for name in DERIVED]
    columns = [*effects, np.column_stack(numbers), np.column_stack(patterns)]
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


def raw_attributes(population: Population, keep: np.ndarray) -> Columns:
    """The 69 raw attributes of the rows in keep: level codes and numbers (float64), by name."""
    accounts, places = population.accounts, world()
    rows = {name: column[keep] for name, column in population.rows.items()}
    who, city, merchant, time = rows["who"], rows["city"], rows["merchant"], rows["time"]
    day = time // DAY
    month = np.searchsorted(_MONTH_STARTS, day, side="right") - 1
    now = time / DAY
    home = accounts["home"][who]
    ticket = places.log_amount[rows["code"]] + places.price[merchant]
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
        "holiday": np.isin(day, _HOLIDAYS).astype(int),
        "account_age_days": day - accounts["opened"][who],
        "cash_limit": accounts["credit_limit"][who] * accounts["cash_share"][who],
        "days_since_card_issue": day - accounts["issued"][who],
        "days_since_contact_change": _since_change(now, accounts, "contact", who),
        "days_since_credential_change": _since_change(now, accounts, "credential", who),
        "merchant_mean_ticket": np.round(np.exp(ticket), 2),
        "merchant_age_days": places.age_days[merchant],
        "merchant_daily_count": places.daily_count[merchant],
        "merchant_chargebacks": places.chargebacks[merchant],
        "merchant_east_km": places.east[city],
        "merchant_north_km": places.north[city],
        "amount": rows["cents"] / 100,
        "distance_home_km": _km(city, home),
        "day_of_month": day - _MONTH_STARTS[month] + 1,
    }
    attributes = [*CATEGORICAL, *NUMERIC]
    of_accounts = {name: accounts[name][who] for name in attributes if name in accounts}
    raw = of_accounts | rows | found
    return raw | {name: raw[name].astype(np.float64) for name in NUMERIC}


def _since_change(now: np.ndarray, accounts: Columns, what: str, who: np.ndarray) -> np.ndarray:
    again, first = accounts[f"{what}_changes_again"][who], accounts[f"{what}_changed"][who]
    return np.maximum(now - np.where(now >= again, again, first), 0.0)


class History:
    """Questions about the past of each row: "past" means earlier rows of the same account, never
    the row itself.
    """

    def __init__(self, who: np.ndarray, time: np.ndarray):
        """who: account of each row, ascending.  time: whole seconds in [0, 2**26), ascending within
        an account.
        """
        self.who = who
        self._key = who * _SPAN + time
        self.first = np.searchsorted(who, who)
        self.number = np.arange(len(who)) - self.first  # of past rows
        self.last = np.arange(len(who)) - (
            self.number > 0
        )  # the row before, itself if there is none

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
        groups = pd.Series(np.arange(len(self.who))).groupby([self.who, codes], sort=False)
        return groups.cumcount().to_numpy(), groups.shift(fill_value=-1).to_numpy()

    def total_alike(self, codes: np.ndarray, values: np.ndarray) -> np.ndarray:
        """(N,) sum of whole numbers over the past rows of the account with the same code."""
        so_far = pd.Series(values).groupby([self.who, codes], sort=False).cumsum()
        return so_far.to_numpy() - values


def spending_patterns(population: Population) -> Columns:
    """The 61 derived features of all rows, by name."""
    rows = population.rows
    past = History(rows["who"], rows["time"])
    metres = _metres(rows["city"], population.accounts["home"][rows["who"]])
    return (
        _against_last(rows, past)
        | _velocities(population, past, metres)
        | _own_past(rows, past, metres)
        | _familiarity(rows, past)
    )


def _against_last(rows: Columns, past: History) -> Columns:
    cents, log_cents, time, web = rows["cents"], _log_cents(rows), rows["time"], rows["web"]
    last, some = past.last, past.number > 0
    hours = (time - time[last]) / HOUR
    km = _metres(rows["city"], rows["city"][last]) / 1000
    same = {
        "same_merchant": rows["merchant"],
        "same_code": rows["code"],
        "same_presence": web,
        "same_country": world().country[rows["city"]],
    }
    return {name: some & (column == column[last]) for name, column in same.items()} | {
        "amount_difference": _signed_log((cents - cents[last]) / 100),
        "amount_log_ratio": (log_cents - log_cents[last]) / _MICRO,
        "distance_from_last": np.log1p(km),
        "time_since_last": np.log1p(np.where(some, hours, 24 * _NEVER)),
        "speed_from_last": np.log1p(np.where(web | web[last], 0, km / (hours + 0.1))),
    }


def _velocities(population: Population, past: History, metres: np.ndarray) -> Columns:
    rows, accounts = population.rows, population.accounts
    who, time, cents, web = (rows[name] for name in ("who", "time", "cents", "web"))
    counted = {
        "count": np.ones(len(who), int),
        "absent_count": web,
        "small_count": cents < 1000,
        "away_count": (metres > 150_000) & ~web,
        "new_merchants": past.alike(rows["merchant"])[0] == 0,
    }
    summed = {"sum": cents, "absent_sum": cents * web}
    out = {}
    for label, seconds in _WINDOWS.items():
        since = past.since(seconds)
        for name, values in (counted | summed).items():
            if f"{name}_{label}" in DERIVED:
                total = past.total(values, since)
                out[f"{name}_{label}"] = np.log1p(total if name in counted else total / 100)
    days = np.maximum((time - time[past.first]) / DAY, 1.0) + 5.0
    # dollars, a new account being given 30 in 5 days
    a_day = (past.total(cents) / 100 + 30.0) / days
    for label in ("24h", "7d"):
        since, width = past.since(_WINDOWS[label]), _WINDOWS[label] / DAY
        out[f"declines_{label}"] = past.total(rows["declines_today"], since)
        spent = past.total(cents, since) / 100 + cents / 100
        out[f"spend_pace_{label}"] = np.log(spent / (a_day * width))
    count = past.total(counted["count"], past.since(DAY))
    out["pace_24h"] = np.log((count + 1) / ((past.number + 1) / days))
    carried = accounts["opening_balance"] * (1 - accounts["payment_ratio"])
    spent = past.total(cents, past.since(_WINDOWS["30d"])) / 100
    owed = carried[who] + spent + cents / 100
    out["utilisation"] = np.minimum(owed / accounts["credit_limit"][who], 3.0)
    return out


def _own_past(rows: Columns, past: History, metres: np.ndarray) -> Columns:
    n, time, cents, log_cents = past.number, rows["time"], rows["cents"], _log_cents(rows)
    log_metres = np.round(np.log1p(metres / 1000) * _MICRO).astype(np.int64)
    mean, deviation = _moments(past.total(cents), past.total(cents * cents), n)
    log_mean, log_deviation = _log_moments(log_cents, past)
    far_mean, far_deviation = _log_moments(log_metres, past)
    gaps = (time[past.last] - time[past.first]) / HOUR / np.maximum(n - 1, 1)
    return {
        "past_count": np.log1p(n),
        "amount_mean": np.log1p(mean / 100),
        "amount_std": np.log1p(deviation / 100),
        "amount_score": _signed_log(_score(cents - mean, deviation + 500, n)),
        "log_amount_mean": log_mean,
        "log_amount_std": log_deviation,
        "log_amount_score": _score(log_cents / _MICRO - log_mean, log_deviation + 0.3, n),
        "distance_mean": far_mean,
        "distance_score": _score(log_metres / _MICRO - far_mean, far_deviation + 0.5, n),
        "absent_share": past.total(rows["web"]) / (n + 3.0),
        "abroad_share": past.total(world().country[rows["city"]] > 0) / (n + 3.0),
        "night_share": past.total(time % DAY < 6 * HOUR) / (n + 3.0),
        "gap_mean": np.log1p(gaps),
    }


def _familiarity(rows: Columns, past: History) -> Columns:
    places, time, code, log_cents = world(), rows["time"], rows["code"], _log_cents(rows)
    shop_before, shop_last = past.alike(rows["merchant"])
    code_before, code_last = past.alike(code)
    same_hours = past.alike(time % DAY // (3 * HOUR))[0]
    code_mean = past.total_alike(code, log_cents) / np.maximum(code_before, 1)
    typical = places.log_amount[code] + places.price[rows["merchant"]]
    return {
        "merchant_visits": np.log1p(shop_before),
        "merchant_first": shop_before == 0,
        "merchant_days": _days_since(time, shop_last),
        "code_visits": np.log1p(code_before),
        "code_days": _days_since(time, code_last),
        "code_amount_ratio": np.where(code_before > 0, (log_cents - code_mean) / _MICRO, 0),
        "city_visits": np.log1p(past.alike(rows["city"])[0]),
        "hour_share": (same_hours + 0.5) / (past.number + 4.0),
        "ticket_ratio": np.log(rows["cents"] / 100) - typical,
    }


def _log_cents(rows: Columns) -> np.ndarray:
    return np.round(np.log(rows["cents"]) * _MICRO).astype(np.int64)


def _km(a: np.ndarray, b: np.ndarray) -> np.ndarray:
    places = world()
    return np.hypot(places.east[a] - places.east[b], places.north[a] - places.north[b])


def _metres(a: np.ndarray, b: np.ndarray) -> np.ndarray:
    return np.round(1000 * _km(a, b)).astype(np.int64)


def _signed_log(values: np.ndarray) -> np.ndarray:
    return np.sign(values) * np.log1p(np.abs(values))


def _moments(
    total: np.ndarray, squares: np.ndarray, n: np.ndarray
) -> tuple[np.ndarray, np.ndarray]:
    """Mean and standard deviation (n - 1 below) from exact sums; 0 where there are too few."""
    mean = total / np.maximum(n, 1)
    variance = squares / np.maximum(n, 1) - mean * mean
    return mean, np.sqrt(np.maximum(variance, 0) * n / np.maximum(n - 1, 1))


def _log_moments(millionths: np.ndarray, past: History) -> tuple[np.ndarray, np.ndarray]:
    squares = past.total(millionths * millionths // _MICRO)
    return _moments(past.total(millionths) / _MICRO, squares / _MICRO, past.number)


def _score(difference: np.ndarray, spread: np.ndarray, n: np.ndarray) -> np.ndarray:
    return np.where(n > 1, difference / spread, 0)


def _days_since(time: np.ndarray, earlier: np.ndarray) -> np.ndarray:
    return np.log1p(np.where(earlier >= 0, (time - time[earlier]) / DAY, _NEVER))
