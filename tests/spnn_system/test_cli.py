"""The commands, from an example to the table of a run."""

import sys

import pandas as pd
import pytest
from played_roles import METRICS, PLAYER, line, play, started, typed

from spnn_system import config, launch
from spnn_system.transport import certificates

pytestmark = pytest.mark.processes


def test_the_command_line_from_example_to_the_table(ppkit, tmp_path, monkeypatch):
    folder = tmp_path / "first"
    (tmp_path / "player.py").write_text(PLAYER, "utf-8")
    monkeypatch.setattr(launch, "ROLE", [sys.executable, str(tmp_path / "player.py")])
    code, out, said = ppkit("spnn", "example", str(folder), "--rows", "57000", "--protocol", "ss")
    path = folder / "config.toml"
    assert (code, said) == (0, "") and out.splitlines()[-3:] == [
        f"ppkit spnn certs {typed(path)}",
        f"ppkit spnn run {typed(path)}",
        f"ppkit spnn predict {typed(path)}   # 100 of the test rows, as if they were new",
    ]
    assert len(pd.read_parquet(folder / "new-B.parquet")) == 100
    assert (
        "stand-in: 57,000 rows: 78 frauds to train on, 20 to test on" in out
        and "127.0.0.1: for several machines" in out
    )
    read = config.load(path)
    assert read.protocol.form == "lean"
    code, out, said = ppkit("spnn", "certs", str(path))
    assert (
        (code, said) == (0, "")
        and "coordinator, server, dealer, A, B has its key and certificate in" in out
        and "who made all keys can speak as any role" in out
        and out.splitlines()[-1] == f"ppkit spnn run {typed(path)}"
    )
    for role in read.roles:
        certificates.check(folder / "certificates", role)
    before = (folder / "certificates/A/key.pem").read_bytes()
    code, _, said = ppkit("spnn", "certs", str(path))
    assert (
        code == 2
        and "there is a key in " in said
        and (folder / "certificates/A/key.pem").read_bytes() == before
    )
    code, _, said = ppkit("spnn", "request", str(path), "C")
    assert code == 2 and "has no role 'C': with protocol 'ss' there are coordinator" in said
    code, _, said = ppkit("spnn", "request", str(path), "A")
    assert code == 2 and "there is a key in " in said
    told = {}
    for role in read.roles:
        code, out, said = ppkit("spnn", "request", str(path), role, "--fresh")
        assert (code, said) == (0, "") and "it stays on this machine" in out
        told[role] = out.splitlines()[-1]
    code, out, said = ppkit("spnn", "sign", str(path))
    assert (code, said) == (0, "") and all(words in out for words in told.values())
    assert out.splitlines()[-1].endswith(f"with: ppkit spnn holder {typed(path)} --name B")
    for role in read.roles:
        certificates.check(folder / "certificates", role)
    code, _, said = ppkit("spnn", "sign", str(path))
    assert code == 2 and "there are certificates in " in said
    assert ppkit("spnn", "certs", str(path), "--fresh")[0] == 0
    assert (folder / "certificates/A/key.pem").read_bytes() != before
    assert (folder / "certificates/A/key.pem").stat().st_mode & 0o777 == 0o600
    play(path, A=[["metrics", METRICS | {"test_auc": 0.9}], ["send", line("A", "B", 1.0, 1234567)]])
    code, out, said = ppkit("spnn", "run", str(path))
    assert (
        (code, said) == (0, "")
        and "test AUC 0.900" in out
        and "1,234,567" in out
        and "stand-in: 57,000 rows" in out
    )
    play(path, coordinator=[["status", 1, "stopped", "the server is gone"], ["end", 1]])
    assert ppkit("spnn", "run", str(path), "--resume") == (1, "", "ppkit: the server is gone\n")
    assert "--resume" in started(path)["server"]["words"]
    play(path)
    code, _, said = ppkit("spnn", "example", str(folder), "--rows", "57000")
    assert code == 2 and "there is a config.toml in " in said
    code, _, said = ppkit("spnn", "example", str(tmp_path / "player.py" / "x"), "--rows", "57000")
    assert (code, said) == (
        2,
        f"ppkit: cannot use {tmp_path / 'player.py' / 'x'}: Not a directory\n",
    )
