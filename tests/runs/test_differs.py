"""Why a run's verdict on a row is another one than the reference's."""

from dataclasses import replace

import pytest

from ppkit.runs import differs
from ppkit.verdicts import rules
from ppkit.verdicts.rows import Row

HERE = Row(
    id="p.a",
    kind="claim",
    paper="p",
    place="IV",
    says="It is.",
    verdict=rules.UNDECIDED,
    data="stand-in: 9 rows",
    profile="quick",
)


@pytest.mark.parametrize(
    "kept, about, why",
    [
        ({}, {}, "profile, data and parameters are the same, the code is not (commit b here)"),
        ({"commit": "b"}, {}, "profile, data and parameters are the same, so it is this machine's"),
        ({"profile": "paper"}, {}, "other profile (quick here, paper there)"),
        ({"data": "real: 9 rows"}, {}, "other data (stand-in: 9 rows here, real: 9 rows there)"),
        ({"data": None}, {}, "no run of the reference decided this row"),
        ({}, {"changed": ["A"], "parameters": {"A": 1}}, "changed parameters (A = 1)"),
        (
            {"verdict": "depends on the data", "depends_on": ["the data"]},
            {},
            "the reference compares it with real rows too",
        ),
        (
            {"verdict": "depends on box", "depends_on": ["box"]},
            {},
            "other settings are not weighed here",
        ),
    ],
)
def test_why_a_verdict_differs_from_the_references(kept, about, why):
    reference = replace(HERE, **({"verdict": rules.REPRODUCED, "commit": "a"} | kept))
    told = differs.told(HERE, reference, about, "b")
    assert f"): undecided. Why: {why}" in told
