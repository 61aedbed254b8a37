"""All roles of a run on one machine: checked, started as processes of their own, watched, ended;
then what they report.
"""

import functools
import json
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

from ppkit.lifeline import end
from ppkit.writing import whole, write_whole
from spnn_system import data, preflight
from spnn_system.config import Config, load
from spnn_system.run.reports import measured, named
from spnn_system.run.role_folder import LOG, MESSAGES, METRICS, SCORES, STATUS, private

ROLE = [sys.executable, "-P", "-m", "spnn_system"]
COLUMNS = ["step", "phase", "sender", "receiver", "name", "n_bytes", "wire_bytes", "at", "sent_at"]
DONE, STOPPED, BAD_INPUT = 0, 1, 2  # the exit codes of a role, and of a run
STOPS = ": the run stops at step "  # of each role's sentence, what each knows for itself
# seconds beyond the timeout that roles get to end after the first one failed
AFTER_ALL = 3.0


@dataclass(frozen=True, slots=True, eq=False)
class Result:
    """How a run ended.  code: 0 done, 1 stopped, 2 bad input that a role found.  sentence: why it
    stopped, "" if done.

    roles: that ran here.
    messages: one row a message that a role of this machine sent: COLUMNS; bytes, and times in
    seconds since 1970.
    metrics: the label holder's metrics.json, {} if there is none.  seconds: from the first start to
    the last end.
    """

    code: int
    sentence: str
    config: Config = field(repr=False)
    roles: Sequence[str]
    messages: pd.DataFrame = field(repr=False)
    metrics: dict = field(repr=False)
    seconds: float

    def by_link(self) -> pd.DataFrame:
        """Messages and bytes by phase, sender and receiver; payload bytes, and with framing as
        wire_bytes.
        """
        grouped = self.messages.groupby(["phase", "sender", "receiver"], sort=True)
        sums = {name: (name, "sum") for name in ("n_bytes", "wire_bytes")}
        return grouped.agg(messages=("n_bytes", "size"), **sums).reset_index()

    def summary(self) -> str:
        """What a person wants to know first: the test AUC, seconds, bytes by link, where the parts
        lie, and whose rows.
        """
        links, spent, training = self.by_link(), self.metrics.get("seconds", {}), ""
        if spent:
            online, ahead, once = sum(spent["online"]), sum(spent["offline"]), spent["once"]
            # of a resumed run they count what was before too
            rest = max(0.0, self.seconds - online - ahead - once)
            training = (
                f": training {online:.1f} (triples ahead {ahead:.1f}), setting up {once:.1f}, "
                f"starting, testing and stopping {rest:.1f}"
            )
        width = max(len(role) for role in self.config.roles)
        first = "measured at the label holder's machine"
        if self.metrics:
            positives = self.metrics.get("test_positives")
            first = f"{measured(self.metrics)} ({self.metrics['test_rows']:,} rows" + (
                ")" if positives is None else f", {positives:,} positives)"
            )
        whose = (
            "all messages"
            if set(self.roles) == set(self.config.roles)
            else f"what {', '.join(self.roles)} sent"
        )
        if self.config.trained:
            scores = self.config.folder_of(self.config.label_holder) / SCORES
            first = f"scores    of holder {self.config.label_holder} alone, in {scores}"
        said = [
            first,
            f"seconds   {self.seconds:.1f} in all{training}",
            f"rows      {self.config.source}",
            f"secrets   {self.config.protocol.origin}",
            f"parts     {self.config.folder}/<role>, each role's own; {whose} in messages.csv "
            "there",
            "",
            f"{'from':<{width}}  {'to':<{width}}  phase    messages          bytes",
        ]
        said += [
            f"{link.sender:<{width}}  {link.receiver:<{width}}  {link.phase:<7}  "
            f"{link.messages:8,}  {link.n_bytes:13,}"
            for link in links.itertuples()
        ]
        said.append(
            f"{'in all':<{2 * width + 11}}  {len(self.messages):8,}  "
            f"{self.messages['n_bytes'].sum() / 1e6:10.1f} MB"
        )
        return "\n".join(said)


class Interrupted(KeyboardInterrupt):
    """Ctrl-C, or an end by signal, after all roles were ended; says at which step and how to go
    on.
    """


def run(
    path: str | Path,
    *,
    resume: bool = False,
    fresh: bool = False,
    progress: Callable[[int, int], None] | None = None,
    only: Sequence[str] | None = None,
    predict: bool = False,
    tell: Callable[[str], None] | None = None,
) -> Result:
    """Start the roles of a config on this machine, each a process of its own, and wait for their
    end.

    path: of the config file.  resume: go on from the last step that all roles have.  fresh: delete
    what an earlier run left in the same folder.  progress: called with (step, steps) as the
    coordinator counts them; None draws a bar on stderr where a person watches.  only: the roles of
    this machine, where others are started elsewhere; None for all.
    predict: do not train, but score the holders' new rows by the network that was trained; an
    earlier prediction is deleted.
    Returns the Result, whatever the end was; folder/messages.csv then has the messages, unless the
    disk is full, folder/<role>/log.txt what a role said.
    ValueError or FileNotFoundError, in one sentence and before anything starts, for a config,
    certificate, address or data file that is not right; for a run that is in the folder already,
    without resume or fresh; for one resumed with another config. KeyboardInterrupt ends all roles,
    then goes on to the caller as Interrupted; so does the caller's own end.
    """
    config = load(path).prediction() if predict else load(path)
    fresh = fresh or predict
    for role in only or ():
        config.check_role(role)
    roles = [role for role in config.roles if role in (only or config.roles)]
    preflight.check(config, roles, resume=resume, fresh=fresh)
    data.check(config, [name for name in config.names if name in roles], tell=tell)
    status = config.folder_of("coordinator") / STATUS
    metrics = config.folder_of(config.label_holder) / METRICS
    if not resume:
        for stale in (status, metrics, *(config.folder_of(role) / MESSAGES for role in roles)):
            stale.unlink(missing_ok=True)
    start = time.monotonic()
    try:
        with (
            _Roles(config, str(path), roles, resume=resume) as started,
            _bar(config, progress) as show,
        ):
            started.start()
            started.wait(lambda: show(_read(status)))
            seconds = time.monotonic() - start
    except KeyboardInterrupt:
        raise Interrupted(_interrupted(config, roles, status)) from None
    code, sentence = started.ended(_read(status) if "coordinator" in roles else {})
    messages = _messages(config, roles)
    _keep(messages, config.folder / "messages.csv", tell)
    return Result(code, sentence, config, roles, messages, _read(metrics), seconds)


class _Roles(AbstractContextManager):
    """The processes by role. Leaving the block ends those that still run."""

    def __init__(self, config: Config, path: str, roles: Sequence[str], *, resume: bool):
        # as its user named it: roles say it so too
        self._path = path
        self._config, self._roles, self._resume = config, roles, resume
        self._processes: dict[str, subprocess.Popen] = {}
        # exit codes, None of a role that did not end by itself
        self._codes: dict[str, int | None] = {}

    def __exit__(self, *_) -> None:
        end(psutil.Process(role.pid) for role in self._processes.values() if role.poll() is None)
        for process in self._processes.values():
            process.wait()

    def start(self) -> None:
        """All of them."""
        for role in self._roles:
            command = [*ROLE, role, self._path, "--parent", str(os.getpid())]
            command += ["--resume"] if self._resume else []
            command += ["--predict"] if self._config.trained else []
            log = private(self._config.folder_of(role) / LOG)
            with open(log, "ab" if self._resume else "wb") as said:
                self._processes[role] = subprocess.Popen(
                    command,
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
        until = None
        while True:
            self._codes = {role: process.poll() for role, process in self._processes.items()}
            meanwhile()
            codes = self._codes.values()
            if None not in codes or BAD_INPUT in codes:
                return
            if any(code is not None for code in codes):
                until = until or time.monotonic() + self._config.network.timeout + AFTER_ALL
                if time.monotonic() > until:
                    return
            time.sleep(0.05)

    def ended(self, status: dict) -> tuple[int, str]:
        """Exit code and sentence of the run: bad input first, then the coordinator's words, then
        what is known of who failed.
        """
        for role, code in self._codes.items():
            if code == BAD_INPUT:
                return BAD_INPUT, _last_words(self._config, role)
        failed = [role for role in self._roles if self._codes[role] != DONE]
        if not failed:
            return DONE, ""
        if self._codes.get("coordinator", DONE) is None:  # it waited for who ended without a word
            failed = list(self._roles)
        # who ended by itself first: the others only waited for it
        failed.sort(key=lambda role: self._codes[role] is None)
        return STOPPED, status.get("sentence") or self._without_coordinator(failed[:3], status)

    def _without_coordinator(self, failed: Sequence[str], status: dict) -> str:
        """Who failed, at which step, and how it goes on, where the coordinator could not say so.

        Each role that ended knows a step of its own: the coordinator's last one counts, else the
        first that is named.
        """
        said = [self._about(role).partition(STOPS) for role in failed]
        who = "; ".join(words for words, _, _ in said)
        if self._config.trained:
            return f"{who}: the prediction stops; the same command starts it again"
        if status.get("saved") is not None:
            return (
                f"{who}{STOPS}{status['step']}; `ppkit spnn run {self._config.typed} --resume` "
                f"goes on from step {status['saved']} or later"
            )
        step = next((rest for _, _, rest in said if rest), "")
        return f"{who}{STOPS}{step}" if step else who

    def _about(self, role: str) -> str:
        code, log = self._codes[role], self._config.folder_of(role) / LOG
        where = f"(more in {log.relative_to(self._config.folder.parent)})"
        if code is None:
            return f"{named(role)} did not end by itself {where}"
        how = f"was killed by signal {-code}" if code < 0 else f"ended with code {code}"
        words = _last_words(self._config, role) if code > 0 else ""
        return f"{named(role)} {how}" + (f": {words}" if words else f" {where}")


@contextmanager
def _bar(
    config: Config, progress: Callable[[int, int], None] | None
) -> Iterator[Callable[[dict], None]]:
    """What shows a status: one bar of steps; none where nobody watches, or where the caller is told
    of the steps.
    """
    tell = progress and functools.cache(progress)  # each step once
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


def _interrupted(config: Config, roles: Sequence[str], file: Path) -> str:
    """Say at which step, and in status.json too that the run has stopped."""
    if "coordinator" not in roles:
        return (
            "interrupted: the coordinator says to the other roles from which step --resume goes on"
        )
    command, status = f"ppkit spnn run {config.typed}", _read(file)
    only = "".join(f" --only {role}" for role in roles) if len(roles) < len(config.roles) else ""
    if status.get("saved") is None:
        sentence = (
            f"interrupted before all roles had saved a step: `{command} --fresh{only}` starts anew"
        )
    else:
        sentence = (
            f"interrupted at step {status['step']}; `{command} --resume{only}` goes on from step "
            f"{status['saved']}"
        )
    stopped = {"step": 0, "steps": 0, **status, "state": "stopped", "sentence": sentence}
    with suppress(OSError):  # a full disk: the person is told all the same
        write_whole(file, json.dumps(stopped))
    return sentence


def _keep(messages: pd.DataFrame, path: Path, tell: Callable[[str], None] | None) -> None:
    """Write messages.csv; where that fails it is said, and how the run ended is still told."""
    try:
        with whole(path) as part:
            messages.to_csv(part, index=False)
    except OSError as error:
        if tell is not None:
            tell(f"{path} could not be written: {error.strerror or error}")


def _read(path: Path) -> dict:
    return json.loads(path.read_text("utf-8")) if path.exists() else {}


def _messages(config: Config, roles: Sequence[str]) -> pd.DataFrame:
    """What every role wrote down of its own sending, in the order of sending.

    A line that a killed role or a full disk left torn is none.
    """
    lines = []
    for role in roles:
        path = config.folder_of(role) / MESSAGES
        if path.is_file():
            for line in path.read_bytes().splitlines():
                with suppress(ValueError, KeyError, TypeError):  # torn, or a refusal
                    said = json.loads(line)
                    lines.append([said[column] for column in COLUMNS])
    return pd.DataFrame(lines, columns=COLUMNS).sort_values("at", kind="stable", ignore_index=True)


def _last_words(config: Config, role: str) -> str:
    lines = [
        line
        for line in (config.folder_of(role) / LOG).read_text("utf-8", errors="replace").splitlines()
        if line.strip()
    ]
    return lines[-1].removeprefix("ppkit: ").removeprefix(f"{role}: ") if lines else ""
