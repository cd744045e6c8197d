"""Geiger and Park: updating both factors from one product LFᵀ; what an l1 penalty does; LDA and Gamma–Poisson.

sequential (algorithm 1)   L ← L∘(R F)/u,  new R,  F ← F∘(RᵀL)/v        products with |X|·K terms: LFᵀ, RF, LFᵀ, RᵀL
joint      (algorithm 4)   L ← L∘(R F),            F ∝ F∘(RᵀL)          LFᵀ, RF, RᵀL
"""

from __future__ import annotations

import time
import warnings
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import pandas as pd
from matplotlib.figure import Figure
from threadpoolctl import threadpool_limits

import unmix as um
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
    run_from,
    stored,
    thousands,
)
from unmix.models.variational import log_total
from unmix.solvers import EM, PLSA, Alternate, Extrapolate, Joint, Newton, Problem
from unmix.solvers.init import random

K = 10
SOLVERS = {  # name: solver, colour
    "sequential EM": (Alternate(EM(steps=1)), COLOURS["em"]),
    "joint": (Joint(), "#CC79A7"),
    "default (Newton, extrapolated)": (Extrapolate(Newton()), COLOURS["newton+ex"]),
}
SEQUENTIAL, JOINT, DEFAULT = SOLVERS
PENALTIES = (0.0, 0.1, 1.0, 10.0, 100.0)
LENGTHS = {
    "State of the Union": (200, 2000),
    "NeurIPS": (60, 1000),
    "newsgroups": (60, 1000),
}  # iterations, quick and full
ABSENT = 1e-3  # a topic with a smaller share of a sample counts as absent
RATE = 2.0  # of the Gamma prior
UNEQUAL = np.linspace(0.5, 4.0, K)  # rates with which lemma E.3 does not hold


def main(job: Job) -> Section:
    sotu = um.datasets.sotu()
    job.say("counting matrix products")
    products = job.table(lambda: counted_products(um.datasets.digits(), 200 if job.full else 30), "products")
    curves = job.table(lambda: all_curves(job, sotu), "curves")
    lengths = 1000 if job.full else 150
    job.say(f"State of the Union: {len(PENALTIES)} penalties, two norms, {lengths} iterations each")
    sparse = job.table(lambda: sparsity(sotu, random_start(sotu), PENALTIES, lengths), "sparsity")
    job.say("joint NMF beside PLSA, LDA beside Gamma–Poisson")
    numbers = job.numbers(lambda: {"joint and PLSA apart": joint_beside_plsa(sotu, random_start(sotu), 100)})
    twins = job.table(lambda: lda_beside_gamma_poisson(sotu, random_start(sotu), 100 if job.full else 50), "lda")
    pictures = (
        job.save(
            lambda: draw_curves(curves),
            alt="Log-likelihood of joint and sequential updates against iterations and time",
        ),
        job.save(
            lambda: draw_lemmas(sparse, twins), "lemmas", alt="Sparsity against penalty; LDA beside Gamma–Poisson"
        ),
    )
    missing = [name for name in LENGTHS if name not in set(curves["data"])]
    return section(Findings(products, race(curves), missing, sparse, numbers["joint and PLSA apart"], twins), pictures)


def random_start(X: um.Counts, n_topics: int = K) -> tuple[np.ndarray, np.ndarray]:
    return random(Problem(X, n_topics), np.random.default_rng(0))


# --- products ----------------------------------------------------------------------------------------------------------


@dataclass
class Products:
    """A @ B, and how often and with how many multiplications."""

    count: int = 0
    multiplications: int = 0

    def __call__(self, A: np.ndarray, B: np.ndarray) -> np.ndarray:
        self.count += 1
        self.multiplications += A.shape[0] * A.shape[1] * B.shape[1]
        return A @ B


def algorithm_1(X: np.ndarray, L: np.ndarray, F: np.ndarray, product: Callable) -> tuple[np.ndarray, np.ndarray]:
    L = L * product(X / product(L, F.T), F) / F.sum(axis=0)
    F = F * product((X / product(L, F.T)).T, L) / L.sum(axis=0)
    return L, F


def algorithm_4(X: np.ndarray, L: np.ndarray, F: np.ndarray, product: Callable) -> tuple[np.ndarray, np.ndarray]:
    ratio = X / product(L, F.T)
    L, F = L * product(ratio, F), F * product(ratio.T, L)
    return L, F / F.sum(axis=0)


LISTINGS = {SEQUENTIAL: (algorithm_1, EM(steps=1)), JOINT: (algorithm_4, Joint())}


def counted_products(X: um.Counts, repetitions: int) -> pd.DataFrame:
    """Both algorithms in dense NumPy on one thread: products and multiplications of one iteration, its milliseconds, and how far
    rates after five iterations are from unmix's."""
    used = np.asarray(X.csr.sum(axis=0)).ravel() > 0
    X = um.Counts(X.csr[:, used])
    dense, start = X.csr.toarray().astype(float), random_start(X)
    rows = []
    for name, (listing, solver) in LISTINGS.items():
        product, pair = Products(), start
        listing(dense, *pair, product)
        for _ in range(5):
            pair = listing(dense, *pair, np.matmul)
        ours = run_from(X, start, solver, 5)
        rates = pair[0] @ pair[1].T
        with threadpool_limits(1):
            seconds = [seconds_of(listing, dense, *pair, np.matmul) for _ in range(repetitions)]
        rows.append(
            {
                "algorithm": name,
                "products": product.count,
                "multiplications": product.multiplications,
                "ms": 1000 * float(np.median(seconds)),
                "difference": float(np.abs(ours.L @ ours.F.T / rates - 1).max()),
            }
        )
    return pd.DataFrame(rows)


def seconds_of(task: Callable, *arguments: Any) -> float:
    began = time.perf_counter()
    task(*arguments)
    return time.perf_counter() - began


# --- log-likelihood against iterations and time ------------------------------------------------------------------------


def all_curves(job: Job, sotu: um.Counts) -> pd.DataFrame:
    """Runs from one start on every data set there is."""
    curves = []
    for name, (few, many) in LENGTHS.items():
        try:
            X, start = (sotu, None) if name == "State of the Union" else corpus(name)
        except MissingDataError as reason:
            job.say(f"{name} left out: {reason}")
            continue
        iterations = many if job.full else few
        if start is None:
            fit = run_from(X, random_start(X), EM(steps=1), 20)
            start = fit.L, fit.F
        job.say(f"{name}: {iterations} iterations of {len(SOLVERS)} solvers, alternating")
        curves.append(by_turns(X, start, iterations).assign(data=name))
    return pd.concat(curves, ignore_index=True)


def corpus(name: str) -> tuple[um.Counts, Any]:
    if name == "NeurIPS":
        return counts("nips"), None
    X = counts("newsgroups")
    try:
        arrays = stored("newsgroups/start_k10.npz")
    except MissingDataError:
        return X, None
    return X, (arrays["L"], arrays["F"])


def by_turns(X: um.Counts, start: tuple[np.ndarray, np.ndarray], iterations: int) -> pd.DataFrame:
    """One iteration of each solver in turn, so that a busy moment of the machine slows them alike; seconds are each one's own."""
    problem, rows = Problem(X, start[0].shape[1]), []
    states: dict[str, Any] = {name: solver.start(problem, *start) for name, (solver, _) in SOLVERS.items()}
    seconds = dict.fromkeys(SOLVERS, 0.0)
    for iteration in range(iterations + 1):
        for name, (solver, _) in SOLVERS.items():
            if iteration > 0:
                began = time.perf_counter()
                states[name] = solver.step(problem, states[name])
                seconds[name] += time.perf_counter() - began
            loglik = problem.metrics(states[name])["loglik"]
            rows.append({"solver": name, "iteration": iteration, "seconds": seconds[name], "loglik": loglik})
    return pd.DataFrame(rows)


def race(curves: pd.DataFrame) -> pd.DataFrame:
    """Sequential against joint: time of an iteration, and iterations and time to the lower of their two ends."""
    rows = []
    for data, runs in curves.groupby("data", sort=False):
        traces = {solver: runs[runs["solver"] == solver].reset_index(drop=True) for solver in SOLVERS}
        target = min(traces[solver]["loglik"].iloc[-1] for solver in (SEQUENTIAL, JOINT))
        for solver, trace in traces.items():
            ms = 1000 * float(trace["seconds"].diff().median())
            needed = int(trace.loc[trace["loglik"] >= target, "iteration"].min())
            rows.append(
                {
                    "data": data,
                    "solver": solver,
                    "iterations": len(trace) - 1,
                    "ms": ms,
                    "loglik": trace["loglik"].iloc[-1],
                    "target": target,
                    "iterations to target": needed,
                    "seconds to target": needed * ms / 1000,
                }
            )
    return pd.DataFrame(rows)


# --- lemmas ------------------------------------------------------------------------------------------------------------


def sparsity(X: um.Counts, start: Any, penalties: Iterable[float], iterations: int) -> pd.DataFrame:
    """Lemma 6.1: what the weight of an l1 penalty on loadings does, by the norm that topics are held to."""
    rows = []
    for norm in ("l1", "l2"):
        plain = None
        for penalty in penalties:
            with warnings.catch_warnings():
                warnings.filterwarnings("ignore", "with norm=.l1. the penalty only divides")
                fit = (
                    um.SparsePoissonNMF(
                        start[0].shape[1],
                        penalty=penalty,
                        norm=norm,
                        extrapolate=False,
                        init=start,
                        max_iter=iterations,
                        tol=0,
                        n_jobs=THREADS,
                    )
                    .fit(X)
                    .result_
                )
            plain = plain or fit
            shares = fit.proportions
            entropy = -np.sum(shares * np.log(np.maximum(shares, 1e-300)), axis=1)
            moved = np.abs((1 + penalty) * fit.L - plain.L).sum(axis=1) / plain.L.sum(axis=1)
            rows.append(
                {
                    "norm": norm,
                    "penalty": penalty,
                    "absent": float((shares < ABSENT).mean()),
                    "effective topics": float(np.exp(entropy).mean()),
                    "L over that without penalty": float(fit.L.sum() / plain.L.sum()),
                    "difference after rescaling": float(moved.max()),
                }
            )
    return pd.DataFrame(rows)


def joint_beside_plsa(X: um.Counts, start: Any, iterations: int) -> float:
    """Lemma B.1: the largest difference between L of joint NMF and t·L* of PLSA, as a part of t, and between topics."""
    problem, worst = Problem(X, start[0].shape[1]), 0.0
    a, b = Joint().start(problem, *start), PLSA().start(problem, *start)
    totals = np.maximum(X.sample_totals, 1)[:, None]
    for _ in range(iterations):
        a, b = Joint().step(problem, a), PLSA().step(problem, b)
        worst = max(worst, float((np.abs(a.L - b.L) / totals).max()), float(np.abs(a.F - b.F).max()))
    return worst


@dataclass
class Recorder:
    """A callback that keeps the beliefs of every iteration."""

    loadings: list[np.ndarray] = field(default_factory=list)
    topics: list[np.ndarray] = field(default_factory=list)
    elbo: list[float] = field(default_factory=list)

    def __call__(self, progress: Any) -> None:
        self.loadings.append(progress.state.left.parameters.copy())
        self.topics.append(progress.state.right.parameters.copy())
        self.elbo.append(-progress.state.loss)


def lda_beside_gamma_poisson(X: um.Counts, start: Any, iterations: int, alpha: float = 0.5) -> pd.DataFrame:
    """Lemma E.3: differences of γ and of topics at every iteration, with one rate for all topics and with unequal ones."""
    n_topics = start[0].shape[1]
    shapes = np.full(n_topics, alpha)
    options: dict[str, Any] = {"init": start, "inner": 0, "extrapolate": False}  # the algorithms as they are listed
    options |= {"max_iter": iterations, "tol": 0, "n_jobs": THREADS}
    lda, equal, unequal = Recorder(), Recorder(), Recorder()
    um.LDA(n_topics, alpha=alpha, callbacks=[lda], **options).fit(X)
    um.GammaPoisson(n_topics, shape=alpha, rate=RATE, callbacks=[equal], **options).fit(X)
    um.GammaPoisson(n_topics, shape=alpha, rate=UNEQUAL[:n_topics], callbacks=[unequal], **options).fit(X)
    sizes = float(log_total(X.sample_totals, shapes, RATE).sum())
    return pd.DataFrame(
        {
            "iteration": np.arange(1, iterations + 1),
            "γ, one rate": [relative(a, b) for a, b in zip(lda.loadings, equal.loadings, strict=True)],
            "topics, one rate": [float(np.abs(a - b).max()) for a, b in zip(lda.topics, equal.topics, strict=True)],
            "γ, unequal rates": [relative(a, b) for a, b in zip(lda.loadings, unequal.loadings, strict=True)],
            "bound": np.abs((np.array(equal.elbo) - np.array(lda.elbo)) / sizes - 1),
        }
    )


def relative(a: np.ndarray, b: np.ndarray) -> float:
    return float(np.abs(b / a - 1).max())


# --- telling -----------------------------------------------------------------------------------------------------------


def draw_curves(curves: pd.DataFrame) -> Figure:
    names = list(curves["data"].unique())
    figure, axes = panels(len(names), 2, size=(3.9, 2.3))
    for row, name in enumerate(names):
        data = curves[curves["data"] == name]
        best = data["loglik"].max()
        for solver, (_, color) in SOLVERS.items():
            trace = data[data["solver"] == solver]
            for ax, column in zip(axes[row], ("iteration", "seconds"), strict=True):
                ax.plot(trace[column], gap(trace, best, floor=1.0), color=color, label=solver)
                ax.set(yscale="log", xlabel=column if column == "iteration" else "seconds after set-up")
        axes[row, 0].set(title=f"{name}, K = {K}", ylabel="log-likelihood below best")
    legend_below(figure, axes[0, 0])
    return figure


def draw_lemmas(sparse: pd.DataFrame, twins: pd.DataFrame) -> Figure:
    figure, axes = panels(1, 2, size=(3.9, 2.8))
    for norm, color in (("l1", COLOURS["em"]), ("l2", COLOURS["scd"])):
        data = sparse[sparse["norm"] == norm]
        label = f"topics of {norm} norm 1"
        axes[0, 0].plot(data["penalty"], 100 * data["absent"], marker="o", markersize=4, color=color, label=label)
    axes[0, 0].set_xscale("symlog", linthresh=0.1, linscale=0.5)
    axes[0, 0].set(ylim=(0, None), title="Lemma 6.1", xlabel="penalty λ", ylabel="absent loadings (%)")
    axes[0, 0].legend()
    least = np.finfo(float).eps / 2
    for column, color in (("γ, unequal rates", COLOURS["scd"]), ("γ, one rate", COLOURS["em"])):
        label = f"{column.split(', ')[1]} in Gamma–Poisson"
        axes[0, 1].plot(twins["iteration"], np.maximum(twins[column], least), color=color, label=label)
    axes[0, 1].set(yscale="log", title="Lemma E.3", xlabel="iteration", ylabel="largest relative difference of γ")
    axes[0, 1].legend(loc="center right")
    return figure


@dataclass(frozen=True)
class Findings:
    products: pd.DataFrame
    race: pd.DataFrame
    missing: list[str]
    sparse: pd.DataFrame
    plsa: float
    twins: pd.DataFrame


def section(found: Findings, pictures: tuple[str, str]) -> Section:
    sequential, joint = (found.products[found.products["algorithm"] == name].iloc[0] for name in (SEQUENTIAL, JOINT))
    l1, l2 = (found.sparse[found.sparse["norm"] == norm] for norm in ("l1", "l2"))
    pairs = duels(found.race)
    text = f"""
Geiger and Park hold the topics to sum one; then both factors can be updated from the same ratios of counts to rates. That
saves one of four matrix products per iteration (section 4, algorithms 1 and 4), is the PLSA algorithm (lemma B.1), and, they
conclude, speeds up training significantly (section 7; no runs are reported). With such topics, they show, an l1 penalty on
loadings cannot make them sparse (lemma 6.1), and LDA and Gamma–Poisson have the same iterates (lemma E.3).

**Products.** Both algorithms, written in NumPy with every product counted, take {sequential["products"]} and
{joint["products"]} products ({sequential["multiplications"]:,} and {joint["multiplications"]:,} multiplications per iteration
on digits, K = {K}), and agree with unmix's `EM(steps=1)` and `Joint()` to
{max(sequential["difference"], joint["difference"]):.0e} of a rate after five iterations. In NumPy an iteration takes
{sequential["ms"]:.1f} and {joint["ms"]:.1f} ms on one thread: joint takes {joint["ms"] / sequential["ms"]:.2f} of the time of
sequential, where three products of four would be 0.75; the division of counts by rates, once instead of twice, is saved as
well.

**Training.** All from one start (20 EM iterations from random), iterations alternating.

{pictures[0]}

{markdown(race_for_the_page(found.race))}

"Target" is the lower of the final log-likelihoods of sequential and joint updates. {" ".join(pairs)} What decides, besides
products: unmix measures the log-likelihood in every iteration, which joint updates have for nothing, as the next iteration
needs the same rates, and for which sequential ones compute rates once more; but joint updates store the ratios and read them
again in the order of the transpose. And the sequential update sees the new loadings when it turns to the topics, where joint
updates see the old ones. {beside_default(found.race)} {left_out(found.missing)}

**PLSA** (lemma B.1). Over 100 iterations on State of the Union, joint NMF and PLSA differed by at most {found.plsa:.0e},
loadings taken as parts of an address.

**Sparsity** (lemma 6.1). State of the Union, K = {K}, one start; a topic is absent from an address if it has less than
{ABSENT:.1%} of it. (Without a penalty the two norms differ because their algorithms do, and neither has converged.)

{pictures[1]}

{markdown(sparse_for_the_page(found.sparse))}

With topics of l1 norm one, the penalty divides the loadings by 1 + λ and does nothing else: times 1 + λ they are those
without a penalty to {l1["difference after rescaling"].max():.0e} of an address. With l2 norm one, absent loadings go from
{l2["absent"].iloc[0]:.0%} to {l2["absent"].iloc[-1]:.0%} and the effective number of topics in an address from
{l2["effective topics"].iloc[0]:.2f} to {l2["effective topics"].iloc[-1]:.2f} as λ goes from {l2["penalty"].iloc[0]:g} to
{l2["penalty"].iloc[-1]:g}.

**LDA and Gamma–Poisson** (lemma E.3; algorithms 5 and 7; shape 0.5, rate {RATE:g}). Over {len(found.twins)} iterations the
largest relative difference of γ was {found.twins["γ, one rate"].max():.0e}, the largest difference in a topic
{found.twins["topics, one rate"].max():.0e}, and the two bounds differed by the negative binomial log-probability of the
totals (lemma E.1) to {found.twins["bound"].max():.0e} of it. With unequal rates ({UNEQUAL[0]:g} to {UNEQUAL[-1]:g}), which
the lemma excludes, γ comes to differ by {found.twins["γ, unequal rates"].max():,.3g} times itself, so the comparison could
have failed.
"""
    return Section(text, doubts(found))


def duels(race: pd.DataFrame) -> list[str]:
    sentences = []
    for data, runs in race.groupby("data", sort=False):
        runs = runs.set_index("solver")
        a, b = runs.loc[SEQUENTIAL], runs.loc[JOINT]
        sentences.append(
            f"{data}: a joint iteration took {b['ms'] / a['ms']:.2f} of the time of a sequential one and joint needed "
            f"{b['iterations to target'] / a['iterations to target']:.2f} times as many iterations, so "
            f"{b['seconds to target'] / a['seconds to target']:.2f} times as long."
        )
    return sentences


def beside_default(race: pd.DataFrame) -> str:
    """How soon the default solver is where the slower of the two ends."""
    sentences = []
    for data, runs in race.groupby("data", sort=False):
        needed = runs.set_index("solver")["iterations to target"]
        sentences.append(f"{needed[DEFAULT]:,} iterations on {data}")
    return f"unmix's default is at the target after {', '.join(sentences)}."


def left_out(missing: list[str]) -> str:
    return f"Left out, as the data were not at hand: {', '.join(missing)}." if missing else ""


def race_for_the_page(race: pd.DataFrame) -> pd.DataFrame:
    return pd.DataFrame(
        {
            "data": race["data"],
            "updates": race["solver"],
            "ms / iteration": [f"{value:.1f}" for value in race["ms"]],
            "log-likelihood at the end": thousands(race["loglik"], 1),
            "after iterations": race["iterations"],
            "target": thousands(race["target"], 1),
            "iterations to it": race["iterations to target"],
            "s to it": [f"{value:.2f}" for value in race["seconds to target"]],
        }
    )


def sparse_for_the_page(sparse: pd.DataFrame) -> pd.DataFrame:
    return pd.DataFrame(
        {
            "norm of topics": sparse["norm"],
            "λ": [f"{value:g}" for value in sparse["penalty"]],
            "loadings, of those with λ = 0": [f"{value:.4f}" for value in sparse["L over that without penalty"]],
            "1 / (1 + λ)": [f"{1 / (1 + value):.4f}" for value in sparse["penalty"]],
            "absent": [f"{value:.1%}" for value in sparse["absent"]],
            "effective topics": [f"{value:.2f}" for value in sparse["effective topics"]],
        }
    )


def doubts(found: Findings) -> list[str]:
    """What the paper claims and these runs do not bear out, if anything."""
    doubts = []
    slower = {}
    for data, runs in found.race.groupby("data", sort=False):
        seconds = runs.set_index("solver")["seconds to target"]
        if seconds[JOINT] > 0.95 * seconds[SEQUENTIAL]:
            slower[data] = seconds[JOINT] / seconds[SEQUENTIAL]
    if slower:
        figures = ", ".join(f"{ratio:.2f} on {data}" for data, ratio in slower.items())
        doubts.append(
            "Geiger and Park, section 7, that joint updates speed up training significantly: to reach the same log-likelihood "
            f"took, as a multiple of the time of sequential updates, {figures}."
        )
    return doubts
