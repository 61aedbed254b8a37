"""A PNG gets a palette where no reader sees it, and is the same at every run."""

import io

import matplotlib.pyplot as plt
import numpy as np
import pytest
from IPython.core.pylabtools import print_figure
from matplotlib.figure import Figure
from PIL import Image

from ppkit import pictures, show
from ppkit.verdicts.ledger import FORMULA


def values(picture) -> np.ndarray:
    return np.asarray(picture.convert("RGB")).astype(int)


def png(figure, **settings) -> bytes:
    """As a notebook shows it."""
    return print_figure(figure, fmt="png", **settings)


@pytest.fixture
def lesson_figure():
    """Bands over one another, shades of viridis, text: many colours."""
    figure, ax = show.new(height=2.5)
    for shade in np.linspace(0, 1, 4):
        rising = np.linspace(0, 1 + shade, 9) ** [[0.5], [0.7]]
        show.band(ax, np.arange(9), rising, label=f"{shade:.1f}", colour=plt.cm.viridis(shade))
    ax.legend()
    ax.set_title("Bands over bands")
    yield figure
    plt.close(figure)


@pytest.fixture
def noise():
    stream = np.random.default_rng(0)
    return Image.fromarray(stream.integers(0, 256, size=(40, 50, 3), dtype=np.uint8))


def test_few_colours_keep_every_pixel():
    blocks = np.kron([[0, 90], [180, 255]], np.ones((20, 30))).astype(np.uint8)
    before = Image.merge("RGB", [Image.fromarray(one) for one in (blocks, 255 - blocks, blocks)])
    after = pictures.with_palette(before)
    assert after.mode == "P" and np.array_equal(values(after), values(before))


def test_as_many_colours_as_a_palette_holds_keep_every_pixel():
    ramp = np.arange(256, dtype=np.uint8).reshape(16, 16)
    before = Image.merge("RGB", [Image.fromarray(one) for one in (ramp, ramp.T, 255 - ramp)])
    after = pictures.with_palette(before)
    assert after.mode == "P" and np.array_equal(values(after), values(before))


@pytest.mark.slow
def test_a_figure_gets_a_palette_and_looks_the_same(lesson_figure):
    before = Image.open(io.BytesIO(png(lesson_figure)))
    pictures.small_pngs(lesson_figure)
    after = Image.open(io.BytesIO(png(lesson_figure)))
    assert (before.mode, after.mode) == ("RGBA", "P")
    assert len(np.unique(values(before).reshape(-1, 3), axis=0)) > 2 * pictures.PALETTE
    off = np.abs(values(after) - values(before)).max(axis=2)
    assert off.max() <= pictures.FAR and (off > pictures.NEAR).mean() <= pictures.EDGES
    assert before.info["dpi"] == after.info["dpi"]


def test_areas_keep_their_colour(lesson_figure):
    """A pixel that is like its neighbours, so that a reader sees its shade."""
    before = Image.open(io.BytesIO(png(lesson_figure)))
    inner, after = values(before)[1:-1, 1:-1], values(pictures.with_palette(before))[1:-1, 1:-1]
    flat = np.ones(inner.shape[:2], dtype=bool)
    for rows, columns in ((0, 1), (2, 1), (1, 0), (1, 2)):
        moved = values(before)[rows : rows + len(inner), columns : columns + inner.shape[1]]
        flat &= (moved == inner).all(axis=2)
    assert flat.sum() > 1000 and np.abs(after - inner)[flat].max() <= 2


def test_a_gradient_of_two_hues_keeps_true_colour_though_no_pixel_would_be_far_off(monkeypatch):
    ramp = np.tile(np.arange(256, dtype=np.uint8), (256, 1))
    before = Image.merge("RGB", [Image.fromarray(one) for one in (ramp, ramp.T, 0 * ramp)])
    after = pictures.with_palette(before)
    assert after.mode == "RGB" and np.array_equal(values(after), values(before))
    monkeypatch.setattr(pictures, "EDGES", 1.0)
    assert pictures.with_palette(before).mode == "P"


def test_pixels_far_off_keep_true_colour_though_they_are_few(noise):
    before = Image.new("RGB", (1000, 1000))
    before.paste(noise)  # 2000 colours in a five-hundredth of the area
    assert pictures.with_palette(before).mode == "RGB"


def test_every_pixel_has_the_nearest_colour_of_the_palette(noise, monkeypatch):
    monkeypatch.setattr(pictures, "FAR", 255)
    monkeypatch.setattr(pictures, "EDGES", 1.0)
    after = pictures.with_palette(noise)
    palette = np.array(after.getpalette()).reshape(-1, 3)
    assert after.mode == "P" and len(palette) == pictures.PALETTE
    for pixel, chosen in zip(values(noise).reshape(-1, 3), values(after).reshape(-1, 3)):
        distances = ((palette - pixel) ** 2).sum(axis=1)
        assert ((chosen - pixel) ** 2).sum() == distances.min()


def test_a_transparent_picture_stays_as_it_is():
    glass = Image.new("RGBA", (4, 4), (10, 20, 30, 40))
    assert pictures.with_palette(glass) is glass


@pytest.mark.slow
def test_the_same_figure_gives_the_same_bytes(lesson_figure):
    pictures.small_pngs(lesson_figure)
    assert png(lesson_figure) == png(lesson_figure)


@pytest.mark.slow
def test_what_a_lesson_finishes_is_shown_and_kept_with_a_palette(tmp_path, monkeypatch):
    monkeypatch.setenv("PPKIT_RUN", str(tmp_path))
    figure, ax = show.new()
    ax.plot([1, 2], [1, 2])
    show.finish(figure, "drawn", "Rises.", data=FORMULA)
    shown = Image.open(io.BytesIO(png(figure)))
    sharp = Image.open(io.BytesIO(png(figure, dpi=2 * figure.dpi)))
    plt.close(figure)
    kept = Image.open(io.BytesIO((tmp_path / "figures" / "drawn.png").read_bytes()))
    assert [one.mode for one in (shown, sharp, kept)] == ["P", "P", "P"]
    assert abs(sharp.width - 2 * shown.width) <= 2
    assert round(kept.info["dpi"][0]) == plt.rcParams["savefig.dpi"]


def test_a_canvas_of_another_kind_is_left_alone():
    figure = Figure()
    pictures.small_pngs(figure)
    assert not hasattr(figure.canvas, "print_png")
