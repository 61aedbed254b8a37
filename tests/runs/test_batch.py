"""A notebook at many points: the points, the folder, the table, the page; interrupted, resumed."""

import json
import signal
import subprocess

import pandas as pd
import pytest
from waiting import FAR, until
from workers_at_once import AtOnce

from ppkit import show
from ppkit.runs import Refused, batch, catalogue, json_files, key, run, run_folder
from ppkit.verdicts import robustness, rows
from ppkit.verdicts.robustness import Choice

PARAMETERS = 'PROFILE = "quick"\nSOURCE = "auto"\nSEED = 0\nCLIP = 1.0\nHOW = "plain"'
RECORDS = """\
from ppkit.verdicts import ledger
page = ledger.Ledger("wang2018", notebook="01_grid", profile=PROFILE)
page.record("table1.row5.basic", 18.506 + .01 * SEED * CLIP, data=ledger.FORMULA)
from ppkit import show
show.keep("products", [{"product": SEED * CLIP}])"""
GRID = ("--grid", "SEED=0..2", "--grid", "CLIP=.5,2")


@pytest.mark.parametrize(
    "grids, first, count",
    [
        (["SEED=0..9"], {"SEED": "0"}, 10),
        (["SEED=-1..0", "HOW=a, b,c"], {"SEED": "-1", "HOW": "a"}, 6),
    ],
)
def test_a_grid_is_every_combination(grids, first, count):
    found = batch.points(grids)
    assert found[0] == first and len(found) == count == len({tuple(p.items()) for p in found})


@pytest.mark.parametrize(
    "grids, sentence",
    [
        (["SEED"], "such as SEED=0..9 or CLIP=.5,1,2, got 'SEED'"),
        (["SEED=3..1"], "got 'SEED=3..1'"),
        (["SEED=1", "SEED=2"], "SEED is given twice: once is enough"),
        (["NAME" + "," * 20_000], "got 'NAME" + "," * 96 + "... (20,004 characters)'"),
        (["SEED=0..99999999999"], "at most 10,000 points, and these are 100,000,000,000"),
        (["SEED=0..999", "CLIP=" + ",".join("1" * 11)], "points, and these are 11,000"),
    ],
)
def test_a_grid_that_says_nothing_is_refused(grids, sentence):
    with pytest.raises(Refused) as refused:
        batch.points(grids)
    assert str(refused.value).endswith(sentence)


def test_points_come_from_a_file_too_and_are_combined_with_a_grid(tmp_path):
    file = tmp_path / "points.csv"
    file.write_text("CLIP, HOW\n.5, plain\n2, noisy\n")
    assert batch.points(["SEED=0..1"], file) == [
        {"CLIP": clip, "HOW": how, "SEED": seed}
        for clip, how in ((".5", "plain"), ("2", "noisy"))
        for seed in "01"
    ]
    for text in ("CLIP,HOW\n", "CLIP,HOW\n1\n", "CLIP\n1,2\n", ""):
        file.write_text(text)
        with pytest.raises(Refused, match="points.csv must hold a line"):
            batch.points([], file)


@pytest.mark.parametrize(
    "content, sentence",
    [
        ("HOW\nplain\n".encode("utf-16"), "points.csv is no CSV file in UTF-8 that can be read: "),
        ("HOW\nnaïve\n".encode("latin-1"), "points.csv is no CSV file in UTF-8 that can be read"),
        (b"CLIP,HOW,CLIP\n1,a,2\n", "CLIP is given twice: once is enough"),
        (b"HOW\n" + b"x" * 200_000, "points.csv is no CSV file in UTF-8 that can be read: field"),
        (b"SEED\n" + b"1\n" * 10_001, "at most 10,000 points, and these are 10,001"),
    ],
)
def test_a_file_of_points_that_says_nothing_is_refused_by_its_name(tmp_path, content, sentence):
    file = tmp_path / "points.csv"
    file.write_bytes(content)
    with pytest.raises(Refused) as refused:
        batch.points([], file)
    assert sentence in str(refused.value)


@pytest.fixture
def at_once(monkeypatch):
    """Workers that have done a point as soon as it is started."""
    monkeypatch.setattr(AtOnce, "started", [])
    monkeypatch.setattr(run, "Children", AtOnce)
    monkeypatch.setattr(key, "surroundings", lambda source: {})
    return AtOnce


@pytest.mark.parametrize(
    "default, grid, column",
    [
        ("0", "3,4", [3, 4]),
        ("0.0", "3,4", [3.0, 4.0]),
        ("True", "True,False", [True, False]),
        ("''", f"a,{'b' * 20_000}", ["a", "b" * 20_000]),
    ],
)
def test_whatever_is_varied_leaves_a_table_and_a_page(project, at_once, default, grid, column):
    project.add("01_a", "1", parameters=f"P = {default}")
    assert run.reproduce(["01_a"], points=batch.points([f"P={grid}"])) == 0
    rows = pd.read_parquet(project.latest / "table.parquet")
    assert list(rows.P) == column
    assert len((project.latest / "index.html").read_text("utf-8")) < 20_000


def test_equal_points_run_once_however_they_are_written(project, at_once, capsys):
    project.add("01_a", "1", parameters="CLIP = 1.0\nSEED = 0")
    grid = batch.points(["CLIP=.5,.50,5e-1,1", "SEED=3,3"])
    assert run.reproduce(["01_a"], points=grid) == 0
    assert "6 of 8 points equal another one: run once" in capsys.readouterr().out
    rows = pd.read_parquet(project.latest / "table.parquet")
    assert list(rows.CLIP) == [0.5, 1.0] and len(at_once.started) == 2
    assert "SEED" not in rows


def test_zero_and_minus_zero_are_equal_points(project, at_once):
    project.add("01_a", "1", parameters="CLIP = 1.0")
    assert run.reproduce(["01_a"], points=batch.points(["CLIP=0,-0.0,1"])) == 0
    assert list(pd.read_parquet(project.latest / "table.parquet").CLIP) == [0.0, 1.0]


def test_a_long_value_is_cut_where_a_person_reads_it(project, at_once, capsys):
    project.add("01_a", "1", parameters="NAME = ''")
    run.reproduce(["01_a"], points=[{"NAME": "x" * 20_000}, {"NAME": "y"}])
    assert max(map(len, capsys.readouterr().out.splitlines())) < 200


@pytest.mark.parametrize(
    "arguments, sentence",
    [
        (["--grid", "SEED=0..1"], "a batch is of one notebook: name one, such as wang2018"),
        (["01_grid", "--grid", "SEDE=1"], "unknown parameter 'SEDE': 01_grid has CLIP, HOW, "),
        (["01_grid", "--grid", "SEED=x"], "SEED must be of type int, as its default 0, got 'x'"),
        (["01_grid", "--limit", "3"], "--scheduler and --limit are for a batch"),
        (
            ["01_grid", "--grid", "SEED=1", "--scheduler", "tcp://10.0.0.1:8786"],
            "tcp:// is taken on this machine only",
        ),
        (
            ["01_grid", "--grid", "SEED=1", "--scheduler", "tls://10.0.0.1:8786"],
            "tls:// needs a file that is there for --tls-ca-file, --tls-client-cert, ",
        ),
        (["cluster"], "unknown notebook 'cluster': there are 01_grid, 02_other"),
    ],
)
def test_what_cannot_be_a_batch_is_refused_before_anything_runs(
    ppkit, project, arguments, sentence
):
    project.add("01_grid", "1", parameters=PARAMETERS)
    project.add("02_other", "1", parameters=PARAMETERS)
    code, _, said = ppkit("reproduce", *arguments)
    assert code == 2 and said.startswith(f"ppkit: {sentence}"), said
    assert not (project.folder / "runs").exists()


# a batch as it runs


@pytest.fixture(scope="module")
def ran(shared_project):
    shared_project.add(
        "01_grid",
        RECORDS,
        "if SEED == 1 and CLIP == 2:\n    raise OSError(SEED)",
        parameters=PARAMETERS,
    )
    return shared_project, shared_project.run("reproduce", "01_grid", *GRID, "--data", "standin")


def table(project) -> pd.DataFrame:
    return pd.read_parquet(project.latest / "table.parquet")


@pytest.mark.processes
def test_a_grid_gives_a_folder_a_table_and_what_happened_to_each_point(ran):
    project, done = ran
    assert done.returncode == 1
    assert "0003 failed in code cell [4]: OSError: 1" in done.stderr
    rows = table(project)
    assert list(rows.columns[:5]) == ["point", "SEED", "CLIP", "status", "seconds"]
    assert list(zip(rows.SEED, rows.CLIP)) == [(s, c) for s in (0, 1, 2) for c in (0.5, 2.0)]
    assert list(rows.status) == ["done"] * 3 + ["failed"] + ["done"] * 2
    good = rows[rows.status == "done"]
    assert list(good.value) == [18.506 + 0.01 * s * c for s, c in zip(good.SEED, good.CLIP)]
    assert set(good.verdict) == {"reproduced", "not reproduced"} and (good.data == "formula").all()
    assert (good.seconds > 0).all() and (good.memory_mb > 20).all()
    csv = pd.read_csv(project.latest / "table.csv", dtype={"point": str})
    assert list(good.detail) == [""] * 5  # which CSV cannot tell from nothing
    shown = rows.assign(detail=rows.detail.replace("", None))
    pd.testing.assert_frame_equal(csv, shown, check_dtype=False)
    kept = pd.read_csv(project.latest / "tables" / "products.csv")
    assert list(kept.columns) == ["point", "SEED", "CLIP", "product"] and len(kept) == 5
    assert list(kept["product"]) == list(kept.SEED * kept.CLIP)
    point = project.latest / "points" / "0005"
    about = json.loads((point / "run.json").read_text())["notebooks"]["01_grid"]
    assert (about["parameters"]["SEED"], about["parameters"]["CLIP"]) == (2, 2.0)
    assert (point / "html" / "mathjax" / "MathJax.js").exists()
    assert not (project.latest / "points" / "0003").exists()


@pytest.mark.processes
def test_the_page_shows_what_turns_and_fetches_nothing(ran):
    project, _ = ran
    page = (project.latest / "index.html").read_text("utf-8")
    assert "1 of 1 rows have another verdict at another point" in page
    assert "failed: <code>OSError: 1</code> in code cell [4]" in page
    assert "<svg" not in page and "points/0005/html/01_grid.html" in page
    assert "nan" not in page and str(project.folder) not in page
    for outside in (' src="http', ' href="http', "@import", "url(http"):
        assert outside not in page


@pytest.mark.processes
def test_the_same_command_runs_again_only_what_failed(ran):
    project, _ = ran
    before = table(project)
    kept = (project.latest / "points" / "0000" / "run.json").stat().st_mtime_ns
    done = project.run("reproduce", "01_grid", *GRID, "--data", "standin")
    assert done.returncode == 1 and "5 of 6 points are there" in done.stdout
    assert (project.latest / "points" / "0000" / "run.json").stat().st_mtime_ns == kept
    same = [name for name in before if name not in ("seconds", "memory_mb")]
    pd.testing.assert_frame_equal(table(project)[same], before[same])
    assert len(list((project.folder / "runs").glob("2*"))) == 1


@pytest.mark.processes
def test_a_notebook_outside_the_project_that_hangs_ends_at_its_limit(project, tmp_path):
    made = project.add("99_other", "import time\ntime.sleep(SEED)", parameters="SEED = 0")
    other = made.rename(tmp_path / "other.ipynb")
    project.add("01_a", "1")
    grid = ("--grid", "SEED=0,7777", "--limit", "20")
    done = project.run("reproduce", str(other), *grid)
    assert done.returncode == 1
    assert "0001 failed in code cell [3]: ended at its limit of 20 s" in done.stderr
    rows = table(project)
    assert list(rows.status) == ["done", "failed"] and rows.claim.isna().all()


@pytest.mark.processes
def test_a_limit_that_passes_before_the_kernel_runs_ends_it_all_the_same(project):
    project.add("01_a", "import time\ntime.sleep(7777)", parameters="SEED = 0")
    done = project.run("reproduce", "01_a", "--grid", "SEED=1", "--limit", ".01")
    assert done.returncode == 1
    [said] = [line for line in done.stderr.splitlines() if line.startswith("0000 failed ")]
    # A warm kernel may be at its first cell by then, which sleeps for two hours.
    assert said.removeprefix("0000 failed ") in (
        "before its first cell: ended at its limit of 0.01 s",
        "in code cell [1]: ended at its limit of 0.01 s",
    )


@pytest.mark.processes
def test_ctrl_c_keeps_the_finished_points_and_the_same_command_goes_on(project):
    waits = (
        "import pathlib, time\nwhile SEED and not pathlib.Path('go').exists():\n    time.sleep(.05)"
    )
    project.add("01_grid", waits, parameters=PARAMETERS)
    command, environment = project.command(
        "reproduce", "01_grid", "--grid", "SEED=0..1", "--jobs", "1"
    )
    running = subprocess.Popen(command, env=environment, stderr=subprocess.PIPE, text=True)
    until(lambda: (project.latest / "points" / "0000").exists())
    running.send_signal(signal.SIGINT)
    assert "keeps what is finished" in running.communicate(timeout=FAR)[1]
    assert running.returncode == 130
    assert list(table(project).status) in (["done", "waiting"], ["done", "interrupted"])
    (project.folder / "notebooks" / "go").touch()
    assert project.run(*command[1:]).returncode == 0
    assert list(table(project).status) == ["done", "done"]
    record = json_files.read_json(project.latest / "run.json")
    assert record["state"] == "finished" and record["varied"] == ["SEED"]


def point_of(folder) -> batch.Batch:
    """A batch with one point that is whole."""
    place = folder / "points" / "0000"
    for part in ("notebooks", "html"):
        (place / part).mkdir(parents=True)
    about = {"status": "done"}
    record = {"id": "a", "key": "k", "state": "finished", "notebooks": {"01_a": about}}
    (place / "run.json").write_text(json.dumps(record))
    rows.write(place / "claims.json", [])
    (place / "notebooks" / "01_a.ipynb").touch()
    (place / "html" / "01_a.html").touch()
    return batch.Batch(folder, {"batch": "01_a", "notebooks": {"0000": about}})


def test_what_points_kept_becomes_one_table_with_their_parameters(tmp_path, monkeypatch):
    kept = {}
    for point, epsilon in (("0000", 0.1), ("0001", 0.5)):
        monkeypatch.setenv("PPKIT_RUN", str(tmp_path / "points" / point))
        show.keep("costs", [{"noise": "a", "proved": epsilon / 3}, {"noise": "", "proved": 2}])
        kept[point] = {"parameters": {"EPSILON": epsilon, "SEED": 0}}
    kept["0002"] = {"parameters": {"EPSILON": 1.0, "SEED": 0}}  # failed: it left nothing
    made = batch.Batch(tmp_path, {"batch": "01_a", "notebooks": kept, "varied": ["EPSILON"]})
    [(name, lines)] = batch.kept_tables(made).items()
    assert name == "costs" and list(lines.columns) == ["point", "EPSILON", "noise", "proved"]
    assert list(lines.point) == ["0000", "0000", "0001", "0001"]
    assert list(lines.EPSILON) == [0.1, 0.1, 0.5, 0.5] and list(lines.noise) == ["a", "", "a", ""]
    assert [float(text) for text in lines.proved] == [0.1 / 3, 2, 0.5 / 3, 2]


def test_outside_a_run_nothing_is_kept(tmp_path, monkeypatch):
    monkeypatch.delenv("PPKIT_RUN", raising=False)
    monkeypatch.chdir(tmp_path)
    show.keep("costs", [{"proved": 1.0}])
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize("file", ["run.json", "claims.json"])
def test_a_point_without_one_of_its_files_is_run_again(tmp_path, file):
    made = point_of(tmp_path)
    assert not made.is_missing("0000")
    (tmp_path / "points" / "0000" / file).unlink()
    assert made.is_missing("0000")


def test_a_point_whose_rows_were_cut_off_is_run_again(tmp_path):
    made = point_of(tmp_path)
    (tmp_path / "points" / "0000" / "claims.json").write_text('{"schema": 1, "claims": [{')
    assert made.is_missing("0000")


@pytest.mark.parametrize("number", [None, 0, 2])
def test_rows_of_another_schema_are_refused_in_a_sentence_and_their_point_is_run_again(
    tmp_path, number
):
    made, place = point_of(tmp_path), tmp_path / "points" / "0000" / "claims.json"
    about = {} if number is None else {"schema": number}
    place.write_text(json.dumps(about | {"claims": []}))
    said = (
        f"is of schema {number or 'none'}, and this ppkit reads schema 1: run its notebooks again"
    )
    with pytest.raises(Refused, match=said):
        run_folder.read_claims(place)
    assert made.is_missing("0000")


def test_a_main_setting_that_is_not_the_record_s_own_is_refused(project, monkeypatch):
    project.add("01_paper", "print(SEED)")
    [main] = catalogue.select(["01_paper"]).values()
    own = catalogue.parameters(main)["SEED"]
    for first in (own, own + 1):
        choice = Choice("seed", "01_paper", "SEED", [first, own + 2], "open", paper="made2026")
        monkeypatch.setattr(robustness, "choices", lambda record, choice=choice: [choice])
        if first == own:
            batch.refuse_other_main("01_paper")
        else:
            with pytest.raises(Refused, match=r"made2026\.choices\.toml, 'seed': the first"):
                batch.refuse_other_main("01_paper")
