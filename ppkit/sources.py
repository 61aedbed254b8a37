"""The words for where rows come from: which ones somebody asks for, and what the rows then are."""

import os
from typing import Literal, get_args

from ppkit.validation import one_of

Asked = Literal["auto", "real", "standin"]  # SOURCE of a notebook, and of `datasets.load`
Kind = Literal["real", "stand-in", "simulated"]  # of the rows of a Dataset
SOURCES: tuple[Asked, ...] = get_args(Asked)
DATA: dict[str, Asked] = {"available": "auto", "real": "real", "standin": "standin"}  # of a run
FORMULA = "formula"  # the data of a claim that needs none


def decided(source: str) -> Asked:
    """Which rows are taken: "auto" is what $PPKIT_SOURCE says, where it is set.

    ValueError if one of the two is none of SOURCES.
    """
    wish = os.environ.get("PPKIT_SOURCE") or "auto"
    one_of(SOURCES, source=source, PPKIT_SOURCE=wish)
    return SOURCES[SOURCES.index(wish if source == "auto" else source)]
