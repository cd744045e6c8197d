"""Accessibility of pages: figures drawn while building get the words before them as alternative text, side bars get names."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

from docutils import nodes

LONGEST = 200


def describe(app: Any, page: nodes.document, name: str) -> None:
    for image in page.findall(nodes.image):
        if not image.get("alt"):
            image["alt"] = words_before(image)


def words_before(image: nodes.Element) -> str:
    """The last sentence of the text before a figure, or the title of its section where there is none."""
    node: Any = image
    while not isinstance(node, nodes.section | nodes.document):
        before = node.parent.children[: node.parent.index(node)]
        text = next((one.astext() for one in reversed(before) if isinstance(one, nodes.paragraph)), "")
        if text:
            return re.split(r"(?<=[.:!?])\s+(?=[A-Z])", " ".join(text.split()))[-1].rstrip(":")[:LONGEST]
        node = node.parent
    return next((title.astext() for title in node.findall(nodes.title)), "Figure")


SIDES = {'<aside class="sidebar-drawer"': "Pages", '<aside class="toc-drawer': "On this page"}  # of the theme


def name_sides(app: Any, exception: Exception | None) -> None:
    """The two side bars of a page are landmarks of the same kind, which need names."""
    if exception is not None or app.builder.format != "html":
        return
    for page in Path(app.outdir).rglob("*.html"):
        text = page.read_text(encoding="utf-8")
        named = text
        for side, label in SIDES.items():
            named = named.replace(side, side.replace("<aside", f'<aside aria-label="{label}"'))
        if named != text:
            page.write_text(named, encoding="utf-8")


def setup(app: Any) -> dict[str, Any]:
    app.connect("doctree-resolved", describe)
    app.connect("build-finished", name_sides)
    return {"parallel_read_safe": True}
