"""distress: three variants, bad files refused in one sentence, a stand-in whose companies live and
end as companies do."""

import io
import os

import numpy as np
import pandas as pd
import pytest
from scipy import stats

from ppkit import project
from ppkit.datasets import distress
from ppkit.datasets.distress import COLUMNS, TARGET, arranged, checked_table
from ppkit.datasets.files import find, read_table
from ppkit.datasets.standins import distress as standin
from tools.standins import distress as fitting

MACRO = [f"x{i}" for i in range(61, 80)]


def invented(n_companies=330, seed=5):
    """Invented companies in the layout of the file, by a loop over companies and years: health
    fades, some end in distress."""
    rng = np.random.default_rng(seed)
    national = rng.normal(size=(15, 19)).cumsum(axis=0) + np.arange(15)[:, None]
    pattern, rows = rng.normal(size=60), []
    for company in range(1, n_companies + 1):
        listed, wait, industry = (
            rng.integers(-9, 20),
            rng.integers(0, 40),
            min(37, 1 + rng.geometric(0.12)),
        )
        month = 12 if rng.random() < 0.8 else rng.integers(3, 11)
        health, own, before = rng.normal(0.6, 0.6), rng.normal(size=60), abs(rng.normal()) + 0.1
        for year in range(max(1, 1 - listed), 15):
            health = 0.8 * health + rng.normal(0.15, 0.4)
            target = health + 0.5 * rng.normal()
            firm = pattern * health + 0.7 * own + 0.5 * rng.normal(size=60)
            firm[4] = np.exp(4 * firm[4])  # a heavy tail
            firm[7] = max(0.0, firm[7])  # a point mass
            macro = national[year] + (1 - month / 12) * (national[year - 1] - national[year])
            rows.append(
                [
                    company,
                    year,
                    target,
                    *firm,
                    *macro,
                    industry,
                    before,
                    listed + year,
                    listed + wait + year,
                ]
            )
            before = target
            if target <= -0.5:
                break
    whole = {"Company": int, "Time": int, "x80": int, "x82": int, "x83": int}
    made = pd.DataFrame(rows, columns=COLUMNS).astype(whole)
    return made.assign(x48=1_000 + 10 * made["x48"])


@pytest.fixture(scope="module")
def table():
    return checked_table(invented(), "invented.csv").table


@pytest.fixture(scope="module")
def fitted(table):
    return fitting.fit(table, np.random.default_rng(0))


@pytest.fixture(scope="module")
def drawn(fitted):
    return standin.sample(fitted, 10_000, np.random.default_rng(1))


def follows(table):
    """Whether a row is the next year of the company of the row above it."""
    account, year = table["account"].to_numpy(), table["Time"].to_numpy()
    return (account[1:] == account[:-1]) & (year[1:] == year[:-1] + 1)


# the reader and its variants


def test_the_three_variants_have_the_promised_inputs(table):
    widths = {"paper": (555, 473), "no_lag": (132, 51), "forecast": (133, 51)}
    for variant, (width, coded) in widths.items():
        data = arranged(table, kind="real", of_rows=distress.FULL_ROWS, variant=variant)
        assert (
            data.X.shape == (len(table), width)
            and data.X.dtype == np.float32
            and len(set(data.feature_names)) == width
        )
        assert (~data.numeric).sum() == coded and not data.numeric[:coded].any()
        np.testing.assert_array_equal(data.X[:, :coded].sum(axis=1), 3 if variant == "paper" else 2)
        assert ("x81" in data.feature_names) == (
            variant != "no_lag"
        ) and "x80" not in data.feature_names
        assert data.source == f"real subset, unverified: {len(table):,} of 3,672 rows ({variant})"
        assert data.variant == variant and data.target == "distress" and data.name == "distress"


def test_one_hot_columns_numbers_labels_company_and_period_are_those_of_the_row(table):
    shuffled = table.sample(frac=1, random_state=3)
    data = arranged(shuffled, kind="real", of_rows=distress.FULL_ROWS, variant="paper")
    for row in (0, 11, 500):  # the oracle: one row at a time, by name
        one, names = shuffled.iloc[row], np.array(data.feature_names)
        ones = set(names[:473][data.X[row, :473] == 1])
        assert ones == {
            f"Company = {one['Company']:.0f}",
            f"Time = {one['Time']:.0f}",
            f"x80 = {one['x80']:.0f}",
        }
        for name in ("x1", "x79", "x81", "x83"):
            assert data.X[row, names == name] == np.float32(one[name])
    np.testing.assert_array_equal(data.y, shuffled[TARGET] <= -0.5)
    np.testing.assert_array_equal(data.account, shuffled["Company"])
    np.testing.assert_array_equal(data.time, shuffled["Time"])


def test_a_target_of_exactly_minus_a_half_is_distressed(table):
    edge = table[:3].assign(**{TARGET: [-0.5, -0.4999, -0.5001]})
    assert arranged(edge, kind="stand-in", of_rows=None, variant="no_lag").y.tolist() == [1, 0, 1]


def test_columns_are_taken_by_name_and_given_back_in_order():
    raw = invented(5)
    checked = checked_table(raw[list(reversed(COLUMNS))], "f.csv")
    assert (
        checked.of_rows == 3_672
        and checked.layout == ""
        and tuple(checked.table.columns) == (*COLUMNS, "account")
    )
    pd.testing.assert_frame_equal(checked.table[list(COLUMNS)], raw, check_dtype=False)
    np.testing.assert_array_equal(checked.table["account"], raw["Company"])


def _with(column, value, row=2):
    def change(table):
        values = table[column].astype(object if isinstance(value, str) else float)
        values.iloc[row] = value
        return table.assign(**{column: values})

    return change


BAD = {
    "renamed": (
        lambda t: t.rename(columns={"x7": "X7"}),
        r"column 'x7' is missing \(found 'X7' instead\), expected Company, Time",
    ),
    "dropped": (
        lambda t: t.drop(columns=TARGET),
        "column 'Financial Distress' is missing, expected",
    ),
    "no rows": (lambda t: t[:0], "no rows below the header, expected up to 3,672"),
    "text": (_with("x3", "many"), "column 'x3' must hold numbers, got 'many' in row 3"),
    "NaN": (_with("x3", np.nan), "column 'x3' must hold finite numbers, got nan in row 3"),
    "infinite": (
        _with(TARGET, np.inf),
        "column 'Financial Distress' must hold finite numbers, got inf in row 3",
    ),
    "company 0": (
        _with("Company", 0),
        "column 'Company' must be between 1 and 422, got 0 in row 3",
    ),
    "company 423": (
        _with("Company", 423),
        "column 'Company' must be between 1 and 422, got 423 in row 3",
    ),
    "period 15": (_with("Time", 15), "column 'Time' must be between 1 and 14, got 15 in row 3"),
    "company 1.5": (
        _with("Company", 1.5),
        "column 'Company' must hold whole numbers, got 1.5 in row 3",
    ),
    "period 1.5": (_with("Time", 1.5), "column 'Time' must hold whole numbers, got 1.5 in row 3"),
    "industry 2.25": (_with("x80", 2.25), "column 'x80' must hold whole numbers, got 2.25 in row"),
    "industry 38": (_with("x80", 38), "column 'x80' must be between 1 and 37, got 38 in row 3"),
}


@pytest.mark.parametrize("change, sentence", BAD.values(), ids=BAD.keys())
def test_a_wrong_table_is_refused_with_file_column_and_expectation(change, sentence):
    start = invented(5)
    start["Time"] = start.groupby("Company").cumcount() + 1
    with pytest.raises(ValueError, match=f"^f.csv: {sentence}") as caught:
        checked_table(change(start), "f.csv")
    assert "\n" not in str(caught.value)


def test_the_full_file_must_have_136_distressed_rows_and_no_more_rows_than_there_are():
    full = pd.DataFrame(0.0, index=range(3_672), columns=COLUMNS)
    full["Company"], full["Time"], full["x80"] = (
        np.arange(3_672) % 422 + 1,
        np.arange(3_672) // 422 + 1,
        1,
    )
    full.loc[:135, TARGET] = -0.5
    for column, mean in distress.PUBLISHED_MEANS.items():
        full[column] += (mean * 3_672 - full[column].sum()) / 3_536 * (np.arange(3_672) > 135)
    full["x3"] = np.arange(3_672)
    full["x48"] = 600.0
    full["x81"] = full.groupby("Company")[TARGET].shift(fill_value=0.0)
    assert checked_table(full, "f.csv").of_rows == len(checked_table(full, "f.csv").table)
    with pytest.raises(ValueError, match="^f.csv: 135 distressed in 3,672 rows, expected 136"):
        checked_table(full.assign(**{TARGET: np.r_[0, full[TARGET][1:]]}), "f.csv")
    with pytest.raises(
        ValueError,
        match="^f.csv: column 'x1' has mean 0.000000 over all 3,672 rows, expected 1.387820",
    ):
        checked_table(full.assign(x1=0.0), "f.csv")
    with pytest.raises(ValueError, match="^f.csv: 3,673 rows, expected at most 3,672"):
        checked_table(pd.concat([full, full[:1].assign(Time=14)]), "f.csv")
    checked_table(full[1:].assign(**{TARGET: 1.0, "x81": 1.0}), "f.csv")  # a subset may hold fewer
    with pytest.raises(
        ValueError, match="^f.csv: 3,671 distressed in 3,671 rows, expected at most the 136 of"
    ):
        checked_table(full[1:].assign(**{TARGET: -1.0, "x81": -1.0}), "f.csv")


# files that are not what they say


def renumbered(table, rows):
    """The first rows once more, under numbers of companies that are free."""
    free = sorted(set(range(1, 423)) - set(table["Company"]))
    again = table[:rows].reset_index(drop=True)
    return pd.concat(
        [
            table,
            again.assign(
                Company=np.array(free)[again.index % len(free)],
                Time=1 + 2 * (again.index // len(free)),
            ),
        ]
    )


LAG = (
    r"column 'Financial Distress' does not belong to these rows: x81 is \S+ for company \d+ in "
    r"period \d+, expected its target of the period before, \S+$"
)
ALTERED = {
    "permuted": (
        lambda t: t.assign(**{TARGET: t[TARGET].sample(frac=1, random_state=1).array}),
        LAG,
    ),
    "inverted": (lambda t: t[t[TARGET] < 0.4].assign(**{TARGET: -t[TARGET]}), LAG),
    "one target changed": (
        lambda t: t.assign(**{TARGET: t[TARGET] + 0.01 * (t.index == t.index[:-1][follows(t)][7])}),
        LAG,
    ),
    "all distressed": (
        lambda t: t.assign(**{TARGET: -1.0, "x81": -1.0}),
        "[0-9,]+ distressed in .*, expected at most the 136 of",
    ),
    "repeats": (
        lambda t: renumbered(t, 3),
        r"3 of \d+,\d+ rows repeat an earlier row exactly, expected at most 2: this is a",
    ),
}
SCALED = "expected .*: these rows were scaled, put the file there as it was published$"
FIGURES = [f"x{i}" for i in range(1, 80)]


def minmax(part):
    return (part - part.min()) / (part.max() - part.min())


def standardised(part):
    return (part - part.mean()) / part.std(ddof=0)


ALTERED |= {
    "figures, min-max": (
        lambda t: t.assign(**minmax(t[FIGURES])),
        r"column 'x48' has median 0\.\S+, " + SCALED,
    ),
    "figures, standardised": (
        lambda t: t.assign(**standardised(t[FIGURES])),
        r"column 'x48' has median -?0\.\S+, " + SCALED,
    ),
    "an age, min-max": (
        lambda t: t.assign(x82=minmax(t["x82"])),
        "column 'x82' must hold whole numbers, got 0",
    ),
    "an age, standardised": (
        lambda t: t.assign(x83=standardised(t["x83"])),
        "column 'x83' must be between 0 and 200, got -",
    ),
}
HONEST = {
    "as it is": lambda t: t,
    "another order": lambda t: t.sample(frac=1, random_state=2),
    "two repeats": lambda t: renumbered(t, 2),
    "distressed only": lambda t: t[t[TARGET] <= -0.5],
    "healthy only": lambda t: t[t[TARGET] > -0.5],
    "some years": lambda t: t[t["Time"] < 6],
    "some companies": lambda t: t[t["Company"] < 100],
    "as float32": lambda t: t.astype(dict.fromkeys((*distress.NUMBERS, TARGET), "float32")),
    **{
        f"{n:,} at random, {seed}": lambda t, n=n, seed=seed: t.sample(n, random_state=seed)
        for n in (1, 100, 1_000, 2_000)
        for seed in range(3)
    },
}


@pytest.fixture(scope="module")
def few(table):
    """Rows of 270 companies: fewer distressed than in the file, and some numbers are free."""
    return table.loc[table["account"] <= 270, list(COLUMNS)]


@pytest.mark.parametrize("change, sentence", ALTERED.values(), ids=ALTERED.keys())
def test_altered_rows_are_refused_in_one_sentence(change, sentence, few):
    assert 50 < (few[TARGET] <= -0.5).sum() < 136
    with pytest.raises(ValueError, match=f"^f.csv: {sentence}") as caught:
        checked_table(change(few.assign(account=few["Company"]))[list(COLUMNS)], "f.csv")
    assert "\n" not in str(caught.value)


@pytest.mark.slow
@pytest.mark.parametrize("choose", HONEST.values(), ids=HONEST.keys())
def test_a_part_of_honest_rows_is_taken(choose, few):
    chosen = choose(few)
    assert len(checked_table(chosen, "f.csv").table) == len(chosen) > 0


# the stand-in: its table


@pytest.mark.slow
@pytest.mark.parametrize("rows", [1, 7, 3_672, 10_000])
def test_any_number_of_rows_in_the_file_s_order(fitted, rows):
    made = standin.sample(fitted, rows, np.random.default_rng(4))
    assert len(made) == rows and tuple(made.columns) == (*COLUMNS, "account")
    np.testing.assert_array_equal(
        made.sort_values(["account", "Time"], kind="stable").index, np.arange(rows)
    )
    assert not made.duplicated(["account", "Time"]).any()
    np.testing.assert_array_equal((made["account"] - 1) % 422 + 1, made["Company"])
    for variant, width in (("paper", 555), ("no_lag", 132), ("forecast", 133)):
        data = arranged(made, kind="stand-in", of_rows=None, variant=variant)
        assert (
            data.X.shape == (rows, width) and data.source == f"stand-in: {rows:,} rows ({variant})"
        )


@pytest.mark.slow
def test_sampled_rows_pass_the_checks_of_the_file(fitted):
    made = standin.sample(fitted, 3_000, np.random.default_rng(4))  # more have too many distressed
    again = checked_table(made.drop(columns="account"), "standin.csv").table
    np.testing.assert_array_equal(again["account"], made["account"])


def test_the_same_seed_gives_the_same_rows(fitted, drawn):
    pd.testing.assert_frame_equal(standin.sample(fitted, 10_000, np.random.default_rng(1)), drawn)
    assert (standin.sample(fitted, 10_000, np.random.default_rng(2))["x1"] != drawn["x1"]).any()


# the stand-in: what a company is


def test_x81_is_the_target_of_the_year_before_and_never_distressed(drawn):
    next_year = follows(drawn)
    assert next_year.sum() > 8_000
    np.testing.assert_array_equal(
        drawn["x81"].to_numpy()[1:][next_year], drawn[TARGET].to_numpy()[:-1][next_year]
    )
    assert (drawn["x81"] > -0.5).all()


def test_a_company_has_no_gaps_and_ends_with_its_distress(drawn):
    same = np.diff(drawn["account"]) == 0
    np.testing.assert_array_equal(np.diff(drawn["Time"])[same], 1)
    failed = (drawn[TARGET] <= -0.5).to_numpy()
    assert not failed[:-1][same].any() and failed.sum() > 200


def test_the_rate_is_the_fitted_one(table, drawn):
    assert abs((drawn[TARGET] <= -0.5).mean() - (table[TARGET] <= -0.5).mean()) < 0.006
    by_year = [(one[TARGET] <= -0.5).groupby(one["Time"]).mean() for one in (table, drawn)]
    assert (by_year[0] - by_year[1]).abs().max() < 0.06


def test_companies_of_one_closing_month_share_the_national_figures(drawn):
    dates = drawn.groupby(["Time", *MACRO]).ngroups
    assert dates == drawn.groupby(["Time", "x61"]).ngroups and 14 < dates <= 9 * 14
    commonest = drawn.groupby(["Time", "x61"]).size().groupby("Time").max()
    assert (commonest / drawn.groupby("Time").size() > 0.5).all()
    assert (drawn.groupby(["account", "Time"])[MACRO].nunique() == 1).all(axis=None)


def test_the_samples_have_each_year_s_national_means(table, drawn):
    real, ours = (one.groupby("Time")[MACRO].mean() for one in (table, drawn))
    steps = real.diff().abs().mean()
    assert ((real - ours).abs() < 0.2 * steps).all(axis=None)


def test_industry_stays_and_ages_count_the_years(drawn):
    assert (drawn.groupby("account")["x80"].nunique() == 1).all()
    next_year = follows(drawn)
    for column in ("x82", "x83"):
        np.testing.assert_array_equal(np.diff(drawn[column])[next_year], 1)
    assert (drawn["x82"] >= 1).all() and (drawn["x83"] >= drawn["x82"]).all()
    assert drawn["x80"].between(1, 37).all()


@pytest.mark.slow
def test_the_place_in_the_file_tells_as_much_about_age_as_in_the_table(table):
    listed = table["x82"] - table["Time"]
    noisy = (
        (-listed + 6 * np.random.default_rng(3).normal(size=331)[table["account"]])
        .groupby(table["account"])
        .transform("first")
    )
    ordered = table.assign(Company=noisy.rank(method="dense").astype(int))
    wanted = stats.spearmanr(ordered["Company"], listed).statistic
    made = standin.sample(
        fitting.fit(ordered, np.random.default_rng(0)), 3_000, np.random.default_rng(1)
    )
    assert (
        wanted < -0.5
        and abs(stats.spearmanr(made["account"], made["x82"] - made["Time"]).statistic - wanted)
        < 0.12
    )


def test_a_company_resembles_itself_the_year_before(table, drawn):
    for one in (table, drawn):
        rank, next_year = one["x1"].rank().to_numpy(), follows(one)
        assert np.corrcoef(rank[1:][next_year], rank[:-1][next_year])[0, 1] > 0.4


@pytest.mark.slow
def test_rows_look_like_those_of_the_table_and_distress_looks_like_distress(table, drawn):
    rank_correlations = [
        one[list(standin.FIRM)].corr("spearman").to_numpy() for one in (table, drawn)
    ]
    assert np.abs(rank_correlations[0] - rank_correlations[1]).max() < 0.15
    for column in (*standin.FIRM, "x80", "x82", "x83", TARGET):
        assert stats.ks_2samp(table[column], drawn[column]).statistic < 0.1, column
    gaps = []
    for one in (table, drawn):
        failed, ranks = one[TARGET] <= -0.5, one[list(standin.FIRM)].rank(pct=True)
        gaps.append(ranks[failed].mean() - ranks[~failed].mean())
    assert np.corrcoef(gaps)[0, 1] > 0.97


def test_the_year_before_distress_looks_half_like_it(table, drawn):
    slopes = []
    for one in (table, drawn):
        failed, ranks = (
            (one[TARGET] <= -0.5).to_numpy(),
            one[list(standin.FIRM)].rank(pct=True).to_numpy(),
        )
        before = np.r_[failed[1:] & follows(one), False]
        far, near = (
            ranks[rows].mean(axis=0) - ranks[~failed].mean(axis=0) for rows in (failed, before)
        )
        slopes.append(near @ far / (far @ far))
    assert 0.3 < slopes[0] < 0.9 and abs(slopes[1] - slopes[0]) < 0.15


@pytest.mark.slow
def test_a_pilot_mends_the_covariance_of_healthy_years_and_the_means_of_both_classes(fitted):
    held = {
        name: value.astype(float if value.dtype.kind == "f" else int)
        for name, value in fitted.items()
    }
    held["steps"] = 0.5 * held["steps"]  # years back lose their spread and their distress
    wanted, means = (
        held["factors"][0] @ held["factors"][0].T,
        np.array([[0.3], [-1.0]]) * np.ones(61),
    )

    def apart(parameters):
        rng = np.random.default_rng(3)
        panel = standin.panel(
            parameters, standin.draw_lives(standin.of_lives(held), 40_000, rng), rng
        )
        white = np.linalg.solve(held["factors"][0], panel.rests[~panel.failed].T)
        return (
            np.linalg.norm(np.cov(white) - np.eye(61)),
            max(
                np.abs(panel.scores[panel.failed == fate].mean(axis=0) - means[int(fate)]).max()
                for fate in (False, True)
            ),
        )

    before = apart(held | {"recolour": np.eye(61), "shifts": np.zeros((2, 61))})
    after = apart(held | fitting._corrected(held, means, wanted, np.random.default_rng(4)))
    assert before[0] > 2.5 and after[0] < 0.8 and before[1] > 0.3 and after[1] < 0.15


# the stand-in: what it keeps


def test_parameters_are_few_and_hold_no_value_of_a_row(table, fitted):
    packed = io.BytesIO()
    np.savez_compressed(packed, **fitted)
    assert packed.tell() <= 300_000
    assert {array.dtype.str for array in fitted.values()} <= {"<f4", "<i4"} and all(
        np.isfinite(a).all() for a in fitted.values()
    )
    bins = len(table) // 50
    assert fitted["knots"].shape == (61, bins) and fitted["steps"].shape == fitted[
        "recolour"
    ].shape == (61, 61)
    for column, kept in zip(standin.FIRM, fitted["knots"], strict=True):
        values, counts = np.unique(table[column].to_numpy(np.float32), return_counts=True)
        assert not np.isin(kept, values[counts < 50]).any()
        assert values[0] <= kept.min() and kept.max() < values[-1]
    assert not np.isin(fitted["outcome_knots"], table[TARGET].to_numpy(np.float32)).any()
    listed, counts = np.unique(table["x82"] - table["Time"], return_counts=True)
    alone = fitted["lives_listed"][:, 2] == 0
    assert np.isin(fitted["lives_listed"][alone, 1], listed[counts >= 50]).all() and alone.any()
    for month in (
        table.groupby(["Time", *MACRO])
        .filter(lambda rows: len(rows) < 50)[MACRO]
        .to_numpy(np.float32)
    ):
        assert not np.isin(fitted["lives_macro"], month).any()


@pytest.mark.slow
def test_one_outlier_moves_no_parameter_by_more_than_a_fiftieth_of_it(table, fitted):
    changed = table.copy()
    changed.loc[changed["x9"].idxmax(), "x9"] = 1e6
    other = fitting.fit(changed, np.random.default_rng(0))
    assert (
        np.abs(other["knots"][8, -1]) < 1e6 / 49
        and (other["knots"][8, :-1] == fitted["knots"][8, :-1]).all()
    )
    for name in fitted.keys() - {"knots"}:  # all else sees ranks, and its rank is as it was
        np.testing.assert_array_equal(other[name], fitted[name])


@pytest.mark.slow
def test_the_depth_of_distress_is_a_mean_over_all_distressed_rows(table, fitted):
    changed, lowest = table.copy(), table[TARGET].idxmin()
    changed.loc[lowest, TARGET] -= 100
    n_low = int((table[TARGET] <= -0.5).sum())
    other = fitting.fit(changed, np.random.default_rng(0))
    assert n_low >= 50
    assert other["depth"] - fitted["depth"] == pytest.approx(100 / n_low, rel=1e-3)
    assert fitted["depth"] == pytest.approx(
        -0.5 - table[TARGET][table[TARGET] <= -0.5].mean(), rel=1e-5
    )


def test_a_step_into_distress_is_no_mean_over_fewer_than_fifty_pairs(table):
    low = (table[TARGET] <= -0.5).to_numpy()
    pairs = np.flatnonzero(follows(table) & low[1:]) + 1
    U = np.random.default_rng(2).normal(size=(len(table), 61)) + low[:, None]
    for kept, some in ((len(pairs), True), (50, True), (49, False)):
        marked = low.copy()
        marked[pairs[kept:]] = False
        assert fitting._backwards(U, table, marked)["step_low"].any() == some


def test_industries_of_fewer_than_fifty_rows_are_kept_together(table, fitted):
    rows = np.bincount(table["x80"] - 1, minlength=37)
    small = rows < 50
    assert (
        small.any()
        and (fitted["lives_groups"][small] == 0).all()
        and len(fitted["lives_shares"]) < 37
    )
    per_group = np.bincount(fitted["lives_groups"], rows)
    assert per_group.min() >= 50
    np.testing.assert_allclose(fitted["lives_shares"] * len(table), per_group, rtol=1e-5)


# fitting to part of the rows


@pytest.mark.slow
@pytest.mark.parametrize("part", ["rows", "early years", "companies"])
def test_a_part_of_the_rows_is_enough(table, part):
    rng = np.random.default_rng(8)
    chosen = {
        "rows": table.sample(frac=0.6, random_state=1).sort_index(),
        "early years": table[table["Time"] <= 8],
        "companies": table[table["Company"] % 3 > 0],
    }[part]
    made = standin.sample(fitting.fit(chosen, rng), 2_400, rng)
    assert len(made) == 2_400 and np.isfinite(made.to_numpy()).all()
    assert abs((made[TARGET] <= -0.5).mean() - (chosen[TARGET] <= -0.5).mean()) < 0.012
    assert made["Time"].max() <= chosen["Time"].max()


@pytest.mark.slow
def test_the_lowest_targets_stand_in_where_few_are_distressed(table):
    few = table[(table[TARGET] > -0.5) | (table["Company"] < 25)]
    assert 0 < (few[TARGET] <= -0.5).sum() < 50
    made = standin.sample(
        fitting.fit(few, np.random.default_rng(0)), 20_000, np.random.default_rng(1)
    )
    failed = made[TARGET] <= -0.5
    assert abs(failed.mean() - (few[TARGET] <= -0.5).mean()) < 0.004
    none = fitting.fit(table[table[TARGET] > -0.5], np.random.default_rng(0))
    assert (standin.sample(none, 500, np.random.default_rng(1))[TARGET] > -0.5).all()


def test_without_neighbouring_years_only_x81_is_carried_over(table):
    odd = table[(table["Time"] % 2 == 1)].assign(Time=lambda rows: (rows["Time"] + 1) // 2)
    lone = odd.assign(account=np.arange(len(odd)))  # every row a company of its own
    kept = fitting.fit(lone, np.random.default_rng(0))
    assert not kept["steps"].any() and not kept["step_low"].any()
    made = standin.sample(kept, 2_000, np.random.default_rng(1))
    next_year = follows(made)
    np.testing.assert_array_equal(
        made["x81"].to_numpy()[1:][next_year], made[TARGET].to_numpy()[:-1][next_year]
    )


def test_too_few_rows_in_a_period_are_refused(table):
    with pytest.raises(
        ValueError,
        match="distress: a stand-in needs at least 50 rows in each of consecutive periods, "
        "got 10 in 1",
    ):
        fitting.fit(table[table["Time"] == 1][:10], np.random.default_rng(0))
    with pytest.raises(ValueError, match="in each of consecutive periods"):
        fitting.fit(table[table["Time"] != 6], np.random.default_rng(0))


def test_years_that_lose_companies_without_distress_are_where_healthy_ones_end():
    counts, none = np.array([300, 300, 200, 200]), np.zeros(4, int)
    np.testing.assert_allclose(fitting._leaves(counts, none, none), [0, 1 / 3, 0, 2 / 3])
    fails = np.array([0, 100, 0, 0])  # the loss is their distress
    np.testing.assert_allclose(fitting._leaves(counts, fails, none), [0, 0, 0, 1])


# the real rows


@pytest.mark.skipif(
    not os.environ.get("PPKIT_REAL_DATA"), reason="PPKIT_REAL_DATA names no folder of real rows"
)
def test_the_real_development_rows_pass_the_checks():
    found = find(distress.STEMS, project.root() / os.environ["PPKIT_REAL_DATA"])
    checked = checked_table(read_table(found, 10**8)[0], found.path.name)
    table, next_year = checked.table, follows(checked.table)
    data = arranged(table, kind="real", of_rows=checked.of_rows, variant="paper")
    assert data.source == "real, unverified: 3,672 rows (paper)"
    assert data.X.shape == (3_672, 555) and int(data.y.sum()) == 136
    assert next_year.sum() == 3_250  # the lag, and distress as the end of a company
    np.testing.assert_array_equal(
        table["x81"].to_numpy()[1:][next_year], table[TARGET].to_numpy()[:-1][next_year]
    )
    assert not data.y[:-1][np.diff(data.account) == 0].any()
    rows = table[list(COLUMNS)]
    assert rows.duplicated(list(COLUMNS[2:])).sum() == distress.FULL_REPEATS
    for name, choose in HONEST.items():
        if name != "two repeats":  # the file has these already
            assert len(checked_table(choose(rows), name).table) > 0
    for name, (change, sentence) in ALTERED.items():
        if name != "repeats":  # no number of a company is free
            with pytest.raises(ValueError, match=f"^{name}: {sentence}"):
                checked_table(change(table[table["account"] <= 400])[list(COLUMNS)], name)
