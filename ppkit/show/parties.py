"""A drawing of who sends what to whom: one arrow a line."""

from collections.abc import Sequence
from typing import NamedTuple

from ppkit.show.figures import COLOURS, new

SENDER_AT, RECEIVER_AT = 0.0, 4.0


class Sent(NamedTuple):
    """One arrow. heading: in front of its line, "" for none.  sender, what, receiver: in words.
    colour: a name in COLOURS."""

    heading: str
    sender: str
    what: str
    receiver: str
    colour: str


def sent(arrows: Sequence[Sent], *, title: str):
    """A figure with a line for each arrow: who sends, what, and who gets it."""
    fig, ax = new(height=0.7 + 0.5 * len(arrows))
    box = dict(boxstyle="round,pad=0.4", facecolor="white", edgecolor=COLOURS["level"])
    middle = dict(ha="center", va="center", fontsize=9)
    for line, arrow in enumerate(arrows):
        ax.text(-1.3, line, arrow.heading, va="center", fontsize=10, weight="bold")
        ax.text(SENDER_AT, line, arrow.sender, bbox=box, **middle)
        ax.text(RECEIVER_AT, line, arrow.receiver, bbox=box, **middle)
        look = dict(arrowstyle="-|>", color=COLOURS[arrow.colour], lw=2.5)
        ends = (RECEIVER_AT - 0.65, line + 0.12), (SENDER_AT + 0.5, line + 0.12)
        ax.annotate("", *ends, arrowprops=look)
        ax.text(1.92, line + 0.02, arrow.what, ha="center", va="bottom", fontsize=9)
    ax.set(xlim=(-1.3, 4.6), ylim=(len(arrows) - 0.5, -0.7), title=title)
    ax.axis("off")
    return fig
