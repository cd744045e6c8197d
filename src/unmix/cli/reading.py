"""How INPUT is read: the options of it, the same in every command that has an INPUT, and what comes of them."""

from __future__ import annotations

import inspect
from collections.abc import Callable
from functools import wraps
from pathlib import Path
from typing import TYPE_CHECKING, Any, cast, get_type_hints

import unmix as um
from unmix.base.memory import IN_MEMORY, gigabytes
from unmix.cli import options, show
from unmix.cli.show import readers

if TYPE_CHECKING:
    from unmix.counts.counts import Counts
    from unmix.counts.shards import Shards

Options = dict[str, tuple[Any, Any]]  # their types and defaults, by their names in `unmix.read`

ALWAYS: Options = {
    "layer": (options.Layer, None),
    "raw": (options.Raw, False),
    "transpose": (options.Transpose, None),
    "encoding": (options.Encoding, None),
    "text_column": (options.TextColumn, None),
    "id_column": (options.IdColumn, None),
    "title_column": (options.TitleColumn, None),
    "skip_bad": (options.SkipBad, False),
}
WORDS: Options = {  # which are those of a model where there is one
    "min_df": (options.MinDf, None),
    "max_df": (options.MaxDf, None),
    "stop_words": (options.StopWords, "english"),
    "ngrams": (options.Ngrams, 1),
}
METADATA: Options = {"metadata": (options.Metadata, None)}
SNIPPETS: Options = {"snippets": (options.Snippets, False)}


def reads(*more: Options) -> Callable[[Callable[..., None]], Callable[..., None]]:
    """A command with these options besides those that every INPUT has; it is given all of them as one dictionary, `reading`."""
    kinds: Options = {name: kind for group in (ALWAYS, *more) for name, kind in group.items()}

    def decorate(command: Callable[..., None]) -> Callable[..., None]:
        @wraps(command)
        def with_reading(**given: Any) -> None:
            reading = _understood({name: given.pop(name) for name in kinds})
            command(**given, reading=reading)

        own, hints = inspect.signature(command).parameters, get_type_hints(command, include_extras=True)
        parameters = [one.replace(annotation=hints[name]) for name, one in own.items() if name != "reading"]
        for name, (kind, default) in kinds.items():
            parameters.append(inspect.Parameter(name, inspect.Parameter.KEYWORD_ONLY, default=default, annotation=kind))
        with_reading.__signature__ = inspect.Signature(parameters)  # type: ignore[attr-defined]
        with_reading.__annotations__ = {one.name: one.annotation for one in parameters}
        return with_reading

    return decorate


def _understood(reading: dict[str, Any]) -> dict[str, Any]:
    """What the terminal calls otherwise."""
    if "min_df" in reading:
        for name in ("min_df", "max_df"):
            reading[name] = options.documents(f"--{name.replace('_', '-')}", reading[name])
        reading["stop_words"] = None if reading["stop_words"] == "none" else reading["stop_words"]
    return reading


def anndata_contents(path: Path) -> tuple[dict[str, str], list[str]]:
    """The matrices and the columns of obs in an AnnData file; nothing for other files, and for what cannot be opened."""
    from unmix.io.read import h5ad

    if path.suffix.lower() != ".h5ad" and not (path.is_dir() and h5ad.is_zarr(path)):
        return {}, []
    try:
        return h5ad.contents(path)
    except (ValueError, OSError, KeyError, MemoryError):
        return {}, []  # `read` will say what is wrong


def read_counts(path: Path, *, aloud: bool = True, **reading: Any) -> Counts:
    with show.working(f"reading {path}"):
        counts = um.read(path, **reading)
    if isinstance(counts, um.Shards):
        raise ValueError(
            f"{path}: a folder of shards, which this command does not take; give a file of counts, such as of some of the samples"
        )
    if aloud:
        show.say(f"read {path}: {show.described(counts)}")
    return counts


def counts_or_shards(path: Path, reading: dict[str, Any], allowed: float | None) -> tuple[str, Counts | Shards]:
    """What to fit, and the call in Python that reads it: a folder of shards as it is, and a file whose fit would need more memory
    than `allowed` (16 GB by default) as shards of it, made in the current folder. Free memory has no say: fits of counts and of
    shards are two algorithms."""

    if readers.is_shards(path):
        shards = cast("Shards", um.read(path, **reading))
        show.say(f"opened {path}: {show.described(shards)}, {show.plural(shards.n_shards, 'shard')}")
        return in_python("um.read", [path], reading), shards
    options = {name: value for name, value in reading.items() if name != "snippets"}
    most = IN_MEMORY if allowed is None else allowed
    known = {name: value for name, value in options.items() if name != "metadata"}
    needed, folder = readers.memory_for(path, **known), Path(f"{readers.name_of(path)}.shards")
    if needed is None or needed <= most:
        return in_python("um.read", [path], reading), read_counts(path, **reading)
    show.say(
        f"a fit of {path} in memory would need {gigabytes(needed)}, more than {gigabytes(most)}: making shards of it, {folder}"
    )
    if reading["snippets"]:
        show.note("shards keep no beginnings of texts: --snippets is left aside")
    with show.working(f"making {folder}"):
        shards = um.shard(path, folder, **options)
    show.say(f"wrote {folder}: {show.described(shards)}, {show.plural(shards.n_shards, 'shard')}")
    return in_python("um.shard", [path, folder], options), shards


def in_python(function: str, paths: list[Path], reading: dict[str, Any]) -> str:
    """The call that gives the same counts; options at their defaults are left out."""
    words = {name: str(value) if isinstance(value, Path) else value for name, value in reading.items()}
    given = [f"{name}={value!r}" for name, value in words.items() if value != getattr(um.ReadOptions, name, None)]
    return f"{function}({', '.join([*(repr(str(path)) for path in paths), *given])})"
