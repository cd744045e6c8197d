"""Carbonetto et al., figures 2, A2 to A5 (log-likelihood), A6 to A9 (KKT residuals): four algorithms from one start, on two
corpora and on sorted blood cells, which stand in for the paper's trachea and unsorted blood cells.

The start is Topic-SCORE, ten iterations of coordinate descent, and EM; then each algorithm runs on from there. EM has four inner
steps per half-step, as coordinate descent has four sweeps (their appendix A.5).
"""

from __future__ import annotations

import time
from collections.abc import Iterable, Sequence
from typing import Any

import numpy as np
import pandas as pd
from matplotlib.axes import Axes
from matplotlib.figure import Figure

import unmix as um
from reproduce import records
from reproduce.common import (
    COLOURS,
    THREADS,
    Job,
    MissingDataError,
    Section,
    counts,
    gap,
    legend_below,
    markdown,
    panels,
    paper_logliks,
    run_from,
    thousands,
)
from unmix.plot.style import palette
from unmix.solvers import Extrapolate

CORPORA = {
    "nips": "NeurIPS",
    "newsgroups": "newsgroups",
    "trachea": "trachea droplet",
    "pbmc68k": "68k PBMC",
    "pbmc_facs": "sorted blood cells",
}
EM, SCD = um.solvers.EM(steps=4), um.solvers.SCD()
# The paper's four, extrapolated by the published rule ("ag", Ang and Gillis), and by ours ("ex"); Newton steps are our default
ALGORITHMS: dict[str, Any] = {
    "em": EM,
    "em+ag": Extrapolate(EM, rule="ang-gillis"),
    "em+ex": Extrapolate(EM),
    "scd": SCD,
    "scd+ag": Extrapolate(SCD, rule="ang-gillis"),
    "scd+ex": Extrapolate(SCD),
    "newton+ex": Extrapolate(um.solvers.Newton()),
}
IN_THE_PAPER = {"em": "em", "em+ag": "em-ex", "scd": "scd", "scd+ag": "scd-ex"}
SMALL = 100.0  # units below the best: pattern 1, where EM is good enough
ELSEWHERE = 0.05  # of a document moved: pattern 3, where EM's proportions are strikingly different
QUICK = (4, 10)  # the numbers of topics of the quick form
SOLVED = 1e-3  # the largest KKT residual at which an algorithm may stop: no unit is left to gain
NOTICED = 0.1  # units of log-likelihood: less is the end of a slope
FLOOR = 0.01  # closer to the best than that is drawn there, as in the paper
Traces = dict[str, pd.DataFrame]


def main(job: Job) -> Section:
    before, after = (1000, 1000) if job.full else (100, 100)
    data = {} if job.written else found(job)
    races: dict[str, dict[int, dict[str, um.Fit]]] = {
        corpus: all_races(job, corpus, X, range(2, 13) if job.full else QUICK, before, after)
        for corpus, X in data.items()
    }
    table = job.table(
        lambda: [
            row for corpus, by_K in races.items() for K, fits in by_K.items() for row in final_points(corpus, K, fits)
        ]
    )
    default = job.table(
        lambda: [
            row
            for corpus, X in data.items()
            if corpus in records.CORPORA
            for row in default_fits(job, X, corpus, records.KS if job.full else QUICK)
        ],
        "default",
    )
    paper = job.table(paper_or_nothing, "paper")
    names = list(dict.fromkeys(table["dataset"]))
    logliks, kkts = (
        "\n\n".join(save_lines(job, corpus, races, what, after // 10) for corpus in names) for what in ("loglik", "kkt")
    )
    scatters = "\n\n".join(save_scatter(job, corpus, races) for corpus in names)
    text = f"""
Carbonetto et al. (figures 2, A2 to A9) start EM and coordinate descent (SCD), each with and without extrapolation, from
the same point, and find that coordinate descent gains on EM wherever they differ, by up to tens of thousands of units. Here the
start is Topic-SCORE, 10 iterations of SCD and {before:,} of EM; then each algorithm runs {after:,} iterations (theirs: 1,000 and
1,000), or until its largest KKT residual is {SOLVED:g}. EM has four inner steps and SCD four sweeps, as in the paper. `+ag` is
extrapolation by the published rule (Ang and Gillis), `+ex` by unmix's, which continues from the new point after a rejection.
Newton steps, our default, run beside them. A circle is {after // 10} iterations.{stand_in(names)}

{logliks}

{verdict(table)}

{patterns(table)}

{each_beside_the_paper(table, paper, before, after)}

The largest KKT residual (figures A6 to A9) shows the same without knowing the best: it vanishes at an optimum only.

{kkts}

**Proportions** (figure 2, A2 to F2): every sample and topic, by EM and by extrapolated SCD, in the colour of the topic;
of each data set the K where they differ least and the K where they differ most.

{scatters}

### Records
{records_text(default, paper)}
"""
    return Section(text, unconfirmed(table))


def stand_in(names: list[str]) -> str:
    if "pbmc_facs" not in names or {"trachea", "pbmc68k"} <= set(names):
        return ""
    return " The sorted blood cells stand in for cells of the paper that were not at hand (figures A4, A5, A8, A9)."


def found(job: Job) -> dict[str, um.Counts]:
    """The data sets that are there."""
    there, missing = {}, []
    for corpus in CORPORA:
        try:
            there[corpus] = counts(corpus)
        except MissingDataError as reason:
            missing.append(reason)
            job.say(str(reason))
    if not there:
        raise missing[0]
    return there


def paper_or_nothing() -> pd.DataFrame:
    """The paper's final log-likelihoods, or no rows where they are not at hand."""
    try:
        return paper_logliks()[["dataset", "K", "method", "final_loglik"]]
    except MissingDataError:
        return pd.DataFrame(columns=["dataset", "K", "method", "final_loglik"])


def all_races(
    job: Job, corpus: str, X: um.Counts, Ks: Sequence[int], before: int, after: int
) -> dict[int, dict[str, um.Fit]]:
    races = {}
    for K in Ks:
        races[K] = race(X, K, before, after)
        job.say(f"{corpus}, K = {K}: " + ", ".join(f"{name} {fit.loglik:,.0f}" for name, fit in races[K].items()))
    return races


def race(X: um.Counts, K: int, before: int, after: int) -> dict[str, um.Fit]:
    """Each algorithm from the common start."""
    spectral = um.PoissonNMF(
        K,
        init="topic-score",
        solver="scd",
        extrapolate=False,
        prefit=0,
        max_iter=10,
        tol=0,
        random_state=0,
        n_jobs=THREADS,
    )
    start = run_from(X, spectral.fit(X).result_, EM, before)
    return {
        name: run_from(
            X, start, solver, after, callbacks=[um.solvers.MeasureKKT(growth=1.15), um.solvers.StopAtKKT(SOLVED)]
        )
        for name, solver in ALGORITHMS.items()
    }


def default_fits(job: Job, X: um.Counts, corpus: str, Ks: Sequence[int]) -> list[dict]:
    """What `um.TopicModel(K)` gets, with one seed and nothing else said."""
    rows = []
    for K in Ks:
        began = time.perf_counter()
        fit = um.TopicModel(K, random_state=0, n_jobs=THREADS).fit(X).result_
        rows.append({"dataset": corpus, "K": K, "loglik": fit.loglik, "seconds": time.perf_counter() - began})
        job.say(f"{corpus}: a default fit, K = {K}: {fit.loglik:,.0f}")
    return rows


def moved(one: np.ndarray, other: np.ndarray) -> float:
    """The share of a document, on average, that one fit gives to other topics than another."""
    return float(np.abs(one - other).sum(axis=1).mean() / 2)


def final_points(corpus: str, K: int, fits: dict[str, um.Fit]) -> list[dict]:
    return [
        {
            "dataset": corpus,
            "K": K,
            "algorithm": name,
            "start": fit.trace["loglik"].iloc[0],
            "loglik": fit.trace["loglik"].iloc[-1],
            "kkt": fit.trace["kkt"].iloc[-1],
            "iterations": int(fit.trace["iteration"].iloc[-1]),
            "seconds": fit.trace["seconds"].iloc[-1] - fit.trace["seconds"].iloc[0],
            "moved": moved(fit.proportions, fits["scd+ex"].proportions),
        }
        for name, fit in fits.items()
    ]


def save_lines(job: Job, corpus: str, races: dict[str, dict[int, dict[str, um.Fit]]], what: str, circle: int) -> str:
    name = "log-likelihood gap" if what == "loglik" else "largest KKT residual"
    return job.save(
        lambda: draw(
            corpus, {K: {n: fit.trace for n, fit in fits.items()} for K, fits in races[corpus].items()}, what, circle
        ),
        f"{what}-{corpus}",
        f"{CORPORA[corpus]}: {name} against seconds",
    )


def draw(corpus: str, traces: dict[int, Traces], what: str, circle: int) -> Figure:
    """One panel per K, the algorithms in time."""
    columns = min(4, len(traces))
    figure, axes = panels(-(-len(traces) // columns), columns, size=(9.6 / columns, 2.3))
    for ax, (K, group) in zip(axes.flat, traces.items(), strict=False):
        lines(ax, group, what, circle)
        ax.set_title(f"{CORPORA[corpus]}, K = {K}")
    for ax in axes.flat[len(traces) :]:
        ax.set_axis_off()
    for ax in axes[:, 0]:
        ax.set_ylabel("units below the best" if what == "loglik" else "largest KKT residual")
    for column in range(columns):
        axes.flat[max(range(column, len(traces), columns))].set_xlabel("seconds")
    legend_below(figure, axes[0, 0])
    return figure


def lines(ax: Axes, group: Traces, what: str, circle: int) -> None:
    best = max(trace["loglik"].max() for trace in group.values())
    for name, trace in group.items():
        seconds = (trace["seconds"] - trace["seconds"].iloc[0]).to_numpy()
        if what == "loglik":
            circles = {"marker": "o", "markersize": 2.5, "markevery": circle}
            ax.plot(seconds, gap(trace, best, FLOOR), color=COLOURS[name], label=name, **circles)
        else:
            known = trace["kkt"].notna()
            ax.plot(seconds[known], trace["kkt"][known], color=COLOURS[name], label=name)
    ax.set_yscale("log")


def save_scatter(job: Job, corpus: str, races: dict[str, dict[int, dict[str, um.Fit]]]) -> str:
    alt = f"{CORPORA[corpus]}: topic proportions by EM against those by extrapolated SCD"
    proportions = {K: (fits["em"].proportions, fits["scd+ex"].proportions) for K, fits in races.get(corpus, {}).items()}
    return job.save(lambda: scatter(corpus, proportions), f"proportions-{corpus}", alt)


def scatter(corpus: str, proportions: dict[int, tuple[np.ndarray, np.ndarray]]) -> Figure:
    """EM's proportions against coordinate descent's: the K where they differ least and the one where they differ most."""
    order = sorted(proportions, key=lambda K: moved(*proportions[K]))
    shown = sorted({order[0], order[-1]})
    figure, axes = panels(1, len(shown), size=(3.7, 4.0))
    for ax, K in zip(axes[0], shown, strict=True):
        em, cd = proportions[K]
        size = 3.0 if len(em) < 5000 else 1.5
        ax.plot([0, 1], [0, 1], color="black", linewidth=0.6, zorder=0)
        for k, color in enumerate(palette(K)):
            ax.plot(cd[:, k], em[:, k], ".", color=color, markersize=size, markeredgewidth=0, alpha=0.6)
        ax.set(title=f"{CORPORA[corpus]}, K = {K}", xlabel="proportion by scd+ex", ylabel="proportion by em", aspect=1)
    return figure


def by_algorithm(table: pd.DataFrame, column: str) -> pd.DataFrame:
    """One row per case, one column per algorithm."""
    return table.pivot_table(index=["dataset", "K"], columns="algorithm", values=column)[list(ALGORITHMS)]


def verdict(table: pd.DataFrame) -> str:
    """What each algorithm ended below the best of its group, and how much of a document that moves, as a table."""
    table = table.assign(below=table.groupby(["dataset", "K"])["loglik"].transform("max") - table["loglik"])
    wide, elsewhere = by_algorithm(table, "below"), by_algorithm(table, "moved")["em"]
    shown = pd.DataFrame(
        {
            "data": [CORPORA[corpus] for corpus, _ in wide.index],
            "K": [K for _, K in wide.index],
            **{name: thousands(wide[name], 1) for name in ALGORITHMS},
            "moved": [f"{share:.1%}" for share in elsewhere],
        }
    )
    return f"""Units of log-likelihood below the best of all, at the end. "Moved" is the share of a document, on average,
that EM gives to other topics than extrapolated SCD does.

{markdown(shown)}

{what_held(wide)}"""


def what_held(below: pd.DataFrame) -> str:
    theirs = below[list(IN_THE_PAPER)]
    best = (theirs["scd+ag"] <= theirs.min(axis=1) + NOTICED).sum()
    above, under = (below["em"] > below["scd"] + NOTICED).sum(), (below["em"] < below["scd"] - NOTICED).sum()
    ours = {half: (below[f"{half}+ex"] < below[f"{half}+ag"] - NOTICED).sum() for half in ("em", "scd")}
    theirs_won = {half: (below[f"{half}+ex"] > below[f"{half}+ag"] + NOTICED).sum() for half in ("em", "scd")}
    return (
        f"Of the paper's four, SCD extrapolated by the published rule is the best, to {NOTICED} units, in {best} of {len(below)} "
        f"cases. SCD ends above EM in {above} and below it in {under}. Of the two rules, ours ends higher in {ours['em']} cases "
        f"with EM and {ours['scd']} with SCD, the published one in {theirs_won['em']} and {theirs_won['scd']}. newton+ex is the "
        f"best of all in {(below['newton+ex'] <= NOTICED).sum()}."
    )


def patterns(table: pd.DataFrame) -> str:
    """Which of the three patterns of section 5 each case shows."""
    below = by_algorithm(
        table.assign(below=table.groupby(["dataset", "K"])["loglik"].transform("max") - table["loglik"]), "below"
    )["em"]
    elsewhere = by_algorithm(table, "moved")["em"]
    kinds = {
        "1, EM is good enough": below < SMALL,
        "2, more iterations gain much, proportions stay": (below >= SMALL) & (elsewhere < ELSEWHERE),
        "3, the proportions are others": (below >= SMALL) & (elsewhere >= ELSEWHERE),
    }
    rows = [
        {"pattern": kind, "cases": int(where.sum()), "which": "; ".join(which(below.index[where])) or "–"}
        for kind, where in kinds.items()
    ]
    return f"""**Three patterns** (section 5). The paper tells them apart by eye, we do by numbers: EM ends less than
{SMALL:g} units below the best (1); further below, with less than {ELSEWHERE:.0%} of a sample in other topics (2); or more (3).

{markdown(pd.DataFrame(rows))}"""


def which(cases: Iterable[tuple[str, int]]) -> list[str]:
    """NeurIPS K = 4, 5: the cases of each data set."""
    by_corpus: dict[str, list[str]] = {}
    for corpus, K in cases:
        by_corpus.setdefault(CORPORA[corpus], []).append(str(K))
    return [f"{corpus} K = {', '.join(Ks)}" for corpus, Ks in by_corpus.items()]


def each_beside_the_paper(table: pd.DataFrame, paper_table: pd.DataFrame, before: int, after: int) -> str:
    """Final log-likelihoods, algorithm by algorithm, where the paper's are known."""
    if paper_table.empty:
        return "The paper's log-likelihoods are not at hand here."
    paper = paper_table.set_index(["dataset", "K", "method"])["final_loglik"]
    rows = []
    for (corpus, K), group in table.groupby(["dataset", "K"], sort=False):
        ours = group.set_index("algorithm")["loglik"]
        theirs = pd.Series({name: paper.get((corpus, K, code), np.nan) for name, code in IN_THE_PAPER.items()})
        if theirs.isna().all():
            continue
        for whose, values in (("the paper", theirs), ("ours", ours)):
            cells = thousands(values.reindex(list(ALGORITHMS)))
            rows.append({"data": CORPORA[corpus], "K": K, "whose": whose} | dict(zip(ALGORITHMS, cells, strict=True)))
    return f"""Final log-likelihoods beside the paper's, after {before + after:,} iterations (theirs: 2,000). Starts differ, and
with them the optima: compare the algorithms within a line.

{markdown(pd.DataFrame(rows))}"""


def records_text(default: pd.DataFrame, paper: pd.DataFrame) -> str:
    """Our best, and a default fit, beside the paper's, K by K."""
    table = pd.DataFrame() if paper.empty else records.beside_the_paper(paper)
    if table.empty:
        return "The paper's figures are not at hand here."
    table = table.merge(default.rename(columns={"seconds": "took"}), on=["dataset", "K"], how="left")
    shown = pd.DataFrame(
        {
            "data": table["dataset"].map(CORPORA),
            "K": table["K"],
            "the paper's best": thousands(table["paper"], 1),
            "a default fit (seconds)": [
                f"{value} ({seconds:.1f})" if seconds > 0 else "–"
                for value, seconds in zip(thousands(table["loglik"], 1), table["took"], strict=True)
            ],
            "our best": thousands(table["best"], 1),
            "above the paper": thousands(table["above"], 2),
            "KKT": table["kkt"],
            "attempts": table["attempts"],
            "seconds in all": thousands(table["seconds"]),
        }
    )
    made = sorted({f"{day} (unmix {version})" for day, version in zip(table["date"], table["version"], strict=True)})
    behind = table[table["above"] < -0.005]
    tied = table[table["above"].abs() <= 0.005]
    ahead = len(table) - len(behind) - len(tied)
    tie = "".join(
        f"On {CORPORA[row.dataset]} with K = {row.K} both end at the same optimum: {row.alike} of our {row.attempts} starts find "
        "it, and none a better one. "
        for row in tied.itertuples()
    )
    return f"""The paper's best of four algorithms (2,000 iterations each) beside ours: above it in {ahead} of {len(table)} cases.
{tie}`a default fit` is `um.TopicModel(K, random_state=0)` and nothing else. `our best` is the best of `attempts`
(`docs/results/records-attempts.csv`): fits with four or eight moves (`refine`), to the last hundredth; `seconds in all`
are theirs, on a machine that was busy with other things. The records are of {" and ".join(made)}.
fastTopics adds 1e-8 to every rate inside the logarithm;
`above the paper` measures our fit in the same way.
`docs/results/records.csv` has what it takes to fit each record again (`python -m reproduce.records --check nips 4`), or to
beat it.

{markdown(shown)}"""


def unconfirmed(table: pd.DataFrame) -> list[str]:
    """What section 5 of the paper says of the algorithms and these runs do not show."""
    wide, doubts = by_algorithm(table, "loglik"), []
    for lower, upper, claim in (
        ("em", "scd", "coordinate descent improves on EM wherever they differ"),
        ("em+ag", "scd+ag", "extrapolated, too, coordinate descent improves on EM wherever they differ"),
        ("scd", "scd+ag", "extrapolation consistently helps coordinate descent"),
    ):
        lost = (wide[lower] - wide[upper])[lambda excess: excess > NOTICED]
        if len(lost):
            where = ", ".join(f"{CORPORA[corpus]} K = {K} ({excess:,.1f})" for (corpus, K), excess in lost.items())
            doubts.append(
                f"Carbonetto et al., section 5: {claim}. In {len(lost)} of {len(wide)} cases {lower} ended above {upper}, "
                f"by units of log-likelihood: {where}."
            )
    ratio = by_algorithm(table.assign(each=table["seconds"] / table["iterations"]), "each").eval("scd / em")
    if ratio.median() > 1.5:
        doubts.append(
            "Carbonetto et al., section 5: the time of an iteration is roughly the same in all algorithms. Here an iteration of "
            f"SCD takes {ratio.min():.1f} to {ratio.max():.1f} times as long as one of EM."
        )
    return doubts
