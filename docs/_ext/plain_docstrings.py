"""Docstrings here are plain text in the layout of numpydoc. This brings them to what Sphinx expects of reStructuredText:

- outside of code, stars, bars and trailing underscores mean themselves: `L*` is a name, not the start of emphasis;
- "Attributes", one `name : what it is` a line, become a list;
- what follows a section after a blank line is text or an example again, not one more parameter.
"""

from __future__ import annotations

import re
from typing import Any

CODE = re.compile(r"(``.+?``|`[^`]+`)")
ATTRIBUTE = re.compile(r"(\w+) : (.+)")


def escaped(text: str) -> str:
    """Stars, bars and trailing underscores as they are meant, outside of backquotes."""
    parts = CODE.split(text)
    parts[::2] = [re.sub(r"[*|]|(?<=\w)_(?!\w)", r"\\\g<0>", part) for part in parts[::2]]
    return "".join(parts)


def rewritten(lines: list[str]) -> list[str]:
    out, section, in_code = list[str](), "", False
    for i, line in enumerate(lines):
        following = lines[i + 1] if i + 1 < len(lines) else ""
        if following.startswith("---") and line.strip():
            section = line.strip()
            out += [".. rubric:: Attributes", ""] if section == "Attributes" else [line]
            continue
        if line.startswith("---"):
            out += [] if section == "Attributes" else [line]
            continue
        in_code = bool(line.strip()) and (in_code or line.lstrip().startswith(">>>"))
        after_a_blank = i > 0 and not lines[i - 1].strip()
        if section and after_a_blank and line and not line.startswith(" "):
            title = "Example" if in_code else "Notes"
            out += [".. rubric:: Example", ""] if section == "Attributes" else [title, "-" * len(title)]
            section = ""
        if in_code or (line.startswith("    ") and not section):
            out.append(line)
        elif section == "Attributes" and (match := ATTRIBUTE.match(line)):
            out.append(f"- ``{match[1]}``: {escaped(match[2])}")
        elif section and line and not line.startswith(" "):
            out.append(line)  # the name of a parameter, which napoleon escapes
        else:
            out.append(escaped(line))
    return out


def process(app: Any, what: str, name: str, obj: Any, options: Any, lines: list[str]) -> None:
    lines[:] = rewritten(lines)


def setup(app: Any) -> dict[str, Any]:
    app.connect("autodoc-process-docstring", process, priority=100)  # before napoleon
    return {"parallel_read_safe": True}
