"""Zhang, Ding and Tang: do NMF, PLSI and normalised NMF, from one start, reach the same solution?

Their algorithms 1 to 3 (corrected as in `unmix.solvers.joint`) run from the same random starts until they stand still. PLSI
runs in two forms: with the new weights in the update of H, as corollary 6 needs them, and with the old ones, as line 4 is
printed.
Two more runs tell causes apart: NMF with four updates of a factor before the other one moves (their section 5), and unmix's own
"em", which never lets a loading fall below 1e-15 of its sample and so cannot lose it for ever.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any

import joblib
import numpy as np
import pandas as pd
from matplotlib.figure import Figure

import unmix as um
from reproduce.common import COLOURS, GREY, THREADS, Job, Section, legend_below, markdown, panels
from unmix.counts.sides import column_sums
from unmix.solvers import (
    EM,
    PLSI,
    Alternate,
    Extrapolate,
    FactorSolver,
    Newton,
    Normalized,
    Problem,
    Side,
    State,
    Trace,
    run,
)
from unmix.solvers.init import random

SAME_VALUE = 0.01  # log-likelihoods closer than this are called equal: two runs that stop on one slope differ by less
SAME_RATES = 1e-3  # the share of the expected counts that lies elsewhere
LOCKED = 1e-12  # a share of a sample (or feature) so small that a multiplicative update needs ages to bring it back
SHOWN = 1e-6  # differences below this are drawn here


@dataclass(frozen=True, kw_only=True)
class Numerators(State):
    A: Any  # Σ_j r_ij f_jk at L, F, which came with the loss


@dataclass(frozen=True)
class LeeSeung(FactorSolver[Numerators]):
    """Algorithm 1 without a floor, `steps` updates of L before F moves and of F before L moves. (The algorithm as printed takes
    the old L for F, which is not monotone; theirs is Lee and Seung's, so F sees the new one.)"""

    steps: int = 1
    state_type = Numerators

    def start(self, problem: Problem, L: Any, F: Any, loss: float | None = None) -> Numerators:
        A, xlog = problem.left.numerators(L, F)
        return Numerators(L=L, F=F, A=A, loss=problem.loss(L, F, xlog))

    def step(self, problem: Problem, state: Numerators) -> Numerators:
        L = state.L * state.A / column_sums(state.F)
        for _ in range(self.steps - 1):
            L = update(problem.left, state.F, L)
        F = state.F
        for _ in range(self.steps):
            F = update(problem.right, L, F)
        return self.start(problem, L, F)


def update(side: Side, fixed: Any, moving: Any) -> Any:
    """moving_ik ← moving_ik Σ_j r_ij fixed_jk / Σ_j fixed_jk"""
    numerators, _ = side.numerators(moving, fixed)
    return moving * numerators / column_sums(fixed)


NMF, NORMALISED, PLSI_NAME, PRINTED = "NMF", "normalised NMF", "PLSI", "PLSI as printed"
FOUR, FLOORED = "NMF, 4 + 4 updates", "NMF with a floor"
ALGORITHMS = {
    NMF: LeeSeung(),
    NORMALISED: Normalized(),
    PLSI_NAME: PLSI(),
    PRINTED: PLSI(new_weights=False),
    FOUR: LeeSeung(steps=4),
    FLOORED: Alternate(EM()),
}
PASSES = {NMF: 2, NORMALISED: 2, PLSI_NAME: 3, PRINTED: 2, FOUR: 8, FLOORED: 2}  # over the counts, an iteration
LOOK = {
    NORMALISED: GREY,
    PLSI_NAME: COLOURS["scd"],
    PRINTED: "#CC79A7",
    FOUR: COLOURS["scd+ex"],
    FLOORED: COLOURS["em"],
}


@dataclass(frozen=True)
class Effort:
    """An algorithm has converged when the remaining gain is at most `tol` per count."""

    tol: float
    max_iter: int
    jobs: int = THREADS


def main(job: Job) -> Section:
    starts = range(100 if job.full else 40)
    effort = Effort(tol=1e-8, max_iter=20_000) if job.full else Effort(tol=1e-7, max_iter=10_000)
    sets = data_sets(job.full)

    def ends() -> Iterable[pd.DataFrame]:
        for name, (X, K) in sets.items():
            job.say(
                f"{name}: {X.shape[0]} × {X.shape[1]}, K = {K}, {len(starts)} starts of {len(ALGORITHMS)} algorithms"
            )
            yield all_ends(X, K, starts, effort).assign(data=name, K=K)

    def steps() -> Iterable[pd.DataFrame]:
        for name, (X, K) in sets.items():
            yield one_step_further(X, K, 0, effort).assign(data=name)

    table = job.table(lambda: pd.concat(ends(), ignore_index=True), "ends")
    moves = job.table(lambda: pd.concat(steps(), ignore_index=True), "fixed-points")
    numbers = job.numbers(
        lambda: {
            "NMF and normalised NMF apart": max(furthest_apart(X, K, range(3), 200) for X, K in sets.values()),
            "a run ends when": f"the remaining gain is at most {effort.tol:g} per count",
        }
    )
    picture = job.save(
        lambda: draw(table), alt="Final log-likelihoods of PLSI and NMF from the same starts, and their differences"
    )
    return section(table, moves, numbers, effort, picture)


def data_sets(full: bool) -> dict[str, tuple[um.Counts, int]]:
    """Small ones, since multiplicative updates need thousands of iterations and there are hundreds of runs."""
    digits, simulated, sotu = um.datasets.digits(), um.datasets.correlated_topics("A", seed=0), um.datasets.sotu()
    by_frequency = np.argsort(-np.asarray(sotu.csr.sum(axis=0)).ravel(), kind="stable")
    if not full:
        return {
            "digits": (used(digits.csr[::18]), 3),
            "simulated A": (used(simulated.csr[:40]), 3),
            "State of the Union": (used(sotu.csr[::6][:, np.sort(by_frequency[:100])]), 3),
        }
    return {
        "digits": (used(digits.csr[::6]), 5),
        "simulated A": (used(simulated.csr), 6),
        "simulated B": (used(um.datasets.correlated_topics("B", seed=0).csr), 6),
        "State of the Union": (used(sotu.csr[::2][:, np.sort(by_frequency[:300])]), 4),
    }


def used(matrix: Any) -> um.Counts:
    """Without features that no sample has."""
    return um.Counts(matrix[:, np.asarray(matrix.sum(axis=0)).ravel() > 0])


# --- running -----------------------------------------------------------------------------------------------------------


def all_ends(X: um.Counts, K: int, seeds: Iterable[int], effort: Effort) -> pd.DataFrame:
    """One row a start and algorithm."""
    rows = joblib.Parallel(n_jobs=effort.jobs)(joblib.delayed(ends_of)(X, K, seed, effort) for seed in seeds)
    return pd.DataFrame([row for some in rows for row in some])


def ends_of(X: um.Counts, K: int, seed: int, effort: Effort) -> list[dict[str, Any]]:
    """Where each algorithm ends from one start, and how that differs from where NMF does."""
    problem = Problem(X, K)
    start = random(problem, np.random.default_rng(seed))
    rows, reference = [], None
    for name, algorithm in ALGORITHMS.items():
        state, trace, status = until_it_stands(problem, algorithm, start, effort)
        reference = reference or state
        rows.append(
            {
                "seed": seed,
                "algorithm": name,
                "converged": status == "converged",
                "iterations": len(trace.rows),
                "loglik": trace.rows[-1]["loglik"],
                "loglik minus that of NMF": reference.loss - state.loss,
                "share of counts elsewhere": moved(state, reference),
                "largest Hellinger distance of topics": hellinger(state.F, reference.F),
                "locked entries": locked(X, state.L, state.F),
                "loglik after Newton": polished(problem, state),
            }
        )
    return rows


def until_it_stands(problem: Problem, algorithm: Any, start: tuple, effort: Effort) -> tuple[State, Trace, str]:
    trace = Trace()
    state = algorithm.start(problem, *start)
    state, status = run(problem, algorithm, state, trace, max_iter=effort.max_iter, tol=effort.tol)
    return state, trace, status


def polished(problem: Problem, state: State) -> float:
    """The log-likelihood of the local optimum above: Newton's method may bring back what multiplicative updates have lost."""
    newton = Extrapolate(Alternate(Newton()))
    end, _ = run(problem, newton, newton.start(problem, state.L, state.F), Trace(), max_iter=500, tol=1e-9)
    return problem.metrics(end)["loglik"]


def moved(one: State, two: State) -> float:
    """Half of Σ|λ − λ′| / Σ λ: what part of the expected counts one solution has elsewhere than the other."""
    rates = one.L @ one.F.T
    return float(np.abs(rates - two.L @ two.F.T).sum() / rates.sum() / 2)


def hellinger(F: Any, G: Any) -> float:
    """The largest distance between a topic and its twin, which has the same place since both began as the same topic."""
    roots = np.sqrt(F / F.sum(axis=0)) - np.sqrt(G / G.sum(axis=0))
    return float(np.sqrt((roots**2).sum(axis=0) / 2).max())


def locked(X: um.Counts, L: Any, F: Any) -> int:
    """Entries that are zero to all intents although the likelihood would rise with them: no KKT point."""
    A, B, _ = X.sides().both_numerators(L, F)
    u, v = column_sums(F), column_sums(L)
    L_zero = u * L <= LOCKED * X.sample_totals[:, None]
    F_zero = v * F <= LOCKED * X.feature_totals[:, None]
    return int((L_zero & (u * (1 + 1e-6) < A)).sum() + (F_zero & (v * (1 + 1e-6) < B)).sum())


def one_step_further(X: um.Counts, K: int, seed: int, effort: Effort) -> pd.DataFrame:
    """What part of the expected counts one iteration of each algorithm moves, from the end of each (theorem 4)."""
    problem = Problem(X, K)
    start = random(problem, np.random.default_rng(seed))
    rows = []
    for name in (NMF, NORMALISED, PLSI_NAME, PRINTED):
        end, _, _ = until_it_stands(problem, ALGORITHMS[name], start, effort)
        for other in (NMF, NORMALISED, PLSI_NAME, PRINTED):
            algorithm = ALGORITHMS[other]
            after = algorithm.step(problem, algorithm.start(problem, end.L, end.F))
            rows.append({"end of": name, "one iteration of": other, "share of counts moved": moved(after, end)})
    return pd.DataFrame(rows)


def furthest_apart(X: um.Counts, K: int, seeds: Iterable[int], iterations: int) -> float:
    """The largest relative difference between the rates of NMF and of normalised NMF at any iteration."""
    problem, worst, seen = Problem(X, K), 0.0, X.csr.nonzero()
    for seed in seeds:
        start = random(problem, np.random.default_rng(seed))
        a, b = (ALGORITHMS[name].start(problem, *start) for name in (NMF, NORMALISED))
        for _ in range(iterations):
            a, b = ALGORITHMS[NMF].step(problem, a), ALGORITHMS[NORMALISED].step(problem, b)
            rates = (a.L @ a.F.T)[seen]
            worst = max(worst, float(np.abs((b.L @ b.F.T)[seen] / rates - 1).max()))
    return worst


# --- telling -----------------------------------------------------------------------------------------------------------


def summary(table: pd.DataFrame) -> pd.DataFrame:
    """One row a data set and algorithm: how often it ends where NMF does."""
    rows = []
    for (data, name), group in table.groupby(["data", "algorithm"], sort=False):
        difference = group["loglik minus that of NMF"].abs()
        rows.append(
            {
                "data": data,
                "algorithm": name,
                "same value": (difference <= SAME_VALUE).mean(),
                "same rates": (group["share of counts elsewhere"] <= SAME_RATES).mean(),
                "largest difference": difference.max(),
                "largest Hellinger": group["largest Hellinger distance of topics"].max(),
                "ends with locked entries": (group["locked entries"] > 0).mean(),
                "optimum above reached": (group["loglik after Newton"] - group["loglik"] <= SAME_VALUE).mean(),
                "median iterations": group["iterations"].median(),
                "converged": group["converged"].mean(),
            }
        )
    return pd.DataFrame(rows)


def draw(table: pd.DataFrame) -> Figure:
    """Above, the ends of PLSI against those of NMF; below, how many starts end within a given distance of NMF."""
    names = list(table["data"].unique())
    figure, axes = panels(2, len(names), size=(3.1, 2.7))
    for column, name in enumerate(names):
        data = table[table["data"] == name]
        ends = data.pivot_table(index="seed", columns="algorithm", values="loglik")
        best = ends.to_numpy().max()
        ax = axes[0, column]
        below = np.maximum(best - ends[[NMF, PLSI_NAME]], 1e-3)
        ax.plot([1e-3, below.to_numpy().max()], [1e-3, below.to_numpy().max()], color="0.8", linewidth=1, zorder=0)
        ax.scatter(below[NMF], below[PLSI_NAME], s=14, alpha=0.6, color=LOOK[PLSI_NAME], linewidths=0)
        ax.set(
            xscale="log",
            yscale="log",
            title=f"{name}, K = {data['K'].iloc[0]}",
            xlabel="NMF: below the best (log-likelihood)",
        )
        ax = axes[1, column]
        for algorithm, color in LOOK.items():
            some = data.loc[data["algorithm"] == algorithm, "loglik minus that of NMF"].abs()
            distances = np.sort(np.maximum(some, SHOWN))
            ax.step(
                [SHOWN, *distances, 1e3],
                [0, *np.arange(1, len(distances) + 1), len(distances)],
                where="post",
                color=color,
                label=algorithm,
            )
        ax.axvline(SAME_VALUE, color="0.6", linewidth=1, linestyle=":")
        ax.set(xscale="log", xlim=(SHOWN, 1e3), ylim=(0, None), xlabel="difference of log-likelihood from NMF")
    axes[0, 0].set_ylabel("PLSI: below the best")
    axes[1, 0].set_ylabel("starts within that difference")
    legend_below(figure, axes[1, 0])
    return figure


def section(table: pd.DataFrame, steps: pd.DataFrame, numbers: dict[str, Any], effort: Effort, picture: str) -> Section:
    apart = numbers["NMF and normalised NMF apart"]
    plsi, normalised, four, floored = (Compared.of(table, name) for name in (PLSI_NAME, NORMALISED, FOUR, FLOORED))
    nmf = table[table["algorithm"] == NMF]
    stuck = nmf["loglik after Newton"] - nmf["loglik"] > SAME_VALUE
    work = {
        name: (PASSES[name] * table.loc[table["algorithm"] == name, "iterations"]).median() for name in (NMF, PLSI_NAME)
    }
    own = steps["end of"] == steps["one iteration of"]
    text = f"""
Zhang, Ding and Tang compare three algorithms for one objective: NMF (Lee and Seung's updates), PLSI (EM for the triple
C diag(w) Hᵀ) and NMF normalised at every step. From one start, they write, the three may end at different factors (abstract,
section 4), yet their products "are always identical", CSHᵀ = FGᵀ = F\\*G\\*ᵀ (their equation 10); why is their
closing question. They show no data. Here each algorithm runs from the same {table["seed"].nunique()} random starts of
{table["data"].nunique()} small data sets until {numbers["a run ends when"]};
{table["converged"].mean():.1%} of the runs got there within {effort.max_iter:,} iterations.

{picture}

Above: each dot is a start; on the diagonal both ended equally high. Below: how many starts ended within a given distance of NMF
(smaller differences than {SHOWN:g} are drawn there; the dotted line is what we call equal, {SAME_VALUE} units).

{markdown(for_the_page(table))}

"Same value": log-likelihoods within {SAME_VALUE} of NMF's. "Same rates": at most {SAME_RATES:.1%} of the expected counts lie
elsewhere. The distance of topics is Hellinger's, the largest of any topic and start. "Newton climbs on":
from how many ends it gains more than {SAME_VALUE}.

**Normalised NMF is NMF.** A multiplicative update does not care how a topic's scale is shared between its two factors. Over
the first 200 iterations the two never differed by more than {apart:.0e} of a rate, and they ended with the same value from
{normalised.same_value} of {normalised.starts} starts, at most {normalised.largest:.1g} apart: the "different local optimum"
of section 4 does not exist.

**PLSI and NMF.** PLSI ended with the value of NMF from {plsi.same_value} of {plsi.starts} starts and with its rates from
{plsi.same_rates}. The largest difference was {plsi.largest:,.3g} units; PLSI was the higher one {plsi.higher} times and NMF
{plsi.lower} times. From {plsi.other_optimum} of the {plsi.starts - plsi.same_value} starts that part them, Newton's method
leads the two ends to different optima as well: they lie in different basins. {answer(plsi)}

{about_printed(table)}

**Fixed points are shared** (theorem 4; for PLSI, Gaussier and Goutte, whom they cite). One iteration of any of them from
the end of any other moved at most {steps["share of counts moved"].max():.0e} of the expected counts, where its own next
iteration moved up to {steps.loc[own, "share of counts moved"].max():.0e}.

**Several updates of one factor before the other** (section 5 of the paper: "all having the same solution values"): with four
and four the value was the same from {four.same_value} of {four.starts} starts, the largest difference {four.largest:,.1f}.

**A floor.** Multiplicative updates let entries fall to nothing that would be needed later. From {int(stuck.sum())} of
{len(nmf)} ends of NMF, Newton's method climbed on by more than {SAME_VALUE};
{int((stuck & (nmf["locked entries"] > 0)).sum())} of these ends have entries below {LOCKED:g} of their sample or feature with
which the likelihood would rise. unmix's `"em"` keeps every share at 1e-15 or above; it ended higher than NMF
from {floored.higher} starts and lower from {floored.lower}, and Newton climbed on from {floored.stuck} of its ends.

**Cost.** The paper says that NMF is faster. PLSI passes over the counts three times per iteration with the new weights and
twice as printed, NMF twice; in the median over all starts PLSI with the new weights and NMF took {work[PLSI_NAME]:,.0f} and
{work[NMF]:,.0f} passes.
"""
    return Section(text, doubts(plsi, normalised, four, apart))


def about_printed(table: pd.DataFrame) -> str:
    """Algorithm 2 with the old weights in line 4."""
    printed = Compared.of(table, PRINTED)
    passes = (PASSES[PRINTED] * table.loc[table["algorithm"] == PRINTED, "iterations"]).median()
    return (
        "As printed, with the old weights in line 4 of algorithm 2, PLSI ended with the value of NMF from "
        f"{printed.same_value} of {printed.starts} starts and with its rates from {printed.same_rates}, at most "
        f"{printed.largest:,.3g} units apart, after {passes:,.0f} passes over the counts in the median."
    )


def answer(plsi: Compared) -> str:
    """To the closing question of the paper."""
    shared = "Both have the same fixed points and begin with the same step (theorem 5), so their paths start out close"
    if plsi.same_value == plsi.starts:
        return f"{shared}; in these runs they never parted. No theorem says that they must not."
    return (
        f"So equation (10) is a frequent observation and no theorem: the answer to the closing question is that it does not "
        f"always hold. {shared}; where they pass near a watershed they can part."
    )


@dataclass(frozen=True)
class Compared:
    """How the ends of an algorithm lie beside those of NMF, over all data sets."""

    starts: int
    same_value: int
    same_rates: int
    largest: float
    higher: int
    lower: int
    other_optimum: int  # of the starts with another value, how many have one after Newton's method too
    stuck: int

    @classmethod
    def of(cls, table: pd.DataFrame, algorithm: str) -> Compared:
        key = ["data", "seed"]
        some = table[table["algorithm"] == algorithm].set_index(key)
        nmf = table[table["algorithm"] == NMF].set_index(key).loc[some.index]
        difference = some["loglik minus that of NMF"]
        apart = difference.abs() > SAME_VALUE
        optima_apart = (some["loglik after Newton"] - nmf["loglik after Newton"]).abs() > SAME_VALUE
        return cls(
            starts=len(some),
            same_value=int((~apart).sum()),
            same_rates=int((some["share of counts elsewhere"] <= SAME_RATES).sum()),
            largest=float(difference.abs().max()),
            higher=int((difference > SAME_VALUE).sum()),
            lower=int((difference < -SAME_VALUE).sum()),
            other_optimum=int((apart & optima_apart).sum()),
            stuck=int((some["loglik after Newton"] - some["loglik"] > SAME_VALUE).sum()),
        )


def for_the_page(table: pd.DataFrame) -> pd.DataFrame:
    figures = summary(table)
    return pd.DataFrame(
        {
            "data": figures["data"],
            "algorithm": figures["algorithm"],
            "same value as NMF": [f"{value:.0%}" for value in figures["same value"]],
            "same rates": [f"{value:.0%}" for value in figures["same rates"]],
            "largest difference": [f"{value:,.3g}" for value in figures["largest difference"]],
            "largest distance of topics": [f"{value:.2g}" for value in figures["largest Hellinger"]],
            "Newton climbs on": [f"{1 - value:.0%}" for value in figures["optimum above reached"]],
            "median iterations": [f"{value:,.0f}" for value in figures["median iterations"]],
        }
    )


def doubts(plsi: Compared, normalised: Compared, four: Compared, apart: float) -> list[str]:
    """What the paper claims and these runs contradict, if they do."""
    found = []
    if plsi.same_value < plsi.starts:
        found.append(
            "Zhang et al., equation 10, that NMF and PLSI from one start always have identical values: log-likelihoods differed "
            f"by more than {SAME_VALUE} from {plsi.starts - plsi.same_value} of {plsi.starts} starts, "
            f"by up to {plsi.largest:,.1f}; from {plsi.other_optimum} of these they did so after Newton's method, too."
        )
    if normalised.same_value == normalised.starts:
        found.append(
            "Zhang et al., section 4, that normalised NMF converges to another local optimum than NMF: rates agreed to "
            f"{apart:.0e} at every iteration looked at, final log-likelihoods to {normalised.largest:.0e} from all "
            f"{normalised.starts} starts."
        )
    if four.same_value < four.starts:
        found.append(
            "Zhang et al., section 5, that several updates of one factor before the other lead to the same values: with four "
            f"and four, log-likelihoods differed from those of NMF by more than {SAME_VALUE} from "
            f"{four.starts - four.same_value} of {four.starts} starts, by up to {four.largest:,.1f}."
        )
    return found
