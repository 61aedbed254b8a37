"""From a population to the 264 features: raw attributes, effect coding, and spending patterns that only look back."""

import numpy as np

from .history import History
from .population import Population
from .schema import CATEGORICAL, DERIVED, FEATURE_NAMES, NUMERIC
from .spending import DAY
from .world import N_CODES, SHOPS_PER_CODE, world

HOUR = 3600
_WINDOWS = {"10min": HOUR // 6, "1h": HOUR, "6h": 6 * HOUR, "24h": DAY, "7d": 7 * DAY, "30d": 30 * DAY}
_HOLIDAYS = (0, 20, 48, 146, 184)                       # days of 2013: New Year, King, Presidents, Memorial, 4 July
_MONTH_STARTS = np.array([0, 31, 59, 90, 120, 151, 181, 212, 243])
_NEVER = 400.0                                          # days, where there is no earlier row to count from


def features(population: Population, keep: np.ndarray | None = None) -> np.ndarray:
    """The feature matrix of the rows in keep (ascending indices; default all), float32 (len(keep), 264), unscaled.

    A row's features depend on its own attributes and on earlier rows of the same account only; the rows that are not
    kept still count in the past of those that are.
    """
    keep = np.arange(len(population.rows["who"])) if keep is None else np.asarray(keep)
    matrix = np.empty((len(keep), len(FEATURE_NAMES)), np.float32)
    categories, numbers = raw_attributes(population, keep)
    column = 0
    for name, levels in CATEGORICAL.items():
        matrix[:, column:column + len(levels) - 1] = effect_code(categories[name], len(levels))
        column += len(levels) - 1
    for name, skewed in NUMERIC.items():
        matrix[:, column] = np.log1p(numbers[name]) if skewed else numbers[name]
        column += 1
    derived = spending_patterns(population, keep)
    for name in DERIVED:
        matrix[:, column] = derived[name]
        column += 1
    return matrix


def effect_code(codes: np.ndarray, n_levels: int) -> np.ndarray:
    """Effect coding: level i < n_levels - 1 is the unit vector i, the last level is -1 everywhere.

    codes: (N,) in 0..n_levels - 1.  Returns int8 (N, n_levels - 1).  Fits nothing: the levels are public.

    >>> effect_code(np.array([0, 1, 2]), 3).tolist()
    [[1, 0], [0, 1], [-1, -1]]
    """
    table = np.vstack([np.eye(n_levels - 1, dtype=np.int8), np.full(n_levels - 1, -1, np.int8)])
    return table[codes]


def raw_attributes(population: Population, keep: np.ndarray) -> tuple[dict, dict]:
    """The 69 raw attributes of the rows in keep: level codes by name, and numbers (float64) by name."""
    accounts, places = population.accounts, world()
    rows = {name: column[keep] for name, column in population.rows.items()}
    who, city, merchant, time = rows["who"], rows["city"], rows["merchant"], rows["time"]
    day = time // DAY
    month = np.searchsorted(_MONTH_STARTS, day, side="right") - 1
    found = {
        "merchant_code": rows["code"], "merchant_country": places.country[city], "merchant_region": places.region[city],
        "merchant_size": places.size[merchant], "merchant_risk": places.risk[merchant],
        "merchant_chain": places.chain[merchant],
        "hour_band": time % DAY // (3 * HOUR), "weekday": (day + 1) % 7, "month": month,
        "holiday": np.isin(day, _HOLIDAYS).astype(np.int8),
    }
    categories = {name: found[name] if name in found else rows[name] if name in rows else accounts[name][who]
                  for name in CATEGORICAL}
    now = time / DAY
    home = accounts["home"][who]
    ticket = places.log_amount[np.arange(len(places.price)) // SHOPS_PER_CODE % N_CODES] + places.price
    found = {
        "account_age_days": day - accounts["opened"][who],
        "cash_limit": accounts["credit_limit"][who] * accounts["cash_share"][who],
        "days_since_card_issue": day - accounts["issued"][who],
        "days_since_contact_change": _since_change(now, accounts, "contact", who),
        "days_since_credential_change": _since_change(now, accounts, "credential", who),
        "merchant_mean_ticket": np.round(np.exp(ticket), 2)[merchant],
        "merchant_age_days": places.age_days[merchant], "merchant_daily_count": places.daily_count[merchant],
        "merchant_chargebacks": places.chargebacks[merchant],
        "merchant_east_km": places.east[city], "merchant_north_km": places.north[city],
        "amount": rows["cents"] / 100,
        "distance_home_km": np.hypot(places.east[city] - places.east[home], places.north[city] - places.north[home]),
        "day_of_month": day - _MONTH_STARTS[month] + 1,
    }
    numbers = {name: found[name] if name in found else rows[name] if name in rows else accounts[name][who]
               for name in NUMERIC}
    return categories, {name: np.asarray(values, np.float64) for name, values in numbers.items()}


def _since_change(now: np.ndarray, accounts: dict, what: str, who: np.ndarray) -> np.ndarray:
    again = accounts[f"{what}_changes_again"][who]
    return np.maximum(np.where(now >= again, now - again, now - accounts[f"{what}_changed"][who]), 0.0)


def spending_patterns(population: Population, keep: np.ndarray) -> dict[str, np.ndarray]:
    """The 61 derived features of the rows in keep, by name: float64 (len(keep),) each.

    Sums of money are log(1 + dollars), times log(1 + hours or days), distances log(1 + km); scores are deviations
    from the account's own past mean in units of its own past standard deviation.
    """
    rows, accounts, places = population.rows, population.accounts, world()
    who, time, cents, merchant, city = (rows[name] for name in ("who", "time", "cents", "merchant", "city"))
    past = History(who, time)
    count = np.arange(past.n) - past.first
    some = count[keep] > 0
    last = np.maximum(np.arange(past.n) - 1, past.first)[keep]
    home = accounts["home"][who]
    metres = _metres(places, city, home)
    absent, abroad = rows["web"], places.country[city] > 0
    hour_band = time % DAY // (3 * HOUR)
    dollars = cents[keep] / 100
    log_cents = np.round(np.log(cents) * 1e6).astype(np.int64)
    log_metres = np.round(np.log1p(metres / 1000) * 1e6).astype(np.int64)
    out = {}

    hours = (time[keep] - time[last]) / HOUR
    moved = _metres(places, city[keep], city[last]) / 1000
    out["amount_difference"] = _signed_log((cents[keep] - cents[last]) / 100)
    out["amount_log_ratio"] = (log_cents[keep] - log_cents[last]) / 1e6
    out["distance_from_last"] = np.log1p(moved)
    out["time_since_last"] = np.log1p(np.where(some, hours, 24 * _NEVER))
    out["speed_from_last"] = np.log1p(np.where(absent[keep] | absent[last], 0, moved / (hours + .1)))
    for name, column in (("merchant", merchant), ("code", rows["code"]), ("presence", absent),
                         ("country", places.country[city])):
        out[f"same_{name}"] = (some & (column[keep] == column[last])).astype(float)

    merchant_before, merchant_last = past.alike(merchant)
    code_before, code_last = past.alike(rows["code"])
    small, away = cents < 1000, (metres > 150_000) & ~absent
    counted = {"absent": absent, "small": small, "away": away, "declines": rows["declines_today"].astype(np.int64),
               "new": merchant_before == 0}
    for label, seconds in _WINDOWS.items():
        since = past.since(seconds)
        out[f"count_{label}"] = np.log1p((np.arange(past.n) - since)[keep])
        spent = past.total(cents, since)[keep] / 100
        out[f"sum_{label}"] = np.log1p(spent)
        for name in ("absent", "small", "away"):
            if f"{name}_count_{label}" in DERIVED:
                out[f"{name}_count_{label}"] = np.log1p(past.total(counted[name], since)[keep])
        if label in ("1h", "24h", "7d"):
            out[f"absent_sum_{label}"] = np.log1p(past.total(cents * absent, since)[keep] / 100)
        if label in ("24h", "7d"):
            days = np.maximum((time - time[past.first])[keep] / DAY, 1.0)
            width = seconds / DAY
            mean_spend = (past.total(cents)[keep] / 100 + 30.0) / (days + 5.0) * width
            out[f"spend_pace_{label}"] = np.log((spent + dollars) / mean_spend)
            out[f"declines_{label}"] = past.total(counted["declines"], since)[keep]
            out[f"new_merchants_{label}"] = np.log1p(past.total(counted["new"], since)[keep])
        if label == "24h":
            out["pace_24h"] = np.log(((np.arange(past.n) - since)[keep] + 1) / ((count[keep] + 1) / (days + 5.0)))
        if label == "30d":
            carried = accounts["opening_balance"] * (1 - accounts["payment_ratio"])
            limit = accounts["credit_limit"][who[keep]]
            out["utilisation"] = np.minimum((carried[who[keep]] + spent + dollars) / limit, 3.0)

    n_past = count[keep]
    out["past_count"] = np.log1p(n_past)
    mean, deviation = _moments(past.total(cents)[keep], past.total(cents * cents)[keep], n_past)
    out["amount_mean"], out["amount_std"] = np.log1p(mean / 100), np.log1p(deviation / 100)
    out["amount_score"] = np.where(n_past > 1, _signed_log((cents[keep] - mean) / (deviation + 500)), 0)
    log_mean, log_deviation = _moments(past.total(log_cents)[keep], past.total(log_cents * log_cents // 10**6)[keep] * 1e6, n_past)
    out["log_amount_mean"], out["log_amount_std"] = log_mean / 1e6, log_deviation / 1e6
    out["log_amount_score"] = np.where(n_past > 1, (log_cents[keep] - log_mean) / (log_deviation + .3e6), 0)
    far_mean, far_deviation = _moments(past.total(log_metres)[keep], past.total(log_metres * log_metres // 10**6)[keep] * 1e6, n_past)
    out["distance_mean"] = far_mean / 1e6
    out["distance_score"] = np.where(n_past > 1, (log_metres[keep] - far_mean) / (far_deviation + .5e6), 0)
    for name, flag in (("absent", absent), ("abroad", abroad), ("night", hour_band < 2)):
        out[f"{name}_share"] = past.total(flag)[keep] / (n_past + 3.0)
    out["gap_mean"] = np.log1p((time[last] - time[past.first[keep]]) / HOUR / np.maximum(n_past - 1, 1))

    out["merchant_visits"] = np.log1p(merchant_before[keep])
    out["merchant_first"] = (merchant_before[keep] == 0).astype(float)
    out["merchant_days"] = _days_since(time, merchant_last, keep)
    out["code_visits"] = np.log1p(code_before[keep])
    out["code_days"] = _days_since(time, code_last, keep)
    code_mean = past.total_alike(rows["code"], log_cents)[keep] / np.maximum(code_before[keep], 1)
    out["code_amount_ratio"] = np.where(code_before[keep] > 0, (log_cents[keep] - code_mean) / 1e6, 0)
    out["city_visits"] = np.log1p(past.alike(city)[0][keep])
    out["hour_share"] = (past.alike(hour_band)[0][keep] + .5) / (n_past + 4.0)
    typical = places.log_amount[rows["code"][keep]] + places.price[merchant[keep]]
    out["ticket_ratio"] = np.log(dollars) - typical
    return out


def _metres(places, a: np.ndarray, b: np.ndarray) -> np.ndarray:
    return np.round(1000 * np.hypot(places.east[a] - places.east[b], places.north[a] - places.north[b])).astype(np.int64)


def _signed_log(values: np.ndarray) -> np.ndarray:
    return np.sign(values) * np.log1p(np.abs(values))


def _moments(total: np.ndarray, squares: np.ndarray, n: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    mean = total / np.maximum(n, 1)
    variance = squares / np.maximum(n, 1) - mean * mean
    return mean, np.sqrt(np.maximum(variance, 0) * n / np.maximum(n - 1, 1))


def _days_since(time: np.ndarray, earlier: np.ndarray, keep: np.ndarray) -> np.ndarray:
    earlier = earlier[keep]
    return np.log1p(np.where(earlier >= 0, (time[keep] - time[np.maximum(earlier, 0)]) / DAY, _NEVER))
