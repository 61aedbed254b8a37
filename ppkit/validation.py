"""What a setting may be; another value is refused in one sentence that names the setting, what is
accepted and the value.  And bounds that contradict each other.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Collection
from dataclasses import MISSING, fields
from functools import cache
from numbers import Real  # also what NumPy has, but for its truth values
from types import NoneType, UnionType
from typing import TYPE_CHECKING, get_args, get_origin, get_type_hints

if TYPE_CHECKING:
    import numpy as np

ACCEPTED: dict[str, Callable[[float], bool]] = {
    "> 0": lambda value: value > 0,
    ">= 0": lambda value: value >= 0,
    "a finite number > 0": lambda value: 0 < value < math.inf,
    "a finite number >= 0": lambda value: 0 <= value < math.inf,
    "in (0, 1)": lambda value: 0 < value < 1,
    "in (0, 1]": lambda value: 0 < value <= 1,
    "in [0, 1)": lambda value: 0 <= value < 1,
    "in [0, 1]": lambda value: 0 <= value <= 1,
    "a whole number >= 0": lambda value: value >= 0 and value % 1 == 0,
    "a whole number >= 1": lambda value: value >= 1 and value % 1 == 0,
    "a whole number >= 2": lambda value: value >= 2 and value % 1 == 0,
}


def must_be(accepted: str, **settings) -> None:
    """Refuse every setting that is no number or is not what is accepted, NaN included.

    accepted: a key of ACCEPTED.  settings: by their names.  ValueError for the first that is odd.

    >>> must_be("a whole number >= 1", horizon=10, n_runs=3)
    >>> must_be("> 0", epsilon=-1)
    Traceback (most recent call last):
    ValueError: epsilon must be > 0, got -1
    """
    for name, value in settings.items():
        number = isinstance(value, Real) and not isinstance(value, bool)
        if not (number and ACCEPTED[accepted](value)):
            raise ValueError(f"{name} must be {accepted}, got {value if number else repr(value)}")


def one_of(accepted: Collection, **settings) -> None:
    """Refuse every setting that is none of the accepted ones; arguments, errors as in `must_be`.

    >>> one_of(("laplace", "gaussian"), mechanism="uniform")
    Traceback (most recent call last):
    ValueError: mechanism must be one of laplace, gaussian, got 'uniform'
    """
    for name, value in settings.items():
        if isinstance(value, bool) or value not in accepted:
            raise ValueError(
                f"{name} must be one of {', '.join(map(str, accepted))}, got {value!r}"
            )


def fields_of(kind: type, told: dict, *, given: Collection[str] = ()) -> None:
    """Refuse a table of a file whose names or values are not those of a dataclass's fields.

    given: the fields that do not come from the file.  ValueError for the first that is odd.

    >>> from dataclasses import make_dataclass
    >>> fields_of(make_dataclass("Point", [("x", float), ("name", str, "")]), {"name": "a"})
    Traceback (most recent call last):
    ValueError: 'x' is missing
    """
    known = _fields(kind)
    for name, (_, needed) in known.items():
        if needed and name not in given and name not in told:
            raise ValueError(f"{name!r} is missing")
    for name, value in told.items():
        if name not in known or name in given:
            there = ", ".join(name for name in known if name not in given)
            raise ValueError(f"{name!r} is no field: there are {there}")
        kinds = known[name][0]
        if not isinstance(value, kinds) or isinstance(value, bool) and bool not in kinds:
            words = " or ".join(
                WORDS.get(one, one.__name__) for one in kinds if one is not NoneType
            )
            raise ValueError(f"{name} must be {words}, got {value!r}")


WORDS = {str: "a text in quotes", bool: "true or false", list: "a list", dict: "a table"}


@cache
def _fields(kind: type) -> dict[str, tuple[tuple[type, ...], bool]]:
    """By name the types that a field may have, without what they hold, and whether it must be
    given."""
    hints, found = get_type_hints(kind), {}
    for one in fields(kind):
        hint = hints[one.name]
        parts = get_args(hint) if isinstance(hint, UnionType) else (hint,)
        needed = one.default is MISSING and one.default_factory is MISSING
        found[one.name] = tuple(get_origin(part) or part for part in parts), needed
    return found


def not_above(attained, holds) -> None:
    """Refuse a lower bound above an upper one: one of the two computations is wrong.

    attained, holds: numbers, or arrays of one shape; a billionth is left for rounding.
    ValueError for the first pair that contradicts, NaN included.

    >>> not_above(7.8, 21.5)
    >>> not_above(696.4, 65.3)
    Traceback (most recent call last):
    ValueError: 696.4 is attained, but 65.3 is proved to hold: one of the two is wrong
    """
    import numpy as np

    lower, upper = np.broadcast_arrays(*(np.asarray(v, float) for v in (attained, holds)))
    for low, high in zip(lower.ravel().tolist(), upper.ravel().tolist()):
        if not low <= high + 1e-9 * abs(high):
            raise ValueError(
                f"{low:.6g} is attained, but {high:.6g} is proved to hold: one of the two is wrong"
            )


def finite(**arrays) -> None:
    """Refuse every array or tensor of real numbers that holds NaN or infinity; errors as in
    `must_be`.
    """
    import numpy as np

    for name, values in arrays.items():
        values = np.asarray(values)
        bad = values.size - np.count_nonzero(np.isfinite(values))
        if bad:
            raise ValueError(
                f"{name} must be finite, got {bad} of {values.size} values that are NaN or infinite"
            )


def binary(**arrays) -> None:
    """Refuse every array or tensor that holds anything but 0 and 1; errors as in `must_be`."""
    import numpy as np

    for name, values in arrays.items():
        odd = (values := np.asarray(values))[(values != 0) & (values != 1)]
        if odd.size:
            raise ValueError(f"{name} must be 0 or 1, got {odd[0]}")


_NO_NUMBERS = {"M": "dates", "m": "spans of time", "c": "complex numbers"}  # by numpy's kind


def numbers(name: str, values) -> np.ndarray:
    """An array, a table or a list as float64, where None is NaN; ValueError that names it, where a
    value is text (also a number as text), a date or complex.

    >>> numbers("X", [[1, 2]])
    array([[1., 2.]])
    >>> numbers("X", ["1", "2"])
    Traceback (most recent call last):
    ValueError: X must be numbers, with text as codes: got '1'
    """
    import numpy as np

    try:
        array = np.asarray(values)
    except ValueError as error:  # rows of unlike lengths
        raise ValueError(f"{name} must be numbers: {error}") from None
    kinds = {array.dtype.kind}
    if hasattr(values, "columns"):  # in a table each has a kind of its own
        kinds |= {dtype.kind for dtype in values.dtypes}
    text = (str(one) for one in array.flat if isinstance(one, str | bytes))
    if kinds & {*"OUS"} and (one := next(text, None)) is not None:
        raise ValueError(f"{name} must be numbers, with text as codes: got {one!r}")
    if odd := sorted(kinds & _NO_NUMBERS.keys()):
        raise ValueError(f"{name} must be numbers, got {_NO_NUMBERS[odd[0]]}")
    try:
        return array.astype(np.float64, copy=False)
    except (TypeError, ValueError) as error:
        raise ValueError(f"{name} must be numbers: {error}") from None


def same_rows(**arrays) -> None:
    """Refuse arrays of which one has more rows than another; ValueError that names all of them.

    >>> same_rows(X=[[1.0], [2.0]], y=[0])
    Traceback (most recent call last):
    ValueError: X and y must have the same rows, got 2 and 1
    """
    counts = [len(values) for values in arrays.values()]
    if len(set(counts)) > 1:
        names, sizes = " and ".join(arrays), " and ".join(map(str, counts))
        raise ValueError(f"{names} must have the same rows, got {sizes}")
