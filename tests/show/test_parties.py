"""A drawing of who sends what to whom says each word and has an arrow a line."""

import matplotlib.pyplot as plt
from matplotlib.text import Annotation

from ppkit import show
from ppkit.show.fingerprint import fingerprint

ARROWS = (
    show.Sent("wang2018", "bank", "signs", "server", "DPSTGD"),
    show.Sent("", "holder", "shares", "other holder", "shares"),
)


def test_each_line_has_its_words_and_an_arrow_from_sender_to_receiver():
    fig = show.sent(ARROWS, title="Who?")
    [ax] = fig.axes
    words = {text.get_text(): text for text in ax.texts if text.get_text()}
    assert {*words} == {word for arrow in ARROWS for word in arrow[:4] if word}
    arrows = [one for one in ax.texts if isinstance(one, Annotation)]
    for arrow, shaft in zip(ARROWS, arrows, strict=True):
        (end, _), (start, _) = shaft.xy, shaft.xyann
        at = words[arrow.sender].get_position()[0], words[arrow.receiver].get_position()[0]
        assert at[0] < start < end < at[1]
        assert shaft.arrow_patch.get_edgecolor() == plt.matplotlib.colors.to_rgba(
            show.COLOURS[arrow.colour]
        )
    assert ax.get_title(loc="left") + ax.get_title() == "Who?"
    plt.close(fig)


def test_another_message_is_another_fingerprint():
    fig = show.sent(ARROWS, title="Who?")
    other = show.sent([ARROWS[0], ARROWS[1]._replace(what="sums")], title="Who?")
    assert fingerprint(fig) != fingerprint(other)
    plt.close("all")
