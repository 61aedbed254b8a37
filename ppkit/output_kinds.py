"""The kinds of a cell's output, by the names that Jupyter gives them."""

WIDGET_VIEW = "application/vnd.jupyter.widget-view+json"  # a widget, which needs a kernel
# what a page without a kernel shows beside plain text
SHOWN = ("text/html", "text/markdown", "text/latex", "image/png", "image/jpeg", "image/svg+xml")
