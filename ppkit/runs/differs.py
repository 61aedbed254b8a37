"""Where a run's verdict on a row differs from the reference's, and why: from run.json, the run's
claims and figures/claims.json."""

from ppkit.verdicts import ledger, rules, wording
from ppkit.verdicts.rows import Row


def told(row: Row, kept: Row, about: dict, commit: str) -> dict | None:
    """Both verdicts and the reasons, as texts: `reference`, `here`, `why`.

    row: of the run, as `rows.beside_reference`.  kept: the same row of the reference.
    about: the run's notebook that decided the row, as in run.json.  commit: of the run.
    Returns None if the run did not decide the row, or if both verdicts are the same.
    """
    if row.data is None or rules.plain(row.verdict) == rules.plain(kept.verdict):
        return None
    return {
        "reference": f"The reference ({_ran_on(kept)}): {wording.verdict(kept)}",
        "here": f"here ({_ran_on(row)}): {wording.verdict(row)}",
        "why": "; ".join(_reasons(row, kept, about, commit)),
    }


def _ran_on(row: Row) -> str:
    if row.data is None:
        return "not run"
    if row.data == ledger.FORMULA.source:
        return "formula"
    return f"{row.profile} profile, {wording.kind(row.data)}"


def _reasons(row: Row, kept: Row, about: dict, commit: str) -> list[str]:
    if kept.data is None:
        return ["no run of the reference decided this row"]
    reasons = [*_other_sizes(row, kept), *_changed(about)]
    if kept.depends_on == [ledger.OTHER_DATA]:
        reasons.append("the reference compares it with real rows too")
    elif rules.plain(kept.verdict) == rules.DEPENDS and row.robustness is None:
        reasons.append("other settings are not weighed here")
    return reasons or _same_sizes(kept, commit)


def _other_sizes(row: Row, kept: Row) -> list[str]:
    reasons = []
    formula = {row.data, kept.data} == {ledger.FORMULA.source}
    if row.profile != kept.profile and not formula:
        reasons.append(f"other profile ({row.profile} here, {kept.profile} there)")
    if row.data != kept.data:
        reasons.append(f"other data ({row.data} here, {kept.data} there)")
    return reasons


def _changed(about: dict) -> list[str]:
    """The parameters that the run changed, the seeds apart from the others."""
    names = about.get("changed", [])
    values = about.get("parameters", {})
    seeds = [name for name in names if name.startswith("SEED")]
    others = [name for name in names if name not in seeds]
    reasons = []
    if others:
        reasons.append(f"changed parameters ({_assigned(others, values)})")
    if seeds:
        reasons.append(f"other seeds ({_assigned(seeds, values)})")
    return reasons


def _assigned(names: list[str], values: dict) -> str:
    return ", ".join(f"{name} = {values.get(name)}" for name in names)


def _same_sizes(kept: Row, commit: str) -> list[str]:
    same = "profile, data and parameters are the same"
    if commit != kept.commit:
        return [f"{same}, the code is not (commit {commit or 'unknown'} here)"]
    return [f"{same}, so it is this machine's arithmetic"]
