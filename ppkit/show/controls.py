"""Interactive controls that leave no trace in a headless run, and a progress bar that is silent there."""

import os

import matplotlib.pyplot as plt


def control(draw, **sliders):
    """Sliders that redraw a figure when a person moves one; show a still with `draw(...)` in the next cell.

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
    """`items` under a progress bar where a person watches (PPKIT_WATCH=1, as `make lab` sets), and as they are elsewhere."""
    if os.environ.get("PPKIT_WATCH") != "1":
        return items
    from tqdm.auto import tqdm

    return tqdm(items, desc=label)
