"""Prediction after training: the new rows go through the same protocol, and only the label holder
gets scores.
"""

import shutil
import signal
import stat

import numpy as np
import pandas as pd
import pytest
import torch
from network_runs import alone, finished, made, nursery, parts_of, same, small_rows, status
from waiting import until

from ppkit.spnn.layer import SPNN
from ppkit.spnn.randomness import Stream
from spnn_system import config, launch
from spnn_system.transport import certificates, frames

pytestmark = pytest.mark.processes

CASES = {
    "plain": dict(protocol="plain"),
    "masked, 3 holders, the second has the labels": dict(columns=(3, 2, 2), label_holder=1),
    "lean": dict(protocol="ss", form="lean"),
    "published": dict(protocol="ss", form="published"),
    "he": dict(protocol="he", key_bits=512),
    "dealerless": dict(protocol="ss", form="dealerless", key_bits=512),
}


@pytest.fixture(scope="module", params=CASES)
def trained(request, tmp_path_factory):
    """(config, rows) of a finished training whose config names files of new rows."""
    settings = dict(CASES[request.param])
    vertical = small_rows(settings.pop("columns", (3, 2)))
    conf = made(tmp_path_factory.mktemp("run") / "it", vertical, record=True, epochs=1, **settings)
    finished(conf)
    text = conf.path.read_text()
    for name in conf.names:
        text = text.replace(f'"{name}.parquet"', f'"{name}.parquet"\npredict = "new-{name}.csv"')
    conf.path.write_text(text)
    return config.load(conf.path), vertical


def new_rows(conf, X, *, spoil=None):
    """A file of new rows for each holder, its columns in another order than when it trained."""
    parts = []
    for holder in conf.holders:
        kept = pd.read_parquet(holder.data).columns.drop(["id", "label"], errors="ignore")
        part = X[:, : len(kept)]
        X = X[:, len(kept) :]
        table = pd.DataFrame(part.numpy().astype(np.float64), columns=kept)[kept[::-1]]
        table["id"] = [f"new {i}" for i in range(len(part))]
        if spoil and holder.name == "A":
            table = spoil(table)
        table.to_csv(holder.predict, index=False)
        parts.append(part.contiguous())
    return parts


def in_one_process(conf, parts) -> list[float]:
    """The scores of the trained parts, all in one process."""
    net = SPNN(
        [part.shape[1] for part in parts],
        conf.model.hidden,
        rng=torch.Generator().manual_seed(0),
        protocol=conf.protocol.name,
        activation=conf.model.activation,
        label_holder=conf.names.index(conf.label_holder),
        stream=Stream.seeded_for_teaching(conf.training.seed).derive("prediction"),
        **({"form": conf.protocol.form} if conf.protocol.name == "ss" else {}),
        **conf.protocol.choices,
    )
    values = {name: torch.from_numpy(value) for name, value in parts_of(conf).items()}
    with torch.no_grad():
        for name, theta in zip(conf.names, net.theta):
            theta.copy_(values[f"{name}.theta"])
        for owner, module in (("server", net.hidden), (conf.label_holder, net.output)):
            for name, value in module.named_parameters():
                value.copy_(values[f"{owner}.{name}"])
        net.prepare(parts)
        rows = torch.arange(len(parts[0])).split(conf.training.batch)
        return torch.cat([net(some)[:, 0] for some in rows]).double().sigmoid().tolist()


@pytest.mark.parametrize("n", [1, 130])
def test_scores_are_those_of_one_process_and_the_label_holders_alone(trained, forked, n):
    conf, _ = trained
    parts = new_rows(conf, torch.randn(n, 7, generator=torch.Generator().manual_seed(n)))
    before = parts_of(conf)
    result = launch.run(conf.path, predict=True)
    assert (result.code, result.sentence) == (0, "")
    folder = conf.folder.with_name("run-predicted")
    assert [path.parent.name for path in folder.rglob("scores.csv")] == [conf.label_holder]
    path = folder / conf.label_holder / "scores.csv"
    assert stat.S_IMODE(path.stat().st_mode) == 0o600 and str(path) in result.summary()
    scores = pd.read_csv(path, dtype=str)
    assert scores["id"].tolist() == [f"new {i}" for i in range(n)]
    assert list(map(float, scores["score"])) == in_one_process(conf, parts)
    after = parts_of(conf)
    assert all(np.array_equal(after[name], before[name]) for name in before)
    assert not list(folder.rglob("*.key"))
    for role in conf.roles:
        log = (folder / role / "log.txt").read_text()
        assert "the prediction begins" in log and "training begins" not in log
    for role in conf.roles:  # h_L is for the label holder, and nobody sends a gradient
        got = {frame.name for frame in frames.recorded(folder / role / "received.frames")}
        assert ("h_L" in got) == (role == conf.label_holder) and not {"dL/dh1", "dL/dh_L"} & got


SPOILED = {
    "missing": (lambda t: t.drop(columns="x0"), "holder A's file new-A.csv has no column 'x0'"),
    "no number": (lambda t: t.assign(x1="a"), "feature 'x1' must be numbers"),
    "not finite": (lambda t: t.assign(x1=np.inf), "feature 'x1' must be finite"),
    "no ids": (lambda t: t.drop(columns="id"), "has no column 'id'"),
    "no row": (lambda t: t.iloc[:0], "holder A's file new-A.csv has 0 rows"),
    "other rows": (lambda t: t.iloc[1:], "all holders must have the same rows"),
}


@pytest.fixture
def ready(tmp_path, forked):
    conf = made(tmp_path / "it", small_rows(), epochs=1)
    text = conf.path.read_text()
    for name in conf.names:
        text = text.replace(f'"{name}.parquet"', f'"{name}.parquet"\npredict = "new-{name}.csv"')
    conf.path.write_text(text)
    return config.load(conf.path)


def refused(conf, says):
    with pytest.raises((ValueError, FileNotFoundError), match=says) as error:
        launch.run(conf.path, predict=True)
    assert "\n" not in str(error.value)
    assert not conf.folder.with_name("run-predicted").joinpath("A", "scores.csv").exists()


def test_what_cannot_be_scored_is_refused_in_a_sentence(ready):
    X = torch.zeros(3, 5)
    new_rows(ready, X)
    refused(
        ready, r"holder A's file new-A\.csv: there is no trained network in .*A: train it first"
    )
    finished(ready)
    for spoil, says in SPOILED.values():
        new_rows(ready, X, spoil=spoil)
        refused(ready, says)
    (ready.path.parent / "new-A.csv").unlink()
    refused(ready, "new-A.csv is not there")
    new_rows(ready, X)
    kept = ready.folder_of("server") / "parameters.npz"
    shutil.move(kept, kept.with_suffix(".away"))
    said = launch.run(ready.path, predict=True)
    assert said.code == 1
    log = ready.folder.with_name("run-predicted") / "server" / "log.txt"
    assert "there is no trained network in" in log.read_text()
    shutil.copy(ready.folder_of("A") / "parameters.npz", kept)
    assert launch.run(ready.path, predict=True).code == 1
    assert "is of another network than" in log.read_text()
    ready.path.write_text(ready.path.read_text().replace('predict = "new-B.csv"', ""))
    refused(ready, r"\[\[holder\]\] B has no predict: it must name the file of its new rows")


def test_two_machines_each_with_its_own_keys_train_lose_a_role_resume_and_predict(tmp_path):
    """Two folders stand for two machines, a third one for the authority; no key leaves its folder.
    The digits are those of one process."""
    vertical = small_rows()
    settings = dict(protocol="ss", form="lean", epochs=6, timeout=60.0, latency=0.02)
    made(tmp_path / "one", vertical, **settings)
    one, two, authority = (tmp_path / name for name in ("one", "two", "authority"))
    shutil.rmtree(one / "certificates")
    text = (one / "config.toml").read_text()
    for name in "AB":
        text = text.replace(f'"{name}.parquet"', f'"{name}.parquet"\npredict = "new-{name}.csv"')
    for folder in (one, two, authority):
        folder.mkdir(exist_ok=True)
        (folder / "config.toml").write_text(text)
    shutil.move(one / "B.parquet", two / "B.parquet")
    confs = {role: config.load(one) for role in ("coordinator", "server", "dealer", "A")}
    confs["B"] = config.load(two)
    for role, conf in confs.items():
        certificates.request(conf.network.certificates, role)
        (authority / "certificates" / role).mkdir(parents=True)
        asked = conf.network.certificates / role / certificates.REQUEST
        shutil.copy(asked, authority / "certificates" / role)
    certificates.sign(authority / "certificates", list(confs))
    for role, conf in confs.items():
        for file in ("ca.pem", "certificate.pem"):
            shutil.copy(
                authority / "certificates" / role / file, conf.network.certificates / role / file
            )
    keys = sorted(tmp_path.rglob("key.pem"))
    assert [key.relative_to(tmp_path).parts[::2] for key in keys] == [
        *(("one", role) for role in sorted(set(confs) - {"B"})),
        ("two", "B"),
    ]

    # the dead do not answer
    short = "from spnn_system.roles import coordinator\ncoordinator.LAST_WORD = 0.1"

    def begin(**how):
        return {
            role: nursery().start(conf, role, first=short if role == "coordinator" else "", **how)
            for role, conf in confs.items()
        }

    roles = begin()
    until(lambda: status(confs["A"])["step"] >= 4)
    roles["B"].signal(signal.SIGKILL)
    codes = {role: each.wait() for role, each in roles.items()}
    assert codes == {**dict.fromkeys(codes, 1), "B": -signal.SIGKILL}
    assert "goes on from step" in status(confs["A"])["sentence"]
    codes = {role: each.wait() for role, each in begin(resume=True).items()}
    assert not any(codes.values())
    parts = shutil.copytree(two / "run" / "B", one / "run" / "B")
    same(confs["A"], alone(confs["A"], vertical))
    shutil.copy(two / "B.parquet", one / "B.parquet")
    X = new_rows(confs["A"], torch.randn(7, 5, generator=torch.Generator().manual_seed(1)))
    shutil.move(one / "new-B.csv", two / "new-B.csv")
    expected = in_one_process(confs["A"], X)
    for path in (parts, one / "B.parquet"):
        shutil.rmtree(path) if path.is_dir() else path.unlink()
    confs = {role: conf.prediction() for role, conf in confs.items()}
    codes = {role: each.wait() for role, each in begin(more=["--predict"]).items()}
    assert not any(codes.values())
    [scores] = tmp_path.rglob("scores.csv")
    assert scores == one / "run-predicted" / "A" / "scores.csv"
    assert list(map(float, pd.read_csv(scores, dtype=str)["score"])) == expected
