"""Workers for tests of what is around them: they start no process and compute nothing."""

import contextlib
import json
from pathlib import Path

from ppkit.runs.worker import DONE


class AtOnce(contextlib.nullcontext):
    """Workers that have done a job as soon as it is started; `started` by name, over all tries."""

    started: list[str] = []

    def __init__(self, at_once: int = 1, parent=None):
        super().__init__()
        self.running = {}

    def has_room(self) -> bool:
        return not self.running

    def start(self, name: str, spec: Path) -> None:
        told = json.loads(spec.read_text("utf-8"))
        for kind, ending in (("notebooks", "ipynb"), ("html", "html")):
            Path(told["folder"], kind, f"{told['name']}.{ending}").write_text("{}")
        self.running[name] = spec
        AtOnce.started.append(name)

    def next_event(self, meanwhile) -> tuple[str, dict]:
        name, _ = self.running.popitem()
        return name, {"done": {"status": DONE, "seconds": 1.0, "peak_memory_mb": 1}}
