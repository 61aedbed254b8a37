"""What customers do with their own cards: outings, sprees, trips and subscriptions."""

import numpy as np

from .accounts import N_DAYS
from .schema import CODE_INDEX
from .world import N_CITIES, N_HOME_CITIES, N_WEB, SHOPS_PER_CODE, merchant_number, world

DAY = 86_400
MEAN_OUTINGS = 19.0
MAX_TRIPS = 5
MAX_CENTS = 2_000_000
OWN = -1                                     # the `kind` of a row that is no fraud

_HOURS = np.array([[12.3, 18.2], [10.5, 15.0], [15.5, 21.5]])      # two peaks for each kind of day
_SUBSCRIBED = [("utility", .25), ("telecom", .3), ("insurance", .12), ("fitness", .1), ("games", .08),
               ("digital goods", .1), ("books", .05)]
_WEEKDAY = np.array([1., .95, 1., 1.05, 1.25, 1.4, 1.1])          # Monday first; day 0 is a Tuesday


def own_rows(accounts: dict, rng: np.random.Generator) -> dict[str, np.ndarray]:
    """Every genuine transaction of every account, unsorted: who, when, where, at whose shop, how much."""
    trips = _trips(accounts, rng)
    outings = _outings(accounts, trips, rng)
    rows = _purchases(accounts, outings, rng)
    billed = _subscriptions(accounts, rng)
    return {name: np.concatenate([rows[name], billed[name]]) for name in rows}


def clock(who_peak: np.ndarray, rng: np.random.Generator) -> np.ndarray:
    """Seconds of the day for each entry of who_peak: around one of two peaks, one in twelve at any hour."""
    n = len(who_peak)
    hour = _HOURS[who_peak, rng.integers(0, 2, n)] + rng.normal(0, 2.0, n)
    hour = np.where(rng.random(n) < 1 / 12, rng.uniform(0, 24, n), hour)
    return ((hour % 24) * 3600).astype(np.int64)


def cents(log_dollars: np.ndarray) -> np.ndarray:
    """Whole cents, from 50 cents to 20,000 dollars."""
    return np.clip(np.round(np.exp(log_dollars) * 100), 50, MAX_CENTS).astype(np.int64)


def place_of_web(n: int, rng: np.random.Generator) -> np.ndarray:
    """A web shop's place for each of n purchases; one in ten is abroad."""
    return N_CITIES - N_WEB + rng.choice(N_WEB, n, p=[.4, .3, .2, .1])


def _trips(accounts: dict, rng: np.random.Generator) -> dict[str, np.ndarray]:
    n = len(accounts["home"])
    number = np.minimum(rng.poisson(1.1 * accounts["travel"]), MAX_TRIPS)
    shape = (n, MAX_TRIPS)
    start = rng.uniform(0, N_DAYS - 2, shape)
    taken = np.arange(MAX_TRIPS) < number[:, None]
    abroad = rng.random(shape) < .25
    city = np.where(abroad, rng.integers(N_HOME_CITIES, N_CITIES - N_WEB, shape),
                    rng.choice(N_HOME_CITIES, shape, p=world().weight))
    length = rng.uniform(2, 11, shape) * taken
    return {"start": np.where(taken, start, np.inf), "length": length, "city": city}


def _outings(accounts: dict, trips: dict, rng: np.random.Generator) -> dict[str, np.ndarray]:
    n = len(accounts["home"])
    count = np.maximum(rng.poisson(MEAN_OUTINGS * accounts["pace"]), 1)
    who = np.repeat(np.arange(n), count)
    shares = np.cumsum(_WEEKDAY[(np.arange(N_DAYS) + 1) % 7])
    day = np.searchsorted(shares / shares[-1], rng.random(len(who)), side="right")
    on_trip = rng.poisson(.38 * trips["length"])
    trip = np.repeat(np.arange(n * MAX_TRIPS), on_trip.ravel())
    extra_day = trips["start"].ravel()[trip] + rng.random(len(trip)) * trips["length"].ravel()[trip]
    who = np.concatenate([who, trip // MAX_TRIPS])
    day = np.concatenate([day, np.minimum(extra_day, N_DAYS - 1).astype(np.int64)])
    # the city: home, or a neighbour, or where a trip has led
    home = accounts["home"][who]
    near = world().neighbours[home, rng.integers(0, 6, len(who))]
    city = np.where(rng.random(len(who)) < .18, near, home)
    away = np.zeros(len(who), bool)
    for one in range(MAX_TRIPS):
        start = trips["start"][who, one]
        inside = (day >= np.floor(start)) & (day <= start + trips["length"][who, one])
        city[inside], away = trips["city"][who[inside], one], away | inside
    time = day * DAY + clock(accounts["peak_hour"][who], rng)
    spree = rng.random(len(who)) < .06
    more = np.where(spree, rng.poisson(3.0, len(who)), rng.geometric(1 / 1.3, len(who)) - 1)
    gap = np.exp(rng.normal(np.log(1500), .9, len(who)))
    outing = np.repeat(np.arange(len(who)), more + 1)
    rank = np.arange(len(outing)) - np.repeat(np.cumsum(more + 1) - more - 1, more + 1)
    later = (rank * gap[outing] * rng.uniform(.6, 1.4, len(outing))).astype(np.int64)
    time = np.minimum(time[outing] + later, N_DAYS * DAY - 1)
    return {"who": who[outing], "time": time, "city": city[outing], "away": away[outing]}


def _purchases(accounts: dict, outings: dict, rng: np.random.Generator) -> dict[str, np.ndarray]:
    places, who = world(), outings["who"]
    n = len(who)
    code = (accounts["code_table"][who] < rng.random(n, dtype=np.float32)[:, None]).sum(axis=1).astype(np.int64)
    share = places.web_share[code]
    liking = share * np.exp(accounts["web_level"][who])
    web = rng.random(n) * (liking + 1 - share) < liking
    city = np.where(web, place_of_web(n, rng), outings["city"])
    usual = (accounts["shop_key"][who] + 7 * code) % SHOPS_PER_CODE
    loyal = rng.random(n) < accounts["loyalty"][who]
    merchant = merchant_number(city, code, np.where(loyal, usual, rng.integers(0, SHOPS_PER_CODE, n)))
    big = (rng.random(n) < .03) * rng.normal(1.4, .5, n)
    level = accounts["amount_level"][who] + .15 * outings["away"] + big
    spread = places.log_spread[code] * accounts["amount_spread"][who]
    amount = cents(places.log_amount[code] + level + places.price[merchant] + spread * rng.normal(0, 1, n))
    return {"who": who, "time": outings["time"], "city": city, "code": code, "merchant": merchant, "web": web,
            "repeating": np.zeros(n, bool), "cents": amount, "kind": np.full(n, OWN, np.int8)}


def _subscriptions(accounts: dict, rng: np.random.Generator) -> dict[str, np.ndarray]:
    places = world()
    owner = np.repeat(np.arange(len(accounts["home"])), accounts["subscriptions"])
    n = len(owner)
    code = rng.choice([CODE_INDEX[name] for name, _ in _SUBSCRIBED], n, p=[share for _, share in _SUBSCRIBED])
    city = place_of_web(n, rng)
    merchant = merchant_number(city, code, rng.integers(0, SHOPS_PER_CODE, n))
    level = places.log_amount[code] + rng.normal(0, .4, n)
    months = 8
    day = rng.uniform(0, 30, n)[:, None] + 30.4 * np.arange(months)
    time = np.minimum(day * DAY, N_DAYS * DAY - 1 - rng.integers(0, DAY, day.shape)).astype(np.int64)
    wobble = np.where(code == CODE_INDEX["utility"], .25, .03)[:, None] * rng.normal(0, 1, day.shape)
    repeat = np.repeat(np.arange(n), months)
    return {"who": owner[repeat], "time": time.ravel(), "city": city[repeat], "code": code[repeat],
            "merchant": merchant[repeat], "web": np.ones(n * months, bool), "repeating": np.ones(n * months, bool),
            "cents": cents((level[:, None] + wobble).ravel()), "kind": np.full(n * months, OWN, np.int8)}
