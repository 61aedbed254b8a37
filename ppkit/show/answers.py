"""What an answer to an exercise stands for, in whichever form it comes, and the verdict on it."""

import re
import reprlib
from collections.abc import Collection, Mapping
from dataclasses import dataclass

import numpy as np

NOT_YET = (None, ...)  # what stands in a stub
ROUNDING = 1e-6  # of a few float32 operations, relative; no answer is refused for it
COUNTS = {1: "One number is", 2: "Two numbers are", 3: "Three numbers are"}
TEXT = re.compile(
    r"(?P<number>[-+]?(\d[\d,_ ]*\.?\d*|\.\d+)(e[-+]?\d+)?)(\s*/\s*(?P<over>\d+))?"
    r"\s*(?P<percent>%|per ?cent\b)?\s*[A-Za-z ]*\.?"
)


@dataclass(frozen=True)
class Verdict:
    """Whether an answer is right, and what is said of it.

    A cell that ends in a verdict shows no second line: `check` has printed the text already.
    """

    right: bool
    text: str

    def _ipython_display_(self) -> None:
        """Nothing more."""


def verdict(key: Mapping, value, *, misses: int = 0) -> Verdict:
    """What is said of an answer: "not yet", right, or not right with a hint where there is one.

    key: of the exercise, as `check` describes it.  value: the answer, in any form.
    misses: answers before this one that were not right.  From the second on the key's `help` is
    given where nothing better is known.

    >>> verdict({"answer": 9000, "unit": "bytes"}, "9,000")
    Verdict(right=True, text='right.')
    >>> verdict({"answer": 9000, "unit": "bytes"}, 9).text
    'not right. That is 1,000 times too little. Give the answer in bytes.'
    """
    if any(value is empty for empty in NOT_YET):
        return Verdict(False, "not yet. Put your answer in its place, and run this cell again.")
    try:
        found = understood(key, value)
    except ValueError as error:
        return Verdict(False, f"not right. {error}")
    tolerance = key.get("tolerance", 0.0)
    if _is_within(key, found, key["answer"], tolerance):
        return Verdict(True, "right.")
    for mistake in key.get("mistakes", ()):
        if _is_within(key, found, mistake["value"], mistake.get("tolerance", tolerance)):
            return Verdict(False, f"not right. {mistake['hint']}")
    hint = _other_unit(key, found) or (key.get("help", "") if misses else "")
    return Verdict(False, f"not right. {hint}".rstrip())


def understood(key: Mapping, value) -> np.ndarray:
    """The numbers that an answer stands for.

    They may come in a list, tuple, array, tensor, table or text, in any shape; a set or a mask
    where the key says `any_order`.
    ValueError, with what is expected, if the answer is of another kind.
    """
    items = _items(value)
    if key.get("any_order"):
        return _in_order(_numbers(_places(items), "Whole numbers are"))
    n = np.size(key["answer"])
    expected = COUNTS.get(n, f"{n} numbers are")
    if isinstance(value, (set, frozenset)) and n > 1:
        raise ValueError(f"{expected} expected in order, and a set has no order.")
    numbers = _numbers(_parts(items) if n > 1 else items, expected)
    if len(numbers) != n:
        raise ValueError(f"{expected} expected, got {len(numbers)}.")
    return np.array(numbers)


def _items(value) -> list:
    """The single numbers, texts and truth values in it; Python's own, whatever held them."""
    if hasattr(value, "to_numpy"):
        value = value.to_numpy()
    if hasattr(value, "tolist"):  # of numpy and torch, a tensor that requires a gradient too
        value = value.tolist()
    if isinstance(value, Mapping):
        value = value.values()
    if isinstance(value, Collection) and not isinstance(value, (str, bytes)):
        return [item for part in value for item in _items(part)]
    return [value]


def _parts(items: list) -> list:
    """The numbers of one text apart: "1.5, -2, 4"."""
    if len(items) == 1 and isinstance(items[0], str):
        return [part for part in re.split(r"[\s,;()\[\]{}]+|\band\b", items[0]) if part]
    return items


def _places(items: list) -> list:
    """Places as they are; of a mask, the places that it marks."""
    flags = [item for item in items if item in (0, 1)]
    is_mask = len(items) > 2 and len(flags) == len(items)
    if is_mask or all(isinstance(item, bool) for item in items):
        return [place for place, marked in enumerate(items) if marked]
    return _parts(items)


def _numbers(items: list, expected: str) -> list[float]:
    numbers = []
    for item in items:
        try:
            numbers.append(_number(item))
        except (TypeError, ValueError, ArithmeticError):
            raise ValueError(f"{expected} expected, got {_named(item)}.") from None
    return numbers


def _number(item) -> float:
    if isinstance(item, bool):
        raise TypeError("a truth value is no number")
    number = _of_text(item) if isinstance(item, str) else float(item)
    if not np.isfinite(number):
        raise ValueError("not finite")
    return number


def _of_text(text: str) -> float:
    """The number that a text means: "9,000", "3.39 %", "1/4", "10.24 ms", "0,0339"."""
    match = TEXT.fullmatch(text.strip().replace("\N{MINUS SIGN}", "-"))
    if not match:
        raise ValueError("no number")
    digits = re.sub("[ _]", "", match["number"])
    if re.fullmatch(r"[-+]?\d{1,3}(,\d{3})+(\.\d*)?", digits):
        digits = digits.replace(",", "")
    number = float(digits.replace(",", ".")) / float(match["over"] or 1)
    return number / 100 if match["percent"] else number


def _named(item) -> str:
    if isinstance(item, (str, bool, int, float, type(None))):
        return reprlib.repr(item)
    return f"a value of type {type(item).__name__}"


def _in_order(numbers) -> np.ndarray:
    return np.unique(np.asarray(numbers, float))


def _is_within(key: Mapping, found: np.ndarray, answer, tolerance: float) -> bool:
    """Whether the numbers found are as many as the answer has, each at most `tolerance` apart."""
    wanted = _in_order(answer) if key.get("any_order") else np.ravel(np.asarray(answer, float))
    if wanted.shape != found.shape:
        return False
    return bool(np.all(np.abs(found - wanted) <= tolerance + _rounding(wanted)))


def _rounding(wanted: np.ndarray) -> np.ndarray:
    """What float32 may add to each number, but never as much as 1 to a whole number up to 2^24:
    float32 holds those exactly, and a count that is off by one is wrong."""
    allowed = ROUNDING * np.abs(wanted)
    count = (wanted % 1 == 0) & (np.abs(wanted) <= 2**24)
    return np.where(count, np.minimum(allowed, 0.4), allowed)


def _other_unit(key: Mapping, found: np.ndarray) -> str:
    """A hint if only the unit is wrong; empty if it is something else."""
    answer = key["answer"]
    if key.get("any_order"):
        return ""
    tolerance = key.get("tolerance", 0.0)
    unit = f" Give the answer in {key['unit']}." if "unit" in key else ""

    def times(factor: float) -> bool:
        return _is_within(key, found / factor, answer, tolerance)

    if np.size(answer) == 1 and 0 < answer < 1 and times(100):
        return "That is in per cent. Give the answer as a fraction of 1."
    for power in range(1, 10):
        if times(10.0**power):
            return f"That is {10**power:,} times too much.{unit or ' Look at the decimal point.'}"
        if times(10.0**-power):
            return f"That is {10**power:,} times too little.{unit or ' Look at the decimal point.'}"
    for factor, size in ((8, "much"), (1 / 8, "little")):
        if unit and times(factor):
            return f"That is 8 times too {size}, and a byte has 8 bits.{unit}"
    return ""
