"""Estimators on shards: where fits of them start, and what is asked of models shard by shard."""

from __future__ import annotations

import os
import warnings
from collections.abc import Callable
from inspect import signature
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
from sklearn.exceptions import ConvergenceWarning

from unmix.base.memory import npy_rows
from unmix.base.types import Factor, Floats
from unmix.counts.counts import Counts
from unmix.counts.shards import Shards
from unmix.fit import Fit
from unmix.models.beliefs import Belief
from unmix.models.poisson import check_factors
from unmix.models.streaming import StreamedInference
from unmix.solvers.base import HalfStep
from unmix.solvers.extrapolate import Alternate, Extrapolate
from unmix.solvers.streamed import Streamed
from unmix.storage.files import replacing

if TYPE_CHECKING:
    from unmix.estimators.base import CountsEstimator

LEAST_TOL = 1e-5  # of the fit of a sample, whose optimum is another than that of all
MIXED = 0.01  # of the whole, in every topic of a sample: it may lack features


def refuse(what: str, instead: str) -> ValueError:
    return ValueError(f"{what} needs all counts in memory, not shards; {instead}, or fit shards.sample")


def streamed_solver(solver: Any, asked: Any) -> Streamed:
    """The half-step of an in-memory solver as that of the loadings; `asked` is what the user said."""
    half = solver.inner if isinstance(solver, Extrapolate) else solver.half if isinstance(solver, Alternate) else solver
    if not isinstance(half, HalfStep):
        raise refuse(f"solver={asked!r}", 'choose "newton", "scd", "ccd", "sn" or "em"')
    return Streamed(half, isinstance(solver, Extrapolate))


def first_factors(
    estimator: CountsEstimator, shards: Shards, rng: np.random.Generator
) -> tuple[Factor | None, Factor, str]:
    """Loadings, if they are given, and factors to start from: by default those of a fit of the sample."""
    given = estimator.init
    if not isinstance(given, str):
        L, F = (given.L, given.F) if isinstance(given, Fit) else given
        return *check_factors(shards.shape, L, F, estimator.n_components), "given"
    sample = shards.sample
    fit = sample_fit(estimator, sample, rng)
    F = fit.F / np.maximum(fit.F.sum(axis=0), np.finfo(float).tiny)
    F = (1 - MIXED) * F + MIXED * (shards.feature_totals / shards.total)[:, None]
    return None, F, f"fit of a sample of {len(sample):,}: {fit.trace['note'].iloc[0]}"


def sample_fit(estimator: CountsEstimator, sample: Counts, rng: np.random.Generator) -> Fit:
    """The same estimator on the sample that was written with the shards, in memory. How long it runs does not depend on how long
    the fit of the shards may, which can be resumed with more iterations."""
    most = signature(type(estimator)).parameters["max_iter"].default
    others = {"callbacks": (), "verbose": False, "random_state": rng, "max_iter": most}
    model = type(estimator)(**estimator.get_params(deep=False) | others | {"tol": max(estimator.tol, LEAST_TOL)})
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ConvergenceWarning)  # it need not converge
        fit = model.fit(sample).result_
    if fit.status == "interrupted":
        raise KeyboardInterrupt
    return fit


def first_belief(task: StreamedInference, F: Factor) -> Belief:
    """q(F) to begin with at topics F, whose columns sum to one: as if all counts were spread over them evenly."""
    prior, K = task.model.right, F.shape[1]
    counts = np.full(K, task.X.total / K)
    if prior.own_scale:
        return prior.update(F * counts, np.sqrt(counts * (len(task.X) / task.X.shape[1])))
    return prior.start(F.astype(np.float64, copy=False), counts, np.ones(K))


def partial_fit(model: Any, shards: Shards) -> Any:
    """One shard after the other."""
    for i in range(shards.n_shards):
        model.partial_fit(shards.shard(i))
    return model


def transform(model: CountsEstimator, shards: Shards, out: str | os.PathLike[str] | None) -> Floats:
    """What `transform` says of every shard, in one array, or in a .npy file that is then mapped into memory."""
    if out is None:
        rows = np.empty((len(shards), model.result_.n_topics))
        for i in range(shards.n_shards):
            rows[slice(*shards.bounds(i))] = np.asarray(model.transform(shards.shard(i)))
        return rows
    path = Path(out)
    if path.suffix != ".npy":
        raise ValueError(f"out={str(out)!r}; give a file that ends in .npy")
    shape = (len(shards), model.result_.n_topics)
    with replacing(path) as temporary, npy_rows(temporary, shape, str(path)) as append:
        for i in range(shards.n_shards):
            append(np.asarray(model.transform(shards.shard(i))))
    return np.load(path, mmap_mode="r")


def mean_of(shards: Shards, of: Callable[[Counts], float]) -> float:
    """The mean over counts of something that is one itself for every shard."""
    parts = (shards.shard(i) for i in range(shards.n_shards))
    return sum(of(part) * part.total for part in parts) / shards.total if shards.total > 0 else 0.0
