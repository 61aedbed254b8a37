"""Where a run's verdict on a row differs from the reference's, and why: from run.json, the run's
claims and figures/claims.json."""

from typing import Any

from ppkit.verdicts import ledger, rules, wording
from ppkit.verdicts.rows import Row


def told(row: Row, kept: Row, about: dict[str, Any], commit: str) -> str:
    """Both verdicts and the reasons, in a sentence; "" if the run did not decide the row, or if
    both verdicts are the same.

    row: of the run, as `rows.beside_reference`.  kept: the same row of the reference.
    about: the run's notebook that decided the row, as in run.json.  commit: of the run.
    """
    if row.data is None or rules.plain(row.verdict) == rules.plain(kept.verdict):
        return ""
    return (
        f"The reference ({_ran_on(kept)}): {wording.verdict(kept)}; "
        f"here ({_ran_on(row)}): {wording.verdict(row)}. "
        f"Why: {'; '.join(_reasons(row, kept, about, commit))}."
    )


def _ran_on(row: Row) -> str:
    if row.data is None:
        return "not run"
    if row.data == ledger.FORMULA.source:
        return "formula"
    return f"{row.profile} profile, {wording.kind(row.data)}"


def _reasons(row: Row, kept: Row, about: dict[str, Any], commit: str) -> list[str]:
    if kept.data is None:
        return ["no run of the reference decided this row"]
    reasons = []
    is_formula = row.data == kept.data == ledger.FORMULA.source
    if row.profile != kept.profile and not is_formula:
        reasons.append(f"other profile ({row.profile} here, {kept.profile} there)")
    if row.data != kept.data:
        reasons.append(f"other data ({row.data} here, {kept.data} there)")
    if changed := about.get("changed"):
        values = ", ".join(f"{name} = {about['parameters'][name]}" for name in changed)
        reasons.append(f"changed parameters ({values})")
    if kept.depends_on == [ledger.OTHER_DATA]:
        reasons.append("the reference compares it with real rows too")
    elif rules.plain(kept.verdict) == rules.DEPENDS and row.robustness is None:
        reasons.append("other settings are not weighed here")
    if reasons:
        return reasons
    same = "profile, data and parameters are the same"
    if commit != kept.commit:
        return [f"{same}, the code is not (commit {commit or 'unknown'} here)"]
    return [f"{same}, so it is this machine's arithmetic"]
