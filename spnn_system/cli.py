"""The commands `ppkit spnn ...`: ppkit finds them by the entry point "ppkit.commands".

What a command needs is imported when it runs, so that `ppkit --help` answers at once.
"""

import shlex
from pathlib import Path
from typing import Annotated

import typer

app = typer.Typer(
    no_args_is_help=True,
    rich_markup_mode=None,
    help=(
        "zhou2021 as a system: coordinator, server, dealer and holders, each a process of its own."
    ),
)

ConfigFile = Annotated[
    Path,
    typer.Argument(
        metavar="CONFIG",
        help="the run's TOML file, or a folder with a config.toml; `ppkit spnn example` writes one",
    ),
]
Resume = Annotated[
    bool, typer.Option("--resume", help="go on from the last step that all roles have saved")
]
Fresh = Annotated[
    bool, typer.Option("--fresh", help="start anew where a run is, and delete that one")
]


@app.command("example")
def write_example(
    folder: Annotated[
        Path,
        typer.Argument(metavar="FOLDER", help="a new folder for the config and the holders' files"),
    ],
    rows: Annotated[
        int | None, typer.Option(help="rows of creditcard, at least 56,441; else all")
    ] = None,
    holders: Annotated[int, typer.Option(help="how many, at least 2")] = 2,
    protocol: Annotated[str, typer.Option(help="plain, ss, he or masked")] = "masked",
    form: Annotated[str | None, typer.Option(help="of ss: lean, published or dealerless")] = None,
    data: Annotated[str, typer.Option(help="standin, or real where the file is here")] = "standin",
) -> None:
    """Write a run to start from: config.toml and one file a holder, from rows of creditcard."""
    from spnn_system import example

    held = example.creditcard(rows, holders=holders, source=data)
    written = example.write(folder, held, protocol=protocol, form=form, n_new=100)
    typed, counts = shlex.quote(str(written)), {key: int(y.sum()) for key, y in held.y.items()}
    print(
        f"{typed} is a run on this machine with protocol {protocol}, on {held.source}: "
        f"{counts['train']} frauds to train on, {counts['test']} to test on.\n"
        "Every address in it is on this machine, 127.0.0.1: for several machines write theirs, "
        "before the keys. For a trial on this machine:\n"
        f"ppkit spnn certs {typed}\nppkit spnn run {typed}\n"
        f"ppkit spnn predict {typed}   # 100 of the test rows, as if they were new"
    )


@app.command()
def request(
    config: ConfigFile,
    role: Annotated[
        str, typer.Argument(metavar="ROLE", help="coordinator, server ... or a holder")
    ],
    fresh: Annotated[bool, typer.Option("--fresh", help="replace the key that is there")] = False,
) -> None:
    """Make a role's key where the role will run, and the request that the authority signs."""
    from spnn_system.config import load
    from spnn_system.transport import certificates

    loaded = load(config)
    loaded.check_role(role)
    place = loaded.network.certificates / role
    mark = certificates.request(loaded.network.certificates, role, fresh=fresh)
    print(
        f"{place / 'key.pem'} is the key of {role}: it stays on this machine.\n"
        f"Send {place / certificates.REQUEST} to the authority, and tell it by another way:\n"
        f"{role} {mark}"
    )


@app.command()
def sign(
    config: ConfigFile,
    fresh: Annotated[bool, typer.Option("--fresh", help="replace those that are there")] = False,
) -> None:
    """Sign the requests of all roles, as the run's authority; its key is thrown away."""
    from spnn_system.config import load
    from spnn_system.transport import certificates

    loaded = load(config)
    folder = loaded.network.certificates
    marks = certificates.sign(folder, loaded.roles, fresh=fresh)
    print(
        "Compare each of these with what its role's owner told you. Only then send each role the "
        f"ca.pem and certificate.pem of its folder in {folder}:"
    )
    for role, mark in marks.items():
        is_holder = role in loaded.names
        start = f"holder {loaded.typed} --name {role}" if is_holder else f"{role} {loaded.typed}"
        print(f"{role} {mark}; it starts with: ppkit spnn {start}")


@app.command()
def certs(
    config: ConfigFile,
    fresh: Annotated[bool, typer.Option("--fresh", help="replace those that are there")] = False,
) -> None:
    """Make the keys and certificates of all roles on this machine, for a trial."""
    from spnn_system.config import load
    from spnn_system.transport import certificates

    loaded = load(config)
    folder = loaded.network.certificates
    certificates.make(folder, loaded.roles, fresh=fresh)
    print(
        f"Each of {', '.join(loaded.roles)} has its key and certificate in {folder}.\n"
        "This is for a trial: who made all keys can speak as any role. Between several machines "
        "each role runs `ppkit spnn request` on its own, and the authority `ppkit spnn sign`.\n"
        f"ppkit spnn run {loaded.typed}"
    )


@app.command()
def run(config: ConfigFile, resume: Resume = False, fresh: Fresh = False) -> None:
    """Start all roles on this machine, watch them, and show what came of it (exit code 1 if the run
    stopped).
    """
    _launch(config, resume, fresh, False)


@app.command()
def predict(config: ConfigFile) -> None:
    """Score new rows, which each [[holder]] names as predict, by the trained network; the label
    holder alone gets the scores.
    """
    _launch(config, False, False, True)


def _launch(config: Path, resume: bool, fresh: bool, predict: bool) -> None:
    from ppkit.process_tree import terminated_like_interrupted
    from spnn_system import launch
    from spnn_system.run.reports import say

    with terminated_like_interrupted():
        try:
            result = launch.run(config, resume=resume, fresh=fresh, predict=predict, tell=say)
        except launch.Interrupted as interrupted:
            say(str(interrupted))
            raise typer.Exit(130) from None
    say(result.sentence)
    if result.code == launch.DONE:
        print(result.summary())
    raise typer.Exit(result.code)


Predict = Annotated[
    bool, typer.Option("--predict", help="score the new rows by the trained network")
]


@app.command()
def coordinator(
    config: ConfigFile, resume: Resume = False, fresh: Fresh = False, predict: Predict = False
) -> None:
    """Start the coordinator, which sees no data: it starts, watches and stops the others."""
    _start(config, "coordinator", resume, fresh, predict)


@app.command()
def server(
    config: ConfigFile, resume: Resume = False, fresh: Fresh = False, predict: Predict = False
) -> None:
    """Start the server, which has the hidden layers."""
    _start(config, "server", resume, fresh, predict)


@app.command()
def dealer(
    config: ConfigFile, resume: Resume = False, fresh: Fresh = False, predict: Predict = False
) -> None:
    """Start the dealer of triples, for protocol ss."""
    _start(config, "dealer", resume, fresh, predict)


@app.command()
def holder(
    config: ConfigFile,
    name: Annotated[str, typer.Option(help="which holder, as the config calls it")],
    resume: Resume = False,
    fresh: Fresh = False,
    predict: Predict = False,
) -> None:
    """Start one data holder, which reads its own file and no other."""
    _start(config, name, resume, fresh, predict)


def _start(path: Path, role: str, resume: bool, fresh: bool, predict: bool) -> None:
    from spnn_system.__main__ import start
    from spnn_system.config import load

    config = load(path).prediction() if predict else load(path)
    raise typer.Exit(start(config, role, resume=resume, fresh=fresh or predict))
