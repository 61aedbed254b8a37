"""What a role takes and sends, and with what it does not go on."""

import pytest
import torch
from network_runs import made, small_rows

from ppkit.spnn.messages import Malformed
from spnn_system import config
from spnn_system.roles import coordinator as coordinators
from spnn_system.roles.party import BAD_INPUT, Party, failure_of
from spnn_system.run.checkpoints import Changed
from spnn_system.run.journal import SentBefore


def test_nothing_leaves_before_the_journal_has_it(tmp_path):
    class Taken:
        def __init__(self):
            self.payloads = []

        def send(self, receiver, name, payload, **_):
            self.payloads.append(payload)

    def opened(resume):
        one = Party(conf, "A", resume=resume)
        one.progress.step = 1
        if resume:
            one.journal.recall(0)
        one.journal.begin()
        one.control.endpoint = Taken()
        return one

    conf = made(tmp_path / "it", small_rows())
    first = opened(False)
    first.send("server", "masked X theta", b"one")
    first.journal.close()
    first.folder.close()
    again = opened(True)
    with pytest.raises(SentBefore):
        again.send("server", "masked X theta", b"two")
    again.journal.close()
    assert [one.control.endpoint.payloads for one in (first, again)] == [[b"one"], []]


@pytest.mark.parametrize("what", ["config", "data"])
def test_a_role_whose_config_or_data_changed_does_not_go_on(tmp_path, what):
    conf = made(tmp_path / "it", small_rows())
    before = Party(conf, "B", resume=False, data_digest="one")
    before.checkpoints.save(0, {}, {})
    before.folder.close()
    if what == "config":
        conf.path.write_text(conf.path.read_text().replace("lr = 1.5", "lr = 1.25"))
    digest = "two" if what == "data" else "one"
    after = Party(config.load(conf.path), "B", resume=True, data_digest=digest)
    with pytest.raises(
        Changed, match=f"the {what} changed since the checkpoint of step 0"
    ) as changed:
        after.checkpoints.usable()
    failure = failure_of(changed.value, after.folder.path)
    assert (failure.code, failure.why, failure.role) == (BAD_INPUT, "changed", None)


def test_where_nothing_is_nothing_goes_on(tmp_path):
    conf = made(tmp_path / "it", small_rows())
    for role in conf.roles:
        with pytest.raises(ValueError, match="there is nothing to go on from"):
            if role == "coordinator":
                coordinators.main(conf, resume=True)
            else:
                Party(conf, role, resume=True)


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
