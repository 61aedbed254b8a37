"""A batch on the workers of a scheduler: processes of their own, each in a folder of its own, on no
shared disk."""

import datetime
import os
import re
import resource
import shutil
import signal
import socket
import ssl
import subprocess
import sys
from pathlib import Path
from urllib.parse import urlsplit

import pandas as pd
import psutil
import pytest
from waiting import FAR, until

from ppkit import cli
from ppkit.runs import cluster
from ppkit.runs.tls import FILES

pytestmark = pytest.mark.processes

PARAMETERS = 'PROFILE = "quick"\nSOURCE = "auto"\nSEED = 0'
RECORDS = """\
import pathlib, time
from ppkit.verdicts import ledger
page = ledger.Ledger("wang2018", notebook="01_grid", profile=PROFILE)
page.record("table1.row5.basic", 18.506 + .01 * SEED, data=ledger.FORMULA)"""
READS = "print(int(pathlib.Path('beside.csv').read_text()) + 1)"
WAITS = "while not pathlib.Path({go!r}).exists():\n    time.sleep(.05)"


class Cluster:
    """A scheduler and workers, each started by its own command line."""

    def __init__(
        self, folder: Path, options: tuple = ("--no-dashboard",), *, host: str = "127.0.0.1"
    ):
        self.folder, self.options, self.workers = folder, options, []
        folder.mkdir()
        self.scheduler = self._started("scheduler", f"--host={host}", "--port=0")
        log = folder / "scheduler.log"
        found = until(lambda: re.search(r"Scheduler at: +(t\w+://[\d.]+:\d+)", log.read_text()))
        self.address = found[1]

    def _started(self, what: str, *options: str, disk=None, **environment) -> subprocess.Popen:
        name = f"{what}{len(self.workers) or ''}"
        kept = {name: value for name, value in os.environ.items() if not name.startswith("PPKIT_")}
        with open(self.folder / f"{name}.log", "w") as log:
            return subprocess.Popen(
                [sys.executable, "-m", "dask", what, *self.options, *options],
                env={**kept, **environment},
                stdout=log,
                stderr=log,
                cwd=self.folder,
                preexec_fn=disk
                and (lambda: resource.setrlimit(resource.RLIMIT_FSIZE, (disk, disk))),
            )

    def add(self, project, *, nanny: bool = False, disk: int | None = None) -> subprocess.Popen:
        """A worker in a copy of the project, as on another machine.  disk: bytes that a file there
        may have, as if no more were left."""
        home = self.folder / f"clone{len(self.workers)}"
        shutil.copytree(project.folder, home, ignore=shutil.ignore_patterns("runs"))
        self.workers.append(None)
        kept = "--nanny" if nanny else "--no-nanny"
        options = ("--nthreads=1", kept, f"--local-directory={home / 'dask'}")
        name = f"--name=number-{len(self.workers)}"
        here = {"PPKIT_HOME": str(home), "PPKIT_SOURCE": "standin"}
        started = self._started("worker", self.address, name, *options, disk=disk, **here)
        self.workers[-1] = started
        return self.workers[-1]

    def end(self) -> None:
        for process in (*self.workers, self.scheduler):
            process.kill()
            process.wait()


@pytest.fixture
def machines(tmp_path):
    made = Cluster(tmp_path / "machines")
    yield made
    made.end()


def table(project) -> pd.DataFrame:
    return pd.read_parquet(project.latest / "table.parquet").drop(columns=["seconds", "memory_mb"])


def started(project, *arguments) -> subprocess.Popen:
    command, environment = project.command("reproduce", "01_grid", *arguments, "--data", "standin")
    environment["PYTHONUNBUFFERED"] = "1"
    return subprocess.Popen(
        command, env=environment, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True
    )


def kernels(mark: str) -> list[psutil.Process]:
    """Processes that were started for a notebook of a worker in this folder."""
    found = []
    for process in psutil.process_iter(["environ"]):
        run = (process.info["environ"] or {}).get("PPKIT_RUN", "")
        if run.startswith(mark) and process.status() != psutil.STATUS_ZOMBIE:
            found.append(process)
    return found


def test_two_of_three_workers_killed_and_one_come_late_the_table_is_that_of_one_machine(
    project, machines, tmp_path
):
    go = tmp_path / "go"
    project.add("01_grid", RECORDS, WAITS.format(go=str(go)), parameters=PARAMETERS)
    grid = ("--grid", "SEED=0..5")
    first = machines.add(project)
    (project.folder / "requirements.lock").write_text("numpy==1")
    other = machines.add(project)  # has another lock from now on: the first has none
    (project.folder / "requirements.lock").unlink()
    running = started(project, *grid, "--scheduler", machines.address)
    until(lambda: kernels(str(machines.folder)))
    first.kill()
    second = machines.add(project)
    until(lambda: kernels(str(machines.folder / "clone2")))
    until(lambda: not kernels(str(machines.folder / "clone0")), "nothing outlives its worker")
    second.kill()
    go.touch()
    machines.add(project)
    said = running.communicate(timeout=FAR)[0]
    assert running.returncode == 0, said
    assert re.search(r"worker number-2 on 127.0.0.1 is refused: its lock differ", said)
    assert not list((machines.folder / "clone1" / "dask").rglob("*.ipynb"))
    assert other.poll() is None
    there = table(project)
    assert list(there.SEED) == list(range(6)) and set(there.status) == {"done"}
    pages = {file.parent.parent.name for file in (project.latest / "points").glob("*/html/*.html")}
    assert pages == {f"{number:04d}" for number in range(6)}
    assert (
        project.run("reproduce", "01_grid", *grid, "--data", "standin", "--fresh").returncode == 0
    )
    pd.testing.assert_frame_equal(table(project), there)


def test_the_client_killed_then_the_scheduler_and_the_same_command_goes_on(
    project, machines, tmp_path
):
    go = tmp_path / "go"
    waits = f"if SEED:\n    {WAITS.format(go=str(go))}".replace("\n    time", "\n        time")
    project.add("01_grid", RECORDS, waits, parameters=PARAMETERS)
    worker = machines.add(project)
    asked = ("--grid", "SEED=0..2", "--scheduler", machines.address)
    here = str(machines.folder)
    running = started(project, *asked)
    until(lambda: (project.latest / "points" / "0000").exists() and kernels(here))
    kept = (project.latest / "points" / "0000" / "run.json").stat().st_mtime_ns
    running.kill()
    running.communicate(timeout=FAR)
    until(lambda: not kernels(here), "the child of a cancelled job ends")
    running = started(project, *asked)
    until(lambda: kernels(here))
    machines.scheduler.kill()
    said = running.communicate(timeout=FAR)[0]
    assert running.returncode == 2 and "the scheduler has gone: what was finished stays" in said
    assert list(table(project).status)[0] == "done" and "1 of 3 points are there" in said
    until(lambda: worker.poll() is not None and not kernels(here), "a worker ends without it")
    go.touch()
    done = project.run("reproduce", "01_grid", "--grid", "SEED=0..2", "--data", "standin")
    assert done.returncode == 0 and "1 of 3 points are there" in done.stdout
    assert (project.latest / "points" / "0000" / "run.json").stat().st_mtime_ns == kept
    assert set(table(project).status) == {"done"}


def certificate(folder: Path) -> tuple[Path, Path]:
    """A key and the certificate that it signed for itself, as `ppkit cluster` says."""
    from cryptography import x509
    from cryptography.hazmat.primitives import hashes, serialization
    from cryptography.hazmat.primitives.asymmetric import ec

    private = ec.generate_private_key(ec.SECP256R1())
    name = x509.Name([x509.NameAttribute(x509.NameOID.COMMON_NAME, "ppkit")])
    now = datetime.datetime.now(datetime.UTC)
    made = (
        x509.CertificateBuilder(name, name, private.public_key(), x509.random_serial_number())
        .not_valid_before(now - datetime.timedelta(days=1))
        .not_valid_after(now + datetime.timedelta(days=1))
        .add_extension(x509.BasicConstraints(ca=True, path_length=None), critical=True)
        .sign(private, hashes.SHA256())
    )
    pem, none = serialization.Encoding.PEM, serialization.NoEncryption()
    (folder / "cert.pem").write_bytes(made.public_bytes(pem))
    kind = serialization.PrivateFormat.PKCS8
    (folder / "key.pem").write_bytes(private.private_bytes(pem, kind, none))
    return folder / "cert.pem", folder / "key.pem"


def told_options(cert: Path, private: Path) -> list[str]:
    """The options of scheduler and worker in what `ppkit cluster` says."""
    given = " ".join(re.findall(r'^T="(?:\$T )?(.*)"', cli.HOW_TO_START, re.MULTILINE))
    paths = {"cert.pem": str(cert), "key.pem": str(private)}
    return [paths.get(word, word) for word in given.split()]


def listening(process: subprocess.Popen) -> set[tuple[str, int]]:
    """Addresses and ports at which a process and all below it can be reached from elsewhere."""
    top = psutil.Process(process.pid)
    lines = [
        line for each in (top, *top.children(recursive=True)) for line in each.net_connections()
    ]
    ends = {(line.laddr.ip, line.laddr.port) for line in lines if line.status == "LISTEN"}
    return {(ip, port) for ip, port in ends if not ip.startswith("127.") and ip != "::1"}


def speaks_tls(ip: str, port: int) -> bool:
    context = ssl.create_default_context()
    context.check_hostname, context.verify_mode = False, ssl.CERT_NONE
    here = "127.0.0.1" if ip in ("0.0.0.0", "::") else ip
    with socket.create_connection((here, port), timeout=10) as plain:  # plain HTTP waits for more
        try:
            with context.wrap_socket(plain) as line:
                return line.version().startswith("TLS")
        except (ssl.SSLError, OSError):
            return False


def test_over_tls_a_point_is_done_and_who_has_no_file_is_not_let_in(project, tmp_path):
    """As `ppkit cluster` says, so that nothing beyond this machine is answered without TLS."""
    cert, private = certificate(tmp_path)
    machines = Cluster(tmp_path / "machines", told_options(cert, private), host="0.0.0.0")
    try:
        project.add("01_grid", RECORDS, READS, parameters=PARAMETERS)
        (project.folder / "notebooks" / "beside.csv").write_text("41\n")
        worker = machines.add(project, nanny=True)
        asked = ("--scheduler", machines.address, f"--tls-ca-file={cert}")
        asked += (f"--tls-client-cert={cert}", f"--tls-client-key={private}")
        done = project.run("reproduce", "01_grid", "--grid", "SEED=3", "--data", "standin", *asked)
        assert done.returncode == 0, done.stderr
        assert list(table(project).value) == [18.536]
        done = project.latest / "points" / "0000" / "notebooks" / "01_grid.ipynb"
        assert '"42\\n"' in done.read_text("utf-8")  # of the file beside it
        ports = listening(machines.scheduler) | listening(worker)
        assert len(ports) >= 3  # scheduler, nanny, worker
        assert all(speaks_tls(*port) for port in ports), ports
        host = urlsplit(machines.address).hostname
        shown = project.run("cluster", *asked, PPKIT_SOURCE="standin")
        assert (shown.returncode, shown.stdout) == (0, f"worker number-1 on {host}: ready\n")
        (tmp_path / "others").mkdir()
        strange, key = certificate(tmp_path / "others")
        files = dict(zip(FILES, (strange, strange, key)))
        with pytest.raises(cluster.Refused, match="shows a certificate that .* does not vouch for"):
            cluster.connect(machines.address, files)
    finally:
        machines.end()


@pytest.mark.parametrize(
    "address", ["tcp://10.1.2.3:8786", "tcp://bank.example:8786", "tcp://0.0.0.0:1"]
)
def test_without_tls_only_this_machine_is_taken(address):
    with pytest.raises(cluster.Refused, match="this machine only, since whoever reaches"):
        cluster.connect(address, {})
    bad_ports = ("tls://bank:x", "tls://bank:70000", "tcp://127.0.0.1:0", "tcp://127.0.0.1:8786/x")
    bad_hosts = ("tls://[::1", "tls://:8786", "tls://me:word@bank:1", "TLS://bank:1", "tls://a b:1")
    others = ("127.0.0.1:8786", "ucx://127.0.0.1:1", "tcp://127.0.0.1", "scheduler")
    for other in (*others, *bad_ports, *bad_hosts):
        with pytest.raises(cluster.Refused, match="a scheduler is tls://HOST:PORT or tcp://127"):
            cluster.connect(other, {})


def test_a_signal_is_what_ends_a_worker_politely(project, machines):
    """SIGTERM: the worker's child ends with it."""
    project.add("01_grid", "import time\ntime.sleep(7777)", parameters=PARAMETERS)
    worker = machines.add(project)
    running = started(project, "--grid", "SEED=1", "--scheduler", machines.address)
    until(lambda: kernels(str(machines.folder)))
    worker.send_signal(signal.SIGTERM)
    until(lambda: worker.poll() is not None and not kernels(str(machines.folder)))
    running.send_signal(signal.SIGINT)
    running.communicate(timeout=FAR)
    assert running.returncode == 130


def test_a_point_that_ends_its_workers_is_given_up_and_the_others_are_done(project, machines):
    """Its kernel kills the worker that started it, which Dask's nanny starts again."""
    kills = (
        "import os, psutil, signal\nif SEED == 1:\n"
        "    [*above] = psutil.Process().parents()\n"
        "    ours = [one for one in above if 'ppkit.runs' in ' '.join(one.cmdline())]\n"
        "    os.kill(ours[-1].ppid(), signal.SIGKILL)"
    )
    project.add("01_grid", RECORDS, kills, parameters=PARAMETERS)
    machines.add(project, nanny=True)
    running = started(project, "--grid", "SEED=0..2", "--scheduler", machines.address)
    said = running.communicate(timeout=FAR)[0]
    assert running.returncode == 1
    assert f"0001 failed before its first cell: {cluster.LOST_AT_MOST + 1} workers ended" in said
    assert list(table(project).status) == ["done", "failed", "done"]


def test_a_point_that_a_worker_has_no_room_for_fails_alone_and_is_done_elsewhere(project, machines):
    large = "if SEED == 1:\n    print('x' * 4_000_000)"
    project.add("01_grid", RECORDS, large, parameters=PARAMETERS)
    full = machines.add(project, disk=3_000_000)
    asked = ("--grid", "SEED=0..2", "--scheduler", machines.address)
    running = started(project, *asked)
    said = running.communicate(timeout=FAR)[0]
    assert running.returncode == 1, said
    assert re.search(r"0001 failed .*could not write the run's files: File too large", said)
    assert list(table(project).status) == ["done", "failed", "done"]
    until(lambda: not kernels(str(machines.folder)), "a job that is done leaves nothing")
    full.kill()
    machines.add(project)
    said = started(project, *asked).communicate(timeout=FAR)[0]
    assert "2 of 3 points are there" in said
    assert list(table(project).status) == ["done"] * 3


def test_without_a_worker_that_is_said_and_one_that_comes_does_it(project, machines, capsys):
    """In this process: the worker is one that is refused, then one that fits comes."""
    client = cluster.connect(machines.address, {})
    with cluster.Workers(client, None, {}) as workers:
        assert not workers.has_room()
        workers._say_if_alone(), workers._say_if_alone()
        said = "the scheduler has no worker: `ppkit cluster` says how to start one; this waits"
        assert capsys.readouterr().out.count(said) == 1
        machines.add(project)
        until(lambda: workers.look() or workers.refused or workers.fit)
    shown = project.run("cluster", "--scheduler", machines.address, PPKIT_SOURCE="real")
    assert shown.returncode == 1
    assert "the scheduler has no worker but 1 that cannot be taken: `ppkit cluster` says" in (
        shown.stdout
    )


def test_small_files_beside_a_notebook_go_along_and_large_ones_are_refused(tmp_path):
    for name in ("a.csv", "below/b.txt", "other.ipynb", ".env", ".git/c", "__pycache__/d.pyc"):
        (tmp_path / name).parent.mkdir(exist_ok=True)
        (tmp_path / name).write_bytes(name.encode())
    (tmp_path / "link").symlink_to("/etc/hostname")
    sent = cluster.beside(tmp_path / "mine.ipynb")
    assert sent == {"a.csv": b"a.csv", "below/b.txt": b"below/b.txt"}
    with open(tmp_path / "large", "wb") as large:
        large.truncate(cluster.BESIDE_AT_MOST)
    with pytest.raises(
        cluster.Refused, match="beside mine.ipynb, and .* holds more than 5 MB: put"
    ):
        cluster.beside(tmp_path / "mine.ipynb")


def test_what_a_notebook_writes_beside_itself_is_not_brought_back_and_that_is_said(
    project, machines
):
    writes = "import pathlib\nfor name in (f'out_{SEED}.csv', 'beside.csv'):\n"
    writes += "    pathlib.Path(name).write_text('1')"
    project.add("01_grid", RECORDS, READS, writes, parameters=PARAMETERS)
    (project.folder / "notebooks" / "beside.csv").write_text("42")
    machines.add(project)
    grid = ("--grid", "SEED=0..1", "--scheduler", machines.address)
    done = project.run("reproduce", "01_grid", *grid, "--data", "standin")
    assert done.returncode == 0, done.stderr
    for seed in (0, 1):
        files = f"['beside.csv', 'out_{seed}.csv']"
        assert f"000{seed} SEED {seed} wrote {files} beside its notebook: no worker" in done.stdout
    assert not (project.folder / "notebooks" / "out_0.csv").exists()
    assert (project.folder / "notebooks" / "beside.csv").read_text() == "42"


NOTEBOOK = {"notebooks/01_grid.ipynb": b"{}"}


@pytest.mark.parametrize(
    "bad, sentence",
    [
        (None, "it does not say how the job went"),
        (({}, NOTEBOOK), "it does not say how the job went"),
        (({"status": "done"}, [b"{}"]), "it does not say how the job went"),
        (({"status": "done"}, {}), "it lacks notebooks/01_grid.ipynb"),
        (({"status": "done"}, {"notebooks/01_grid.ipynb": b""}), "it lacks notebooks/01_grid"),
        (({"status": "done"}, NOTEBOOK | {"claims/a.json": "{}"}), "which no job leaves"),
        (({"status": "done"}, NOTEBOOK | {"run.json": b"{}"}), "which no job leaves"),
        (({"status": "done"}, NOTEBOOK | {"html/x/a.js": b""}), "which no job leaves"),
        (({"status": "done"}, NOTEBOOK | {"html/": b""}), "which no job leaves"),
        (({"status": "done"}, NOTEBOOK | {3: b""}), "which no job leaves"),
    ],
)
def test_an_answer_that_no_job_gives_is_not_taken(bad, sentence):
    with pytest.raises(cluster.BadAnswer, match=sentence):
        cluster.taken(bad, "01_grid")


def test_a_job_s_answer_is_taken_as_it_is():
    files = NOTEBOOK | {"html/01_grid.html": b"<p>", "claims/01_grid.json": b"[]"}
    assert cluster.taken(({"status": "done", "seconds": 1.0}, files), "01_grid") == (
        {"status": "done", "seconds": 1.0},
        files,
    )
    assert cluster.taken(({"status": "failed"}, {}), "01_grid") == ({"status": "failed"}, {})
