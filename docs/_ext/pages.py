"""Pages that are generated: one per public object, one per command, and one per section of the long records.

- The pages of `docs/api` list objects with autodoc directives. On the site each object has a page of its own, and the list
  becomes a table of links.
- `{commands}` is replaced by a table of all commands, each of which has a page.
- A long record (`RECORDS`) stays one file in the repository and becomes one page per section here.

All of them are written to `docs/generated`, before Sphinx looks for pages, and only where they have changed.
"""

from __future__ import annotations

import inspect
import posixpath
import re
from functools import cache
from pathlib import Path
from typing import Any, NamedTuple

DOCS = Path(__file__).parents[1]
GENERATED = DOCS / "generated"
LONGEST = 2_500  # words of a page
# Records, the file that each comes from, and whether the search leaves their pages out
RECORDS = {
    "decisions": ("decisions.md", True),
    "development/changelog": ("../CHANGELOG.md", True),
    "background/performance": ("background/performance.md", True),
    "papers": ("papers.md", False),
    "results/README": ("results/README.md", False),
}
FENCE = re.compile(r"^(?:`{3,}|:{3,})")
LINK = re.compile(r"(?<!\\)(\]\()([^()\s]+)(\))")
AUTO = re.compile(r"^\.\. auto(class|function):: (\S+)\n(?:   :members: (.*)\n)?", re.MULTILINE)
BLOCK = re.compile(r"^```\{eval-rst\}\n(.*?)^```$\n?", re.MULTILINE | re.DOTALL)
NO_SEARCH = "---\nnosearch: true\n---\n"


# Records


class Section(NamedTuple):
    title: str
    text: str  # without the title
    level: int

    @property
    def words(self) -> int:
        return len(self.text.split())


def slug(title: str) -> str:
    """The anchor of a heading, as MyST and forges make it."""
    return re.sub(r"[^\w\- ]", "", title.replace("`", "").lower()).replace(" ", "-")


def cut(text: str, level: int) -> list[Section]:
    """Sections under headings of a level; the first is what stands before all of them."""
    sections, in_code, mark = [Section("", "", level)], False, "#" * level + " "
    for line in text.splitlines(keepends=True):
        in_code ^= bool(FENCE.match(line))
        if line.startswith(mark) and not in_code:
            sections.append(Section(line[len(mark) :].strip(), "", level))
        else:
            last = sections[-1]
            sections[-1] = last._replace(text=last.text + line)
    return sections


@cache
def sections(record: str) -> tuple[Section, ...]:
    """The sections of a record: what stands before the first heading, and one per page."""
    text = (DOCS / RECORDS[record][0]).read_text(encoding="utf-8")
    found = list[Section]()
    for section in cut(text, 2):
        if section.title and section.words > LONGEST:
            first, *others = cut(section.text, 3)
            found += [section._replace(text=first.text)] if first.words else []
            found += [one._replace(title=f"{section.title}: {one.title}") for one in others]
        else:
            found.append(section)
    return tuple(found)


def home(record: str) -> str:
    return f"generated/{posixpath.basename(posixpath.dirname(record) if record.endswith('README') else record)}"


@cache
def anchors(record: str) -> dict[str, tuple[str, str]]:
    """Where each heading of a record is on the site: its page, and the anchor there."""
    where = dict[str, tuple[str, str]]()
    for section in sections(record)[1:]:
        page = f"{home(record)}/{slug(section.title)}"
        where[slug(section.title.rpartition(": ")[2] if section.level == 3 else section.title)] = (page, "")
        for heading in re.findall(r"^###+ (.*)$", section.text, re.MULTILINE):
            where[slug(heading)] = (page, slug(heading))
    return where


def relinked(text: str, source: str, target: str) -> str:
    """Links of a text that was written for one place, for another; both are pages, such as `guide/data`."""

    def moved(match: re.Match[str]) -> str:
        path, _, anchor = match[2].partition("#")
        if "://" in path or path.startswith(("mailto:", "/")):
            return match[0]
        to = posixpath.normpath(posixpath.join(posixpath.dirname(source), path)) if path else f"{source}.md"
        record = {f"{name}.md": name for name in RECORDS} | {"../CHANGELOG.md": "development/changelog"}
        if anchor and to in record and anchor in anchors(record[to]):
            page, anchor = anchors(record[to])[anchor]
            to = f"{page}.md"
        elif to == f"{target}.md":
            return f"{match[1]}#{anchor}{match[3]}"
        link = posixpath.relpath(to, posixpath.dirname(target) or ".")
        return f"{match[1]}{link}{'#' + anchor if anchor else ''}{match[3]}"

    return LINK.sub(moved, text)


def origin(record: str) -> str:
    """The place that the links of a record are written for."""
    return RECORDS[record][0].removesuffix(".md")


def pages_of_record(record: str) -> dict[str, str]:
    pages = {}
    for section in sections(record)[1:]:
        name = f"{home(record)}/{slug(section.title)}"
        text = re.sub(r"^#(#+ )", r"\1", section.text, flags=re.MULTILINE)
        text = text if section.level == 2 else re.sub(r"^#(#+ )", r"\1", text, flags=re.MULTILINE)
        head = NO_SEARCH if RECORDS[record][1] else ""
        pages[name] = f"{head}# {section.title}\n{relinked(text, origin(record), name)}"
    return pages


def contents(record: str) -> str:
    """The page of a record itself: what stands before its sections, and a list of them."""
    first, *others = sections(record)
    names = [posixpath.relpath(f"{home(record)}/{slug(one.title)}", posixpath.dirname(record) or ".") for one in others]
    entries = "\n".join(names)
    return f"{relinked(first.text, origin(record), record)}\n```{{toctree}}\n:maxdepth: 1\n\n{entries}\n```\n"


# Objects


def meaning(name: str) -> Any:
    import unmix.report
    import unmix.sc

    thing: Any = unmix
    for part in name.split(".")[1:]:
        thing = getattr(thing, part)
    return thing


def first_sentence(name: str) -> str:
    text = (inspect.getdoc(meaning(name)) or "").partition("\n\n")[0]
    sentence = re.split(r"(?<=\.)\s+(?=[A-Z`])|:$", " ".join(text.split()))[0]
    parts = re.split(r"(`+[^`]+`+)", sentence)
    parts[::2] = [re.sub(r"([*_|<>\[\]])", r"\\\1", part) for part in parts[::2]]
    return "".join(parts).replace("|", "\\|") if "`" in sentence and "|" in sentence else "".join(parts)


@cache
def guide_pages() -> dict[str, tuple[str, str]]:
    """The pages that a page of the reference may point to: their titles and texts."""
    pages = {}
    for folder in ("start", "guide", "how-to", "gallery", "coming-from"):
        for path in sorted((DOCS / folder).glob("*.md")):
            text = path.read_text(encoding="utf-8")
            title = re.search(r"^# (.*)$", text, re.MULTILINE)
            if title and path.stem != "index":
                pages[f"{folder}/{path.stem}"] = (title[1], text)
    return pages


@cache
def objects() -> dict[str, tuple[str, str]]:
    """The kind and the members of every object of the reference."""
    texts = [path.read_text(encoding="utf-8") for path in sorted((DOCS / "api").glob("*.md"))]
    return {name: (kind, members) for text in texts for kind, name, members in AUTO.findall(text)}


def place_of(name: str) -> str:
    """The page of an object. `stability` and `Stability` have two, also where file names know no case."""
    twins = [other for other in objects() if other.lower() == name.lower()]
    return f"generated/api/{name}{'-class' if len(twins) > 1 and objects()[name][0] == 'class' else ''}"


def used_in(name: str) -> str:
    call = re.compile(rf"\b(?:um|unmix){re.escape(name.removeprefix('unmix'))}\b(?![.\w])")
    uses = [(page, title) for page, (title, text) in guide_pages().items() if call.search(text)]
    links = " · ".join(f"[{title}](../../{page}.md)" for page, title in uses[:6])
    return f"\n**Used in:** {links}\n" if links else ""


def page_of_object(kind: str, name: str, members: str) -> str:
    found, module = meaning(name), name.rpartition(".")[0]
    # One directive per member keeps the order of the list: `fit` comes before what follows it, wherever it is inherited from.
    kinds = [
        (one, "method" if callable(getattr(found, one, None)) else "property" if hasattr(found, one) else "attribute")
        for one in filter(None, members.split(", "))
    ]
    options = "".join(f"\n   .. auto{kind}:: {name}.{one}\n" for one, kind in kinds)
    block = f".. currentmodule:: {module}\n\n.. auto{kind}:: {name}\n{options}"
    return f"# {name.removeprefix('unmix.')}\n```{{eval-rst}}\n{block}```\n{used_in(name)}"


def listed(text: str, page: str) -> str:
    """A page of the reference, with tables of links instead of the objects themselves."""
    names = list[str]()

    def table(match: re.Match[str]) -> str:
        found = [name for _, name, _ in AUTO.findall(match[1])]
        names.extend(found)
        rest = "\n".join(line for line in match[1].splitlines() if line.startswith((".. automodule", "   :no-members")))
        rest = f"```{{eval-rst}}\n{rest}\n```\n" if rest else ""
        rows = [
            f"| [`{name.removeprefix('unmix.')}`](../{place_of(name)}.md) | {first_sentence(name)} |" for name in found
        ]
        return rest + ("\n".join(["| name | summary |", "|---|---|", *rows]) + "\n" if rows else "")

    text = BLOCK.sub(table, text)
    entries = "\n".join(f"{name.removeprefix('unmix.')} <../{place_of(name)}>" for name in names)
    return f"{text}\n```{{toctree}}\n:hidden:\n\n{entries}\n```\n" if names else text


# Commands


def plain(text: str | None) -> str:
    return (text or "").replace("\\[", "[").replace("\b\n", "").strip()


def page_of_command(name: str, command: Any) -> str:
    options = [param for param in command.params if param.param_type_name == "option"]
    arguments = [param for param in command.params if param.param_type_name == "argument"]
    usage = " ".join(["unmix", name, *(param.metavar or param.name.upper() for param in arguments), "[OPTIONS]"])
    parts = [f"# unmix {name}\n{plain(command.help)}\n", f"```text\n{usage}\n```\n"]
    if arguments:
        parts.append(table_of([(f"`{param.metavar}`", plain(param.help)) for param in arguments], "argument"))
    if examples := plain(command.epilog):
        parts.append(f"## Examples\n```text\n{examples}\n```\n")
    for panel in dict.fromkeys(option.rich_help_panel for option in options):
        rows = [(spelled(option), plain(option.help)) for option in options if option.rich_help_panel == panel]
        parts.append(f"## {panel}\n" + table_of(rows, "option"))
    return "\n".join(parts)


def spelled(option: Any) -> str:
    names = [*option.opts, *option.secondary_opts]
    value = option.metavar if option.metavar and not option.is_flag else ""
    choices = getattr(getattr(option, "type", None), "choices", None)
    value = "|".join(map(str, choices)) if choices and not value else value
    return " ".join(
        [", ".join(f"`{name}`" for name in names), f"`{value}`".replace("|", "\\|") if value else ""]
    ).strip()


def table_of(rows: list[tuple[str, str]], head: str) -> str:
    cells = [f"| {left} | {escaped(right)} |" for left, right in rows]
    return "\n".join([f"| {head} | meaning |", "|---|---|", *cells]) + "\n"


def escaped(text: str) -> str:
    return re.sub(r"([|*_<>\[\]])", r"\\\1", " ".join(text.split()))


@cache
def commands() -> dict[str, Any]:
    from unmix.cli.options import program

    return dict(program().commands)


def list_of_commands() -> str:
    rows = []
    for name, command in commands().items():
        about = re.split(r"(?<=\.)\s", plain(command.help).partition("\n\n")[0])[0]
        rows.append((f"[`unmix {name}`](../generated/commands/{name}.md)", about))
    entries = "\n".join(f"../generated/commands/{name}" for name in commands())
    return f"{table_of(rows, 'command')}\n```{{toctree}}\n:hidden:\n\n{entries}\n```\n"


# All together


def generated() -> dict[str, str]:
    """The texts of all generated pages, by name."""
    pages = dict[str, str]()
    for name, (kind, members) in objects().items():
        pages[place_of(name)] = page_of_object(kind, name, members)
    for name, command in commands().items():
        pages[f"generated/commands/{name}"] = page_of_command(name, command)
    for record in RECORDS:
        pages |= pages_of_record(record)
    return pages


def write(app: Any, config: Any) -> None:
    for cached in (sections, anchors, guide_pages, objects):
        cached.cache_clear()
    pages = generated()
    for old in GENERATED.rglob("*.md"):
        if str(old.relative_to(DOCS).with_suffix("")) not in pages:
            old.unlink()
    for name, text in pages.items():
        path = DOCS / f"{name}.md"
        if not path.is_file() or path.read_text(encoding="utf-8") != text:
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_text(text, encoding="utf-8")


def read(app: Any, name: str, source: list[str]) -> None:
    if name in RECORDS:
        source[0] = contents(name)
    elif name.startswith("api/"):
        source[0] = listed(source[0], name)
    elif not name.startswith("generated/"):
        source[0] = source[0].replace("```{commands}\n```", list_of_commands())
        if any(f"{posixpath.basename(record)}.md#" in source[0] for record in RECORDS):
            source[0] = relinked(source[0], name, name)


def outdated(app: Any, env: Any, added: set[str], changed: set[str], removed: set[str]) -> list[str]:
    """Pages that list generated ones, when there is a new one: their own files say nothing of it."""
    new = any(name.startswith("generated/") for name in added | removed)
    return (
        [name for name in env.found_docs if name in RECORDS or name.startswith(("api/", "reference/"))] if new else []
    )


def setup(app: Any) -> dict[str, Any]:
    app.connect("config-inited", write)
    app.connect("env-get-outdated", outdated)
    app.connect("source-read", read)
    return {"parallel_read_safe": True}
