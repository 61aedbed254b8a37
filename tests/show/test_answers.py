"""Every form of a right answer is taken, for every exercise of every lesson."""

from decimal import Decimal
from fractions import Fraction

import numpy as np
import pandas as pd
import pytest
import torch

from ppkit import project
from ppkit.show import answers, lesson

SOLUTIONS = project.root() / "notebooks" / "solutions"
LESSONS = sorted(path.stem.partition("_")[0] for path in SOLUTIONS.glob("*.toml"))
KEYS = {
    f"{name}.{exercise}": key
    for name in LESSONS
    for exercise, key in lesson.exercises(name).items()
}
NUMBERS = [name for name, key in KEYS.items() if not isinstance(key["answer"], list)]
LISTS = [name for name, key in KEYS.items() if isinstance(key["answer"], list)]
SETS = [name for name, key in KEYS.items() if key.get("any_order")]


def said(name: str, value) -> str:
    return answers.verdict(KEYS[name], value).text


FORMS_OF_A_NUMBER = {
    "as the key has it": lambda a: a,
    "numpy scalar": np.float64,
    "numpy of no dimension": np.array,
    "list of one": lambda a: [a],
    "tuple of one": lambda a: (a,),
    "table of one": lambda a: np.array([[a]]),
    "data frame": lambda a: pd.DataFrame({"answer": [a]}),
    "series": lambda a: pd.Series([a]),
    "set": lambda a: {a},
    "dict": lambda a: {"answer": a},
    "tensor": lambda a: torch.tensor(float(a), dtype=torch.float64),
    "tensor with a gradient": lambda a: torch.tensor(
        [float(a)], dtype=torch.float64, requires_grad=True
    ),
    "numpy float32": np.float32,
    "numpy long double": lambda a: np.longdouble(str(a)),
    "float32 tensor": lambda a: torch.tensor(float(a), dtype=torch.float32),
    "parameter": lambda a: torch.nn.Parameter(torch.tensor(float(a))),
    "float32 after a few operations": lambda a: np.float32(a) / np.float32(3) * np.float32(3),
    "list of a tensor": lambda a: [torch.tensor(float(a), dtype=torch.float64, requires_grad=True)],
    "fraction": lambda a: Fraction(str(a)),
    "decimal": lambda a: Decimal(str(a)),
    "text": str,
    "text with commas": lambda a: f"{a:,}",
    "text with a unit": lambda a: f" {a} seconds ",
    "text in a list": lambda a: [str(a)],
    "text in per cent": lambda a: f"{Decimal(str(a)) * 100} %",
    "float with rounding": lambda a: a * 0.1 * 10 + 1e-12,
}


@pytest.mark.parametrize("form", FORMS_OF_A_NUMBER)
def test_a_number_in_any_form_is_right(form):
    for name in NUMBERS:
        value = FORMS_OF_A_NUMBER[form](KEYS[name]["answer"])
        assert said(name, value) == "right.", f"{name}: {value!r}"


FORMS_OF_A_LIST = {
    "as the key has it": lambda a: a,
    "tuple": tuple,
    "array": np.array,
    "one line": lambda a: np.array([a]),
    "one column": lambda a: np.array(a)[:, None],
    "tensor with a gradient": lambda a: torch.tensor(a, dtype=torch.float64, requires_grad=True),
    "float32 array": lambda a: np.array(a, dtype=np.float32),
    "float32 tensor": lambda a: torch.tensor([float(one) for one in a]),
    "parameter": lambda a: torch.nn.Parameter(torch.tensor([float(one) for one in a])),
    "line of a tensor": lambda a: torch.tensor([a], dtype=torch.float64),
    "numpy scalars": lambda a: [np.float64(one) for one in a],
    "series": pd.Series,
    "data frame": lambda a: pd.DataFrame([a]),
    "dict": lambda a: dict(enumerate(a)),
    "texts": lambda a: [str(one) for one in a],
    "one text": str,
    "one text, spaced": lambda a: " ".join(map(str, a)),
    "values of a dict": lambda a: dict(enumerate(a)).values(),
}


@pytest.mark.parametrize("form", FORMS_OF_A_LIST)
def test_a_list_in_any_form_is_right(form):
    for name in LISTS:
        value = FORMS_OF_A_LIST[form](KEYS[name]["answer"])
        assert said(name, value) == "right.", f"{name}: {value!r}"


FORMS_OF_A_SET = {
    "other order": lambda rows: rows[::-1],
    "set": set,
    "frozenset": frozenset,
    "twice": lambda rows: rows + rows,
    "floats": lambda rows: [float(one) for one in rows],
    "mask": lambda rows: [place in rows for place in range(5)],
    "array mask": lambda rows: np.isin(np.arange(5), rows),
    "column mask": lambda rows: np.isin(np.arange(5), rows)[:, None],
    "tensor mask": lambda rows: torch.isin(torch.arange(5), torch.tensor(rows)),
    "series mask": lambda rows: pd.Series(np.isin(np.arange(5), rows)),
    "mask of 0 and 1": lambda rows: np.isin(np.arange(5), rows).astype(int),
    "np.where": lambda rows: np.where(np.isin(np.arange(5), rows)),
    "np.argwhere": lambda rows: np.argwhere(np.isin(np.arange(5), rows)),
    "one text": lambda rows: " and ".join(map(str, rows)),
}


@pytest.mark.parametrize("form", FORMS_OF_A_SET)
def test_rows_in_any_order_or_as_a_mask_are_right(form):
    assert SETS == ["03b.E1"]
    for name in SETS:
        value = FORMS_OF_A_SET[form](KEYS[name]["answer"])
        assert said(name, value) == "right.", f"{name}: {value!r}"


def test_a_wrong_mask_is_met_by_its_mistake():
    genuine = [True, False, True, True, False]
    assert said("03b.E1", genuine) == said("03b.E1", [0, 2, 3]) != "right."
    assert said("03b.E1", [False] * 5) == "not right."


@pytest.mark.parametrize("count", [0, 9_000, 1_457_841, 2**24])
def test_rounding_takes_no_wrong_count(count):
    key = {"answer": count}
    assert answers.verdict(key, np.float32(count)).right
    assert not answers.verdict(key, count + 1).right
    assert not answers.verdict(key, count - 1).right


@pytest.mark.parametrize("answer", [0.01, -0.3, 123_456.7, 2**30 + 1, 1e-12])
def test_rounding_is_that_of_float32(answer):
    key = {"answer": answer}
    assert answers.verdict(key, np.float32(answer)).right
    assert not answers.verdict(key, answer * (1 + 3e-6)).right


# What a person writes down who computed the right answer.
ROUNDED = {
    "00.E2": [0.01, "1 %", ".01"],
    "01a.E1": [0.49, 0.494, 0.4940],
    "01a.E2": [0.32, 0.317, 0.3171],
    "01a.E4": [0.037, 0.03695],
    "01b.E4": [60, 60.4, "60 times"],
    "02b.E1": ["9,000", "9 000", "9_000", 9e3],
    "02b.E2": [18, 18.3, 18.4],
    "03a.E4": [14.25, "57/4"],
    "03c.E3": [10, 10.2, 10.24, "10.24 ms"],
    "04a.E1": [0.1, "1/10"],
    "04a.E2": [3.2, 3.22, 2 * np.log(5)],
    "04b.E1": [2.7, 2.72, 2.721],
    "04b.E3": [1_460_000, 1_457_840, 1_500_000, "1,460,000", 1_457_841],
    "04b.E4": [0.08, 0.08000001],
    "1.E1": [0.74, 0.738, 0.73757],
    "1.E2": [0.91, 0.906, 0.9059],
    "3.E2": [35, 35.2, 35.25, "35.3 Mbps"],
    "5.E1": [2683, 2683.125, 2684, "2,683 bytes"],
    "5.E2": [2.4, 2.398, "2.398"],
    "2.E2": [13, 13.1, 13.09],
    "2.E3": [0.9986, 0.999, "99.86 %", "99.9%", "0,9986", 729 / 730],
    "4.E1": [21, 21.3, 21.33, "64/3"],
    "4.E2": [73_000, 73_200, 73_205, "73,206"],
    "4.E3": [0.9995, 0.99948, 0.999482],
}


@pytest.mark.parametrize("name", ROUNDED)
def test_a_rounded_answer_is_right(name):
    assert [value for value in ROUNDED[name] if said(name, value) != "right."] == []


@pytest.mark.parametrize("name", KEYS)
def test_no_expected_mistake_is_within_the_tolerance(name):
    for mistake in KEYS[name]["mistakes"]:
        assert said(name, mistake["value"]) == f"not right. {mistake['hint']}"


@pytest.mark.parametrize("name", KEYS)
def test_a_second_miss_is_helped(name):
    key = KEYS[name]
    far = [-123.456] * np.size(key["answer"])
    assert answers.verdict(key, far).text == "not right."
    assert answers.verdict(key, far, misses=1).text == f"not right. {key['help']}"


@pytest.mark.parametrize(
    "name, value, hint",
    [
        ("2.E3", 99.86, "That is in per cent. Give the answer as a fraction of 1."),
        ("00.E2", 1, "That is in per cent. Give the answer as a fraction of 1."),
        ("03c.E1", 160, "That is 1,000 times too little. Give the answer in bytes."),
        (
            "03c.E1",
            8 * 160_000,
            "That is 8 times too much, and a byte has 8 bits. Give the answer in bytes.",
        ),
        (
            "03c.E4",
            2.5,
            "That is 8 times too little, and a byte has 8 bits. Give the answer in Mbps.",
        ),
        ("03c.E4", 20_000_000, "That is 1,000,000 times too much. Give the answer in Mbps."),
        ("04b.E3", 1.45784, "That is 1,000,000 times too little. Look at the decimal point."),
        ("2.E1", [-20, 50, -16], "That is 10 times too much. Look at the decimal point."),
    ],
)
def test_a_wrong_unit_is_named(name, value, hint):
    assert said(name, value) == f"not right. {hint}"


@pytest.mark.parametrize(
    "name, value, sentence",
    [
        ("2.E1", 1.5, "Three numbers are expected, got 1."),
        ("2.E1", [1.5, -2.0], "Three numbers are expected, got 2."),
        ("2.E1", np.zeros((4, 4)), "Three numbers are expected, got 16."),
        ("2.E1", {1.5, -2.0, 4.0}, "Three numbers are expected in order, and a set has no order."),
        ("2.E1", [1.5, None, 4.0], "Three numbers are expected, got None."),
        ("2.E1", [[1.5], [-2.0, "x"]], "Three numbers are expected, got 'x'."),
        ("02a.E2", "A", "Two numbers are expected, got 'A'."),
        ("02a.E1", [1, 2], "One number is expected, got 2."),
        ("02a.E1", [], "One number is expected, got 0."),
        ("02a.E1", True, "One number is expected, got True."),
        ("02a.E1", 5 + 0j, "One number is expected, got a value of type complex."),
        ("02a.E1", float("inf"), "One number is expected, got inf."),
        ("02a.E1", 10**400, "One number is expected, got "),
        ("02a.E1", "", "One number is expected, got ''."),
        (
            "02a.E1",
            print,
            "One number is expected, got a value of type builtin_function_or_method.",
        ),
        ("03b.E1", "the long ones", "Whole numbers are expected, got 'the'."),
        ("03b.E1", None.__class__, "Whole numbers are expected, got a value of type type."),
    ],
)
def test_an_answer_of_another_kind_is_told_what_is_expected(name, value, sentence):
    assert said(name, value).startswith(f"not right. {sentence}")


def test_a_text_that_is_no_number_is_none():
    for text in ("1,2,3", "1.2.3", "-", "5 5", "1e", "0x5", "5 -", "five", "1/0"):
        assert said("02a.E1", text) != "right."


def test_a_key_holds_nothing_that_nobody_reads():
    fields = {"answer", "tolerance", "unit", "any_order", "help", "mistakes"}
    for key in KEYS.values():
        assert set(key) <= fields
        assert all(set(one) <= {"value", "tolerance", "hint"} for one in key["mistakes"])
