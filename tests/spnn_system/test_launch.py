"""All roles started, watched and ended from one place: with small stand-ins for the roles, which do
as a test tells them.
"""

import dataclasses
import errno
import json
import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import numpy as np
import pandas as pd
import psutil
import pytest
from log_lines import sent
from network_runs import made, small_rows
from played_roles import FOREVER, METRICS, line, log_of, play, started, typed
from waiting import FAR, until

from ppkit import process_tree
from spnn_system import config, launch

pytestmark = pytest.mark.processes


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
    """Each role that ended knows a step of its own: one of them is told."""
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
        f"code 1: {sentence.format(4)}"
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
    monkeypatch.setattr(process_tree, "PATIENCE", 0.4)
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
        "import sys\nfrom ppkit import cli, process_tree\nfrom spnn_system import launch\n"
        # as in the tests above: of the roles of this run the server is deaf
        "process_tree.PATIENCE = 0.4\n"
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
        "import os\nfrom ppkit.process_tree import "
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


TORN = b'{"at": 1, "sen'


UNREADABLE = [
    TORN,
    b"\xff\xfe\x00",
    b"[1, 2]",
    b"7",
    b"null",
    b'"text"',
    b'{"at": 1}',
    b"",
    b'{"at": 1, "sen{"at": 2}',
    json.dumps({"event": "refused", "at": 1.0, "from": "A", "why": "x"}).encode(),
]


@pytest.mark.parametrize("end", [b"", b"\n"])
def test_what_cannot_be_read_is_skipped(tmp_path, end):
    """All other lines count, also where an earlier version left a torn one in the middle."""
    conf = made(tmp_path / "it", small_rows())
    for role in conf.roles:
        conf.folder_of(role).mkdir(parents=True)
    good = [json.dumps(sent(number)).encode() for number in range(len(UNREADABLE) + 1)]
    content = b"".join(b"%s\n%s\n" % pair for pair in zip(good, UNREADABLE)) + good[-1] + end
    (conf.folder_of("B") / "messages.jsonl").write_bytes(content)
    assert launch._messages(conf)["step"].tolist() == list(range(len(good)))
