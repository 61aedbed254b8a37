"""Figures: one style, one colour per method in every notebook, and the source of the data in every
caption."""

import json
import os
import textwrap
from pathlib import Path

import matplotlib.pyplot as plt
import numpy as np

from ppkit import pictures
from ppkit.atomic_writing import write_whole
from ppkit.show import fingerprint
from ppkit.show.numbers import sources
from ppkit.verdicts import wording

# A name means one thing in every notebook and has a colour of its own (Okabe and Ito's, and four
# more), told apart also by colour-blind readers. Numbers in order are shades of viridis instead.
COLOURS = {
    "plain": "#000000",  # without protection: plain SGD, data in the clear
    "DPSTGD": "#0072B2",
    "DP-SGD": "#882255",
    "claimed": "#999999",  # printed in a paper
    "holds": "#009E73",  # proved, or what is kept
    "attained": "#D55E00",  # what an attacker gets
    "shares": "#332288",
    "masks": "#56B4E9",
    "ciphertexts": "#E69F00",
    "level": "#666666",  # to compare with: a guess, a floor, zero
    "first": "#999933",  # series that are none of these, with no meaning beyond their picture
    "second": "#CC79A7",
    "third": "#7A4B1F",
} | wording.COLOURS
plt.style.use(Path(__file__).with_name("ppkit.mplstyle"))  # from the import on


def new(columns: int = 1, *, height: float = 4.0, sharex: bool = False, sharey: bool = False):
    """A figure 7.2 inches wide and its axes: one, or an array of `columns` side by side.

    height: in inches.  sharex, sharey: whether axes side by side have one scale.
    """
    size = (7.2, height)
    return plt.subplots(
        1, columns, figsize=size, layout="constrained", sharex=sharex, sharey=sharey
    )


def band(ax, x, seeds, *, label: str, colour, style: str = "-") -> None:
    """The mean over seeds as a line, the range over seeds as a band.

    x: (n,).  seeds: (n_seeds, n).
    """
    seeds = np.atleast_2d(seeds)
    ax.plot(x, seeds.mean(axis=0), color=colour, label=label, linestyle=style)
    if len(seeds) > 1:
        ax.fill_between(
            x, seeds.min(axis=0), seeds.max(axis=0), color=colour, alpha=0.18, linewidth=0
        )


def paper_marks(ax, x, y, *, label: str = "printed in the paper") -> None:
    """The paper's own numbers: hollow markers, in every figure alike."""
    ax.plot(
        x,
        y,
        linestyle="none",
        marker="o",
        markersize=9,
        markerfacecolor="none",
        markeredgecolor=COLOURS["claimed"],
        markeredgewidth=1.8,
        label=label,
    )


def finish(fig, name: str, caption: str, *, data) -> None:
    """Put the caption and the data's source under the figure, make its PNGs small and, inside a
    run, keep it as PNG and SVG.

    name: file name without ending.  caption: one or two sentences, what to see.
    data: as `show.sources`, whose words are appended to the caption.
    Writes $PPKIT_RUN/figures/<name>.png, .svg and .json (caption, data, notebook) when PPKIT_RUN is
    set.  In a notebook the figure's fingerprint is an output that nbval compares.
    """
    fingerprint.show(fig)
    pictures.small_pngs(fig)
    source = sources(data)
    whole = textwrap.fill(f"{caption} Data: {source}.", 105)
    fig.supxlabel(whole, fontsize=8.5, color="#555555", x=0.01, ha="left")
    folder = os.environ.get("PPKIT_RUN")
    if folder:
        target = Path(folder, "figures")
        target.mkdir(parents=True, exist_ok=True)
        fig.savefig(target / f"{name}.png")
        fig.savefig(target / f"{name}.svg", metadata={"Date": None})
        about = {
            "name": name,
            "caption": caption,
            "data": source,
            "notebook": os.environ.get("PPKIT_NOTEBOOK", ""),
        }
        write_whole(target / f"{name}.json", json.dumps(about, indent=1, ensure_ascii=False))
