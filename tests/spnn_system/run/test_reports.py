"""What the coordinator lets be said."""

import re

import pytest

from spnn_system.run.reports import checked

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
