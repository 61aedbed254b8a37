"""All roles of a run on one machine: checked, started as processes of their own, watched, ended;
then what they report.
"""

import functools
import json
import math
import os
import subprocess
import sys
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import AbstractContextManager, contextmanager, suppress
from dataclasses import dataclass, field
from pathlib import Path

import pandas as pd
import psutil
from tqdm import tqdm

from ppkit.atomic_writing import whole
from ppkit.process_tree import end
from spnn_system import data, preflight
from spnn_system.config import Config, load
from spnn_system.run.reports import measured, named
from spnn_system.run.role_folder import LOG, MESSAGES, METRICS, SCORES, STATUS, private

ROLE = [sys.executable, "-P", "-m", "spnn_system"]
COLUMNS = ["step", "phase", "sender", "receiver", "name", "n_bytes", "wire_bytes", "at", "sent_at"]
DONE, STOPPED, BAD_INPUT = 0, 1, 2  # the exit codes of a role, and of a run
STOPS = ": the run stops at step "
# seconds beyond the timeout that roles get to end after the first one failed
AFTER_ALL = 3.0


@dataclass(frozen=True, slots=True, eq=False)
class Result:
    """How a run ended.  code: 0 done, 1 stopped, 2 bad input that a role found.  sentence: why it
    stopped, "" if done.

    messages: one row a message: COLUMNS; bytes, and times in seconds since 1970.
    metrics: the label holder's metrics.json, {} if there is none.  seconds: from the first start to
    the last end.
    """

    code: int
    sentence: str
    config: Config = field(repr=False)
    messages: pd.DataFrame = field(repr=False)
    metrics: dict = field(repr=False)
    seconds: float

    def by_link(self) -> pd.DataFrame:
        """Messages and bytes by phase, sender and receiver."""
        grouped = self.messages.groupby(["phase", "sender", "receiver"], sort=True)["n_bytes"]
        return grouped.agg(messages="size", n_bytes="sum").reset_index()

    def summary(self) -> str:
        """What a person wants to know first: the test AUC, seconds, bytes by link, where the parts
        lie, and whose rows.
        """
        config, training = self.config, ""
        scores = config.folder_of(config.label_holder) / SCORES
        first = f"scores    of holder {config.label_holder} alone, in {scores}"
        if self.metrics:
            spent = self.metrics["seconds"]
            online, ahead, once = sum(spent["online"]), sum(spent["offline"]), spent["once"]
            # of a resumed run they count what was before too
            rest = max(0.0, self.seconds - online - ahead - once)
            training = (
                f": training {online:.1f} (triples ahead {ahead:.1f}), setting up {once:.1f}, "
                f"starting, testing and stopping {rest:.1f}"
            )
            rows = f"{self.metrics['test_rows']:,} rows"
            if "test_positives" in self.metrics:
                rows += f", {self.metrics['test_positives']:,} positives"
            first = f"{measured(self.metrics)} ({rows})"
        width = max(len(role) for role in config.roles)
        lines = [
            first,
            f"seconds   {self.seconds:.1f} in all{training}",
            f"rows      {config.source}",
            f"secrets   {config.protocol.origin}",
            f"parts     {config.folder}/<role>, each role's own; all messages in messages.csv "
            "there",
            "",
            f"{'from':<{width}}  {'to':<{width}}  phase    messages          bytes",
        ]
        for link in self.by_link().itertuples():
            lines.append(
                f"{link.sender:<{width}}  {link.receiver:<{width}}  {link.phase:<7}  "
                f"{link.messages:8,}  {link.n_bytes:13,}"
            )
        total = self.messages["n_bytes"].sum() / 1e6
        lines.append(f"{'in all':<{2 * width + 11}}  {len(self.messages):8,}  {total:10.1f} MB")
        return "\n".join(lines)


class Interrupted(KeyboardInterrupt):
    """Ctrl-C, or an end by signal, after all roles were ended; says at which step and how to go
    on.
    """


def run(
    path: str | Path,
    *,
    resume: bool = False,
    fresh: bool = False,
    predict: bool = False,
    progress: Callable[[int, int], None] | None = None,
    tell: Callable[[str], None] = lambda sentence: None,
) -> Result:
    """Start the roles of a config on this machine, each a process of its own, and wait for their
    end.

    path: of the config file.  resume: go on from the last step that all roles have.  fresh: delete
    what an earlier run left in the same folder.
    predict: do not train, but score the holders' new rows by the network that was trained; an
    earlier prediction is deleted.
    progress: called with (step, steps) as the coordinator counts them; None draws a bar on stderr
    where a person watches.  tell: called with what there is to say of the holders' columns.
    Returns the Result, whatever the end was; folder/messages.csv then has the messages, unless the
    disk is full, folder/<role>/log.txt what a role said.
    ValueError or FileNotFoundError, in one sentence and before anything starts, for a config,
    certificate, address or data file that is not right; for a run that is in the folder already,
    without resume or fresh. KeyboardInterrupt ends all roles, then goes on to the caller as
    Interrupted; so does the caller's own end.
    """
    config = load(path).prediction() if predict else load(path)
    preflight.check(config, config.roles, resume=resume, fresh=fresh or predict)
    data.check(config, config.names, tell=tell)
    status = config.folder_of("coordinator") / STATUS
    metrics = config.folder_of(config.label_holder) / METRICS
    if not resume:
        messages_of_roles = [config.folder_of(role) / MESSAGES for role in config.roles]
        for stale in (status, metrics, *messages_of_roles):
            stale.unlink(missing_ok=True)
    start = time.monotonic()
    try:
        with _Roles(config, str(path), resume=resume) as started, _bar(config, progress) as show:
            started.start()
            started.wait(lambda: show(_read(status)))
            seconds = time.monotonic() - start
    except KeyboardInterrupt:
        raise Interrupted(_interrupted(config, _read(status))) from None
    code, sentence = started.ended(_read(status))
    messages = _messages(config)
    _keep(messages, config.folder / "messages.csv", tell)
    return Result(code, sentence, config, messages, _read(metrics), seconds)


class _Roles(AbstractContextManager):
    """The processes by role. Leaving the block ends those that still run."""

    def __init__(self, config: Config, path: str, *, resume: bool):
        # as its user named it: roles say it so too
        self._path = path
        self._config, self._resume = config, resume
        self._processes: dict[str, subprocess.Popen] = {}
        # exit codes, None of a role that did not end by itself
        self._codes: dict[str, int | None] = {}

    def __exit__(self, *_) -> None:
        end(psutil.Process(role.pid) for role in self._processes.values() if role.poll() is None)
        for process in self._processes.values():
            process.wait()

    def start(self) -> None:
        """All of them."""
        options = ["--parent", str(os.getpid())]
        options += ["--resume"] if self._resume else []
        options += ["--predict"] if self._config.trained else []
        for role in self._config.roles:
            log = private(self._config.folder_of(role) / LOG)
            with open(log, "ab" if self._resume else "wb") as said:
                self._processes[role] = subprocess.Popen(
                    [*ROLE, role, self._path, *options],
                    stdin=subprocess.DEVNULL,
                    stdout=said,
                    stderr=said,
                    start_new_session=True,
                )

    def wait(self, meanwhile: Callable[[], None]) -> None:
        """Until all have ended, or those that have not had their time after the first one.

        That is timeout + AFTER_ALL seconds; at once where one found bad input. All end together: a
        role that ends long before is gone, whatever its exit code.
        """
        until = math.inf
        while time.monotonic() <= until:
            self._codes = {role: process.poll() for role, process in self._processes.items()}
            meanwhile()
            codes = self._codes.values()
            if None not in codes or BAD_INPUT in codes:
                return
            if until == math.inf and any(code is not None for code in codes):
                until = time.monotonic() + self._config.network.timeout + AFTER_ALL
            time.sleep(0.05)

    def ended(self, status: dict) -> tuple[int, str]:
        """Exit code and sentence of the run: bad input first, then the coordinator's words, then
        what is known of who failed.
        """
        for role, code in self._codes.items():
            if code == BAD_INPUT:
                return BAD_INPUT, _last_words(self._config, role)
        failed = [role for role, code in self._codes.items() if code != DONE]
        if not failed:
            return DONE, ""
        if self._codes["coordinator"] is None:  # it waited for who ended without a word
            failed = list(self._codes)
        # who ended by itself first: the others only waited for it
        failed.sort(key=lambda role: self._codes[role] is None)
        return STOPPED, status.get("sentence") or self._without_coordinator(failed[:3])

    def _without_coordinator(self, failed: Sequence[str]) -> str:
        """Who failed, where the coordinator could not say so: each role that ended knows a step of
        its own, and one is told.
        """
        *others, last = [self._about(role) for role in failed]
        said = [words.partition(STOPS)[0] for words in others]
        if self._config.trained:
            who = "; ".join([*said, last.partition(STOPS)[0]])
            return f"{who}: the prediction stops; the same command starts it again"
        return "; ".join([*said, last])

    def _about(self, role: str) -> str:
        code, log = self._codes[role], self._config.folder_of(role) / LOG
        where = f"(more in {log.relative_to(self._config.folder.parent)})"
        if code is None:
            return f"{named(role)} did not end by itself {where}"
        if code < 0:
            return f"{named(role)} was killed by signal {-code} {where}"
        words = _last_words(self._config, role) if code else ""
        return f"{named(role)} ended with code {code}" + (f": {words}" if words else f" {where}")


@contextmanager
def _bar(
    config: Config, progress: Callable[[int, int], None] | None
) -> Iterator[Callable[[dict], None]]:
    """What shows a status: one bar of steps; none where nobody watches, or where the caller is told
    of the steps, each once.
    """
    tell = progress and functools.cache(progress)
    with tqdm(
        total=config.training.last_step,
        desc="starting",
        disable=None if progress is None else True,
        dynamic_ncols=True,
        leave=False,
        bar_format="{desc} |{bar}| {n_fmt} of {total_fmt} steps, {elapsed}",
    ) as bar:

        def show(status: dict) -> None:
            if status and tell:
                tell(status["step"], status["steps"])
            elif status:
                bar.n = status["step"]
                bar.set_description_str(status["state"])

        yield show


def _interrupted(config: Config, status: dict) -> str:
    """At which step, and how it goes on."""
    command = f"ppkit spnn run {config.typed}"
    if status.get("saved") is None:
        return f"interrupted before all roles had saved a step: `{command} --fresh` starts anew"
    return (
        f"interrupted at step {status['step']}; `{command} --resume` goes on from step "
        f"{status['saved']}"
    )


def _keep(messages: pd.DataFrame, path: Path, tell: Callable[[str], None]) -> None:
    """Write messages.csv; where that fails it is said, and how the run ended is still told."""
    try:
        with whole(path) as part:
            messages.to_csv(part, index=False)
    except OSError as error:
        tell(f"{path} could not be written: {error.strerror or error}")


def _read(path: Path) -> dict:
    return json.loads(path.read_text("utf-8")) if path.exists() else {}


def _messages(config: Config) -> pd.DataFrame:
    """What every role wrote down of its own sending, in the order of sending.

    A line that a killed role or a full disk left torn is none.
    """
    lines = []
    for role in config.roles:
        path = config.folder_of(role) / MESSAGES
        for line in path.read_bytes().splitlines() if path.is_file() else []:
            with suppress(ValueError, KeyError, TypeError):  # torn, or a refusal
                said = json.loads(line)
                lines.append([said[column] for column in COLUMNS])
    return pd.DataFrame(lines, columns=COLUMNS).sort_values("at", kind="stable", ignore_index=True)


def _last_words(config: Config, role: str) -> str:
    log = (config.folder_of(role) / LOG).read_text("utf-8", errors="replace")
    last = (log.strip().splitlines() or [""])[-1]
    return last.removeprefix("ppkit: ").removeprefix(f"{role}: ")
