"""What a user sees in the command line: one-line notes and complaints, the table of topics, descriptions. Or, with --json, what
a machine reads."""

from __future__ import annotations

import json as json_module
import os
import shlex
import sys
from collections.abc import Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, contextmanager, nullcontext, suppress
from importlib import import_module
from math import isfinite
from pathlib import Path
from typing import TYPE_CHECKING, Any, cast

from rich.console import Console
from rich.table import Table
from rich.text import Text

import unmix as um
from unmix.base import progress
from unmix.base.checks import ParameterError, percent, plural
from unmix.base.kinds import size
from unmix.base.memory import gigabytes

if TYPE_CHECKING:
    import pandas as pd

    from unmix.base.types import Names
    from unmix.counts.counts import Counts
    from unmix.counts.shards import Shards
    from unmix.fit import Fit

WORDS_SHOWN = 8


class Module:
    """A heavy module, imported when something of it is first asked for, as are the names of `unmix` itself."""

    def __init__(self, name: str) -> None:
        self.__name = name

    def __getattr__(self, name: str) -> Any:
        return getattr(import_module(self.__name), name)


readers, writing = Module("unmix.io.read"), Module("unmix.io.write")
matching, fits = Module("unmix.estimators.features"), Module("unmix.analysis.application")


class Invocation:
    """This run of the program: its arguments, set by `main`, and how it speaks, set by the command."""

    arguments: Sequence[str] = ()
    quiet = False
    json = False


def speak(*, quiet: bool = False, json: bool = False) -> None:
    Invocation.quiet, Invocation.json = quiet, json


def command_line() -> str:
    return shlex.join(["unmix", *Invocation.arguments])


def silent() -> bool:
    return Invocation.quiet or Invocation.json


def reports() -> bool:
    """Whether to report progress: to a terminal, to a log, or to a machine."""
    return not Invocation.quiet


def answer(content: Mapping[str, Any]) -> None:
    """One JSON object, if that was asked for."""
    if Invocation.json:
        plain = not (sys.stdout.encoding or "").lower().startswith("utf")
        text = json_module.dumps(_finite(content), ensure_ascii=plain, indent=2, default=str)
        try:
            print("".join(c if c.isprintable() or c == "\n" else json_module.dumps(c)[1:-1] for c in text), flush=True)
        except BrokenPipeError:
            mute(sys.stdout)


def _finite(value: Any) -> Any:
    """JSON has no word for NaN: null."""
    if isinstance(value, Mapping):
        return {key: _finite(inner) for key, inner in value.items()}
    if isinstance(value, list):
        return [_finite(inner) for inner in value]
    return None if isinstance(value, float) and not isfinite(value) else value


class Terminal(Console):
    """Continues in silence where its text cannot be written: behind `| head -1`, or on a full disk. Results are written."""

    def print(self, *objects: Any, **how: Any) -> None:
        try:
            super().print(*objects, **how)
        except OSError as error:
            self.on_broken_pipe()
            if self.file is not sys.stderr:
                complain(
                    f"standard output cannot be written ({error.strerror or error}); the command continues without it"
                )

    def on_broken_pipe(self) -> None:
        self.quiet = True
        mute(self.file)


def mute(stream: Any) -> None:
    """Let what is still to be written to a stream vanish; otherwise Python complains when it ends."""
    with suppress(OSError, ValueError):
        os.dup2(os.open(os.devnull, os.O_WRONLY), stream.fileno())


def write_any_text() -> None:
    """Letters that the encoding of a stream lacks are replaced, in cp1252 or ASCII; they never end a command."""
    for stream in (sys.stdout, sys.stderr):
        with suppress(AttributeError, ValueError):
            stream.reconfigure(errors="replace")  # type: ignore[union-attr]


def console(*, stderr: bool = False) -> Console:
    """A console that takes text literally: names from files may look like markup."""
    return Terminal(stderr=stderr, markup=False, highlight=False, emoji=False)


def say(text: str) -> None:
    if not silent():
        console().print(printable(text), soft_wrap=True)


def note(text: str) -> None:
    """A warning, in one line."""
    console(stderr=True).print(Text("note: ", style="yellow") + Text(printable(text)), soft_wrap=True)


def complain(text: str) -> None:
    """What was wrong, in one line."""
    with suppress(OSError):
        print(f"error: {printable(text)}", file=sys.stderr)


@contextmanager
def errors_about(path: Path | str) -> Iterator[None]:
    """What was wrong with its contents names the file; what was wrong with an option names the option."""
    try:
        yield
    except ParameterError:
        raise
    except ValueError as error:
        raise ValueError(f"{path}: {error}") from error


def printable(text: str) -> str:
    """One line without control characters, which a name from a file may have."""
    return "".join(c if c.isprintable() else "�" for c in " ".join(text.split()))


def described(counts: Counts | Shards) -> str:
    names = (counts.samples if counts.in_memory else None, counts.features)
    shape = size(*counts.shape, text=bool(counts.text), names=names)
    return f"{shape}, {Module('unmix.counts.counts').amount(counts.total)} counts"


def say_reading(counts: Counts | Shards) -> None:
    """How a file was read, where there was a choice."""
    if counts.reading:
        say(f"read as: {counts.reading}")


def working(text: str) -> AbstractContextManager[Any]:
    """A sign of life while something takes time."""
    if Invocation.quiet:
        return nullcontext()
    if progress.is_live():
        return console(stderr=True).status(Text(printable(text)))
    return progress.working(printable(text))


def topics(fit: Fit) -> None:
    """One line per topic, the heaviest first: swatch, number, share and top features."""
    if silent():
        return
    terminal, colors, words = console(), um.plot.topic_colors(fit), _top_words(fit)
    lines = [Text(), Text(" topic   share  top features", style="bold")]
    for k in um.analysis.topic_order(fit):
        name = f"{fit.names[k]}: " if fit.names is not None and fit.names[k] else ""
        told = f"{k + 1:<4}{percent(fit.shares[k]):>7}  {printable(name + ', '.join(words[k]))}"
        line = Text(" ■ ", style=colors[k]) + Text(told, style="default")
        line.truncate(terminal.width, overflow="ellipsis")
        lines.append(line)
    terminal.print(*lines, Text(), sep="\n")


def _top_words(fit: Fit) -> list[list[str]]:
    """The top features of every topic."""
    features = fit.top_features(WORDS_SHOWN)
    return [features.loc[features["topic"] == k + 1, "feature"].tolist() for k in range(fit.n_topics)]


def last_row(fit: Fit) -> Mapping[str, Any]:
    """Of the trace; as if nothing had been done where there is none, as of topics that were given."""
    return fit.trace.iloc[-1] if len(fit.trace) else {"iteration": 0, "seconds": 0.0, "objective": float("nan")}


def describe_data(data: Counts | Shards) -> dict[str, str]:
    """Of shards, without reading more than the first of them."""
    n, m = data.shape
    known, fractions = data.facts, data.fractional
    samples = data.samples if data.in_memory else next(data.parts()).samples
    described = {"read as": data.reading} if data.in_memory and data.reading else {}
    described |= {
        "samples": f"{n:,}" + examples(samples),
        "features": f"{m:,}" + examples(data.features),
        "nonzeros": f"{data.nnz:,} ({data.nnz / (n * m):.3%} of all entries)",
        "total": Module("unmix.counts.counts").amount(data.total),
        "looks like counts": "yes" if not fractions else f"no: {fractions:.1%} of the nonzeros are not whole numbers",
        "without counts": f"{plural(known['empty_samples'], 'sample')}, {plural(known['empty_features'], 'feature')}",
    }
    if data.metadata is not None:
        described["metadata"] = ", ".join(map(str, data.metadata))
    if data.in_memory:
        return described
    shards = cast("Shards", data)
    assert shards.folder is not None
    taken = sum(file.stat().st_size for file in shards.folder.glob("*.safetensors"))
    return described | {
        "shards": f"{shards.n_shards:,} of up to {plural(shards.rows_per_shard, 'sample')}, {gigabytes(taken)}, "
        f"{taken / max(1, shards.nnz):.2f} bytes a nonzero",
        "fits start from": plural(len(shards.sample), "sample"),
        "checksum": known["checksum"],
    }


def describe_fit(fit: Fit) -> dict[str, str]:
    from unmix.analysis.advice import figures

    return {
        "model": f"{fit.params.get('model', 'Poisson NMF')} with {plural(fit.n_topics, 'topic')}",
        "samples": f"{len(fit.L):,}" + examples(fit.samples),
        "features": f"{len(fit.F):,}" + examples(fit.features),
        **figures(fit),
        "parameters": ", ".join(f"{key}={value}" for key, value in fit.params.items() if key != "model"),
        "versions": ", ".join(f"{name} {version}" for name, version in fit.versions.items()),
    }


def data_as_json(data: Counts | Shards) -> dict[str, Any]:
    columns = [] if data.metadata is None else [str(name) for name in data.metadata]
    known = {"samples": data.shape[0], "features": data.shape[1]} | dict(data.facts)
    known |= {"looks_like_counts": data.fractional == 0, "metadata": columns}
    if not data.in_memory:
        return known | {"rows_per_shard": cast("Shards", data).rows_per_shard, "start": len(data.sample)}
    named = {"sample_names": data.samples is not None, "feature_names": data.features is not None}
    return known | {"read_as": data.reading} | named


def fit_as_json(fit: Fit) -> dict[str, Any]:
    last = last_row(fit)
    return {
        "model": fit.params.get("model"),
        "samples": len(fit.L),
        "features": len(fit.F),
        "n_topics": fit.n_topics,
        "status": fit.status,
        "iterations": int(last["iteration"]),
        "seconds": float(last["seconds"]),
        "loglik": fit.loglik,
        "objective": float(last["objective"]),
        "kkt": fit.kkt,
        "remaining_gain": fit.remaining_gain,
        "topics": [
            {"topic": k + 1, "name": fit.labels[k], "share": float(fit.shares[k]), "top_features": words}
            for k, words in enumerate(_top_words(fit))
        ],
        "notes": fit.advice(),
        "parameters": fit.params,
        "data": {name: fact for name, fact in fit.data.items() if name != "reference"},
        "versions": fit.versions,
    }


def facts(named: Mapping[str, str]) -> None:
    if silent():
        return
    table = Table(box=None, show_header=False, pad_edge=False)
    table.add_column(style="bold", no_wrap=True)
    table.add_column(overflow="fold")
    for name, fact in named.items():
        table.add_row(name, Text(printable(fact)))
    console().print(table)


def table(rows: pd.DataFrame) -> None:
    """A table as it is, its columns as text and its numbers short."""
    if silent():
        return
    shown = Table(box=None, pad_edge=False)
    for name in rows:
        shown.add_column(
            Text(printable(str(name).replace("_", " "))), justify="left" if rows[name].dtype == object else "right"
        )
    for row in rows.itertuples(index=False):
        shown.add_row(*(Text(printable(_brief(value))) for value in row))
    console().print(shown)


def _brief(value: Any) -> str:
    if isinstance(value, float) and isfinite(value):
        return f"{value:.3f}"
    return "–" if str(value) in ("None", "nan", "<NA>") else str(value)


def rows(table: pd.DataFrame) -> list[dict[str, Any]]:
    """For `answer`: null where nothing is known."""
    plain = table.astype(object).where(table.notna(), None)
    return [{str(name): value for name, value in row.items()} for row in plain.to_dict("records")]


def examples(names: Names | None) -> str:
    return "" if names is None else f" ({', '.join(names[:3])}{', …' if len(names) > 3 else ''})"
