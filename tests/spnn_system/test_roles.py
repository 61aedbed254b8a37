"""Every role in a process of its own: the result of one process to the bit, and who holds and hears
what.
"""

import contextlib
import functools
import json
import re
import signal
import stat
import subprocess
import sys

import numpy as np
import pandas as pd
import pytest
import torch
from network_pair import loopback, opened
from network_runs import (
    HIDDEN,
    alone,
    finished,
    heard,
    made,
    metrics_of,
    nursery,
    parts_of,
    same,
    small_rows,
    started,
    status,
)
from waiting import FAR, until

from ppkit.models import classification_loss
from ppkit.spnn.layer import SPNN
from ppkit.spnn.messages import Malformed
from ppkit.spnn.randomness import Stream
from ppkit.spnn.training import SGLD
from spnn_system import data
from spnn_system.launch import run as launch
from spnn_system.roles.coordinator import Coordinator
from spnn_system.roles.party import Party
from spnn_system.roles.protocol_side import admission
from spnn_system.run.reports import HEARD, OddPlan, Plan, checked, plan_of
from spnn_system.run.role_folder import RoleFolder
from spnn_system.transport import frames
from spnn_system.transport.links import Rejected

pytestmark = pytest.mark.processes

AROUND = {"rows and ids", "test rows", "order"}  # what no protocol sends

CASES = {
    "plain": dict(protocol="plain"),
    "masked, 3 holders, the second has the labels": dict(columns=(3, 2, 2), label_holder=1),
    "masked, reshuffled": dict(order="reshuffled"),
    "lean": dict(protocol="ss", form="lean"),
    "lean, reshuffled, 3 holders": dict(
        protocol="ss", form="lean", order="reshuffled", columns=(2, 1, 2)
    ),
    "published": dict(protocol="ss", form="published"),
    "published, 3 holders": dict(protocol="ss", form="published", columns=(2, 1, 2)),
    "he": dict(protocol="he", key_bits=512),
    "dealerless": dict(protocol="ss", form="dealerless", key_bits=512),
}


@pytest.fixture(scope="module", params=CASES)
def done(request, tmp_path_factory):
    """(config, rows, what one process gives, the roles' processes) of a finished run: two epochs of
    batches of 100, 100, 30.
    """
    settings = dict(CASES[request.param])
    vertical = small_rows(settings.pop("columns", (3, 2)))
    conf = made(tmp_path_factory.mktemp("run") / "it", vertical, record=True, **settings)
    roles = finished(conf)
    return conf, vertical, alone(conf, vertical), roles


def test_the_result_is_that_of_one_process_to_the_bit(done):
    conf, _, expected, roles = done
    same(conf, expected)
    assert min(expected.moved.values()) > 1e-3  # gradients came to every part
    for name, role in roles.items():
        said, measured = (
            role.said().splitlines(),
            f"; test AUC {metrics_of(conf)['test_auc']:.3f}" * (name == conf.label_holder),
        )
        assert (
            any(f"listens at {conf.addresses[name]} and waits for " in line for line in said)
            and len(said) <= 4
        )
        assert said[-2] == "ppkit: all roles are here: the training begins"
        assert (
            name == "coordinator"
            or said[-1] == f"ppkit: done: this role's part is in {conf.folder_of(name)}{measured}"
        )


def test_the_messages_are_those_of_one_process(done):
    conf, _, expected, _ = done
    lines = [
        json.loads(line)
        for role in conf.roles
        for line in (conf.folder_of(role) / "messages.jsonl").read_text().splitlines()
    ]
    columns = ["step", "phase", "sender", "receiver", "name", "n_bytes"]
    sent = pd.DataFrame(lines)[columns]
    training = sent[(sent.step <= 6) & ~sent.name.isin(AROUND)]
    pd.testing.assert_frame_equal(
        training.sort_values(columns, ignore_index=True),
        expected.messages[columns].sort_values(columns, ignore_index=True),
    )
    around = sent[sent.name.isin(AROUND)]
    assert (around.step == 0).all() and set(sent[sent.step > 6].step) <= {7, 8}
    makers = set(sent[sent.phase == "offline"].sender)
    dealt = {"dealer"} if conf.protocol.has_dealer else set()
    assert makers == ({"A", "B"} if conf.protocol.form == "dealerless" else dealt)
    assert all(
        line["wire_bytes"] > line["n_bytes"] and line["sent_at"] >= line["at"] for line in lines
    )


def test_metrics_are_the_label_holders_and_name_the_source(done):
    conf, vertical, _, _ = done
    metrics = metrics_of(conf)
    assert metrics["source"] == vertical.source and metrics["run"] == conf.run
    assert (metrics["epochs"], metrics["steps"], metrics["test_rows"]) == (2, 6, 90)
    seconds = metrics["seconds"]
    assert len(seconds["online"]) == len(seconds["offline"]) == 2
    assert all(
        value > 0
        for value in [*seconds["online"], *seconds["offline"], seconds["once"], seconds["test"]]
    )
    assert [role for role in conf.roles if (conf.folder_of(role) / "metrics.json").exists()] == [
        conf.label_holder
    ]
    assert (
        status(conf)["state"] == "done"
        and status(conf)["step"] == status(conf)["steps"] == status(conf)["saved"] == 6
    )


# who hears what: no 8 bytes of anything private. A hit by chance: at most 10^6 bytes against 10^6
# windows of at least 60 random
# bits, below 2^-20 = 10^-6; labels are looked for 16 at a time.


class Searched:
    """Bytes in which 8 in a row can be looked for, wherever they begin."""

    def __init__(self, content: bytes):
        self.content = content
        self._words = np.unique(
            np.concatenate(
                [
                    np.frombuffer(content[at : at + (len(content) - at) // 8 * 8], np.uint64)
                    for at in range(8)
                ]
            )
        )

    def has(self, value, *, labels: bool = False) -> bool:
        """Whether two or more numbers of a tensor stand there one after the other, as float32,
        float64 or fixed point, by rows or by columns; of labels, 16 in a row, in any usual type."""
        value = np.asarray(value)
        if labels:
            return any(
                value[i : i + 16].astype(kind).tobytes() in self.content
                for kind in (np.float32, np.float64, np.int64, np.int32, np.uint8)
                for i in range(len(value) - 16)
                if 0 < value[i : i + 16].sum() < 16
            )
        for flat in (value.ravel(), value.T.ravel()):
            for numbers in (
                flat.astype(np.float32),
                flat.astype(np.float64),
                np.round(flat.astype(np.float64) * 2**16).astype(np.int64),
            ):
                raw, size = numbers.tobytes(), numbers.itemsize
                found = np.array(
                    [np.frombuffer(raw, np.uint64, 1, at)[0] for at in range(0, len(raw) - 7, size)]
                )
                telling = np.array(
                    [len(set(raw[at : at + 8])) > 3 for at in range(0, len(raw) - 7, size)], bool
                )
                at = np.searchsorted(self._words, found[telling]).clip(max=len(self._words) - 1)
                if (self._words[at] == found[telling]).any():
                    return True
        return False


@functools.cache
def of_folder(conf, role) -> Searched:
    return Searched(b"".join(path.read_bytes() for path in sorted(conf.folder_of(role).iterdir())))


def received(conf, role) -> bytes:
    return (conf.folder_of(role) / "received.frames").read_bytes()


def private(conf, vertical, expected):
    """(name, values, whether labels) of all that is private, and of what a step makes of it."""
    for name, *parts in zip(conf.names, vertical.parts["train"], vertical.parts["test"]):
        yield from ((f"X of {name}", part, False) for part in parts)
        yield f"theta of {name}", expected.parameters[f"{name}.theta"], False
    for key in ("train", "test"):
        yield "labels", vertical.y[key], True
    for name, values in expected.seen.items():
        yield from ((name, value, False) for value in values)
    yield from ((name, value, False) for name, value in expected.parameters.items())


def test_the_search_finds_what_is_there():
    x = torch.randn(40, 3)
    y = torch.randint(0, 2, (40,))
    for sent in (x, x.double(), (x.double() * 2**16).round().long(), x.T.contiguous()):
        assert Searched(b"abc" + sent[1:].numpy().tobytes() + b"d").has(x)
    assert Searched(bytes(100) + x[39, 1:].numpy().tobytes()).has(x)
    for sent in (y, y.float(), y.to(torch.uint8)):
        assert Searched(b"abc" + sent[5:].numpy().tobytes()).has(y, labels=True)
    assert not Searched(torch.randn(40, 3).numpy().tobytes()).has(x)


def test_the_coordinator_hears_agreed_words_and_nothing_private(done):
    conf, vertical, expected, _ = done
    heard = list(frames.recorded(conf.folder_of("coordinator") / "received.frames"))
    assert {frame.sender for frame in heard} == set(conf.roles) - {"coordinator"}
    for frame in heard:
        kind = frame.payload["kind"]
        assert frame.name == "report" and set(frame.payload) <= HEARD[kind] | {"kind", "session"}
        for key, value in frame.payload.items():
            assert (
                value is None
                or type(value) in (bool, int)
                or key == "saved"
                and value == []
                or re.fullmatch("[a-z]+" if key == "kind" else "[0-9a-f]{16,64}", value)
            ), (key, value)
    content = Searched(received(conf, "coordinator"))
    for name, values, labels in private(conf, vertical, expected):
        assert not content.has(values, labels=labels), name


def test_the_dealer_hears_nothing_that_depends_on_data(done):
    conf, vertical, expected, _ = done
    if "dealer" not in conf.roles:
        pytest.skip("no dealer in this protocol")
    heard = list(frames.recorded(conf.folder_of("dealer") / "received.frames"))
    assert {(frame.sender, frame.name) for frame in heard} <= {
        ("coordinator", "order"),
        ("A", "test rows"),
        ("A", "order"),
    }
    content = Searched(received(conf, "dealer"))
    for name, values, labels in private(conf, vertical, expected):
        assert not content.has(values, labels=labels), name


def test_the_server_has_neither_features_weights_nor_labels(done):
    conf, vertical, expected, _ = done
    content = of_folder(conf, "server")
    for name, values, labels in private(conf, vertical, expected):
        if name.startswith(("X of", "theta of", "labels", conf.label_holder)):
            assert not content.has(values, labels=labels), name
    # of h1 it gets shares, words under masks, or ciphertexts
    if conf.protocol.name != "plain":
        came = Searched(received(conf, "server"))
        assert not any(came.has(h1) for h1 in expected.seen["h1"])


def test_nobody_has_anothers_part(done):
    conf, vertical, expected, _ = done
    for role in conf.roles:
        content = of_folder(conf, role)
        for name, value in expected.parameters.items():
            if value.size > 1:  # a single number is no 8 bytes
                assert content.has(value) == name.startswith(f"{role}."), (role, name)
        for other, *parts in zip(conf.names, vertical.parts["train"], vertical.parts["test"]):
            assert not any(content.has(part) for part in parts), (role, other)


def test_a_roles_folder_is_its_own(done):
    conf, *_ = done
    for role in set(conf.roles) - {"coordinator"}:
        assert not list(conf.folder_of(role).glob("*.key"))  # the run has ended
        assert len(list(conf.folder_of(role).glob("step-*.checkpoint"))) <= (
            5 if role == "dealer" else 3
        )
        assert not list(conf.folder_of(role).glob("*.part"))
    for role in conf.roles:
        assert stat.S_IMODE(conf.folder_of(role).stat().st_mode) == 0o700
        for name in (
            "received.frames",
            "messages.jsonl",
            *(["metrics.json"] if role == conf.label_holder else []),
        ):
            assert stat.S_IMODE((conf.folder_of(role) / name).stat().st_mode) == 0o600, (role, name)


# other settings


def test_secrets_of_a_seed_are_said_by_every_role_and_with_the_result(done):
    conf, _, _, roles = done
    assert all(
        "ppkit: secrets: from a seed, for teaching: NOT SECRET\n" in role.said()
        for role in roles.values()
    )
    assert metrics_of(conf)["secrets"] == "from a seed, for teaching: NOT SECRET"


def test_a_second_process_of_a_role_touches_nothing(tmp_path):
    conf = made(tmp_path / "it", small_rows())
    first = Party(conf, "A", resume=False)
    first.checkpoints.save(2, {}, {})
    mine = first.folder.path
    before = {path.name: path.read_bytes() for path in mine.iterdir()}
    for resume in (False, True):
        with pytest.raises(
            ValueError,
            match="^holder A of this run is running already: another process has A/ in .*run$",
        ):
            Party(conf, "A", resume=resume)
    assert {
        path.name: path.read_bytes() for path in mine.iterdir()
    } == before and "secret.key" in before
    with contextlib.closing(RoleFolder(conf, "coordinator")):
        role = nursery().start(conf, "coordinator")
        assert role.wait() == 2
        assert role.said().startswith(
            "ppkit: the coordinator of this run is running already: another process has "
            "coordinator/ in "
        )
    first.folder.close()  # as when its process ends
    Party(conf, "A", resume=False)


def test_what_is_not_secret_or_keeps_secrets_is_said(tmp_path):
    said = {}
    for secrets in ("os", "teaching"):
        for record in (False, True):
            conf = made(
                tmp_path / f"{secrets} {record}", small_rows(), secrets=secrets, record=record
            )
            said[secrets, record] = conf.notice
    not_secret = "secrets: from a seed, for teaching: NOT SECRET"
    assert (
        said["teaching", True] == said["teaching", False] == not_secret and said["os", False] == ""
    )
    assert "received.frames keeps all that came here, seeds of masks too" in said["os", True]


def test_secrets_of_the_operating_system_are_new_every_time_also_in_the_same_folder(tmp_path):
    conf, found, words = (
        made(
            tmp_path / "it", small_rows(), secrets="os", epochs=3, order="reshuffled", record=True
        ),
        [],
        [],
    )
    for _ in range(2):
        finished(conf)
        found.append(parts_of(conf))
        words.append(
            next(
                frame.payload
                for frame in frames.recorded(conf.folder_of("server") / "received.frames")
                if frame.name == "masked X theta"
            )
        )
        assert len(metrics_of(conf)["losses"]) == 3
        for journal in conf.folder.glob("*/journal.txt"):  # of this run alone
            keys = [tuple(line.split("\t")[:4]) for line in journal.read_text().splitlines()]
            assert len(keys) == len(set(keys)), journal
    assert all(not np.array_equal(found[0][name], found[1][name]) for name in found[0])
    # 400 words of 32 bits: by chance 400 / 2^32 = 1e-7
    assert not (words[0] == words[1]).any()


def test_sgld_moves_every_part_by_its_own_noise(tmp_path):
    vertical = small_rows()
    conf = made(tmp_path / "it", vertical, optimiser="sgld", lr=0.002, protocol="plain", epochs=1)
    finished(conf)
    net = SPNN(
        [3, 2], HIDDEN, rng=torch.Generator().manual_seed(3), protocol="plain", activation="sigmoid"
    )
    own = {
        "A": [net.theta[0], *net.output.parameters()],
        "B": [net.theta[1]],
        "server": list(net.hidden.parameters()),
    }
    optimisers = []
    for role, parameters in own.items():
        noise = Stream.seeded_for_teaching(3).derive(role).derive("noise of SGLD")
        optimisers.append(SGLD(parameters, lr=0.002, rng=noise))
    parts, y = vertical["train"]
    net.prepare(parts)
    for rows in torch.arange(230).split(100):
        net.zero_grad()
        (classification_loss(net(rows), y[rows]) * len(rows)).backward()
        for optimiser in optimisers:
            optimiser.step()
    found = parts_of(conf)
    for name, value in {
        "A.theta": net.theta[0],
        "A.bias": net.output.bias,
        "B.theta": net.theta[1],
        "server.1.weight": net.hidden[1].weight,
    }.items():
        assert np.array_equal(found[name], value.detach().numpy()), name


# what is not right is said before anything is trained


def test_holders_with_other_rows_find_out_among_themselves(tmp_path):
    conf = made(tmp_path / "it", small_rows(), record=True)
    table = pd.read_parquet(conf.holder("B").data)
    table.loc[[0, 1], "id"] = table.loc[[1, 0], "id"].to_numpy()
    table.to_parquet(conf.holder("B").data, index=False)
    roles = started(conf)
    codes = {name: role.wait() for name, role in roles.items()}
    assert codes["coordinator"] == 2 and all(codes.values())
    assert re.search(
        "holder [AB] does not have the same rows in the same order as holder [AB] .*: nothing was "
        "trained",
        roles["coordinator"].said(),
    )
    assert "other ids, or ids in another order" in roles["A"].said() + roles["B"].said()
    ids = pd.read_parquet(conf.holder("A").data)["id"].astype(str).tolist()
    assert data.ids_digest(ids).encode() not in received(conf, "coordinator")


def test_a_role_with_another_config_is_not_let_in(tmp_path):
    conf = made(tmp_path / "it", small_rows())
    other = conf.path.with_name("other.toml")
    other.write_text(conf.path.read_text().replace("lr = 1.5", "lr = 1.25"))
    roles = started(conf, paths={"B": other})
    assert {name: role.wait() for name, role in roles.items()} == {
        "coordinator": 2,
        "server": 1,
        "A": 1,
        "B": 1,
    }
    for role in roles.values():
        assert (
            "holder B has another config than the coordinator: nothing was started" in role.said()
        )


def test_a_role_that_comes_after_the_end_is_told_why(tmp_path):
    conf = made(tmp_path / "it", small_rows())
    other = conf.path.with_name("other.toml")
    other.write_text(conf.path.read_text().replace("lr = 1.5", "lr = 1.25"))
    roles = {
        role: nursery().start(conf, role, path=other if role == "B" else None)
        for role in ("coordinator", "server", "B")
    }
    # it has been refused: the run is over
    assert roles["B"].wait() == 1
    late = nursery().start(conf, "A")
    assert late.wait() == 1 and roles["coordinator"].wait() == 2
    assert "holder B has another config than the coordinator: nothing was started" in late.said()


def test_a_wait_in_vain_says_where_every_role_stands(tmp_path):
    conf = made(tmp_path / "it", small_rows())
    lonely = nursery().start(conf, "server")
    until(lambda: "waits for the coordinator" in lonely.said())
    with pytest.raises(AssertionError, match="(?s)never: this.*server, exit code None.*in _begin"):
        nursery().until(lambda: False, "never: this", seconds=0.0)
    lonely.signal(signal.SIGKILL)


def test_a_role_that_still_starts_when_another_is_interrupted_is_told_why(tmp_path):
    conf = made(tmp_path / "it", small_rows(), record=True)
    first = (
        "from spnn_system.roles import coordinator\ncoordinator.LAST_WORD = "
        f"0.0\ncoordinator.LATECOMERS = {FAR}"
    )
    roles = {
        role: nursery().start(conf, role, first=first) for role in ("coordinator", "server", "B")
    }
    # their hellos are answered
    until(lambda: {("server", "alive"), ("B", "alive")} <= heard(conf))
    roles["B"].signal(signal.SIGINT)
    assert roles["B"].wait() == 130
    late = nursery().start(conf, "A")
    assert late.wait() == 1 and roles["coordinator"].wait() == 1
    assert "holder B was interrupted" in late.said()


def test_a_role_whose_hello_nobody_hears_any_more_takes_the_stop_for_its_answer(tmp_path):
    conf = made(tmp_path / "it", small_rows())
    # it says its last word, and listens no longer
    elsewhere = conf.addresses | loopback("coordinator")
    with opened(
        "coordinator", elsewhere, run=conf.run, certificates=conf.network.certificates
    ) as coordinator:
        A = nursery().start(conf, "A")
        coordinator.call(
            "A", "order", {"kind": "stop", "sentence": "holder B has another config"}, timeout=FAR
        )
        assert A.wait() == 1 and "ppkit: holder B has another config\n" in A.said()


WHOLE = {
    "hello": {"config": "c" * 64, "columns": 3, "resume": False, "saved": []},
    "alive": {"step": 1},
    "ready": {"step": 1},
    "saved": {"step": 1},
    "stopped": {"why": "disk", "role": None},
}


@pytest.mark.parametrize(
    ("said", "why"),
    [
        ({"kind": "loss", "value": 1}, "kind must be one of hello"),
        ({}, "kind must be one of"),
        ({"kind": ["x"]}, "kind must be one of hello"),
        ({"kind": "alive", "loss": 1}, "alive must have step and session alone"),
        ({"kind": "ready", "step": 0.25}, "ready has something for step"),
        ({"kind": "ready", "step": True}, "ready has something for step"),
        ({"kind": "ready", "step": [0.25]}, "ready has something for step"),
        ({"kind": "saved", "session": "theta is 0.123"}, "saved has something for session"),
        ({"kind": "hello", "columns": {"mean": 1}}, "hello has something for columns"),
        ({"kind": "hello", "saved": [1, 0.5]}, "hello has something for saved"),
        ({"kind": "stopped", "why": "theta[0] is 0.123"}, "stopped has something for why"),
        ({"kind": "stopped", "role": "0.123"}, "stopped has something for role"),
        ({"kind": "stopped", "why": ["x"]}, "stopped has something for why"),
        ({"kind": "stopped", "role": ["A"]}, "stopped has something for role"),
        ({"kind": "alive", "step": 7}, "alive has something for step"),
        ({"kind": "alive", "step": -1}, "alive has something for step"),
        ({"kind": "saved", "step": 10**400}, "saved has something for step"),
        ({"kind": "hello", "saved": [7]}, "hello has something for saved"),
        ({"kind": "hello", "saved": [1] * 8}, "hello has something for saved"),
        ({"kind": "hello", "columns": 0}, "hello has something for columns"),
        ({"kind": "hello", "columns": 10**7}, "hello has something for columns"),
    ],
)
def test_the_coordinator_refuses_to_be_told_more(said, why):
    whole = WHOLE.get(str(said.get("kind")), {}) | {"session": "a" * 16}
    roles = ["coordinator", "server", "A", "B"]
    with pytest.raises(ValueError, match=re.escape(why)) as refused:
        checked(whole | said, roles, steps=6)
    assert "0.1" not in str(refused.value)
    for kind, keys in WHOLE.items():
        good = {"kind": kind, "session": "a" * 16, **keys}
        assert checked(good, roles, steps=6) == good
        for key in keys:
            with pytest.raises(ValueError, match=f"{kind} must have .*{key}"):
                checked({k: v for k, v in good.items() if k != key}, roles, steps=6)


def test_a_role_goes_on_from_no_step_that_it_did_not_say(tmp_path):
    """Or a coordinator could let masks repeat: a resumed role that starts again at 0."""
    for saved, start, others in ((None, None, (0, 4)), ([0, 2, 4], 2, (None, 6, "2", [2]))):
        plan = {"kind": "plan", "columns": [3, 2], "start": start}
        assert plan_of(plan, "B", saved=saved) == Plan((3, 2), start)
        for other in others:
            with pytest.raises(OddPlan, match="the plan goes on from step .*, and holder B "):
                plan_of({**plan, "start": other}, "B", saved=saved)


def test_the_coordinator_starts_without_torch():
    code = (
        "import sys, spnn_system.roles.coordinator; sys.exit(bool({'torch', 'numpy', 'pandas'} & "
        "set(sys.modules)))"
    )
    assert subprocess.run([sys.executable, "-c", code]).returncode == 0


class Written:
    """An endpoint that only writes down what the coordinator says."""

    def __init__(self):
        self.said = []

    def call(self, role, method, said, *, timeout=None):
        self.said.append((role, said))
        return {}


def test_a_process_of_before_a_resumption_is_told_to_stop_and_not_listened_to(tmp_path):
    conf = made(tmp_path / "it", small_rows())
    coordinator = Coordinator(conf, Written())
    hello = {
        "kind": "hello",
        "config": conf.digest,
        "columns": 3,
        "resume": False,
        "saved": [],
        "session": "a" * 16,
    }
    assert coordinator.roster.hear("A", hello) == {}
    assert coordinator.roster.hear("A", {"kind": "alive", "step": 2, "session": "a" * 16}) == {
        "saved": None
    }
    for said in (
        {"kind": "alive", "step": 6},
        {"kind": "saved", "step": 6},
        {"kind": "stopped", "why": "error", "role": None},
    ):
        assert (
            "started anew without this process"
            in coordinator.roster.hear("A", {**said, "session": "b" * 16})["stop"]
        )
    assert coordinator.roster.step == 2 and len(coordinator.roster._reports) == 1


def test_a_hello_is_taken_once(tmp_path):
    conf = made(tmp_path / "it", small_rows())
    coordinator = Coordinator(conf, Written())
    hello = {
        "kind": "hello",
        "config": conf.digest,
        "columns": 3,
        "resume": False,
        "saved": [],
        "session": "a" * 16,
    }
    refused = [
        ("A", {"kind": "alive", "step": 0, "session": "a" * 16}, "holder A must say hello first"),
        None,
        ("A", {**hello, "session": "b" * 16}, "holder A has said hello already"),
        ("A", hello, "holder A has said hello already"),
    ]
    for each in refused:
        if each is None:
            assert coordinator.roster.hear("A", hello) == {}
            continue
        with pytest.raises(ValueError, match=each[2]):
            coordinator.roster.hear(*each[:2])
    assert len(coordinator.roster._reports) == 1
    stopped = {"kind": "stopped", "why": "changed", "role": None, "session": "c" * 16}
    # a role may give up before its hello
    assert coordinator.roster.hear("B", stopped) == {} and len(coordinator.roster._reports) == 2
    assert "stop" in coordinator.roster.hear("A", stopped) and len(coordinator.roster._reports) == 2
    assert (
        coordinator.roster.hear("A", {"kind": "alive", "step": 2, "session": "a" * 16})
        == {"saved": None}
        and coordinator.roster.step == 2
    )


def test_the_step_that_a_run_stops_at_is_not_before_the_one_it_goes_on_from(tmp_path):
    coordinator = Coordinator(made(tmp_path / "it", small_rows()), Written())
    for role in ("server", "A", "B"):
        coordinator._take(role, {"kind": "saved", "step": 2})
    assert (coordinator.roster.step, coordinator.roster.resumable) == (2, 2)


def test_a_role_takes_only_the_messages_of_its_protocol(tmp_path):
    """A holder that sends the server what it may not is refused; the server, which has not even
    begun, stays as it was.
    """
    conf = made(tmp_path / "it", small_rows())
    assert admission(conf, "server") == {
        "A": {"masked X theta", "dL/dh_L", "test rows"},
        "B": {"masked X theta"},
    }
    assert admission(conf, "A") == {"server": {"h_L", "dL/dh1"}, "B": {"rows and ids"}}
    assert admission(conf, "B") == {"server": {"dL/dh1"}, "A": {"seed", "rows and ids", "order"}}
    server = nursery().start(conf, "server")
    with opened(
        "B", conf.addresses, run=conf.run, certificates=conf.network.certificates, timeout=FAR
    ) as intruder:
        intruder.send("server", "dL/dh_L", torch.zeros(3), step=0)
        with pytest.raises(Rejected, match="B may not send 'dL/dh_L' to server"):
            intruder.flush()
        with pytest.raises(Rejected, match="only the coordinator gives orders here"):
            intruder.call("server", "order", {"kind": "go"})
    assert server.code() is None
    server.signal(signal.SIGKILL)
    assert server.wait() == -signal.SIGKILL


def party_with(conf, role, endpoint):
    party = Party(conf, role, resume=False)
    party.control.endpoint = endpoint
    return party


class Received:
    """An endpoint to which one thing came."""

    def __init__(self, payload):
        self.payload = payload

    def receive(self, sender, name, **_):
        return self.payload


@pytest.mark.parametrize(
    ("payload", "says"),
    [
        (torch.zeros(3, 1), r"must have shape \(3, 2\), got \(3, 1\)"),
        (torch.zeros(3, 2).double(), "must be torch.float32, got torch.float64"),
        (torch.full((3, 2), torch.nan), "must be finite$"),
        (torch.full((3, 2), -torch.inf), "must be finite$"),
        (b"abc", "must be a tensor, got bytes"),
        ({"a": 1}, "must be a tensor, got dict"),
    ],
)
def test_what_a_step_waits_for_is_checked_and_its_sender_named(tmp_path, payload, says):
    part = party_with(made(tmp_path / "it", small_rows()), "B", Received(payload))
    with pytest.raises(Malformed, match=f"^'dL/dh1' of the server {says}") as refused:
        part.receive_tensor("server", "dL/dh1", (3, 2))
    assert refused.value.role == "server"
    part.control.endpoint = Received(torch.ones(3, 2))
    assert torch.equal(part.receive_tensor("server", "dL/dh1", (3, 2)), torch.ones(3, 2))


@pytest.mark.parametrize(
    "payload", [{}, {"n": 0.5}, {"n": -1}, {"n": True}, {"rows": 3}, b"3", torch.ones(1)]
)
def test_a_number_of_rows_is_a_whole_number(tmp_path, payload):
    part = party_with(made(tmp_path / "it", small_rows()), "server", Received(payload))
    with pytest.raises(Malformed, match="'test rows' of A must have n, a whole number"):
        part.receive_count("A", "test rows", "n")


ROGUE = """
from spnn_system.roles.party import Party
send = Party.send
def spoiled(self, receiver, name, payload, **how):
    if name == "dL/dh1" and self.progress.step == 3:
        payload = payload[:, :1].contiguous()
    return send(self, receiver, name, payload, **how)
Party.send = spoiled
"""


def test_a_role_that_sends_another_shape_ends_the_run_and_is_the_one_that_is_named(tmp_path):
    conf = made(tmp_path / "it", small_rows())
    roles = started(conf, first={"server": ROGUE})
    assert {name: role.wait() for name, role in roles.items()} == dict.fromkeys(roles, 1)
    sentence = (
        r"holder [AB] got something malformed from the server \(more in .*log.txt\): "
        "the run stops at step [23]"
    )
    assert all(re.search(sentence, said) for said in (role.said() for role in roles.values()))
    assert (
        "'dL/dh1' of the server must have shape (30, 4), got (30, 1)"
        in roles["A"].said() + roles["B"].said()
    )


def test_run_by_the_launcher(tmp_path):
    vertical = small_rows()
    conf, steps = made(tmp_path / "it", vertical), []
    result = launch(conf.path, progress=lambda step, of: steps.append((step, of)))
    assert (result.code, result.sentence) == (0, "")
    same(conf, alone(conf, vertical))
    assert "secrets   from a seed, for teaching: NOT SECRET" in result.summary()
    assert all(
        stat.S_IMODE((conf.folder_of(role) / "log.txt").stat().st_mode) == 0o600
        for role in conf.roles
    )
    assert steps[-1] == (6, 6) and result.metrics == metrics_of(conf)
    assert set(result.messages.sender) == {"server", "A", "B"}
