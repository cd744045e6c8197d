"""The seam between data and all else: a third kind of data, a new half-step and a new prior need nothing but themselves."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest
import scipy.sparse as sp
from conftest import random_counts
from test_a_new_prior import SeededLDA

import unmix as um
from unmix.counts import shards
from unmix.counts.data import Data, Memory

X = random_counts(n=40, m=30, K=3, seed=3)
BLOCK = 16


class Blocks:
    """Counts as a list of CSR blocks, that are in memory all at once, or only one after the other."""

    samples = features = metadata = text = multipliers = None

    def __init__(self, matrix: np.ndarray, in_memory: bool) -> None:
        self.blocks = [um.Counts(sp.csr_array(matrix[first : first + BLOCK])) for first in range(0, len(matrix), BLOCK)]
        self.in_memory = in_memory

    in_memory: bool = True

    @property
    def shape(self) -> tuple[int, int]:
        return sum(map(len, self.blocks)), self.blocks[0].shape[1]

    @property
    def nnz(self) -> int:
        return sum(block.nnz for block in self.blocks)

    @property
    def total(self) -> float:
        return float(sum(block.total for block in self.blocks))

    @property
    def feature_totals(self) -> np.ndarray:
        return np.sum([block.feature_totals for block in self.blocks], axis=0)

    @property
    def log_factorials(self) -> float:
        return self._whole.log_factorials if self.in_memory else sum(block.log_factorials for block in self.blocks)

    @property
    def fractional(self) -> float:
        return self._whole.fractional

    @property
    def facts(self) -> dict[str, Any]:
        return self._whole.facts

    @property
    def sample(self) -> um.Counts:
        return self._whole

    def parts(self) -> Iterator[um.Counts]:
        return iter([self._whole] if self.in_memory else self.blocks)

    def engine(self, n_topics: int) -> Memory:
        return Memory()

    def take(self, rows: np.ndarray) -> um.Counts:
        return self._whole.take(rows)

    def some(self, most: int) -> tuple[np.ndarray, um.Counts]:
        return self._whole.some(most)

    @property
    def sample_totals(self) -> np.ndarray:
        return np.concatenate([block.sample_totals for block in self.blocks])

    def sides(self) -> Any:
        assert self.in_memory
        return self._whole.sides()

    def batches(self, size: int, rng: np.random.Generator) -> Any:
        assert self.in_memory
        return self._whole.batches(size, rng)

    def matvec(self, v: np.ndarray) -> np.ndarray:
        return self._whole.matvec(v)

    def rmatvec(self, v: np.ndarray) -> np.ndarray:
        return self._whole.rmatvec(v)

    @cached_property
    def _whole(self) -> um.Counts:
        return um.Counts(sp.vstack([block.csr for block in self.blocks], format="csr"))


SHORT = {"random_state": 0, "max_iter": 8, "tol": 0}
FAMILY = {
    "topics": lambda: um.TopicModel(3, **SHORT),
    "em, single precision": lambda: um.PoissonNMF(3, solver="em", dtype="float32", **SHORT),
    "priors": lambda: um.PoissonNMF(3, prior=um.Gamma(1.2), loadings_prior=um.Gamma(1.5, 0.1), **SHORT),
    "lda": lambda: um.LDA(3, **SHORT),
    "lda, learned prior": lambda: um.LDA(3, alpha="auto", eta=0.1, **SHORT),
    "gamma-poisson": lambda: um.GammaPoisson(3, eta=0.3, **SHORT),
    "bayes": lambda: um.BayesianPoissonNMF(3, **SHORT),
}
IN_MEMORY = FAMILY | {
    "online": lambda: um.TopicModel(3, online=um.Online(batch_size=8), **SHORT),
    "sparse": lambda: um.SparsePoissonNMF(3, **SHORT),
    "bld": lambda: um.AllocationModel(3, **SHORT),
    "gibbs": lambda: um.AllocationModel(3, method="gibbs", sweeps=6, burn_in=2, thin=2, random_state=0),
}


def same(one: um.Fit, two: um.Fit) -> None:
    np.testing.assert_array_equal(one.L, two.L)
    np.testing.assert_array_equal(one.F, two.F)
    np.testing.assert_array_equal(one.trace["objective"], two.trace["objective"])
    np.testing.assert_array_equal(one.trace["kkt"], two.trace["kkt"])
    for name, array in two.posterior.items():
        np.testing.assert_array_equal(one.posterior[name], array)


@pytest.mark.filterwarnings("ignore::sklearn.exceptions.ConvergenceWarning")
@pytest.mark.parametrize("name", IN_MEMORY)
def test_another_kind_of_data_in_memory_is_fitted_like_counts(name: str) -> None:
    data: Data = Blocks(X, in_memory=True)
    one, two = IN_MEMORY[name]().fit(data), IN_MEMORY[name]().fit(um.Counts(X))
    same(one.result_, two.result_)
    np.testing.assert_array_equal(one.transform(data), two.transform(X))


@pytest.mark.filterwarnings("ignore::sklearn.exceptions.ConvergenceWarning")
@pytest.mark.parametrize("name", FAMILY)
def test_another_kind_of_data_in_parts_is_fitted_like_shards(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(shards, "TILE", BLOCK)
    data: Data = Blocks(X, in_memory=False)
    one, two = FAMILY[name]().fit(data), FAMILY[name]().fit(um.Shards.of(um.Counts(X)))
    same(one.result_, two.result_)
    np.testing.assert_allclose(one.transform(data), two.transform(X), rtol=1e-12)
    assert one.score(data) == pytest.approx(two.score(X), rel=1e-10)


@dataclass(frozen=True)
class PatientEM(um.solvers.HalfStep):
    steps: int = 3

    def __call__(self, side: Any, fixed: Any, moving: Any, *, measure: bool = False) -> Any:
        return side.update("em", fixed, moving, measure=measure, steps=self.steps)


@pytest.mark.filterwarnings("ignore::sklearn.exceptions.ConvergenceWarning")
@pytest.mark.parametrize("make", [lambda: um.TopicModel(3, solver=PatientEM(), **SHORT), lambda: SeededLDA(3, **SHORT)])
def test_a_new_half_step_and_a_new_prior_work_in_memory_and_on_shards(make: Any, tmp_path: Path) -> None:
    for data in (um.Counts(X), um.Shards.of(um.Counts(X)), um.shard(um.Counts(X), tmp_path / "X.shards")):
        whole = make().fit(data).result_
        assert whole.trace["objective"].iloc[-1] > whole.trace["objective"].iloc[0]
        make().set_params(max_iter=3).fit(data).result_.save(tmp_path / "half.safetensors", resumable=True)
        same(make().resume(data, um.load(tmp_path / "half.safetensors")).result_, whole)


def test_shards_are_made_of_all_that_counts_are() -> None:
    table = pd.DataFrame(X, columns=[f"f{j}" for j in range(30)])
    for data in (X, sp.coo_matrix(X), table, um.Counts(X)):
        assert um.Shards.of(data).shape == (40, 30)
    assert um.Shards.of(table).features.tolist()[:2] == ["f0", "f1"]
