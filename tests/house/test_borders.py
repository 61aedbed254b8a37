"""What `lint-imports` cannot say: a room with a border is small at its door, and CONTRIBUTING's
table of rooms is the contract.

What may import what stands in pyproject.toml's contracts.
"""

import importlib
import re
import tomllib

import pytest
from house import ROOT


def test_the_table_of_rooms_has_the_contracts_floors_from_the_ground_up():
    contracts = tomllib.loads((ROOT / "pyproject.toml").read_text("utf-8"))["tool"]["importlinter"]
    [layers] = [
        one["layers"] for one in contracts["contracts"] if one.get("containers") == ["ppkit"]
    ]
    floors = [set(re.findall(r"\w+", layer)) for layer in reversed(layers)]
    page = (ROOT / "CONTRIBUTING.md").read_text("utf-8")
    table = page.partition("| room | what belongs there |\n|---|---|\n")[2].partition("\n\n")[0]
    rows = [re.findall(r"`(\w+)/?`", line.split("|")[1]) for line in table.splitlines()]
    assert [set(row) for row in rows[: len(floors)]] == floors
    for name in (name for row in rows[: len(floors)] for name in row):
        is_package = f"`{name}/`" in table
        assert (ROOT / "ppkit" / name).is_dir() == is_package, name


@pytest.mark.parametrize("room", ["runs", "verdicts"])
def test_a_room_with_a_border_has_seven_public_names_at_most(room):
    module = importlib.import_module(f"ppkit.{room}")
    assert 1 <= len(module.__all__) <= 7
    for name in module.__all__:
        thing = getattr(module, name)
        assert name.isupper() or (thing.__doc__ or "").strip(), name
