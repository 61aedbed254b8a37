"""The environment variables that a notebook's kernel runs under: threads, folders it may write to,
data source."""

import os
from pathlib import Path

from ppkit import project
from ppkit.lifeline import THREAD_COUNTS


def for_kernel(
    scratch: Path,
    *,
    threads: int | None,
    source: str | None = None,
    run: Path | None = None,
    notebook: str = "",
) -> dict[str, str]:
    """All variables for one kernel, from this process' own.

    scratch: a folder for what libraries keep in HOME, which may be read-only.
    threads: of the kernel, >= 1; None leaves it to the caller's environment and the libraries,
    which take all cores (and joblib then gives each of its own workers a fair share; a number set
    here it would give to every one whole).
    source: "real" or "standin" decides where the notebook says "auto"; "auto" lifts what the
    caller's
    environment says; None leaves that in force.  run: the run's folder, where figures and claims
    go; None for nowhere.
    """
    inherited = {
        name: value
        for name, value in os.environ.items()
        if name not in ("PPKIT_RUN", "PPKIT_NOTEBOOK", "PPKIT_WATCH", "MPLBACKEND")
    }
    if source is not None:
        inherited.pop("PPKIT_SOURCE", None)
    own = {
        **({name: str(threads) for name in THREAD_COUNTS} if threads else {}),
        **({"PPKIT_SOURCE": source} if source in ("real", "standin") else {}),
        **({"PPKIT_RUN": str(run), "PPKIT_NOTEBOOK": notebook} if run else {}),
        "PPKIT_HOME": str(project.root()),
        "PYTHONHASHSEED": "0",
        "JUPYTER_PREFER_ENV_PATH": "1",
    }
    kept = kept_cache(scratch)
    for name, folder in (
        ("NUMBA_CACHE_DIR", kept / "numba"),
        ("MPLCONFIGDIR", kept / "matplotlib"),
        ("IPYTHONDIR", scratch / "ipython"),
        ("XDG_CACHE_HOME", scratch / "xdg"),
        ("JUPYTER_RUNTIME_DIR", scratch / "jupyter"),
        ("JUPYTER_DATA_DIR", scratch / "jupyter"),
    ):
        folder.mkdir(parents=True, exist_ok=True)
        own[name] = str(folder)
    return {**inherited, **own}


def kept_cache(scratch: Path) -> Path:
    """Where compiled kernels and the list of fonts outlive a run: the project's .cache, or
    `scratch` if it is read-only."""
    kept = project.root() / ".cache"
    try:
        kept.mkdir(exist_ok=True)
        return kept if os.access(kept, os.W_OK) else scratch
    except OSError:
        return scratch
