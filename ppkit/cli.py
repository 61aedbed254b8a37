"""The command line, `ppkit`: first, budget, reproduce, lab, break, key, assignment, execute,
reference, claims, compare, cluster, data, and what other packages add."""

import gc
import io
import os
import sys
from importlib import metadata
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from ppkit.runs import Refused

if TYPE_CHECKING:
    from distributed import Client

    from ppkit.breaking.bugs import Bug
    from ppkit.dpstgd.costs import Cost

app = typer.Typer(
    no_args_is_help=True,
    add_completion=False,
    rich_markup_mode=None,
    pretty_exceptions_enable=False,
    help="Four papers on private learning on financial data, rerun and re-tested.",
)
data_app = typer.Typer(
    no_args_is_help=True, rich_markup_mode=None, help="The data sets: what is here, what is not."
)
app.add_typer(data_app, name="data")
for command in metadata.entry_points(group="ppkit.commands"):  # of packages above this one
    app.add_typer(command.load(), name=command.name)

Notebooks = Annotated[
    list[str] | None,
    typer.Argument(metavar="[NOTEBOOK]...", help="names such as wang2018; none for all"),
]
Scheduler = Annotated[
    str | None, typer.Option(metavar="ADDRESS", help="tls://HOST:8786; tcp:// on this machine only")
]
TlsFile = Annotated[Path | None, typer.Option(metavar="FILE", help="for tls://, in PEM")]
HOW_TO_START = """\
openssl req -x509 -newkey ec -pkeyopt ec_paramgen_curve:P-256 -nodes -days 30 -subj /CN=ppkit \\
        -keyout key.pem -out cert.pem  # once, copied to each machine: who has them runs code there
T="--tls-ca-file cert.pem --tls-cert cert.pem --tls-key key.pem"
T="$T --protocol tls --no-dashboard --dashboard-address 127.0.0.1:0"  # no HTTP beyond loopback
dask scheduler $T  # on one machine, in a clone, its .venv active
dask worker tls://HOST:8786 $T --nthreads 1 --nworkers 4  # on each, same commit
# Workers end with their scheduler. Start both again, and the same `ppkit reproduce` goes on."""


@app.command()
def first() -> None:
    """Read one card transaction out of one gradient, and draw it: a first result in seconds."""
    from ppkit import first as reading
    from ppkit import project

    project.root()  # refused before anything is computed: the picture goes there
    print(f"Picture: {reading.run()}")


@app.command()
def budget(
    epsilon: Annotated[float, typer.Option(help="of one choice of an upload")],
    sample_rate: Annotated[float, typer.Option(help="chance of a row to be in an upload's sample")],
    uploads: Annotated[int, typer.Option(help="entries that one upload sends")],
    rounds: Annotated[int, typer.Option(help="how often a participant uploads")] = 1,
    parameters: Annotated[int, typer.Option(help="of the model: the paper's")] = 14_312,
    delta: Annotated[
        float, typer.Option(show_default="2^-30", help="chance that the promise fails")
    ] = 2.0**-30,
    neighbouring: Annotated[str, typer.Option(help="add_remove or replace_one")] = "add_remove",
    mechanism: Annotated[
        str | None, typer.Option(help="laplace or gumbel; both if left out")
    ] = None,
    csv: Annotated[
        bool, typer.Option("--csv", help="print CSV, each line with its settings")
    ] = False,
) -> None:
    """Print what wang2018's uploads cost by the paper's formula, for an attacker, and by a proof:
    one upload, and all rounds."""
    from ppkit.dpstgd import costs as pricing

    costs = pricing.upload_costs(
        epsilon,
        sample_rate=sample_rate,
        n_uploads=uploads,
        n_rounds=rounds,
        n_parameters=parameters,
        delta=delta,
        neighbouring=neighbouring,
        mechanisms=[mechanism] if mechanism else pricing.NOISES,
    )
    if csv:
        print(pricing.as_csv(costs), end="")
    else:
        _print_costs(costs)


def _print_costs(costs: "list[Cost]") -> None:
    from rich.table import Table

    from ppkit.dpstgd import costs as pricing
    from ppkit.runs.screen import BOX, console

    screen, first = console(100), costs[0]
    relation = pricing.IN_WORDS[first.neighbouring]
    screen.print(
        f"epsilon at delta {first.delta:.3g}, {relation} ({first.neighbouring}); one choice "
        f"{first.epsilon:g}, sample rate {first.sample_rate:g}, {first.n_uploads:,} of "
        f"{first.n_parameters:,} entries sent"
    )
    table = Table(box=BOX, padding=(0, 1, 0, 0))
    table.add_column("noise, uploads", no_wrap=True)
    for line, columns in pricing.side_by_side(costs).items():
        if not table.rows:
            for heading in columns:
                table.add_column(heading, justify="right", no_wrap=True)
        table.add_row(line, *(f"{value:,.2f}" for value in columns.values()))
    screen.print(table)
    for (column, source), lines in pricing.sources(costs).items():
        screen.print(f"{column}: {source} ({'; '.join(lines)})")


@app.command()
def reproduce(
    notebooks: Notebooks = None,
    profile: Annotated[
        str, typer.Option(help="quick (minutes) or paper (the paper's own sizes)")
    ] = "quick",
    p: Annotated[
        list[str] | None,
        typer.Option(
            "-p", metavar="NAME VALUE", help="set a notebook's parameter; may be repeated"
        ),
    ] = None,
    data: Annotated[
        str | None, typer.Option(help="available (real rows where there are any), real or standin")
    ] = None,
    jobs: Annotated[int | None, typer.Option(min=1, help="notebooks at a time")] = None,
    grid: Annotated[
        list[str] | None,
        typer.Option(metavar="NAME=VALUES", help="SEED=0..9 or CLIP=.5,1; several are combined"),
    ] = None,
    points: Annotated[
        Path | None, typer.Option(metavar="FILE.csv", help="a point a line, parameters above")
    ] = None,
    settings: Annotated[
        bool,
        typer.Option(
            "--settings",
            help="at every setting of the record's choices file; with --profile paper, at those "
            "few single ones that turn, at the quick size, what the paper's size reproduced",
        ),
    ] = False,
    limit: Annotated[
        float | None, typer.Option(min=0.001, max=1e9, help="seconds that a point may take")
    ] = None,
    scheduler: Scheduler = None,
    tls_ca_file: TlsFile = None,
    tls_client_cert: TlsFile = None,
    tls_client_key: TlsFile = None,
    fresh: Annotated[
        bool, typer.Option("--fresh", help="do not go on in an unfinished run")
    ] = False,
    warm: Annotated[
        bool, typer.Option(help="fork kernels from one that has imported what they import")
    ] = True,
    runs: Annotated[
        Path | None, typer.Option(help="folder for the runs, else runs/ of the project")
    ] = None,
) -> None:
    """Run notebooks headless into runs/<time>-<profile>/, with an index.html to open first; with
    --grid, --points or --settings one notebook, once a point."""
    from ppkit.runs import batch, catalogue, run
    from ppkit.verdicts import robustness

    wanted = notebooks or []
    given = [(name, value) for name, _, value in (pair.partition("=") for pair in p or [])]
    at = None
    if settings:
        if grid or points or len(wanted) != 1:
            raise Refused("--settings takes one record, such as wu2020, without --grid or --points")
        at = robustness.points(wanted[0], profile)
        batch.refuse_other_main(wanted[0])
    elif grid or points:
        at = batch.points(grid or [], points)
    elif scheduler or limit is not None:
        raise Refused("--scheduler and --limit are for a batch: give --grid, --points, --settings")
    catalogue.refuse_twice([name for name, _ in given] + list(at[0] if at else ()))
    files = (tls_ca_file, tls_client_cert, tls_client_key)
    code = run.reproduce(
        wanted,
        points=at and [dict(given) | point for point in at],
        profile=profile,
        given=dict(given),
        source=data,
        at_once=jobs,
        limit=limit,
        fresh=fresh,
        warm=warm,
        runs=runs,
        client=_connected(scheduler, *files) if scheduler else None,
    )
    raise typer.Exit(code)


@app.command()
def cluster(
    scheduler: Scheduler = None,
    tls_ca_file: TlsFile = None,
    tls_client_cert: TlsFile = None,
    tls_client_key: TlsFile = None,
) -> None:
    """Say how to start a scheduler and workers; with --scheduler, who works there."""
    if scheduler is None:
        print(HOW_TO_START)
    else:
        from ppkit.runs.cluster import Workers

        client = _connected(scheduler, tls_ca_file, tls_client_cert, tls_client_key)
        with Workers(client, None, files={}) as workers:
            workers.look()
            for name in workers.fit.values():
                print(f"{name}: ready")
            if not workers.fit:
                print(workers.nobody())
        raise typer.Exit(0 if workers.fit and not workers.refused else 1)


def _connected(scheduler: str, *files: Path | None) -> "Client":
    try:
        from ppkit.runs import cluster as machines
    except ModuleNotFoundError as error:
        raise Refused(
            f"{error}: pip install -e '.[cluster]' brings what a scheduler needs"
        ) from None
    return machines.connect(scheduler, dict(zip(machines.tls.FILES, files)))


@app.command()
def lab(
    options: Annotated[
        list[str] | None,
        typer.Argument(
            metavar="[-- OPTION...]", help="of jupyter lab, such as -- --no-browser --port 9999"
        ),
    ] = None,
    fresh: Annotated[
        list[str] | None,
        typer.Option(
            metavar="NAME",
            help="put this lesson or solution back, keep what was there beside it as "
            "NAME.kept-1.ipynb, and open nothing; may be repeated. "
            "Where it is open in Lab, close it first",
        ),
    ] = None,
) -> None:
    """Open JupyterLab on copies of the lessons in work/, without outputs; solutions keep theirs.

    A copy that is there is never overwritten. Lab's folder is the project; the lessons in
    notebooks/, which the tests compare, are not listed in it.
    """
    from ppkit.runs import lab as copies

    for sentence in copies.prepare(fresh or []):
        print(sentence)
    if not fresh:
        copies.open_lab(options or [])


@app.command("break")
def break_one(
    name: Annotated[
        str | None, typer.Argument(metavar="[NAME]", help="of a bug; none lists them all")
    ] = None,
    check: Annotated[
        bool, typer.Option("--check", help="say whether your mend is right; exit code 1 if not")
    ] = False,
    answer: Annotated[
        bool, typer.Option("--answer", help="print what is broken, and why it is unsafe")
    ] = False,
    fresh: Annotated[
        bool, typer.Option("--fresh", help="begin anew, and keep your work as NAME.kept-1")
    ] = False,
) -> None:
    """Put a real privacy bug into a copy of ppkit that is yours, find it, and mend it.

    The copy lies in work/break/NAME, beside notebooks that import it and notice the bug.
    Run one under plain nbval: it shows which printed values turn. Read the file that is named,
    say why it is unsafe, mend it, and ask for the check. ppkit itself is never changed.
    """
    from ppkit.breaking import bugs, copies

    if name is None:
        _print_bugs(list(bugs.all_bugs().values()))
        return
    bug = bugs.bug_of(name)
    if check:
        raise typer.Exit(copies.check(bug))
    if answer:
        print(f"What is broken: {bug.fault}\n\n{bug.question}\n{bug.answer}")
        return
    print(copies.prepare(bug, fresh=fresh))
    print(copies.what_to_do(bug))


def _print_bugs(bugs: "list[Bug]") -> None:
    from rich.table import Table

    from ppkit.runs.screen import BOX, console

    table = Table(box=BOX, padding=(0, 1, 0, 0))
    for heading in ("name", "paper", "what you notice"):
        table.add_column(heading, no_wrap=heading != "what you notice")
    for bug in bugs:
        table.add_row(bug.name, bug.paper, bug.symptom)
    console(100).print(table)
    print("`ppkit break NAME` puts one into a copy that is yours to mend.")


@app.command()
def key(
    lesson: Annotated[str, typer.Argument(metavar="NAME", help="such as 01a or 1_dpstgd")],
) -> None:
    """Print a lesson's key for its teacher, as Markdown: what is right in its predictions and
    exercises, and the mistakes that we expect, each with its hint."""
    from ppkit import instructors_key

    print(instructors_key.key(instructors_key.lesson(lesson)))


@app.command()
def assignment(
    lesson: Annotated[str, typer.Argument(metavar="NAME", help="such as 01a or 1_dpstgd")],
    into: Annotated[Path, typer.Option(help="source folder of the course")] = Path("source"),
) -> None:
    """Write a lesson as a source notebook of nbgrader: each exercise is a graded cell, and a
    student gets neither keys nor checks."""
    from ppkit import assignment as writing
    from ppkit import instructors_key

    print(writing.write(instructors_key.lesson(lesson), into))


@app.command()
def execute(
    notebooks: Notebooks = None,
    quoting: Annotated[
        bool, typer.Option("--quoting", help="only those that quote the reference")
    ] = False,
) -> None:
    """Execute committed notebooks (and solutions) in place, so that two runs give identical
    bytes."""
    from ppkit.runs import catalogue
    from ppkit.runs import execute as executing

    chosen = catalogue.select(notebooks or [], solutions=True).items()
    for name, path in ((n, p) for n, p in chosen if not quoting or catalogue.quotes_reference(p)):
        print(f"{name:<24} {executing.in_place(path):7.1f} s", flush=True)


@app.command()
def reference(
    runs: Annotated[
        list[str] | None,
        typer.Argument(metavar="[RUN]...", help="finished runs: ids, paths or latest"),
    ] = None,
) -> None:
    """Make finished runs the reference: merge their verdicts into figures/claims.json, copy their
    pictures. Without a run only the words of the claims' files are taken anew."""
    from ppkit.runs import reference as keeping

    target, decided = keeping.keep(runs or [])
    print(f"{decided} measured rows in figures/{target.name}")


@app.command()
def claims(
    run: Annotated[
        str | None, typer.Argument(help="an id or latest; none for the reference")
    ] = None,
    rows: Annotated[
        str,
        typer.Option(
            metavar="BEGINNING",
            help="list the rows whose ids begin so: wu2020, or wu2020.psi; a whole id prints all "
            "that is known of its row",
        ),
    ] = "",
    turned: Annotated[
        bool, typer.Option("--turned", help="list the claims that a choice or other data turn")
    ] = False,
    check_text: Annotated[
        Path | None,
        typer.Option(
            metavar="FILE", help="find in a paper's text the sentences that claims rest on"
        ),
    ] = None,
) -> None:
    """Say what came out, in short; with an option list rows, or one row in full."""
    from ppkit.runs import claims as printing

    if check_text:
        raise typer.Exit(printing.check_text(check_text, rows))
    printing.show(run, beginning=rows, turned=turned)


@app.command()
def compare(
    first: Annotated[str, typer.Argument(metavar="RUN", help="an id, a path, latest or reference")],
    second: Annotated[str, typer.Argument(metavar="RUN", help="what is compared with it")],
) -> None:
    """Say whether two runs conclude the same, row by row, by each row's own rule and spread (exit
    code 1 if a verdict turned)."""
    from ppkit.runs import compare as comparing

    raise typer.Exit(comparing.show(first, second))


@data_app.command("status")
def data_status() -> None:
    """Show for each data set whether real rows or a stand-in are taken, from where, how many, with
    which checksum."""
    from rich.table import Table

    from ppkit import datasets
    from ppkit.runs import screen

    table = Table(box=screen.BOX, padding=(0, 1, 0, 0))
    for heading in ("name", "source", "rows", "where", "sha256"):
        table.add_column(
            heading,
            no_wrap=heading not in ("source", "rows"),
            max_width=12 if heading == "source" else None,
        )
    notes = Table.grid(padding=(0, 2))
    for one in datasets.status():
        kind, _, counted = one["source"].partition(": ")
        table.add_row(
            one["name"],
            kind,
            (counted or str(one["rows"])).replace(" rows", ""),
            one["where"],
            one["sha256"][:12],
        )
        notes.add_row(one["name"], one["note"])
    printed = screen.console(100)
    printed.print(table)
    printed.print(notes)


@data_app.command("fetch")
def data_fetch(
    names: Annotated[
        list[str] | None,
        typer.Argument(
            metavar="[NAME]...", help="names such as creditcard; none for all that are public"
        ),
    ] = None,
    into: Annotated[
        Path | None, typer.Option(help="folder for the files, else data/raw of the project")
    ] = None,
) -> None:
    """Download the public files, and say how a person gets those behind a login (exit code 1 while
    they are not here)."""
    from ppkit.datasets import fetching
    from ppkit.validation import one_of

    for name in names or []:
        one_of(fetching.NAMES, name=name)
    all_here, failures = True, []
    for name in dict.fromkeys(names or fetching.PUBLIC):
        try:
            here, said = fetching.fetch(name, into)
            print(said, flush=True)
            all_here &= here
        except ValueError as error:
            failures.append(str(error))
    if failures:
        raise Refused("\nppkit: ".join(failures))
    raise typer.Exit(0 if all_here else 1)


def paired(arguments: list[str]) -> list[str]:
    """The arguments with each `-p NAME VALUE` made one `-p NAME=VALUE`: typer cannot repeat an
    option of two values.

    Refused if the name or the value is missing.

    >>> paired(["reproduce", "wang2018", "-p", "SEED", "-1"])
    ['reproduce', 'wang2018', '-p', 'SEED=-1']
    """
    rest, joined = list(arguments), []
    while rest:
        joined.append(rest.pop(0))
        if joined[-1] == "-p":
            if not rest or ("=" not in rest[0] and len(rest) < 2):
                raise Refused("-p takes a name and a value, for example `-p SEED 1`")
            joined.append(rest.pop(0) if "=" in rest[0] else f"{rest.pop(0)}={rest.pop(0)}")
    return joined


def main() -> None:
    """Run the command line; what was asked for wrongly ends in one sentence and exit code 2
    (Ctrl-C, in typer, with 130).

    A sign that the terminal or file has no room for, such as a tick in ASCII, is written as
    Python does. Where an output is closed (`>&-`), nothing is written."""
    gc.set_threshold(100_000)  # a table of 500 rows is read without a search for cycles
    for name in ("stdout", "stderr"):
        if getattr(sys, name) is None:
            setattr(sys, name, open(os.devnull, "w"))
    for stream in (sys.stdout, sys.stderr):
        if isinstance(stream, io.TextIOWrapper):
            stream.reconfigure(errors="backslashreplace")
    try:
        app(paired(sys.argv[1:]))
    except (Refused, ValueError, OSError) as error:
        said = str(error)
        if isinstance(error, OSError) and error.errno:
            said = f"cannot use {error.filename or 'its output'}: {error.strerror}"
        print(f"ppkit: {said}", file=sys.stderr)
        sys.exit(2)
