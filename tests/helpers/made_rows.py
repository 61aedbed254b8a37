"""A made-up paper: what its one claim says, and a row of it."""

from ppkit.verdicts.rows import Robustness, Row, Turn

MEASURED = {"measure": "AUC", "decided_by": "quick"}
AT_LEAST = {**MEASURED, "rule.at_least": 0.5, "because": "as said"}
TURN = Turn(choice="first_step", at="2.0", verdict="reproduced", value=0.25)
TRIED = Robustness(
    main="reproduced",
    main_value=0.5,
    singles=[3, 4],
    combinations=[4, 5],
    least=0.125,
    largest=0.5,
    turns=[TURN],
    owned_by={"clip": 0.125, "first_step": 0.5},
)
MADE = Row(
    id="made2026.a",
    kind="claim",
    paper="made2026",
    place="Fig. 1",
    says="It is.",
    verdict="reproduced",
    alone="reproduced",
    data="simulated: 9 rows",
    standing="rerunnable",
    profile="paper",
)
