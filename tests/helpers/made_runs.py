"""Folders of runs, as `ppkit reproduce` leaves them, made without running anything."""

from ppkit.runs import run, run_folder

RECORD = {
    "state": "running",
    "profile": "quick",
    "data": "auto",
    "key": "k",
    "commit": "",
    "versions": {"python": "3.11"},
    "machine": {"summary": "a machine"},
}


def made_run(project, notebooks: dict[str, dict]) -> run.Run:
    """A new run's folder, locked for this process, with what is known of its notebooks."""
    return run_folder.create(project.folder / "runs", RECORD | {"notebooks": notebooks}, run.Run)


def new(project, **statuses: str) -> run.Run:
    """The same, with the status of each notebook."""
    return made_run(
        project, {name: {"status": status, "changed": []} for name, status in statuses.items()}
    )
