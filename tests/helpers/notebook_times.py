"""A pytest plugin for the nbval pass: adds up each notebook's time and prints the table; it judges
nothing.

`pytest -p notebook_times --nbval notebooks`
"""

from collections import defaultdict

seconds = defaultdict(float)


def pytest_runtest_logreport(report):
    file = report.nodeid.split("::")[0]
    if file.endswith(".ipynb"):
        seconds[file.removeprefix("notebooks/").removesuffix(".ipynb")] += report.duration


def pytest_terminal_summary(terminalreporter, config):
    if seconds and not hasattr(config, "workerinput"):
        terminalreporter.section("seconds per notebook")
        for name in sorted(seconds):
            terminalreporter.line(f"{name:<28} {seconds[name]:7.1f} s")
