"""Beside other libraries: how well each predicts counts that it did not see, how long it takes, and how much memory.

Every count is split at random: x_ij = train + test, test ~ Binomial(x_ij, 1/5). A program finds proportions L* and topics F*
on the train counts, and is judged by the test counts, all programs by the same function:

    Σ_ij test_ij log p_ij / Σ_ij test_ij,    p_ij = (1 − ε) Σ_k l*_ik f*_jk + ε q_j

q: the overall frequencies of the features. A little of them in every prediction (ε) avoids the logarithm of zero.
"""

from __future__ import annotations

import re
import tempfile
import time
import warnings
from importlib import import_module
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import scipy.sparse as sp
from benchmarks.data import load_counts
from benchmarks.measure import PeakMemory, TaskError, in_fresh_process, rates_at_nonzeros, timed
from matplotlib.figure import Figure

from reproduce.common import (
    GREY,
    THREADS,
    Job,
    MissingDataError,
    Section,
    counts,
    markdown,
    thousands,
)
from reproduce.libraries import PROGRAMS, K, Program
from unmix.plot.style import place_labels, tidy

TEST_SHARE = 0.2
SMOOTHING = 1e-3
OTHER_SMOOTHINGS = (1e-2, 1e-4)
QUICK, FULL = ("nips",), ("newsgroups", "nips", "pbmc_facs")
NAMES = {"newsgroups": "newsgroups", "nips": "NeurIPS", "pbmc_facs": "pbmc_facs"}
PATIENCE = {False: 900.0, True: 3 * 3600.0}  # seconds for one program, quick and full
MEGABYTE = 1e6
OURS = "#0A5AA8"
SHORT = re.compile(r"LDAModel|LdaMulticore")
WHICH = (
    "**Which to choose.** To predict counts: `LDA`, on texts and cells alike; the prior on proportions is what "
    "maximum likelihood lacks. `TopicModel` for the highest likelihood of the counts at hand, soonest. On blood "
    "cells scikit-learn's NMF predicts a little better than `TopicModel` because it stops early, 200 multiplicative "
    "updates from its start, and so fits less of the noise: plain EM does the same (log-likelihood of the counts "
    "that are fitted −7,464,345 after 200 iterations and −7,456,525 for the default fit; held-out counts −6.7065 "
    "and −6.7066 each). For that purpose a prior is better."
)


def main(job: Job) -> Section:
    chosen = [program for program in PROGRAMS if job.full or not program.only_full]
    wanted = FULL if job.full else QUICK

    def every() -> pd.DataFrame:
        tables, missing = [], []
        for name in wanted:
            try:
                tables.append(compare(job, name, chosen).assign(data=name).drop(columns="each"))
            except MissingDataError as reason:
                missing.append(str(reason))
                job.say(f"{name} left out: {reason}")
        if not tables:
            raise MissingDataError("; ".join(missing))
        return pd.concat(tables)

    return page(job, job.table(every).fillna({"reason": ""}), chosen, wanted)


def page(job: Job, every: pd.DataFrame, programs: list[Program], wanted: tuple[str, ...]) -> Section:
    tables = {str(name): table.reset_index(drop=True) for name, table in every.groupby("data", sort=False)}
    picture = job.save(
        lambda: draw(tables), alt="how far behind the best prediction against seconds, for every program"
    )
    parts = [explanation(programs, every, full=job.full), picture, LEGEND, markdown(together(tables))]
    parts += [f"**{NAMES[name]}**\n{verdict(table)}" for name, table in tables.items()]
    parts += [f"Left out, as the data were not at hand: {name}." for name in wanted if name not in tables]
    parts += [WHICH] if job.full else []
    return Section("\n\n".join(parts))


# The measurement


def thinned(X: sp.csr_matrix, seed: int = 0) -> tuple[sp.csr_matrix, sp.csr_matrix]:
    """Train and test counts: together X, without test counts in samples and features that have no train counts."""
    X = sp.csr_matrix(X)
    train, test = X.copy(), X.copy()
    test.data = np.random.default_rng(seed).binomial(X.data.astype(np.int64), TEST_SHARE).astype(np.int32)
    train.data = X.data.astype(np.int32) - test.data
    train.eliminate_zeros()
    in_sample, of_feature = (np.asarray(train.sum(axis=axis)).ravel() for axis in (1, 0))
    test.data[(np.repeat(in_sample, np.diff(X.indptr)) == 0) | (of_feature[X.indices] == 0)] = 0
    test.eliminate_zeros()
    return train, test


def predictions(
    test: sp.csr_matrix, L: np.ndarray, F: np.ndarray, frequencies: np.ndarray, smoothing: float
) -> np.ndarray:
    """p at the nonzeros of the test counts. Factors may have any scale; a sample without loadings gets the frequencies."""
    L, F = np.asarray(L, dtype=np.float64), np.asarray(F, dtype=np.float64)
    totals = np.repeat(L @ F.sum(axis=0), np.diff(test.indptr))
    overall = frequencies[test.indices]
    found = np.divide(rates_at_nonzeros(test, L, F), totals, out=overall.copy(), where=totals > 0)
    return (1 - smoothing) * found + smoothing * overall


def held_out(
    test: sp.csr_matrix, L: np.ndarray, F: np.ndarray, frequencies: np.ndarray, smoothing: float
) -> np.ndarray:
    """Σ_j test_ij log p_ij of every sample."""
    logs = test.copy().astype(np.float64)
    logs.data *= np.log(predictions(test, L, F, frequencies, smoothing))
    return np.asarray(logs.sum(axis=1)).ravel()


def overall_frequencies(train: sp.csr_matrix) -> np.ndarray:
    totals = np.asarray(train.sum(axis=0), dtype=np.float64).ravel()
    return totals / totals.sum()


class FamilyMemory(PeakMemory):
    """`PeakMemory` that also counts what child processes hold for themselves: some libraries work in those.

    To look for children takes milliseconds, so it is done twice a second: they live long.
    """

    def _sample(self) -> None:
        children, looked = 0, time.perf_counter()
        while not self._done.wait(0.005):
            if time.perf_counter() - looked > 0.5:
                children, looked = self._children(), time.perf_counter()
            self._peak = max(self._peak, self._process.memory_info().rss + children)

    def _children(self) -> int:
        import psutil

        held = 0
        for child in self._process.children(recursive=True):
            try:
                held += child.memory_full_info().uss
            except psutil.Error:  # it has just ended
                continue
        return held


def measure(program: str, train: str, test: str) -> dict[str, Any]:
    """One program on one data set, from the counts in memory to proportions and topics; runs in a process of its own."""
    chosen = next(known for known in PROGRAMS if known.name == program)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # what a library has to say is no part of the measurement
        import_module(chosen.requires)
        X = load_counts(train)
        with FamilyMemory() as memory:
            seconds, (L, F, iterations) = timed(lambda: chosen.call(X, **chosen.parameters))
    if not (np.isfinite(L).all() and np.isfinite(F).all()):
        raise ArithmeticError(f"{program} gave factors that are not finite")
    unseen, frequencies = load_counts(test), overall_frequencies(X)
    return {
        "iterations": iterations,
        "seconds": seconds,
        "peak MB": memory.extra_bytes / MEGABYTE,
        "each": held_out(unseen, L, F, frequencies, SMOOTHING).tolist(),
    } | {
        column(smoothing): float(held_out(unseen, L, F, frequencies, smoothing).sum() / unseen.sum())
        for smoothing in (SMOOTHING, *OTHER_SMOOTHINGS)
    }


def column(smoothing: float) -> str:
    return f"held-out log-likelihood per count, ε = {smoothing:g}"


HELD_OUT = column(SMOOTHING)


def compare(job: Job, data: str, programs: list[Program]) -> pd.DataFrame:
    """A row a program, the best first; last those that did not run, with the reason."""
    X = counts(data).csr
    train, test = thinned(X if job.full else X[::2])
    total, rows = int(test.sum()), []
    with tempfile.TemporaryDirectory() as folder:
        files = {"train": str(Path(folder) / "train.npz"), "test": str(Path(folder) / "test.npz")}
        sp.save_npz(files["train"], train)
        sp.save_npz(files["test"], test)
        for program in programs:
            job.say(f"{data}: {program.name}")
            row = {"program": program.name, "library": program.library, "kind": program.kind, "reason": ""}
            row |= {"version": release(program), "runs": 1}
            try:
                found = in_fresh_process(
                    "reproduce.peers:measure",
                    threads=THREADS,
                    timeout=PATIENCE[job.full],
                    program=program.name,
                    **files,
                )
            except TaskError as failure:
                found = {"reason": str(failure)}
                job.say(f"{data}: {program.name} left out: {failure}")
            rows.append(row | found)
    ran = [row for row in rows if "each" in row]
    if not ran:
        raise MissingDataError(f"no program ran; the first says: {rows[0]['reason']}")
    rows.append(no_topics(train, test))
    return ranked(pd.DataFrame(rows), total)


def no_topics(train: sp.csr_matrix, test: sp.csr_matrix) -> dict[str, Any]:
    """What the overall frequencies alone predict."""
    frequencies = overall_frequencies(train)
    each = held_out(test, np.ones((test.shape[0], 1)), frequencies[:, None], frequencies, SMOOTHING)
    value = float(each.sum() / test.sum())
    return {"program": NO_TOPICS, "library": "", "kind": "", "reason": "", "each": each.tolist()} | {
        column(smoothing): value for smoothing in (SMOOTHING, *OTHER_SMOOTHINGS)
    }


NO_TOPICS = "no topics: the overall frequencies"


def ranked(table: pd.DataFrame, total: int) -> pd.DataFrame:
    """The best first, and how far each is behind it, with the standard error of the difference over samples."""
    table = table.sort_values(HELD_OUT, ascending=False, na_position="last", ignore_index=True)
    best = np.array(table["each"].iloc[0])
    behind = [None if isinstance(each, float) else best - np.array(each) for each in table["each"]]
    return table.assign(
        **{
            "behind the best": [None if gaps is None else gaps.sum() / total for gaps in behind],
            "standard error": [
                None if gaps is None else gaps.std(ddof=1) * np.sqrt(len(gaps)) / total for gaps in behind
            ],
        }
    ).astype({"behind the best": float, "standard error": float})


# What the page shows


def together(tables: dict[str, pd.DataFrame]) -> pd.DataFrame:
    """A row a program, the best on average first; for each data set how far behind the best, seconds and memory."""
    found = {name: table.set_index("program") for name, table in tables.items()}
    ranks = pd.DataFrame({name: table[HELD_OUT].rank(ascending=False) for name, table in found.items()})
    order = ranks.mean(axis=1).sort_values(kind="stable").index
    columns: dict[str, list[str]] = {"program": list(order)}
    for name, table in found.items():
        rows = table.reindex(order)
        columns |= {
            f"{NAMES[name]}: behind": [distance(row) for _, row in rows.iterrows()],
            f"{NAMES[name]}: s": [brief_seconds(value) for value in rows["seconds"]],
            f"{NAMES[name]}: MB": thousands(rows["peak MB"]),
        }
    return pd.DataFrame(columns)


def distance(row: pd.Series) -> str:
    if row["reason"]:
        return "not run"
    return "best" if row["behind the best"] == 0 else f"{row['behind the best']:.4f} ± {row['standard error']:.4f}"


def brief_seconds(value: float) -> str:
    return "–" if pd.isna(value) else f"{value:,.1f}" if value < 10 else f"{value:,.0f}"


LEGEND = (
    f"Up is better, left is sooner. Held-out log-likelihood per count with K = {K}: how far behind the best, ± its standard "
    "error; seconds; and MB. The figures themselves, perplexities and iterations are in `peers.csv`."
)


def explanation(programs: list[Program], every: pd.DataFrame, *, full: bool) -> str:
    versions, runs = (every.drop_duplicates("program").set_index("program")[column] for column in ("version", "runs"))
    lines = [
        f"- {program.name}, version {versions[program.name]}: {program.settings}"
        for program in programs
        if program.name in versions and pd.notna(versions[program.name])
    ]
    once = "Each program ran once" if runs.max() == 1 else "Each program ran `runs` times, and its shortest time counts"
    later = [f"{program.name}: {program.settings}" for program in PROGRAMS if program not in programs]
    omitted = f"\n\nOnly with `--full`, for their length: {'; '.join(later)}." if later else ""
    shorter = "" if full else " In this quick form every other sample is left out."
    return (
        "Not a claim of a paper: how unmix stands beside the libraries people use. Every count was split at random, "
        f"{1 - TEST_SHARE:.0%} to learn from and {TEST_SHARE:.0%} to be judged by, the same split for all; a sample's unseen "
        "counts are predicted by the proportions and topics found on its seen ones (for LDA the posterior means, for Gibbs "
        "sampling the last sweep). For all of them, a prediction is mixed with the overall frequencies of the features, "
        f"with weight ε = {SMOOTHING:g}, so that nothing has probability zero; features and samples without a seen count are "
        f"not judged. {once}, in a fresh process: seconds are from the matrix in memory to "
        "proportions and topics, conversions included, imports not; memory is the peak beyond the matrix, child processes "
        "included. ± is the standard error over samples, and says nothing of other seeds. gensim's LdaMulticore and tomotopy on "
        f"several threads give slightly different topics every time, whatever the seed.{shorter}\n\n"
        f"What was called, with K = {K} and otherwise as the library has it:\n" + "\n".join(lines) + omitted
    )


def release(program: Program) -> str | None:
    try:
        return version(program.library)
    except PackageNotFoundError:
        return None


def verdict(table: pd.DataFrame) -> str:
    """Who predicts best, who is ahead of unmix, who is soonest, and whether the smoothing matters."""
    ran = table[table["seconds"].notna()]
    best, soonest, lightest = ran.iloc[0], ran.loc[ran["seconds"].idxmin()], ran.loc[ran["peak MB"].idxmin()]
    sentences = [
        f"Best: {best['program']}, {thousands([best[HELD_OUT]], 4)[0]} per count (perplexity {np.exp(-best[HELD_OUT]):,.0f}). "
        f"Soonest: {soonest['program']} ({soonest['seconds']:.1f} s). Least memory: {lightest['program']} "
        f"({lightest['peak MB']:,.0f} MB)."
    ]
    sentences += [beside(ran, ours) for ours in ran.loc[ran["library"] == "unmix", "program"]]
    sentences.append(smoothing_matters(ran))
    sentences += [f"{row.program} was not run: {row.reason}." for row in table[table["reason"] != ""].itertuples()]
    return "\n".join(f"- {sentence}" for sentence in sentences)


def beside(ran: pd.DataFrame, ours: str) -> str:
    """Which peers predict better than one of unmix's programs, and which are sooner."""
    row, peers = ran[ran["program"] == ours].iloc[0], ran[ran["library"] != "unmix"]
    better, sooner = peers[peers[HELD_OUT] > row[HELD_OUT]], peers[peers["seconds"] < row["seconds"]]
    ahead = [f"{peer.program} (by {peer[HELD_OUT] - row[HELD_OUT]:.4f})" for _, peer in better.iterrows()]
    return (
        f"{ours}, {row['seconds']:.1f} s: other libraries that predict better, {', '.join(ahead) or 'none'}; "
        f"that are done sooner, {', '.join(sooner['program']) or 'none'}."
    )


def smoothing_matters(ran: pd.DataFrame) -> str:
    """Whose rank another ε would change."""
    ranks, told = ran[HELD_OUT].rank(ascending=False), []
    for smoothing in OTHER_SMOOTHINGS:
        others = ran[column(smoothing)].rank(ascending=False)
        moved = [
            f"{ran['program'][i]} from {ranks[i]:.0f} to {others[i]:.0f}" for i in ran.index if ranks[i] != others[i]
        ]
        told.append(f"with ε = {smoothing:g}, " + (f"the rank of {', '.join(moved)}" if moved else "no rank"))
    return f"What another ε would change: {'; '.join(told)}."


WITHIN = 0.72  # of the programs are on the axis; those further behind are named at its lower edge


def draw(tables: dict[str, pd.DataFrame]) -> Figure:
    """How much higher than the best the perplexity is, against seconds: a panel per data set, the best at the top."""
    figure = Figure(figsize=(4.4 * len(tables) + 0.4, 4.4))
    figure.subplots_adjust(left=0.22 / len(tables), right=0.99, top=0.91, bottom=0.19, wspace=0.24)
    axes = figure.subplots(1, len(tables), squeeze=False)
    version, labels = "", []
    for ax, (name, table) in zip(axes[0], tables.items(), strict=True):
        ran = table[table["seconds"].notna()]
        ours = (ran["library"] == "unmix").to_numpy()
        version = str(ran["version"][ours].iloc[0])
        behind, seconds = 100 * np.expm1(ran["behind the best"].to_numpy()), ran["seconds"].to_numpy()
        worst = 1.15 * float(np.quantile(behind, WITHIN, method="higher"))
        beyond = behind > worst
        for some, color in ((~ours, GREY), (ours, OURS)):
            ax.plot(seconds[some & ~beyond], behind[some & ~beyond], "o", color=color, markersize=6, clip_on=False)
            ax.plot(
                seconds[some & beyond],
                np.full((some & beyond).sum(), worst),
                "v",
                color=color,
                markersize=6,
                clip_on=False,
            )
        ax.set(title=NAMES[name], xscale="log", xlim=(0.15, 600), ylim=(1.06 * worst, -0.04 * worst))
        ax.set_xlabel("seconds")
        ax.yaxis.set_major_formatter(lambda value, _: "best" if value == 0 else f"+{value:g}%")
        tidy(ax, grid="y")
        names = [
            SHORT.sub("LDA", program) + (f" (+{value:.0f}%)" if far else "")
            for program, value, far in zip(ran["program"], behind, beyond, strict=True)
        ]
        first = np.argsort(~ours, kind="stable")
        labels.append((ax, seconds[first], np.minimum(behind, worst)[first], [names[i] for i in first]))
    axes[0][0].set_ylabel("perplexity of held-out counts, above the best")
    figure.supxlabel(
        f"upper left is better · unmix {version}, {THREADS} threads · triangles: beyond the axis",
        fontsize=8.5,
        color="0.35",
    )
    for ax, x, y, names in labels:  # once everything has its place
        for label in place_labels(ax, x, y, names):
            label.set(color=OURS if label.get_text().startswith("unmix") else "0.35")
    return figure
