"""Cities and merchants: the same in every simulation, so that seeds change customers only."""

from functools import lru_cache
from types import SimpleNamespace

import numpy as np
import pandas as pd

from ppkit.datasets.transactions.schema import CATEGORICAL, MERCHANT_CODES, Columns

N_HOME_CITIES, N_ABROAD, N_WEB = 150, 33, 4
# the last four "cities" are web shops, three of them domestic
N_CITIES = N_HOME_CITIES + N_ABROAD + N_WEB
SHOPS_PER_CODE = 6  # merchants of one code in one city
N_CODES = len(MERCHANT_CODES)
WORLD_SEED = 20130101


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
    n_regions = len(CATEGORICAL["home_region"])
    region = np.where(at_home, np.minimum(east / 4300 * n_regions, n_regions - 1), n_regions)
    region[-N_WEB:-1] = 8, 1, 3
    country = np.zeros(N_CITIES, np.int8)
    country[N_HOME_CITIES : N_HOME_CITIES + N_ABROAD] = 1 + np.arange(N_ABROAD) % 11
    country[-1] = 9  # the last web shop sits in "cn"
    weight = 1.0 / np.arange(3, 3 + N_HOME_CITIES)
    x, y = east[at_home], north[at_home]
    gaps = np.hypot(x[:, None] - x, y[:, None] - y)
    codes = pd.DataFrame.from_dict(MERCHANT_CODES, orient="index").fillna({"risk": 0.0})
    shape = (N_CITIES, N_CODES, SHOPS_PER_CODE)
    risk = codes["risk"].to_numpy()[:, None] + rng.normal(0, 0.7, shape)
    size = rng.choice(4, shape, p=[0.35, 0.35, 0.2, 0.1])
    arrays = {
        # cities
        "east": east,  # km
        "north": north,
        "region": region.astype(np.int8),  # index into CATEGORICAL["merchant_region"]
        "country": country,  # index into CATEGORICAL["merchant_country"]
        "weight": weight / weight.sum(),  # share of the people, home cities only
        "neighbours": np.argsort(gaps, axis=1)[:, 1:7],  # (N_HOME_CITIES, 6) nearest home cities
        # codes
        "group": codes["group"].to_numpy(np.int16),
        "log_amount": np.log(codes["dollars"].to_numpy()),  # mean of the log amount in dollars
        "log_spread": codes["spread"].to_numpy(),
        "web_share": codes["online"].to_numpy(),
        # log weights of six life styles
        "lifestyle": np.log((codes["popularity"] / codes["popularity"].sum()).to_numpy())
        + rng.normal(0, 0.6, (6, N_CODES)),
    }
    merchants = {
        "price": rng.normal(0, 0.25, shape),  # shift of the log amount
        "size": size.astype(np.int8),
        "risk": np.digitize(risk, [-0.3, 0.7, 1.5]).astype(np.int8),
        "chain": (rng.random(shape) < 0.2 + 0.15 * size).astype(np.int8),
        "age_days": np.ceil(rng.gamma(1.5, 1500, shape)),
        "daily_count": np.ceil(np.exp(rng.normal(3 + size, 0.6))),
        "chargebacks": np.round(0.08 * np.exp(0.45 * risk), 3),
    }
    arrays |= {name: array.ravel() for name, array in merchants.items()}
    for array in arrays.values():
        array.flags.writeable = False
    return SimpleNamespace(**arrays)


def merchant_number(city: np.ndarray, code: np.ndarray, shop: np.ndarray) -> np.ndarray:
    """The merchant's number from its city, its code and its shop in 0..SHOPS_PER_CODE - 1."""
    return (city.astype(np.int32) * N_CODES + code) * SHOPS_PER_CODE + shop


def usual_shop(accounts: Columns, who: np.ndarray, code: np.ndarray) -> np.ndarray:
    """The shop of each code that an account goes to when it is loyal, in 0..SHOPS_PER_CODE - 1."""
    return (accounts["shop_key"][who] + 7 * code) % SHOPS_PER_CODE
