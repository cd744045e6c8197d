"""The report: a template, a style, a script and the data of a fit, combined in one file that asks nothing of a network.

The script and the style are admitted by their hash, and nothing else is: even if a name from the data were ever taken for
markup, a browser would neither run it nor fetch anything for it.
"""

from __future__ import annotations

import base64
import hashlib
import html
import io
import os
import re
import warnings
from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from importlib.resources import files

import numpy as np

from unmix.analysis.application import FitLike, fit_of
from unmix.analysis.results import Result
from unmix.counts.columns import clean
from unmix.fit import Fit
from unmix.registry import ANALYSES
from unmix.report.payload import named_topics, payload, shape_of
from unmix.report.sections import cells, embeddable_json
from unmix.storage.files import replacing

# One scope, in this order; then the scripts of sections that have one, and "main"
SCRIPTS = ["data", "copy", "dom", "state", "figure", "structure", "axis", "walk", "sample", "scatter", "signature"]
SCRIPTS += ["topics", "map", "time", "fit", "reproduce", "section"]


def write_report(
    fit: FitLike,
    path: str | os.PathLike[str],
    *,
    title: str | None = None,
    names: Sequence[str] | Mapping[int, str] | None = None,
    **results: Result | None,
) -> None:
    """Write one HTML file that shows a fit: who has which topics, what is in them, how they were found.

    The file works offline and from disk, and holds all it needs, in at most 15 MB: of more than 20,000 samples a fair part,
    and of the topics all weights above 1e-6 (more, where that would be too much; the report shows this). Proportions are
    rounded to 1/65535, weights of features to 0.03 %.

    Parameters
    ----------
    fit : Fit, estimator or path
        Of any model.
    path : str or PathLike
        Where to, such as "report.html".
    title : str, default=None
        What the report is called.
    names : list of str, or mapping of int to str, default=None
        What topics are called: one for each, or those of some by their numbers, from 1. Names that are given on the report are
        kept in the copy that it saves.
    **results : Result
        Further analyses of this fit, each with a section: `differences`, which also marks the features that are significantly
        different, `stability`, with this fit as `reference`, and `freedom`, which mark the cards of topics, `intervals`,
        `quality` and `choice`.

    Raises
    ------
    ValueError
        If there is no section of that name, an analysis is of a different fit, or names do not fit.
    OSError
        If it cannot be written; what was there is then as it was.

    See Also
    --------
    Fit.with_names, plot.structure, report.write_result

    Examples
    --------
    >>> import unmix as um, tempfile, pathlib
    >>> fit = um.TopicModel(2, random_state=0).fit([[9, 1, 0], [8, 2, 1], [0, 1, 7], [1, 0, 8]]).result_
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     write_report(fit, pathlib.Path(folder, "report.html"), title="Animals")
    ...     pathlib.Path(folder, "report.html").read_text(encoding="utf-8").startswith("<!doctype html>")
    True
    """
    fit = fit_of(fit)
    text = page(fit, title, names=names, results=results)
    with replacing(path) as temporary:
        temporary.write_bytes(text.encode("utf-8", errors="replace"))


@dataclass(frozen=True)
class InlineReport:
    """A report that Jupyter displays: a frame with the whole page in it, which needs no file and no server."""

    title: str
    height: int
    html: str = field(repr=False)

    def __repr__(self) -> str:
        return f"InlineReport({self.title!r}, height={self.height})"

    def _repr_html_(self) -> str:
        style = f"width: 100%; height: {self.height}px; border: 1px solid #8884; border-radius: 8px"
        return f'<iframe srcdoc="{html.escape(self.html)}" title="{html.escape(self.title)}" style="{style}"></iframe>'


def inline(fit: Fit, title: str | None, height: int, results: Mapping[str, Result | None]) -> InlineReport:
    return InlineReport(title_of(fit, title), height, page(fit, title, results=results))


def title_of(fit: Fit, title: str | None) -> str:
    if title is None:
        title = fit.data.get("title") or fit.data.get("source") or f"Topics of {shape_of(fit)}"
    return clean(title)


def page(
    fit: Fit,
    title: str | None = None,
    results: Mapping[str, Result | None] | None = None,
    names: Sequence[str] | Mapping[int, str] | None = None,
) -> str:
    """The text of the report; `results` are those of further analyses, by the names of their sections."""
    if not len(fit.L):
        raise ValueError("this fit has no samples, only topics; a report needs the fit of some counts")
    title = title_of(fit, title)
    names = fit.names.tolist() if names is None and fit.names is not None else names
    style = _static("page.css")
    script = '"use strict";\n(() => {\n' + "\n".join(map(_static, _scripts())) + "})();\n"
    policy = (
        f"default-src 'none'; script-src '{_hash(script)}'; style-src '{_hash(style)}'; img-src data:; "
        "base-uri 'none'; form-action 'none'"
    )
    parts = {
        "title": html.escape(title),
        "policy": policy,
        "style": style,
        "script": script,
        "data": embeddable_json(payload(fit, title, results=results) | {"names": named_topics(names, fit.n_topics)}),
    }
    return re.sub(r"\{\{(\w+)\}\}", lambda match: parts[match[1]], _static("template.html"))


def _scripts() -> list[str]:
    own = [f"{row.stem}.js" for row in ANALYSES.values() if row.section]
    return [*(f"{name}.js" for name in SCRIPTS), *(name for name in own if _is_static(name)), "main.js"]


def _is_static(name: str) -> bool:
    return files("unmix.report").joinpath("static", name).is_file()


def _static(name: str) -> str:
    return files("unmix.report").joinpath("static", name).read_text(encoding="utf-8").replace("\r\n", "\n")


def _hash(text: str) -> str:
    return "sha256-" + base64.b64encode(hashlib.sha256(text.encode()).digest()).decode()


# The report of one result, where there is no fit to show: its advice, its figure, its table. One file, without a script.


def write_result(
    result: Result, path: str | os.PathLike[str], *, title: str | None = None, command: str | None = None
) -> None:
    """Write one HTML file that shows what an analysis found, as text, as a figure and as a table.

    It works offline and from disk, and runs nothing.

    Parameters
    ----------
    result : Result
        From any analysis, such as `unmix.choose_topics` or `unmix.stability`.
    path : str or PathLike
        Where to write, such as "choice.html".
    title : str, default=None
        Title of the report; by default what the analysis answers.
    command : str, default=None
        What made it, if there is something to show.

    Raises
    ------
    OSError
        If it cannot be written; what was there is then as it was.

    See Also
    --------
    write_report

    Examples
    --------
    >>> import pathlib, tempfile, unmix as um
    >>> choice = um.choose_topics([[9, 1, 0], [8, 2, 1], [0, 1, 7], [1, 0, 8]] * 5, range(1, 3), folds=2, random_state=0)
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     um.report.write_result(choice, pathlib.Path(folder, "choice.html"))
    ...     pathlib.Path(folder, "choice.html").stat().st_size > 1000
    True
    """
    about = next((row.summary for row in ANALYSES.values() if row.result == (result.ROW or type(result).__name__)), "")
    style = _static("page.css")
    heads, rows = cells(result.summary)
    facts = {name.replace("_", " "): clean(str(fact)) for name, fact in result.facts.items() if fact is not None}
    parts = {
        "title": html.escape(clean(title or about or type(result).__name__)),
        "policy": f"default-src 'none'; style-src '{_hash(style)}'; img-src data:; base-uri 'none'; form-action 'none'",
        "style": style,
        "facts": "".join(f"<li>{html.escape(name)} <b>{html.escape(fact)}</b></li>" for name, fact in facts.items()),
        "advice": "".join(f"<li>{html.escape(text[:1].upper() + text[1:])}.</li>" for text in result.advice()),
        "picture": _picture(result, about),
        "heads": "".join(f'<th scope="col">{html.escape(head)}</th>' for head in heads),
        "rows": "".join(f"<tr>{''.join(f'<td>{html.escape(cell)}</td>' for cell in cells)}</tr>" for cells in rows),
        "command": "" if command is None else REPRODUCE.format(html.escape(clean(command))),
    }
    text = re.sub(r"\{\{(\w+)\}\}", lambda match: parts[match[1]], _static("result.html"))
    with replacing(path) as temporary:
        temporary.write_bytes(text.encode("utf-8", errors="replace"))


REPRODUCE = '<section class="card"><div class="title-row"><h2>Reproduce</h2></div><pre><code>{}</code></pre></section>'
PICTURE = (
    '<section class="card"><div class="picture"><img alt="{}; the table has the numbers" src="data:{}"></div></section>'
)


def _picture(result: Result, about: str) -> str:
    """As SVG, if there is a figure of such results."""
    file = io.BytesIO()
    with warnings.catch_warnings(), suppress(NotImplementedError):
        warnings.filterwarnings("ignore", message="Glyph")  # a font without the letter: the table has it
        np.ravel(result.plot())[0].figure.canvas.figure.savefig(file, format="svg", metadata={"Date": None})
    source = "image/svg+xml;base64," + base64.b64encode(file.getvalue()).decode()
    return PICTURE.format(html.escape(about), source) if file.getvalue() else ""
