"""Variational inference where rates have multipliers: x_ij ~ Poisson(e_gj Σ_k l_ik f_jk), with Gammas on loadings.

The bound is held against a dense listing with responsibilities, against evidence in closed form and by quadrature.
"""

from __future__ import annotations

import warnings
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest
import scipy.sparse as sp
from conftest import never_rises, random_counts, random_start
from scipy.integrate import quad
from scipy.special import betaln, digamma, gammaln, xlogy
from scipy.stats import gamma, nbinom

import unmix as um
from unmix.counts.multipliers import with_multipliers
from unmix.models.beliefs import Gammas, PointTopics
from unmix.models.rates import average_multipliers
from unmix.models.variational import Inference, Variational, gamma_gamma, restore
from unmix.solvers import CAVI, ExtrapolatedVI

X = random_counts(40, 30, seed=3)
CODES = np.random.default_rng(0).integers(0, 3, 40)
E = np.random.default_rng(1).choice([0.5, 1, 2, 4], (3, 30))
KNOWN = pd.DataFrame(E, index=list("abc")).rename_axis("batch")
LABELS = np.array(list("abc"))[CODES]
COUNTS = um.Counts(X, metadata=pd.DataFrame({"batch": LABELS, "half": np.where(np.arange(40) % 2, "x", "y")}))
GIVEN: dict[str, dict[str, Any]] = {
    "known": {"opportunities": KNOWN},
    "estimated": {"batch": "batch"},
    "both": {"opportunities": KNOWN, "batch": "half"},
}
MODELS = ("Gamma–Poisson", "Gamma–Gamma")
FAMILY: dict[str, Any] = {"Gamma–Poisson": um.GammaPoisson, "Gamma–Gamma": um.BayesianPoissonNMF}
OPTIONS: dict[str, Any] = {"tol": 0, "max_iter": 25, "random_state": 0}
FEW = OPTIONS | {"max_iter": 10}  # iterations after which paths are still the same up to rounding
QUIET = "ignore:effects of batches are estimated|half. every value|not converged|these samples do not fit"
pytestmark = pytest.mark.filterwarnings(QUIET, "ignore::sklearn.exceptions.ConvergenceWarning")


def task_of(name: str, given: str, tau: float | None = 3.0, data: Any = COUNTS) -> Inference:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        counts = with_multipliers(data, **GIVEN[given])
    if name == "Gamma–Gamma":
        return Inference(counts, gamma_gamma(3, 0.4, 0.9, 0.6, 2.2), tau)
    left = Gammas(np.array([0.6, 1.3, 2.1]), np.array([0.02, 0.05, 0.1]))
    return Inference(counts, Variational(left, PointTopics(weights=average_multipliers(counts))), tau)


def table_of(task: Inference) -> np.ndarray:
    """What is known of e, for every entry."""
    given = task.X.multipliers
    return np.ones(X.shape) if given.known is None else given.known[given.groups]


def owners_of(task: Inference) -> np.ndarray:
    """The batch of every sample; all in one if nothing is estimated."""
    given = task.X.multipliers
    return np.zeros(len(X), int) if given.owners is None else given.owners[given.groups]


def listed_bound(task: Inference, left: Any, right: Any) -> float:
    """E log p(X, counts by topic | L, F, e) − E log q, with q(e) written out; everything dense."""
    model, known, owners = task.model, table_of(task), owners_of(task)
    L, F = left.parameters / left.rates, model.right.mean(right)
    on_L = digamma(left.parameters) - np.log(left.rates)
    gammas = isinstance(model.right, Gammas)
    with np.errstate(divide="ignore"):
        on_F = digamma(right.parameters) - np.log(right.rates) if gammas else np.log(F)
    logs = on_L[:, None] + on_F[None]
    phi = np.exp(logs - logs.max(axis=2, keepdims=True))
    phi /= phi.sum(axis=2, keepdims=True)
    by_topic = X[:, :, None] * phi
    value = np.where(by_topic > 0, by_topic * logs, 0).sum() - xlogy(by_topic, phi).sum() - gammaln(X + 1).sum()
    value += xlogy(X, known).sum()
    rates = known * (L @ F.T)
    if task.rates.estimated:
        tau = task.rates.strength
        s, x = (np.array([part[owners == b].sum(axis=0) for b in range(owners.max() + 1)]) for part in (rates, X))
        a, b = tau + x, tau + s  # of q(e)
        value += (x * (digamma(a) - np.log(b)) - s * a / b).sum()
        value += (tau * np.log(tau) - gammaln(tau) + (tau - 1) * (digamma(a) - np.log(b)) - tau * a / b).sum()
        value += (a - np.log(b) + gammaln(a) + (1 - a) * digamma(a)).sum()  # entropies
    else:
        value -= rates.sum()
    for prior, q in ((model.left, left), *([(model.right, right)] if gammas else [])):
        g, r = q.parameters, np.broadcast_to(q.rates, q.parameters.shape)
        value -= (
            (g - prior.shape) * digamma(g) - gammaln(g) + gammaln(prior.shape) + prior.shape * np.log(r / prior.rate)
        ).sum() + (g * (prior.rate / r - 1)).sum()
    return float(value)


@pytest.mark.parametrize("given", GIVEN)
@pytest.mark.parametrize("name", MODELS)
def test_the_bound_is_that_of_a_dense_listing(name: str, given: str) -> None:
    task = task_of(name, given)
    state = CAVI().start(task, *random_start(40, 30, 3))
    for _ in range(3):
        assert -state.loss == pytest.approx(listed_bound(task, state.left, state.right), rel=1e-10)
        state = CAVI().step(task, state)


@pytest.mark.parametrize("solver", [CAVI(), CAVI(inner=5), ExtrapolatedVI(), ExtrapolatedVI(inner=5)], ids=repr)
@pytest.mark.parametrize("given", GIVEN)
@pytest.mark.parametrize("name", MODELS)
def test_the_bound_never_falls(name: str, given: str, solver: Any) -> None:
    task = task_of(name, given)
    state, losses = solver.start(task, *random_start(40, 30, 3)), []
    for _ in range(100):
        losses.append(state.loss)
        state = solver.step(task, state)
    assert never_rises(np.array(losses))


def test_with_a_single_topic_and_known_multipliers_the_bound_is_the_evidence() -> None:
    """q(L) is then the posterior. x_i sums to a negative binomial, and divides into features as a multinomial."""
    counts = with_multipliers(COUNTS, opportunities=KNOWN)
    prior = Gammas(np.array([0.7]), np.array([0.03]))
    task = Inference(counts, Variational(prior, PointTopics(weights=average_multipliers(counts))))
    solver, state = CAVI(), CAVI().start(task, *random_start(40, 30, 1))
    for _ in range(400):
        state = solver.step(task, state)
    f, e = state.right.parameters[:, 0], E[CODES]
    size, t = e @ f, X.sum(axis=1)
    evidence = nbinom.logpmf(t, 0.7, 0.03 / (0.03 + size)).sum()
    evidence += gammaln(t + 1).sum() - gammaln(X + 1).sum() + xlogy(X, e * f / size[:, None]).sum()
    assert -state.loss == pytest.approx(evidence, rel=1e-12)
    assert (task.model.right.weights[:, 0] * f).sum() == pytest.approx(1)

    def lower(step: np.ndarray) -> float:  # topics that meet the same condition
        moved = f * np.exp(1e-3 * step)
        moved /= (task.model.right.weights[:, 0] * moved).sum()
        other = solver.from_beliefs(task, state.left, task.model.right.belief(moved[:, None]))
        return solver.step(task, other).loss

    assert all(lower(step) >= state.loss - 1e-9 for step in np.random.default_rng(0).normal(size=(5, 30)))


def test_with_estimated_effects_the_bound_stays_below_the_evidence() -> None:
    """By quadrature over the loading of a single sample in each batch; given it, counts are negative binomial."""
    x, tau = np.array([[6.0, 1, 0, 3], [2, 9, 1, 1]]), 2.0
    counts = with_multipliers(um.Counts(np.vstack([x, np.zeros((2, 4))])), batch=["a", "b", "a", "b"])
    f = np.array([0.4, 0.3, 0.1, 0.2])
    task = Inference(counts, Variational(Gammas(np.array([1.2]), np.array([0.1])), PointTopics()), tau)
    left = task.model.left.update(np.append(x.sum(axis=1), [0, 0])[:, None], np.ones((4, 1)))
    right = task.model.right.belief(f[:, None])
    for _ in range(200):
        left = task.model.left.update(left.parameters - 1.2, task.cost_of_loadings(left, right))

    def density(size: float, s: np.ndarray) -> float:
        return float(np.exp(nbinom.logpmf(s, tau, tau / (tau + size * f)).sum()))

    total = 0.0
    for s in x:  # over the sum of two loadings, of which the share of one, Beta(1.2, 1.2), got all counts
        value = quad(lambda size, s=s: density(size, s) * gamma.pdf(size, 2.4, scale=10), 0, np.inf, limit=200)[0]
        total += np.log(value) + betaln(1.2 + s.sum(), 1.2) - betaln(1.2, 1.2)
    bound = -task.loss(task.model, left, right)
    assert bound <= total
    assert bound > total - 1.5


@pytest.mark.parametrize("name", MODELS)
def test_features_without_opportunities_are_left_out(name: str) -> None:
    e, counts = E.copy(), X.copy()
    e[:, [4, 11]], counts[:, [4, 11]] = 0, 0
    rest = np.delete(np.arange(30), [4, 11])
    fit = um.PoissonNMF(3, random_state=0).fit(counts, opportunities=e[CODES]).result_
    (L, F), options = (fit.L, fit.F), {"tol": 0, "max_iter": 1500}
    whole = FAMILY[name](3, init=(L, F), **options).fit(counts, opportunities=e[CODES])
    part = FAMILY[name](3, init=(L, F[rest]), **options).fit(counts[:, rest], opportunities=e[CODES][:, rest])
    assert whole.elbo_ == pytest.approx(part.elbo_, rel=1e-8)
    np.testing.assert_allclose(whole.result_.L, part.result_.L, rtol=1e-3, atol=1e-4)
    np.testing.assert_allclose(whole.result_.F[rest], part.result_.F, rtol=1e-3, atol=1e-4)


def test_opportunities_of_features_are_scales_of_topics() -> None:
    """With e_j the rates are those of topics f_j e_j: loadings and the bound are those of the plain fit."""
    e = np.exp(np.random.default_rng(2).normal(0, 1, 30))
    L, F = random_start(40, 30, 3)
    plain = um.GammaPoisson(3, init=(L, F), **FEW).fit(X)
    scaled = um.GammaPoisson(3, init=(L, F / e[:, None]), **FEW).fit(X, opportunities=e)
    np.testing.assert_allclose(scaled.result_.L, plain.result_.L, rtol=1e-6)
    np.testing.assert_allclose(scaled.result_.F * e[:, None], plain.result_.F, rtol=1e-6, atol=1e-9)
    assert scaled.elbo_ == pytest.approx(plain.elbo_, rel=1e-10)
    both = {"e": E[CODES], "e times": E[CODES] * e}
    one, two = (
        um.GammaPoisson(3, init=(L, F if what == "e" else F / e[:, None]), **FEW).fit(X, opportunities=both[what])
        for what in both
    )
    np.testing.assert_allclose(two.result_.L, one.result_.L, rtol=1e-5)
    assert two.elbo_ == pytest.approx(one.elbo_, rel=1e-10)


@pytest.mark.parametrize("name", MODELS)
def test_multipliers_of_one_and_groups_split_or_named_otherwise_change_nothing(name: str) -> None:
    model = FAMILY[name](3, init=random_start(40, 30, 3), **FEW)
    plain = model.fit(X).result_
    np.testing.assert_array_equal(model.fit(X, opportunities=np.ones(30)).result_.L, plain.L)
    almost = model.fit(X, opportunities=np.where(np.arange(30) == 3, 1 + 1e-12, 1)).result_
    np.testing.assert_allclose(almost.L, plain.L, rtol=1e-6)
    fits = [
        model.fit(X, opportunities=given).result_
        for given in (E[CODES], pd.DataFrame(E[CODES]), sp.csr_array(E[CODES]))
    ]
    for fit in fits[1:]:
        np.testing.assert_array_equal(fit.L, fits[0].L)
    names = [model.fit(X, batch=names[CODES]).result_.L for names in (np.array(list("abc")), np.array(list("xab")))]
    np.testing.assert_allclose(names[0], names[1], rtol=1e-9)


@pytest.mark.parametrize("given", GIVEN)
@pytest.mark.parametrize("name", MODELS)
def test_shards_end_where_memory_ends(name: str, given: str) -> None:
    options = {
        "tol": 1e-9,
        "max_iter": 3000,
        "init": um.PoissonNMF(2, random_state=0).fit(X).result_,
        "batch_prior": 4.0,
    }
    memory, shards = (FAMILY[name](2, **options).fit(data, **GIVEN[given]) for data in (COUNTS, um.Shards.of(COUNTS)))
    assert shards.elbo_ == pytest.approx(memory.elbo_, rel=2e-3)  # loadings start from others, and may end elsewhere
    model, left, right = restore(shards.result_.priors, shards.result_.posterior)
    task = Inference(task_of(name, given).X, model, 4.0)
    assert -task.loss(model, left, right) == pytest.approx(shards.elbo_, rel=1e-10)
    again = CAVI().step(task, CAVI().from_beliefs(task, left, right))
    assert -again.loss - shards.elbo_ < 1e-5 * X.sum()  # and that is an optimum in memory, too
    assert shards.result_.rates.keys() == memory.result_.rates.keys()


@pytest.mark.parametrize("shards", [False, True])
@pytest.mark.parametrize("given", GIVEN)
@pytest.mark.parametrize("name", MODELS)
def test_a_fit_is_saved_resumed_and_asked(name: str, given: str, shards: bool, tmp_path: Path) -> None:
    data = um.Shards.of(COUNTS) if shards else COUNTS
    whole = FAMILY[name](3, **OPTIONS).fit(data, **GIVEN[given])
    stop = [
        lambda progress: (
            "interrupted" if progress.row["stage"] == "fit" and progress.session.counters.done == 21 else None
        )
    ]
    half = FAMILY[name](3, callbacks=stop, **OPTIONS).fit(data, **GIVEN[given]).result_
    half.save(tmp_path / "half.safetensors", resumable=True)
    again = FAMILY[name](3, **OPTIONS).resume(data, um.load(tmp_path / "half.safetensors"), **GIVEN[given])
    np.testing.assert_array_equal(again.result_.L, whole.result_.L)
    np.testing.assert_array_equal(again.result_.F, whole.result_.F)
    whole.result_.save(tmp_path / "fit.safetensors")
    loaded = um.load(tmp_path / "fit.safetensors")
    np.testing.assert_array_equal(loaded.posterior["L_rate"], whole.result_.posterior["L_rate"])
    found = FAMILY[name].from_fit(loaded).transform(data, **GIVEN[given])
    np.testing.assert_array_equal(found, whole.transform(COUNTS, **GIVEN[given]))
    assert whole.score(data, **GIVEN[given]) < 0
    low, high = whole.credible_intervals()
    assert ((low <= whole.result_.L * 1.5) & (high >= whole.result_.L)).mean() > 0.9
    # exposures are counts as they were observed
    np.testing.assert_allclose(whole.result_.exposures.sum(), X.sum(), rtol=0.1)


def test_loadings_of_new_samples_are_those_of_the_fit() -> None:
    """At an optimum, with effects as they were found."""
    for name, given in ((name, given) for name in MODELS for given in GIVEN):
        model = FAMILY[name](3, tol=1e-12, max_iter=4000, random_state=0, batch_prior=4.0).fit(COUNTS, **GIVEN[given])
        near = np.isclose(model.transform(COUNTS, **GIVEN[given]), model.result_.L, rtol=1e-2, atol=0.01)
        assert near.mean() > 0.95  # where a loading has two optima, the start decides


def test_what_has_no_closed_form_is_refused_by_name() -> None:
    for given in GIVEN.values():
        with pytest.raises(ValueError, match="GammaPoisson with eta does not support batch or opportunities; use eta="):
            um.GammaPoisson(3, eta=0.1).fit(COUNTS, **given)
        with pytest.raises(ValueError, match="with rate_shape does not support batch or opportunities; use rate_shape"):
            um.BayesianPoissonNMF(3, rate_shape=0.3).fit(COUNTS, **given)
        with pytest.raises(ValueError, match="online learning does not support"):
            um.BayesianPoissonNMF(3, online=um.Online(batch_size=10)).fit(COUNTS, **given)
    with pytest.raises(ValueError, match="batch_prior=0"):
        um.GammaPoisson(3, batch_prior=0).fit(COUNTS)
