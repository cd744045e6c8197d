"""A fit -> everything the page shows, as one object that JSON can hold."""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np
import pandas as pd

from unmix.analysis import fair_sample, similarity_order, topic_distances, topic_map, topic_order, typical_samples
from unmix.analysis.results import Result
from unmix.analysis.summary import figures
from unmix.fit import Fit
from unmix.plot import topic_colours
from unmix.report.encode import LONGEST_NAME, Json, clean, packed, quantised_proportions, rounded, size_of
from unmix.report.features import HEAVIEST, topics_payload
from unmix.report.metadata import columns_of
from unmix.report.reproduce import recipe
from unmix.report.sections import SECTIONS, told
from unmix.report.timeline import timeline
from unmix.types import Floats, Integers
from unmix.words import ENDS, objective, percent, plural, size

MOST_SAMPLES = 20_000
MOST_BYTES = 14_500_000  # of data in a page of at most 15 MB
BYTES_FOR_TOPICS = 2_000_000  # which metadata may not take from the topics
BYTES_OF_PROPORTION = 8 / 3  # a uint16 as base64
MOST_TRACE_ROWS = 1_500  # more do not show in a picture


def payload(
    fit: Fit,
    title: str,
    largest: int = MOST_BYTES,
    most_samples: int = MOST_SAMPLES,
    results: Mapping[str, Result | None] | None = None,
) -> Json:
    """All of the page in at most about `largest` bytes; what was left out for that is said in `notes`. `results` are those of
    further analyses, each of which has a section of its own."""
    typical = typical_samples(fit)
    with_room = max(1, int(largest / 2 / (BYTES_OF_PROPORTION * fit.n_topics)))
    shown = np.union1d(fair_sample(fit.proportions.argmax(axis=1), min(most_samples, with_room)), typical.ravel())
    notes = []
    if len(shown) < len(fit.L):
        notes.append(
            f"The page holds {len(shown):,} of the {len(fit.L):,} samples: a fair part of those of each largest topic, and "
            "the most typical ones of each. Typical samples, shares and means over time come from all of them."
        )
    page = {
        "title": title,
        "model": str(fit.params.get("model", "Poisson NMF")),
        "shape": [len(fit.L), len(fit.F), fit.n_topics],
        "status": fit.status,
        "glance": _glance(fit),
        "figures": list(figures(fit).items()),
        "advice": told(fit, fit.advice()),
        **_topics(fit),
        **_trace(fit),
        "reproduce": recipe(fit),
        "samples": _samples(fit, shown, typical),
    }
    given = {name: result for name, result in (results or {}).items() if result is not None}
    page |= {name: SECTIONS[name].of(fit, result) for name, result in given.items()}
    columns = columns_of(fit.metadata)
    lines = [timeline(column, fit.proportions) for column in columns if column.tells_time]
    page["time"] = [line for line in lines if line is not None]
    room = largest - size_of(page) - BYTES_FOR_TOPICS
    page["columns"], dropped = _within([column.taken(shown) for column in columns], room)
    if dropped:
        notes.append(f"For size, the page does without these columns of metadata: {', '.join(dropped)}.")
    page["features"] = features = topics_payload(fit, largest - size_of(page))
    for name, result in given.items():
        if (marks := SECTIONS[name].marks) is not None:
            page[name]["marks"] = marks(result, features["names"])
    if features["left_out"]:
        notes.append(
            f"Weights of features below {features['smallest']:g} in a topic are left out of the page, except for the "
            f"{HEAVIEST} largest of each topic: {features['left_out']:,} in all."
        )
    named = [names for names in (fit.samples, fit.features) if names is not None]
    if any(len(str(name)) > LONGEST_NAME for names in named for name in names):
        notes.append(f"Names are cut after {LONGEST_NAME} letters.")
    return page | {"notes": notes}


def _glance(fit: Fit) -> list[str]:
    """What the head of the page says; how the fit ended comes last, with a dot."""
    size_of_fit = size(len(fit.L), len(fit.F), text=bool(fit.text))
    reached = [f"Poisson log-likelihood {objective(fit.loglik)}"] if np.isfinite(fit.loglik) else []
    return [size_of_fit, plural(fit.n_topics, "topic"), *reached, ENDS[fit.status]]


def _topics(fit: Fit) -> Json:
    distances, means = topic_distances(fit), fit.proportions.mean(axis=0)
    return {
        "topics": [
            {"colour": colour, "share": share, "mean": mean, "said": said, "name": name}
            for colour, share, mean, said, name in zip(
                topic_colours(fit),
                rounded(fit.shares),
                rounded(means),
                [
                    {"share": percent(share), "mean": percent(mean)}
                    for share, mean in zip(fit.shares, means, strict=True)
                ],
                _given_names(fit),
                strict=True,
            )
        ],
        "order": topic_order(fit).tolist(),
        "map": {
            "places": [rounded(place, 4) for place in topic_map(distances)],
            "distances": packed(quantised_proportions(distances)),
        },
    }


def _given_names(fit: Fit) -> list[str]:
    return [""] * fit.n_topics if fit.names is None else [clean(name) for name in fit.names]


def _samples(fit: Fit, shown: Integers, typical: Integers) -> Json:
    names = fit.samples[shown] if fit.samples is not None else [f"sample {i + 1}" for i in shown]
    return {
        "names": [clean(name) for name in names],
        "named": fit.samples is not None,
        "sizes": packed(fit.sizes[shown].astype(np.float32)),
        "proportions": packed(quantised_proportions(fit.proportions[shown])),
        "similarity": packed(similarity_order(fit.proportions[shown]).astype(np.uint32)),
        "typical": np.searchsorted(shown, typical).tolist(),
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
        },
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
    """The columns without the largest, until they have room; and the names of those left out."""
    sizes = [size_of(column) for column in columns]
    dropped: list[int] = []
    for place in sorted(range(len(columns)), key=lambda place: -sizes[place]):
        if sum(sizes) - sum(sizes[i] for i in dropped) > room:
            dropped.append(place)
    kept = [column for place, column in enumerate(columns) if place not in dropped]
    return kept, [columns[place]["name"] for place in sorted(dropped)]
