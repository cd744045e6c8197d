"""The protocol of priors is closed: a fifth kind, defined here and nowhere else, does all that the other four do.

Topics f*_k ~ Dirichlet(shape_·k) with a number for each feature *and* topic, such as one puts to seed topics with known words.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Self

import numpy as np
import pytest
from conftest import never_rises, random_counts, random_start
from scipy import stats
from scipy.special import digamma, gammaln

import unmix as um
from unmix.kernels import log_means
from unmix.models.beliefs import Belief, DirichletRows, Gammas, Prior, dirichlet_sd
from unmix.models.variational import Inference, Variational, restore
from unmix.solvers import CAVI, ExtrapolatedVI, StochasticVI

Floats = np.ndarray
X = random_counts(n=40, m=30, K=3, seed=3)
SHAPE = np.full((30, 3), 0.2)
SHAPE[np.arange(6), np.arange(6) // 2] = 300.0  # two words seed each topic


@dataclass(frozen=True, eq=False)
class SeededTopics(Prior):
    shape: Floats  # m × K

    def update(self, counts: Floats, cost: Floats) -> Belief:
        return self.belief(self.shape + counts)

    def belief(self, parameters: Floats, rates: Floats | None = None) -> Belief:
        totals, prior = parameters.sum(axis=0), self.shape.sum(axis=0)
        geometric, shifts, term = log_means(parameters, -digamma(totals), self.shape)
        bound = term + (gammaln(prior) - gammaln(self.shape).sum(axis=0) - gammaln(totals)).sum()
        ones = np.ones(len(totals))
        return Belief(parameters, ones, geometric, shifts, ones, float(bound - (prior - totals) @ digamma(totals)))

    def mean(self, belief: Belief) -> Floats:
        return belief.parameters / belief.parameters.sum(axis=0)

    def standard_deviation(self, belief: Belief) -> Floats:
        return dirichlet_sd(belief.parameters, axis=0)

    def quantile(self, belief: Belief, probability: float) -> Floats:
        a = belief.parameters
        return stats.beta.ppf(probability, a, a.sum(axis=0) - a)

    def arrays(self, belief: Belief) -> dict[str, Floats]:
        return {"": belief.parameters, "_prior": self.shape}

    @classmethod
    def restore(cls, arrays: Mapping[str, Floats]) -> tuple[Self, Belief]:
        prior = cls(arrays["_prior"])
        return prior, prior.belief(arrays[""])


class SeededLDA(um.LDA):
    def _model(self, X: um.Counts, known: object = None) -> Variational:
        return Variational(DirichletRows(np.full(3, 0.5)), SeededTopics(SHAPE))

    def _topics_keep_their_place(self) -> bool:
        return True


@pytest.mark.parametrize("solver", [CAVI(0), CAVI(5), ExtrapolatedVI(0), ExtrapolatedVI(2)], ids=repr)
@pytest.mark.parametrize("left", [DirichletRows(np.full(3, 0.4)), Gammas(np.full(3, 0.5), np.full(3, 0.1))])
def test_the_bound_never_falls(left: Prior, solver: CAVI | ExtrapolatedVI) -> None:
    task = Inference(um.Counts(X), Variational(left, SeededTopics(SHAPE)))
    state: Any = solver.start(task, *random_start(40, 30, 3))
    losses = [state.loss]
    for _ in range(40):
        state = solver.step(task, state)
        losses.append(state.loss)
    assert never_rises(losses)
    assert losses[-1] < losses[0] - 50


def test_with_the_same_numbers_for_all_topics_it_is_smoothed_lda() -> None:
    eta = np.linspace(0.2, 0.9, 30)
    same = Variational(DirichletRows(np.full(3, 0.5)), SeededTopics(np.tile(eta[:, None], 3)))
    task, solver = Inference(um.Counts(X), same), CAVI(5)
    state = solver.start(task, *random_start(40, 30, 3))
    for _ in range(5):
        state = solver.step(task, state)
    lda = um.LDA(3, alpha=0.5, eta=eta, init=random_start(40, 30, 3), inner=5, extrapolate=False, max_iter=5, tol=0)
    lda.fit(X)
    assert -state.loss == pytest.approx(lda.elbo_, rel=1e-10)
    np.testing.assert_allclose(state.right.parameters, lda.result_.posterior["F"], rtol=1e-9)


def test_seeded_words_lead_their_topics_and_have_intervals() -> None:
    model = SeededLDA(3, init="random", random_state=0).fit(X)
    leading = np.argsort(-model.components_, axis=1)[:, :2]
    assert [set(row.tolist()) for row in leading] == [{0, 1}, {2, 3}, {4, 5}]
    low, high = model.credible_intervals("factors")
    assert (low < high).all()
    assert model.standard_deviations("factors").shape == (30, 3)
    assert model.score(X) < 0


def test_it_is_saved_loaded_and_gone_on_with(tmp_path: Path) -> None:
    whole = SeededLDA(3, random_state=0, max_iter=20, tol=0).fit(X)
    part = SeededLDA(3, random_state=0, max_iter=8, tol=0).fit(X)
    part.result_.save(tmp_path / "part.safetensors", resumable=True)
    again = SeededLDA(3, random_state=0, max_iter=20, tol=0).resume(X, um.load(tmp_path / "part.safetensors"))
    assert again.result_.F.tobytes() == whole.result_.F.tobytes()
    assert again.result_.priors == {"L": "DirichletRows", "F": "SeededTopics"}
    model, _, right = restore(again.result_.priors, again.result_.posterior)
    assert isinstance(model.right, SeededTopics)
    np.testing.assert_array_equal(right.parameters, again.result_.posterior["F"])


def test_it_is_learned_from_batches() -> None:
    online: Any = SeededLDA(3, online=um.Online(batch_size=8), random_state=0, max_iter=6, tol=0).fit(X)
    assert online.elbo_ > online.result_.trace["objective"].iloc[0]
    solver = StochasticVI(um.Online(batch_size=8), 0, 5, 1e-4)
    task = online._plan(um.Counts(X), np.random.default_rng(0)).task
    state = solver.start(task, *random_start(40, 30, 3))
    assert solver.step(task, state).stream.samples == 40


def test_anndata_keeps_it_even_with_fewer_genes() -> None:
    pytest.importorskip("anndata")
    fit = SeededLDA(3, random_state=0).fit(X).result_
    adata = um.sc.from_fit(fit)
    assert um.sc.to_fit(adata).priors == fit.priors
    part = um.sc.to_fit(adata[:, :20])
    np.testing.assert_allclose(part.topics.sum(axis=0), 1)
    np.testing.assert_allclose(part.proportions, fit.proportions, rtol=1e-9)
