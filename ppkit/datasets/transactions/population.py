"""A population of accounts with everything that happened on them, sorted by account and time."""

from typing import NamedTuple

import numpy as np
from numpy.random import Generator

from ppkit.datasets.transactions.cardholders import accounts_given_class, joined, own_rows
from ppkit.datasets.transactions.fraud import KINDS, fraud_rows
from ppkit.datasets.transactions.merchants import world
from ppkit.datasets.transactions.schema import CODE_INDEX, SCHEMA, Columns

FRAUD_ACCOUNTS = 0.0209  # share of accounts with at least one fraud
ACCOUNTS_AT_A_TIME = 3_000

# by merchant country
_CURRENCY = np.array([0, 1, 2, 3, 4, 4, 4, 4, 5, 5, 5, 5], np.int8)
# local units for a dollar
_RATE = np.array([1.0, 1.02, 12.8, 0.65, 0.76, 5.5])
_TIPPED, _PUMPED, _DIGITAL = (
    [CODE_INDEX[name] for name in SCHEMA[group]] for group in ("tipped", "pumped", "digital")
)
_TAKEN_OVER = [kind.changes for kind in KINDS].index(True)
_COPIED = [kind.place for kind in KINDS].index("far")


class Population(NamedTuple):
    """accounts: columns (A,).  rows: columns (N,), sorted by "who" (index of the account), then by
    "time" (seconds).
    """

    accounts: Columns
    rows: Columns

    @property
    def fraud(self) -> np.ndarray:
        """Which rows are fraudulent, bool (N,)."""
        return self.rows["kind"] >= 0


def population_given_class(has_fraud: np.ndarray, rng: Generator) -> Population:
    """Draw one account per entry of has_fraud (A,) bool, and all that happens on it in the
    eight months.
    """
    accounts = accounts_given_class(has_fraud, rng)
    own = _sorted(own_rows(accounts, rng))
    rows = _sorted(joined([own, fraud_rows(accounts, own, rng)]))
    return Population(accounts, rows | authorise(rows, accounts, rng))


def simulate(n_accounts: int, rng: Generator) -> Population:
    """Draw a whole population: each account meets fraud with chance FRAUD_ACCOUNTS, independently.

    n_accounts: >= 1.  Returns about 39 rows an account, 0.136% of them fraudulent.
    """
    parts = []
    for first in range(0, n_accounts, ACCOUNTS_AT_A_TIME):
        size = min(ACCOUNTS_AT_A_TIME, n_accounts - first)
        parts.append(population_given_class(rng.random(size) < FRAUD_ACCOUNTS, rng))
        parts[-1].rows["who"] += first
    accounts = joined([part.accounts for part in parts])
    return Population(accounts, joined([part.rows for part in parts]))


def select(population: Population, keep: np.ndarray) -> Population:
    """The same accounts with only the rows in keep (mask or ascending indices)."""
    rows = {name: column[keep] for name, column in population.rows.items()}
    return Population(population.accounts, rows)


def _sorted(rows: Columns) -> Columns:
    order = np.lexsort((rows["time"], rows["who"]))
    return {name: column[order] for name, column in rows.items()}


def authorise(rows: Columns, accounts: Columns, rng: Generator) -> Columns:
    """Draw the attributes of transactions that neither the calendar nor the merchant decides.

    rows: columns who, time, city, code, merchant, web, repeating, cents, kind, each (N,).
    accounts: as drawn.
    Returns codes (int8) by attribute name and numbers (float32) by name, each (N,).
    """
    n, web, kind = len(rows["who"]), rows["web"], rows["kind"]
    stolen = kind >= 0
    household = [index for index, law in enumerate(KINDS) if not law.codes]
    # somebody who has neither the customer's device nor address
    strange = stolen & ~np.isin(kind, household)
    copied, present = kind == _COPIED, ~web

    def happens(to_strangers: float, otherwise: float) -> np.ndarray:
        return rng.random(n) < np.where(strange, to_strangers, otherwise)

    def level(mask: np.ndarray, yes: list[float], no: list[float]) -> np.ndarray:
        """A level from 0 on, with chances `yes` where the mask holds."""
        draw = rng.random(n)
        of_yes, of_no = (np.searchsorted(np.cumsum(one)[:-1], draw) for one in (yes, no))
        return np.where(mask, of_yes, of_no)

    country = world().country[rows["city"]]
    phone = web & happens(0.10, 0.07) & ~rows["repeating"]
    online = web & ~phone & ~rows["repeating"]
    pump = present & np.isin(rows["code"], _PUMPED) & (rng.random(n) < 0.8)
    filed = rows["repeating"] | (online & happens(0.06, 0.30))
    entry = level(copied, yes=[0.90, 0.01, 0.04, 0.05], no=[0.72, 0.14, 0.12, 0.02])
    mobile = rng.random(n) < 0.05
    with_pin = happens(0.07, 0.22)
    card_code = online & happens(0.78, 0.84) & ~filed
    unsigned = (rows["cents"] < 2500) & (rng.random(n) < 0.7)
    codes = {
        "channel": np.select([rows["repeating"], phone, online, pump], [4, 3, 2, 1], 0),
        "entry_mode": np.select([filed, online, web], [4, 5, 3], entry),
        "card_present": present,
        "terminal": np.select([online | rows["repeating"], phone, pump, mobile], [3, 4, 2, 1], 0),
        "verification": np.select([card_code, web, with_pin, unsigned], [3, 0, 2, 0], 1),
        "card_code_result": (online & ~filed)
        * (1 + level(strange, yes=[0.88, 0.05, 0.07], no=[0.955, 0.015, 0.03])),
        # a take-over passes address checks
        "address_result": (web & ~rows["repeating"])
        * (
            1
            + level(
                strange & (kind != _TAKEN_OVER),
                yes=[0.55, 0.18, 0.12, 0.15],
                no=[0.83, 0.09, 0.05, 0.03],
            )
        ),
        "currency": _CURRENCY[country],
        "response": level(stolen, yes=[0.955, 0.03, 0.015], no=[0.975, 0.015, 0.01]),
        "recurring": rows["repeating"],
        "card_on_file": filed,
        "split_tender": rng.random(n) < 0.01,
        "cashback": present & with_pin & (rng.random(n) < 0.12),
        "fallback": present & (rng.random(n) < np.where(copied, 0.05, 0.015)),
        "security_level": online
        * (1 + level(strange, yes=[0.80, 0.14, 0.06], no=[0.70, 0.18, 0.12])),
        "ip_country": online * (1 + happens(0.22, 0.04)),
        "device": online * (1 + happens(0.62, 0.24)),
        "shipping": np.select(
            [~online, np.isin(rows["code"], _DIGITAL)], [0, 3], 1 + happens(0.38, 0.13)
        ),
    }
    tip = np.isin(rows["code"], _TIPPED) & present & happens(0.45, 0.75)
    waited = 0.4 + rng.gamma(2, 0.5, n) + 1.5 * (codes["response"] == 1) + 0.4 * (country > 0)
    on_trip = (rows["city"] != accounts["home"][rows["who"]]) & present
    numbers = {
        "local_amount": np.round(rows["cents"] / 100 * _RATE[codes["currency"]], 2),
        "authorisation_seconds": np.round(waited, 2),
        "declines_today": rng.poisson(np.where(strange, 0.22, np.where(on_trip, 0.06, 0.03))),
        "tip_share": tip * np.round(np.clip(rng.normal(0.17, 0.05, n), 0, 0.4), 2),
        "cashback_amount": codes["cashback"] * 20.0 * rng.integers(1, 6, n),
        "pin_tries": (codes["verification"] == 2) * (1 + happens(0.15, 0.03)),
    }
    return {name: values.astype(np.int8) for name, values in codes.items()} | {
        name: values.astype(np.float32) for name, values in numbers.items()
    }
