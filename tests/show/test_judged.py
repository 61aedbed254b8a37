"""Each judge cell of the lessons: what it calls right for outcomes that its parameters can bring,
and that no reason contradicts one."""

import json
import re

import numpy as np
import pytest

from ppkit import project, show
from ppkit.show import lesson

FOLDER = project.root() / "notebooks"


def cells_of(path) -> list[str]:
    notebook = json.loads(path.read_text("utf-8"))
    return ["".join(one["source"]) for one in notebook["cells"] if one["cell_type"] == "code"]


def pairs() -> dict[tuple[str, str], tuple[str, str]]:
    """The cell that asks and the cell that judges, by lesson and question."""
    found = {}
    for path in sorted(FOLDER.glob("*.ipynb")):
        name = path.stem.partition("_")[0]
        asked = None
        for source in cells_of(path):
            if "show.predict(" in source:
                asked = source
            if "show.judge(" in source:
                id = re.search(r'show\.predict\(\s*"(\w+)"', asked)[1]
                found[name, id] = asked, source
    return found


PAIRS = pairs()


def read_out(error: float, fraud: bool) -> dict:
    return dict(error=error, fraud_computed=fraud, label=np.array([1]))


def rebuilt(value: float) -> dict:
    return dict(noisy={1: 0.1, 16: value}, n_epochs=16)


def outlier(points: float, content: float) -> dict:
    return dict(hidden={"clip 1": {"pointed at": points, "comes back": content}})


def worth(plain: float, clip: float, *noise: float) -> dict:
    """By seed; the noise moves them, plain and clip do not."""
    n = len(noise)
    return dict(worth={"plain": [plain] * n, "clip only": [clip] * n, "clip and noise": [*noise]})


def mail(holder: str | None) -> dict:
    columns_at = {role: int(role == holder) for role in ("coordinator", "server", "A", "B")}
    return dict(found={"columns of A": columns_at, "h_L, first batch": {"A": 3_999, "B": 0}})


def attacker(right: float, answers: int) -> dict:
    return dict(T=answers, right={f"{answers} answers, noise for {answers}": right})


def ranking(area: float) -> dict:
    """Scores of 04a's cards, and a measure that gives them this AUC."""
    view = (0.1, np.zeros(2), np.array([True, False]))
    return dict(views={"rows in random order": view}, auc=lambda is_fraud, score: area)


def beaten(by: float) -> dict:
    """Test AUC of Fig. 3's two ends, over two seeds."""
    plain = np.array([0.9, 0.92])
    return dict(ends3={"plain": plain, "10": plain + by})


def carried_over(fall: float) -> dict:
    """The attack AUC that SGLD takes from the attacker with a shadow (.2) and from the other."""
    values = {("SGD", 0): 0.7, ("SGLD", 0): 0.5}
    adaptive = {("SGD", 0): 0.7, ("SGLD", 0): 0.7 - fall}
    return dict(seeds=[0], carried=values, by_network=adaptive)


def first_layer(ciphertexts: float) -> dict:
    """Million bytes, where a dealer's triples make 100 of shares and A's and B's own make 500."""
    ways = ("shares, and triples from a dealer", "shares, and triples by transfer")
    return dict(zip(ways, (100.0, 500.0))) | {"ciphertexts, one number each": ciphertexts}


FIRST_LAYERS = [(50.0, "c"), (200.0, "b"), (900.0, "a")]


def joined(times: float) -> dict:
    """psi of bank 1 with two small, cautious others, in units of bank 1 alone."""
    four = {("lending", "small", "cautious"): np.array([[9.0], [times]])}
    return dict(four=four, alone=lambda name, n_other: np.array([1.0]), SMALL=1_000)


def pushed_row(shown: int) -> dict:
    words = dict(a=7, b=11, e=63, f=232)
    return words | dict(total=7 * 11 + shown * 63 * 232)


# Lesson and question: outcomes, and the letter that each makes right.
OUTCOMES = {
    ("00", "one_gradient"): [
        (read_out(np.nan, False), "a"),
        (read_out(0.5, True), "b"),
        (read_out(1e-13, True), "c"),
    ],
    ("5", "signs"): [
        (dict(named_bare=share), letter) for share, letter in ((0.1, "a"), (0.5, "b"), (1.0, "c"))
    ],
    ("5", "h1"): [
        (dict(explained=r2), letter) for r2, letter in ((0.1, "a"), (0.5, "b"), (0.99, "c"))
    ],
    ("01a", "top"): [
        (dict(hits={0.1: n}), letter) for n, letter in zip((144, 480, 900, 1_400), "abcd")
    ],
    ("01a", "ten"): [
        (dict(ten_answers=ratio), letter) for ratio, letter in zip((1.105, 2.718, 11.05), "abc")
    ],
    ("01a", "replaced"): [
        (dict(removed=1.0, replaced=ratio), letter) for ratio, letter in zip((1.0, 1.1, 2.0), "abc")
    ],
    ("01b", "rounds"): [
        (dict(holds={1: 1.0, 200: price}), letter)
        for price, letter in zip((190, 90, 9.8, 1.1), "abcd")
    ],
    ("01b", "smaller"): [(dict(fall=auc), letter) for auc, letter in zip((0.01, 0.07, 0.2), "abc")],
    ("02a", "confirmed"): [
        (dict(at_once=found), letter) for found, letter in zip((0, 1, 9, 16), "abcd")
    ],
    ("02a", "chain"): [
        (dict(at_once=1, in_the_end=found), letter) for found, letter in zip((1, 9, 16), "abc")
    ],
    ("02a", "rounds"): [
        (dict(means={1: 4.0, 8: rows}), letter) for rows, letter in zip((4, 5, 9), "abc")
    ],
    ("02b", "price"): [
        (worth(0.8, 0.6, 0.59, 0.58), "a"),
        (worth(0.83, 0.82, 0.76, 0.75), "b"),
        (worth(0.8, 0.75, 0.74, 0.66), "c"),  # the seeds disagree
        (worth(0.83, 0.8, 0.76, 0.7), "c"),  # they lie further apart than what they say
    ],
    ("02b", "samplers"): [
        (dict(prices={"shuffled": {"attained": price}, "coins": {"holds": 2.2}}), letter)
        for price, letter in zip((1.0, 3.0, 7.8), "abc")
    ],
    ("03a", "share"): [(dict(largest=1), "a"), (dict(largest=0), "c")],
    ("03a", "sign"): [(pushed_row(times), letter) for times, letter in enumerate("abc")],
    ("03a", "lean"): [
        (dict(lean={"both down": mean}), letter) for mean, letter in zip((0, -0.5, -0.875), "abc")
    ],
    ("03b", "looks"): [
        (dict(by_looks=by_looks), letter)
        for by_looks, letter in (
            ({1: 1.0}, "a"),
            ({1: 0.1, 4: 1.0}, "b"),
            ({1: 0.1, 16: 1.0}, "c"),
            ({1: 0.1, 16: 0.5}, "d"),
        )
    ],
    ("03b", "noise"): [(rebuilt(0.1), "a"), (rebuilt(0.5), "b"), (rebuilt(1.0), "c")],
    ("03c", "messages"): [
        (dict(step=[None] * n), letter) for n, letter in zip((2, 6, 1_000), "abc")
    ],
    ("03c", "words"): [(dict(heights=np.array([1.0, 9.0])), "a"), (dict(heights=np.ones(9)), "b")],
    ("03c", "mail"): [
        (mail(None), "a"),
        (mail("server"), "b"),
        (mail("B"), "c"),
        (mail("coordinator"), "d"),
    ],
    ("03c", "resume"): [(dict(same=False), "a"), (dict(same=True), "b")],
    ("03c", "scores"): [
        (dict(has_scores=set(who)), letter)
        for who, letter in (("ABs", "a"), ("As", "b"), ("A", "c"))
    ],
    ("04a", "attacker"): [
        (attacker(0.519, 100), "a"),
        (attacker(0.6, 10), "b"),
        (attacker(0.7, 10), "c"),
    ],
    ("04a", "ranks"): [(ranking(area), letter) for area, letter in zip((0.5, 0.7, 0.86), "abc")],
    ("04b", "invited"): [(dict(chosen=(0, 1, 3)), "a"), (dict(chosen=(0, 1, 2)), "b")],
    ("04b", "weights"): [
        (dict(weighed=np.array([psi]), alone=np.array([1.0])), letter)
        for psi, letter in zip((0.5, 1.0, 2.0), "abc")
    ],
    ("04b", "learner"): [
        (dict(right=rate), letter) for rate, letter in zip((0.5, 0.8, 1.0), "abc")
    ],
    ("1", "count"): [
        (dict(yours=times * 0.5, your_price=0.5), letter)
        for times, letter in zip((0.8, 2, 5, 40), "abcd")
    ],
    ("1", "beats"): [(beaten(by), letter) for by, letter in zip((0.05, 0.0, -0.2), "abc")],
    ("1", "rounds"): [
        (dict(rounds_allowed={"0.01": {"laplace": rounds}}), letter)
        for rounds, letter in zip((0, 3, 50, 400), "abcd")
    ],
    ("3", "bytes"): [(dict(MEGABYTES=first_layer(size)), letter) for size, letter in FIRST_LAYERS],
    ("3", "gap"): [(dict(gap=gap), letter) for gap, letter in zip((0.01, 0.001, 0.0), "abc")],
    ("3", "adaptive"): [
        (carried_over(fall), letter) for fall, letter in zip((0.25, 0.15, 0.01), "abc")
    ],
    ("3", "labels"): [
        (dict(by_server={"SGD": 1.0, "SGLD": quality}), letter)
        for quality, letter in zip((0.5, 0.9, 1.0), "abc")
    ],
    ("2", "twelve"): [
        (dict(of_twelve=share), letter) for share, letter in zip((0, 1 / 12, 0.5, 1), "abcd")
    ],
    ("2", "clip"): [
        (dict(outlier(points, content), L2_NORM_CLIP=1.0), letter)
        for points, content, letter in (
            (0.1, 0.0, "a"),
            (0.1, 1.0, "b"),
            (0.9, 0.0, "c"),
            (0.9, 1.0, "d"),
        )
    ],
    ("2", "looks"): [
        (dict(all_steps={"the same weights": [0.01, share]}, looks=[1, 60], one_look=0.01), letter)
        for share, letter in zip((0.01, 0.05, 0.9), "abc")
    ],
    ("4", "tenfold"): [
        (dict(PROMISES=[0.1, 1.0, 10.0], fall=by), letter)
        for by, letter in ((12, "a"), (26, "b"), (70, "b"), (95, "c"))
    ],
    ("4", "join"): [(joined(times), letter) for times, letter in zip((1_500, 2.5, 0.4), "abc")],
    ("4", "flagged"): [(dict(flags=rate), letter) for rate, letter in zip((0.9, 0.4, 0.0), "abc")],
}


def judged(question: tuple[str, str], outcome: dict, monkeypatch, capsys):
    """The guess after its judge cell ran with this outcome, and the line that the cell prints."""
    monkeypatch.setattr(lesson, "_show", lambda widget: None)
    asked, judge = PAIRS[question]
    names = {"np": np, "show": show, **outcome}
    exec(asked, names)
    capsys.readouterr()
    exec(judge, names)
    [guess] = [value for value in names.values() if isinstance(value, lesson.Guess)]
    return guess, capsys.readouterr().out


def test_every_judge_cell_is_tried():
    assert set(OUTCOMES) == set(PAIRS)


@pytest.mark.parametrize("question", OUTCOMES, ids="-".join)
def test_a_judge_cell_follows_what_came_out(question, monkeypatch, capsys):
    for outcome, letter in OUTCOMES[question]:
        guess, printed = judged(question, outcome, monkeypatch, capsys)
        right, reasons = guess.outcome
        assert printed == f"{letter}  {guess.options[letter]}: {reasons[letter]}\n"
        assert right == letter and len(set(reasons.values())) == len(guess.options)
        assert not any(reason.endswith(".") for reason in reasons.values())


def test_a_reason_that_names_a_number_names_the_one_that_came_out(monkeypatch, capsys):
    for outcome, number in (
        (attacker(0.519, 100), "100 times the noise; 100 answers win back only a factor of 10"),
        (attacker(0.51, 400), "400 times the noise; 400 answers win back only a factor of 20"),
    ):
        assert number in judged(("04a", "attacker"), outcome, monkeypatch, capsys)[1]
