"""Figures that a page draws while it is built get an alternative text: the words before them."""

from __future__ import annotations

import re
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


def setup(app: Any) -> dict[str, Any]:
    app.connect("doctree-resolved", describe)
    return {"parallel_read_safe": True}
