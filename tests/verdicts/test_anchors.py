"""Fingerprints of sentences: they find a sentence however its lines were broken, and nothing
else."""

import hashlib

import pytest

from ppkit.verdicts import anchors

SENTENCE = "The noise-free bound is reproduced."
WORDS = ["the", "noise", "free", "bound", "is", "reproduced"]


@pytest.mark.parametrize(
    "text",
    [
        SENTENCE,
        "THE NOISE FREE BOUND IS REPRODUCED",
        "  The noise-free\n\tbound is: reproduced",
        "The noise-free bound is repro-\nduced.",
        "The noise-free bound is repro-  \n   duced.",
        "The noise\N{EN DASH}free bound is reproduced",
        "The noise_free \N{LEFT DOUBLE QUOTATION MARK}bound' is reproduced",
    ],
)
def test_words_are_letters_and_digits_whatever_stands_between_them(text):
    assert anchors.words(text) == WORDS


def test_a_ligature_is_its_letters_and_digits_are_words():
    assert anchors.words("A \N{LATIN SMALL LIGATURE FI}nding: .96 of 284,807") == [
        "a",
        "finding",
        "96",
        "of",
        "284",
        "807",
    ]


def test_a_hyphen_joins_at_the_end_of_a_line_only():
    assert anchors.words("noise-\nfree") == ["noisefree"]
    assert anchors.words("noise- free") == anchors.words("noise -\n free") == ["noise", "free"]


def test_a_fingerprint_is_the_number_of_words_and_their_sha256():
    digest = hashlib.sha256(b"the noise free bound is reproduced").hexdigest()
    assert anchors.fingerprint(SENTENCE) == f"6:{digest}"
    assert anchors.fingerprint(SENTENCE) == anchors.fingerprint(SENTENCE.upper().replace(" ", "\n"))
    assert anchors.fingerprint(SENTENCE) != anchors.fingerprint(SENTENCE.replace("is", "is not"))


@pytest.mark.parametrize("nothing", ["", " \n", "(--)"])
def test_a_sentence_without_words_has_no_fingerprint(nothing):
    with pytest.raises(ValueError, match="a sentence has words, got "):
        anchors.fingerprint(nothing)


def test_a_sentence_is_found_in_a_text_and_another_is_not():
    text = f"Before it. {SENTENCE.replace('bound', 'bound,' + chr(10))} After it."
    last, first = anchors.fingerprint("After it"), anchors.fingerprint("Before it.")
    there, other = anchors.fingerprint(SENTENCE), anchors.fingerprint("The noisy bound is not.")
    found = anchors.found_in(text, [there, other, first, last])
    assert found == {there: " ".join(WORDS), other: None, first: "before it", last: "after it"}
    assert anchors.found_in("", [there]) == {there: None}
    assert anchors.found_in(text, []) == {}


def test_the_words_of_another_number_are_not_the_sentence():
    """The digest alone does not find it: the number of words is a part of the fingerprint."""
    digest = anchors.fingerprint(SENTENCE).partition(":")[2]
    assert anchors.found_in(SENTENCE, [f"5:{digest}"]) == {f"5:{digest}": None}


@pytest.mark.parametrize(
    "one", ["", "6", f"six:{'a' * 64}", f"6:{'a' * 63}", f"6:{'g' * 64}", f":{'a' * 64}"]
)
def test_what_is_no_fingerprint_is_refused(one):
    with pytest.raises(ValueError, match="is no fingerprint: it has words, a colon, 64 hex digits"):
        anchors.found_in(SENTENCE, [one])
