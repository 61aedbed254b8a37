"""All roles started, watched and ended from one place: with small stand-ins for the roles, which do
as a test tells them.
"""

import dataclasses
import errno
import json
import os
import shlex
import shutil
import signal
import socket
import subprocess
import sys
import time
from datetime import UTC, datetime, timedelta
from pathlib import Path

import numpy as np
import pandas as pd
import psutil
import pytest
from certificates_at import made_at
from waiting import FAR, until

from ppkit import datasets, lifeline
from ppkit.spnn.vertical import fraud
from spnn_system import __main__ as one_role
from spnn_system import config, example, launch, preflight
from spnn_system.transport import certificates
from spnn_system.transport.addresses import Address

pytestmark = pytest.mark.processes

PLAYER = """
import json, os, signal, sys, time
from pathlib import Path
from ppkit.lifeline import die_with_parent
words = sys.argv[1:]
die_with_parent(int(words[words.index("--parent") + 1]))
role, path = words[0], Path(words[1])
mine = path.parent / "run" / role
plays = json.loads((path.parent / "plays.json").read_text()).get(role, [])
begun = {"words": words, "pid": os.getpid(), "session": os.getsid(0)}
(mine / "begun").write_text(json.dumps(begun))
os.replace(mine / "begun", mine / "started.json")
def status(step, state="training", sentence="", saved=None):
    said = {"state": state, "step": step, "steps": 4, "sentence": sentence, "saved": saved}
    (mine / "part").write_text(json.dumps(said))
    os.replace(mine / "part", mine / "status.json")
for play, *about in plays:
    if play == "say":
        print(about[0], file=sys.stderr, flush=True)
    elif play == "status":
        status(*about)
    elif play == "wait":
        time.sleep(about[0])
    elif play == "until":
        while not (mine.parent / about[0] / "started.json").exists():
            time.sleep(0.01)
    elif play == "send":
        with open(mine / "messages.jsonl", "a") as file:
            file.write(about[0])
    elif play == "metrics":
        (mine / "metrics.json").write_text(json.dumps(about[0]))
    elif play == "signal":
        os.kill(os.getpid(), about[0])
    elif play == "deaf":
        signal.signal(signal.SIGTERM, signal.SIG_IGN)
    elif play == "end":
        sys.exit(about[0])
"""
METRICS = {
    "test_auc": 0.75,
    "test_rows": 90,
    "test_positives": 21,
    "seconds": {"online": [1.5, 1.25], "offline": [0.5, 0.0], "once": 0.25, "test": 0.1},
}
FOREVER = [["wait", 10 * FAR]]


def line(sender: str, receiver: str, at: float, n_bytes: int) -> str:
    return (
        json.dumps(
            {
                "at": at,
                "sent_at": at + 0.5,
                "step": 1,
                "phase": "online",
                "sender": sender,
                "receiver": receiver,
                "name": "h1",
                "n_bytes": n_bytes,
                "wire_bytes": n_bytes + 100,
            }
        )
        + "\n"
    )


@pytest.fixture(scope="module")
def made(tmp_path_factory):
    """A config, two holders' files and certificates, copied for each test."""
    folder = tmp_path_factory.mktemp("made")
    path = example.write(
        folder,
        fraud(datasets.load("creditcard", source="standin", rows=2_000)),
        timeout=FAR,
        batch=400,
    )
    certificates.make(folder / "certificates", config.load(path).roles)
    return folder


@pytest.fixture
def path(made, tmp_path, monkeypatch):
    """The config of a run whose roles are the stand-ins."""
    folder = tmp_path / "try"
    shutil.copytree(made, folder)
    (tmp_path / "player.py").write_text(PLAYER, "utf-8")
    monkeypatch.setattr(launch, "ROLE", [sys.executable, str(tmp_path / "player.py")])
    play(folder / "config.toml")
    return folder / "config.toml"


def play(path: Path, **plays: list) -> None:
    (path.parent / "plays.json").write_text(json.dumps(plays), "utf-8")


def log_of(path: Path, role: str) -> str:
    log = path.parent / "run" / role / "log.txt"
    return log.read_text("utf-8") if log.exists() else ""


def started(path: Path) -> dict[str, dict]:
    return {
        file.parent.name: json.loads(file.read_text("utf-8"))
        for file in (path.parent / "run").glob("*/started.json")
    }


def typed(path: Path) -> str:
    """A path as sentences name it, whatever the folder of this test is called."""
    return shlex.quote(str(path))


def change(path: Path, old: str, new: str) -> None:
    text = path.read_text("utf-8")
    assert old in text
    path.write_text(text.replace(old, new, 1), "utf-8")


class Clock:
    """The launcher's time: it stands still until something holds, and runs away then."""

    def __init__(self, over=lambda: False):
        self._over, self._now, self._limit = over, 0.0, time.monotonic() + FAR

    def monotonic(self):
        self._now += 10 * FAR * bool(self._over())
        return self._now

    def sleep(self, seconds):
        assert time.monotonic() < self._limit, "the launcher waits for a clock that stands still"
        time.sleep(seconds)


def ended(path, *roles):
    """Whether these roles have begun, and the launcher knows that they have ended."""
    seen = started(path)
    return set(roles) <= set(seen) and not any(
        psutil.pid_exists(seen[role]["pid"]) for role in roles
    )


def test_a_good_run(path):
    play(
        path,
        coordinator=[
            ["status", 0],
            ["wait", 0.2],
            ["status", 2],
            ["wait", 0.2],
            ["status", 4, "done"],
        ],
        A=[
            ["say", "hello"],
            ["send", line("A", "server", 3.0, 10) + line("A", "server", 1.0, 20)],
            ["metrics", METRICS],
        ],
        server=[
            [
                "send",
                line("server", "A", 2.0, 7)
                + '{"event": "refused", "why": "x"}\n'
                + line("server", "A", 9.0, 7)[:-9],
            ]
        ],
    )
    steps = []
    result = launch.run(path, progress=lambda *step: steps.append(step))
    assert (result.code, result.sentence, result.metrics) == (0, "", METRICS)
    assert steps[-1] == (4, 4) and steps == sorted(set(steps))
    assert result.messages.to_dict("list") == {
        "step": [1] * 3,
        "phase": ["online"] * 3,
        "sender": ["A", "server", "A"],
        "receiver": ["server", "A", "server"],
        "name": ["h1"] * 3,
        "n_bytes": [20, 7, 10],
        "wire_bytes": [120, 107, 110],
        "at": [1.0, 2.0, 3.0],
        "sent_at": [1.5, 2.5, 3.5],
    }
    pd.testing.assert_frame_equal(pd.read_csv(path.parent / "run/messages.csv"), result.messages)
    links = result.by_link().set_index(["sender", "receiver"])
    assert links.loc["A", "server"][["messages", "n_bytes"]].tolist() == [2, 30]
    said = dataclasses.replace(result, seconds=3.0).summary()
    for part in (
        "test AUC 0.750 (90 rows, 21 positives)\n",
        " s in all: training 2.8 (triples ahead 0.5), setting up 0.2, starting, "
        "testing and stopping 0.0\n",
        "stand-in: 2,000 rows",
        f"{path.parent}/run/<role>",
        "; all messages in messages.csv there",
    ):
        assert part in said.replace("3.0 in all", "s in all")
    assert [row.split() for row in said.splitlines()[-3:]] == [
        ["A", "server", "online", "2", "30"],
        ["server", "A", "online", "1", "7"],
        ["in", "all", "3", "0.0", "MB"],
    ]
    rest = dataclasses.replace(result, seconds=10.0).summary().splitlines()[1]
    assert (
        rest
        == "seconds   10.0 in all: training 2.8 (triples ahead 0.5), setting up 0.2, starting, "
        "testing and stopping 6.5"
    )
    assert (path.parent / "run/A/log.txt").read_text() == "hello\n" and result.seconds > 0
    seen = started(path)
    assert {role: about["words"][:-2] for role, about in seen.items()} == {
        "coordinator": ["coordinator", str(path)],
        "server": ["server", str(path)],
        "A": ["A", str(path)],
        "B": ["B", str(path)],
    }
    # a session of its own
    assert all(about["session"] == about["pid"] for about in seen.values())
    assert all(about["words"][-2:] == ["--parent", str(os.getpid())] for about in seen.values())


def test_resume_is_passed_on_and_keeps_what_a_new_run_replaces(path):
    play(
        path,
        coordinator=[["status", 4]],
        A=[["say", "1"], ["send", line("A", "B", 1.0, 5)], ["metrics", {"test_auc": 0.5}]],
    )
    launch.run(path)
    play(path, A=[["say", "2"], ["send", line("A", "B", 2.0, 6)]])
    again = launch.run(path, resume=True)
    assert all(about["words"][-1] == "--resume" for about in started(path).values())
    assert (path.parent / "run/A/log.txt").read_text() == "1\n2\n" and again.messages[
        "n_bytes"
    ].tolist() == [5, 6]
    assert again.metrics == {"test_auc": 0.5}
    fresh = launch.run(path, progress=lambda *step: pytest.fail(f"{step} is of the run before"))
    assert (
        (path.parent / "run/A/log.txt").read_text() == "2\n"
        and fresh.messages["n_bytes"].tolist() == [6]
        and fresh.metrics == {}
    )


def test_the_coordinators_sentence_ends_a_run_that_stopped(path):
    sentence = "holder B gave no sign of life for 600.0 s: the run stops at step 2"
    play(
        path,
        coordinator=[["status", 2, "stopped", sentence], ["end", 1]],
        server=[["end", 1]],
        A=[["end", 1]],
        B=[["signal", signal.SIGKILL]],
    )
    result = launch.run(path)
    assert (result.code, result.sentence, result.metrics) == (1, sentence, {})


def test_without_the_coordinators_word_the_log_of_who_failed_says_it(path):
    play(
        path,
        coordinator=[["status", 2], ["signal", signal.SIGKILL]],
        server=[["say", "server: the coordinator is gone"], ["end", 1]],
    )
    result = launch.run(path)
    assert result.code == 1
    assert result.sentence == (
        "the coordinator was killed by signal 9 (more in run/coordinator/log.txt); "
        "the server ended with code 1: the coordinator is gone"
    )
    play(path, A=[["end", 1]])
    assert launch.run(path).sentence == "holder A ended with code 1 (more in run/A/log.txt)"


def test_without_the_coordinators_word_one_step_is_named(path):
    """Each role that ended knows a step of its own: the coordinator's last one counts."""
    sentence = "the coordinator gave no sign of life for 9.0 s: the run stops at step {}; " + (
        f"`ppkit spnn run {typed(path)} --resume` goes on from step 2 or later"
    )
    parts = {
        role: [["say", f"ppkit: {sentence.format(step)}"], ["end", 1]]
        for role, step in (("server", 3), ("A", 4))
    }
    play(path, coordinator=[["status", 3, "training", "", 1], ["signal", signal.SIGKILL]], **parts)
    assert launch.run(path).sentence == (
        "the coordinator was killed by signal 9 (more in run/coordinator/log.txt); the server "
        "ended with code 1: the coordinator gave no sign of life for 9.0 s; holder A ended with "
        "code 1: the coordinator gave no sign of life for 9.0 s: the run stops at step 3; "
        f"`ppkit spnn run {typed(path)} --resume` goes on from step 1 or later"
    )


def test_a_prediction_whose_holder_was_killed_says_how_it_is_started_again(path):
    trained = dataclasses.replace(config.load(path), trained=path.parent / "run")
    log = trained.folder_of("server") / "log.txt"
    log.parent.mkdir(parents=True)
    log.write_text("ppkit: holder B gave no sign of life for 9.0 s: the run stops at step 3; ...\n")
    roles = launch._Roles(trained, str(path), resume=False)
    roles._codes = {"coordinator": None, "server": 1, "A": 0, "B": -9}
    code, sentence = roles.ended({"step": 3, "saved": 1})
    assert (code, sentence.count("the run stops")) == (1, 0)
    assert sentence.startswith("the server ended with code 1: holder B gave no sign of life for 9")
    assert sentence.endswith(": the prediction stops; the same command starts it again")


def full(*_, **__):
    raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))


def test_a_full_disk_hides_no_sentence(path, ppkit, monkeypatch):
    """Neither of a run that stopped nor of one that was interrupted; a good run stays one."""
    monkeypatch.setattr(pd.DataFrame, "to_csv", full)
    sentence = "holder A could not write to its disk: the run stops at step 2; `...` goes on"
    play(path, coordinator=[["status", 2, "stopped", sentence], ["end", 1]])
    csv = path.parent / "run/messages.csv"
    kept = f"ppkit: {csv} could not be written: No space left on device\n"
    assert ppkit("spnn", "run", str(path)) == (1, "", f"{kept}ppkit: {sentence}\n")
    assert not list(csv.parent.glob("messages*"))
    play(path)
    code, out, said = ppkit("spnn", "run", str(path))
    assert (code, said) == (0, kept) and "in all" in out
    play(path, coordinator=[["status", 3, "training", "", 2], *FOREVER])

    def pressed(*_):
        raise KeyboardInterrupt

    with pytest.raises(launch.Interrupted, match="interrupted at step 3; `.*` goes on from step 2"):
        launch.run(path, progress=pressed)


def test_a_role_killed_before_it_says_hello_is_the_one_that_is_named(path, monkeypatch):
    monkeypatch.setattr(launch, "time", Clock(lambda: ended(path, "B")))
    play(
        path,
        coordinator=[["status", 0, "starting"], *FOREVER],
        server=FOREVER,
        A=FOREVER,
        B=[["signal", signal.SIGKILL]],
    )
    result = launch.run(path)
    assert result.code == 1 and result.sentence.startswith(
        "holder B was killed by signal 9 (more in run/B/log.txt); "
    )


def test_a_role_that_ends_without_a_word_is_not_waited_for(path, monkeypatch):
    """As a server's own layers could end it: with exit code 0, before it says hello."""
    monkeypatch.setattr(launch, "time", Clock(lambda: ended(path, "server")))
    play(path, coordinator=[["status", 0, "starting"], *FOREVER], A=FOREVER, B=FOREVER)
    result = launch.run(path)
    assert result.code == 1 and result.sentence.startswith(
        "the server ended with code 0 (more in run/server/log.txt); "
    )


def test_what_is_said_of_columns_is_said_before_any_role_starts(path):
    rows = pd.read_parquet(path.parent / "B.parquet")
    rows.assign(income=np.random.default_rng(0).lognormal(10, 1, len(rows))).to_parquet(
        path.parent / "B.parquet", index=False
    )
    heard = []
    launch.run(path, tell=lambda sentence: heard.append((sentence, started(path))))
    [(sentence, roles)] = heard
    assert "holder B's file B.parquet has columns that are far from standardised: 'in" in sentence
    assert roles == {}


def test_who_does_not_end_in_time_is_ended_even_if_deaf(path, monkeypatch):
    monkeypatch.setattr(
        launch, "time", Clock(lambda: ended(path, "B", "server") and log_of(path, "A"))
    )
    monkeypatch.setattr(lifeline, "PATIENCE", 0.4)
    play(
        path,
        A=[["deaf"], ["say", "deaf now"], *FOREVER],
        B=[["end", 1]],
        server=[["until", "B"], ["wait", 0.1], ["end", 1]],
    )
    result = launch.run(path)
    assert (
        result.code == 1
        and "the server ended with code 1" in result.sentence
        and "holder A did not end by itself" in result.sentence
    )
    assert not psutil.pid_exists(started(path)["A"]["pid"])


def test_bad_input_that_a_role_finds_ends_all_at_once(path, monkeypatch):
    monkeypatch.setattr(launch, "time", Clock())
    play(
        path,
        coordinator=FOREVER,
        server=FOREVER,
        A=FOREVER,
        B=[["say", "ppkit: holder B's file is odd"], ["end", 2]],
    )
    result = launch.run(path)
    assert (result.code, result.sentence) == (2, "holder B's file is odd")
    assert not any(psutil.pid_exists(about["pid"]) for about in started(path).values())


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


def test_the_roles_hear_the_name_that_was_typed(path, monkeypatch):
    monkeypatch.chdir(path.parent.parent)
    play(path)
    assert (
        launch.run("try/config.toml").code == 0
        and started(path)["server"]["words"][1] == "try/config.toml"
    )


def driver(path: Path) -> list[str]:
    """`ppkit spnn run` with the stand-ins for the roles."""
    code = (
        "import sys\nfrom ppkit import cli, lifeline\nfrom spnn_system import launch\n"
        # as in the tests above: of the roles of this run the server is deaf
        "lifeline.PATIENCE = 0.4\n"
        f"launch.ROLE = [sys.executable, {str(path.parents[1] / 'player.py')!r}]\n"
        f"sys.argv = ['ppkit', 'spnn', 'run', {str(path)!r}]\ncli.main()"
    )
    return [sys.executable, "-c", code]


@pytest.mark.parametrize(
    "number, code", [(signal.SIGINT, 130), (signal.SIGTERM, 130), (signal.SIGKILL, -9)]
)
def test_the_roles_end_with_the_launcher_however_it_ends(path, number, code):
    play(
        path,
        coordinator=[["status", 3, "training", "", 2], *FOREVER],
        server=[["deaf"], *FOREVER],
        A=FOREVER,
        B=FOREVER,
    )
    ending = subprocess.Popen(
        driver(path), stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True
    )
    try:
        until(
            lambda: (
                len(started(path)) == 4
                and (path.parent / "run/coordinator/status.json").exists()
                or ending.poll()
            )
        )
        ending.send_signal(number)
        _, said = ending.communicate(timeout=FAR)
        assert ending.returncode == code and "Traceback" not in said
        if code == 130:
            sentence = (
                f"interrupted at step 3; `ppkit spnn run {typed(path)} --resume` goes on from "
                "step 2"
            )
            assert said == f"ppkit: {sentence}\n"
        pids = [about["pid"] for about in started(path).values()]
        until(lambda: not any(psutil.pid_exists(pid) for pid in pids))
    finally:
        ending.kill()


def test_a_child_whose_parent_has_ended_already_ends_too():
    code = (
        "import os\nfrom ppkit.lifeline import "
        "die_with_parent\ndie_with_parent(os.getppid())\nprint('alive')\n"
        "die_with_parent(1)\nprint('still alive')"
    )
    ended = subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, timeout=FAR
    )
    assert (ended.returncode, ended.stdout, ended.stderr) == (
        1,
        "alive\n",
        "the process 1 that started this one has ended\n",
    )


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
    (expired, "certificates/coordinator/certificate.pem expired on "),
    (lambda path: shutil.rmtree(path.parent / "certificates"), "` makes all\n"),
    (
        lambda path: (path.parent / "certificates/B/key.pem").unlink(),
        "the certificates of B are not in ",
    ),
    (exchanged, "certificates/B/certificate.pem is for 'A', not for 'B'"),
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


def test_a_port_is_free_again_right_after_a_connection_was_closed(path):
    address = config.load(path).addresses["server"]
    where = address.host, address.port
    with socket.create_server(where) as serving, socket.create_connection(where) as calling:
        accepted, _ = serving.accept()
        # the server's side waits out its time
        accepted.close()
        assert calling.recv(1) == b""
    preflight.check_ports({"server": address})


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


def test_one_role_by_hand(path, ppkit, monkeypatch):
    """Every role's command starts that role, with its own certificate and port checked, and threads
    as the config says.
    """
    called = []

    class Module:
        @staticmethod
        def main(*arguments, resume):
            called.append(
                (
                    module,
                    *(given if isinstance(given, str) else given.path.name for given in arguments),
                    resume,
                )
            )
            return 1 if resume else 0

    def found(name):
        nonlocal module
        module = name.rpartition(".")[2]
        return Module

    module = ""
    monkeypatch.setattr(one_role.importlib, "import_module", found)
    for name in one_role.THREAD_COUNTS:
        monkeypatch.setenv(name, "7")
    change(path, "threads = 1 ", "threads = 3 ")
    # the others do not need it
    shutil.rmtree(path.parent / "certificates" / "B")
    for arguments in (["coordinator"], ["server"], ["holder", "--name", "A"]):
        assert ppkit("spnn", arguments[0], str(path), *arguments[1:]) == (0, "", "")
    assert ppkit("spnn", "server", str(path), "--resume") == (1, "", "")
    assert (
        one_role.main(["A", str(path)]) == 0
        and one_role.main(["coordinator", str(path), "--resume"]) == 1
    )
    assert called == [
        ("coordinator", "config.toml", False),
        ("server", "config.toml", False),
        ("holder", "config.toml", "A", False),
        ("server", "config.toml", True),
        ("holder", "config.toml", "A", False),
        ("coordinator", "config.toml", True),
    ]
    assert {os.environ[name] for name in one_role.THREAD_COUNTS} == {"3"}
    for arguments, sentence in (
        (
            ["dealer"],
            f"{typed(path)} has no role 'dealer': with protocol 'masked' there are coordinator, "
            "server, A, B",
        ),
        (["holder", "--name", "C"], f"{typed(path)} has no role 'C': with protocol 'masked' there"),
        (
            ["holder", "--name", "B"],
            f"the certificates of B are not in {path.parent}/certificates/B: ",
        ),
    ):
        code, out, said = ppkit("spnn", arguments[0], str(path), *arguments[1:])
        assert (
            (code, out) == (2, "")
            and said.startswith(f"ppkit: {sentence}")
            and said.count("\n") == 1
        )


def test_one_role_in_its_own_process_says_what_is_wrong_in_one_sentence(path):
    command = [sys.executable, "-m", "spnn_system", "C", str(path)]
    ended = subprocess.run(command, capture_output=True, text=True, timeout=FAR)
    assert (ended.returncode, ended.stdout, ended.stderr) == (
        2,
        "",
        f"ppkit: {typed(path)} has no role 'C': with protocol 'masked' there are coordinator, "
        "server, A, B\n",
    )
    ended = subprocess.run([*command, "--parent", "1"], capture_output=True, text=True, timeout=FAR)
    assert (ended.returncode, ended.stderr) == (
        1,
        "the process 1 that started this one has ended\n",
    )
