"""What is refused before anything starts, in one sentence."""

import shutil
import socket
from datetime import UTC, datetime, timedelta

import numpy as np
import pandas as pd
import pytest
from certificates_at import made_at
from good_config import GOOD, loaded
from played_roles import change, started

from spnn_system import config, launch, preflight
from spnn_system.transport import certificates
from spnn_system.transport.addresses import Address

pytestmark = pytest.mark.processes


def test_a_run_is_not_deleted_unless_that_is_asked_for(path, ppkit):
    # nothing is left that could be lost
    assert launch.run(path).code == 0 and launch.run(path).code == 0
    for left in ("server/step-4.checkpoint", "A/parameters.npz"):
        (path.parent / "run" / left).write_bytes(b"")
        sentence = (
            f"there is a run in {path.parent}/run: --resume goes on, --fresh starts anew and "
            "deletes it"
        )
        assert ppkit("spnn", "run", str(path)) == (2, "", f"ppkit: {sentence}\n")
        role = ["holder", "--name", "A"] if left.startswith("A") else ["server"]
        assert ppkit("spnn", role[0], str(path), *role[1:]) == (2, "", f"ppkit: {sentence}\n")
        assert launch.run(path, resume=True).code == launch.run(path, fresh=True).code == 0
        (path.parent / "run" / left).unlink()
    with pytest.raises(ValueError, match="--resume goes on and --fresh starts anew: choose one"):
        launch.run(path, resume=True, fresh=True)


def edited(holder: str, **columns):
    def edit(path):
        table = pd.read_parquet(path.parent / f"{holder}.parquet")
        for name, values in columns.items():
            if values is None:
                del table[name]
            else:
                table[name] = values(table[name])
        table.to_parquet(path.parent / f"{holder}.parquet", index=False)

    return edit


def shorter(path):
    pd.read_parquet(path.parent / "B.parquet")[:-1].to_parquet(
        path.parent / "B.parquet", index=False
    )


def one_other(row: int, value):
    def changed(column):
        column = column.copy()
        column[row] = value
        return column

    return changed


def expired(path):
    shutil.rmtree(path.parent / "certificates")
    long_ago = datetime.now(UTC) - timedelta(days=33)
    made_at(long_ago, path.parent / "certificates", ["coordinator", "server", "A", "B"])


def other_authority(path):
    shutil.rmtree(path.parent / "certificates" / "A")
    certificates.make(path.parent / "certificates", ["A"])


def exchanged(path):
    here = path.parent / "certificates"
    shutil.copy(here / "A" / "certificate.pem", here / "B" / "certificate.pem")


def set_to(old: str, new: str):
    return lambda path: change(path, old, new)


def address(role: str, new: str):
    return lambda path: change(path, str(config.load(path).addresses[role]), new)


REFUSED = [
    (set_to("[server]\n", "[server2]\n"), "config.toml: the config has no key 'server2'"),
    (
        lambda path: change(
            path, path.read_text("utf-8").split("[server]")[1].split("[[holder]]")[0], "\n"
        ),
        "[server] has no address",
    ),
    (set_to('name = "B"', 'name = "A"'), "config.toml: [[holder]] name 'A' is another role's"),
    (
        set_to('name = "masked"', 'name = "mpc"'),
        "config.toml: [protocol] name must be one of plain, ss, he, masked, got 'mpc'",
    ),
    (set_to('name = "masked"', 'name = "ss"'), "config.toml: [dealer] has no address"),
    (
        set_to("bandwidth = 0.0", 'bandwidth = "fast"'),
        "config.toml: [network] bandwidth must be a number of bits per second >= 0",
    ),
    (address("server", "nowhere"), "with a port of 1 to 65535, got 'nowhere'"),
    (
        address("B", "no-such-host.invalid:50000"),
        ": the host of B's address no-such-host.invalid:50000 cannot be found: ",
    ),
    (
        address("B", "192.0.2.1:50000"),
        "the address 192.0.2.1:50000 of B is not this machine's: start each role on its own "
        "machine, by its own command",
    ),
    (expired, "certificate of 'coordinator' by the authority in "),
    (lambda path: shutil.rmtree(path.parent / "certificates"), "` makes all\n"),
    (
        lambda path: (path.parent / "certificates/B/key.pem").unlink(),
        "the certificates of B are not in ",
    ),
    (exchanged, "certificates/B/certificate.pem is for 'A' until "),
    (
        other_authority,
        "the certificates of A are of another authority than coordinator's: sign all of them at "
        "once",
    ),
    (lambda path: (path.parent / "run").write_text("a file"), "coordinator cannot write into "),
    (
        shorter,
        "all holders must have the same rows in the same order: the 1,999 ids of holder B differ "
        "from holder A's 2,000 in row 1,999 (from 0) first",
    ),
    (
        edited("B", id=one_other(1234, -7)),
        "ids of holder B differ from holder A's 2,000 in row 1,234 (from 0) first",
    ),
    (
        edited("A", label=None),
        "holder A's file A.parquet has no column 'label' for the labels: it has ",
    ),
    (
        edited("A", label=lambda labels: labels + 1),
        "holder A's file A.parquet: labels 'label' must be 0 or 1, row ",
    ),
    (
        edited("B", V20=one_other(7, np.inf)),
        "holder B's file B.parquet: feature 'V20' must be finite in float32, got 1 of 2,000 values",
    ),
    (
        lambda path: (path.parent / "B.parquet").unlink(),
        "holder B's file B.parquet is not there: looked in ",
    ),
    (
        lambda path: path.unlink(),
        "/config.toml is not there: `ppkit spnn example FOLDER` writes one",
    ),
]


@pytest.mark.parametrize(
    "spoil, sentence",
    REFUSED,
    ids=[f"{i}: {sentence[:50]}" for i, (_, sentence) in enumerate(REFUSED)],
)
def test_bad_input_is_one_sentence_and_exit_code_2_before_anything_starts(
    path, ppkit, monkeypatch, spoil, sentence
):
    monkeypatch.setattr(
        launch.subprocess, "Popen", lambda *_, **__: pytest.fail("a role was started")
    )
    spoil(path)
    code, out, said = ppkit("spnn", "run", str(path))
    assert (
        (code, out) == (2, "")
        and said.startswith("ppkit: ")
        and sentence in said
        and said.count("\n") == 1
    )
    assert "-7" not in said.replace(str(path.parent), "") and not started(path)


def test_a_port_in_use_and_two_names_of_one_port(path, ppkit):
    where = config.load(path).addresses["server"]
    with socket.create_server((where.host, where.port)):
        code, _, said = ppkit("spnn", "run", str(path))
        assert (code, said) == (
            2,
            f"ppkit: the address {where} of server is in use by another process or role\n",
        )
    preflight.check_ports({"server": where})
    twice = {"server": where, "A": Address("localhost", where.port)}
    with pytest.raises(
        ValueError, match=f"the address localhost:{where.port} of A is in use by another"
    ):
        preflight.check_ports(twice)


def test_a_host_that_nobody_knows(tmp_path):
    preflight.resolve(
        loaded(
            tmp_path,
            GOOD.replace("127.0.0.1:50054", "localhost:50054").replace(
                "127.0.0.1:50053", "[::1]:50053"
            ),
        ).addresses
    )
    nobody = loaded(tmp_path, GOOD.replace("127.0.0.1:50051", "no-such-host.invalid:50051"))
    with pytest.raises(
        ValueError,
        match="the host of server's address no-such-host.invalid:50051 cannot be found: ",
    ):
        preflight.resolve(nobody.addresses)
