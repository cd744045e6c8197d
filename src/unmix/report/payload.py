"""What the report shows: the data of a fit by section, and the names that users give to topics."""

from __future__ import annotations

import csv
import inspect
import json
import shlex
from collections.abc import Mapping, Sequence
from pathlib import Path

import numpy as np
import pandas as pd
from scipy.cluster.hierarchy import leaves_list, linkage
from scipy.spatial.distance import squareform

from unmix.analysis import (
    distinctive_features,
    fair_sample,
    lifts,
    similarity_order,
    topic_distances,
    topic_map,
    topic_order,
    typical_samples,
)
from unmix.analysis.advice import figures
from unmix.analysis.differences import Differences
from unmix.analysis.prevalence import batch_summary, effect_remarks, prevalence
from unmix.analysis.results import Result
from unmix.base.checks import ENDS, percent, plural
from unmix.base.kinds import looks_like, size
from unmix.base.types import Floats, Integers
from unmix.counts.columns import LONGEST_NAME, Column, clean, columns_of
from unmix.fit import Fit
from unmix.plot import palette, topic_colors
from unmix.plot.samples import principal_axes
from unmix.plot.signature import in_layout, layout_of
from unmix.registry import ANALYSES, MODELS, estimator_class
from unmix.report.sections import (
    Json,
    cells,
    marked,
    packed,
    quantised_proportions,
    quantised_weights,
    rounded,
    section,
    size_of,
    taken,
    timeline,
)

LONGEST = 80  # letters of a topic's name, as in the fields of the report


def named_topics(names: Sequence[str] | Mapping[int, str] | None, n_topics: int) -> dict[str, str]:
    """Names by the place of their topic, from 0, without those that are empty."""
    if names is None:
        return {}
    if not isinstance(names, Mapping):
        if isinstance(names, str) or len(names) != n_topics:
            raise ValueError(f"{len(names)} names for {n_topics} topics; use one each, or a mapping for some")
        names = dict(enumerate(names, start=1))
    if unknown := [number for number in names if number not in range(1, n_topics + 1)]:
        raise ValueError(f"names: there is no topic {unknown[0]!r}; this fit has topics 1 to {n_topics}")
    texts = {str(number - 1): " ".join(str(name).split())[:LONGEST] for number, name in names.items()}
    return {place: name for place, name in texts.items() if name}


def read_names(path: Path) -> Sequence[str] | dict[int, str]:
    """From .json, a list of names or an object of them by number as the report saves it, or .csv, a number and a name per
    row."""
    try:
        text = path.read_text(encoding="utf-8-sig")
        if path.suffix.lower() == ".csv":
            rows = [row for row in csv.reader(text.splitlines()) if row]
            rows = rows if rows[0][0].strip().isdecimal() else rows[1:]  # without its headings
            return {int(row[0]): row[1] for row in rows}
        given = json.loads(text)
        if wrong := [
            name for name in (given if isinstance(given, list) else given.values()) if not isinstance(name, str)
        ]:
            raise ValueError(f"{wrong[0]!r} is not a valid name")
        return given if isinstance(given, list) else {int(number): name for number, name in given.items()}
    except (ValueError, IndexError, AttributeError) as error:
        remedy = 'use .json such as {"1": "economy"}, or .csv with a number and a name per row'
        raise ValueError(f"{path}: holds no names of topics ({error}); {remedy}") from None


# Topics as the report takes them: of each its most distinctive and heaviest features and all above a threshold, names once.

DISTINCTIVE = 30  # features of each topic that the report lists, in the order of `Fit.top_features`
HEAVIEST = 300  # features of each topic that are sent whatever their weight
SMALLEST_WEIGHT = 1e-6
BYTES_OF_ENTRY = 32 / 3  # two uint16 and a float32 as base64


def topics_payload(fit: Fit, room: float) -> Json:
    """The weights of features in topics, in at most about `room` bytes: a lower bound on weights is raised until they fit.

    Each topic is a run of entries in the order of the features: the distance from the last feature to this one, the
    quantised weight, and the lift. A distance that uint16 cannot hold is bridged by an entry without weight.
    """
    topics, all_names, best = fit.topics, fit.feature_names, distinctive_features(fit, DISTINCTIVE)
    heaviest = np.argpartition(-topics, min(HEAVIEST, len(topics) - 1), axis=0)[:HEAVIEST]
    always = np.zeros(topics.shape, dtype=bool)
    np.put_along_axis(always, heaviest, True, axis=0)
    always &= quantised_weights(topics) > 0
    for k, rows in enumerate(best):
        always[rows, k] = True
    smallest = SMALLEST_WEIGHT
    while True:
        kept = always | (topics > smallest)
        used = np.flatnonzero(kept.any(axis=1))
        names = [clean(all_names[j]) for j in used]
        if BYTES_OF_ENTRY * kept.sum() + 3 * len(used) + size_of(names) <= room or smallest >= 1:
            break
        smallest *= 10**0.5
    times = lifts(fit)[used]
    bridges = np.arange(65535, len(used), 65535)
    entries = []
    for k in range(fit.n_topics):
        places = np.union1d(np.flatnonzero(kept[used, k]), bridges)
        codes = np.where(kept[used[places], k], quantised_weights(topics[used[places], k]), 0).astype(np.uint16)
        entries.append((np.diff(places, prepend=0).astype(np.uint16), codes, times[places, k].astype(np.float32)))
    steps, weights, entry_lifts = (packed(np.concatenate(parts)) for parts in zip(*entries, strict=True))
    return {
        "names": names,
        "distinctive": [np.searchsorted(used, rows).tolist() for rows in best],
        "overall": packed(quantised_weights(topics[used] @ fit.shares)),
        "counts": [len(steps) for steps, _, _ in entries],
        "steps": steps,
        "weights": weights,
        "lifts": entry_lifts,
        "smallest": float(f"{smallest:.2g}"),
        "left_out": int((topics > 0).sum() - kept.sum()),
    }


# How a fit was made, so that it can be recomputed: command, Python, parameters, versions, data.

FACTS = {
    "source": "source",
    "shards": "fitted from shards",
    "nonzeros": "nonzeros",
    "total": "total of all counts",
    "empty_samples": "samples without counts",
    "empty_features": "features without counts",
    "checksum": "checksum",
}


def recipe(fit: Fit) -> Json:
    command = fit.data.get("command")
    if isinstance(command, list | tuple):
        command = shlex.join(map(str, command))
    return {
        "command": None if command is None else str(command),
        "python": python_snippet(fit),
        "params": _pairs({key: value for key, value in fit.params.items() if key != "model"}),
        "versions": _pairs(fit.versions),
        "data": _pairs({label: fit.data[key] for key, label in FACTS.items() if fit.data.get(key) is not None}),
    }


def python_snippet(fit: Fit) -> str:
    """Lines that fit the same model again; only parameters that differ from their defaults are spelled out."""
    source = fit.data.get("source")
    data = fit.data.get("python") or (f"um.read({str(source)!r})" if source else "um.read(...)  # the counts")
    if assigned := fit.data.get("assigned"):
        return f"import unmix as um\n\nX = {data}\nfit = {assigned}.fit"
    name = str(fit.params.get("model", ""))
    if name not in MODELS:
        return f'import unmix as um\n\nX = {data}\nfit = um.load("model.safetensors")'
    known = inspect.signature(estimator_class(name)).parameters
    arguments = f"n_components={fit.n_topics!r}"
    for key, value in fit.params.items():
        if key in known and key not in ("n_components", "verbose") and value != known[key].default:
            arguments += f", {key}={value!r}"
    return f"import unmix as um\n\nX = {data}\nmodel = um.{name}({arguments}).fit(X)\nfit = model.result_"


def _pairs(facts: Mapping[str, object]) -> list[list[str]]:
    return [[clean(key), _shown(value)] for key, value in facts.items()]


def _shown(value: object) -> str:
    if isinstance(value, float) and abs(value) < 1e15 and value == round(value):
        return f"{value:,.0f}"
    return f"{value:,}" if isinstance(value, int) and not isinstance(value, bool) and value > 9999 else clean(value)


# A fit -> everything the report shows, as one object that JSON can hold.

MOST_SAMPLES = 20_000
MOST_BYTES = 14_500_000  # of data in a page of at most 15 MB
BYTES_FOR_TOPICS = 2_000_000  # which metadata may not take from the topics
BYTES_OF_PROPORTION = 8 / 3  # a uint16 as base64
MOST_TRACE_ROWS = 1_500  # more do not show in a figure


def payload(
    fit: Fit,
    title: str,
    largest: int = MOST_BYTES,
    most_samples: int = MOST_SAMPLES,
    results: Mapping[str, Result | None] | None = None,
) -> Json:
    """All of the report in at most about `largest` bytes; what was omitted for that is said in `notes`. `results` are those of
    further analyses, each of which has a section of its own."""
    typical = typical_samples(fit)
    with_room = max(1, int(largest / 2 / (BYTES_OF_PROPORTION * fit.n_topics)))
    shown = np.union1d(
        fair_sample(fit.proportions.argmax(axis=1), min(most_samples, with_room)), np.concatenate(typical)
    )
    notes = []
    if len(shown) < len(fit.L):
        notes.append(
            f"The report shows {len(shown):,} of the {len(fit.L):,} samples: a fair part of those of each largest topic, and "
            "the most typical ones of each. Typical samples, shares and means over time come from all of them."
        )
    page = {
        "title": title,
        "model": str(fit.params.get("model", "Poisson NMF")),
        "shape": [len(fit.L), len(fit.F), fit.n_topics],
        "status": fit.status,
        "palettes": [palette(12), palette(12, dark=True)],
        "glance": _glance(fit),
        "figures": list(figures(fit).items()),
        "advice": fit.advice(),
        **_topics(fit),
        **_trace(fit),
        "reproduce": recipe(fit),
        "samples": _samples(fit, shown, typical),
    }
    if bars := _signature(fit):
        page["signature"] = bars
    given = {name: result for name, result in (results or {}).items() if result is not None}
    columns = columns_of(fit.metadata)
    page |= {name: section(name, fit, result) for name, result in given.items()}
    if "prevalence" not in given and (means := _means(fit, columns)):
        page["prevalence"] = means[0] | {"others": means[1:]}
    page["sections"] = [row.stem for row in ANALYSES.values() if row.stem in page]
    if batches := _effects(fit):
        page["batch_effects"] = batches
        page["sections"].insert(0, "batch_effects")
    page["glance"][-1:-1] = [span for column in columns if column.tells_time for span in [_span(column)]][:1]
    lines = [timeline(column, fit.proportions) for column in columns if column.tells_time]
    page["time"] = [line for line in lines if line is not None]
    room = largest - size_of(page) - BYTES_FOR_TOPICS
    page["columns"], dropped = _within([taken(column, shown) for column in columns], room)
    if dropped:
        notes.append(f"To limit its size, the report omits these columns of metadata: {', '.join(dropped)}.")
    page["features"] = features = topics_payload(fit, largest - size_of(page))
    if isinstance(differences := given.get("differences"), Differences):
        page["differences"]["marks"] = marked(differences, features["names"])
    if features["left_out"]:
        notes.append(
            f"Weights of features below {features['smallest']:g} in a topic are omitted from the report, except for the "
            f"{HEAVIEST} largest of each topic: {features['left_out']:,} in all."
        )
    named = [names for names in (fit.samples, fit.features) if names is not None]
    if any(len(str(name)) > LONGEST_NAME for names in named for name in names):
        notes.append(f"Names are cut after {LONGEST_NAME} letters.")
    return page | {"notes": notes}


MOST_MEANS = 4_000  # rows of means by group, of all columns together
MOST_GROUPS = 20  # of a column


def _means(fit: Fit, columns: list[Column]) -> list[Json]:
    """Means by group for every column of few groups, until there are enough."""
    if fit.n_topics == 1 or not fit.sizes.any():
        return []
    found: list[Json] = []
    rows = 0
    for column in columns:
        if column.kind != "text" or not column.can_group or not 2 <= column.distinct <= MOST_GROUPS:
            continue
        rows += fit.n_topics * column.distinct
        if found and rows > MOST_MEANS:
            break
        codes = np.where(np.isnan(column.values), -1, column.values).astype(np.intp)
        by = pd.Series(pd.Categorical.from_codes(codes, column.levels), name=column.name)
        found.append(section("prevalence", fit, prevalence(fit, by=by, examples=0)))
    return found


def _span(column: Column) -> str:
    """From the first to the last time, such as 1790–2021."""
    first, last = column.known.min(), column.known.max()
    if column.kind == "date":
        return "–".join(str(np.datetime64(int(at), "ms"))[:10] for at in (first, last))
    return f"{first:g}–{last:g}"


def _effects(fit: Fit) -> Json | None:
    """The section on effects of batches, where a fit has such."""
    table = batch_summary(fit)
    if table.empty:
        return None
    heads, rows = cells(table.rename(columns={"sd": "sd of log effects", "up": "raised", "down": "lowered"}))
    return {"title": "Effects of batches on features", "advice": effect_remarks(fit), "heads": heads, "rows": rows}


def _signature(fit: Fit) -> Json | None:
    """Types of mutations in the order and colours of the field, and the shares of each topic; None of other features."""
    if fit.features is None or looks_like(fit.features.tolist())[1] != "mutation types":
        return None
    try:
        layout = layout_of(fit.features.tolist())
    except ValueError:  # types of several kinds, or of wider contexts
        return None
    return {
        "kind": layout.kind,
        "groups": [
            {"label": group.label, "heading": group.heading, "colours": group.colors} for group in layout.groups
        ],
        "names": layout.features,
        "heights": [rounded(in_layout(fit, layout, shares), 4) for shares in fit.topics.T],
    }


def _glance(fit: Fit) -> list[str]:
    """What the head of the report says: size, topics, how the fit ended; where samples have times, `payload` adds their
    span."""
    return [shape_of(fit), plural(fit.n_topics, "topic"), ENDS[fit.status]]


def shape_of(fit: Fit) -> str:
    """Such as "233 documents × 10,065 words"."""
    return size(len(fit.L), len(fit.F), text=bool(fit.text), names=(fit.samples, fit.features))


def _topics(fit: Fit) -> Json:
    distances, means = topic_distances(fit), fit.proportions.mean(axis=0)
    colors, dark, shares, names = (
        topic_colors(fit),
        topic_colors(fit, dark=True),
        rounded(fit.shares),
        _given_names(fit),
    )
    given = _known_before(fit)
    return {
        "topics": [
            {"colour": colors[k], "dark": dark[k], "share": shares[k], "mean": rounded(means)[k], "name": names[k]}
            | {"said": {"share": percent(fit.shares[k]), "mean": percent(means[k])}}
            | ({"known": given[k]} if k in given else {})
            for k in range(fit.n_topics)
        ],
        "order": topic_order(fit).tolist(),
        "map": {
            "places": [rounded(place, 4) for place in topic_map(distances)],
            "distances": packed(quantised_proportions(distances)),
            "order": (_leaves(distances) if fit.n_topics > 2 else topic_order(fit)).tolist(),
        },
    }


SEEDS = 8  # words of a seeded topic that are shown


def _known_before(fit: Fit) -> dict[int, str]:
    """What was known of topics before the fit, by their numbers from 0."""
    given = fit.data.get("known") or {}
    seeds, found = given.get("seeds", {}), {}
    for k, (name, held) in enumerate(zip(given.get("names", []), given.get("held", []), strict=True)):
        if words := seeds.get(name):
            found[k] = f"seeds: {', '.join(clean(word) for word in words[:SEEDS])}{', …' if len(words) > SEEDS else ''}"
        else:
            found[k] = "known, and held as it is" if held else "partly known"
    return found


def _leaves(distances: Floats) -> Integers:
    """Topics in an order in which similar ones are neighbours: the leaves of a tree."""
    return leaves_list(linkage(squareform(distances, checks=False), method="average", optimal_ordering=True))


def _given_names(fit: Fit) -> list[str]:
    return [""] * fit.n_topics if fit.names is None else [clean(name) for name in fit.names]


def _samples(fit: Fit, shown: Integers, typical: list[Integers]) -> Json:
    return {
        **_scatter(fit, shown),
        "names": [clean(name) for name in fit.sample_names[shown]],
        "named": fit.samples is not None,
        "sizes": packed(fit.sizes[shown].astype(np.float32)),
        "proportions": packed(quantised_proportions(fit.proportions[shown])),
        "similarity": packed(similarity_order(fit.proportions[shown]).astype(np.uint32)),
        "typical": [np.searchsorted(shown, some).tolist() for some in typical],
    }


LEAST_EXPLAINED = 0.25  # of the variance, for principal components to show more than a few odd samples


def _scatter(fit: Fit, shown: Integers) -> Json:
    """Places of samples on their two principal components, or among topics where these explain little; and the extent of
    both."""
    proportions = fit.proportions[shown]
    if fit.n_topics < 3 or len(shown) < 4:
        return {}
    places, axes = principal_axes(np.sqrt(proportions))
    parts = [axis.partition("(")[2].rstrip("%)") for axis in axes]
    if sum(map(float, parts)) >= 100 * LEAST_EXPLAINED:
        explained = f"first two principal components of √proportions ({' and '.join(parts)}% of their variance)"
    else:
        places = proportions @ topic_map(topic_distances(fit))
        explained = "mean of the places of topics on the map of topics, weighted by its proportions"
    places -= places.min(axis=0)
    extent = max(float(places.max()), 1e-12)
    return {
        "places": packed(quantised_proportions(places / extent)),
        "spans": rounded(np.maximum(places.max(axis=0) / extent, 1e-3), 4),
        "explained": explained,
    }


def _trace(fit: Fit) -> Json:
    """The figure that the trace follows: the log-likelihood where it is known throughout, else the model's objective."""
    trace = fit.trace
    known = "loglik" in trace and len(trace) > 0 and bool(trace["loglik"].notna().all())
    column = "loglik" if known else "objective"
    rows = _thinned(trace)
    iterations = rows["iteration"] if "iteration" in rows else range(len(rows))
    return {
        "trace": {
            "name": "log-likelihood" if known else fit.objective or "objective",
            "iterations": [int(i) for i in iterations],
            "seconds": rounded(_numbers(rows, "seconds")),
            "values": rounded(_numbers(rows, column), 12),
            "kkt": rounded(_numbers(rows, "kkt"), 3),
            "stages": _texts(rows, "stage"),
            "notes": _texts(rows, "note"),
        }
    }


def _thinned(trace: pd.DataFrame) -> pd.DataFrame:
    """Every so manieth row, but all starts, all moves and the last row."""
    if len(trace) <= MOST_TRACE_ROWS:
        return trace
    kept = np.arange(len(trace)) % -(-len(trace) // MOST_TRACE_ROWS) == 0
    if "stage" in trace:
        kept |= trace["stage"].isin(["start", "refine"]).to_numpy()
    kept[-1] = True
    return trace[kept]


def _numbers(table: pd.DataFrame, column: str) -> Floats:
    return table[column].to_numpy(dtype=float) if column in table else np.full(len(table), np.nan)


def _texts(table: pd.DataFrame, column: str) -> list[str]:
    return [clean(text) for text in table[column].fillna("")] if column in table else [""] * len(table)


def _within(columns: list[Json], room: float) -> tuple[list[Json], list[str]]:
    """The columns without the largest, until they have space; and the names of those omitted."""
    sizes = [size_of(column) for column in columns]
    dropped: list[int] = []
    for place in sorted(range(len(columns)), key=lambda place: -sizes[place]):
        if sum(sizes) - sum(sizes[i] for i in dropped) > room:
            dropped.append(place)
    kept = [column for place, column in enumerate(columns) if place not in dropped]
    return kept, [columns[place]["name"] for place in sorted(dropped)]
