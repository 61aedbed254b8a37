"""What `lint-imports` cannot say: a room with a border is small at its door.

What may import what stands in pyproject.toml's contracts.
"""

import importlib

import pytest


@pytest.mark.parametrize("room", ["runs", "verdicts"])
def test_a_room_with_a_border_has_seven_public_names_at_most(room):
    module = importlib.import_module(f"ppkit.{room}")
    assert 1 <= len(module.__all__) <= 7
    for name in module.__all__:
        thing = getattr(module, name)
        assert name.isupper() or (thing.__doc__ or "").strip(), name
