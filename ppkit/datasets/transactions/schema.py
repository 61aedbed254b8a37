"""The public schema: the 69 raw attributes of a card transaction, their levels, and the 264
features made of them.
"""

# merchant code: number of its group, typical amount in dollars, spread of its logarithm,
# popularity, share bought without the card
MERCHANT_CODES = {
    # groceries
    "supermarket": (0, 45, 0.7, 14, 0.03),
    "convenience": (0, 12, 0.6, 6, 0.0),
    "warehouse": (0, 110, 0.6, 3, 0.05),
    "bakery": (0, 18, 0.6, 2, 0.02),
    # car
    "fuel pump": (1, 38, 0.4, 9, 0.0),
    "fuel shop": (1, 20, 0.6, 4, 0.0),
    "car parts": (1, 60, 0.8, 1, 0.2),
    "garage": (1, 180, 0.8, 1, 0.02),
    # food out
    "fast food": (2, 11, 0.5, 10, 0.03),
    "restaurant": (2, 38, 0.6, 7, 0.03),
    "bar": (2, 28, 0.6, 2, 0.0),
    "coffee": (2, 7, 0.4, 6, 0.03),
    # retail
    "department": (3, 65, 0.8, 4, 0.2),
    "clothing": (3, 55, 0.7, 4, 0.3),
    "shoes": (3, 70, 0.5, 1.5, 0.3),
    "sports": (3, 70, 0.8, 1.5, 0.3),
    # electronics
    "electronics": (4, 130, 1.0, 1.5, 0.45),
    "computers": (4, 190, 1.1, 0.7, 0.6),
    "digital goods": (4, 9, 0.8, 3, 1.0),
    "phones": (4, 70, 0.6, 1.5, 0.5),
    # travel
    "airline": (5, 320, 0.6, 0.7, 0.9),
    "hotel": (5, 190, 0.6, 1.0, 0.5),
    "car rental": (5, 150, 0.5, 0.4, 0.5),
    "transit": (5, 12, 0.8, 2.5, 0.2),
    # leisure
    "cinema": (6, 22, 0.5, 1.0, 0.3),
    "games": (6, 25, 0.7, 1.0, 0.9),
    "books": (6, 24, 0.7, 1.5, 0.7),
    "events": (6, 90, 0.7, 0.5, 0.8),
    # bills
    "utility": (7, 95, 0.6, 2.5, 0.8),
    "telecom": (7, 75, 0.4, 1.8, 0.9),
    "insurance": (7, 140, 0.5, 0.8, 0.9),
    "professional": (7, 130, 1.0, 0.8, 0.3),
    # health
    "pharmacy": (8, 24, 0.8, 3.5, 0.05),
    "doctor": (8, 80, 0.8, 1.0, 0.1),
    "fitness": (8, 45, 0.5, 0.8, 0.5),
    "beauty": (8, 45, 0.6, 1.2, 0.1),
    # valuables
    "hardware": (9, 75, 1.0, 2.0, 0.15),
    "gift cards": (9, 60, 0.7, 0.5, 0.5),
    "transfer": (9, 180, 0.8, 0.3, 0.6),
    "jewellery": (9, 210, 1.0, 0.3, 0.3),
}
CODE_NAMES = tuple(MERCHANT_CODES)
CODE_INDEX = {name: index for index, name in enumerate(CODE_NAMES)}

_REGIONS = (
    "new england",
    "mid atlantic",
    "south atlantic",
    "great lakes",
    "plains",
    "central south",
    "gulf",
    "mountain",
    "pacific",
)
_COUNTRIES = ("us", "ca", "mx", "gb", "fr", "de", "it", "es", "br", "cn", "jp", "other")

CATEGORICAL = {
    # the account
    "home_region": _REGIONS,
    "card_product": ("classic", "gold", "platinum", "rewards", "student"),
    "age_band": ("18-24", "25-34", "35-44", "45-54", "55-64", "65+"),
    "income_band": ("<20k", "20-40k", "40-60k", "60-90k", "90-150k", "150k+"),
    "employment": ("employed", "self-employed", "student", "retired", "other"),
    "opened_through": ("branch", "online", "phone", "mail"),
    "residence": ("owner", "renter", "other"),
    "area": ("urban", "suburban", "rural"),
    "statements": ("paper", "electronic"),
    "autopay": ("no", "yes"),
    "score_band": ("<600", "600-660", "660-720", "720-780", "780+"),
    "second_holder": ("no", "yes"),
    # the merchant
    "merchant_code": CODE_NAMES,
    "merchant_country": _COUNTRIES,
    "merchant_region": (*_REGIONS, "abroad"),
    "merchant_size": ("single", "small", "medium", "large"),
    "merchant_risk": ("low", "normal", "raised", "high"),
    "merchant_chain": ("no", "yes"),
    # the transaction
    "hour_band": ("0-3", "3-6", "6-9", "9-12", "12-15", "15-18", "18-21", "21-24"),
    "weekday": ("mon", "tue", "wed", "thu", "fri", "sat", "sun"),
    "month": ("jan", "feb", "mar", "apr", "may", "jun", "jul", "aug"),
    "holiday": ("no", "yes"),
    "channel": ("counter", "unattended", "online", "phone", "recurring"),
    "entry_mode": ("swipe", "chip", "contactless", "keyed", "on file", "typed online"),
    "card_present": ("no", "yes"),
    "terminal": ("cash desk", "mobile reader", "pump or machine", "web", "none"),
    "verification": ("none", "signature", "pin", "card code"),
    "card_code_result": ("not asked", "match", "no match", "missing"),
    "address_result": ("not asked", "full match", "zip only", "street only", "no match"),
    "currency": ("usd", "cad", "mxn", "gbp", "eur", "other"),
    "network": ("a", "b", "c"),
    "response": ("approved", "approved after referral", "stand-in approval"),
    "recurring": ("no", "yes"),
    "card_on_file": ("no", "yes"),
    "split_tender": ("no", "yes"),
    "cashback": ("no", "yes"),
    "fallback": ("no", "yes"),
    "security_level": ("not online", "none", "attempted", "authenticated"),
    "ip_country": ("not online", "same", "different"),
    "device": ("not online", "known", "new"),
    "shipping": ("none", "billing address", "other address", "digital"),
}

# raw numbers; True: the feature is log(1 + value), because money, times and distances are skewed
NUMERIC = {
    "credit_limit": True,
    "account_age_days": True,
    "n_cards": False,
    "payment_ratio": False,
    "opening_balance": True,
    "cash_limit": True,
    "n_products": False,
    "late_payments": False,
    "disputes": False,
    "reported_income": True,
    "days_since_card_issue": True,
    "days_since_contact_change": True,
    "days_since_credential_change": True,
    "merchant_mean_ticket": True,
    "merchant_age_days": True,
    "merchant_daily_count": True,
    "merchant_chargebacks": False,
    "merchant_east_km": False,
    "merchant_north_km": False,
    "amount": True,
    "local_amount": True,
    "distance_home_km": True,
    "authorisation_seconds": False,
    "declines_today": False,
    "tip_share": False,
    "cashback_amount": True,
    "day_of_month": False,
    "pin_tries": False,
}

DERIVED = (
    # against the last transaction of the account
    "amount_difference",
    "amount_log_ratio",
    "distance_from_last",
    "time_since_last",
    "speed_from_last",
    "same_merchant",
    "same_code",
    "same_presence",
    "same_country",
    # velocities: over the rows of the account before this one
    "count_10min",
    "count_1h",
    "count_6h",
    "count_24h",
    "count_7d",
    "count_30d",
    "sum_10min",
    "sum_1h",
    "sum_6h",
    "sum_24h",
    "sum_7d",
    "sum_30d",
    "absent_count_1h",
    "absent_count_24h",
    "absent_count_7d",
    "absent_sum_1h",
    "absent_sum_24h",
    "absent_sum_7d",
    "small_count_1h",
    "small_count_24h",
    "away_count_24h",
    "away_count_7d",
    "declines_24h",
    "declines_7d",
    "new_merchants_24h",
    "new_merchants_7d",
    # the account's own past
    "past_count",
    "amount_mean",
    "amount_std",
    "amount_score",
    "log_amount_mean",
    "log_amount_std",
    "log_amount_score",
    "distance_mean",
    "distance_score",
    "absent_share",
    "abroad_share",
    "night_share",
    "gap_mean",
    "pace_24h",
    "spend_pace_24h",
    "spend_pace_7d",
    # familiarity
    "merchant_visits",
    "merchant_first",
    "merchant_days",
    "code_visits",
    "code_days",
    "code_amount_ratio",
    "city_visits",
    "hour_share",
    # limits
    "utilisation",
    "ticket_ratio",
)

FEATURE_NAMES = (
    *(f"{name}={level}" for name, levels in CATEGORICAL.items() for level in levels[:-1]),
    *NUMERIC,
    *DERIVED,
)
IS_NUMERIC = (False,) * (len(FEATURE_NAMES) - len(NUMERIC) - len(DERIVED)) + (True,) * (
    len(NUMERIC) + len(DERIVED)
)
