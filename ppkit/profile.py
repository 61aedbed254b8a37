"""What a notebook runs with: its parameters, judged, and the sizes of its profile, changed where a
parameter asks for it."""

from collections.abc import Callable, Mapping
from types import SimpleNamespace
from typing import NamedTuple

from ppkit.sources import SOURCES


class Accepted(NamedTuple):
    """What a parameter may be: in words, and a function that says whether a value is that."""

    words: str
    fits: Callable[[object], bool]

    def __or__(self, other: "Accepted") -> "Accepted":
        return Accepted(
            f"{self.words} or {other.words}", lambda value: self.fits(value) or other.fits(value)
        )


def one_of(*values, why: str = "") -> Accepted:
    """One of these values, of the same type; why: ends the words, for example ", which the text is
    written for"."""
    return Accepted(
        " or ".join(map(repr, values)) + why,
        lambda value: type(value) in map(type, values) and value in values,
    )


def whole(least: int, most: int, why: str = "") -> Accepted:
    """A whole number, both ends included: no bool, no 3.0; why: ends the words."""
    return Accepted(
        f"a whole number from {least:,} to {most:,}{why}",
        lambda value: type(value) is int and least <= value <= most,
    )


def number(least: float, most: float, why: str = "") -> Accepted:
    """A number, both ends included: no bool, no text, no NaN; why: ends the words."""
    return Accepted(
        f"a number from {least:,g} to {most:,g}{why}",
        lambda value: (
            isinstance(value, (int, float))
            and not isinstance(value, bool)
            and least <= value <= most
        ),
    )


class Settings(SimpleNamespace):
    """The resolved settings of one run; printing it shows one line a setting."""

    def __repr__(self) -> str:
        width = max(map(len, vars(self)))
        return "\n".join(f"{name:<{width}}  {value}" for name, value in vars(self).items())


def of(
    parameters: Mapping[str, object], sizes: Mapping[str, dict], **accepted: Accepted
) -> Settings:
    """The settings of the profile that the parameters name, after every parameter was judged.

    parameters: by name, with PROFILE, SOURCE and SEED among them; a notebook gives its globals().
    sizes: one dict of settings per profile, all with the same names.
    accepted: what each other parameter may be.  One that is called as a setting, N_ROWS as n_rows,
    takes its place; 0 or "" leaves the setting as the profile has it.
    Returns Settings with `.profile` and one attribute a setting.
    ValueError on the first parameter that is not accepted, with its name, its value and what is.

    >>> asked = dict(PROFILE="quick", SOURCE="auto", SEED=0, N_ROUNDS=25)
    >>> sizes = {"quick": {"n_rounds": 10}, "paper": {"n_rounds": 300}}
    >>> of(asked, sizes, N_ROUNDS=whole(10, 1_000)).n_rounds
    25
    >>> of(asked | {"N_ROUNDS": 0}, sizes, N_ROUNDS=whole(10, 1_000)).n_rounds
    10
    >>> of(asked | {"N_ROUNDS": 3}, sizes, N_ROUNDS=whole(10, 1_000))
    Traceback (most recent call last):
    ValueError: N_ROUNDS must be 0 or a whole number from 10 to 1,000, got 3
    """
    settings = dict(sizes[_judged(parameters, "PROFILE", one_of(*sizes))])
    for name, rule in {"SOURCE": one_of(*SOURCES), "SEED": whole(0, 2**32 - 1), **accepted}.items():
        setting = name.lower()
        if setting in settings:
            unset = type(settings[setting])()
            settings[setting] = _judged(parameters, name, one_of(unset) | rule) or settings[setting]
        else:
            _judged(parameters, name, rule)
    return Settings(profile=parameters["PROFILE"], **settings)


def _judged(parameters: Mapping[str, object], name: str, rule: Accepted):
    value = parameters[name]
    if not rule.fits(value):
        raise ValueError(f"{name} must be {rule.words}, got {value!r:.60}")
    return value
