"""The TOML file that all roles of a run read: who listens where, protocol, network, training.

Here every key is checked and gets its type, once, before anything starts.
"""

import hashlib
import json
import re
import shlex
import sys
import tomllib
from collections.abc import Callable, Sequence
from dataclasses import MISSING, asdict, dataclass, field, fields, replace
from pathlib import Path
from typing import Any

from spnn_system.transport.addresses import Address
from spnn_system.transport.shaping import Links

NOT_HOLDERS = ("coordinator", "server", "dealer")
# as ppkit.spnn has them, without loading torch
PROTOCOLS = ("plain", "ss", "he", "masked")
FORMS = ("lean", "published", "dealerless")
ACTIVATIONS = ("sigmoid", "relu", "piecewise")
# torch's, by the names that a config gives them; beside them sgd and sgld, zhou2021's equations
TORCH_OPTIMISERS = {
    name.lower(): name
    for name in ("Adadelta", "Adagrad", "Adam", "Adamax", "AdamW", "NAdam", "RAdam", "RMSprop")
}
SECURE_KEY_BITS, TEACHING_KEY_BITS = 2048, 64
_LARGEST = 2**63 - 1
_RATE = re.compile(r"(\d+(?:\.\d+)?) ?(bps|Kbps|Mbps|Gbps)")
_BITS = {"bps": 1.0, "Kbps": 1e3, "Mbps": 1e6, "Gbps": 1e9}


@dataclass(frozen=True)
class Kind:
    """accepted: the values of a key, in words.  read: makes a value of what TOML gives; ValueError
    for all that is not accepted.
    """

    accepted: str
    read: Callable[[Any], Any]


def _setting(kind: Kind, default: Any = MISSING, *, note: str = "") -> Any:
    return field(default=default, metadata={"kind": kind, "note": note})


def _text(accepted: str, pattern: str = r"(?s).*\S.*", form: Callable[[str], Any] = str) -> Kind:
    def read(value: Any) -> Any:
        if not isinstance(value, str) or not re.fullmatch(pattern, value):
            raise ValueError
        return form(value)

    return Kind(accepted, read)


def _whole(low: int, high: int = _LARGEST) -> Kind:
    def read(value: Any) -> int:
        if type(value) is not int or not low <= value <= high:
            raise ValueError
        return value

    wanted = f">= {low}" if high == _LARGEST else f"of {low} to {high}"
    return Kind(f"a whole number {wanted}", read)


def _number(accepted: str, low: float, high: float = sys.float_info.max) -> Kind:
    def read(value: Any) -> float:
        if type(value) not in (int, float) or not low <= value <= high:
            raise ValueError
        return float(value)

    return Kind(accepted, read)


def _one_of(*names: Any) -> Kind:
    def read(value: Any) -> Any:
        if value not in names:
            raise ValueError
        return value

    return Kind(f"one of {', '.join(names)}", read)


def _boolean(value: Any) -> bool:
    if type(value) is not bool:
        raise ValueError
    return value


def bits_per_second(value: Any) -> float:
    """A bandwidth in bits per second, from a number or words; 0 stands for no limit.

    >>> bits_per_second("100 Mbps"), bits_per_second(2500)
    (100000000.0, 2500.0)
    """
    if not isinstance(value, str):
        return _number("", 0).read(value)
    words = _RATE.fullmatch(value.strip())
    if words is None:
        raise ValueError
    return float(words[1]) * _BITS[words[2]]


def _widths(value: Any) -> tuple[int, ...]:
    if type(value) is not list or not value:
        raise ValueError
    return tuple(_whole(1, 10**5).read(width) for width in value)


def _activations(value: Any) -> tuple[str, ...]:
    names = value if type(value) is list else [value]
    return tuple(_one_of(*ACTIVATIONS).read(name) for name in names)


def _key_bits(value: Any) -> int:
    if _whole(TEACHING_KEY_BITS).read(value) % 16:
        raise ValueError
    return value


BANDWIDTH = Kind(
    'a number of bits per second >= 0 (0: no limit), or such as "100 Kbps", "100 Mbps", "1 Gbps"',
    bits_per_second,
)
ADDRESS = Kind(
    "host:port, where the others reach this role, with a port of 1 to 65535", Address.parse
)
ROWS = _text("a .parquet or .csv file", r".*\.(parquet|csv)", Path)


@dataclass(frozen=True, slots=True, kw_only=True)
class Run:
    """The keys above all tables.  folder: of the run's parts.  source: where the rows come from."""

    run: str = _setting(
        _text("letters, digits, '.', '-' and '_', at most 64", r"[A-Za-z0-9][A-Za-z0-9._-]{0,63}")
    )
    folder: Path = _setting(_text("text", form=Path), Path("run"))
    source: str = _setting(_text("text"))


@dataclass(frozen=True, slots=True, kw_only=True)
class Network(Links):
    """[network]: what the links are like, and what a role keeps of them."""

    certificates: Path = _setting(_text("a folder", form=Path), Path("certificates"))
    timeout: float = _setting(
        _number("seconds, 0.5 to 3600", 0.5, 3600),
        10.0,
        note="without a sign of life of a role, after which everyone stops",
    )
    bandwidth: float = _setting(BANDWIDTH, 0.0, note="of a link in one direction")
    latency: float = _setting(_number("seconds, 0 to 10", 0, 10), 0.0)
    record: bool = _setting(
        Kind("true or false", _boolean), False, note="true: each role keeps what it received"
    )
    start_timeout: float = _setting(
        _number("seconds, 0.5 to 86400", 0.5, 86400),
        60.0,
        note="that a role may take to start, read its rows and say hello",
    )


@dataclass(frozen=True, slots=True, kw_only=True)
class Protocol:
    """[protocol].  form: of ss, else None.  key_bits: of he and of form dealerless, else None.
    secrets: "teaching" repeats from training.seed.
    """

    name: str = _setting(_one_of(*PROTOCOLS))
    form: str | None = _setting(_one_of(*FORMS), None)
    key_bits: int | None = _setting(
        Kind(f"a multiple of 16, at least {TEACHING_KEY_BITS}", _key_bits), None
    )
    secrets: str = _setting(
        _one_of("os", "teaching"), "os", note="teaching: all repeats from training.seed, NOT SECRET"
    )

    @property
    def origin(self) -> str:
        """Where the secrets of a run come from, in words that stand with its results."""
        if self.secrets == "teaching":
            return "from a seed, for teaching: NOT SECRET"
        return "from the operating system"

    @property
    def has_dealer(self) -> bool:
        return self.name == "ss" and self.form != "dealerless"

    @property
    def has_keys(self) -> bool:
        """Whether a role has a Paillier key."""
        return self.name == "he" or self.form == "dealerless"

    @property
    def choices(self) -> dict[str, Any]:
        """What protocols.side_of takes beside name and form."""
        if not self.has_keys:
            return {}
        return {"key_bits": self.key_bits, "teaching": self.secrets == "teaching"}


@dataclass(frozen=True, slots=True, kw_only=True)
class Model:
    """[model].  hidden: widths of the hidden layers, the first is h1's.  activation: one a hidden
    layer.  classes: of the labels, 0 to classes - 1.

    layers_sha256: of the file of the server's own layers, "" where it has none; hidden is then the
    widths that they lead from and to, and activation is theirs.
    """

    hidden: tuple[int, ...] = _setting(Kind("a list of widths, each 1 to 100000", _widths), (8, 8))
    activation: tuple[str, ...] = _setting(
        Kind(
            f"one of {', '.join(ACTIVATIONS)}, or a list of them, one a hidden layer", _activations
        ),
        ("sigmoid",),
    )
    classes: int = _setting(_whole(2, 10**5), 2)
    layers_sha256: str = _setting(
        _text('64 hexadecimal digits, or ""', "(?:[0-9a-f]{64})?"),
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
        _whole(1), note="the first rows of every file; the others are tested on"
    )
    epochs: int = _setting(_whole(1), 1)
    batch: int = _setting(_whole(1), 5000)
    lr: float = _setting(
        _number("a finite number > 0", sys.float_info.min),
        5.0,
        note="what suits sgd is far too long for adam and its kin: 0.001 there",
    )
    optimiser: str = _setting(_one_of("sgd", "sgld", *TORCH_OPTIMISERS), "sgd")
    order: str = _setting(
        _one_of("fixed", "reshuffled"), "fixed", note="reshuffled: as only the holders know"
    )
    seed: int = _setting(_whole(0), 0, note='used where secrets = "teaching"')
    checkpoint_every: int = _setting(_whole(1), 10, note="so many steps")
    threads: int = _setting(_whole(1, 256), 1)

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
    """[coordinator] and [dealer]."""

    address: Address = _setting(ADDRESS)


@dataclass(frozen=True, slots=True, kw_only=True)
class Server(Role):
    """[server].  layers: the file of its own layers, which only the server's copy needs to name."""

    layers: Path | None = _setting(_text("the path of a file", form=Path), None)


@dataclass(frozen=True, slots=True, kw_only=True)
class Holder(Role):
    """One [[holder]].  data: its own file.  labels: the column of the labels at the label holder,
    else None.  predict: the file of its new rows, for `ppkit spnn predict`; None: there are none.
    """

    name: str = _setting(
        _text("letters, digits, - and _, a letter first, at most 32", "[A-Za-z][A-Za-z0-9_-]{0,31}")
    )
    data: Path = _setting(ROWS)
    labels: str | None = _setting(_text("the name of a column"), None)
    predict: Path | None = _setting(ROWS, None)


SECTIONS: dict[str, type] = {
    "network": Network,
    "protocol": Protocol,
    "model": Model,
    "training": Training,
}


@dataclass(frozen=True, slots=True, kw_only=True)
class Config(Run):
    """A run as its file says it: the keys above all tables, and the tables.  path: of the file.
    folder: each role leaves its part in folder/<role>/.

    typed: the file as its user named it, quoted as a shell wants it, for sentences.
    addresses: of every role that this run has: coordinator, server, dealer (where the protocol has
    one), then the holders by name, in the file's order.
    layers: the file of the server's own layers, None where this copy names none.
    trained: for a prediction, the folder of the training whose parts are used; None: a training.
    """

    path: Path
    typed: str
    network: Network
    protocol: Protocol
    model: Model
    training: Training
    addresses: dict[str, Address] = field(hash=False)
    holders: tuple[Holder, ...]
    layers: Path | None = None
    trained: Path | None = None

    @property
    def roles(self) -> tuple[str, ...]:
        """All, in the order of `addresses`."""
        return tuple(self.addresses)

    @property
    def names(self) -> tuple[str, ...]:
        """The holders, in the file's order."""
        return tuple(holder.name for holder in self.holders)

    @property
    def label_holder(self) -> str:
        """The one holder with labels."""
        return next(holder.name for holder in self.holders if holder.labels)

    def holder(self, name: str) -> Holder:
        """One holder."""
        return self.holders[self.names.index(name)]

    @property
    def kind(self) -> str:
        """What a run of it is, in a word."""
        return "prediction" if self.trained else "training"

    @property
    def notice(self) -> str:
        """What every role says of its secrets when it starts; "" where there is nothing to say."""
        if self.protocol.secrets == "teaching":
            return f"secrets: {self.protocol.origin}"
        if self.network.record:
            return (
                "record = true: received.frames keeps all that came here, seeds of masks too: "
                "remove it after the lesson"
            )
        return ""

    def prediction(self) -> "Config":
        """The run that sends the holders' new rows through the trained network: no epoch, test
        only.

        Its folder lies beside the training's, as <folder>-predicted.  ValueError if a holder has no
        file of new rows.
        """
        holders = []
        for holder in self.holders:
            if holder.predict is None:
                raise ValueError(
                    f"{self.typed}: [[holder]] {holder.name} has no predict: it must name the file "
                    "of its new rows"
                )
            holders.append(replace(holder, data=holder.predict))
        return replace(
            self,
            run=f"{self.run}.predict",
            folder=self.folder.with_name(f"{self.folder.name}-predicted"),
            trained=self.folder,
            training=replace(self.training, train_rows=0, epochs=0),
            holders=tuple(holders),
        )

    def check_role(self, role: str) -> None:
        """ValueError with the roles there are, if it is none of them."""
        if role not in self.roles:
            raise ValueError(
                f"{self.typed} has no role {role!r}: with protocol {self.protocol.name!r} there "
                f"are {', '.join(self.roles)}"
            )

    def folder_of(self, role: str) -> Path:
        """Where a role keeps what is its own."""
        return self.folder / role

    @property
    def digest(self) -> str:
        """SHA-256 over what decides a run's messages and result: all but addresses, paths and
        [network].

        Roles compare it, so that machines with different files notice; a resumed run must have the
        same.
        """
        holders = [[holder.name, holder.labels is not None] for holder in self.holders]
        sections = [asdict(part) for part in (self.protocol, self.model, self.training)]
        decides = json.dumps([self.run, self.source, holders, sections])
        return hashlib.sha256(decides.encode()).hexdigest()


def load(path: str | Path) -> Config:
    """The config of a TOML file, or of config.toml in a folder; paths in it are relative to the
    file.

    FileNotFoundError if it is not there or no file; ValueError in one sentence that names file,
    section, key, value and what is accepted, for the first mistake. No other file is read, and no
    address is looked up: `preflight` does that.
    """
    path = Path(path)
    if path.is_dir():
        path /= "config.toml"
    if not path.is_file():
        raise FileNotFoundError(
            f"the config file {path} is not there: `ppkit spnn example FOLDER` writes one to start "
            "from"
        )
    try:
        return parse(path.read_text("utf-8"), path)
    except UnicodeDecodeError as error:
        raise ValueError(f"{path} is not TOML: {error}") from None


def parse(text: str, path: Path) -> Config:
    """The config that a text says, as if it stood in the file `path`.  ValueError: as `load`."""
    try:
        return _config(tomllib.loads(text), path)
    except tomllib.TOMLDecodeError as error:
        raise ValueError(f"{path} is not TOML: {error}") from None
    except ValueError as error:
        raise ValueError(f"{path}: {error}") from None


def table(kind: type, given: Any, title: str, others: Sequence[str] = ()) -> Any:
    """One table as its dataclass.  ValueError for the first key that is unknown or missing, or
    value that is not accepted.

    others: keys that may stand there too, and are read elsewhere.

    >>> table(Role, {"address": 7}, "[dealer]")  # doctest: +ELLIPSIS
    Traceback (most recent call last):
    ValueError: [dealer] address must be host:port, where ..., got 7
    """
    if not isinstance(given, dict):
        raise ValueError(f"{title} must be a table of keys, got {given!r}")
    settings = {each.name: each for each in fields(kind)}
    known = [*settings, *others]
    values = {}
    for key, value in given.items():
        if key not in known:
            raise ValueError(f"{title} has no key {key!r}: there are {', '.join(known)}")
        if key in settings:
            accepts = settings[key].metadata["kind"]
            try:
                values[key] = accepts.read(value)
            except ValueError:
                raise ValueError(
                    f"{title} {key} must be {accepts.accepted}, got {value!r}"
                ) from None
    for key, setting in settings.items():
        if key not in given and setting.default is MISSING:
            raise ValueError(
                f"{title} has no {key}: it must be {setting.metadata['kind'].accepted}"
            )
    return kind(**values)


def _config(read: dict[str, Any], path: Path) -> Config:
    top = table(Run, read, "the config", (*SECTIONS, *NOT_HOLDERS, "holder"))
    section = {
        name: table(kind, read.get(name, {}), f"[{name}]") for name, kind in SECTIONS.items()
    }
    network, protocol = section["network"], _protocol(section["protocol"])
    if network.latency >= network.timeout:
        raise ValueError(
            f"[network] latency must be below the timeout of {network.timeout} s, got "
            f"{network.latency}"
        )
    server = table(Server, read.get("server", {}), "[server]")
    roles = {
        "coordinator": table(Role, read.get("coordinator", {}), "[coordinator]"),
        "server": server,
    }
    if protocol.has_dealer:
        roles["dealer"] = table(Role, read.get("dealer", {}), "[dealer]")
    holders = _holders(read.get("holder"))
    if protocol.form == "dealerless" and len(holders) != 2:
        raise ValueError(f"[protocol] form 'dealerless' is for 2 [[holder]], got {len(holders)}")
    roles |= {holder.name: holder for holder in holders}
    if server.layers and not section["model"].layers_sha256:
        raise ValueError(
            "[server] layers needs [model] layers_sha256, which all roles compare: `sha256sum "
            f"{server.layers}` prints it"
        )
    place = path.resolve().parent
    return Config(
        run=top.run,
        folder=place / top.folder,
        source=top.source,
        path=path.resolve(),
        typed=shlex.quote(str(path)),
        network=replace(network, certificates=place / network.certificates),
        protocol=protocol,
        model=_model(section["model"]),
        training=section["training"],
        addresses=_addresses(roles),
        holders=tuple(
            replace(
                holder, data=place / holder.data, predict=holder.predict and place / holder.predict
            )
            for holder in holders
        ),
        layers=server.layers and place / server.layers,
    )


def _protocol(given: Protocol) -> Protocol:
    """With the form and the length of keys that it has where the file says nothing."""
    if given.form is not None and given.name != "ss":
        raise ValueError(
            f"[protocol] form is a choice of 'ss', got {given.form!r} with {given.name!r}"
        )
    if given.name == "ss" and given.form is None:
        given = replace(given, form="lean")
    if not given.has_keys:
        if given.key_bits is not None:
            raise ValueError(
                "[protocol] key_bits is a choice of 'he' and of form 'dealerless', got "
                f"{given.key_bits} with {given.name!r}"
            )
        return given
    key_bits = given.key_bits or SECURE_KEY_BITS
    if key_bits < SECURE_KEY_BITS and given.secrets != "teaching":
        raise ValueError(
            f"[protocol] key_bits must be at least {SECURE_KEY_BITS}, got {key_bits}; "
            'secrets = "teaching" allows small keys, which protect nothing'
        )
    return replace(given, key_bits=key_bits)


def _model(given: Model) -> Model:
    """With one activation for each hidden layer."""
    n = len(given.hidden)
    if given.layers_sha256 and n != 2:
        raise ValueError(
            "[model] hidden must be the widths of h1 and of h_L where the server has its own "
            f"layers between them, got {list(given.hidden)}"
        )
    if len(given.activation) == 1:
        return replace(given, activation=given.activation * n)
    if len(given.activation) != n:
        raise ValueError(
            f"[model] activation must be one name or {n}, one a hidden layer, got "
            f"{list(given.activation)}"
        )
    return given


def _holders(tables: Any) -> list[Holder]:
    if not isinstance(tables, list) or len(tables) < 2:
        raise ValueError("there must be at least 2 [[holder]], each with name, address and data")
    holders = [table(Holder, each, f"[[holder]] {i}") for i, each in enumerate(tables, 1)]
    taken = set(NOT_HOLDERS)
    for holder in holders:
        # a role is a folder, and some disks see no case
        if holder.name.lower() in taken:
            raise ValueError(f"[[holder]] name {holder.name!r} is another role's, in whatever case")
        taken.add(holder.name.lower())
    labelled = [holder.name for holder in holders if holder.labels]
    if len(labelled) != 1:
        raise ValueError(f"exactly one [[holder]] must have labels, got {len(labelled)}")
    return holders


def _addresses(roles: dict[str, Role]) -> dict[str, Address]:
    addresses = {role: served.address for role, served in roles.items()}
    first: dict[Address, str] = {}
    for role, address in addresses.items():
        if address in first:
            raise ValueError(f"{first[address]} and {role} have the same address {address}")
        first[address] = role
    return addresses
