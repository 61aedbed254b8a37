"""What the acquirer's message says about a purchase: how the card was read, who checked what, from where.

Every chance below is given for a genuine purchase first and a fraudulent one second; all of them overlap.
"""

import numpy as np

from .fraud import KINDS
from .schema import CODE_INDEX
from .world import world

_CURRENCY = np.array([0, 1, 2, 3, 4, 4, 4, 4, 5, 5, 5, 5], np.int8)                  # by merchant country
_RATE = np.array([1.0, 1.02, 12.8, .65, .76, 5.5])                                  # local units for a dollar
_TIPPED = [CODE_INDEX[name] for name in ("restaurant", "bar", "beauty", "fast food")]
_PUMPED = [CODE_INDEX[name] for name in ("fuel pump", "transit", "cinema")]
_SHIPPED_NOT = [CODE_INDEX[name] for name in ("digital goods", "games", "airline", "hotel", "utility", "telecom",
                                              "insurance", "events", "transfer")]
_TAKEN_OVER = [kind.changes for kind in KINDS].index(True)
_COPIED = [kind.place for kind in KINDS].index("far")


def authorise(rows: dict, accounts: dict, rng: np.random.Generator) -> dict[str, np.ndarray]:
    """Draw the transaction attributes of the schema that neither the calendar nor the merchant decides.

    rows: columns who, time, city, code, merchant, web, repeating, cents, kind, each (N,).  accounts: as drawn.
    Returns codes (int8) by attribute name and numbers (float32) by name, each (N,).
    """
    n, places = len(rows["who"]), world()
    web, kind = rows["web"], rows["kind"]
    stolen = kind >= 0
    household = np.isin(kind, [i for i, law in enumerate(KINDS) if not law.codes])
    strange = stolen & ~household                       # somebody who has neither the customer's device nor address
    own_address = kind == _TAKEN_OVER                   # a take-over passes address checks
    present = ~web
    country = places.country[rows["city"]]
    phone = web & (rng.random(n) < np.where(strange, .10, .07)) & ~rows["repeating"]
    online = web & ~phone & ~rows["repeating"]
    pump = present & np.isin(rows["code"], _PUMPED) & (rng.random(n) < .8)
    filed = rows["repeating"] | (online & (rng.random(n) < np.where(strange, .06, .30)))

    drawn = {}
    drawn["channel"] = np.select([rows["repeating"], phone, online, pump], [4, 3, 2, 1], 0)
    copied = kind == _COPIED
    swipe = _by_class(rng, copied, [.72, .14, .12, .02], [.90, .01, .04, .05])
    drawn["entry_mode"] = np.where(filed, 4, np.where(online, 5, np.where(web, 3, swipe)))
    drawn["card_present"] = present
    mobile = rng.random(n) < .05
    drawn["terminal"] = np.select([online | rows["repeating"], phone, pump, mobile], [3, 4, 2, 1], 0)
    with_pin = rng.random(n) < np.where(strange, .07, .22)
    small = rows["cents"] < 2500
    code_given = online & (rng.random(n) < np.where(strange, .78, .84)) & ~filed
    drawn["verification"] = np.select([code_given, web, with_pin, small & (rng.random(n) < .7)], [3, 0, 2, 0], 1)
    card_code = _by_class(rng, strange, [.955, .015, .03], [.88, .05, .07]) + 1
    drawn["card_code_result"] = np.where(online & ~filed, card_code, 0)
    address = _by_class(rng, strange & ~own_address, [.83, .09, .05, .03], [.55, .18, .12, .15]) + 1
    drawn["address_result"] = np.where(web & ~rows["repeating"], address, 0)
    drawn["currency"] = _CURRENCY[country]
    drawn["response"] = _by_class(rng, stolen, [.975, .015, .01], [.955, .03, .015])
    drawn["recurring"] = rows["repeating"]
    drawn["card_on_file"] = filed
    drawn["split_tender"] = rng.random(n) < .01
    drawn["cashback"] = present & with_pin & (rng.random(n) < .12)
    drawn["fallback"] = present & (rng.random(n) < np.where(copied, .05, .015))
    drawn["security_level"] = np.where(online, 1 + _by_class(rng, strange, [.70, .18, .12], [.80, .14, .06]), 0)
    on_trip = (rows["city"] != accounts["home"][rows["who"]]) & present
    drawn["ip_country"] = np.where(online, 1 + (rng.random(n) < np.where(strange, .22, .04)), 0)
    drawn["device"] = np.where(online, 1 + (rng.random(n) < np.where(strange, .62, .24)), 0)
    elsewhere = rng.random(n) < np.where(strange, .38, .13)
    drawn["shipping"] = np.where(~online, 0, np.where(np.isin(rows["code"], _SHIPPED_NOT), 3, 1 + elsewhere))
    codes = {name: np.asarray(values).astype(np.int8) for name, values in drawn.items()}

    dollars = rows["cents"] / 100
    tip = np.isin(rows["code"], _TIPPED) & present & (rng.random(n) < np.where(strange, .45, .75))
    waited = .4 + rng.gamma(2, .5, n) + 1.5 * (codes["response"] == 1) + .4 * (country > 0)
    numbers = {
        "local_amount": np.round(dollars * _RATE[codes["currency"]], 2),
        "authorisation_seconds": np.round(waited, 2),
        "declines_today": rng.poisson(np.where(strange, .22, np.where(on_trip, .06, .03))),
        "tip_share": np.where(tip, np.round(np.clip(rng.normal(.17, .05, n), 0, .4), 2), 0),
        "cashback_amount": codes["cashback"] * 20.0 * rng.integers(1, 6, n),
        "pin_tries": np.where(codes["verification"] == 2, 1 + (rng.random(n) < np.where(strange, .15, .03)), 0),
    }
    return codes | {name: np.asarray(values, np.float32) for name, values in numbers.items()}


def _by_class(rng: np.random.Generator, mask: np.ndarray, no: list[float], yes: list[float]) -> np.ndarray:
    draw = rng.random(len(mask))
    picked = np.where(mask, np.searchsorted(np.cumsum(yes), draw), np.searchsorted(np.cumsum(no), draw))
    return np.minimum(picked, len(no) - 1)
