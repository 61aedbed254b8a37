"""The TOML file that all roles of a run read: who listens where, protocol, network, training;
checked before a start.
"""

import hashlib
import json
import shlex
import tomllib
from dataclasses import dataclass, field, fields, replace
from pathlib import Path
from typing import Any

from spnn_system.settings import (
    SECTIONS,
    Holder,
    Model,
    Network,
    Protocol,
    Role,
    Run,
    Server,
    Training,
    section,
)
from spnn_system.transport import addresses

NOT_HOLDERS = ("coordinator", "server", "dealer")
SECURE_KEY_BITS = 2048


@dataclass(frozen=True, slots=True, kw_only=True)
class Config(Run):
    """A run as its file says it: the keys above all tables, and the tables.  path: of the file.
    folder: each role leaves its part in folder/<role>/.

    typed: the file as its user named it, quoted as a shell wants it, for sentences.

    trained: for a prediction, the folder of the training whose parts are used; None: a training.

    layers: the file of the server's own layers, None where this copy names none.

    addresses: host:port of every role that this run has:
    coordinator, server, dealer (where the protocol has one), then the holders by name, in the
    file's order.
    """

    path: Path
    typed: str
    network: Network
    protocol: Protocol
    model: Model
    training: Training
    addresses: dict[str, str] = field(hash=False)
    holders: tuple[Holder, ...]
    trained: Path | None = None
    layers: Path | None = None

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

    def prediction(self) -> "Config":
        """The run that sends the holders' new rows through the trained network: no epoch, test
        only.

        Its folder lies beside the training's, as <folder>-predicted.  ValueError if a holder has no
        file of new rows.
        """
        if missing := [holder.name for holder in self.holders if holder.predict is None]:
            raise ValueError(
                f"{self.typed}: [[holder]] {missing[0]} has no predict: it must name the file of "
                "its new rows"
            )
        return replace(
            self,
            run=f"{self.run}.predict",
            folder=self.folder.with_name(f"{self.folder.name}-predicted"),
            trained=self.folder,
            training=replace(self.training, train_rows=0, epochs=0),
            holders=tuple(replace(holder, data=holder.predict) for holder in self.holders),
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
    def decides(self) -> dict[str, Any]:
        """What decides a run's messages and result, by section and key: all but addresses, paths
        and [network].
        """
        return {
            "run": self.run,
            "source": self.source,
            "[[holder]]": [[h.name, h.labels is not None] for h in self.holders],
            **{
                f"[{name}] {f.name}": getattr(part, f.name)
                for name, part in (
                    ("protocol", self.protocol),
                    ("model", self.model),
                    ("training", self.training),
                )
                for f in fields(part)
            },
        }

    @property
    def digest(self) -> str:
        """SHA-256 over `decides`.

        Roles compare it, so that machines with different files notice; a resumed run must have the
        same.
        """
        return hashlib.sha256(json.dumps(self.decides, sort_keys=True).encode()).hexdigest()


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
        what = (
            "is no file of text"
            if path.exists()
            else "is not there: `ppkit spnn example FOLDER` writes one to start from"
        )
        raise FileNotFoundError(f"the config file {path} {what}")
    try:
        text = path.read_bytes().decode("utf-8")
    except UnicodeDecodeError as error:
        raise ValueError(f"{path} is not TOML: {error}") from None
    return parse(text, path)


def parse(text: str, path: Path) -> Config:
    """The config that a text says, as if it stood in the file `path`.  ValueError: as `load`."""
    try:
        return _config(path, tomllib.loads(text))
    except tomllib.TOMLDecodeError as error:
        raise ValueError(f"{path} is not TOML: {error}") from None
    except ValueError as error:
        raise ValueError(f"{path}: {error}") from None


def _config(path: Path, read: dict) -> Config:
    top = section(Run, read, "the config", (*SECTIONS, *NOT_HOLDERS, "holder"))
    parts = {
        name: section(kind, read.get(name, {}), f"[{name}]") for name, kind in SECTIONS.items()
    }
    network, protocol, model = (
        parts["network"],
        _protocol(parts["protocol"]),
        _model(parts["model"]),
    )
    if network.latency >= network.timeout:
        raise ValueError(
            f"[network] latency must be below the timeout of {network.timeout} s, got "
            f"{network.latency}"
        )
    typed, path, holders = shlex.quote(str(path)), path.resolve(), _holders(path.resolve(), read)
    where, layers = {}, None
    for role in NOT_HOLDERS:
        is_needed = role != "dealer" or protocol.has_dealer
        if role not in read and is_needed:
            raise ValueError(
                f"there is no [{role}]: a run with protocol {protocol.name!r} needs one, with its "
                "address"
            )
        if role in read:
            served = section(Server if role == "server" else Role, read[role], f"[{role}]")
            layers = getattr(served, "layers", layers)
            where |= {role: served.address} if is_needed else {}
    where |= {holder.name: holder.address for holder in holders}
    _check(where)
    if layers and not model.layers_sha256:
        raise ValueError(
            "[server] layers needs [model] layers_sha256, which all roles compare: `sha256sum "
            f"{layers}` prints it"
        )
    network = replace(network, certificates=path.parent / network.certificates)
    if protocol.form == "dealerless" and ("dealer" in read or len(holders) != 2):
        raise ValueError(
            "[protocol] form 'dealerless' is for 2 [[holder]] and no [dealer], got "
            f"{len(holders)} and {'a' if 'dealer' in read else 'no'} [dealer]"
        )
    return Config(
        path=path,
        typed=typed,
        run=top.run,
        folder=path.parent / top.folder,
        source=top.source,
        network=network,
        protocol=protocol,
        model=model,
        training=parts["training"],
        addresses=where,
        holders=holders,
        layers=layers and path.parent / layers,
    )


def _protocol(protocol: Protocol) -> Protocol:
    has_keys = protocol.name == "he" or protocol.form == "dealerless"
    for key, only, fits in (
        ("form", "'ss'", protocol.name == "ss"),
        ("key_bits", "'he' and of form 'dealerless'", has_keys),
    ):
        if getattr(protocol, key) is not None and not fits:
            raise ValueError(
                f"[protocol] {key} is a choice of {only}, got {getattr(protocol, key)!r} with "
                f"{protocol.name!r}"
            )
    if protocol.name == "ss":
        protocol = replace(protocol, form=protocol.form or "lean")
    if has_keys:
        protocol = replace(protocol, key_bits=protocol.key_bits or SECURE_KEY_BITS)
        if protocol.key_bits < SECURE_KEY_BITS and protocol.secrets != "teaching":
            raise ValueError(
                f"[protocol] key_bits must be at least {SECURE_KEY_BITS}, got {protocol.key_bits}; "
                'secrets = "teaching" allows small keys, which protect nothing'
            )
    return protocol


def _model(model: Model) -> Model:
    n = len(model.hidden)
    if model.layers_sha256 and n != 2:
        raise ValueError(
            "[model] hidden must be the widths of h1 and of h_L where the server has its own "
            f"layers between them, got {list(model.hidden)}"
        )
    activation = (model.activation,) * n if isinstance(model.activation, str) else model.activation
    if len(activation) != n:
        raise ValueError(
            f"[model] activation must be one name or {n}, one a hidden layer, got "
            f"{list(activation)}"
        )
    return replace(model, activation=activation)


def _holders(path: Path, read: dict) -> tuple[Holder, ...]:
    tables = read.get("holder", [])
    if not isinstance(tables, list) or not all(isinstance(table, dict) for table in tables):
        raise ValueError("holders must stand as [[holder]], each with name, address and data")
    if len(tables) < 2:
        raise ValueError(f"there must be at least 2 [[holder]], got {len(tables)}")
    holders = [
        section(Holder, table, f"[[holder]] {table.get('name', i + 1)}")
        for i, table in enumerate(tables)
    ]
    seen: dict[str, str] = {}
    for holder in holders:
        if holder.name.lower() in NOT_HOLDERS:
            raise ValueError(f"a holder may not be called {holder.name!r}: that is another role")
        # a role is a folder, and some disks see no case
        if holder.name.lower() in seen:
            raise ValueError(
                f"two holders have the name {seen[holder.name.lower()]!r}"
                + (f" (or {holder.name!r})" if holder.name not in seen.values() else "")
            )
        seen[holder.name.lower()] = holder.name
    if len(labelled := [holder.name for holder in holders if holder.labels]) != 1:
        raise ValueError(
            f"exactly one holder must have labels, got {len(labelled)}"
            + (f": {', '.join(labelled)}" if labelled else ": none of " + ", ".join(seen.values()))
        )
    return tuple(
        replace(
            holder,
            data=path.parent / holder.data,
            predict=None if holder.predict is None else path.parent / holder.predict,
        )
        for holder in holders
    )


def _check(of_roles: dict[str, str]) -> None:
    seen: dict[tuple[str, int], str] = {}
    for role, address in of_roles.items():
        try:
            where = addresses.parse(address)
        except ValueError as error:
            raise ValueError(f"{role}: {error}") from None
        if where[0] in ("0.0.0.0", "::"):  # one can listen there, and not dial
            raise ValueError(
                f"{role}: address must be where the others reach this role, as {address!r} is not: "
                "name its machine"
            )
        if where in seen:
            raise ValueError(f"{seen[where]} and {role} have the same address {address}")
        seen[where] = role
