"""What thieves do: six kinds of fraud episodes, each told by a few public parameters."""

from dataclasses import dataclass

import numpy as np
from numpy.random import Generator

from ppkit.datasets.transactions.cardholders import (
    DAY,
    LAST_SECOND,
    N_DAYS,
    cents,
    clock,
    joined,
    place_of_web,
    ranks,
    usual_code,
)
from ppkit.datasets.transactions.merchants import (
    N_HOME_CITIES,
    SHOPS_PER_CODE,
    merchant_number,
    usual_shop,
    world,
)
from ppkit.datasets.transactions.schema import CODE_INDEX, Columns, table


@dataclass(frozen=True)
class Kind:
    """A kind of fraud episode, one on each account that meets fraud.

    share: of all episodes.  lengths: chance of 1, 2, 3, ... frauds.  gap_hours: median of the
    lognormal gap between two of them, gap_spread its log deviation.  web: chance that a purchase is
    made without the card.  place: "near" (home or a neighbour), "far" (any domestic city), "usual"
    (as the customer).  codes: where, a key of WEIGHTS, or "": as the customer.  tests: the first
    purchase is a small trial.  level: shift of the log amount above what the code and the customer
    would give.  usual_hours: chance that an episode starts at the customer's own hours instead of
    any hour.  changes: contact data were changed shortly before.  repeating: chance that a charge
    is sent as a recurring one.
    """

    name: str
    share: float
    lengths: list[float]
    gap_hours: float
    gap_spread: float
    web: float
    place: str
    codes: str = ""
    tests: bool = False
    level: float = 0.0
    usual_hours: float = 0.5
    changes: bool = False
    repeating: float = 0.0


_TABLE = table("fraud.toml")
KINDS = [Kind(**kind) for kind in _TABLE["kinds"]]
WEIGHTS: dict[str, dict[str, float]] = _TABLE["codes"]


def fraud_rows(accounts: Columns, own: Columns, rng: Generator) -> Columns:
    """One episode for every account with has_fraud; where a kind needs a contact change, the
    account is altered.

    accounts: columns of accounts_given_class; "contact_changes_again" and
    "credential_changes_again" are replaced for account take-overs.  own: the genuine rows, sorted
    by account and time.
    Returns rows with the columns of own; kind is the index into KINDS.
    """
    victims = np.flatnonzero(accounts["has_fraud"])
    chosen = rng.choice(len(KINDS), len(victims), p=[kind.share for kind in KINDS])
    parts = []
    for index, kind in enumerate(KINDS):
        who = victims[chosen == index]
        first = np.searchsorted(own["who"], who)
        number = np.searchsorted(own["who"], who, side="right") - first
        anchor = own["time"][first + (rng.random(len(who)) * number).astype(np.int64)]
        start = _start(kind, anchor, accounts["peak_hour"][who], rng)
        if kind.changes:
            accounts["contact_changes_again"][who] = start / DAY - rng.exponential(5.0, len(who))
            accounts["credential_changes_again"][who] = start / DAY - rng.exponential(3.0, len(who))
        episode = _episode(kind, accounts, who, start, rng)
        parts.append(episode | {"kind": np.full(len(episode["who"]), index, np.int8)})
    return joined(parts)


def _start(kind: Kind, anchor: np.ndarray, peak: np.ndarray, rng: Generator) -> np.ndarray:
    """Near-home theft follows one of the customer's own purchases within hours, a copied card
    within weeks.
    """
    n = len(anchor)
    if kind.place == "near":
        hours = np.exp(rng.normal(1.5, 0.8, n))
        return np.minimum(anchor + (hours * 3600).astype(np.int64), LAST_SECOND)
    if kind.place == "far":
        day = anchor // DAY + rng.integers(1, 35, n)
        day = np.where(day < N_DAYS, day, rng.integers(0, N_DAYS, n))
    else:
        day = rng.integers(0, N_DAYS, n)
    seconds = np.where(rng.random(n) < kind.usual_hours, clock(peak, rng), rng.integers(0, DAY, n))
    return day * DAY + seconds


def _episode(
    kind: Kind, accounts: Columns, victims: np.ndarray, start: np.ndarray, rng: Generator
) -> Columns:
    places = world()
    length = 1 + rng.choice(len(kind.lengths), len(victims), p=kind.lengths)
    episode = np.repeat(np.arange(len(victims)), length)
    n, rank, who = len(episode), ranks(length), victims[episode]
    gap = np.exp(rng.normal(np.log(kind.gap_hours * 3600), kind.gap_spread, n)) * (rank > 0)
    passed = np.cumsum(gap)
    later = (passed - passed[rank == 0][episode]).astype(np.int64)
    if kind.codes:
        weights = WEIGHTS[kind.codes]
        chances = np.array(list(weights.values()), float)
        code = rng.choice([CODE_INDEX[name] for name in weights], n, p=chances / chances.sum())
    else:
        code = usual_code(accounts, who, rng)
    trial = (rank == 0) & kind.tests
    code = np.where(trial, CODE_INDEX["digital goods"], code)
    share = places.web_share[code]
    web = (rng.random(n) < kind.web) & (share > 0) | (share == 1)
    home = accounts["home"][who]
    near = np.where(rng.random(n) < 0.35, places.neighbours[home, rng.integers(0, 6, n)], home)
    far = rng.choice(N_HOME_CITIES, len(victims), p=places.weight)[episode]
    city = np.where(web, place_of_web(n, rng), far if kind.place == "far" else near)
    shop = rng.integers(0, SHOPS_PER_CODE, n)
    if not kind.codes:
        loyal = rng.random(n) < accounts["loyalty"][who]
        shop = np.where(loyal, usual_shop(accounts, who, code), shop)
    merchant = merchant_number(city, code, shop)
    level = (
        places.log_amount[code]
        + places.price[merchant]
        + 0.5 * accounts["amount_level"][who]
        + kind.level
    )
    trial_amount = rng.normal(np.log(5), 0.7, n)
    amount = level + places.log_spread[code] * rng.normal(0, 1, n)
    return {
        "who": who,
        "time": np.minimum(start[episode] + later, LAST_SECOND),
        "city": city,
        "code": code,
        "merchant": merchant,
        "web": web,
        "repeating": rng.random(n) < kind.repeating,
        "cents": cents(np.where(trial, trial_amount, amount)),
    }
