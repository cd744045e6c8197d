"""Mermaid flowcharts that are trees, drawn as SVG while building: no script, no network, light and dark.

A page that is also read on a forge writes its diagram as a fence of the kind `mermaid`. Here the nodes become boxes, children
indented under their parent, and the label of an arrow stands beside the box that it leads to.
"""

from __future__ import annotations

import html
import re
from typing import Any, NamedTuple

from docutils import nodes
from sphinx.util.docutils import SphinxDirective

NODE = re.compile(r'^(\w+)\["(.*)"\]$')
EDGE = re.compile(r'^(\w+) (<-->|-->)\|"(.*)"\| (\w+)$')
INDENT, WIDTH, HEIGHT, GAP, LABEL, TOTAL = 60, 256, 44, 14, 16, 860


class Arrow(NamedTuple):
    start: str
    both_ways: bool
    label: str
    end: str


def parsed(lines: list[str]) -> tuple[dict[str, str], list[Arrow]]:
    """The text of each node, and the arrows, of a flowchart in which every node has one parent but the first."""
    boxes, arrows = dict[str, str](), list[Arrow]()
    for line in filter(None, (line.strip() for line in lines[1:])):
        if match := NODE.match(line):
            boxes[match[1]] = match[2]
        elif match := EDGE.match(line):
            arrows.append(Arrow(match[1], match[2] == "<-->", match[3], match[4]))
        else:
            raise ValueError(f"not a node or an arrow of a flowchart: {line}")
    if sorted(arrow.end for arrow in arrows) != sorted(list(boxes)[1:]):
        raise ValueError("the flowchart is not a tree: each box but the first needs exactly one arrow to it")
    return boxes, arrows


def drawn(boxes: dict[str, str], arrows: list[Arrow]) -> str:
    parts, rows = list[str](), 0

    def place(name: str, depth: int, arrow: Arrow | None) -> float:
        """Draws a box and what hangs on it; the height of its middle."""
        nonlocal rows
        x, y = depth * INDENT, rows * (HEIGHT + GAP) + 2
        rows += 1
        middle = y + HEIGHT / 2
        parts.append(f'<rect x="{x + 1}" y="{y}" width="{WIDTH}" height="{HEIGHT}" rx="6" class="box"/>')
        parts.append(text(x + WIDTH / 2, middle, boxes[name], 'text-anchor="middle"', bold_first=True))
        if arrow:
            parts.append(text(x + WIDTH + LABEL, middle, arrow.label, 'class="label"'))
        for child in (arrow for arrow in arrows if arrow.start == name):
            end = place(child.end, depth + 1, child)
            stem, tips = x + INDENT / 3, 'marker-end="url(#tip)"'
            if child.both_ways:
                tips += ' marker-start="url(#tip)"'
            parts.append(f'<path d="M{stem} {y + HEIGHT} V{end}" class="arrow"/>')
            parts.append(f'<path d="M{stem} {end} H{x + INDENT - 1}" {tips} class="arrow"/>')
        return middle

    place(next(iter(boxes)), 0, None)
    tip = (
        '<marker id="tip" viewBox="0 0 8 8" refX="7" refY="4" markerWidth="7" markerHeight="7" orient="auto-start-reverse">'
        '<path d="M0 0 L8 4 L0 8 z" fill="currentColor"/></marker>'
    )
    size = f'viewBox="0 0 {TOTAL} {rows * (HEIGHT + GAP)}" role="img" aria-label="diagram"'
    return f'<svg xmlns="http://www.w3.org/2000/svg" {size}><defs>{tip}</defs>{"".join(parts)}</svg>'


def text(x: float, middle: float, content: str, style: str, bold_first: bool = False) -> str:
    """Lines around a middle."""
    lines = re.split(r"<br\s*/?>", content)
    spans = []
    for i, line in enumerate(lines):
        y = middle + 4.5 + (i - (len(lines) - 1) / 2) * 17
        weight = ' font-weight="600"' if bold_first and i == 0 else ""
        spans.append(f'<tspan x="{x}" y="{y}"{weight}>{html.escape(line)}</tspan>')
    return f"<text {style}>{''.join(spans)}</text>"


class Flowchart(SphinxDirective):
    has_content = True

    def run(self) -> list[nodes.Node]:
        picture = drawn(*parsed(list(self.content)))
        return [nodes.raw("", f'<figure class="flowchart">{picture}</figure>', format="html")]


def setup(app: Any) -> dict[str, Any]:
    app.add_directive("mermaid", Flowchart)
    return {"parallel_read_safe": True}
