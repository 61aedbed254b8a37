"""What is left half written holds up no run."""

import json
import stat
import threading
from collections import Counter

import pytest
from network_runs import alone, made, same, small_rows, started

from spnn_system import launch
from spnn_system.run.journal import Journal, SentBefore
from spnn_system.run.role_folder import MessageLog, cut_to_lines

pytestmark = pytest.mark.processes

TORN = b'{"at": 1, "sen'


def sent(number, **different):
    """A line of a message."""
    return {
        "at": float(number),
        "sent_at": number + 0.5,
        "step": number,
        "phase": "online",
        "sender": "B",
        "receiver": "server",
        "name": "h1",
        "n_bytes": 8,
        "wire_bytes": 100,
        **different,
    }


def refused(role="A", event="refused", **more):
    return {"event": event, "at": 0.0, "from": role, "why": "it was junk", **more}


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


def test_a_journal_after_a_torn_line_is_read_and_still_holds(tmp_path):
    journal = Journal(tmp_path)
    journal.begin()
    journal.sending(0, "B", "w", b"one")
    journal.close()
    journal.path.write_bytes(journal.path.read_bytes() + b"0\tB\t1\tw\tab")
    journal.begin()
    journal.sending(0, "B", "w", b"two")
    journal.close()
    again = Journal(tmp_path)
    again.recall(0)
    again.begin()
    again.sending(0, "B", "w", b"one")
    with pytest.raises(SentBefore):
        again.sending(0, "B", "w", b"another")
    again.close()


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


LIMITED = """
import resource
from spnn_system.run import role_folder
write = role_folder.MessageLog.write
def full(self):                                             # its disk is full in mid-line
    if self._path.exists() and self._path.stat().st_size > 1000:
        most = self._path.stat().st_size + 100
        resource.setrlimit(resource.RLIMIT_FSIZE, (most, resource.RLIM_INFINITY))
    return write(self)
role_folder.MessageLog.write = full
"""


def test_a_disk_that_fills_up_in_the_middle_of_a_line_does_not_make_a_run_unfinishable(
    tmp_path, forked
):
    """B's process really cannot write on: its files may not grow. The run goes on then."""
    vertical = small_rows()
    conf = made(tmp_path / "it", vertical)
    roles = started(conf, first={"B": LIMITED})
    assert {role: each.wait() for role, each in roles.items()} == dict.fromkeys(roles, 1)
    assert "File too large" in roles["B"].said()
    path = conf.folder_of("B") / "messages.jsonl"
    # torn or not: that is for the last write to say
    assert path.read_bytes().count(b"\n") > 3
    result = launch.run(conf.path, resume=True)
    assert (result.code, result.sentence) == (0, "")
    same(conf, alone(conf, vertical))
    assert len(read(path)) > 3


def test_a_torn_line_at_every_role_and_the_run_goes_on_to_the_bit(tmp_path, ppkit, forked):
    """The short way to see it: a run that stopped, half a line behind messages.jsonl, --resume."""
    vertical = small_rows()
    conf = made(tmp_path / "it", vertical, latency=0.02)

    def stop(step, _):
        if step >= 3:
            raise KeyboardInterrupt

    with pytest.raises(launch.Interrupted):
        launch.run(conf.path, progress=stop)
    for role in conf.roles:
        with open(conf.folder_of(role) / "messages.jsonl", "ab") as file:
            file.write(TORN)
    code, out, said = ppkit("spnn", "run", str(conf.path), "--resume")
    assert (code, said) == (0, "") and "test AUC" in out
    assert (conf.folder / "messages.csv").read_text().count("\n") > 20
    same(conf, alone(conf, vertical))
    for role in conf.roles:  # whole lines, and nothing else
        steps = [line["step"] for line in read(conf.folder_of(role) / "messages.jsonl")]
        assert 1 in steps or role == "coordinator"


# junk


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
