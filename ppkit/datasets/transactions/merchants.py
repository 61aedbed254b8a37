"""Cities and merchants: the same in every simulation, so that seeds change customers only."""

from functools import lru_cache
from types import SimpleNamespace

import numpy as np

from .schema import CATEGORICAL, MERCHANT_CODES

N_HOME_CITIES, N_ABROAD, N_WEB = 150, 33, 4
# the last four "cities" are web shops, three of them domestic
N_CITIES = N_HOME_CITIES + N_ABROAD + N_WEB
SHOPS_PER_CODE = 6  # merchants of one code in one city
N_CODES = len(MERCHANT_CODES)
WORLD_SEED = 20130101

_RISK = {
    "digital goods": 1.0,
    "games": 0.8,
    "gift cards": 1.1,
    "transfer": 1.2,
    "electronics": 0.7,
    "computers": 0.7,
    "airline": 0.5,
    "jewellery": 0.6,
    "events": 0.5,
    "fuel pump": 0.4,
    "phones": 0.4,
}


@lru_cache(maxsize=1)
def world() -> SimpleNamespace:
    """The fixed geography and merchants, drawn once from WORLD_SEED; every array is read-only.

    Returns arrays over cities (N_CITIES,), over codes (N_CODES,) and over merchants
    (N_CITIES * N_CODES * SHOPS_PER_CODE,), by name.
    """
    rng = np.random.default_rng(WORLD_SEED)
    at_home = np.arange(N_CITIES) < N_HOME_CITIES
    web = np.arange(N_CITIES) >= N_CITIES - N_WEB
    east = np.where(
        at_home | web, rng.uniform(0, 4300, N_CITIES), rng.uniform(5500, 9500, N_CITIES)
    )
    north = rng.uniform(0, 2400, N_CITIES)
    n_domestic_regions = len(CATEGORICAL["home_region"])
    region = np.where(
        at_home,
        np.minimum(east / 4300 * n_domestic_regions, n_domestic_regions - 1),
        n_domestic_regions,
    ).astype(np.int8)
    country = np.zeros(N_CITIES, np.int8)
    country[N_HOME_CITIES : N_HOME_CITIES + N_ABROAD] = 1 + np.arange(N_ABROAD) % 11
    # the last web shop sits in "cn"
    country[-1] = 9
    region[-N_WEB:-1] = np.array([8, 1, 3])
    weight = 1.0 / np.arange(3, 3 + N_HOME_CITIES)
    x, y = east[at_home], north[at_home]
    gaps = np.hypot(x[:, None] - x, y[:, None] - y)
    codes = list(MERCHANT_CODES.values())
    popularity = np.array([row[3] for row in codes], float)
    popularity /= popularity.sum()
    shape = (N_CITIES, N_CODES, SHOPS_PER_CODE)
    code_risk = np.array([_RISK.get(name, 0.0) for name in MERCHANT_CODES])
    risk = code_risk[None, :, None] + rng.normal(0, 0.7, shape)
    size = rng.choice(4, shape, p=[0.35, 0.35, 0.2, 0.1])
    found = SimpleNamespace(
        # cities
        east=east,  # km
        north=north,
        region=region,  # index into CATEGORICAL["merchant_region"]
        country=country,  # index into CATEGORICAL["merchant_country"]
        weight=weight / weight.sum(),  # share of the people, home cities only
        neighbours=np.argsort(gaps, axis=1)[:, 1:7],  # (N_HOME_CITIES, 6) nearest home cities
        # codes
        group=np.array([row[0] for row in codes], np.int16),
        log_amount=np.log([row[1] for row in codes]),  # mean of the log amount in dollars
        log_spread=np.array([row[2] for row in codes]),
        web_share=np.array([row[4] for row in codes]),
        lifestyle=np.log(popularity) + rng.normal(0, 0.6, (6, N_CODES)),  # log weights
        # merchants
        price=rng.normal(0, 0.25, shape).ravel(),  # shift of the log amount
        size=size.ravel().astype(np.int8),
        risk=np.digitize(risk, [-0.3, 0.7, 1.5]).ravel().astype(np.int8),
        chain=(rng.random(shape) < 0.2 + 0.15 * size).ravel().astype(np.int8),
        age_days=np.ceil(rng.gamma(1.5, 1500, shape)).ravel(),
        daily_count=np.ceil(np.exp(rng.normal(3 + size, 0.6))).ravel(),
        chargebacks=np.round(0.08 * np.exp(0.45 * risk), 3).ravel(),
    )
    for array in vars(found).values():
        array.flags.writeable = False
    return found


def merchant_number(city: np.ndarray, code: np.ndarray, shop: np.ndarray) -> np.ndarray:
    """The merchant's number from its city, its code and its shop in 0..SHOPS_PER_CODE - 1."""
    return (city.astype(np.int32) * N_CODES + code) * SHOPS_PER_CODE + shop
