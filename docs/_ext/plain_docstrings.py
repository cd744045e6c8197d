"""Docstrings here are plain text in the layout of numpydoc. This brings them to what Sphinx expects of reStructuredText:

- outside of code, stars, bars and trailing underscores mean themselves: `L*` is a name, not the start of emphasis;
- `names` in backquotes become links where there is such a name; other code in backquotes is just code;
- "Attributes", one `name : what it is` (or `one, other : what they are`) a line, become a list, and "Returns" is text;
- indented blocks that follow a blank line are code or equations, as they stand;
- what follows a section after a blank line is text or an example again, not one more parameter.
"""

from __future__ import annotations

import re
from typing import Any

CODE = re.compile(r"(``.+?``|`[^`]+`)")
NAME = re.compile(r"`[A-Za-z_][\w.]*`")
ATTRIBUTE = re.compile(r"(\w+(?:, \w+)*) : (.+)")

AS_TEXT = {"Attributes": "After a fit", "Returns": "What it returns"}  # titles that napoleon is told of in conf.py


def escaped(text: str) -> str:
    """Stars, bars and trailing underscores as they are meant, outside of backquotes; inside, code that is not a name."""
    parts = CODE.split(text)
    parts[::2] = [re.sub(r"[*|]|(?<=\w)_(?!\w)", r"\\\g<0>", part) for part in parts[::2]]
    parts[1::2] = [code if code.startswith("``") or NAME.fullmatch(code) else f"`{code}`" for code in parts[1::2]]
    return "".join(parts)


def headed(title: str) -> list[str]:
    return [title, "-" * len(title)]


def rewritten(lines: list[str]) -> list[str]:
    out, section, in_code, in_block = list[str](), "", False, False
    for i, line in enumerate(lines):
        following = lines[i + 1] if i + 1 < len(lines) else ""
        if following.startswith("---") and line.strip():
            section = line.strip()
            out += headed(AS_TEXT.get(section, section))
            continue
        if line.startswith("---"):
            section = "" if section == "Returns" else section
            continue
        in_code = bool(line.strip()) and (in_code or line.lstrip().startswith(">>>"))
        after_a_blank = i > 0 and not lines[i - 1].strip()
        if section and after_a_blank and line and not line.startswith(" "):
            out += headed("Example" if in_code else "Notes")
            section = ""
        if not section and line.startswith("    ") and after_a_blank and not in_block and not in_code:
            out += ["::", ""]
            in_block = True
        in_block = in_block and (not line or line.startswith("    "))
        if in_code or in_block:
            out.append(line)
        elif section == "Attributes" and (match := ATTRIBUTE.match(line)):
            names = ", ".join(f"``{name}``" for name in match[1].split(", "))
            out.append(f"- {names}: {escaped(match[2])}")
        elif section == "Attributes" and line:
            out.append(f"  {escaped(line.strip())}")
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
