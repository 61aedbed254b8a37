"""The command line, `ppkit`: first, reproduce, lab, execute, reference, claims, data, spnn."""

import sys
from pathlib import Path
from typing import Annotated, Optional

import typer

from ppkit.runner import Refused

app = typer.Typer(no_args_is_help=True, add_completion=False, rich_markup_mode=None, pretty_exceptions_enable=False,
                  help="Four papers on private learning on financial data, rerun and re-tested.")
data_app = typer.Typer(no_args_is_help=True, rich_markup_mode=None, help="The data sets: what is here, what is not.")
app.add_typer(data_app, name="data")
spnn_app = typer.Typer(no_args_is_help=True, rich_markup_mode=None,
                       help="zhou2021 as a system: coordinator, server, dealer and holders, each a process of its own.")
app.add_typer(spnn_app, name="spnn")

Config = Annotated[Path, typer.Argument(metavar="CONFIG", help="the run's TOML file, or a folder with a config.toml; "
                                              "`ppkit spnn example` writes one")]
Resume = Annotated[bool, typer.Option("--resume", help="go on from the last step that all roles have saved")]
Fresh = Annotated[bool, typer.Option("--fresh", help="start anew where a run is, and delete that one")]
Notebooks = Annotated[Optional[list[str]], typer.Argument(metavar="[NOTEBOOK]...", help="names such as 01_dpstgd; none for all")]


@app.command()
def first() -> None:
    """Read one card transaction out of one gradient, and draw it: a first result in seconds."""
    from ppkit import first as reading

    print(f"Picture: {reading.run()}")


@app.command()
def reproduce(
    notebooks: Notebooks = None,
    profile: Annotated[str, typer.Option(help="quick (minutes) or paper (the paper's own sizes)")] = "quick",
    p: Annotated[Optional[list[str]], typer.Option("-p", metavar="NAME VALUE",
                                                   help="set a notebook's parameter; may be repeated")] = None,
    data: Annotated[Optional[str], typer.Option(help="auto, real or standin")] = None,
    jobs: Annotated[Optional[int], typer.Option(help="notebooks at a time")] = None,
    fresh: Annotated[bool, typer.Option("--fresh", help="do not go on in an unfinished run")] = False,
    runs: Annotated[Optional[Path], typer.Option(help="folder for the runs, else runs/ of the project")] = None,
) -> None:
    """Run notebooks headless into runs/<time>-<profile>/, with an index.html to open first."""
    from ppkit.runner import batch

    given = [tuple(pair.split("=", 1)) for pair in p or []]
    raise typer.Exit(batch.reproduce(notebooks or [], profile=profile, given=given, source=data, jobs=jobs, fresh=fresh,
                                     runs=runs))


@app.command()
def lab(
    options: Annotated[Optional[list[str]], typer.Argument(
        metavar="[-- OPTION...]",
        help="of jupyter lab, such as -- --no-browser --port 9999")] = None,
    fresh: Annotated[Optional[list[str]], typer.Option(
        metavar="NAME",
        help="put this lesson or solution back, keep what was there beside it as "
             "NAME.kept-1.ipynb, and open nothing; may be repeated. Where it is open in Lab, close it first")] = None,
) -> None:
    """Open JupyterLab on copies of the lessons in work/, without outputs; solutions keep theirs.

    A copy that is there is never overwritten. Lab's folder is the project; the lessons in
    notebooks/, which the tests compare, are not listed in it.
    """
    from ppkit.runner import lab as copies

    if options and fresh:
        raise Refused(f"--fresh opens no JupyterLab, so there is nothing to do with {options[0]!r}")
    if options and not options[0].startswith("-"):
        raise Refused(f"unexpected {options[0]!r}: what follows -- goes to jupyter lab, "
                      "for example `ppkit lab -- --port 9999`")
    for sentence in copies.prepare(fresh or []):
        print(sentence)
    if not fresh:
        copies.open_lab(options or [])


@app.command()
def execute(notebooks: Notebooks = None) -> None:
    """Execute committed notebooks (and solutions) in place, so that two runs give identical bytes."""
    from ppkit.runner import catalogue
    from ppkit.runner import execute as executing

    for name, path in catalogue.select(notebooks or [], solutions=True).items():
        print(f"{name:<24} {executing.in_place(path):7.1f} s", flush=True)


@app.command()
def reference(runs: Annotated[list[str], typer.Argument(metavar="RUN...", help="finished runs: ids, paths or latest")]) -> None:
    """Make finished runs the reference: merge their verdicts into figures/claims.json, copy their pictures."""
    from ppkit.runner import reference as keeping

    target, decided = keeping.keep(runs)
    print(f"{decided} decided claims in figures/{target.name}")


@app.command()
def claims(run: Annotated[Optional[str], typer.Argument(help="an id or latest; none for the reference")] = None) -> None:
    """Show every claim with the paper's number, ours, and the verdict."""
    from ppkit.runner import verdicts

    verdicts.show(run)


@data_app.command("status")
def data_status() -> None:
    """Show for each data set whether real rows or a stand-in are taken, from where, how many, with which checksum."""
    from ppkit.runner import verdicts

    verdicts.show_data()


@data_app.command("fetch")
def data_fetch(
    names: Annotated[Optional[list[str]], typer.Argument(metavar="[NAME]...",
                                                         help="names such as creditcard; none for all that are public")] = None,
    into: Annotated[Optional[Path], typer.Option(help="folder for the files, else data/raw of the project")] = None,
) -> None:
    """Download the public files, and say how a person gets those behind a login (exit code 1 while they are not here)."""
    from ppkit.datasets import fetching

    for name in names or []:
        fetching.known(name)
    all_here, failures = True, []
    for name in dict.fromkeys(names or fetching.PUBLIC):
        try:
            here, said = fetching.fetch(name, into)
            print(said, flush=True)
            all_here &= here
        except (ValueError, fetching.Failed) as error:
            failures.append(str(error))
            if isinstance(error, fetching.Offline):
                break
    if failures:
        raise Refused("\nppkit: ".join(failures))
    raise typer.Exit(0 if all_here else 1)


@spnn_app.command("example")
def spnn_example(
    folder: Annotated[Path, typer.Argument(metavar="FOLDER", help="a new folder for the config and the holders' files")],
    rows: Annotated[Optional[int], typer.Option(help="rows of creditcard, at least 56,441; else all")] = None,
    holders: Annotated[int, typer.Option(help="how many, at least 2")] = 2,
    protocol: Annotated[str, typer.Option(help="plain, ss, he or masked")] = "masked",
    form: Annotated[Optional[str], typer.Option(help="of ss: lean or published")] = None,
    epochs: Annotated[int, typer.Option()] = 1,
    batch: Annotated[int, typer.Option()] = 5000,
    bandwidth: Annotated[str, typer.Option(help='of a link in one direction, such as "100 Mbps"; 0 for no limit')] = "0",
    latency: Annotated[float, typer.Option(help="seconds")] = 0.0,
    data: Annotated[str, typer.Option(help="standin, or real where the file is here")] = "standin",
) -> None:
    """Write a run to start from: config.toml and one file a holder, from rows of creditcard."""
    import shlex

    from ppkit.spnn.network import example

    rate = 0 if bandwidth == "0" else bandwidth
    settings = dict(protocol=protocol, form=form, epochs=epochs, batch=batch, bandwidth=rate, latency=latency)
    held = example.creditcard(rows, holders=holders, source=data)
    written = example.write(folder, held, **settings)
    typed, counts = shlex.quote(str(written)), {key: int(y.sum()) for key, y in held.y.items()}
    print(f"{typed} is a run on this machine with protocol {protocol}, on {held.source}: {counts['train']} frauds to train on, "
          f"{counts['test']} to test on.\nEvery address in it is on this machine, 127.0.0.1: for several machines write theirs, "
          f"before the certificates. Next:\nppkit spnn certs {typed}\nppkit spnn run {typed}")


@spnn_app.command("certs")
def spnn_certs(
    config: Config,
    days: Annotated[int, typer.Option(help="how long they hold")] = 30,
    fresh: Annotated[bool, typer.Option("--fresh", help="replace those that are there")] = False,
) -> None:
    """Make a private CA, whose key is thrown away, and one certificate and key for every role."""
    from ppkit.spnn.network import certificates
    from ppkit.spnn.network.config import load, split_address

    loaded = load(config)
    folder = loaded.network.certificates
    there = [file for role in loaded.roles for name in certificates.FILES if (file := folder / role / name).exists()]
    if there and not fresh:
        raise Refused(f"there are certificates in {folder} already: "
                      "--fresh replaces them, and then every role needs its new ones")
    for file in there:
        file.unlink()
    hosts = {role: split_address(address)[0] for role, address in loaded.addresses.items()}
    certificates.make(folder, loaded.roles, hosts=hosts, days=days)
    print(f"Each of {', '.join(loaded.roles)} has its folder in {folder}; the key in it is for that role alone:\n"
          "no key may travel anywhere else, and nobody else may read it. On one machine, all at once:\n"
          f"ppkit spnn run {loaded.typed}\n"
          f"On several, what each role's machine needs, in the same places beside {loaded.path.name}, and what starts it there:")
    for role in loaded.roles:
        own = [holder.data.name for holder in loaded.holders if holder.name == role]
        needs = ", ".join([loaded.path.name, *own, f"{folder.name}/{role}"])
        start = f"holder {loaded.typed} --name {role}" if own else f"{role} {loaded.typed}"
        print(f"{role}: {needs}; ppkit spnn {start}")


@spnn_app.command("run")
def spnn_run(
    config: Config,
    resume: Resume = False,
    fresh: Fresh = False,
    only: Annotated[Optional[list[str]], typer.Option(help="a role of this machine, where others are elsewhere; "
                                                           "may be repeated")] = None,
) -> None:
    """Start all roles on this machine, watch them, and show what came of it (exit code 1 if the run stopped)."""
    from ppkit.lifeline import terminated_like_interrupted
    from ppkit.spnn.network import launch

    with terminated_like_interrupted():
        try:
            result = launch.run(config, resume=resume, fresh=fresh, only=only)
        except launch.Interrupted as interrupted:
            print(f"ppkit: {interrupted}", file=sys.stderr)
            raise typer.Exit(130) from None
    if result.code == launch.DONE:
        print(result.summary())
    else:
        print(f"ppkit: {result.sentence}", file=sys.stderr)
    raise typer.Exit(result.code)


@spnn_app.command("coordinator")
def spnn_coordinator(config: Config, resume: Resume = False, fresh: Fresh = False) -> None:
    """Start the coordinator, which sees no data: it splits the network, starts, watches and stops the others."""
    _role(config, "coordinator", resume, fresh)


@spnn_app.command("server")
def spnn_server(config: Config, resume: Resume = False, fresh: Fresh = False) -> None:
    """Start the server, which has the hidden layers."""
    _role(config, "server", resume, fresh)


@spnn_app.command("dealer")
def spnn_dealer(config: Config, resume: Resume = False, fresh: Fresh = False) -> None:
    """Start the dealer of triples, for protocol ss."""
    _role(config, "dealer", resume, fresh)


@spnn_app.command("holder")
def spnn_holder(
    config: Config,
    name: Annotated[str, typer.Option(help="which holder, as the config calls it")],
    resume: Resume = False,
    fresh: Fresh = False,
) -> None:
    """Start one data holder, which reads its own file and no other."""
    _role(config, name, resume, fresh, holder=True)


def _role(config: Path, role: str, resume: bool, fresh: bool, holder: bool = False) -> None:
    from ppkit.spnn.network.__main__ import start
    from ppkit.spnn.network.config import load

    loaded = load(config)
    raise typer.Exit(start(loaded, loaded.holder(role).name if holder else role, resume=resume, fresh=fresh))


def paired(arguments: list[str]) -> list[str]:
    """The arguments with each `-p NAME VALUE` made one `-p NAME=VALUE`: typer cannot repeat an option of two values.

    Refused if the name or the value is missing.

    >>> paired(["reproduce", "01_dpstgd", "-p", "SEED", "-1"])
    ['reproduce', '01_dpstgd', '-p', 'SEED=-1']
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
    """Run the command line; what was asked for wrongly ends in one sentence and exit code 2 (Ctrl-C, in typer, with 130)."""
    try:
        app(paired(sys.argv[1:]))
    except (Refused, ValueError, FileNotFoundError, FileExistsError, NotADirectoryError, PermissionError) as error:
        from_system = isinstance(error, OSError) and error.errno
        print(f"ppkit: cannot use {error.filename}: {error.strerror}" if from_system else f"ppkit: {error}", file=sys.stderr)
        sys.exit(2)
