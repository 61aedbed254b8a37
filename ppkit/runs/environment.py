"""What a run runs on and under: the machine and its versions, without host name and path, and the
environment variables of a notebook's kernel."""

import os
import platform
import shutil
import subprocess
import sys
from contextlib import suppress
from functools import cache
from importlib import metadata
from pathlib import Path

import psutil

from ppkit import project
from ppkit.process_tree import THREAD_COUNTS

PACKAGES = (
    "ppkit",
    "torch",
    "numpy",
    "scipy",
    "pandas",
    "scikit-learn",
    "numba",
    "dp-accounting",
    "matplotlib",
    "papermill",
    "nbclient",
    "ipykernel",
)
MB, GB = 1024**2, 1024**3
# under which a notebook is executed for the repository: every x86-64 processor of today has them,
# and the same instructions give the same last digits; the Makefile's tests of records set them, too
INSTRUCTIONS = {
    "ATEN_CPU_CAPABILITY": "avx2",
    "OPENBLAS_CORETYPE": "Haswell",
    "MKL_CBWR": "COMPATIBLE",
    "MKL_ENABLE_INSTRUCTIONS": "AVX2",
    "NPY_DISABLE_CPU_FEATURES": "X86_V4,AVX512_ICL,AVX512_SPR",
}
# glibc's malloc takes blocks below a limit from a heap that it seldom gives back, and raises the
# limit to the largest block that was freed, up to 32 MB. Held at 1 MiB, which_one takes some 950 MB
# rather than 1,120, and a tenth more time. Another malloc does not read it.
GIVES_BACK = {"MALLOC_MMAP_THRESHOLD_": str(MB)}


def describe() -> dict:
    """The machine as run.json names it; `summary` is the same in one line.

    Its memory is what this process may use: the machine's, or the container's if that is less.
    """
    memory = min([psutil.virtual_memory().total, *_container("memory.max")])
    about = {
        "cpu": cpu_model(),
        "cores": cores(),
        "memory_gb": round(memory / GB, 1),
        "system": f"{platform.system()} {platform.release().split('-')[0]} {platform.machine()}",
    }
    return about | {"summary": "{cpu}, {cores} cores, {memory_gb:.0f} GB, {system}".format(**about)}


@cache
def versions() -> dict[str, str]:
    """Versions of Python and of the packages that numbers depend on; one that is missing is left
    out."""
    found = {"python": platform.python_version()}
    for package in PACKAGES:
        with suppress(metadata.PackageNotFoundError):
            found[package] = metadata.version(package)
    return found


def commit() -> str:
    """The commit of the project's clone that a run runs, with "+" where files were changed since;
    "" outside a clone."""
    if not (project.root() / ".git").exists() or not shutil.which("git"):
        return ""
    git = ["git", "-C", str(project.root())]
    head = subprocess.run([*git, "rev-parse", "--short=10", "HEAD"], capture_output=True)
    changed = subprocess.run([*git, "status", "--porcelain", "-uno"], capture_output=True)
    return head.stdout.decode().strip() + ("+" if changed.stdout.strip() else "")


def cores() -> int:
    """Cores that this process may use."""
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1


def memory_available() -> int:
    """Bytes of memory that are free for new processes now, the container's limit included."""
    left = [
        limit - used for limit, used in zip(_container("memory.max"), _container("memory.current"))
    ]
    return max(0, min([psutil.virtual_memory().available, *left]))


def memory_of(pid: int) -> int:
    """Bytes of memory that a process and all below it hold now, swapped or not; 0 if it has ended,
    or if the system does not say.

    On Linux a page that n processes share counts as 1/n in each: what all have loaded counts once.
    Elsewhere it counts whole in each.
    """
    total = 0
    with suppress(psutil.Error):
        process = psutil.Process(pid)
        for each in (process, *process.children(recursive=True)):
            with suppress(psutil.Error):
                held = each.memory_full_info() if sys.platform == "linux" else each.memory_info()
                total += getattr(held, "pss", held.rss) + getattr(held, "swap", 0)
    return total


def cpu_model() -> str:
    """The processor's name as the system gives it."""
    about = Path("/proc/cpuinfo")
    lines = about.read_text("utf-8").splitlines() if about.exists() else []
    named = (line.split(":", 1)[1].strip() for line in lines if line.startswith("model name"))
    return next(named, "") or platform.processor() or platform.machine()


def for_kernel(
    scratch: Path,
    *,
    threads: int | None,
    source: str | None = None,
    run: Path | None = None,
    name: str = "",
) -> dict[str, str]:
    """All variables for one kernel, from this process' own.

    scratch: a folder for what libraries keep in HOME, which may be read-only.
    threads: of the kernel, >= 1; None leaves it to the caller's environment and the libraries,
    which take all cores (and joblib then gives each of its own workers a fair share; a number set
    here it would give to every one whole).
    source: "real" or "standin" decides where the notebook says "auto"; "available" lifts what
    the caller's environment says; None leaves that in force.  run: the run's folder, where figures
    and claims go, under the notebook's name; None for nowhere.
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
        **({"PPKIT_RUN": str(run), "PPKIT_NOTEBOOK": name} if run else {}),
        "PPKIT_HOME": str(project.root()),
        "PYTHONHASHSEED": "0",
        "JUPYTER_PREFER_ENV_PATH": "1",
    }
    own = GIVES_BACK | inherited | own
    kept = _kept_cache(scratch)
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
    return own


def _container(name: str) -> list[int]:
    try:
        text = Path("/sys/fs/cgroup", name).read_text("utf-8").strip()
    except OSError:
        return []
    return [int(text)] if text.isdigit() else []


def _kept_cache(scratch: Path) -> Path:
    """Where compiled kernels and the list of fonts outlive a run: the project's .cache, or
    `scratch` if it is read-only."""
    kept = project.root() / ".cache"
    with suppress(OSError):
        kept.mkdir(exist_ok=True)
    return kept if os.access(kept, os.W_OK) else scratch
