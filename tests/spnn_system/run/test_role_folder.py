"""What is left half written holds up no run."""

import contextlib
import json
import stat
import threading
from collections import Counter

import pytest
from log_lines import refused, sent
from network_runs import made, nursery, small_rows

from spnn_system.roles.party import Party
from spnn_system.run.role_folder import SECRETS, MessageLog, RoleFolder, cut_to_lines

TORN = b'{"at": 1, "sen'


def read(path):
    return [json.loads(line) for line in path.read_text().splitlines()]


@pytest.mark.parametrize(
    ("content", "whole"),
    [
        (b"", 0),
        (b"torn", 0),
        (b"one\n", 4),
        (b"one\ntorn", 4),
        (b"one\n\n\ntorn", 6),
        (b"x" * 10_000, 0),
        (b"one\n" + b"x" * 10_000, 4),
        (b"x" * 4095 + b"\n", 4096),
        (b"x" * 4096 + b"\n" + b"y" * 4096, 4097),
        (b"one\n" + b"x" * 4095 + b"\n" + b"y" * 4095, 4100),
    ],
    ids=lambda value: str(value)[:20],
)
def test_a_file_is_cut_behind_its_last_newline(tmp_path, content, whole):
    path = tmp_path / "lines"
    path.write_bytes(content)
    cut_to_lines(path)
    with open(path, "ab") as file:
        file.write(b"new\n")
    assert path.read_bytes() == content[:whole] + b"new\n"


def test_lines_after_a_torn_one_are_lines(tmp_path):
    path = tmp_path / "messages.jsonl"
    for number in range(3):  # three processes of one role, each torn
        log = MessageLog(path)
        log.add(sent(number))
        log.write()
        path.write_bytes(path.read_bytes() + TORN)
    log.add(sent(3))  # and one that goes on after a full disk
    log.write()
    assert read(path) == [sent(number) for number in range(4)]
    assert stat.S_IMODE(path.stat().st_mode) == 0o600


def test_nothing_is_lost_between_threads(tmp_path):
    log = MessageLog(tmp_path / "messages.jsonl")

    def add(thread):
        for number in range(500):
            log.add(sent(number, step=thread))
            log.add(refused())

    threads = [threading.Thread(target=add, args=(thread,)) for thread in range(4)]
    for thread in threads:
        thread.start()
    while any(thread.is_alive() for thread in threads):
        log.write()
    log.write()
    found = read(tmp_path / "messages.jsonl")
    steps = Counter(line["step"] for line in found if "event" not in line)
    assert steps == dict.fromkeys(range(4), 500) and len(found) == 4000


@pytest.mark.processes
def test_a_second_process_of_a_role_touches_nothing(tmp_path):
    conf = made(tmp_path / "it", small_rows())
    first = Party(conf, "A", resume=False)
    first.checkpoints.save(2, {}, {})
    mine = first.folder.path
    before = {path.name: path.read_bytes() for path in mine.iterdir()}
    for resume in (False, True):
        with pytest.raises(
            ValueError,
            match="^holder A of this run is running already: another process has A/ in .*run$",
        ):
            Party(conf, "A", resume=resume)
    assert {
        path.name: path.read_bytes() for path in mine.iterdir()
    } == before and "secret.key" in before
    with contextlib.closing(RoleFolder(conf, "coordinator")):
        role = nursery().start(conf, "coordinator")
        assert role.wait() == 2
        assert role.said().startswith(
            "ppkit: the coordinator of this run is running already: another process has "
            "coordinator/ in "
        )
    first.folder.close()  # as when its process ends
    Party(conf, "A", resume=False)


def keys_of(conf) -> dict[str, bytes]:
    """All files of a run that are called a key, by role and name."""
    found = conf.folder.rglob("*.key*")
    return {str(path.relative_to(conf.folder)): path.read_bytes() for path in found}


def test_a_new_run_takes_away_the_keys_and_all_else_of_one_that_never_ended(tmp_path):
    conf = made(tmp_path / "it", small_rows())
    conf.folder_of("server").mkdir(parents=True)
    left = [
        *SECRETS,  # of a run with protocol he, say
        "step-000000020.checkpoint",
        "step-000000030.checkpoint.7.part",
        "journal.txt",
        "messages.jsonl",
        "received.frames",
        "parameters.npz",
    ]
    for name in left:
        (conf.folder_of("server") / name).write_text("0" * 64)
    part = Party(conf, "server", resume=False)
    part.folder.close()
    assert {path.name for path in part.folder.path.iterdir()} == {"lock", "secret.key"}
    assert keys_of(conf).keys() == {"server/secret.key"}
    assert keys_of(conf)["server/secret.key"] != b"0" * 64
