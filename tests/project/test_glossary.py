"""Plain English: words that readers of other projects would not know are counted on every surface, and may only become fewer.

`FORBIDDEN` have no legitimate use and occur nowhere. `DIALECT` are ordinary words in an unusual sense; some of their uses are
legitimate, so each surface has a bound, which a step that rewords it lowers.
"""

from __future__ import annotations

import ast
import io
import re
import tokenize
from collections.abc import Callable
from functools import cache
from pathlib import Path

import pytest
from conftest import ROOT

SOURCE = ROOT / "src" / "unmix"
FORBIDDEN = {
    r"foretell\w*|foretold|foresee\w*|foresaw": "predict",
    r"\banew\b|\bafresh\b": "again, from scratch",
    r"\baloud\b": "warn",
    r"\bmend(?:s|ed|ing)?\b": "fix",
    r"\b(?:gone|going) on (?:with|after|from)\b|\bgoes on from\b": "resume",
    r"\bbroken off\b|\bbreaks? off\b": "interrupted",
    r"\bleft to gain\b": "remaining gain",
    r"\bby turns\b": "alternating, interleaved",
    r"\b(?:made|found|drawn|fitted) again\b": "reproduced, recovered, resampled, refitted",
    r"(?<!there )\b(?:is|are) no (?:counts?|names?|places?|amount|fit|folder|number|prior|matrix|model|label)\b": "is not a",
    r"\bmeans? nothing\b|\bdoes not mean anything\b": "does not apply, is invalid",
    r"\bnobody\b|\bsomebody\b|\beverybody\b|\bwhoever\b": "say who, or passive",
    r"\ba row a \w+": "per",
    r"\b(?:one|row|column|line|panel|number|name|value|label|count|pass) a "
    r"(?:sample|topic|feature|count|column|row|iteration|cell|line|document|run)\b": "per",
    r"\bseconds an iteration\b|\bnats a count\b|\ba second an? \w+": "per",
    r"\btak(?:es?|en|ing) (?:a matrix|matrices|counts) apart\b|\btaken apart\b": "factorise",
    r"\bbears? more topics\b": "supports",
}
DIALECT = {
    r"\bstands?\b|\blies\b|\blay\b|\bstood\b": "is, is stored",
    r"\btells?\b|\btold\b": "report, print, show",
    r"\bthe page\b": "the HTML report",
    r"\bgo(?:es)? on\b|\bgone on\b|\bgoing on\b": "continue, resume",
    r"\bso many\b|\bas many\b": "that many, the same number of",
    r"\balike\b|\blikeness\b": "equal, similar, similarity",
    r"\bbeside\b": "next to, compared with, in addition to",
    r"\bhardly\b|\bfor ever\b|\bwholly\b": "almost no, always, all",
    r"\bleft (?:out|aside|as (?:it|they))\b|\bleav(?:e|es|ing) (?:it |them )?out\b": "omitted, ignored; remove",
    r"\b(?:its|their|your|an?) own\b|\bof (?:its|their|your) own\b": "custom, separate",
    r"\b(?:is|are|of|in) another\b|\banother one\b": "different",
    r"\bsays? so\b|\bin words\b": "reports this, as text",
    r"\bpeople\b|\ba person\b|\bone knows\b": "users, you",
    r"\bthe least\b|\bthe lesser\b|\bmost iterations\b": "minimum, maximum",
    r"\bsurely\b|\bsurer\b|\bsurest\b": "significant, certain",
    r"\bsets? (?:\w+ )?apart\b": "distinguish",
    r"\bleft open\b|\bleaves? (?:\w+ )?open\b": "not identified",
    r"\bsooner\b|\bsoonest\b": "faster, fastest",
    r"\btopics hold\b|\bintervals hold\b|\bthat hold\b": "are stable, cover",
    r"\bto the last bit\b|\bthe same bits\b": "bit-identical",
    r"\bput together\b": "combine",
    r"\bsome (?:dozens?|hundreds?|thousands?)\b": "about 50, hundreds of",
    r"\bby the clock\b|\bof the processor\b": "wall time, CPU time",
    r"\bspoil(?:s|ed)?\b": "corrupt",
    r"\bdealt\b|\bdeals? out\b": "split, assigned",
    r"\bno (?:\w+ )?can tell\b|\bwhat becomes of\b": "unknown; how … change",
    r"; give\b": "use, pass",
    r"\bthe terminal\b": "the command line",
    r"\bdoors?\b|\bhouse\b|\brooms?\b": "validation, architecture, package",
    r"\bpictures?\b": "figure, plot",
}
# At most that many hits on each surface, of FORBIDDEN and of DIALECT; a step that rewords one lowers its number.
BOUNDS = {
    "messages": (0, 6),
    "help": (0, 0),
    "docstrings": (0, 161),
    "comments": (0, 45),
    "report": (0, 56),
    "docs": (1, 212),  # one is a word of the newsgroups
    "readme": (0, 22),
}

Place = tuple[str, int, str]  # file, line, text


@cache
def trees() -> dict[Path, ast.Module]:
    return {file: ast.parse(file.read_text(encoding="utf-8")) for file in sorted(SOURCE.rglob("*.py"))}


@cache
def literals() -> tuple[list[Place], list[Place]]:
    """String literals of the source: messages and other texts, and docstrings."""
    texts, docs = [], []
    for file, tree in trees().items():
        documented = set()
        for node in ast.walk(tree):
            body = getattr(node, "body", None)
            for one in body if isinstance(body, list) else []:
                if (
                    isinstance(one, ast.Expr)
                    and isinstance(one.value, ast.Constant)
                    and isinstance(one.value.value, str)
                ):
                    documented.add(one.value)
        for node in ast.walk(tree):
            if isinstance(node, ast.Constant) and isinstance(node.value, str):
                (docs if node in documented else texts).append((str(file.relative_to(ROOT)), node.lineno, node.value))
    return texts, docs


def messages() -> list[Place]:
    return [place for place in literals()[0] if " " in place[2]]


def docstrings() -> list[Place]:
    return literals()[1]


def comments() -> list[Place]:
    found = []
    for file in trees():
        for token in tokenize.generate_tokens(io.StringIO(file.read_text(encoding="utf-8")).readline):
            if token.type == tokenize.COMMENT:
                found.append((str(file.relative_to(ROOT)), token.start[0], token.string))
    return found


def help_texts() -> list[Place]:
    from unmix.cli import options

    found = []
    for name, command in options.program().commands.items():
        texts = [command.help or "", *(getattr(param, "help", "") or "" for param in command.params)]
        found += [(f"unmix {name} --help-all", 0, text) for text in texts]
    return found


def files(*patterns: str) -> Callable[[], list[Place]]:
    def read() -> list[Place]:
        found = []
        for pattern in patterns:
            for file in sorted(ROOT.glob(pattern)):
                if {"_build", "generated"} & {*file.parts} or file.name == "CHANGELOG.md":
                    continue
                lines = file.read_text(encoding="utf-8").splitlines()
                found += [(str(file.relative_to(ROOT)), number, line) for number, line in enumerate(lines, 1)]
        return found

    return read


SURFACES: dict[str, Callable[[], list[Place]]] = {
    "messages": messages,
    "help": help_texts,
    "docstrings": docstrings,
    "comments": comments,
    "report": files("src/unmix/report/static/*.html", "src/unmix/report/static/*.js"),
    "docs": files("docs/**/*.md"),
    "readme": files("README.md", "CONTRIBUTING.md", "SECURITY.md", "CITATION.cff", "pyproject.toml"),
}


def hits(surface: str, patterns: dict[str, str]) -> list[str]:
    """Every hit, with its place and the plain word."""
    found = []
    for file, line, text in SURFACES[surface]():
        plain = " ".join(text.split())
        for pattern, instead in patterns.items():
            for match in re.finditer(pattern, plain, re.IGNORECASE):
                around = plain[max(match.start() - 50, 0) : match.end() + 30]
                found.append(f"{file}:{line}: {match[0]!r} -> {instead}   … {around} …")
    return found


needs_source = pytest.mark.skipif(not SOURCE.is_dir(), reason="there is no source tree, as where a wheel is tried")


@needs_source
@pytest.mark.parametrize("surface", SURFACES)
def test_words_without_legitimate_use_are_gone(surface: str) -> None:
    assert len(hits(surface, FORBIDDEN)) <= BOUNDS[surface][0], hits(surface, FORBIDDEN)


@needs_source
@pytest.mark.parametrize("surface", SURFACES)
def test_words_in_an_unusual_sense_become_fewer(surface: str) -> None:
    assert len(hits(surface, DIALECT)) <= BOUNDS[surface][1]


def test_a_word_in_an_unusual_sense_is_found(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(SURFACES, "readme", lambda: [("x", 1, "It foretells\n counts; one row a sample lies there.")])
    assert [hit.split("'")[1] for hit in hits("readme", FORBIDDEN)] == ["foretells", "row a sample"]
    assert [hit.split("'")[1] for hit in hits("readme", DIALECT)] == ["lies"]


if __name__ == "__main__":
    import sys

    for surface in SURFACES:
        both = [hits(surface, FORBIDDEN), hits(surface, DIALECT)]
        print(surface, *map(len, both), file=sys.stderr)
        print(f"== {surface}", *both[0], "--", *both[1], sep="\n")
