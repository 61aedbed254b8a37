"""Claims of a made-up paper."""

import json

import pytest

from ppkit.verdicts import statements


@pytest.fixture
def claims_of(tmp_path, monkeypatch):
    """The claims of a paper that has the one row a.b with the given fields, beside files that are
    no papers."""

    def claims_of(**table):
        lines = [
            f"{key} = {_toml(value)}"
            for key, value in {"place": "Fig. 1", "says": "It is.", **table}.items()
        ]
        (tmp_path / "made2026.toml").write_text("\n".join(["[a.b]", *lines]))
        for other in ("findings.toml", "made2026.choices.toml"):
            (tmp_path / other).write_text("")
        monkeypatch.setattr(statements, "folder", lambda: tmp_path)
        assert statements.papers() == ["made2026"]
        return statements.claims("made2026")

    return claims_of


def _toml(value) -> str:
    """A text, a number, a list or a dict as TOML, on one line."""
    if isinstance(value, dict):
        return f"{{ {', '.join(f'{json.dumps(key)} = {_toml(of)}' for key, of in value.items())} }}"
    return json.dumps(value)
