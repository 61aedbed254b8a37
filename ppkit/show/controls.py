"""Interactive controls that leave no trace in a headless run, and a progress bar that is silent
there."""

import os

import matplotlib.pyplot as plt


def control(draw, **sliders):
    """Sliders that redraw a figure when a person moves one; show a still with `draw(...)` in the
    next cell.

    draw: called with one keyword argument a slider.  sliders: ipywidgets by argument name.
    Returns a box: the sliders, and an output that stays empty until one moves.
    """
    import ipywidgets

    out = ipywidgets.Output()

    def redraw(_change):
        with out:
            out.clear_output(wait=True)
            draw(**{name: slider.value for name, slider in sliders.items()})
            plt.show()

    for name, slider in sliders.items():
        slider.description = slider.description or name
        slider.observe(redraw, names="value")
    return ipywidgets.VBox([*sliders.values(), out])


def progress(items, *, label: str = ""):
    """`items` under a bar where a person watches (PPKIT_WATCH=1), else as they are.

    The bar leaves nothing in the notebook: any next output of the cell takes its place, and it is
    cleared when the items end or the loop is left.  What the cell showed before goes with it, so
    show results after the loop.  Of nested bars only the outermost is drawn.
    """
    from IPython import get_ipython

    watched = os.environ.get("PPKIT_WATCH") == "1" and get_ipython() is not None
    return _under_a_bar(items, label, get_ipython()) if watched else items


def _under_a_bar(items, label: str, shell):
    from IPython.display import clear_output
    from tqdm import tqdm

    cell = shell.execution_count
    if _Line.cell == cell:
        yield from items
        return
    _Line.cell = cell
    try:
        yield from tqdm(items, label, file=_Line(), leave=False, position=0, ncols=72, miniters=1)
    finally:
        if shell.execution_count == cell:  # else the loop failed in a cell before this one
            clear_output()
            _Line.cell = None


class _Line:
    """A file for tqdm: each line stands until the next output of the cell, of whatever kind."""

    cell = None  # number of the cell that a bar is drawn in

    def write(self, text: str) -> None:
        from IPython.display import clear_output

        if text.strip():
            print(text.strip(), flush=True)
            clear_output(wait=True)

    def flush(self) -> None:
        """Nothing waits here."""
