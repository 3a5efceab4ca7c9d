"""Settings of the documentation site, which `make docs` builds and a test builds with warnings as errors."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

project = "provml"
author = "The provml developers"
_init = (Path(__file__).parents[1] / "provml" / "__init__.py").read_text(encoding="utf-8")
release = version = re.search(r'__version__ = "([^"]+)"', _init)[1]  # type: ignore[index]  # read, not imported

extensions = ["myst_parser"]
exclude_patterns = ["_build"]
suppress_warnings = ["misc.highlighting_failure"]  # Pygments does not know all of SPARQL 1.1 and Turtle
myst_heading_anchors = 4  # links to headings are spelled as GitHub spells them
myst_links_external_new_tab = True

toc_object_entries_show_parents = "hide"

html_theme = "furo"  # system fonts, nothing from other hosts
html_title = "provml"
html_copy_source = False
html_show_sourcelink = False
html_show_sphinx = False
html_show_copyright = False
html_theme_options = {"navigation_with_keys": True}


def _limit_menu(app: Any, page: str, template: str, context: dict[str, Any], doctree: Any) -> None:
    """Leave the pages of single classes out of the menu: it is built for every page, and there are 160 of them."""
    toctree = context["toctree"]
    context["toctree"] = lambda **options: toctree(**{**options, "maxdepth": 3})


def setup(app: Any) -> None:
    """Connect to Sphinx, before the theme builds its menu."""
    app.connect("html-page-context", _limit_menu, priority=100)
