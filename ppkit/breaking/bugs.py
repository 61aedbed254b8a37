"""The table of bugs, `bugs.toml`, and what it says of each."""

from dataclasses import dataclass
from pathlib import Path

from ppkit import project
from ppkit.validation import one_of

TABLE = Path(__file__).with_name("bugs.toml")


@dataclass(frozen=True)
class Bug:
    """A bug: one text of a module in the place of another.

    name: what `ppkit break` takes.  paper: the key of the paper whose method it breaks.
    symptom: what a person notices; no answer.
    module: the file, below the project's folder.  look_at: what to read in it.
    old, new: the text as it is, exactly once in the module, and the bug.
    also_wrong: a mend that is not right.
    question: what the student answers in words.  fault, answer: the key.
    """

    name: str
    paper: str
    symptom: str
    module: str
    look_at: str
    old: str
    new: str
    also_wrong: str
    question: str
    fault: str
    answer: str

    def put_into(self, source: str, *, new: str | None = None) -> str:
        """The module's source with the bug in it.

        new: another text in the place of `old`, by default the bug.
        ValueError if the source does not have `old` exactly once: then the table is out of date.
        """
        times = source.count(self.old)
        if times != 1:
            raise ValueError(
                f"{self.module} has the text that bug {self.name!r} replaces {times} times, not "
                "once: ppkit/breaking/bugs.toml must be brought up to date"
            )
        return source.replace(self.old, self.new if new is None else new)


def all_bugs() -> dict[str, Bug]:
    """Every bug by its name, in the order of the table."""
    return {name: Bug(name, **about) for name, about in project.read_toml(TABLE).items()}


def bug_of(name: str) -> Bug:
    """The bug with this name.  ValueError, with the names that there are, for another one."""
    one_of(all_bugs(), bug=name)
    return all_bugs()[name]
