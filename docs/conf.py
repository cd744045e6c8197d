"""Sphinx: the pages of docs/, whose code cells run while building. Warnings are errors (`make docs`), and nothing is
fetched from the network."""

from __future__ import annotations

import os
import shutil
import sys
import tempfile
from pathlib import Path

import unmix

HERE = Path(__file__).parent
sys.path.insert(0, str(HERE / "_ext"))

project = "unmix"
author = "The unmix developers"
copyright = "The unmix developers, BSD-3-Clause"
version = release = unmix.__version__

extensions = [
    "myst_nb",
    "sphinx.ext.autodoc",
    "sphinx.ext.napoleon",
    "sphinx.ext.viewcode",
    "alternatives",
    "flowchart",
    "gallery",
    "live_report",
    "mathml",
    "pages",
    "plain_docstrings",
    "tidy_cells",
]
exclude_patterns = ["_build", "_ext", "_kernel"]
source_suffix = {".md": "myst-nb"}
language = "en-gb"
smartquotes_action = "De"  # quotes stay as they are typed: those around "auto" belong to Python

# Pages
html_theme = "furo"
html_title = f"unmix {release}"
html_static_path = ["_static"]
html_css_files = ["unmix.css"]
html_logo = "_static/mark.svg"
html_favicon = "_static/mark.svg"
html_search_scorer = str(HERE / "_static" / "scorer.js")
html_theme_options = {
    "light_css_variables": {
        "color-brand-primary": "#0a5aa8",
        "color-brand-content": "#0a5aa8",
        "color-brand-visited": "#0a5aa8",
    },
    "dark_css_variables": {
        "color-brand-primary": "#82bbf3",
        "color-brand-content": "#82bbf3",
        "color-brand-visited": "#82bbf3",
    },
}
html_show_sphinx = False
html_copy_source = False
myst_enable_extensions = ["colon_fence", "dollarmath"]
myst_fence_as_directive = ["mermaid"]
myst_heading_anchors = 3
pygments_style, pygments_dark_style = "default", "native"

# Reference
autodoc_member_order = "bysource"
autodoc_typehints = "none"  # docstrings have them, in words
napoleon_google_docstring = False
napoleon_attr_annotations = False
napoleon_custom_sections = [("Attributes", "params_style"), "See Also"]  # a list as parameters are, and one of links
napoleon_use_rtype = False  # the type stands before what it is
default_role = "py:obj"  # a link where there is such a name, plain code otherwise
toc_object_entries_show_parents = "hide"

# Tutorials
nb_execution_mode = "force"  # results are those of the library as it is, not of an earlier one
nb_execution_raise_on_error = True
nb_execution_in_temp = True  # so that they write nowhere else
nb_execution_timeout = 180
nb_merge_streams = True
nb_output_stderr = "show"


def _prepare_kernels() -> None:
    """The programs and the settings that tutorials run with: those of this environment, and nobody's own."""
    os.environ["PATH"] = os.pathsep.join([str(Path(sys.executable).parent), os.environ.get("PATH", "")])
    os.environ["COLUMNS"] = "92"  # of the terminal: as many as a page has room for
    own = Path(tempfile.mkdtemp(prefix="unmix-docs-"))
    shutil.copytree(HERE / "_kernel", own / "profile_default")
    os.environ["IPYTHONDIR"] = str(own)


_prepare_kernels()
