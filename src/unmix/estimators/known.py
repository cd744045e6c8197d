"""What users know of topics, as models take it: a catalogue, seed words, the topics that samples may have."""

from __future__ import annotations

import csv
import hashlib
import os
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from difflib import get_close_matches
from numbers import Integral
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np
import pandas as pd
from numpy.typing import ArrayLike, NDArray

from unmix.base.checks import ParameterError, listed, parameter, plural, real, short, warn
from unmix.base.kinds import mutation_types
from unmix.base.types import Floats, Record, numbered
from unmix.counts.data import Data
from unmix.fit import Fit, quietly
from unmix.models.known import Known

if TYPE_CHECKING:
    from unmix.estimators.base import CountsEstimator

SAID = 5  # words that a message lists
ONE = 1e-9  # by which a column may differ from one and count as a distribution
Seeds = Mapping[str, Sequence[str]]


@dataclass(eq=False, repr=False, kw_only=True)
class Knowing:
    """The parameters of models that take what is known of topics."""

    known: Any = None
    known_weight: float | ArrayLike = float("inf")
    seeds: Seeds | str | os.PathLike[str] | None = None
    seed_weight: float = 0.1


class Catalogue(NamedTuple):
    """Columns of known topics, and the names of features and topics, where there are such."""

    columns: Floats
    features: list[str] | None
    names: list[str]


def catalogue_of(known: Any) -> Catalogue:
    """Known topics in any form that models take."""
    import unmix

    if isinstance(known, str | os.PathLike):
        if Path(known).is_dir() or Path(known).suffix == ".safetensors":
            known = unmix.load(known)
        else:
            known = unmix.io.read.read_catalogue(known)
    if isinstance(known, Fit) or hasattr(known, "result_"):
        fit = known if isinstance(known, Fit) else known.result_
        names = [""] * fit.n_topics if fit.names is None else fit.names.tolist()
        return Catalogue(fit.topics, None if fit.features is None else fit.features.tolist(), names)
    if isinstance(known, pd.DataFrame):
        if not known.columns.is_unique:
            twice = known.columns[known.columns.duplicated()][0]
            raise ValueError(f"two topics of known are called {str(twice)!r}; names must be unique")
        words = [name for name in known if not pd.api.types.is_numeric_dtype(known[name])]
        if len(words) > 1:
            raise ValueError(
                f"the columns {words[0]!r} and {words[1]!r} of known are text; keep one, with the names of features"
            )
        known = known.set_index(words[0]) if words else known
        names = [] if pd.api.types.is_numeric_dtype(known.columns) else [str(name) for name in known]
        plain = isinstance(known.index, pd.RangeIndex)
        features = None if plain else [str(name) for name in known.index]
        columns = known.to_numpy(dtype=np.float64)
    else:
        try:
            columns, features, names = np.asarray(known, dtype=np.float64), None, []
        except (TypeError, ValueError):
            raise ParameterError(
                "known", known, "use features × topics: an array, a DataFrame, a Fit or a file"
            ) from None
    if columns.ndim != 2 or 0 in columns.shape:
        raise ValueError(f"known has shape {columns.shape}; use features × topics, at least one of each")
    names = names or [""] * columns.shape[1]
    _check(columns, features, names)
    return Catalogue(columns, features, names)


def _check(columns: Floats, features: list[str] | None, names: list[str]) -> None:
    bad = ~(np.isfinite(columns) & (columns >= 0))
    if bad.any():
        row, k = np.argwhere(bad)[0]
        where = f"row {row + 1}" if features is None else features[row]
        raise ValueError(f"known topic {names[k] or k + 1} has {columns[row, k]:g} at {where}; use finite numbers >= 0")
    for what, these in (("topics", [name for name in names if name]), ("features", features or [])):
        if len(set(these)) < len(these):
            twice = next(name for name in these if these.count(name) > 1)
            raise ValueError(f"two {what} of known are called {twice!r}; names must be unique")


def columns_for(given: Catalogue, X: Data) -> Floats:
    """Columns over the features of counts, by name, or by place where a side has no names."""
    columns, features, names = given
    m = X.shape[1]
    if features is None or X.features is None:
        if len(columns) != m:
            raise ValueError(
                f"known has {len(columns):,} features and the counts have {m:,}; name both, or use the same number"
            )
        found = columns
    else:
        own = [str(name) for name in X.features]
        if not set(own) & set(features):  # types of mutations have many spellings
            own, features = mutation_types(own), mutation_types(features)
        place = {name: j for j, name in enumerate(features)}
        to = np.array([place.get(name, -1) for name in own])
        if (to < 0).all():
            raise ValueError(
                f"no feature of known ({features[0]} …) has a name that the counts know ({own[0]} …); compare the spelling"
            )
        found = np.where(to[:, None] >= 0, columns[to], 0.0)
        for n, what in (
            (int((to < 0).sum()), "of the counts: known topics have none of them"),
            (len(features) - len(set(to[to >= 0].tolist())), "of known that the counts do not have: omitted"),
        ):
            if n:
                warn(f"{plural(n, 'feature')} {what}")
    if (none := np.flatnonzero(found.sum(axis=0) == 0)).size:
        raise ValueError(f"known topic {names[none[0]] or none[0] + 1} has no weight on the features here; remove it")
    return found


def seeds_of(seeds: Any) -> dict[str, list[str]]:
    """Lists of words by topic, from a dictionary or a file."""
    if isinstance(seeds, str | os.PathLike):
        return read_seeds(seeds)
    if not isinstance(seeds, Mapping):
        raise ParameterError("seeds", seeds, "use a dictionary of lists of words, or a .yaml, .csv or .gmt file")
    found = {}
    for topic, words in seeds.items():
        if isinstance(words, str) or not isinstance(words, Iterable):
            raise ValueError(f"seeds of {topic} are {short(repr(words), 40)}; use a list of words")
        found[str(topic)] = [str(word).strip() for word in words]
    return found


def read_seeds(path: str | os.PathLike[str]) -> dict[str, list[str]]:
    """Lists of words by topic: a .gmt file of gene sets; a .yaml file of lists; or a .csv (.tsv) file, a topic a column under its
    name, or, under the header topic,word, a pair a row."""
    file, ending = Path(path), Path(path).suffix.lower()
    if ending not in (".yaml", ".yml", ".csv", ".tsv", ".gmt"):
        raise ValueError(f"{path}: seeds are read from .yaml, .csv, .tsv or .gmt files")
    if not file.is_file():
        raise FileNotFoundError(f"{path}: no such file; use a .yaml, .csv, .tsv or .gmt file of seeds")
    try:
        text = file.read_text(encoding="utf-8-sig")
    except UnicodeDecodeError:
        raise ValueError(f"{path}: is not text in UTF-8; save it as such") from None
    lines = [(number, line) for number, line in enumerate(text.splitlines(), start=1) if line.strip()]
    pairs: list[tuple[int, str, list[str]]] = []
    if ending in (".yaml", ".yml"):
        pairs = _yaml(path, lines)
    elif ending == ".gmt":
        for number, line in lines:
            cells = [cell.strip() for cell in line.rstrip().split("\t")]
            if len(cells) < 3:
                raise ValueError(
                    f"{path}, line {number}: a gene set is a name, a description and genes, divided by tabs"
                )
            pairs.append((number, cells[0], cells[2:]))
    else:
        rows = list(csv.reader(text.splitlines(), delimiter="," if ending == ".csv" else "\t"))
        rows = [[cell.strip() for cell in row] for row in rows if any(cell.strip() for cell in row)]
        if rows and [cell.lower() for cell in rows[0]] in (["topic", "word"], ["topic", "feature"], ["topic", "gene"]):
            merged: dict[str, list[str]] = {}
            for number, row in enumerate(rows[1:], start=2):
                if len(row) != 2:
                    raise ValueError(f"{path}, row {number}: has {len(row)} cells; use a topic and a word")
                merged.setdefault(row[0], []).append(row[1])
            pairs = [(1, topic, words) for topic, words in merged.items()]
        elif rows:
            width = len(rows[0])
            for number, row in enumerate(rows, start=1):
                if len(row) > width:
                    raise ValueError(f"{path}, row {number}: has {len(row)} cells under {width} topics")
            pairs = [(1, topic, [row[k] for row in rows[1:] if k < len(row)]) for k, topic in enumerate(rows[0])]
    found: dict[str, list[str]] = {}
    for number, topic, words in pairs:
        if not topic:
            raise ValueError(f"{path}, line {number}: a topic without a name")
        if topic in found:
            raise ValueError(f"{path}, line {number}: topic {topic} is there twice")
        found[topic] = [word for word in words if word]
    if not found:
        raise ValueError(f"{path}: holds no seeds")
    return found


def _yaml(path: Any, lines: list[tuple[int, str]]) -> list[tuple[int, str, list[str]]]:
    """What of YAML lists of words need: `topic: [one, two]`, or `topic:` and a line `- word` for each; comments, quotes."""
    found: list[tuple[int, str, list[str]]] = []
    for number, line in lines:
        bare = _without_comment(line).rstrip()
        if not bare.strip() or bare.strip() == "---":
            continue
        inner = bare.strip()
        if inner.startswith("- ") or inner == "-":
            if not found:
                raise ValueError(
                    f"{path}, line {number}: a word before the first topic; begin with a line such as economy:"
                )
            found[-1][2].append(_unquoted(inner[1:]))
            continue
        name, colon, rest = inner.partition(":") if inner[0] not in "\"'" else _quoted_key(inner)
        if not colon or bare[0].isspace():
            raise ValueError(
                f'{path}, line {number}: not a topic; write lines such as "economy: [tax*, jobs]", or "- tax*" below'
            )
        rest = rest.strip()
        if rest and not (rest.startswith("[") and rest.endswith("]")):
            raise ValueError(f"{path}, line {number}: words of {name} are not a list; write [one, two] in a line")
        words = (
            []
            if not rest[1:-1].strip()
            else [_unquoted(word) for word in next(csv.reader([rest[1:-1]], skipinitialspace=True))]
        )
        found.append((number, _unquoted(name), words))
    return found


def _without_comment(line: str) -> str:
    quote = ""
    for at, letter in enumerate(line):
        if quote:
            quote = "" if letter == quote else quote
        elif letter in "\"'":
            quote = letter
        elif letter == "#" and (at == 0 or line[at - 1].isspace()):
            return line[:at]
    return line


def _quoted_key(text: str) -> tuple[str, str, str]:
    end = text.find(text[0], 1)
    name, rest = text[: end + 1], text[end + 1 :].lstrip()
    return name, rest[:1] if rest[:1] == ":" else "", rest[1:]


def _unquoted(text: str) -> str:
    text = text.strip()
    return text[1:-1] if len(text) > 1 and text[0] in "\"'" and text[-1] == text[0] else text


def places_of_seeds(seeds: Seeds, X: Data) -> dict[str, list[int]]:
    """Where the words of each topic are among the features; a star at the end matches any letters."""
    if X.features is None:
        raise ValueError("seeds are found by the names of features, and these counts have none; use counts with names")
    features, occurs = [str(name) for name in X.features], X.feature_totals > 0
    exact = {name: j for j, name in enumerate(features)}
    folded: dict[str, list[int]] = {}
    for j, name in enumerate(features):
        folded.setdefault(name.casefold(), []).append(j)
    in_order = sorted(folded)
    found, absent = {}, []
    for topic, words in seeds.items():
        places: dict[int, None] = {}
        for word in words:
            stem = word.removesuffix("*").casefold()
            if word.endswith("*") and stem:
                first, last = np.searchsorted(np.array(in_order, dtype=object), [stem, stem + chr(0x10FFFF)])
                here = [j for name in in_order[first:last] for j in folded[name]]
            else:
                here = [exact[word]] if word in exact else folded.get(word.casefold(), [])
            here = [j for j in here if occurs[j]]
            places |= dict.fromkeys(here)
            absent += [] if here else [f"{word!r} of {topic}"]
        if not places:
            some = next(iter(words), "")
            near = get_close_matches(some, features, 1)
            hint = f"; did you mean {near[0]!r}?" if near else "; compare the spelling"
            raise ValueError(f"no seed of {topic} is in any sample ({listed([repr(w) for w in words[:SAID]])}){hint}")
        found[topic] = sorted(places)
    if absent:
        more = f", and {len(absent) - SAID} more" if len(absent) > SAID else ""
        warn(f"{plural(len(absent), 'seed')} in no sample: {', '.join(absent[:SAID])}{more}")
    return found


def names_of(model: CountsEstimator) -> list[str]:
    """Of the topics that have a place."""
    known, seeds = getattr(model, "known", None), getattr(model, "seeds", None)
    plain = known is None or not np.any(model.known_weight)
    return [*([] if plain else catalogue_of(known).names), *([] if seeds is None else seeds_of(seeds))]


def digests_of(model: CountsEstimator) -> dict[str, str]:
    """Of the catalogue and of the seeds, for checkpoints."""
    known, seeds, told = getattr(model, "known", None), getattr(model, "seeds", None), {}
    if known is not None:
        columns, features, names = catalogue_of(known)
        told["known"] = hashlib.sha256(repr((features, names)).encode() + columns.tobytes()).hexdigest()[:16]
    if seeds is not None:
        told["seeds"] = repr(seeds_of(seeds))
    return told


def refuse_new(model: CountsEstimator, what: str) -> None:
    """Raises where numbers of topics are compared, and a model has one of its own."""
    if getattr(model, "new", None) is not None:
        raise ValueError(f"{what} does not support new; remove it, and use numbers of topics that count known ones")


def known_topics(model: CountsEstimator, X: Data, *, distributions: bool = False) -> Known | None:
    """What a model is told of topics, over the features of the counts; None if nothing. `distributions`: columns sum to one."""
    given, seeds = getattr(model, "known", None), getattr(model, "seeds", None)
    if given is None and seeds is None:
        return None
    m, K = X.shape[1], model.n_components
    names: list[str] = []
    columns, held, extra = np.zeros((m, 0)), np.zeros(0, dtype=bool), np.zeros((m, 0))
    if given is not None:
        catalogue = catalogue_of(given)
        names, G = catalogue.names, len(catalogue.names)
        if G > K:
            raise ValueError(
                f"known has {G} topics and {parameter('n_components', K)}; use at least {G}, or choose some of them"
            )
        weights = _weights(model.known_weight, G)
        if not weights.any():
            names = []
        else:
            columns, held = columns_for(catalogue, X), np.isinf(weights)
            sums = columns.sum(axis=0)
            if distributions:
                columns = np.where(np.abs(sums - 1) <= ONE, columns, columns / sums)
            columns = np.where(held, columns, columns / sums)
            extra = np.where(held, 0.0, columns) * np.where(held, 0.0, weights)
    words: dict[str, tuple[str, ...]] = {}
    if seeds is not None:
        lists = seeds_of(seeds)
        if both := [name for name in lists if name in names]:
            raise ValueError(f"seeds= and known= both name topic {both[0]}; keep one")
        if len(names) + len(lists) > K:
            what = (
                f"known and seeds have {len(names)} and {len(lists)} topics"
                if names
                else f"seeds have {len(lists)} topics"
            )
            raise ValueError(f"{what} and {parameter('n_components', K)}; use at least {len(names) + len(lists)}")
        weight = real("seed_weight", model.seed_weight, 0)
        places = places_of_seeds(lists, X)
        starts, more = _seeded(X.feature_totals, list(places.values()))
        names = [*names, *lists]
        columns, held = np.hstack([columns, starts]), np.append(held, np.zeros(len(lists), dtype=bool))
        extra = np.hstack([extra, weight * more])
        own = numbered(X.features, "feature", m)
        words = {topic: tuple(str(own[j]) for j in at) for topic, at in places.items()}
    return Known(tuple(names), columns, held, extra, words) if names else None


def _weights(given: Any, topics: int) -> Floats:
    try:
        weights = np.broadcast_to(np.asarray(given, dtype=np.float64), (topics,))
    except (TypeError, ValueError):
        weights = np.array([np.nan])
    if np.isnan(weights).any() or (weights < 0).any():
        raise ParameterError("known_weight", given, f"use a number >= 0, inf to hold topics, or one of {topics} each")
    return weights


def _seeded(totals: Floats, places: list[list[int]]) -> tuple[Floats, Floats]:
    """Where seeded topics start: half what all samples have without seeds, half the topic's seeds; and the counts of those."""
    rest = totals.copy()
    rest[[j for at in places for j in at]] = 0
    rest = rest / max(rest.sum(), 1e-300)
    counts = np.zeros((len(totals), len(places)))
    for k, at in enumerate(places):
        counts[at, k] = totals[at]
    return 0.5 * rest[:, None] + 0.5 * counts / counts.sum(axis=0), counts


def allowed_topics(X: Data, given: Any, names: list[str], n_topics: int) -> tuple[NDArray[np.bool_], list[str]]:
    """Samples × topics, whether each may be there, and what topics are called. From such a table; or from a label per sample, a
    topic's name: a sample with one may have that topic, and those without a name."""
    n = X.shape[0]
    if isinstance(given, pd.DataFrame):
        given = given.to_numpy()
    if not isinstance(given, str) and np.ndim(given) == 2:
        table = np.asarray(given)
        if table.shape != (n, n_topics) or not np.isin(table, (0, 1)).all():
            raise ValueError(
                f"allowed has shape {table.shape}; use true or false for {n:,} samples × {n_topics} topics, or labels"
            )
        return table.astype(bool), names
    labels = _labels(X, given)
    told = [label for label in dict.fromkeys(labels) if label]
    if not names:
        names = sorted(told)
        if len(names) > n_topics:
            raise ValueError(f"allowed has {len(names)} labels and n_components={n_topics}; use at least {len(names)}")
    place = {name: k for k, name in enumerate(names) if name}
    if unknown := [label for label in told if label not in place]:
        raise ValueError(f"allowed names {unknown[0]!r}, which is no topic of known or seeds ({listed(names[:SAID])})")
    table = np.ones((n, n_topics), dtype=bool)
    for i, label in enumerate(labels):
        if label:
            table[i, list(place.values())] = False
            table[i, place[label]] = True
    return table, names


def _labels(X: Data, given: Any) -> list[str]:
    """ "" for a sample without one."""
    from unmix.counts.multipliers import labels_of

    if isinstance(given, str):
        if X.metadata is None or given not in X.metadata:
            labels_of(X, given, "allowed")  # which says what there is
        given = X.metadata[given]  # type: ignore[index]
    values = pd.Series(np.asarray(given, dtype=object))
    if len(values) != X.shape[0]:
        raise ValueError(f"allowed has {len(values):,} labels for {X.shape[0]:,} samples; use one label per sample")
    return ["" if missing else str(value).strip() for value, missing in zip(values, values.isna(), strict=True)]


def named_only(X: Data, names: list[str]) -> Known:
    """Topics of which no more is known than that they have a name."""
    overall = (X.feature_totals / X.total)[:, None] * np.ones(len(names))
    return Known(tuple(names), overall, np.zeros(len(names), dtype=bool), np.zeros(overall.shape))


def beside_catalogue(model: CountsEstimator, X: Data, of_samples: Record) -> tuple[CountsEstimator, Fit]:
    """New topics in addition to a whole catalogue, of which every sample has few: known ones are assigned, new ones found, all
    assigned, new ones refitted within those sets, and all assigned once more."""
    import unmix

    given, new = catalogue_of(model.known), model.new
    G = len(given.names)
    named = [name or f"topic {k + 1}" for k, name in enumerate(given.names)]
    table = pd.DataFrame(columns_for(given, X), index=X.features, columns=named)
    one = type(model)(**model.get_params(deep=False) | {"new": None, "n_components": G + new, "n_init": 1})
    seed = model.random_state if isinstance(model.random_state, Integral) else 0
    allowed = np.ones((X.shape[0], G + new), dtype=bool)

    def assigned(catalogue: pd.DataFrame) -> None:
        found = unmix.assign(
            X, catalogue if X.features is not None else catalogue.to_numpy(), random_state=int(seed)
        ).allowed
        allowed[:, : found.shape[1]] = found
        allowed[~allowed.any(axis=1)] = True  # a sample without counts

    assigned(table)
    for _ in range(2):
        with quietly():  # it need not converge
            fit = one.fit(X, **of_samples, allowed=allowed).result_
        more = pd.DataFrame(fit.topics[:, G:], index=X.features, columns=[f"new {k + 1}" for k in range(new)])
        assigned(pd.concat([table, more], axis=1))
        start = fit.L + 1e-3 * X.sample_totals[:, None] / (fit.F.sum(axis=0) * (G + new))  # none of them zero
        one.set_params(init=(start, fit.F))
    fit = one.fit(X, **of_samples, allowed=allowed).result_
    return one, fit.with_names([*given.names, *[f"new {k + 1}" for k in range(new)]])
