"""Where in a paper's text a claim rests: fingerprints of sentences, which say nothing of the text
and still find it."""

import hashlib
import re
import unicodedata


def words(text: str) -> list[str]:
    """The words of a text: letters and digits only, lower case; a word that a line end divides by a
    hyphen is one.

    >>> words("The noise-free  bound\\nis repro-\\nduced.")
    ['the', 'noise', 'free', 'bound', 'is', 'reproduced']
    """
    joined = re.sub(r"(\w)-\s*\n\s*(\w)", r"\1\2", unicodedata.normalize("NFKC", text))
    return re.findall(r"[^\W_]+", joined.lower())


def fingerprint(sentence: str) -> str:
    """The number of words of a sentence, a colon, and the SHA-256 of its words with single blanks
    between them.

    ValueError if it has no words.
    """
    found = words(sentence)
    if not found:
        raise ValueError(f"a sentence has words, got {sentence!r}")
    return f"{len(found)}:{_digest(found)}"


def found_in(text: str, fingerprints: list[str]) -> dict[str, str | None]:
    """For each fingerprint the words in a text that have it, None where no words do.

    ValueError if a fingerprint is none.
    """
    there = words(text)
    lengths: dict[int, set[str]] = {}
    for one in fingerprints:
        number, _, digest = one.partition(":")
        if not number.isdigit() or not re.fullmatch(r"[0-9a-f]{64}", digest):
            raise ValueError(f"{one!r} is no fingerprint: it has words, a colon, 64 hex digits")
        lengths.setdefault(int(number), set()).add(one)
    found: dict[str, str | None] = dict.fromkeys(fingerprints)
    for length, wanted in lengths.items():
        for start in range(len(there) - length + 1):
            run = there[start : start + length]
            key = f"{length}:{_digest(run)}"
            if key in wanted and found[key] is None:
                found[key] = " ".join(run)
    return found


def _digest(run: list[str]) -> str:
    return hashlib.sha256(" ".join(run).encode()).hexdigest()
