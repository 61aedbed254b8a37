"""Which plan a role takes."""

import pytest

from spnn_system.run.plan import OddPlan, Plan, plan_of


def test_a_role_goes_on_from_no_step_that_it_did_not_say(tmp_path):
    """Or a coordinator could let masks repeat: a resumed role that starts again at 0."""
    for saved, start, others in ((None, None, (0, 4)), ([0, 2, 4], 2, (None, 6, "2", [2]))):
        plan = {"kind": "plan", "columns": [3, 2], "start": start}
        assert plan_of(plan, "B", saved=saved) == Plan((3, 2), start)
        for other in others:
            with pytest.raises(OddPlan, match="the plan goes on from step .*, and holder B "):
                plan_of({**plan, "start": other}, "B", saved=saved)
