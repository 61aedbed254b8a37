"""Every role in a process of its own: the result of one process to the bit, and who holds and hears
what.
"""

import functools
import json
import re
import signal
import stat

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
from ppkit.spnn.randomness import Stream
from ppkit.spnn.training import SGLD
from spnn_system import data
from spnn_system.launch import run as launch
from spnn_system.run.reports import HEARD
from spnn_system.transport import frames

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


def test_secrets_of_a_seed_are_said_by_every_role_and_with_the_result(done):
    conf, _, _, roles = done
    assert all(
        "ppkit: secrets: from a seed, for teaching: NOT SECRET\n" in role.said()
        for role in roles.values()
    )
    assert metrics_of(conf)["secrets"] == "from a seed, for teaching: NOT SECRET"


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
