"""Golden masters: every estimator, solver and option ends with the bits that are written down in golden.json.

    PYTHONPATH=tests python tests/project/test_golden.py    writes the file anew, after a change that should change results

Bits depend on the instruction set and on the libraries below, so elsewhere the comparison is skipped, with the reason.
"""

from __future__ import annotations

import hashlib
import json
import sys
import warnings
from collections.abc import Callable
from functools import cache
from typing import Any

import numpy as np
import pytest
import scipy
import sklearn
from conftest import ROOT, awkward_counts, random_counts, random_start
from threadpoolctl import threadpool_info

import unmix as um
from unmix import kernels, solvers

FILE = ROOT / "tests" / "golden.json"

X = random_counts(n=40, m=30, seed=3)
WIDE = random_counts(n=25, m=60, K=5, seed=5)
AWKWARD = awkward_counts()
START = random_start(40, 30, 4)
SOLVERS = ("em", "scd", "ccd", "sn", "newton", "joint", "plsi", "normalized")
BATCHES = um.Online(batch_size=8)


def _ml(**options: Any) -> um.TopicModel:
    return um.TopicModel(**{"n_components": 4, "random_state": 0, "max_iter": 25, "tol": 0} | options)


def _nmf(**options: Any) -> um.PoissonNMF:
    return um.PoissonNMF(**{"n_components": 4, "random_state": 0, "max_iter": 25, "tol": 0} | options)


def _bayes(kind: Any, **options: Any) -> Any:
    return kind(**{"n_components": 4, "random_state": 0, "max_iter": 15, "tol": 0} | options)


MODELS: dict[str, tuple[Callable[[], Any], np.ndarray]] = {
    **{f"topics {solver}": (lambda solver=solver: _ml(solver=solver), X) for solver in SOLVERS},
    **{f"nmf {s} plain": (lambda s=s: _nmf(solver=s, extrapolate=False, init="random"), X) for s in SOLVERS},
    **{f"awkward {solver}": (lambda s=solver: _nmf(solver=s, init="random"), AWKWARD) for solver in SOLVERS},
    **{f"float32 {s}": (lambda s=s: _nmf(solver=s, dtype="float32"), X) for s in ("em", "scd", "newton", "joint")},
    **{f"{K} topics": (lambda K=K: _ml(n_components=K), WIDE) for K in (1, 2, 3, 9, 17, 20, 33)},
    **{f"map {s}": (lambda s=s: _ml(solver=s, prior=um.Gamma(1.3, 2)), X) for s in ("em", "scd", "sn", "newton")},
    "default": (lambda: um.TopicModel(4, random_state=0), X),
    "default, seed 7": (lambda: um.PoissonNMF(3, random_state=7), WIDE),
    "topic-score": (lambda: _ml(init="topic-score"), X),
    "given": (lambda: _nmf(init=START), X),
    "no prefit": (lambda: _ml(prefit=0, init="random"), X),
    "one thread": (lambda: _ml(n_jobs=1), X),
    "three threads": (lambda: _ml(n_jobs=3), X),
    "refine": (lambda: _ml(n_components=5, refine=6, random_state=1, init="random", tol=1e-8, max_iter=40), X),
    "refine map": (lambda: _ml(refine=3, prior=um.Gamma(1.2), tol=1e-6, max_iter=40), X),
    "scd sweeps": (lambda: _ml(solver=solvers.SCD(sweeps=2)), X),
    "newton rounds": (lambda: _ml(solver=solvers.Newton(rounds=3)), X),
    "dirichlet topics": (lambda: _ml(prior=um.Dirichlet(1.2)), X),
    "dirichlet proportions": (lambda: _ml(loadings_prior=um.Dirichlet(1.1)), X),
    "gamma loadings": (lambda: _nmf(loadings_prior=um.Gamma(1.5, 0.1)), X),
    "gamma both": (lambda: _nmf(loadings_prior=um.Gamma(1.5, 0.1), prior=um.Gamma(1.2, 2)), X),
    "sparse l2": (lambda: um.SparsePoissonNMF(4, penalty=0.5, random_state=0, max_iter=25, tol=0), X),
    "sparse l1": (lambda: um.SparsePoissonNMF(4, penalty=0.5, norm="l1", random_state=0, max_iter=25, tol=0), X),
    "sparse plain": (lambda: um.SparsePoissonNMF(4, extrapolate=False, random_state=0, max_iter=25, tol=0), X),
    "online": (lambda: _ml(online=BATCHES, max_iter=4), X),
    "online map": (lambda: _ml(online=BATCHES, prior=um.Gamma(1.2), max_iter=4, init="random"), X),
    "lda": (lambda: _bayes(um.LDA), X),
    "lda default": (lambda: um.LDA(4, random_state=0), X),
    "lda eta": (lambda: _bayes(um.LDA, alpha=0.3, eta=0.1), X),
    "lda joint": (lambda: _bayes(um.LDA, inner=0, eta=0.1), X),
    "lda auto": (lambda: _bayes(um.LDA, alpha="auto", eta=0.1), X),
    "lda by topic": (lambda: _bayes(um.LDA, alpha=[0.1, 0.5, 1, 2]), X),
    "lda random": (lambda: _bayes(um.LDA, init="random"), X),
    "lda topic-score": (lambda: _bayes(um.LDA, init="topic-score"), X),
    "lda given": (lambda: _bayes(um.LDA, init=START), X),
    "lda online": (lambda: _bayes(um.LDA, eta=0.1, online=BATCHES, max_iter=4), X),
    "lda awkward": (lambda: _bayes(um.LDA, init="random", eta=0.5), AWKWARD),
    "gamma-poisson": (lambda: _bayes(um.GammaPoisson), X),
    "gamma-poisson eta": (lambda: _bayes(um.GammaPoisson, shape=0.5, rate=0.2, eta=0.3, inner=0), X),
    "gamma-poisson online": (lambda: _bayes(um.GammaPoisson, online=BATCHES, max_iter=4), X),
    "bayes": (lambda: _bayes(um.BayesianPoissonNMF), X),
    "bayes inner": (lambda: _bayes(um.BayesianPoissonNMF, a=1, b=0.5, c=0.5, d=2, inner=5), X),
    "hierarchical": (lambda: _bayes(um.BayesianPoissonNMF, rate_shape=0.3), X),
    "bayes online": (lambda: _bayes(um.BayesianPoissonNMF, online=BATCHES, max_iter=4), X),
    "bld": (lambda: _bayes(um.AllocationModel), X),
    "bld factored": (lambda: _bayes(um.AllocationModel, method="factored-bld"), X),
    "bld beta": (lambda: _bayes(um.AllocationModel, alpha=0.2, beta=[1, 1, 2, 5], init="topic-score"), X),
    "icm": (lambda: _bayes(um.AllocationModel, method="icm"), X),
    "icm greedy": (lambda: _bayes(um.AllocationModel, method="icm", init="random", alpha=0.1), X),
    "gibbs": (lambda: _bayes(um.AllocationModel, method="gibbs", sweeps=12, burn_in=6, thin=3), X),
    "gibbs given": (
        lambda: _bayes(um.AllocationModel, method="gibbs", sweeps=6, burn_in=0, thin=2, chains=1, init=START),
        X,
    ),
}


def _warm(kind: Any, first: dict[str, Any], second: dict[str, Any]) -> Any:
    fit = kind(4, random_state=0, tol=0, **first).fit(X).result_
    return kind(4, random_state=0, tol=0, init=fit, **second)


CHAINED: dict[str, Callable[[], Any]] = {
    "warm newton": lambda: _warm(um.TopicModel, {"max_iter": 7}, {"max_iter": 7}),
    "warm other solver": lambda: _warm(um.TopicModel, {"max_iter": 7}, {"max_iter": 7, "solver": "scd"}),
    "warm lda": lambda: _warm(um.LDA, {"max_iter": 5}, {"max_iter": 5}),
    "warm bld": lambda: _warm(um.AllocationModel, {"max_iter": 5}, {"max_iter": 5}),
    "lda from a fit": lambda: um.LDA(4, eta=0.1, max_iter=9, tol=0, init=_ml().fit(X).result_),
    "bayes from a fit": lambda: um.BayesianPoissonNMF(4, max_iter=9, tol=0, init=_ml().fit(X).result_),
    "gibbs from a fit": lambda: um.AllocationModel(
        4, method="gibbs", sweeps=5, burn_in=2, thin=1, random_state=0, init=_ml().fit(X).result_
    ),
}


def _streamed(model: Any) -> Any:
    for start in range(0, len(X), 10):
        model.partial_fit(X[start : start + 10])
    return model


STREAMED: dict[str, Callable[[], Any]] = {
    "partial topics": lambda: _ml(max_iter=3),
    "partial map": lambda: _nmf(prior=um.Gamma(1.2), init="random"),
    "partial lda": lambda: _bayes(um.LDA, eta=0.1),
    "partial gamma-poisson": lambda: _bayes(um.GammaPoisson),
    "partial bayes": lambda: _bayes(um.BayesianPoissonNMF),
}


def _hash(*arrays: Any) -> str:
    digest = hashlib.sha256()
    for array in arrays:
        array = np.ascontiguousarray(array)
        digest.update(f"{array.dtype} {array.shape}".encode() + array.tobytes())
    return digest.hexdigest()[:20]


def _master(model: Any, data: np.ndarray) -> dict[str, Any]:
    """Of the fit, of its trace, and of what is made of new samples (here: other counts of the same features)."""
    fit = model.result_
    new = random_counts(n=9, m=data.shape[1], seed=11)
    new[:, data.sum(axis=0) == 0] = 0
    return {
        "LF": _hash(fit.L, fit.F),
        "posterior": _hash(*(fit.posterior[name] for name in sorted(fit.posterior))),
        "objective": _hash(fit.trace["objective"].to_numpy(dtype=float)),
        "transform": _hash(model.transform(new)),
        "iterations": len(fit.trace) - 1,
        "loglik": round(fit.loglik, 6),
    }


@cache
def fitted(name: str) -> tuple[Any, np.ndarray]:
    """The estimator after its fit, and the data that it was fitted to; once for their bits and their values."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        if name in MODELS:
            make, data = MODELS[name]
            return make().fit(data), data
        if name in CHAINED:
            return CHAINED[name]().fit(X), X
        return _streamed(STREAMED[name]()), X


def master(name: str) -> dict[str, Any]:
    return _master(*fitted(name))


NAMES = [*MODELS, *CHAINED, *STREAMED]
TOGETHER = [pytest.param(name, marks=pytest.mark.xdist_group(f"golden {name}"), id=name) for name in NAMES]


def machine() -> dict[str, str]:
    """What the bits depend on."""
    pools = [pool for pool in threadpool_info() if pool["user_api"] == "blas"]
    own = [pool for pool in pools if "numpy" in pool["filepath"] or "scipy" in pool["filepath"]]  # not another test's
    blas = {f"{pool['internal_api']} {pool['version']} {pool.get('architecture')}" for pool in own}
    return {
        "instruction set": kernels.isa,
        "numpy": np.__version__,
        "scipy": scipy.__version__,
        "scikit-learn": sklearn.__version__,
        "BLAS": ", ".join(sorted(blas)),
    }


@pytest.fixture(scope="module")
def golden() -> dict[str, Any]:
    written = json.loads(FILE.read_text())
    here = machine()
    if other := [
        f"{key} {value} (here {here[key]})" for key, value in written["machine"].items() if here[key] != value
    ]:
        pytest.skip(f"the golden masters were made with {', '.join(other)}")
    return written["masters"]


@pytest.mark.parametrize("name", TOGETHER)
def test_a_fit_ends_with_the_bits_that_were_written_down(name: str, golden: dict[str, Any]) -> None:
    assert master(name) == golden[name]


def test_every_master_is_compared() -> None:
    assert sorted(json.loads(FILE.read_text())["masters"]) == sorted(NAMES)


if __name__ == "__main__":
    masters = {name: master(name) for name in NAMES}
    FILE.write_text(json.dumps({"machine": machine(), "masters": masters}, indent=1) + "\n")
    print(f"wrote {len(masters)} masters to {FILE}", file=sys.stderr)
