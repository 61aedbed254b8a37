"""Cardholders: who they are, what they are used to, and what they do with their own cards.

Outings, sprees, trips and subscriptions.
"""

import numpy as np
from numpy.random import Generator

from ppkit.datasets.transactions.merchants import (
    N_CITIES,
    N_CODES,
    N_HOME_CITIES,
    N_WEB,
    SHOPS_PER_CODE,
    merchant_number,
    usual_shop,
    world,
)
from ppkit.datasets.transactions.schema import CATEGORICAL, CODE_INDEX, SCHEMA, Columns

N_DAYS = 243  # January to August
DAY = 86_400
LAST_SECOND = N_DAYS * DAY - 1
MEAN_OUTINGS = 19.0
MAX_TRIPS = 5
MONTHS = 8
MAX_CENTS = 2_000_000
OWN = -1  # the `kind` of a row that is no fraud

_HOURS = np.array([[12.3, 18.2], [10.5, 15.0], [15.5, 21.5]])  # two peaks for each kind of day
_WEEKDAY = np.array([1.0, 0.95, 1.0, 1.05, 1.25, 1.4, 1.1])  # Monday first; day 0 is a Tuesday


def accounts_given_class(has_fraud: np.ndarray, rng: Generator) -> Columns:
    """Draw one account per entry of has_fraud (A,) bool: a dict of columns, habits and attributes.

    An account that meets fraud is somewhat more often online, on the road and short of tenure: risk
    is spread unevenly, but no habit decides the class.  Times are in days from the start of the
    eight months.
    """
    n, tilt, places = len(has_fraud), has_fraud.astype(float), world()

    def levels(*shares: float) -> np.ndarray:
        return rng.choice(len(shares), n, p=shares)

    income = rng.normal(0, 1, n)
    age = rng.integers(0, 6, n)
    home = rng.choice(N_HOME_CITIES, n, p=places.weight)
    product = np.clip(np.round(1.2 + 0.8 * income + rng.normal(0, 0.8, n)), 0, 3)
    retired = np.where(rng.random(n) < 0.8, 3, 0)
    drawn = {
        "has_fraud": has_fraud,
        "home": home,
        "home_region": places.region[home],
        "card_product": np.where(age == 0, 4, product),
        "age_band": age,
        "income_band": np.clip(np.round(2.4 + 1.1 * income), 0, 5),
        "employment": np.where(age == 5, retired, levels(0.75, 0.11, 0.06, 0.0, 0.08)),
        "opened_through": levels(0.55, 0.28, 0.09, 0.08),
        "residence": (rng.random(n) > 0.35 + 0.06 * age).astype(int) + (rng.random(n) < 0.05),
        "area": np.where(home < 30, 0, levels(0.2, 0.5, 0.3)),
        "statements": rng.random(n) < 0.6 - 0.07 * age,
        "autopay": rng.random(n) < 0.35,
        "score_band": np.clip(np.round(2 + 0.6 * income + rng.normal(0, 0.9, n)), 0, 4),
        "second_holder": rng.random(n) < 0.18,
        "network": levels(0.55, 0.35, 0.1),
        "credit_limit": np.round(np.exp(8.3 + 0.5 * income + rng.normal(0, 0.4, n)), -2),
        "opened": -np.ceil(np.exp(rng.normal(7 - 0.15 * tilt, 0.8))),
        "n_cards": 1 + rng.poisson(0.5, n),
        "payment_ratio": np.round(rng.beta(2, 1.2, n), 2),
        "cash_share": np.round(rng.uniform(0.1, 0.4, n), 1),
        "n_products": rng.poisson(1.5, n),
        "late_payments": rng.poisson(0.4, n),
        "disputes": rng.poisson(0.12, n),
        "reported_income": np.round(np.exp(10.8 + 0.55 * income + rng.normal(0, 0.2, n)), -3),
        "issued": -np.ceil(rng.uniform(0, 1000, n)),
        "contact_changed": -np.ceil(rng.exponential(700, n)),
        "contact_changes_again": _once_in_a_while(0.25, n, rng),
        "credential_changed": -np.ceil(rng.exponential(250, n)),
        "credential_changes_again": _once_in_a_while(0.45, n, rng),
        # habits
        "amount_level": 0.25 * income + rng.normal(0, 0.3, n),
        "amount_spread": rng.uniform(0.75, 1.25, n),
        "web_level": rng.normal(-0.15 * age + 0.35 * tilt, 1.0, n),
        "pace": rng.gamma(2.2, 1 / 2.2, n),
        "loyalty": rng.beta(6, 3.5, n),
        "travel": rng.gamma(1.2, 1 / 1.2, n) * (1 + 0.25 * tilt),
        "peak_hour": levels(0.5, 0.3, 0.2),
        "subscriptions": rng.poisson(0.9, n),
        "shop_key": rng.integers(0, 1 << 20, n),
    }
    drawn["opening_balance"] = np.round(drawn["credit_limit"] * rng.beta(1, 3, n), 2)
    liking = places.lifestyle[rng.integers(0, 6, n)] + rng.normal(0, 0.7, (n, N_CODES))
    code_table = np.cumsum(np.exp(liking), axis=1)
    drawn["code_table"] = (code_table / code_table[:, -1:]).astype(np.float32)
    for name in CATEGORICAL:
        if name in drawn:
            drawn[name] = drawn[name].astype(np.int8)
    return drawn


def _once_in_a_while(chance: float, n: int, rng: Generator) -> np.ndarray:
    return np.where(rng.random(n) < chance, rng.uniform(0, N_DAYS, n), np.inf)


def own_rows(accounts: Columns, rng: Generator) -> Columns:
    """Every genuine transaction of every account, unsorted: who, when, where, how much."""
    outings = _outings(accounts, _trips(accounts, rng), rng)
    rows = joined([_purchases(accounts, outings, rng), _subscriptions(accounts, rng)])
    return rows | {"kind": np.full(len(rows["who"]), OWN, np.int8)}


def joined(tables: list[Columns]) -> Columns:
    """Tables of the same columns, one below the other."""
    return {name: np.concatenate([table[name] for table in tables]) for name in tables[0]}


def clock(who_peak: np.ndarray, rng: Generator) -> np.ndarray:
    """Seconds of the day for each of who_peak: around two peaks, one in twelve at any hour."""
    n = len(who_peak)
    hour = _HOURS[who_peak, rng.integers(0, 2, n)] + rng.normal(0, 2.0, n)
    hour = np.where(rng.random(n) < 1 / 12, rng.uniform(0, 24, n), hour)
    return ((hour % 24) * 3600).astype(np.int64)


def cents(log_dollars: np.ndarray) -> np.ndarray:
    """Whole cents, from 50 cents to 20,000 dollars."""
    return np.clip(np.round(np.exp(log_dollars) * 100), 50, MAX_CENTS).astype(np.int64)


def place_of_web(n: int, rng: Generator) -> np.ndarray:
    """A web shop's place for each of n purchases; one in ten is abroad."""
    return N_CITIES - N_WEB + rng.choice(N_WEB, n, p=[0.4, 0.3, 0.2, 0.1])


def usual_code(accounts: Columns, who: np.ndarray, rng: Generator) -> np.ndarray:
    """A merchant code for each of who, to the customer's taste."""
    draw = rng.random(len(who), dtype=np.float32)
    return (accounts["code_table"][who] < draw[:, None]).sum(axis=1)


def ranks(lengths: np.ndarray) -> np.ndarray:
    """0, 1, 2, ... within each group of so many rows, group after group.

    >>> ranks(np.array([2, 3]))
    array([0, 1, 0, 1, 2])
    """
    return np.arange(lengths.sum()) - np.repeat(np.cumsum(lengths) - lengths, lengths)


def _trips(accounts: Columns, rng: Generator) -> Columns:
    shape = (len(accounts["home"]), MAX_TRIPS)
    number = np.minimum(rng.poisson(1.1 * accounts["travel"]), MAX_TRIPS)
    taken = np.arange(MAX_TRIPS) < number[:, None]
    start = np.where(taken, rng.uniform(0, N_DAYS - 2, shape), np.inf)
    city = np.where(
        rng.random(shape) < 0.25,  # abroad
        rng.integers(N_HOME_CITIES, N_CITIES - N_WEB, shape),
        rng.choice(N_HOME_CITIES, shape, p=world().weight),
    )
    return {"start": start, "length": rng.uniform(2, 11, shape) * taken, "city": city}


def _outings(accounts: Columns, trips: Columns, rng: Generator) -> Columns:
    n = len(accounts["home"])
    who = np.repeat(np.arange(n), np.maximum(rng.poisson(MEAN_OUTINGS * accounts["pace"]), 1))
    shares = np.cumsum(_WEEKDAY[(np.arange(N_DAYS) + 1) % 7])
    day = np.searchsorted(shares / shares[-1], rng.random(len(who)), side="right")
    trip = np.repeat(np.arange(n * MAX_TRIPS), rng.poisson(0.38 * trips["length"]).ravel())
    extra_day = trips["start"].ravel()[trip] + rng.random(len(trip)) * trips["length"].ravel()[trip]
    who = np.concatenate([who, trip // MAX_TRIPS])
    day = np.concatenate([day, np.minimum(extra_day, N_DAYS - 1).astype(np.int64)])
    # the city: home, or a neighbour, or where a trip has led
    home = accounts["home"][who]
    near = world().neighbours[home, rng.integers(0, 6, len(who))]
    city = np.where(rng.random(len(who)) < 0.18, near, home)
    away = np.zeros(len(who), bool)
    for one in range(MAX_TRIPS):
        start = trips["start"][who, one]
        inside = (day >= np.floor(start)) & (day <= start + trips["length"][who, one])
        city[inside] = trips["city"][who[inside], one]
        away |= inside
    time = day * DAY + clock(accounts["peak_hour"][who], rng)
    purchases = 1 + np.where(  # in a spree, and otherwise
        rng.random(len(who)) < 0.06,
        rng.poisson(3.0, len(who)),
        rng.geometric(1 / 1.3, len(who)) - 1,
    )
    gap = np.exp(rng.normal(np.log(1500), 0.9, len(who)))
    outing = np.repeat(np.arange(len(who)), purchases)
    later = ranks(purchases) * gap[outing] * rng.uniform(0.6, 1.4, len(outing))
    time = np.minimum(time[outing] + later.astype(np.int64), LAST_SECOND)
    return {"who": who[outing], "time": time, "city": city[outing], "away": away[outing]}


def _purchases(accounts: Columns, outings: Columns, rng: Generator) -> Columns:
    places, who = world(), outings["who"]
    n = len(who)
    code = usual_code(accounts, who, rng)
    share = places.web_share[code]
    liking = share * np.exp(accounts["web_level"][who])
    web = rng.random(n) * (liking + 1 - share) < liking
    city = np.where(web, place_of_web(n, rng), outings["city"])
    loyal = rng.random(n) < accounts["loyalty"][who]
    shop = np.where(loyal, usual_shop(accounts, who, code), rng.integers(0, SHOPS_PER_CODE, n))
    merchant = merchant_number(city, code, shop)
    big = (rng.random(n) < 0.03) * rng.normal(1.4, 0.5, n)
    level = accounts["amount_level"][who] + 0.15 * outings["away"] + big
    spread = places.log_spread[code] * accounts["amount_spread"][who]
    amount = places.log_amount[code] + level + places.price[merchant] + spread * rng.normal(0, 1, n)
    return {
        "who": who,
        "time": outings["time"],
        "city": city,
        "code": code,
        "merchant": merchant,
        "web": web,
        "repeating": np.zeros(n, bool),
        "cents": cents(amount),
    }


def _subscriptions(accounts: Columns, rng: Generator) -> Columns:
    owner = np.repeat(np.arange(len(accounts["home"])), accounts["subscriptions"])
    n, offered = len(owner), SCHEMA["subscribed"]
    code = rng.choice([CODE_INDEX[name] for name in offered], n, p=list(offered.values()))
    city = place_of_web(n, rng)
    merchant = merchant_number(city, code, rng.integers(0, SHOPS_PER_CODE, n))
    level = world().log_amount[code] + rng.normal(0, 0.4, n)
    day = rng.uniform(0, 30, n)[:, None] + 30.4 * np.arange(MONTHS)
    time = np.minimum(day * DAY, LAST_SECOND - rng.integers(0, DAY, day.shape))
    spread = np.where(code == CODE_INDEX["utility"], 0.25, 0.03)
    amount = level[:, None] + spread[:, None] * rng.normal(0, 1, day.shape)
    fixed = {"who": owner, "city": city, "code": code, "merchant": merchant}
    return {name: np.repeat(column, MONTHS) for name, column in fixed.items()} | {
        "time": time.ravel().astype(np.int64),
        "web": np.ones(time.size, bool),
        "repeating": np.ones(time.size, bool),
        "cents": cents(amount.ravel()),
    }
