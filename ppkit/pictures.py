"""PNGs with a palette: a third of the bytes of true colour, and to a reader the same picture."""

from functools import partial

import numpy as np
from matplotlib.backends.backend_agg import FigureCanvasAgg
from PIL import Image

PALETTE = 256  # colours, as many as a PNG's palette holds
NEAR = 4  # of 255: a reader does not see that a channel is off by so much
EDGES = 0.02  # of all pixels: so many may be further off, as along the edges of lines
FAR = 24  # of 255: and none by more than this


def small_pngs(figure) -> None:
    """From now on PNGs of this figure, shown or saved, are written `with_palette`.

    They hold the resolution, and no other metadata.
    """
    if isinstance(figure.canvas, FigureCanvasAgg):
        figure.canvas.print_png = partial(_print_png, figure.canvas)  # type: ignore[method-assign]


def with_palette(picture: Image.Image) -> Image.Image:
    """The picture with at most 256 of its own colours, each pixel in the nearest of them.

    Where a reader would see the difference, the picture in true colour; where it is transparent,
    the picture itself.
    picture: of RGB or RGBA.
    """
    if picture.convert("RGBA").getchannel("A").getextrema() != (255, 255):
        return picture
    true_colour = picture.convert("RGB")
    colours, place, pixels = _colours(true_colour)
    palette, nearest = _palette(colours, pixels)
    off = np.abs(colours - palette[nearest]).max(axis=1)
    if off.max() > FAR or pixels[off > NEAR].sum() > EDGES * pixels.sum():
        return true_colour
    indexed = Image.fromarray(nearest[place].reshape(true_colour.height, true_colour.width))
    indexed.putpalette(palette.astype(np.uint8).tobytes())
    return indexed


def _print_png(canvas, target, **_) -> None:
    """As matplotlib calls it, with settings that Agg does not need."""
    FigureCanvasAgg.draw(canvas)
    picture = with_palette(Image.fromarray(np.asarray(canvas.buffer_rgba())))
    dpi = canvas.figure.dpi
    picture.save(target, format="png", optimize=True, dpi=(dpi, dpi))


def _colours(picture: Image.Image) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """The picture's colours (n, 3), which of them each pixel has, and how many pixels each has."""
    channels = np.asarray(picture).reshape(-1, 3)
    packed = channels @ np.array([1 << 16, 1 << 8, 1], dtype=np.int32)
    found, place, pixels = np.unique(packed, return_inverse=True, return_counts=True)
    return np.stack([found >> 16, found >> 8 & 255, found & 255], axis=1), place, pixels


def _palette(colours: np.ndarray, pixels: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """The palette (256, 3) or shorter, and for each colour the place of the nearest one in it.

    The next colour is the one that is missed most: by its squared distance to the nearest one so
    far, times the root of its pixels. So areas keep their exact colour, and no edge is far off.
    """
    weights = np.sqrt(pixels)
    distances = np.full(len(colours), 3 * 255**2)
    nearest = np.zeros(len(colours), dtype=np.uint8)
    palette = []
    for place in range(min(PALETTE, len(colours))):
        palette.append(colours[np.argmax(distances * weights)])
        to_this = ((colours - palette[-1]) ** 2).sum(axis=1)
        nearest[to_this < distances] = place
        distances = np.minimum(distances, to_this)
    return np.array(palette), nearest
