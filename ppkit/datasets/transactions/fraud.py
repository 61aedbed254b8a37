"""What thieves do: six kinds of fraud episodes, each told by a few public parameters."""

from types import SimpleNamespace

import numpy as np

from .cardholders import DAY, N_DAYS, cents, clock, joined, place_of_web
from .merchants import N_CODES, N_HOME_CITIES, SHOPS_PER_CODE, merchant_number, world
from .schema import CODE_INDEX

_GOODS = {
    "electronics": 2,
    "computers": 0.7,
    "clothing": 1.5,
    "department": 1.5,
    "gift cards": 0.6,
    "games": 1,
    "phones": 1,
    "airline": 0.4,
    "digital goods": 1,
    "sports": 0.8,
    "shoes": 0.8,
    "events": 0.4,
    "transfer": 0.3,
}
_COUNTER = {
    "fuel pump": 2.5,
    "convenience": 1.5,
    "supermarket": 2.5,
    "electronics": 1,
    "department": 1.2,
    "clothing": 1,
    "gift cards": 0.4,
    "pharmacy": 1,
    "hardware": 0.8,
    "fast food": 1,
    "jewellery": 0.2,
}
_SMALL_CHARGES = {
    "digital goods": 3,
    "games": 1,
    "books": 1,
    "telecom": 0.7,
    "beauty": 0.7,
    "professional": 0.3,
}
# What a kind has where KINDS does not say otherwise.
_USUAL = dict(codes={}, tests=False, level=0.0, usual_hours=0.5, changes=False, repeating=0.0)
# share: of all episodes.  lengths: chance of 1, 2, 3, ... frauds.  gap_hours: median of the
# lognormal gap between two of them, gap_spread its log deviation.  web: chance that a purchase is
# made without the card.
# place: "near" (home or a neighbour), "far" (any domestic city), "usual" (as the customer).
# codes: where, with weights; empty: as the customer.  tests: the first purchase is a small trial.
# level: shift of the log amount above what the code and the customer would give.  usual_hours:
# chance that an episode starts at the customer's own hours instead of any hour.  changes: contact
# data were changed shortly before.  repeating: chance that a charge is sent as a recurring one.
KINDS = tuple(
    SimpleNamespace(**_USUAL | kind)
    for kind in (
        dict(
            name="stolen number, tested then drained",
            share=0.22,
            lengths=(0.0, 0.35, 0.35, 0.30),
            gap_hours=1.2,
            gap_spread=1.5,
            web=1.0,
            place="usual",
            codes=_GOODS,
            tests=True,
            level=0.35,
            usual_hours=0.4,
        ),
        dict(
            name="lost or stolen card",
            share=0.17,
            lengths=(0.30, 0.30, 0.20, 0.20),
            gap_hours=1.5,
            gap_spread=1.2,
            web=0.0,
            place="near",
            codes=_COUNTER,
            level=0.15,
            usual_hours=0.6,
        ),
        dict(
            name="compromised merchant, card copied",
            share=0.23,
            lengths=(0.35, 0.30, 0.20, 0.15),
            gap_hours=4.0,
            gap_spread=1.5,
            web=0.0,
            place="far",
            codes=_COUNTER,
            level=0.3,
            usual_hours=0.6,
        ),
        dict(
            name="account take-over",
            share=0.11,
            lengths=(0.10, 0.25, 0.25, 0.20, 0.20),
            gap_hours=14.0,
            gap_spread=1.2,
            web=0.95,
            place="usual",
            codes=_GOODS,
            level=0.45,
            changes=True,
        ),
        dict(
            name="someone in the household",
            share=0.14,
            lengths=(0.35, 0.30, 0.20, 0.15),
            gap_hours=40.0,
            gap_spread=1.0,
            web=0.35,
            place="usual",
            level=0.1,
            usual_hours=1.0,
        ),
        dict(
            name="unwanted small charges",
            share=0.13,
            lengths=(0.15, 0.25, 0.25, 0.35),
            gap_hours=150.0,
            gap_spread=0.8,
            web=1.0,
            place="usual",
            codes=_SMALL_CHARGES,
            level=-0.1,
            repeating=0.5,
        ),
    )
)


def fraud_rows(accounts: dict, own: dict, rng: np.random.Generator) -> dict[str, np.ndarray]:
    """One episode for every account with has_fraud; where a kind needs a contact change, the
    account is altered.

    accounts: columns of accounts_given_class; "contact_changes_again" and
    "credential_changes_again" are replaced for account take-overs.  own: the genuine rows, sorted
    by account and time.
    Returns rows with the columns of own; kind is the index into KINDS.
    """
    victims = np.flatnonzero(accounts["has_fraud"])
    kind = rng.choice(len(KINDS), len(victims), p=[k.share for k in KINDS])
    first = np.searchsorted(own["who"], victims)
    number = np.searchsorted(own["who"], victims, side="right") - first
    parts = []
    for index, law in enumerate(KINDS):
        chosen = kind == index
        who = victims[chosen]
        anchor = own["time"][
            first[chosen] + (rng.random(len(who)) * number[chosen]).astype(np.int64)
        ]
        start = _start(law, anchor, accounts["peak_hour"][who], rng)
        if law.changes:
            accounts["contact_changes_again"][who] = start / DAY - rng.exponential(5.0, len(who))
            accounts["credential_changes_again"][who] = start / DAY - rng.exponential(3.0, len(who))
        parts.append(_episode(law, index, accounts, who, start, rng))
    return joined(parts)


def _start(
    law: SimpleNamespace, anchor: np.ndarray, peak: np.ndarray, rng: np.random.Generator
) -> np.ndarray:
    """Near-home theft follows one of the customer's own purchases within hours, a copied card
    within weeks.
    """
    n = len(anchor)
    if law.place == "near":
        return np.minimum(
            anchor + (np.exp(rng.normal(1.5, 0.8, n)) * 3600).astype(np.int64), N_DAYS * DAY - 1
        )
    if law.place == "far":
        day = anchor // DAY + rng.integers(1, 35, n)
        day = np.where(day < N_DAYS, day, rng.integers(0, N_DAYS, n))
    else:
        day = rng.integers(0, N_DAYS, n)
    hours = np.where(rng.random(n) < law.usual_hours, clock(peak, rng), rng.integers(0, DAY, n))
    return day * DAY + hours


def _episode(
    law: SimpleNamespace,
    index: int,
    accounts: dict,
    victims: np.ndarray,
    start: np.ndarray,
    rng: np.random.Generator,
) -> dict[str, np.ndarray]:
    places = world()
    length = 1 + rng.choice(len(law.lengths), len(victims), p=law.lengths)
    of = np.repeat(np.arange(len(victims)), length)
    n = len(of)
    rank = np.arange(n) - np.repeat(np.cumsum(length) - length, length)
    gap = np.exp(rng.normal(np.log(law.gap_hours * 3600), law.gap_spread, n)) * (rank > 0)
    passed = np.cumsum(gap)
    later = (passed - passed[np.flatnonzero(rank == 0)][of]).astype(np.int64)
    time = np.minimum(start[of] + later, N_DAYS * DAY - 1)
    who = victims[of]
    if law.codes:
        weights = np.array(list(law.codes.values()), float)
        code = rng.choice([CODE_INDEX[name] for name in law.codes], n, p=weights / weights.sum())
    else:
        code = (accounts["code_table"][who] < rng.random(n, dtype=np.float32)[:, None]).sum(axis=1)
    trial = (rank == 0) & law.tests
    code = np.where(trial, CODE_INDEX["digital goods"], np.minimum(code, N_CODES - 1))
    web = (rng.random(n) < law.web) & (places.web_share[code] > 0) | (places.web_share[code] == 1)
    home = accounts["home"][who]
    near = np.where(rng.random(n) < 0.35, places.neighbours[home, rng.integers(0, 6, n)], home)
    far = rng.choice(N_HOME_CITIES, len(victims), p=places.weight)[of]
    city = np.where(web, place_of_web(n, rng), far if law.place == "far" else near)
    shop = rng.integers(0, SHOPS_PER_CODE, n)
    if not law.codes:
        loyal = rng.random(n) < accounts["loyalty"][who]
        shop = np.where(loyal, (accounts["shop_key"][who] + 7 * code) % SHOPS_PER_CODE, shop)
    merchant = merchant_number(city, code, shop)
    level = (
        places.log_amount[code]
        + places.price[merchant]
        + 0.5 * accounts["amount_level"][who]
        + law.level
    )
    amount = cents(
        np.where(
            trial,
            rng.normal(np.log(5), 0.7, n),
            level + places.log_spread[code] * rng.normal(0, 1, n),
        )
    )
    return {
        "who": who,
        "time": time,
        "city": city,
        "code": code.astype(np.int64),
        "merchant": merchant,
        "web": web,
        "repeating": (rng.random(n) < law.repeating),
        "cents": amount,
        "kind": np.full(n, index, np.int8),
    }
