"""A model of one's own over the network: the server's layers from its own file, several classes,
torch's optimisers; each as one process computes it, to the bit.
"""

import hashlib
import re
import signal
import subprocess
import sys
from dataclasses import replace
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
import torch
from held_roles import BEATS, gone, held, hold, silent
from network_runs import alone, finished, made, parts_of, same, small_rows, started

from ppkit.spnn.layer import SPNN
from ppkit.spnn.randomness import Stream
from spnn_system import config, data, example, launch
from spnn_system.roles.server import own_layers
from spnn_system.roles.weights import arrays_of, put

README = Path(config.__file__).with_name("README.md")


# batch normalisation has buffers, dropout draws, and one parameter has never a gradient
LAYERS = """
from pathlib import Path
from torch import nn

Path(__file__).with_name("ran").touch()

class Mine(nn.Module):
    def __init__(self, n_in):
        super().__init__()
        self.inner = nn.Sequential(
            nn.Linear(n_in, 7), nn.BatchNorm1d(7), nn.ReLU(), nn.Dropout(0.25), nn.Linear(7, 3)
        )
        self.unused = nn.Linear(2, 2)

    def forward(self, h1):
        return self.inner(h1).tanh()

def layers(n_in):
    return Mine(n_in)
"""


def with_layers(folder, text=LAYERS, **settings):
    """A run whose server has its own layers, in a folder that no other role's config names."""
    folder.mkdir()
    (folder / "mine.py").write_text(text)
    return dict(layers=folder / "mine.py", optimiser="adam", lr=0.01, **settings)


@pytest.mark.processes
@pytest.mark.parametrize(
    "settings",
    [
        dict(),
        dict(classes=4),
        dict(protocol="ss", form="lean", classes=3, own=False, optimiser="adagrad", lr=0.1),
    ],
    ids=["own layers, adam", "own layers, four classes, adam", "three classes, adagrad, lean"],
)
def test_a_run_and_its_prediction_are_those_of_one_process(tmp_path, forked, settings):
    settings = dict(settings)
    vertical = small_rows(classes=settings.get("classes", 2))
    if settings.pop("own", True):
        settings = with_layers(tmp_path / "server", **settings)
    conf = made(tmp_path / "it", vertical, n_new=40, **settings)
    text, others = conf.path.read_text(), conf.path.with_name("others.toml")
    others.write_text(re.sub("\nlayers = .*", "", text))
    finished(conf, paths={role: others for role in conf.roles if role != "server"})
    expected = alone(conf, vertical)
    same(conf, expected)
    used = {name: moved for name, moved in expected.moved.items() if "unused" not in name}
    assert min(used.values()) > 1e-4 and len(used) >= 5
    assert not any("unused" in name and moved for name, moved in expected.moved.items())
    assert launch.run(conf.path, predict=True).sentence == ""
    found = pd.read_csv(conf.folder.with_name("run-predicted") / "A" / "scores.csv")
    assert np.array_equal(found.drop(columns="id"), in_one_process(conf, vertical))
    names = [f"score_{i}" for i in range(conf.model.classes)]
    assert list(found)[1:] == (names if conf.model.classes > 2 else ["score"])


def in_one_process(conf, vertical):
    """The scores of the trained parts on the first 40 test rows."""
    net = SPNN(
        vertical.holders,
        conf.model.hidden,
        rng=torch.Generator(),
        n_outputs=conf.model.n_outputs,
        protocol=conf.protocol.name,
        stream=Stream.seeded_for_teaching(conf.training.seed).derive("prediction"),
        **({"form": conf.protocol.form} if conf.protocol.form else {}),
    )
    if conf.layers is not None:
        net.hidden = own_layers(conf)
    values = parts_of(conf)
    of = lambda start: {
        name.removeprefix(start): value
        for name, value in values.items()
        if name.startswith(start) and not name.endswith("theta")
    }
    put(net.hidden, of("server."))
    put(net.output, of("A."))
    with torch.no_grad():
        for name, theta in zip(conf.names, net.theta):
            theta.copy_(torch.from_numpy(values[f"{name}.theta"]))
        net.prepare([part[:40] for part in vertical.parts["test"]])
        logits = net.eval()(torch.arange(40)).double()
    return (logits.softmax(1) if conf.model.classes > 2 else logits.sigmoid()).numpy()


@pytest.mark.processes
def test_a_killed_run_with_own_layers_and_adam_goes_on_to_the_bit(tmp_path):
    vertical = small_rows(classes=3)
    settings = with_layers(tmp_path / "server", classes=3)
    conf = made(tmp_path / "it", vertical, batch=40, checkpoint_every=4, **settings)
    roles = started(conf, first={"coordinator": BEATS, "A": hold(10)})
    held(conf, "A")
    roles["server"].signal(signal.SIGKILL)
    gone(conf, "server")
    assert roles["server"].wait() == -signal.SIGKILL
    assert roles["coordinator"].wait() == 1
    assert f"{silent('server')}: the run stops at step 10" in roles["coordinator"].said()
    assert roles["A"].wait() == roles["B"].wait() == 1
    resumed = finished(conf, resume=True)
    assert "the run goes on from step 8\n" in resumed["coordinator"].said()
    same(conf, alone(conf, vertical))


@pytest.mark.processes
def test_fig_4_of_the_readme_runs_and_the_network_ends_in_its_numbers(
    tmp_path, forked, monkeypatch
):
    layers, loop = re.findall(r"```python\n(.*?)```", README.read_text("utf-8"), re.DOTALL)
    (tmp_path / "layers.py").write_text(layers)
    monkeypatch.syspath_prepend(tmp_path)
    vertical = small_rows((32, 32), classes=5)
    [x_a, x_b], y = vertical["train"]
    ran = {"__name__": "fig4", "x_a": x_a, "x_b": x_b, "y": y}
    exec(loop, ran)
    settings = dict(layers=tmp_path / "layers.py", hidden=(256, 64), classes=5, epochs=1, seed=0)
    conf = made(tmp_path / "it", vertical, optimiser="adam", lr=0.001, **settings)
    assert launch.run(conf.path).sentence == ""
    found, net = parts_of(conf), ran["model"]
    for i, name in enumerate("AB"):
        assert np.array_equal(found[f"{name}.theta"], net.theta[i].detach())
    for name, value in arrays_of(net.hidden).items():
        assert np.array_equal(found[f"server.{name}"], value), name
    assert np.array_equal(found["A.weight"], net.output.weight.detach())


def of_layers(tmp_path, text=LAYERS, **changes):
    """The config of a run whose server has these layers."""
    settings = with_layers(tmp_path / "server", text) | {"hidden": (4, 3)} | changes
    return config.load(example.write(tmp_path / "it", small_rows(), **settings))


WRONG = {
    "no function": ("x = 1", "KeyError"),
    "no module": ("def layers(n_in): return 3", "AttributeError: 'int' object has no"),
    "no Python": ("def layers(n_in", "SyntaxError: '\\(' was never closed"),
    "its own end": ("import sys\nsys.exit()", "SystemExit: $"),
    "its own end in layers": ("def layers(n_in): exit('no GPU here')", "SystemExit: no GPU here"),
    "an error": ("def layers(n_in): return 1 / 0", "ZeroDivisionError: division by zero"),
    "input": (
        "from torch import nn\nlayers = lambda n: nn.Linear(n + 1, 3)",
        "RuntimeError: mat1 and mat2 shapes cannot be multiplied",
    ),
    "output": (
        "from torch import nn\nlayers = lambda n: nn.Linear(n, 5)",
        r"TypeError: it gives \(2, 5\) in torch.float32 for 2 rows",
    ),
    "type": (
        "from torch import nn\nlayers = lambda n: nn.Sequential(nn.Linear(n, 3), Twice())\n"
        "class Twice(nn.Module):\n    def forward(self, h): return h.double()",
        r"TypeError: it gives \(2, 3\) in torch.float64",
    ),
    "in place": (
        "from torch import nn\nlayers = lambda n: nn.Sequential(nn.ReLU(True), nn.Linear(n, 3))",
        "RuntimeError: a leaf Variable that requires grad",
    ),
}


@pytest.mark.parametrize("text, says", WRONG.values(), ids=WRONG)
def test_layers_that_do_not_fit_are_refused(tmp_path, text, says):
    conf = of_layers(tmp_path, text)
    path = re.escape(str(conf.layers))
    expected = (
        rf"^{path} must have a function layers\(n_in\) that returns a torch.nn.Module from "
        rf"\(n, 4\) to \(n, 3\) in float32: {says}[^\n]*$"
    )
    with pytest.raises(ValueError, match=expected):
        own_layers(conf)


def test_a_changed_file_is_refused_before_any_of_it_runs(tmp_path):
    conf = of_layers(tmp_path)
    conf.layers.write_text(LAYERS + "# changed\n")
    found = hashlib.sha256(conf.layers.read_bytes()).hexdigest()
    says = f"is not the file that all agreed on: its SHA-256 is {found}, and .* is "
    with pytest.raises(ValueError, match=says + conf.model.layers_sha256):
        own_layers(conf)
    conf.layers.unlink()
    with pytest.raises(FileNotFoundError, match="the server's own layers is not there: .*mine.py"):
        own_layers(conf)
    with pytest.raises(ValueError, match=r"and \[server\] has no layers: it must be the path"):
        own_layers(replace(conf, layers=None))
    assert not conf.layers.with_name("ran").exists()


@pytest.mark.processes
def test_the_servers_process_says_it_in_one_sentence_with_exit_code_2(tmp_path, forked):
    conf = made(tmp_path / "it", small_rows(), **with_layers(tmp_path / "server"))
    conf.layers.write_text("changed")
    command = [sys.executable, "-m", "spnn_system", "server", str(conf.path)]
    role = subprocess.run(command, capture_output=True, text=True)
    assert role.returncode == 2 and role.stderr.count("\n") == 1
    sentence = f"{conf.layers} is not the file that all agreed on"
    assert role.stderr.startswith(f"ppkit: {sentence}")
    result = launch.run(conf.path)
    assert result.code == launch.BAD_INPUT and result.sentence.startswith(sentence)
    assert not conf.layers.with_name("ran").exists()


def test_the_checksum_stands_in_all_digests_and_the_path_in_none(tmp_path):
    conf = of_layers(tmp_path)
    text = conf.path.read_text()
    others = config.parse(re.sub("\nlayers = .*", "", text), conf.path)
    assert others.layers is None and others.digest == conf.digest
    of_others = config.parse(text.replace(conf.model.layers_sha256, "0" * 64), conf.path)
    assert of_others.digest != conf.digest
    for key, value in (("classes = 2", "classes = 3"), ('"adam"', '"adamw"')):
        assert config.parse(text.replace(key, value), conf.path).digest != conf.digest


def test_labels_are_0_to_classes_minus_1(tmp_path):
    conf = config.load(example.write(tmp_path / "it", small_rows(classes=4), classes=4))
    assert data.read(conf, "A")[1].unique().tolist() == [0, 1, 2, 3]
    text = conf.path.read_text().replace("classes = 4", "classes = 3")
    with pytest.raises(ValueError, match=r"labels 'label' must be 0 to 2, row \d+ \(from 0\) is"):
        data.read(config.parse(text, conf.path), "A")
