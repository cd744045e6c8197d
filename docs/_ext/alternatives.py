"""Accessibility of pages: figures drawn while building get the words before them as alternative text, side bars have names."""

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


ASIDE, PRE = '<aside class="sidebar-drawer"', '<div class="highlight"><pre>'
NAMED = {  # in pages of the theme: two side bars are landmarks, and code that is wider than the page is scrolled by keys
    ASIDE: ASIDE.replace("<aside", '<aside aria-label="Pages"'),
    '<aside class="toc-drawer': '<aside aria-label="On this page" class="toc-drawer',
    PRE: PRE.replace("<pre", '<pre tabindex="0"'),
}


def make_accessible(app: Any, exception: Exception | None) -> None:
    if exception is not None or app.builder.format != "html":
        return
    for page in Path(app.outdir).rglob("*.html"):
        text = page.read_text(encoding="utf-8")
        named = text
        for old, new in NAMED.items():
            named = named.replace(old, new)
        if named != text:
            page.write_text(named, encoding="utf-8")


def setup(app: Any) -> dict[str, Any]:
    app.connect("doctree-resolved", describe)
    app.connect("build-finished", make_accessible)
    return {"parallel_read_safe": True}
