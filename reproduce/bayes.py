"""Paisley's lecture on Poisson matrix factorisation: EM against variational inference (VI) on the same data.

One model, x_ij ~ Poisson(Σ_k l_ik f_jk) with l ~ Gamma(a, b) and f ~ Gamma(c, d), and three estimates of it: maximum likelihood
(EM's goal), the posterior mode (MAP), and VI's posterior means. On data drawn from the model itself: which is closest to the
truth, and do VI's intervals hold it? On real counts: how well does each predict counts it did not see, as K grows?
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
import pandas as pd
from matplotlib.figure import Figure
from scipy.special import xlogy
from scipy.stats import geninvgauss

import unmix as um
from reproduce.common import (
    COLOURS,
    GREY,
    THREADS,
    Job,
    MissingDataError,
    Section,
    counts,
    legend_below,
    markdown,
    panels,
    thousands,
)
from unmix.models.poisson import best_pairs

SHAPES = {"sharp": 0.3, "blurred": 1.2}  # of both Gamma priors of a simulation: topics that overlap little, or much
LEVELS = (0.5, 0.7, 0.9)
SAMPLES, FEATURES, TOPICS = 60, 80, 4
DEPTHS = (30, 100, 300, 1000)  # mean counts a sample
BURN_IN, SWEEPS, THIN = 500, 1000, 5  # of the Gibbs sampler
MAP_SHAPE = 1.1  # a mode exists only above 1
VI_SHAPES = (0.1, 0.3, 1.0)  # a = c on real data; 0.3 is the library's default
FEW = 0.03  # of the counts: short documents
NUMBERS = (1, 2, 4, 8, 16, 32)  # of topics
BACKGROUND = 0.01  # share of the overall frequencies in every prediction
HELD_OUT, HIDDEN = 0.2, 0.5  # of the samples; of the counts of such a sample

ESTIMATES = ("ML", "MAP", "VI")
PAINT = {
    "ML": COLOURS["em"],
    "MAP": COLOURS["newton+ex"],
    "VI": COLOURS["scd"],
    "VI, a = c = 0.1": "#CC79A7",
    "VI, a = c = 0.3": COLOURS["scd"],
    "VI, a = c = 1": COLOURS["scd+ex"],
}

CLAIM = """**The claim** (Paisley, lecture 12 of EECS E6720, “Comparison with EM”). The updates of variational inference (VI) are
those of EM with expectations in place of point estimates: their results are closely similar, “only now we have a full
probability distribution”; and one hopes that these distributions are “about as good as” those of the exact objective.
The lecture shows no figures; the experiments here are ours."""


def main(job: Job) -> Section:
    draws = (50, 20) if job.full else (8, 2)
    simulated, doubts = about_simulation(job, job.table(lambda: simulate(job, *draws), "simulated"))
    predicted = about_prediction(job, job.table(lambda: prediction(job), "prediction"))
    return Section("\n\n".join([CLAIM, simulated, predicted]), doubts)


# --- data drawn from the model ---------------------------------------------------------------------------------------


@dataclass
class Drawn:
    """Counts drawn from the model, and the truth behind them; both priors are Gamma(shape, rate)."""

    X: np.ndarray
    L: np.ndarray
    F: np.ndarray
    shape: float
    rate: float

    @property
    def rates(self) -> np.ndarray:
        return self.L @ self.F.T


def draw(shape: float, depth: float, seed: int, n: int = SAMPLES, m: int = FEATURES, topics: int = TOPICS) -> Drawn:
    """Loadings and factors whose product has `depth` expected counts a sample."""
    rng = np.random.default_rng(seed)
    rate = float(np.sqrt(topics * shape**2 * m / depth))
    L, F = rng.gamma(shape, 1 / rate, (n, topics)), rng.gamma(shape, 1 / rate, (m, topics))
    return Drawn(rng.poisson(L @ F.T), L, F, shape, rate)


def estimates(data: Drawn) -> dict[str, Any]:
    """The three models; MAP and VI start from the solution of ML. VI has the true priors, MAP the nearest that have
    a mode."""
    topics = data.L.shape[1]
    common: dict[str, Any] = {"n_jobs": THREADS, "random_state": 0}
    ml = um.PoissonNMF(topics, max_iter=2000, **common).fit(data.X)
    shape = max(data.shape, MAP_SHAPE)
    prior = um.Gamma(shape, data.rate * shape / data.shape)  # of the same mean
    mode = um.PoissonNMF(
        topics, init=ml.result_, prefit=0, max_iter=2000, prior=prior, loadings_prior=prior, **common
    ).fit(data.X)
    a, b = data.shape, data.rate
    vi = um.BayesianPoissonNMF(topics, a=a, b=b, c=a, d=b, init=ml.result_, max_iter=2000, **common).fit(data.X)
    return {"ML": ml, "MAP": mode, "VI": vi}


def distance(data: Drawn, fit: um.Fit) -> float:
    """KL(Poisson(true rates) ‖ Poisson(estimated rates)) per expected count: what prediction loses by not knowing
    the truth."""
    truth, X = data.rates, data.X
    independent = X.sum(axis=1, keepdims=True) * (X.sum(axis=0) + 1) / (X.sum() + X.shape[1])
    rates = (1 - BACKGROUND) * fit.L @ fit.F.T + BACKGROUND * (independent + X.mean())
    return float((xlogy(truth, truth / rates) - truth + rates).sum() / truth.sum())


def posterior_draws(data: Drawn, start: um.Fit, seed: int) -> tuple[np.ndarray, np.ndarray]:
    """Draws of L and F from the exact posterior by Gibbs sampling, so that VI's intervals can be held against it.

    S_ij· ~ Multinomial(x_ij, ∝ l_ik f_jk);   l_ik ~ Gamma(a + Σ_j S_ijk, b + Σ_j f_jk);
    f_jk ~ Gamma(c + Σ_i S_ijk, d + Σ_i l_ik)
    """
    rng = np.random.default_rng(seed)
    rows, columns = np.nonzero(data.X)
    x = data.X[rows, columns]
    L, F = np.maximum(start.L, 1e-12), np.maximum(start.F, 1e-12)
    S = np.zeros((*data.X.shape, L.shape[1]))
    kept = []
    for sweep in range(BURN_IN + SWEEPS):
        chances = L[rows] * F[columns]
        S[rows, columns] = rng.multinomial(x, chances / chances.sum(axis=1, keepdims=True))
        L = np.maximum(rng.gamma(data.shape + S.sum(axis=1), 1 / (data.rate + F.sum(axis=0))), 1e-12)
        F = np.maximum(rng.gamma(data.shape + S.sum(axis=0), 1 / (data.rate + L.sum(axis=0))), 1e-12)
        if sweep % THIN == 0:
            scale = new_scales(rng, data, L, F)
            L, F = L * scale, F / scale
            if sweep >= BURN_IN:
                kept.append((L, F))
    return np.array([L for L, _ in kept]), np.array([F for _, F in kept])


def new_scales(rng: np.random.Generator, data: Drawn, L: np.ndarray, F: np.ndarray) -> np.ndarray:
    """A draw of the scale z of each topic, L z and F / z, given all else. Data say nothing of it, and without this step the
    sampler would find it only slowly. A generalised inverse Gaussian:

    p(z) ∝ z^(n a − m c − 1) exp(−b z Σ_i l_ik − d Σ_j f_jk / z)
    """
    power = data.shape * (len(L) - len(F))
    v, u = data.rate * L.sum(axis=0), data.rate * F.sum(axis=0)
    return np.sqrt(u / v) * np.array([geninvgauss.rvs(power, 2 * root, random_state=rng) for root in np.sqrt(u * v)])


def matching(data: Drawn, F: np.ndarray) -> list[int]:
    """For each true topic its place in an estimate."""
    place = best_pairs(unit(data.F).T @ unit(F))
    return [place[k] for k in range(data.F.shape[1])]


def unit(columns: np.ndarray) -> np.ndarray:
    return columns / np.linalg.norm(columns, axis=0)


def coverage(data: Drawn, ends: dict[str, tuple[np.ndarray, np.ndarray]], means: np.ndarray) -> dict[str, float]:
    """The share of true loadings and factors between the ends of intervals; topics matched by their means."""
    order = matching(data, means)
    truth = {"loadings": data.L, "factors": data.F}
    return {
        of: float(((low[:, order] <= truth[of]) & (truth[of] <= high[:, order])).mean())
        for of, (low, high) in ends.items()
    }


def vi_coverage(data: Drawn, vi: Any, level: float) -> dict[str, float]:
    return coverage(data, {of: vi.credible_intervals(of, level) for of in ("loadings", "factors")}, vi.result_.F)


def exact_coverage(data: Drawn, draws: tuple[np.ndarray, np.ndarray], level: float) -> dict[str, float]:
    tails = [(1 - level) / 2, (1 + level) / 2]
    ends = {of: tuple(np.quantile(d, tails, axis=0)) for of, d in zip(("loadings", "factors"), draws, strict=True)}
    return coverage(data, ends, draws[1].mean(axis=0))  # type: ignore[arg-type]


def simulate(job: Job, draws: int, sampled: int) -> pd.DataFrame:
    """A row a kind of topics, depth and draw: distances of the three estimates, coverages of VI and, for some, of
    the sampler."""
    rows = []
    for kind, shape in SHAPES.items():
        for depth in DEPTHS:
            job.say(f"{draws} draws of {kind} topics, {depth} counts a sample")
            rows += [drawn_row(kind, shape, depth, seed, exact=seed < sampled) for seed in range(draws)]
    return pd.DataFrame(rows)


def drawn_row(kind: str, shape: float, depth: int, seed: int, *, exact: bool) -> dict[str, Any]:
    data = draw(shape, depth, seed)
    models = estimates(data)
    row: dict[str, Any] = {"topics": kind, "depth": depth, "seed": seed}
    row |= {f"distance_{name}": distance(data, model.result_) for name, model in models.items()}
    row["zeros_ML"] = float((models["ML"].result_.proportions < 1e-9).mean())
    samples = posterior_draws(data, models["VI"].result_, seed) if exact else None
    for level in LEVELS:
        row |= {f"VI_{of}_{level}": share for of, share in vi_coverage(data, models["VI"], level).items()}
        if samples is not None:
            row |= {f"exact_{of}_{level}": share for of, share in exact_coverage(data, samples, level).items()}
    return row


def about_simulation(job: Job, rows: pd.DataFrame) -> tuple[str, list[str]]:
    picture = job.save(
        lambda: simulation_picture(rows), "simulated", "Distance to the truth, and how often intervals hold it"
    )
    mean = rows.groupby(["topics", "depth"], sort=False).mean(numeric_only=True)
    draws, sampled = rows["seed"].nunique(), rows.loc[rows["exact_loadings_0.9"].notna(), "seed"].nunique()
    table = pd.DataFrame(
        {
            "topics": [kind for kind, _ in mean.index],
            "counts a sample": thousands(depth for _, depth in mean.index),
            **{f"distance, {name}": [f"{value:.4f}" for value in mean[f"distance_{name}"]] for name in ESTIMATES},
            **{
                f"true {of} in 90% intervals, {name}": [f"{value:.0%}" for value in mean[f"{key}_{of}_0.9"]]
                for key, name in (("VI", "VI"), ("exact", "Gibbs"))
                for of in ("loadings", "factors")
            },
        }
    )
    few, many = min(DEPTHS), max(DEPTHS)
    ratio = mean["distance_ML"] / mean["distance_VI"]
    wins = int((rows["distance_VI"] < rows["distance_ML"]).sum())
    overtaken = int((rows["distance_MAP"] < rows["distance_VI"]).sum())
    ratios = " and ".join(
        f"{ratio[kind, few]:.1f} times as far with {few} counts a sample and {ratio[kind, many]:.2f} times with"
        f" {many:,} ({kind} topics)"
        for kind in SHAPES
    )
    text = (
        f"**Data drawn from the model** ({SAMPLES} × {FEATURES}, K = {TOPICS}, {draws} draws each): Gamma shapes of "
        f"{SHAPES['sharp']} make topics sharp, {SHAPES['blurred']} blurred. VI knows the priors; MAP has "
        f"Gamma({MAP_SHAPE}) where these have no mode. The distance of an estimate is KL(Poisson(true rates) ‖ "
        f"Poisson(estimated rates)) per count, in nats, {BACKGROUND:.0%} of a background mixed into every estimate, as "
        f"zeros of ML make it infinite. Gibbs sampling of the exact posterior ({sampled} of the draws, {SWEEPS:,} "
        "sweeps from VI's solution) says what the intervals should hold.\n\n"
        f"{picture}\n\n{markdown(table)}\n\n"
        f"Point estimates: VI is closer to the truth than ML in {wins} of {len(rows)} draws, MAP closer than VI in "
        f"{overtaken}. ML is {ratios}: with more counts the estimates approach one another, as the updates suggest. ML "
        f"sets {mean['zeros_ML']['sharp', few]:.0%} (sharp) and {mean['zeros_ML']['blurred', few]:.0%} (blurred) of "
        f"the proportions to zero with {few} counts a sample; the truth has none.\n\n"
        f"Spread: VI's 90% intervals hold {span(mean, 'VI', 'sharp')} with sharp topics and "
        f"{span(mean, 'VI', 'blurred')} with blurred ones; those of the exact posterior {span(mean, 'exact', 'sharp')} "
        f"and {span(mean, 'exact', 'blurred')}. The factorised q treats each entry as if all others were known, so its "
        f"intervals are too short, with {many:,} counts a sample {'even more so' if shrinks(mean) else 'not more so'} "
        f"than with {few}. Where Gibbs itself misses 90%, two causes are possible: {sampled} draws are few, and the "
        "chain starts at VI's solution."
    )
    return text, simulation_doubts(mean)


def shrinks(mean: pd.DataFrame) -> bool:
    """Whether VI's intervals hold less of the truth with many counts than with few, for both kinds of topics and
    both factors."""
    columns = ["VI_loadings_0.9", "VI_factors_0.9"]
    return all(
        (mean.loc[(kind, max(DEPTHS)), columns] < mean.loc[(kind, min(DEPTHS)), columns]).all() for kind in SHAPES
    )


def span(mean: pd.DataFrame, of_whom: str, kind: str) -> str:
    """“40–60% of the true loadings and …”: over the depths."""
    parts = []
    for of in ("loadings", "factors"):
        values = mean.loc[kind, f"{of_whom}_{of}_0.9"]
        parts.append(f"{100 * values.min():.0f}–{values.max():.0%} of the {of}")
    return " and ".join(parts)


def simulation_doubts(mean: pd.DataFrame) -> list[str]:
    if mean[["VI_loadings_0.9", "VI_factors_0.9"]].min().min() >= 0.85:
        return []
    return [
        "Paisley, lecture 12, hopes that VI's q is “about as good as” the optimum of the exact objective. As measures "
        f"of uncertainty they are not: on data drawn from the model 90% intervals hold {span(mean, 'VI', 'sharp')} "
        f"with sharp topics and {span(mean, 'VI', 'blurred')} with blurred ones, those of the exact posterior "
        f"{span(mean, 'exact', 'sharp')} and {span(mean, 'exact', 'blurred')}."
    ]


def simulation_picture(rows: pd.DataFrame) -> Figure:
    figure, axes = panels(2, 3, (2.8, 2.1), sharex="col", sharey="col")
    shades = dict(zip(DEPTHS, ("#FDBE85", "#FD8D3C", "#D94801", "#7F2704"), strict=True))
    for row, kind in enumerate(SHAPES):
        grouped = rows[rows["topics"] == kind].groupby("depth")
        ax = axes[row, 0]
        for name in ESTIMATES:
            d = grouped[f"distance_{name}"]
            ax.plot(list(DEPTHS), d.mean(), color=PAINT[name], marker="o", markersize=3, label=name)
            ax.fill_between(list(DEPTHS), d.min(), d.max(), color=PAINT[name], alpha=0.15, linewidth=0)
        ax.set(title=f"{kind} topics: distance to the truth", ylabel="KL per count (nats)", xscale="log", yscale="log")
        for ax, of in zip(axes[row, 1:], ("loadings", "factors"), strict=True):
            for depth, group in grouped:
                look = {"color": shades[depth], "linewidth": 1.3, "marker": "o", "markersize": 3}
                ax.plot(LEVELS, [group[f"VI_{of}_{q}"].mean() for q in LEVELS], label=f"VI, {depth:,} counts", **look)
                ax.plot(LEVELS, [group[f"exact_{of}_{q}"].mean() for q in LEVELS], linestyle=":", **look)
            ax.plot([0.5, 0.9], [0.5, 0.9], color=GREY, linewidth=0.8, zorder=0)
            ax.set(title=f"{kind}: true {of} inside", ylabel="share inside the interval", ylim=(0, 1))
    axes[1, 0].set_xlabel("counts a sample")
    axes[0, 0].legend()
    for ax in axes[1, 1:]:
        ax.set(xlabel="level of the interval", xticks=LEVELS)
    axes[1, 2].plot([], [], color=GREY, linestyle=":", label="exact posterior (Gibbs)")
    legend_below(figure, axes[1, 2])
    return figure


# --- counts not seen, as K grows -------------------------------------------------------------------------------------


def data_sets(job: Job) -> dict[str, um.Counts]:
    """Quick: the embedded addresses, whole and with few of their counts. Full: also digits, and what there is of NeurIPS
    papers and blood cells.
    """
    sotu = um.datasets.sotu()
    found: dict[str, um.Counts] = {"sotu": sotu, f"sotu, {FEW:.0%} of its counts": thinned(sotu, FEW)}
    if job.full:
        found["digits"] = um.datasets.digits()
        for name in ("nips", "pbmc_facs"):
            try:
                found[name] = counts(name)
            except MissingDataError as reason:
                job.say(f"left out: {reason}")
    return found


def thinned(X: um.Counts, share: float) -> um.Counts:
    """Each count is kept with this probability; features without any are left out."""
    kept = X.with_data(np.random.default_rng(0).binomial(X.csr.data.astype(np.int64), share).astype(np.float64))
    return um.Counts(kept[:, np.flatnonzero(kept.sum(axis=0) > 0)])


def split(X: um.Counts, seed: int) -> tuple[um.Counts, um.Counts, um.Counts]:
    """Samples to learn from; and of the others the counts that are shown and those to be predicted."""
    rng = np.random.default_rng(seed)
    order = rng.permutation(X.shape[0])
    held = round(HELD_OUT * X.shape[0])
    known, new = X.take(np.sort(order[held:])), X.take(np.sort(order[:held]))
    hidden = rng.binomial(new.csr.data.astype(np.int64), HIDDEN).astype(np.float64)
    shown, unseen_counts = (um.Counts(new.with_data(data)) for data in (new.csr.data - hidden, hidden))
    return known, shown, unseen_counts


def perplexity(model: Any, known: um.Counts, shown: um.Counts, unseen_counts: um.Counts) -> dict[str, float]:
    """exp(−mean log probability) of the counts seen in the fit and of those to be predicted, with a little of the
    overall frequencies mixed in.

    The mixture keeps it finite: a topic of maximum likelihood may rule out a word that then occurs. `impossible` is the
    share of such counts.
    """
    frequency = known.feature_totals + 1
    frequency /= frequency.sum()

    def of(L: np.ndarray, target: um.Counts) -> tuple[float, float]:
        x, found = target.csr.data, chances(L, model.components_, target)
        mixed = (1 - BACKGROUND) * found + BACKGROUND * frequency[target.csr.indices]
        return float(np.exp(-(x @ np.log(mixed)) / x.sum())), float(x[found < 1e-12].sum() / x.sum())

    unseen, impossible = of(visible(model, shown), unseen_counts)
    return {"seen": of(model.result_.L, known)[0], "unseen": unseen, "impossible": impossible}


def chances(L: np.ndarray, components: np.ndarray, target: um.Counts) -> np.ndarray:
    """Σ_k l_ik f_jk / Σ_jk l_ik f_jk where the target has entries."""
    rows = np.repeat(np.arange(target.shape[0]), np.diff(target.csr.indptr))
    found = np.zeros(len(rows))
    for loadings, factor in zip(L.T, components, strict=True):
        found += loadings[rows] * factor[target.csr.indices]
    return found / (L @ components.sum(axis=1))[rows]


def visible(model: Any, shown: um.Counts) -> np.ndarray:
    """Loadings found from the counts that are shown, without those of features that no topic has."""
    possible = model.components_.max(axis=0) > 0
    kept = np.where(possible[shown.csr.indices], shown.csr.data, 0.0)
    L = model.transform(um.Counts(shown.with_data(kept)))
    L[L.sum(axis=1) == 0] = 1.0  # nothing is known of the sample
    return L


def fitted(known: um.Counts, topics: int) -> dict[str, Any]:
    """ML, and from its solution MAP and VI with three priors."""
    common: dict[str, Any] = {"n_jobs": THREADS, "random_state": 0}
    ml = um.PoissonNMF(topics, max_iter=500, tol=1e-6, **common).fit(known)
    prior = {"prior": um.Gamma(MAP_SHAPE), "loadings_prior": um.Gamma(MAP_SHAPE)}
    models = {"ML": ml}
    models["MAP"] = um.PoissonNMF(topics, init=ml.result_, prefit=0, max_iter=500, tol=1e-6, **prior, **common).fit(
        known
    )
    for shape in VI_SHAPES:
        vi = um.BayesianPoissonNMF(topics, a=shape, c=shape, init=ml.result_, max_iter=1000, **common)
        models[f"VI, a = c = {shape:g}"] = vi.fit(known)
    return models


def prediction(job: Job) -> pd.DataFrame:
    """A row a data set, K and model."""
    rows = []
    for name, X in data_sets(job).items():
        parts = split(X, seed=0)
        for topics in (*NUMBERS, 64) if job.full else NUMBERS:
            if topics > min(parts[0].shape):
                break
            job.say(f"{name}, K = {topics}")
            for label, model in fitted(parts[0], topics).items():
                row = {"data": name, "K": topics, "model": label} | perplexity(model, *parts)
                rows.append(row | {"elbo": float(getattr(model, "elbo_", np.nan))})
    return pd.DataFrame(rows)


def about_prediction(job: Job, rows: pd.DataFrame) -> str:
    picture = job.save(
        lambda: prediction_picture(rows), "prediction", "Perplexity of seen and unseen counts as K grows"
    )
    parts = [
        "**Counts not seen, as K grows.** A fifth of the samples is left out of the fit; of each, about half the "
        f"counts are shown to find its loadings and the rest are predicted. MAP has Gamma({MAP_SHAPE}) priors, VI a = c "
        f"= {', '.join(f'{shape:g}' for shape in VI_SHAPES)} with b and d from the total of the counts; MAP and VI "
        f"start from the ML solution. {BACKGROUND:.0%} of the overall frequencies is mixed into every prediction, else "
        "ML's perplexity is infinite.",
        picture,
        *(about_data(name, group) for name, group in rows.groupby("data", sort=False)),
    ]
    return "\n\n".join(parts)


def wide(group: pd.DataFrame, column: str = "unseen") -> pd.DataFrame:
    """Models across, K down."""
    return group.pivot_table(index="K", columns="model", values=column, dropna=False)[
        list(dict.fromkeys(group["model"]))
    ]


def about_data(name: str, group: pd.DataFrame) -> str:
    unseen = wide(group)
    table = unseen.map(lambda value: f"{value:,.1f}").reset_index()
    top, best = unseen.index.max(), unseen.min()
    each = "; ".join(
        f"{model}: K = {unseen[model].idxmin()}, then {unseen[model][top] / best[model] - 1:+.1%}" for model in unseen
    )
    ruled_out = wide(group, "impossible")["ML"]
    bound = wide(group, "elbo")
    peaks = ", ".join(f"K = {bound[model].idxmax()} ({model})" for model in bound if bound[model].notna().any())
    return (
        f"`{name}`, perplexity of counts not seen:\n\n{markdown(table)}\n\n"
        f"Where it is lowest, and how far it has risen at K = {top}: {each}. ML rules out {ruled_out[top]:.2%} of the unseen"
        f" counts at K = {top}, which without the mixture makes its perplexity infinite. The bound of VI is highest at {peaks}."
    )


def prediction_picture(rows: pd.DataFrame) -> Figure:
    names = list(dict.fromkeys(rows["data"]))
    figure, axes = panels(len(names), 2, (4.4, 2.7))
    for row, name in enumerate(names):
        group = rows[rows["data"] == name]
        for ax, column, title in zip(
            axes[row], ("seen", "unseen"), ("counts of the fit", "counts not seen"), strict=True
        ):
            for model, values in wide(group, column).items():
                ax.plot(values.index, values, marker="o", markersize=3, color=PAINT[str(model)], label=str(model))
            ax.set(title=f"{name}: {title}", xlabel="topics K", ylabel="perplexity")
            ax.set_xscale("log", base=2)
            ax.set_xticks(sorted(group["K"].unique()), [str(k) for k in sorted(group["K"].unique())])
    legend_below(figure, axes[0, 0])
    return figure
