"""The child processes of a run: started, measured, and ended with every process they started."""

import json
import queue
import subprocess
import sys
import threading
import time
from pathlib import Path

from ppkit.lifeline import end_marked
from ppkit.runner import machine
from ppkit.runner.worker import FAILED

LINES_KEPT = 12
MEASURED_EVERY = 0.25  # seconds between two looks at the memory of all, or more, so that they cost
MEASURED_SHARE = 0.01  # at most this share of one core


class Children:
    """Workers by name. Leaving the block ends those that still run, and their kernels, in seconds.

    memory, peak: bytes that each worker and all below it hold now, and that they have held at most.
    """

    def __init__(self):
        self.running: dict[str, subprocess.Popen] = {}
        self.memory: dict[str, int] = {}
        self.peak: dict[str, int] = {}
        self._measure_at = 0.0
        self._events = queue.Queue()

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.stop()

    def start(self, name: str, spec: Path) -> None:
        """Start a worker on the spec file; what it says on stderr is kept beside the spec.

        What a killed worker on the same file has left running ends first.
        """
        end_marked(str(spec))
        with open(spec.with_name("stderr.txt"), "w", encoding="utf-8") as errors:
            child = subprocess.Popen(
                [sys.executable, "-P", "-m", "ppkit.runner.worker", str(spec)],
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                stderr=errors,
                cwd=_folder_of(spec),
                start_new_session=True,
            )
        self.running[name], self.memory[name], self.peak[name] = child, 0, 0
        threading.Thread(target=self._listen, args=(name, child, spec), daemon=True).start()

    def next_event(self, meanwhile=lambda: None) -> tuple[str, dict]:
        """Wait for the next line of any worker: (name, {"cell": k}) or (name, {"done": {...}}),
        which is its last.

        The peak memory in it is that of the whole tree of processes.
        meanwhile: called a few times a second as long as there is none.
        """
        while True:
            self._measure()
            try:
                name, event = self._events.get(timeout=0.2)  # a short wait, so that Ctrl-C is heard
            except queue.Empty:
                meanwhile()
                continue
            if "done" in event:
                self.running.pop(name)
                last = event["done"]
                last["peak_memory_mb"] = max(
                    last["peak_memory_mb"], round(self.peak[name] / machine.MB)
                )
            return name, event

    def _measure(self) -> None:
        if time.monotonic() < self._measure_at:
            return
        began = time.thread_time()
        for name, child in self.running.items():
            self.memory[name] = machine.memory_of(child.pid)
            self.peak[name] = max(self.peak[name], self.memory[name])
        spent = time.thread_time() - began
        self._measure_at = time.monotonic() + max(MEASURED_EVERY, spent / MEASURED_SHARE)

    def stop(self) -> None:
        """End all workers and whatever they started: politely, and after a moment for good."""
        for child in self.running.values():
            end_marked(child.args[-1])
            child.kill()
            child.wait()
        self.running.clear()

    def _listen(self, name: str, child: subprocess.Popen, spec: Path) -> None:
        last = {}
        for line in child.stdout:
            last = json.loads(line)
            if "cell" in last:
                self._events.put((name, last))
        child.stdout.close()
        code = child.wait()
        child.stdin.close()
        if "done" not in last:
            end_marked(str(spec))
            last = {
                "done": {
                    "status": FAILED,
                    "error": f"its process ended with code {code} before the notebook did",
                    "cell": last.get("cell", 0),
                    "seconds": 0.0,
                    "peak_memory_mb": 0,
                    "traceback": spec.with_name("stderr.txt")
                    .read_text("utf-8")
                    .splitlines()[-LINES_KEPT:],
                }
            }
        self._events.put((name, last))


def _folder_of(spec: Path) -> str:
    return str(Path(json.loads(spec.read_text("utf-8"))["notebook"]).parent)
