"""Small stand-ins for the roles, which the launcher starts and which do as a test tells them."""

import json
import shlex
from pathlib import Path

from waiting import FAR

PLAYER = """
import json, os, signal, sys, time
from pathlib import Path
from ppkit.process_tree import die_with_parent
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
