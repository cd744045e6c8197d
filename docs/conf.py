"""Sphinx: the pages of docs/, with the tutorials run while building. Warnings are errors (`make docs`), and nothing is
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
import plain_docstrings  # noqa: E402 - found only now

project = "unmix"
author = "The unmix developers"
copyright = "The unmix developers, BSD-3-Clause"
version = release = unmix.__version__

extensions = [
    "myst_nb",
    "sphinx.ext.autodoc",
    "sphinx.ext.napoleon",
    "sphinx.ext.viewcode",
    "flowchart",
    "gallery",
    "live_report",
    "plain_docstrings",
]
exclude_patterns = ["_build", "_ext", "_kernel"]
source_suffix = {".md": "myst-nb"}
language = "en-gb"

# Pages
html_theme = "furo"
html_title = f"unmix {release}"
html_static_path = ["_static"]
html_css_files = ["unmix.css"]
html_show_sphinx = False
html_copy_source = False
myst_enable_extensions = ["colon_fence"]
myst_fence_as_directive = ["mermaid"]
myst_heading_anchors = 3
pygments_style, pygments_dark_style = "default", "native"

# Reference
autodoc_member_order = "bysource"
autodoc_typehints = "none"  # the types are in the source, one click away; here they would hide the names
maximum_signature_line_length = 90
napoleon_google_docstring = False
napoleon_attr_annotations = False
napoleon_custom_sections = list(plain_docstrings.AS_TEXT.values())
default_role = "py:obj"  # a link where there is such a name, plain code otherwise
toc_object_entries = False

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
    os.environ["COLUMNS"] = "96"  # of the terminal
    own = Path(tempfile.mkdtemp(prefix="unmix-docs-"))
    shutil.copytree(HERE / "_kernel", own / "profile_default")
    os.environ["IPYTHONDIR"] = str(own)


_prepare_kernels()
