"""Configuration of the documentation site: ``make docs-site`` builds it with Sphinx."""

from __future__ import annotations

import sys
from pathlib import Path

HERE = Path(__file__).parent
sys.path.insert(0, str(HERE.parent))

import gpuenv  # noqa: E402 - the checkout's
from tools import reference_pages  # noqa: E402

reference_pages.write(HERE / "reference/generated")

project = "gpuenv"
version = release = gpuenv.__version__
copyright = "the gpuenv contributors"  # noqa: A001 - Sphinx reads this name

extensions = ["myst_parser", "sphinx.ext.autodoc", "sphinx.ext.napoleon"]
exclude_patterns = ["_build"]
myst_enable_extensions = ["deflist"]
myst_heading_anchors = 3
smartquotes = False  # an option begins with two hyphens
autodoc_default_options = {"members": True}
autodoc_typehints = "description"
autodoc_class_signature = "separated"
autodoc_member_order = "bysource"
napoleon_use_ivar = True

html_theme = "pydata_sphinx_theme"
html_title = "gpuenv"
html_static_path = ["_static"]
html_css_files = ["gpuenv.css"]
html_extra_path = ["reference/generated/files"]
html_sidebars: dict[str, list[str]] = {page: [] for page in ("index", "tutorial", "contributing", "changes")}
html_show_sourcelink = False
html_copy_source = False
html_theme_options = {
    "navbar_align": "left",
    "show_prev_next": True,
    "secondary_sidebar_items": ["page-toc"],
    "footer_start": ["copyright"],
    "footer_end": [],
    "pygments_light_style": "a11y-high-contrast-light",
    "pygments_dark_style": "a11y-high-contrast-dark",
}
