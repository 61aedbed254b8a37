"""Sphinx's settings; `tools.site.build` lays out the folder that Sphinx reads."""

import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
sys.path.insert(0, str(ROOT))

project = html_title = "ppkit"
extensions = ["myst_nb", "sphinx_design", "tools.site.mathml"]
source_suffix = {".md": "myst-nb", ".ipynb": "myst-nb"}
nb_execution_mode = "off"
nb_custom_formats = {".ipynb": "tools.site.notebook_reader.read"}
myst_enable_extensions = ["dollarmath", "colon_fence", "attrs_inline", "html_image"]
myst_heading_anchors = 4
html_math_renderer = "mathml"

html_theme = "pydata_sphinx_theme"
html_static_path = ["static"]
templates_path = ["templates"]
html_css_files = ["site.css"]
html_js_files = [("rows.js", {"defer": "defer"})]
html_search_scorer = str(ROOT / "tools/site/scorer.js")
html_copy_source = True  # what a reader downloads
html_sourcelink_suffix = ""
html_show_sphinx = False
html_use_index = False
html_theme_options = {
    "logo": {"text": "ppkit"},
    "header_links_before_dropdown": 8,
    "navbar_end": ["theme-switcher"],
    "navbar_persistent": ["search-button-field"],
    "secondary_sidebar_items": ["page-toc", "download"],
    "article_header_start": ["breadcrumbs"],
    "footer_start": [],
    "footer_end": [],
    "show_prev_next": True,
    "navigation_with_keys": True,
    "pygments_light_style": "a11y-high-contrast-light",
    "pygments_dark_style": "a11y-high-contrast-dark",
}
html_context = {"default_mode": "auto"}
ALONE = ["index", "ledger", "papers", "papers/*", "claims/*"]
ALONE += ["docs/findings", "docs/which_one", "docs/pitfalls"]
html_sidebars: dict[str, list[str]] = {page: [] for page in ALONE}
