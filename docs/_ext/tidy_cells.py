"""Checks in the cells of a page run while it is built, and are not shown: readers copy what is left."""

from __future__ import annotations

import ast
from typing import Any

from docutils import nodes


def without_checks(code: str) -> str:
    """Code without its `assert` statements; magics and shell cells stay as they are.

    >>> without_checks("x = 1\\nassert x == 1\\nx")
    'x = 1\\nx'
    """
    lines = code.split("\n")
    try:
        tree = ast.parse("\n".join("" if line.startswith(("%", "!")) else line for line in lines))
    except SyntaxError:
        return code
    checks = [node for node in ast.walk(tree) if isinstance(node, ast.Assert)]
    hidden = {line for node in checks for line in range(node.lineno, (node.end_lineno or node.lineno) + 1)}
    kept = [line for number, line in enumerate(lines, 1) if number not in hidden]
    return "\n".join(kept).strip("\n")


def tidy(app: Any, page: nodes.document) -> None:
    for cell in list(page.findall(nodes.container)):
        if "cell_input" in cell["classes"]:
            for block in list(cell.findall(nodes.literal_block)):
                code = without_checks(block.rawsource or block.astext())
                if not code.strip():
                    cell.parent.remove(cell)
                    break
                block.rawsource = code
                block.children = []
                block += nodes.Text(code)


def setup(app: Any) -> dict[str, Any]:
    app.connect("doctree-read", tidy)
    return {"parallel_read_safe": True}
