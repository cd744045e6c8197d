"""What a person sees in the terminal: one-line notes and complaints, the table of topics, descriptions."""

from __future__ import annotations

import sys
from collections.abc import Mapping
from math import isnan
from typing import TYPE_CHECKING

from rich.console import Console
from rich.status import Status
from rich.table import Table
from rich.text import Text

if TYPE_CHECKING:
    from unmix.counts import Counts
    from unmix.fit import Fit

WORDS_SHOWN = 8
OBJECTIVES = {
    "LDA": "Lower bound of log p(X)",
    "GammaPoisson": "Lower bound of log p(X)",
    "BayesianPoissonNMF": "Lower bound of log p(X)",
    "AllocationModel": "log p(S)",
}


def console(*, stderr: bool = False) -> Console:
    """A console that takes text literally: names from files may look like markup."""
    return Console(stderr=stderr, markup=False, highlight=False, emoji=False)


def say(text: str) -> None:
    console().print(printable(text), soft_wrap=True)


def note(text: str) -> None:
    """A warning, in one line."""
    console(stderr=True).print(Text("note: ", style="yellow") + Text(printable(text)), soft_wrap=True)


def complain(text: str) -> None:
    """What was wrong, in one line."""
    print(f"error: {printable(text)}", file=sys.stderr)


def printable(text: str) -> str:
    """One line without control characters, which a name from a file may have."""
    return "".join(c if c.isprintable() else "�" for c in " ".join(text.split()))


def plural(n: int, thing: str) -> str:
    return f"{n:,} {thing}{'' if n == 1 else 's'}"


def described(counts: Counts) -> str:
    n, m = counts.shape
    return f"{plural(n, 'sample')} × {plural(m, 'feature')}, {counts.total:,.10g} counts"


def working(text: str) -> Status:
    """A sign of life while something takes time; nothing where the output is not a terminal."""
    return console().status(Text(printable(text)))


def topics(fit: Fit) -> None:
    """A line a topic, the heaviest first: swatch, number, share and top features."""
    from unmix.plot.structure import topic_colours, topic_order

    terminal, colours, features = console(), topic_colours(fit), fit.top_features(WORDS_SHOWN)
    lines = [Text(), Text(" topic   share  top features", style="bold")]
    for k in topic_order(fit):
        words = ", ".join(features.loc[features["topic"] == k + 1, "feature"])
        line = Text(" ■ ", style=colours[k]) + Text(
            f"{k + 1:<4}{fit.shares[k]:>7.1%}  {printable(words)}", style="default"
        )
        line.truncate(terminal.width, overflow="ellipsis")
        lines.append(line)
    terminal.print(*lines, Text(), sep="\n")


def outcome(fit: Fit) -> str:
    """How the fit ended, in one line."""
    last = fit.trace.iloc[-1]
    name = OBJECTIVES.get(fit.params.get("model", ""))
    maximised = f"{name} {last['objective']:,.1f}. " if name else ""
    verb = {"converged": "converged", "max_iter": "stopped", "interrupted": "interrupted"}[fit.status]
    return (
        f"{verb} after {plural(last['iteration'], 'iteration')}, {last['seconds']:.1f} s. "
        f"{maximised}Poisson log-likelihood {fit.loglik:,.1f}{'' if isnan(fit.kkt) else f', KKT {fit.kkt:.1g}'}."
    )


def describe_counts(counts: Counts) -> dict[str, str]:
    n, m = counts.shape
    known = counts.facts
    fractions, no_samples, no_features = (known[key] for key in ("fractional", "empty_samples", "empty_features"))
    facts = {
        "samples": f"{n:,}" + _examples(counts.samples),
        "features": f"{m:,}" + _examples(counts.features),
        "nonzeros": f"{counts.nnz:,} ({counts.nnz / (n * m):.3%} of all entries)",
        "total": f"{counts.total:,.10g}",
        "looks like counts": "yes" if not fractions else f"no: {fractions:.1%} of the nonzeros are not whole numbers",
        "without counts": f"{plural(no_samples, 'sample')}, {plural(no_features, 'feature')}",
    }
    if counts.metadata is not None:
        facts["metadata"] = ", ".join(map(str, counts.metadata.columns))
    return facts


def describe_fit(fit: Fit) -> dict[str, str]:
    model, last = fit.params.get("model", "Poisson NMF"), fit.trace.iloc[-1]
    return {
        "model": f"{model} with {plural(fit.n_topics, 'topic')}",
        "samples": f"{len(fit.L):,}" + _examples(fit.samples),
        "features": f"{len(fit.F):,}" + _examples(fit.features),
        **({name: f"{fit.trace['objective'].iloc[-1]:,.2f}"} if (name := OBJECTIVES.get(model)) else {}),
        "log-likelihood": f"{fit.loglik:,.2f} (Poisson)",
        "KKT residual": "none for this model" if isnan(fit.kkt) else f"{fit.kkt:.2g}",
        "status": f"{fit.status} after {last['iteration']} iterations, {last['seconds']:.1f} s",
        "parameters": ", ".join(f"{key}={value}" for key, value in fit.params.items() if key != "model"),
        "versions": ", ".join(f"{name} {version}" for name, version in fit.versions.items()),
    }


def facts(named: Mapping[str, str]) -> None:
    table = Table(box=None, show_header=False, pad_edge=False)
    table.add_column(style="bold", no_wrap=True)
    table.add_column(overflow="fold")
    for name, fact in named.items():
        table.add_row(name, Text(printable(fact)))
    console().print(table)


def _examples(names) -> str:
    return "" if names is None else f" ({', '.join(names[:3])}{', …' if len(names) > 3 else ''})"
