"""What a run ran on: processor, cores, memory, system and versions; no host name, no path."""

import os
import platform
import subprocess
import sys
from contextlib import suppress
from importlib import metadata
from pathlib import Path

import psutil

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


def describe() -> dict:
    """The machine as run.json names it; `summary` is the same in one line."""
    about = {
        "cpu": cpu_model(),
        "cores": cores(),
        "memory_gb": round(memory_limit() / GB, 1),
        "system": f"{platform.system()} {platform.release().split('-')[0]} {platform.machine()}",
    }
    summary = (
        f"{about['cpu']}, {about['cores']} cores, {about['memory_gb']:.0f} GB, {about['system']}"
    )
    return {**about, "summary": summary}


def versions() -> dict[str, str]:
    """Versions of Python and of the packages that numbers depend on; one that is missing is left
    out."""
    found = {"python": platform.python_version()}
    for package in PACKAGES:
        try:
            found[package] = metadata.version(package)
        except metadata.PackageNotFoundError:
            continue
    return found


def cores() -> int:
    """Cores that this process may use."""
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1


def memory_limit() -> int:
    """Bytes of memory that this process may use: the machine's, or the container's if that is
    less."""
    return min([psutil.virtual_memory().total, *_container("memory.max")])


def memory_available() -> int:
    """Bytes of memory that are free for new processes now, the container's limit included."""
    left = [
        limit - used for limit, used in zip(_container("memory.max"), _container("memory.current"))
    ]
    return max(0, min([psutil.virtual_memory().available, *left]))


def memory_of(pid: int) -> int:
    """Bytes of memory that a process and all below it hold now, swapped or not; 0 if it has ended.

    On Linux a page that n processes share counts as 1/n in each: what all have loaded counts once.
    Elsewhere it counts whole in each.
    """
    total = 0
    with suppress(psutil.NoSuchProcess):
        process = psutil.Process(pid)
        for each in (process, *process.children(recursive=True)):
            with suppress(psutil.Error):
                held = each.memory_full_info() if sys.platform == "linux" else each.memory_info()
                total += getattr(held, "pss", held.rss) + getattr(held, "swap", 0)
    return total


def cpu_model() -> str:
    """The processor's name as the system gives it."""
    if sys.platform == "linux":
        for line in Path("/proc/cpuinfo").read_text("utf-8").splitlines():
            if line.startswith("model name"):
                return line.split(":", 1)[1].strip()
    if sys.platform == "darwin":
        asked = subprocess.run(
            ["sysctl", "-n", "machdep.cpu.brand_string"], capture_output=True, text=True
        )
        if asked.returncode == 0:
            return asked.stdout.strip()
    return platform.processor() or platform.machine()


def _container(name: str) -> list[int]:
    try:
        text = Path("/sys/fs/cgroup", name).read_text("utf-8").strip()
    except OSError:
        return []
    return [int(text)] if text.isdigit() else []
