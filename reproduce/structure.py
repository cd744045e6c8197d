"""Structure plots, figure 3 and figures A10 and A11 of Carbonetto et al.: newsgroups by group, sorted blood cells by type, the
topic that is everywhere, and what defines each topic.

The breadth of a topic is an effective number of groups: exp(−Σ_g p_g log p_g), p_g proportional to the topic's mean proportion in
group g, so every group counts alike. It is 1 for a topic of one group, and the number of groups for one that all have alike. The
topic that is everywhere is the one of the largest breadth. The breadth of a word is the same, p_g proportional to its frequency
in the group.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np
import pandas as pd
from matplotlib.figure import Figure
from numpy.typing import NDArray

import unmix as um
from reproduce.common import THREADS, Job, MissingDataError, Section, counts, markdown, paper_logliks, thousands
from unmix.analysis import distinctive_features, log_fold_change

Floats = NDArray[np.float64]

WORDS = 30  # of a topic, the most distinctive
PRESENT = 0.1  # a topic is present in a sample from this proportion on
TIMES = 5  # the authors' rule for key words of the topic that is everywhere: that many times as frequent as in any other topic
RIBOSOMAL = re.compile(r"^RP([LS]\d+(A|AL|L|X|Y\d)?|LP\d|SA)$")
MARKERS = {"B cell": ("CD79A", "CD79B"), "NK cell": ("NKG7", "GNLY"), "T cell": ("CD3D", "CD3E", "CD8B")}
ONE_TOPIC = ("NK cell", "CD14+", "B cell")  # types that the vignette finds to be a topic each
CARS = ("wheel", "riding", "bmw")  # of which the authors' notes on newsgroups name a topic


def main(job: Job) -> Section:
    """Both data sets, or the one that is there."""
    made = Section("")
    data = {} if job.written else found(job)
    for name in job.numbers(lambda: {"data": list(data)})["data"]:
        text, doubts = {"newsgroups": newsgroups, "pbmc_facs": blood_cells}[name](job, data.get(name))
        made = Section(made.text + text, made.unconfirmed + doubts)
    return made


def found(job: Job) -> dict[str, um.Counts]:
    """The data sets that are there."""
    there, missing = {}, []
    for name in ("newsgroups", "pbmc_facs"):
        try:
            there[name] = counts(name)
        except MissingDataError as reason:
            missing.append(str(reason))
            job.say(str(reason))
    if not there:
        raise MissingDataError(missing[0])
    return there


def fit_topics(job: Job, X: um.Counts, K: int) -> um.Fit:
    refine = 4 if job.full else 0
    job.say(f"{K} topics of {X.shape[0]:,} samples, refine = {refine}")
    return um.TopicModel(K, refine=refine, random_state=0, n_jobs=THREADS).fit(X).result_


# --- measures --------------------------------------------------------------------------------------------------------


def labels(X: um.Counts, column: str) -> pd.Series:
    if X.metadata is None or column not in X.metadata:
        raise MissingDataError(f"the counts have no column {column!r} of labels")
    return X.metadata[column].astype(str).reset_index(drop=True)


def mean_by_group(fit: um.Fit, group: pd.Series) -> pd.DataFrame:
    """Mean proportions, groups × topics, topics by their numbers."""
    return pd.DataFrame(fit.proportions, columns=range(1, fit.n_topics + 1)).groupby(group.to_numpy()).mean()


def breadths(weights: Floats) -> Floats:
    """The effective number of groups, of each column; 0 where a column is empty."""
    total = weights.sum(axis=0)
    p = weights / np.where(total > 0, total, 1)
    entropy = -np.where(p > 0, p * np.log(np.where(p > 0, p, 1)), 0).sum(axis=0)
    return np.where(total > 0, np.exp(entropy), 0)


def word_breadths(X: um.Counts, group: pd.Series) -> Floats:
    """Of every word, from its frequencies in the groups."""
    names, codes = np.unique(group, return_inverse=True)
    member = (codes[None, :] == np.arange(len(names))[:, None]).astype(float)
    sums = np.asarray(member @ X.csr)
    return breadths(sums / sums.sum(axis=1, keepdims=True))


def distinctive(fit: um.Fit, topic: int, n: int = WORDS) -> NDArray[np.intp]:
    """The features that `um.plot.topic_features` names."""
    return distinctive_features(fit, n)[topic - 1]


def times_the_next(fit: um.Fit, topic: int) -> Floats:
    """Frequency in the topic over that in the other topic where it is highest."""
    return fit.topics[:, topic - 1] / np.maximum(np.delete(fit.topics, topic - 1, axis=1).max(axis=1), 1e-6)


def features_table(fit: um.Fit, X: um.Counts, group: pd.Series) -> pd.DataFrame:
    """The distinctive features of each topic: frequency overall and in the topic, log₂ of how much more, and breadth."""
    breadth, overall = word_breadths(X, group), fit.topics @ fit.shares
    assert fit.features is not None
    rows = []
    for topic in range(1, fit.n_topics + 1):
        change = log_fold_change(fit, topic)
        for rank, j in enumerate(distinctive(fit, topic), start=1):
            rows.append(
                {
                    "topic": topic,
                    "rank": rank,
                    "feature": str(fit.features[j]),
                    "frequency": overall[j],
                    "frequency in topic": fit.topics[j, topic - 1],
                    "log2 change": change[j],
                    "breadth": breadth[j],
                }
            )
    return pd.DataFrame(rows)


def topics_table(fit: um.Fit, means: pd.DataFrame, features: pd.DataFrame) -> pd.DataFrame:
    """One row per topic: its share, its breadth, where it is most, and the breadth of its features."""
    return pd.DataFrame(
        {
            "topic": means.columns,
            "share": fit.shares,
            "breadth": breadths(means.to_numpy()),
            "most in": means.idxmax().to_numpy(),
            "mean there": means.max().to_numpy(),
            "present in": (fit.proportions >= PRESENT).mean(axis=0),
            "breadth of features": features.groupby("topic")["breadth"].median().to_numpy(),
        }
    )


def everywhere(topics: pd.DataFrame) -> int:
    """The number of the topic that is everywhere."""
    return int(topics.loc[topics["breadth"].idxmax(), "topic"])


# --- pictures --------------------------------------------------------------------------------------------------------


def draw_structure(fit: um.Fit, column: str) -> Figure:
    figure = Figure(figsize=(10, 4.2), layout="constrained")
    ax = figure.subplots()
    ax.grid(False)
    um.plot.structure(fit, group=column, ax=ax)
    return figure


def draw_features(fit: um.Fit, topic: int) -> Figure:
    figure = Figure(figsize=(8, 4.8), layout="constrained")
    um.plot.topic_features(fit, topic, ax=figure.subplots(), axes="frequencies")
    return figure


@dataclass(frozen=True)
class Look:
    """A fit by group, as its tables have it: mean proportions, distinctive features, topics, single numbers; and pictures."""

    means: pd.DataFrame  # groups × topics
    features: pd.DataFrame
    topics: pd.DataFrame
    numbers: dict[str, Any]
    structure: str
    words: str

    @property
    def everywhere(self) -> int:
        return everywhere(self.topics)

    @property
    def broad(self) -> pd.Series:
        """The row of the topic that is everywhere."""
        return self.topics.set_index("topic").loc[self.everywhere]

    @property
    def named(self) -> pd.DataFrame:
        """Its distinctive features."""
        return self.features[self.features["topic"] == self.everywhere]


def look(
    job: Job,
    X: um.Counts | None,
    K: int,
    column: str,
    what: str,
    things: str,
    more: Callable[[um.Fit, um.Counts, pd.Series, int], dict[str, Any]],
) -> Look:
    """Fit, measure, draw. `what` and `things` are for the names of files: cells, genes. `more` gives the single numbers."""
    if X is not None:
        group, fit = labels(X, column), fit_topics(job, X, K)
    means = job.table(lambda: mean_by_group(fit, group).rename_axis(column).reset_index(), what).set_index(column)
    means.columns = means.columns.astype(int)
    features = job.table(lambda: features_table(fit, X, group), f"{what}-{things}")
    topics = job.table(lambda: topics_table(fit, means, features), f"{what}-topics")
    topic = everywhere(topics)
    numbers = job.numbers(lambda: {"loglik": fit.loglik} | more(fit, X, group, topic), f"{what}-numbers")
    structure = job.save(lambda: draw_structure(fit, column), what, f"the topics of {what}, by {column}")
    words = job.save(lambda: draw_features(fit, topic), f"{what}-{things}", f"the {things} of topic {topic}")
    return Look(means, features, topics, numbers, structure, words)


# --- newsgroups ------------------------------------------------------------------------------------------------------


def newsgroups_numbers(fit: um.Fit, X: um.Counts, group: pd.Series, topic: int) -> dict[str, Any]:
    key = keywords(fit, X, group, topic).head(25)
    return {
        "key words": key["feature"].tolist(),
        "breadth of key words": [] if key.empty else [key["breadth"].min(), key["breadth"].max()],
        "topics of cars": sorted({topic_of(fit, word) for word in CARS}),
        "the authors' loglik": their_loglik(),
    }


def newsgroups(job: Job, X: um.Counts | None) -> tuple[str, list[str]]:
    seen = look(job, X, 10, "group", "newsgroups", "words", newsgroups_numbers)
    narrow = seen.named[seen.named["breadth"] < len(seen.means) / 2]["feature"].tolist()
    doubts = []
    if (present := seen.broad["present in"]) <= 0.5:
        doubts.append(f"Newsgroups: that one topic is in most posts; the broadest is present in {present:.0%} of them.")
    if narrow:
        doubts.append(
            f"Newsgroups: that no distinctive word of the off-topic topic points to a newsgroup; of {WORDS}, {len(narrow)} "
            f"({', '.join(narrow)}) are used, in effect, by fewer than half of the groups."
        )
    return newsgroups_text(seen, narrow), doubts


def newsgroups_text(seen: Look, narrow: list[str]) -> str:
    topic, broad, means = seen.everywhere, seen.broad, seen.means
    others, groups = seen.topics[seen.topics["topic"] != topic], len(seen.means)
    least, most = means[topic].idxmin(), means[topic].idxmax()
    most_in = seen.topics.set_index("topic")["most in"]
    where = ", ".join(f"{number} ({most_in[number]})" for number in seen.numbers["topics of cars"])
    ends = seen.numbers["breadth of key words"]
    range_of_key = f" (breadth {ends[0]:.1f} to {ends[1]:.1f})" if ends else ""
    theirs = "none is" if not narrow else f"{len(narrow)} ({', '.join(narrow)}) are"
    return f"""
Carbonetto et al. (figure 3E, section 5, figure A10) fit ten topics to 18,774 posts to 20 newsgroups. One topic, their topic 1,
is present to some degree in most posts; they read it as "off-topic" discussion, as none of the words more frequent in it points
to a newsgroup. Which words those are is in the figure alone: the text names none, so what we check is the reading.

{seen.structure}

{markdown(as_text(seen.topics, seen.features))}

*The breadth of a topic is the effective number of groups it is in, of {groups}; that of its words, the median over its {WORDS}
most distinctive ones; "present", the posts with at least {PRESENT:.0%} of it.*

**The off-topic topic.** By our rule, the largest breadth, it is topic {topic}: breadth {broad["breadth"]:.1f} of {groups},
where the next has {others["breadth"].max():.1f}. It holds {broad["share"]:.0%} of all words, is present in
{broad["present in"]:.0%} of the posts, and has a mean proportion from {means[topic].min():.0%} ({least}) to
{means[topic].max():.0%} ({most}).

{seen.words}

Its most distinctive words: {", ".join(seen.named["feature"].head(20))}. The median breadth of the first {WORDS} is
{broad["breadth of features"]:.1f} of {groups} groups, and {theirs} below {groups / 2:g}; for the other topics the median is
{others["breadth of features"].min():.1f} to {others["breadth of features"].max():.1f}. By the rule for key words in the
authors' notes (analysis/newsgroups_more.Rmd of fastTopics-experiments), more than {TIMES} times as frequent as in any other
topic, we find {", ".join(seen.numbers["key words"]) or "none"}{range_of_key}.

**Beside the paper.** Our fit ends at a log-likelihood of
{thousands([seen.numbers["loglik"]])[0]}{beside(*(seen.numbers[of] for of in ("loglik", "the authors' loglik")))}.
The same notes speak of a topic of cars and motorcycles by the words {", ".join(CARS)}; here they
are most frequent in topic {where}.
"""


def keywords(fit: um.Fit, X: um.Counts, group: pd.Series, topic: int) -> pd.DataFrame:
    """By the authors' rule; the most frequent first, with their breadths."""
    others = np.delete(fit.topics, topic - 1, axis=1).max(axis=1)
    chosen = np.flatnonzero((others > 1e-6) & (times_the_next(fit, topic) > TIMES))
    chosen = chosen[np.argsort(-fit.topics[chosen, topic - 1], kind="stable")]
    assert fit.features is not None
    return pd.DataFrame({"feature": fit.features[chosen].astype(str), "breadth": word_breadths(X, group)[chosen]})


def topic_of(fit: um.Fit, feature: str) -> int:
    """The topic in which a feature is most frequent."""
    assert fit.features is not None
    return int(fit.topics[fit.features.tolist().index(feature)].argmax()) + 1


def their_loglik() -> float | None:
    """The best of the authors' runs at K = 10, if their log-likelihoods are at hand."""
    try:
        table = paper_logliks()
    except MissingDataError:
        return None
    runs = table[(table["dataset"] == "newsgroups") & (table["K"] == 10)]
    return float(runs["final_loglik"].max()) if len(runs) else None


def beside(ours: float, theirs: float | None) -> str:
    if theirs is None:
        return ""
    side = "above" if ours > theirs else "below"
    return (
        f", {thousands([abs(ours - theirs)])[0]} {side} the best of the authors' runs ({thousands([theirs])[0]}), "
        "so it is another optimum, and its topics are not theirs one by one"
    )


def as_text(topics: pd.DataFrame, features: pd.DataFrame, n: int = 6) -> pd.DataFrame:
    """The table of the page."""
    first = features[features["rank"] <= n].groupby("topic")["feature"].agg(", ".join)
    return pd.DataFrame(
        {
            "topic": topics["topic"],
            "share": topics["share"].map("{:.0%}".format),
            "breadth": topics["breadth"].map("{:.1f}".format),
            "present": topics["present in"].map("{:.0%}".format),
            "most in (mean)": [f"{a} ({b:.0%})" for a, b in zip(topics["most in"], topics["mean there"], strict=True)],
            "most distinctive": first.to_numpy(),
            "their breadth": topics["breadth of features"].map("{:.1f}".format),
        }
    )


# --- blood cells -----------------------------------------------------------------------------------------------------


def cells_numbers(fit: um.Fit, X: um.Counts, group: pd.Series, topic: int) -> dict[str, Any]:
    return {
        "topics of genes": {gene: topic_of(fit, gene) for genes in MARKERS.values() for gene in genes},
        "with two topics": with_topics(fit, group, 2),
        "with three topics": with_topics(fit, group, 3),
    }


def blood_cells(job: Job, X: um.Counts | None) -> tuple[str, list[str]]:
    seen = look(job, X, 6, "subpop", "cells", "genes", cells_numbers)
    ribosomal = sum(bool(RIBOSOMAL.match(gene)) for gene in seen.named["feature"].head(20))
    leading = seen.means.drop(columns=seen.everywhere).idxmax(axis=1)
    own = {cell: float(seen.means.loc[cell, leading[cell]]) for cell in ONE_TOPIC}
    strays = [
        f"{gene} (topic {found}, not {leading[cell]})"
        for cell, genes in MARKERS.items()
        for gene in genes
        if (found := seen.numbers["topics of genes"][gene]) != leading[cell]
    ]
    doubts = []
    if ribosomal <= 10:
        doubts.append(f"Blood cells: that the broadest topic is ribosomal; {ribosomal} of its first 20 genes are.")
    doubts += [
        f"Blood cells: that {cell}s are one topic (fastTopics' vignette); theirs has a mean proportion of {part:.0%}."
        for cell, part in own.items()
        if part <= 0.5
    ]
    if strays:
        doubts.append(
            f"Blood cells: genes of the vignette that are most frequent in another topic: {', '.join(strays)}."
        )
    if (several := seen.numbers["with two topics"]["T cell"]) <= 0.5:
        doubts.append(f"Blood cells: that most T cells are of at least two topics; {several:.0%} are.")
    return blood_cells_text(seen, ribosomal, leading, own, strays), doubts


def with_topics(fit: um.Fit, group: pd.Series, least: int) -> dict[str, float]:
    """The share of the samples of each group with at least that many topics present."""
    many = (fit.proportions >= PRESENT).sum(axis=1) >= least
    return pd.Series(many).groupby(group.to_numpy()).mean().to_dict()


def blood_cells_text(seen: Look, ribosomal: int, leading: pd.Series, own: dict[str, float], strays: list[str]) -> str:
    topic, broad, means = seen.everywhere, seen.broad, seen.means
    two, three = (pd.Series(seen.numbers[f"with {number} topics"]) for number in ("two", "three"))
    rest = [cell for cell in means.index if cell != "T cell"]
    by_type = ", ".join(f"{part:.0%} in {cell} (topic {leading[cell]})" for cell, part in own.items())
    together = ", ".join(f"{part + means.loc[cell, topic]:.0%}" for cell, part in own.items())
    named = ", ".join(f"{', '.join(genes)} for the topic of {cell}s" for cell, genes in MARKERS.items())
    agree = "All are most frequent in that type's topic here"
    if strays:
        agree = f"Most frequent in another topic here: {', '.join(strays)}"
    return f"""

The paper's cells (figures 3F and A11) are 68,579 unsorted blood cells; the authors' package fastTopics has 3,774 sorted ones,
with K = 6, in its vignette on single cells. The Structure plot of these, by the type they were sorted as:

{seen.structure}

{markdown(as_text(seen.topics, seen.features, 8))}

*Breadth is the effective number of cell types, of {len(means)}.*

**The topic that is everywhere** is topic {topic}: breadth {broad["breadth"]:.1f} of {len(means)}, present in
{broad["present in"]:.0%} of the cells. Of its 20 most distinctive genes {ribosomal} are of ribosomal proteins. Of the unsorted
cells the paper found that the genes with the largest increases in such a topic (its topic 6, figure A11) are ribosomal.

{seen.words}

**Types and topics.** The vignette finds that NK, CD14+ and B cells closely correspond to a topic each. Here the mean proportion
of the type's own topic is {by_type}; together with the topic that is everywhere, {together}. The vignette finds most T cells to
be of at least two topics, and some of three: here {two["T cell"]:.0%} of them have two or more topics of at least
{PRESENT:.0%}, and {three["T cell"]:.0%} three or more. For the other types it is {two[rest].min():.0%} to {two[rest].max():.0%}
and {three[rest].min():.0%} to
{three[rest].max():.0%}{", so two topics are no mark of T cells here" if two[rest].max() > 0.5 else ""}. CD34+ cells are led by
topic {leading["CD34+"]}, with {means.loc["CD34+", leading["CD34+"]]:.0%}.

**Genes.** The vignette names {named}. {agree}.
"""
