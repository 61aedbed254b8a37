"""The 264 features: their oracle, a loop over the rows, and that they never look ahead."""

import math

import numpy as np
import pytest

from ppkit.datasets.transactions import rows_touched, sampling
from ppkit.datasets.transactions.features import (
    History,
    effect_code,
    features,
    raw_attributes,
    spending_patterns,
)
from ppkit.datasets.transactions.merchants import world
from ppkit.datasets.transactions.population import select
from ppkit.datasets.transactions.sampling import kept_rows, pairs_of_accounts
from ppkit.datasets.transactions.schema import (
    CATEGORICAL,
    DERIVED,
    FEATURE_NAMES,
    IS_NUMERIC,
    NUMERIC,
)

HOUR, DAY = 3600, 86_400
SECONDS = {"10min": 600, "1h": HOUR, "6h": 6 * HOUR, "24h": DAY, "7d": 7 * DAY, "30d": 30 * DAY}


@pytest.fixture(scope="module")
def people():
    return pairs_of_accounts(100, np.random.default_rng(11))


@pytest.fixture(scope="module")
def matrix(people):
    return all_features(people)


def all_features(people):
    return features(people, np.arange(len(people.fraud)))


def same_bits(a, b):
    return a.shape == b.shape and (a.view(np.uint32) == b.view(np.uint32)).all()


# the schema


def test_69_raw_attributes_become_264_features(matrix):
    assert (
        len(CATEGORICAL) + len(NUMERIC) == 69
        and len(FEATURE_NAMES) == len(set(FEATURE_NAMES)) == len(IS_NUMERIC) == 264
    )
    assert matrix.shape[1] == 264 and matrix.dtype == np.float32 and np.isfinite(matrix).all()
    coded = sum(len(levels) - 1 for levels in CATEGORICAL.values())
    assert coded + len(NUMERIC) + len(DERIVED) == 264 and sum(IS_NUMERIC) == len(NUMERIC) + len(
        DERIVED
    )


def test_effect_coded_blocks_are_unit_vectors_or_minus_one_throughout(people, matrix):
    codes = raw_attributes(people, np.arange(len(matrix)))
    column = 0
    for name, levels in CATEGORICAL.items():
        block = matrix[:, column : column + len(levels) - 1]
        for row in range(0, len(matrix), 37):  # the oracle, one row at a time
            level = int(codes[name][row])
            expected = (
                [-1.0] * (len(levels) - 1)
                if level == len(levels) - 1
                else [float(one == level) for one in range(len(levels) - 1)]
            )
            assert block[row].tolist() == expected, (name, row)
        column += len(levels) - 1
    assert effect_code(np.array([1, 0]), 2).tolist() == [[-1], [1]]


def test_every_feature_varies(matrix):
    constant = [name for name, spread in zip(FEATURE_NAMES, np.ptp(matrix, axis=0)) if spread == 0]
    assert constant == []


# the oracle: every row on its own, looking at a list of what came before


def slow_patterns(people, row):
    rows, accounts, places = people.rows, people.accounts, world()
    who = rows["who"][row]
    past = [i for i in range(row) if rows["who"][i] == who]
    home = accounts["home"][who]
    time, amount = rows["time"][row], rows["cents"][row] / 100

    def km(a, b):
        return math.dist((places.east[a], places.north[a]), (places.east[b], places.north[b]))

    def money(i):
        return rows["cents"][i] / 100

    def within(seconds):
        return [i for i in past if time - rows["time"][i] < seconds]

    def is_away(i):
        return not rows["web"][i] and km(rows["city"][i], home) > 150

    out = {}
    for label, seconds in SECONDS.items():
        out[f"count_{label}"] = math.log1p(len(within(seconds)))
        out[f"sum_{label}"] = math.log1p(sum(money(i) for i in within(seconds)))
    for label in ("1h", "24h", "7d"):
        absent = [i for i in within(SECONDS[label]) if rows["web"][i]]
        out[f"absent_count_{label}"] = math.log1p(len(absent))
        out[f"absent_sum_{label}"] = math.log1p(sum(money(i) for i in absent))
    for label in ("1h", "24h"):
        out[f"small_count_{label}"] = math.log1p(sum(money(i) < 10 for i in within(SECONDS[label])))
    for label in ("24h", "7d"):
        out[f"away_count_{label}"] = math.log1p(sum(is_away(i) for i in within(SECONDS[label])))
        out[f"declines_{label}"] = sum(rows["declines_today"][i] for i in within(SECONDS[label]))
        new = [
            i
            for i in within(SECONDS[label])
            if rows["merchant"][i] not in [rows["merchant"][j] for j in past if j < i]
        ]
        out[f"new_merchants_{label}"] = math.log1p(len(new))
    out["past_count"] = math.log1p(len(past))
    amounts = [money(i) for i in past]
    out["amount_mean"] = math.log1p(np.mean(amounts) if past else 0)
    out["amount_std"] = math.log1p(np.std(amounts, ddof=1) if len(past) > 1 else 0)
    if len(past) > 1:
        score = (amount - np.mean(amounts)) / (np.std(amounts, ddof=1) + 5)
        out["amount_score"] = math.copysign(math.log1p(abs(score)), score)
    out["distance_mean"] = (
        np.mean([math.log1p(km(rows["city"][i], home)) for i in past]) if past else 0
    )
    out["absent_share"] = sum(rows["web"][i] for i in past) / (len(past) + 3)
    out["abroad_share"] = sum(places.country[rows["city"][i]] > 0 for i in past) / (len(past) + 3)
    out["night_share"] = sum(rows["time"][i] % DAY < 6 * HOUR for i in past) / (len(past) + 3)
    same_shop = [i for i in past if rows["merchant"][i] == rows["merchant"][row]]
    same_code = [i for i in past if rows["code"][i] == rows["code"][row]]
    out["merchant_visits"], out["code_visits"] = (
        math.log1p(len(same_shop)),
        math.log1p(len(same_code)),
    )
    out["merchant_first"] = float(not same_shop)
    out["merchant_days"] = math.log1p(
        (time - rows["time"][same_shop[-1]]) / DAY if same_shop else 400
    )
    out["code_days"] = math.log1p((time - rows["time"][same_code[-1]]) / DAY if same_code else 400)
    out["code_amount_ratio"] = (
        math.log(amount) - np.mean([math.log(money(i)) for i in same_code]) if same_code else 0
    )
    out["city_visits"] = math.log1p(sum(rows["city"][i] == rows["city"][row] for i in past))
    same_hours = sum(rows["time"][i] % DAY // (3 * HOUR) == time % DAY // (3 * HOUR) for i in past)
    distances = [math.log1p(km(rows["city"][i], home)) for i in past]
    logs = [math.log(money(i)) for i in past]
    out["log_amount_mean"] = np.mean(logs) + math.log(100) if past else 0
    if len(past) > 1:  # whole millionths under the square root: a loose bound where it is near 0
        out["log_amount_std"], spread = np.std(logs, ddof=1), np.std(distances, ddof=1)
        out["log_amount_score"] = (math.log(amount) - np.mean(logs)) / (np.std(logs, ddof=1) + 0.3)
        out["distance_score"] = (math.log1p(km(rows["city"][row], home)) - np.mean(distances)) / (
            spread + 0.5
        )
        out["gap_mean"] = math.log1p(
            (rows["time"][past[-1]] - rows["time"][past[0]]) / HOUR / (len(past) - 1)
        )
    out["ticket_ratio"] = (
        math.log(amount)
        - places.log_amount[rows["code"][row]]
        - places.price[rows["merchant"][row]]
    )
    out["hour_share"] = (same_hours + 0.5) / (len(past) + 4)
    carried = accounts["opening_balance"][who] * (1 - accounts["payment_ratio"][who])
    owed = carried + sum(money(i) for i in within(30 * DAY)) + amount
    out["utilisation"] = min(owed / accounts["credit_limit"][who], 3)
    days = max((time - rows["time"][past[0]]) / DAY, 1) if past else 1
    out["pace_24h"] = math.log((len(within(DAY)) + 1) / ((len(past) + 1) / (days + 5)))
    for label, width in (("24h", 1), ("7d", 7)):
        usual = (sum(amounts) + 30) / (days + 5) * width
        out[f"spend_pace_{label}"] = math.log(
            (sum(money(i) for i in within(SECONDS[label])) + amount) / usual
        )
    if past:
        last = past[-1]
        moved, hours = km(rows["city"][row], rows["city"][last]), (time - rows["time"][last]) / HOUR
        change = amount - money(last)
        out["amount_difference"] = math.copysign(math.log1p(abs(change)), change) if change else 0
        out["amount_log_ratio"] = math.log(amount / money(last))
        out["distance_from_last"], out["time_since_last"] = math.log1p(moved), math.log1p(hours)
        by_hand = not rows["web"][row] and not rows["web"][last]
        out["speed_from_last"] = math.log1p(moved / (hours + 0.1)) if by_hand else 0
        out["same_merchant"] = float(rows["merchant"][row] == rows["merchant"][last])
        out["same_code"] = float(rows["code"][row] == rows["code"][last])
        out["same_presence"] = float(rows["web"][row] == rows["web"][last])
        out["same_country"] = float(
            places.country[rows["city"][row]] == places.country[rows["city"][last]]
        )
    return out


@pytest.mark.slow
def test_spending_patterns_equal_the_loop(people):
    few = select(people, people.rows["who"] < 12)
    fast = spending_patterns(few)
    assert set(fast) == set(DERIVED)
    checked = set()
    for row in range(len(few.rows["who"])):
        for name, value in slow_patterns(few, row).items():
            assert fast[name][row] == pytest.approx(
                value, abs=1e-2 if name.endswith(("_std", "_score")) else 3e-5
            ), (name, row)
            checked.add(name)
    assert checked == set(DERIVED)


def test_raw_numbers_equal_the_loop(people):
    rows, accounts, places = people.rows, people.accounts, world()
    numbers = raw_attributes(people, np.arange(len(rows["who"])))
    for row in range(0, len(rows["who"]), 53):
        who, city = rows["who"][row], rows["city"][row]
        home = accounts["home"][who]
        km = math.dist(
            (places.east[city], places.north[city]), (places.east[home], places.north[home])
        )
        assert numbers["distance_home_km"][row] == pytest.approx(km)
        assert numbers["amount"][row] == rows["cents"][row] / 100
        now, again = rows["time"][row] / DAY, accounts["contact_changes_again"][who]
        since = now - again if again <= now else now - accounts["contact_changed"][who]
        assert numbers["days_since_contact_change"][row] == pytest.approx(since)
        assert 1 <= numbers["day_of_month"][row] <= 31


# looking back only


def test_cutting_after_t_leaves_every_earlier_feature_bit_identical(people, matrix):
    rng = np.random.default_rng(5)
    who, time = people.rows["who"], people.rows["time"]
    assert len(np.unique(who)) == 200
    until = np.array([rng.choice(time[who == account]) for account in range(200)])
    early = time <= until[who]
    assert 0.3 < early.mean() < 0.7
    assert same_bits(all_features(select(people, early)), matrix[early])


def test_one_account_cut_or_alone_has_the_same_bits_as_among_all(people, matrix):
    who, time = people.rows["who"], people.rows["time"]
    for account in (0, 77, 199):
        mine = who == account
        middle = np.median(time[mine])
        kept = ~mine | (time <= middle)
        assert same_bits(all_features(select(people, kept)), matrix[kept])
        assert same_bits(all_features(select(people, mine)), matrix[mine])


def test_features_of_some_rows_are_those_rows_of_all_features(people, matrix):
    keep = kept_rows(people, np.random.default_rng(3))
    assert same_bits(features(people, keep), matrix[keep])
    # under-sampling before the features would be another table
    assert not same_bits(all_features(select(people, keep)), matrix[keep])


# History


def test_history_equals_brute_force_also_with_ties():
    rng = np.random.default_rng(2)
    who = np.sort(rng.integers(0, 6, 120))
    time = np.concatenate([np.sort(rng.integers(0, 40, (who == one).sum())) for one in range(6)])
    values, codes = rng.integers(-5, 50, 120), rng.integers(0, 4, 120)
    past = History(who, time)
    first = past.since(10)
    before, last = past.alike(codes)
    for i in range(120):
        earlier = [j for j in range(i) if who[j] == who[i]]
        near = [j for j in earlier if time[i] - time[j] < 10]
        same = [j for j in earlier if codes[j] == codes[i]]
        assert i - first[i] == len(near)
        assert past.total(values, first)[i] == sum(values[near]) and past.total(values)[i] == sum(
            values[earlier]
        )
        assert before[i] == len(same) and last[i] == (same[-1] if same else -1)
        assert past.total_alike(codes, values)[i] == sum(values[same])


def test_the_longest_window_ends_at_the_accounts_first_row():
    who, time = np.repeat([0, 1, 2], 4), np.tile([0, 5, 9, 9], 3)
    past = History(who, time)
    for seconds in (10, 10**8, 10**12):
        np.testing.assert_array_equal(past.since(seconds), np.repeat([0, 4, 8], 4))


# the unit of privacy


def test_rows_touched_counts_later_rows_of_the_same_account_only(monkeypatch):
    in_sample = rows_touched(60, np.random.default_rng(8))
    monkeypatch.setattr(sampling, "KEPT", 1.0)
    touched = rows_touched(60, np.random.default_rng(8))
    assert in_sample.by_account.sum() < 0.5 * touched.by_account.sum()
    # the oracle: the same draw, one removal at a time, the whole matrix compared
    rng = np.random.default_rng(8)
    people = pairs_of_accounts(30, rng)
    who = people.rows["who"]
    sizes = np.bincount(who)
    removed = np.cumsum(sizes) - sizes + (rng.random(60) * sizes).astype(np.int64)
    full = all_features(people)
    for account in range(0, 60, 7):
        rest = np.delete(np.arange(len(who)), removed[account])
        changed = rest[(all_features(select(people, rest)) != full[rest]).any(axis=1)]
        assert (who[changed] == account).all() and (changed > removed[account]).all()
        assert touched.by_transaction[account] == len(changed)
        assert touched.by_account[account] == sizes[account]
    assert (touched.by_transaction < touched.by_account).all() and np.median(
        touched.by_transaction
    ) > 5


def test_rows_are_touched_in_pairs_of_accounts():
    with pytest.raises(ValueError, match="n_accounts must be even, got 3"):
        rows_touched(3, np.random.default_rng(0))
