"""A pytest plugin for the nbval pass: adds up each notebook's time, prints the table, fails what is far over budget.

`pytest -p notebook_times --nbval --notebook-budgets notebooks`; budgets stand in pyproject.toml, [tool.ppkit.budgets].
"""

import tomllib
from collections import defaultdict
from pathlib import Path

import pytest

ALLOWED = 1.5
seconds = defaultdict(float)


def pytest_addoption(parser):
    parser.addoption("--notebook-budgets", action="store_true", help="fail if a notebook takes half more than its budget")


def pytest_runtest_logreport(report):
    file = report.nodeid.split("::")[0]
    if file.endswith(".ipynb"):
        seconds[file.removeprefix("notebooks/").removesuffix(".ipynb")] += report.duration


def overruns(taken: dict, budgets: dict) -> list[str]:
    """One sentence for each notebook without a budget or above ALLOWED times its own."""
    said = [f"{name} has no budget: give it one in pyproject.toml, [tool.ppkit.budgets]"
            for name in taken if name not in budgets]
    return said + [f"{name} took {taken[name]:.0f} s, more than {ALLOWED} times its budget of {budgets[name]} s"
                   for name in taken if name in budgets and taken[name] > ALLOWED * budgets[name]]


def budgets_in(rootpath: Path) -> dict:
    """The budgets of a project, by notebook."""
    return tomllib.loads((rootpath / "pyproject.toml").read_text("utf-8"))["tool"]["ppkit"]["budgets"]


@pytest.hookimpl(tryfirst=True)
def pytest_sessionfinish(session, exitstatus):
    is_worker = hasattr(session.config, "workerinput")
    if session.config.getoption("--notebook-budgets") and not is_worker and exitstatus == 0:
        if overruns(seconds, budgets_in(session.config.rootpath)):
            session.exitstatus = 1


def pytest_terminal_summary(terminalreporter, config):
    if not seconds or hasattr(config, "workerinput"):
        return
    budgets = budgets_in(config.rootpath)
    terminalreporter.section("seconds per notebook")
    for name in sorted(seconds):
        terminalreporter.line(f"{name:<28} {seconds[name]:7.1f} s of {budgets.get(name, 0):5d} s")
    if config.getoption("--notebook-budgets"):
        for sentence in overruns(seconds, budgets):
            terminalreporter.line(sentence, red=True)
