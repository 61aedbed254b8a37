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
    return _of_words(found)


def found_in(text: str, fingerprints: list[str]) -> dict[str, str | None]:
    """For each fingerprint the words in a text that have it, None where no words do.

    ValueError if a fingerprint is none.
    """
    for one in fingerprints:
        if not re.fullmatch(r"\d+:[0-9a-f]{64}", one):
            raise ValueError(f"{one!r} is no fingerprint: it has words, a colon, 64 hex digits")
    there = words(text)
    found: dict[str, str | None] = dict.fromkeys(fingerprints)
    for length in {int(one.partition(":")[0]) for one in fingerprints}:
        for start in range(len(there) - length, -1, -1):  # so that the first one stays
            run = there[start : start + length]
            if _of_words(run) in found:
                found[_of_words(run)] = " ".join(run)
    return found


def _of_words(run: list[str]) -> str:
    return f"{len(run)}:{hashlib.sha256(' '.join(run).encode()).hexdigest()}"
