"""`{gallery}`: a card for each page that it names, with the title of that page and the picture that was drawn while building."""

from __future__ import annotations

from typing import Any

from docutils import nodes
from sphinx.util.docutils import SphinxDirective


class Cards(nodes.General, nodes.Element):
    """The pages, whose pictures are known once all of them have been read."""


class Gallery(SphinxDirective):
    has_content = True

    def run(self) -> list[nodes.Node]:
        return [Cards(pages=[self.env.relfn2path(f"{page}.md", self.env.docname)[0][:-3] for page in self.content])]


def fill(app: Any, page: nodes.document, name: str) -> None:
    for cards in list(page.findall(Cards)):
        shown = [card(app, name, other) for other in cards["pages"]]
        cards.replace_self(nodes.container("", *shown, classes=["gallery"]))


def card(app: Any, name: str, other: str) -> nodes.paragraph:
    title = app.env.titles[other].astext()
    pictures = [one.deepcopy() for one in app.env.get_doctree(other).findall(nodes.image)][:1]  # none without execution
    for picture in pictures:
        picture["alt"] = ""  # the title says it
    address = app.builder.get_relative_uri(name, other)
    return nodes.paragraph(
        "", "", nodes.reference("", "", *pictures, nodes.inline("", title), refuri=address, internal=True)
    )


def with_cards(app: Any, env: Any) -> list[str]:
    """Pages to write again, as pictures may have changed."""
    return [name for name in env.found_docs if any(env.get_doctree(name).findall(Cards))]


def setup(app: Any) -> dict[str, Any]:
    app.add_node(Cards)
    app.add_directive("gallery", Gallery)
    app.connect("doctree-resolved", fill)
    app.connect("env-updated", with_cards)
    return {"parallel_read_safe": True}
