"""The page: a template, a style, a script and the data of a fit, put together in one file that asks nothing of a network.

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
from collections.abc import Mapping, Sequence
from importlib.resources import files

from unmix.analysis import Differences, Freedom, Stability
from unmix.analysis.choose import Choice
from unmix.analysis.results import Result
from unmix.fit import Fit
from unmix.report.metadata import clean, embeddable_json
from unmix.report.payload import named_topics, payload
from unmix.report.sections import SECTIONS
from unmix.storage.files import replacing

SCRIPTS = (
    *("data", "copy", "dom", "state"),
    *("structure", "axis", "walk", "sample", "topics", "map", "time", "fit", "reproduce"),
    *SECTIONS,
    "main",
)  # one scope, in this order


def write_report(
    fit: Fit,
    path: str | os.PathLike[str],
    *,
    title: str | None = None,
    differences: Differences | None = None,
    stability: Stability | None = None,
    freedom: Freedom | None = None,
    names: Sequence[str] | Mapping[int, str] | None = None,
) -> None:
    """Write one HTML file that shows a fit: who has which topics, what is in them, how they were found.

    The file works offline and from disk, and holds all it needs, in at most 15 MB: of more than 20,000 samples a fair part,
    and of the topics all weights above 1e-6 (more, where that would be too much; the page says so). Proportions are rounded
    to 1/65535, weights of features to 0.03 %.

    Parameters
    ----------
    fit : Fit
        Of any model.
    path : str or PathLike
        Where to, such as "report.html".
    title : str, default=None
        What the page is called.
    differences : Differences, default=None
        From `unmix.differences`: also shows what sets topics apart, and marks the features that surely do.
    stability : Stability, default=None
        From `unmix.stability`, with this fit as `reference`: also shows which topics are found again, and marks their cards.
    freedom : Freedom, default=None
        From `unmix.freedom`: also shows between which values proportions can move, and marks the cards of topics.
    names : list of str, or mapping of int to str, default=None
        What topics are called: one for each, or those of some by their numbers, from 1. Names that are given on the page are
        kept in the copy that it saves.

    Raises
    ------
    ValueError
        If an analysis is of another fit, or names do not fit.
    OSError
        If it cannot be written; what was there is then as it was.

    See Also
    --------
    Fit.with_names, plot.structure, report.write_choice

    Examples
    --------
    >>> import unmix as um, tempfile, pathlib
    >>> fit = um.TopicModel(2, random_state=0).fit([[9, 1, 0], [8, 2, 1], [0, 1, 7], [1, 0, 8]]).result_
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     write_report(fit, pathlib.Path(folder, "report.html"), title="Animals")
    ...     pathlib.Path(folder, "report.html").read_text(encoding="utf-8").startswith("<!doctype html>")
    True
    """
    text = page(
        fit, title, names=names, results={"differences": differences, "stability": stability, "freedom": freedom}
    )
    with replacing(path) as temporary:
        temporary.write_bytes(text.encode("utf-8", errors="replace"))


def page(
    fit: Fit,
    title: str | None = None,
    results: Mapping[str, Result | None] | None = None,
    names: Sequence[str] | Mapping[int, str] | None = None,
) -> str:
    """The text of the page; `results` are those of further analyses, by the names in `SECTIONS`."""
    title = clean(title if title is not None else fit.data.get("title") or fit.data.get("source") or "Topics")
    names = fit.names.tolist() if names is None and fit.names is not None else names
    style = _static("page.css")
    script = '"use strict";\n(() => {\n' + "\n".join(_static(f"{name}.js") for name in SCRIPTS) + "})();\n"
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


def _static(name: str) -> str:
    return files("unmix.report").joinpath("static", name).read_text(encoding="utf-8").replace("\r\n", "\n")


def _hash(text: str) -> str:
    return "sha256-" + base64.b64encode(hashlib.sha256(text.encode()).digest()).decode()


# The page of a choice: the suggestion in words, the picture, the table. One file, without a script.

MORE = """
.answer { font-size: 2.6rem; font-weight: 650; line-height: 1.1; padding: 0 0.4rem; }
.said { display: grid; gap: 0.7rem; padding: 0.4rem; font-size: 0.9rem; }
.picture { background: #fff; border-radius: 8px; padding: 0.6rem; }
.picture img { display: block; width: 100%; max-width: 900px; margin: 0 auto; }
tr.suggested { font-weight: 650; }
"""
HEADS = {
    "topics": "topics",
    "perplexity": "perplexity",
    "delta": "below the best",
    "error": "± error",
    "gain": "gain a topic, ‰",
    "loglik": "fitted",
    "lightest": "lightest topic",
    "converged": "converged",
    "seconds": "seconds",
}
FORMATS = {"topics": "{:.0f}", "perplexity": "{:,.2f}", "gain": "{:,.3f}", "lightest": "{:.1%}", "converged": "{:.0%}"}


def write_choice(
    choice: Choice, path: str | os.PathLike[str], *, title: str | None = None, command: str | None = None
) -> None:
    """Write one HTML file that shows what `unmix.choose_topics` found, in words, as a picture and as a table.

    It works offline and from disk, and runs nothing.

    Parameters
    ----------
    choice : Choice
        From `unmix.choose_topics`.
    path : str or PathLike
        Where to, such as "choice.html".
    title : str, default=None
        What the page is called.
    command : str, default=None
        What made it, if there is something to show.

    Raises
    ------
    OSError
        If it cannot be written; what was there is then as it was.

    Examples
    --------
    >>> import pathlib, tempfile, unmix as um
    >>> choice = um.choose_topics([[9, 1, 0], [8, 2, 1], [0, 1, 7], [1, 0, 8]] * 5, range(1, 3), folds=2, random_state=0)
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     um.report.write_choice(choice, pathlib.Path(folder, "choice.html"))
    ...     pathlib.Path(folder, "choice.html").stat().st_size > 1000
    True
    """
    text = choice_page(choice, clean(title if title is not None else "How many topics?"), command)
    with replacing(path) as temporary:
        temporary.write_bytes(text.encode("utf-8", errors="replace"))


def choice_page(choice: Choice, title: str, command: str | None) -> str:
    style = _static("page.css") + MORE
    policy = f"default-src 'none'; style-src '{_hash(style)}'; img-src data:; base-uri 'none'; form-action 'none'"
    facts = {
        "model": choice.model,
        "samples": f"{choice.samples:,}",
        "counts foretold": f"{choice.held_out:,.0f}",
        "folds": f"{choice.folds_done} of {choice.folds}",
    }
    parts = {
        "title": html.escape(title),
        "policy": policy,
        "style": style,
        "suggested": str(choice.suggested),
        "facts": "".join(f"<li>{html.escape(name)} <b>{html.escape(fact)}</b></li>" for name, fact in facts.items()),
        "said": "".join(
            f"<li>{html.escape(sentence[:1].upper() + sentence[1:])}.</li>" for sentence in choice.advice()
        ),
        "picture": base64.b64encode(picture(choice)).decode(),
        "table": table(choice),
        "command": "" if command is None else REPRODUCE.format(html.escape(clean(command))),
    }
    return TEMPLATE.format(**parts)


def picture(choice: Choice) -> bytes:
    from unmix.plot.curves import panels_of

    file = io.BytesIO()
    panels_of(choice)[0].figure.savefig(file, format="svg", metadata={"Date": None})
    return file.getvalue()


def table(choice: Choice) -> str:
    heads = "".join(f'<th scope="col">{head}</th>' for head in HEADS.values())
    rows = []
    for _, row in choice.table.iterrows():
        cells = "".join(f"<td>{_shown(name, row[name])}</td>" for name in HEADS)
        rows.append(f"<tr{' class=suggested' * bool(row['topics'] == choice.suggested)}>{cells}</tr>")
    return f'<table class="grid"><thead><tr>{heads}</tr></thead><tbody>{"".join(rows)}</tbody></table>'


def _shown(name: str, value: float) -> str:
    return "" if value != value else FORMATS.get(name, "{:,.1f}").format(value).replace("-", "−")


REPRODUCE = '<section class="card"><div class="title-row"><h2>Reproduce</h2></div><pre><code>{}</code></pre></section>'
TEMPLATE = """<!doctype html>
<html lang="en">
<head>
<meta charset="utf-8">
<meta http-equiv="Content-Security-Policy" content="{policy}">
<meta name="viewport" content="width=device-width, initial-scale=1">
<meta name="color-scheme" content="light dark">
<meta name="generator" content="unmix">
<title>{title} · unmix</title>
<style>{style}</style>
</head>
<body>
<header>
  <div class="brand">
    <span class="mark" aria-hidden="true"><i></i><i></i><i></i></span><span class="unmix">unmix</span>
    <h1>{title}</h1>
  </div>
  <ul id="facts" aria-label="At a glance">{facts}</ul>
</header>
<div id="layout">
  <aside id="rail">
    <section aria-labelledby="suggested-title">
      <div class="title-row"><h2 id="suggested-title">Topics suggested</h2></div>
      <p class="answer">{suggested}</p>
      <ul class="said">{said}</ul>
    </section>
  </aside>
  <main>
    <section class="card" aria-labelledby="picture-title">
      <div class="title-row"><h2 id="picture-title">How well counts are foretold that the fits have not seen</h2></div>
      <div class="picture"><img alt="Held-out log-likelihood by number of topics; the table has the numbers"
        src="data:image/svg+xml;base64,{picture}"></div>
      <p class="hint">Above: log-likelihood of held-out counts, less that of the best, with its standard error paired by sample;
        linear near the best, logarithmic far below. Grey: the same of the counts that were fitted, which always rises. Below: how
        large the topics are.</p>
    </section>
    <section class="card" aria-labelledby="table-title">
      <div class="title-row"><h2 id="table-title">The numbers</h2></div>
      <div class="scroll">{table}</div>
      <p class="hint">Log-likelihood of held-out counts below that of the best, with its standard error; what a topic more gains
        per 1,000 counts; log-likelihood of the counts that were fitted; the share of the lightest topic; part of the fits that
        converged; seconds of all folds.</p>
    </section>
    {command}
  </main>
</div>
<footer class="hint">Made by unmix. This page is one file: it loads nothing and sends nothing.</footer>
</body>
</html>
"""
