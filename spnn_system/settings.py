"""The tables of a run's config file: every key with what it accepts and what it is when left
out.
"""

import math
import re
from collections.abc import Sequence
from dataclasses import dataclass, field, fields
from pathlib import Path
from typing import Any

# as ppkit.spnn.protocols has them, without loading torch
PROTOCOLS = ("plain", "ss", "he", "masked")
FORMS = ("lean", "published", "dealerless")
ACTIVATIONS = ("sigmoid", "relu", "piecewise")
# torch's, by the names that a config gives them; beside them sgd and sgld, zhou2021's equations
TORCH_OPTIMISERS = {
    name.lower(): name
    for name in ("Adadelta", "Adagrad", "Adam", "Adamax", "AdamW", "NAdam", "RAdam", "RMSprop")
}
TEACHING_KEY_BITS = 64
_RATE = re.compile(r"(\d+(?:\.\d+)?) ?(bps|Kbps|Mbps|Gbps)")
_RUN = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]{0,63}")
_NAME = re.compile(r"[A-Za-z][A-Za-z0-9_-]{0,31}")


def _setting(accepted: str, holds, default: Any = ..., read=lambda value: value, *, note: str = ""):
    return field(
        **({} if default is ... else {"default": default}),
        metadata={
            "accepted": accepted,
            "holds": holds,
            "read": read,
            "required": default is ...,
            "note": note,
        },
    )


def _text(value) -> bool:
    return isinstance(value, str) and bool(value.strip())


def _whole(low: int, high: int = 2**63 - 1):
    return lambda value: type(value) is int and low <= value <= high


def _number(low: float, high: float = math.inf, *, open_below: bool = False):
    return lambda value: (
        type(value) in (int, float)
        and math.isfinite(value)
        and (low < value if open_below else low <= value)
        and value <= high
    )


def _one_of(*names: str) -> dict:
    return {
        "accepted": "one of " + ", ".join(names),
        "holds": lambda value: type(value) is str and value in names,
    }


BANDWIDTH = (
    'a number of bits per second >= 0 (0: no limit), or such as "100 Kbps", "100 Mbps", "1 Gbps"'
)


def bits_per_second(value: float | str) -> float:
    """A bandwidth in bits per second, from a number or words; 0 stands for no limit.

    >>> bits_per_second("100 Mbps"), bits_per_second(2500)
    (100000000.0, 2500.0)
    """
    if not isinstance(value, str):
        return float(value)
    number, unit = _RATE.fullmatch(value.strip()).groups()
    return float(number) * {"bps": 1.0, "Kbps": 1e3, "Mbps": 1e6, "Gbps": 1e9}[unit]


@dataclass(frozen=True, slots=True, kw_only=True)
class Run:
    """The keys above all tables.  folder: of the run's parts.  source: where the rows come from."""

    run: str = _setting(
        "letters, digits, '.', '-' and '_', at most 64",
        lambda value: isinstance(value, str) and _RUN.fullmatch(value),
    )
    folder: Path = _setting("text", _text, "run", Path)
    source: str = _setting("text", _text)


@dataclass(frozen=True, slots=True, kw_only=True)
class Network:
    """[network].  bandwidth: bits per second of a link in one direction, 0: no limit.  latency,
    timeout: seconds.  These three are what an Endpoint wants of its links.
    """

    certificates: Path = _setting("a folder", _text, "certificates", Path)
    timeout: float = _setting(
        "seconds, 0.5 to 3600",
        _number(0.5, 3600),
        10.0,
        float,
        note="without a sign of life of a role, after which everyone stops",
    )
    bandwidth: float = _setting(
        BANDWIDTH,
        lambda value: (
            _number(0)(value) or (isinstance(value, str) and _RATE.fullmatch(value.strip()))
        ),
        0.0,
        bits_per_second,
        note="of a link in one direction",
    )
    latency: float = _setting("seconds, 0 to 10", _number(0, 10), 0.0, float)
    record: bool = _setting(
        "true or false",
        lambda value: type(value) is bool,
        False,
        note="true: each role keeps what it received",
    )
    start_timeout: float = _setting(
        "seconds, 0.5 to 86400",
        _number(0.5, 86400),
        60.0,
        float,
        note="that a role may take to start, read its rows and say hello",
    )


@dataclass(frozen=True, slots=True, kw_only=True)
class Protocol:
    """[protocol].  form: of ss, else None.  key_bits: of he and of form dealerless, else None.
    secrets: "teaching" repeats from training.seed.
    """

    name: str = _setting(**_one_of(*PROTOCOLS))
    form: str | None = _setting(**_one_of(*FORMS), default=None)
    key_bits: int | None = _setting(
        f"a multiple of 16, at least {TEACHING_KEY_BITS}",
        lambda value: _whole(TEACHING_KEY_BITS)(value) and not value % 16,
        None,
    )
    secrets: str = _setting(
        **_one_of("os", "teaching"),
        default="os",
        note="teaching: all repeats from training.seed, NOT SECRET",
    )

    @property
    def origin(self) -> str:
        """Where the secrets of a run come from, in words that stand with its results."""
        return (
            "from a seed, for teaching: NOT SECRET"
            if self.secrets == "teaching"
            else "from the operating system"
        )

    @property
    def has_dealer(self) -> bool:
        return self.name == "ss" and self.form != "dealerless"

    @property
    def choices(self) -> dict[str, Any]:
        """What protocols.side_of takes beside name and form: key_bits and teaching where there are
        Paillier keys, else nothing.
        """
        return (
            {"key_bits": self.key_bits, "teaching": self.secrets == "teaching"}
            if self.key_bits
            else {}
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class Model:
    """[model].  hidden: widths of the hidden layers, the first is h1's.  activation: one a hidden
    layer.  classes: of the labels, 0 to classes - 1.

    layers_sha256: of the file of the server's own layers, "" where it has none; hidden is then the
    widths that they lead from and to, and activation is theirs.
    """

    private: int = _setting(
        "1 (more private layers run only in one process, as SecureML(net, private=i))",
        _whole(1, 1),
        1,
    )
    hidden: tuple[int, ...] = _setting(
        "a list of widths, each 1 to 100000",
        lambda value: type(value) is list and value and all(map(_whole(1, 10**5), value)),
        (8, 8),
        tuple,
    )
    activation: tuple[str, ...] = _setting(
        f"one of {', '.join(ACTIVATIONS)}, or a list of them, one a hidden layer",
        lambda value: all(
            type(name) is str and name in ACTIVATIONS
            for name in (value if type(value) is list else [value])
        ),
        "sigmoid",
        lambda value: value if isinstance(value, str) else tuple(value),
    )
    classes: int = _setting("a whole number, 2 to 100000", _whole(2, 10**5), 2)
    layers_sha256: str = _setting(
        '64 hexadecimal digits, or ""',
        lambda value: isinstance(value, str) and re.fullmatch("(?:[0-9a-f]{64})?", value),
        "",
        note="of the file of the server's own layers, if it has any",
    )

    @property
    def n_outputs(self) -> int:
        """Logits of a record: one for two classes, else one a class."""
        return 1 if self.classes == 2 else self.classes


@dataclass(frozen=True, slots=True, kw_only=True)
class Training:
    """[training].  The first train_rows rows of every file are trained on, the others are tested
    on.
    """

    train_rows: int = _setting(
        "a whole number >= 1",
        _whole(1),
        note="the first rows of every file; the others are tested on",
    )
    epochs: int = _setting("a whole number >= 1", _whole(1), 1)
    batch: int = _setting("a whole number >= 1", _whole(1), 5000)
    lr: float = _setting(
        "a finite number > 0",
        _number(0, open_below=True),
        5.0,
        float,
        note="what suits sgd is far too long for adam and its kin: 0.001 there",
    )
    optimiser: str = _setting(**_one_of("sgd", "sgld", *TORCH_OPTIMISERS), default="sgd")
    order: str = _setting(
        **_one_of("fixed", "reshuffled"),
        default="fixed",
        note="reshuffled: as only the holders know",
    )
    seed: int = _setting(
        "a whole number >= 0", _whole(0), 0, note='used where secrets = "teaching"'
    )
    checkpoint_every: int = _setting("a whole number of steps >= 1", _whole(1), 10)
    stop_below: float = _setting(
        "a number >= 0 (0: never)",
        _number(0),
        0.0,
        float,
        note="stop when the mean training loss of an epoch falls below",
    )
    threads: int = _setting("a whole number, 1 to 256", _whole(1, 256), 1)

    @property
    def steps_per_epoch(self) -> int:
        """Batches of an epoch; the last one has what is left."""
        return -(-self.train_rows // self.batch)

    @property
    def last_step(self) -> int:
        """Of the whole training, which begins with step 1."""
        return self.epochs * self.steps_per_epoch

    def sizes(self, n_rows: int) -> list[int]:
        """The records of each batch when n_rows are taken in order."""
        return [min(self.batch, n_rows - start) for start in range(0, n_rows, self.batch)]

    def saves_after(self, step: int) -> bool:
        """Whether every role writes a checkpoint after this step: every so many, and at the end of
        each epoch.
        """
        return step % self.checkpoint_every == 0 or step % self.steps_per_epoch == 0


@dataclass(frozen=True, slots=True, kw_only=True)
class Role:
    """[coordinator] and [dealer].  address: host:port where the role listens."""

    address: str = _setting("host:port", _text)


@dataclass(frozen=True, slots=True, kw_only=True)
class Server(Role):
    """[server].  layers: the file of its own layers, which only the server's copy needs to name."""

    layers: Path | None = _setting("the path of a file", _text, None, Path)


@dataclass(frozen=True, slots=True, kw_only=True)
class Holder:
    """One [[holder]].  data: its own file.  labels: the column of the labels at the label holder,
    else None.  predict: the file of its new rows, for `ppkit spnn predict`; None: there are none.
    """

    name: str = _setting(
        "letters, digits, - and _, a letter first, at most 32",
        lambda value: isinstance(value, str) and _NAME.fullmatch(value),
    )
    address: str = _setting("host:port", _text)
    data: Path = _setting(
        "a .parquet or .csv file",
        lambda value: _text(value) and Path(value).suffix in (".parquet", ".csv"),
        read=Path,
    )
    labels: str | None = _setting("the name of a column", _text, None)
    predict: Path | None = _setting(
        "a .parquet or .csv file",
        lambda value: _text(value) and Path(value).suffix in (".parquet", ".csv"),
        None,
        Path,
    )


SECTIONS = {"network": Network, "protocol": Protocol, "model": Model, "training": Training}


def section(kind: type, given: dict, title: str, others: Sequence[str] = ()):
    """One table as its dataclass.  ValueError for the first key that is unknown or missing, or
    value that is not accepted.

    others: keys that may stand there too, and are read elsewhere.

    >>> section(Role, {"address": 7}, "[server]")
    Traceback (most recent call last):
    ValueError: [server] address must be host:port, got 7
    """
    if not isinstance(given, dict):
        raise ValueError(f"{title} must be a table of keys, got {given!r}")
    settings, values = {f.name: f.metadata for f in fields(kind)}, {}
    for key in given:
        if key not in (*settings, *others):
            known = ", ".join((*settings, *others))
            raise ValueError(f"{title} has no key {key!r}: there are {known}")
    for key, about in settings.items():
        if key not in given:
            if about["required"]:
                raise ValueError(f"{title} has no {key}: it must be {about['accepted']}")
        elif not about["holds"](given[key]):
            raise ValueError(f"{title} {key} must be {about['accepted']}, got {given[key]!r}")
        else:
            values[key] = about["read"](given[key])
    return kind(**values)
