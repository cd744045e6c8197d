"""Docstrings here are plain text in the form of numpydoc. This brings them to what Sphinx expects of reStructuredText:

- outside of code, stars, bars and trailing underscores mean themselves: `L*` is a name, not the start of emphasis;
- `names` in backquotes become links where there is such a name; other code in backquotes is just code;
- names of classes, also in types, and those of "See Also" are links to what they name in `unmix`;
- indented blocks that follow a blank line are code or equations, as they stand;
- what nobody constructs, as a function makes it, is shown without the signature of its constructor.
"""

from __future__ import annotations

import inspect
import re
from typing import Any

import unmix

CODE = re.compile(r"(``.+?``|`[^`]+`)")
NAME = re.compile(r"`[A-Za-z_][\w.]*`")
CLASSES = "|".join(sorted(name for name in unmix.__all__ if name[0].isupper()))
CLASS = re.compile(rf"\b({CLASSES})\b")


def escaped(text: str) -> str:
    """Stars, bars and trailing underscores as they are meant, outside of backquotes; inside, code that is not a name."""
    parts = CODE.split(text)
    parts[::2] = [re.sub(r"[*|]|(?<=\w)_(?!\w)", r"\\\g<0>", part) for part in parts[::2]]
    parts[1::2] = [code if code.startswith("``") else reference(code) for code in parts[1::2]]
    return "".join(parts)


def reference(code: str) -> str:
    """A word in backquotes: a public class, something else that may have a name, or just code."""
    name = code.strip("`").removeprefix("unmix.")
    if CLASS.fullmatch(name.partition(".")[0]) and NAME.fullmatch(code):
        return f":py:obj:`{name} <unmix.{name}>`"
    return code if NAME.fullmatch(code) else f"`{code}`"


def typed(text: str) -> str:
    """A type in words, in which public classes are links."""
    return CLASS.sub(r":py:obj:`\1 <unmix.\1>`", text)


def linked(line: str) -> str:
    """A line of "See Also", `one, two : what they are`, with names that Sphinx finds."""
    names, colon, meaning = line.partition(" : ")
    links = [f":py:obj:`{name} <unmix.{name}>`" for name in names.split(", ")]
    return ", ".join(links) + (f": {escaped(meaning)}" if colon else "")


def rewritten(lines: list[str]) -> list[str]:
    out, section, in_code, in_block = list[str](), "", False, False
    for i, line in enumerate(lines):
        following = lines[i + 1] if i + 1 < len(lines) else ""
        if line.startswith("---") or (following.startswith("---") and line.strip()):
            section = section if line.startswith("---") else line.strip()
            out.append(line)
            continue
        in_code = bool(line.strip()) and (in_code or line.lstrip().startswith(">>>"))
        after_a_blank = i > 0 and not lines[i - 1].strip()
        if not section and line.startswith("    ") and after_a_blank and not in_block and not in_code:
            out += ["::", ""]
            in_block = True
        in_block = in_block and (not line or line.startswith("    "))
        heads = bool(line) and line[0] != " "  # a name, or a type, and not what is said of it
        if in_code or in_block or (heads and section in ("Parameters", "Raises")):
            out.append(line)  # which napoleon and Sphinx escape and link
        elif heads and section == "See Also":
            out.append(f"- {linked(line)}")
        elif heads and section == "Attributes":
            names, _, kind = line.partition(" : ")
            out.append(f"{names} : {typed(kind)}")
        elif heads and section in ("Returns", "Yields"):
            out.append(typed(line))
        else:
            out.append(escaped(line))
    return out


def process(app: Any, what: str, name: str, obj: Any, options: Any, lines: list[str]) -> None:
    lines[:] = rewritten(lines)


def signature(
    app: Any, what: str, name: str, obj: Any, options: Any, given: str, returned: str
) -> tuple[str, str] | None:
    text = inspect.getdoc(obj) or ""
    made_by_others = what == "class" and "Attributes\n----" in text and "Parameters\n----" not in text
    return ("", "") if made_by_others else None


def setup(app: Any) -> dict[str, Any]:
    app.connect("autodoc-process-docstring", process, priority=100)  # before napoleon
    app.connect("autodoc-process-signature", signature)
    return {"parallel_read_safe": True}
