"""Checks in the cells of a page run while it is built, and are not shown: readers copy what is left. Commands are shown as they
are typed in a terminal, without the magic that runs them here. Sentences among the
printed lines are wrapped as a terminal wraps them."""

from __future__ import annotations

import ast
import os
import re
import textwrap
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


def wrapped(output: str) -> str:
    """Lines of words in the width of the terminal; lines of tables, which have columns, stay as they are.

    >>> os.environ["COLUMNS"] = "20"
    >>> print(wrapped("- a sentence that goes on and on\\na  table  of  numbers  and  words"))
    - a sentence that
      goes on and on
    a  table  of  numbers  and  words
    """
    width, lines = int(os.environ["COLUMNS"]), []
    for line in output.split("\n"):
        indent = " " * (len(line) - len(line.lstrip()) + 2 * line.lstrip().startswith("- "))
        prose = len(line) > width and "  " not in line.strip() and "│" not in line
        lines += textwrap.wrap(line, width, subsequent_indent=indent, break_on_hyphens=False) if prose else [line]
    return "\n".join(lines)


def tidy(app: Any, page: nodes.document) -> None:
    for cell in list(page.findall(nodes.container)):
        if "cell_input" in cell["classes"]:
            for block in list(cell.findall(nodes.literal_block)):
                code = without_checks(block.rawsource or block.astext())
                if not code.strip():
                    cell.parent.remove(cell)
                    break
                if code.startswith("%%bash\n"):
                    code, block["language"] = code.removeprefix("%%bash\n"), "bash"
                show(block, code)
        if "cell_output" in cell["classes"]:
            for block in cell.findall(nodes.literal_block):
                show(block, wrapped(block.astext()))
            for table in cell.findall(nodes.raw):  # the corner of a table heads nothing
                show(table, re.sub(r"<th( class=[^>]*)?>(&nbsp;)?</th>", r"<td\1></td>", table.astext()))


def show(block: nodes.TextElement, text: str) -> None:
    block.rawsource = text
    block.children = []
    block += nodes.Text(text)


def setup(app: Any) -> dict[str, Any]:
    app.connect("doctree-read", tidy)
    return {"parallel_read_safe": True}
