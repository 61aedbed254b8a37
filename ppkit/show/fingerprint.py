"""What a figure draws, as a short text: a test compares texts, and no pixels."""

import hashlib
import sys

import numpy as np

MIME = "application/vnd.ppkit.fingerprint+json"
OFF_THE_TIES = 1 + 3e-8  # a number that ends in 5 is rounded alike on every machine


def fingerprint(figure) -> str:
    """Twelve hexadecimal digits of everything that a figure draws.

    Of each axes: title, labels, legend, texts, and the numbers of its lines, points, areas, bars
    and images, in the order in which they were drawn, rounded to three significant digits.
    Colours, sizes and limits do not count, nor does the caption.
    """
    said = hashlib.sha256()
    for axes in figure.axes:
        for line in _words(axes):
            said.update(f"{line}\n".encode())
        for numbers in _drawn(axes):
            said.update(f"{' '.join(_rounded(numbers))}\n".encode())
    return said.hexdigest()[:12]


def show(figure) -> None:
    """Put the fingerprint of a figure among a cell's outputs, where nbval compares it and no reader
    sees it; outside a notebook nothing happens."""
    if "IPython" not in sys.modules:  # no notebook is without it
        return
    from IPython import get_ipython
    from IPython.display import display

    if get_ipython() is not None:
        display({MIME: fingerprint(figure), "text/plain": ""}, raw=True)


def _words(axes) -> list[str]:
    words = [axes.get_title(loc=side) for side in ("left", "center", "right")]
    words += [axes.get_xlabel(), axes.get_ylabel()]
    words += [text.get_text() for text in axes.texts]
    if axes.get_legend() is not None:
        words += [text.get_text() for text in axes.get_legend().get_texts()]
    return words


def _drawn(axes) -> list[np.ndarray]:
    numbers = [line.get_xydata() for line in axes.lines]
    for collection in axes.collections:
        numbers.append(np.ma.filled(collection.get_offsets(), np.nan))
        numbers += [path.vertices for path in collection.get_paths()]
        if collection.get_array() is not None:
            numbers.append(np.ma.filled(collection.get_array(), np.nan))
    for patch in axes.patches:
        numbers.append(patch.get_patch_transform().transform(patch.get_path().vertices))
    numbers += [np.ma.filled(image.get_array(), np.nan) for image in axes.images]
    return numbers


def _rounded(numbers) -> list[str]:
    flat = np.asarray(numbers, dtype=float).ravel() * OFF_THE_TIES
    flat[np.abs(flat) < 1e-12] = 0.0  # what is left of a difference that is zero elsewhere
    return [f"{number:.2e}" for number in flat + 0.0]
