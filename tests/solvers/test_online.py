"""Online learning: a batch of everything is the batch step, several passes come near the batch fit, a stream can be endless."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Any

import numpy as np
import pytest
from conftest import random_counts, random_start
from scipy.special import digamma, xlogy

import unmix as um
from unmix.counts.counts import Counts
from unmix.models.variational import Inference, Variational, gamma_gamma, gamma_poisson, lda
from unmix.solvers import Newton, Problem
from unmix.solvers.online import OnlineEM, StochasticVI
from unmix.solvers.vi import CAVI

Floats = np.ndarray

X = random_counts(40, 25, K=3, seed=4)
L0, F0 = random_start(40, 25, 3)
WHOLE = um.Online(batch_size=40, offset=0)  # one batch, and a first step of (0 + 1)^−decay = 1
ALPHA = np.array([0.6, 1.3, 2.1])

MODELS: dict[str, Variational] = {
    "LDA": lda(ALPHA, None),
    "smoothed LDA": lda(ALPHA, np.linspace(0.2, 0.9, 25)),
    "Gamma–Poisson": gamma_poisson(ALPHA, np.array([0.5, 1, 4])),
    "smoothed Gamma–Poisson": gamma_poisson(ALPHA, np.array([0.5, 1, 4]), np.full(25, 0.3)),
    "Gamma–Gamma": gamma_gamma(3, 0.4, 0.9, 0.6, 2.2),
}
FAMILY: dict[str, Callable[..., Any]] = {
    "LDA": partial(um.LDA, alpha=0.4),
    "smoothed LDA": partial(um.LDA, alpha=0.4, eta=0.3),
    "Gamma–Poisson": um.GammaPoisson,
    "smoothed Gamma–Poisson": partial(um.GammaPoisson, eta=0.3),
    "Gamma–Gamma": um.BayesianPoissonNMF,
    "hierarchical": partial(um.BayesianPoissonNMF, rate_shape=0.3),
    "PoissonNMF": um.PoissonNMF,
    "TopicModel": um.TopicModel,
    "PoissonNMF with a prior": partial(um.PoissonNMF, prior=um.Gamma(1.1)),
}


@pytest.fixture(params=FAMILY)
def kind(request: pytest.FixtureRequest) -> Callable[..., Any]:
    return FAMILY[request.param]


def by_column(values: Floats) -> Floats:
    return values / values.sum(axis=0)


# --- a batch of all samples ------------------------------------------------------------------------------------------


def starting_beliefs(model: Variational):
    rng = np.random.default_rng(1)
    left, right = rng.gamma(2, 1, (40, 3)) + 0.1, rng.gamma(1, 1, (25, 3)) + 0.1
    q_right = model.right.belief(right if hasattr(model.right, "shape") else by_column(right), np.array([2.0, 1, 3]))
    rates = model.left.rate + q_right.sums if hasattr(model.left, "rate") else None
    return model.left.belief(left, rates), q_right


@pytest.mark.parametrize("inner", [1, 5])
@pytest.mark.parametrize("name", MODELS)
def test_one_batch_of_everything_with_step_one_is_the_batch_step(name: str, inner: int) -> None:
    model = MODELS[name]
    task, q = Inference(Counts(X), model), starting_beliefs(model)
    batch, online = CAVI(inner=inner, tolerance=0.0), StochasticVI(WHOLE, seed=0, inner=inner, tolerance=0.0)
    want = batch.step(task, batch.from_beliefs(task, *q))
    got = online.step(task, online.from_beliefs(task, *q))
    for side in ("left", "right"):
        np.testing.assert_allclose(getattr(got, side).parameters, getattr(want, side).parameters, rtol=1e-12)
        np.testing.assert_allclose(getattr(got, side).rates, getattr(want, side).rates, rtol=1e-12)
    assert got.loss == pytest.approx(want.loss, rel=1e-12)


def test_an_online_step_of_smoothed_lda_is_hoffmans() -> None:
    """τ ← (1 − ρ) τ + ρ (η + (n / |batch|) expected counts), batch after batch, in dense NumPy."""
    eta, online = np.linspace(0.2, 0.9, 25), um.Online(batch_size=10, offset=2, decay=0.8)
    model = lda(ALPHA, eta)
    task, (left, right) = Inference(Counts(X), model), starting_beliefs(model)
    solver = StochasticVI(online, seed=3, inner=1, tolerance=0.0)
    first = solver.from_beliefs(task, left, right)
    counts, gamma = first.stream.counts, left.parameters.copy()
    tau = right.parameters
    for t, (rows, _) in enumerate(task.X.batches(10, np.random.default_rng([3, 0]))):
        f = np.exp(digamma(tau) - digamma(tau.sum(axis=0)))

        def loadings(g: Floats) -> Floats:
            return np.exp(digamma(g) - digamma(g.sum(axis=1, keepdims=True)))

        old = loadings(gamma[rows])
        gamma[rows] = ALPHA + old * (X[rows] / (old @ f.T) @ f)
        new = loadings(gamma[rows])
        expected = f * ((X[rows] / (new @ f.T)).T @ new)
        rho = (2 + t + 1) ** -0.8
        counts = (1 - rho) * counts + rho * 4 * expected
        tau = eta[:, None] + counts
    state = solver.step(task, first)
    np.testing.assert_allclose(state.right.parameters, tau, rtol=1e-10)
    np.testing.assert_allclose(state.left.parameters, gamma, rtol=1e-10)
    assert (state.stream.batches, state.stream.samples) == (4, 40)


@pytest.mark.parametrize("prior", [None, um.Gamma(np.linspace(1, 2, 25)[:, None])], ids=["ml", "map"])
def test_online_em_with_one_batch_of_everything_is_loadings_then_an_em_step_of_the_topics(
    prior: um.Gamma | None,
) -> None:
    problem = Problem(Counts(X), 3, prior)
    solver = OnlineEM(WHOLE, seed=0)
    state = solver.step(problem, solver.start(problem, L0, F0))
    topics = by_column(F0)
    L, _ = Newton(rounds=3, tolerance=1e-6)(problem.left, topics, L0 * F0.sum(axis=0))
    weights = topics * ((X / (L @ topics.T)).T @ L)
    want = by_column(weights if prior is None else weights + np.linspace(0, 1, 25)[:, None])
    np.testing.assert_allclose(by_column(state.F), want, rtol=1e-9)
    rates = state.L @ state.F.T  # at the end the loadings are fitted to the new topics
    assert (xlogy(X, rates) - rates).sum() >= (xlogy(X, L @ topics.T) - L @ topics.T).sum()
    np.testing.assert_allclose(rates.sum(axis=1), X.sum(axis=1), rtol=1e-3)


# --- steps -----------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("decay", [0.51, 0.7, 1.0])
@pytest.mark.parametrize("offset", [0, 1, 10.0, 1000])
def test_steps_are_those_of_robbins_and_monro(offset: float, decay: float) -> None:
    online = um.Online(offset=offset, decay=decay)
    t = np.arange(2000)
    steps = np.array([online.step_size(int(batch)) for batch in t])
    np.testing.assert_allclose(steps, (offset + t + 1) ** -decay, rtol=1e-12)
    assert (np.diff(steps) < 0).all()
    assert (steps > 0).all()
    assert (steps <= 1).all()
    # Σ step diverges at least like the logarithm, Σ step² stays below the integral of its last member's bound
    assert steps.sum() >= np.log((offset + 2000) / (offset + 1)) - 1e-9
    assert (steps**2).sum() <= steps[0] ** 2 + (offset + 1) ** (1 - 2 * decay) / (2 * decay - 1)


BAD = {
    "no samples": ({"batch_size": 0}, "batch_size=0; use a whole number of samples >= 1"),
    "part of a sample": ({"batch_size": 2.5}, "batch_size=2.5"),
    "batch as text": ({"batch_size": "all"}, "batch_size='all'"),
    "offset": ({"offset": -1}, "offset=-1; use a number >= 0"),
    "infinite offset": ({"offset": float("inf")}, "offset=inf"),
    "NaN offset": ({"offset": float("nan")}, "offset=nan"),
    "offset as text": ({"offset": "late"}, "offset='late'"),
    "slow decay": ({"decay": 0.5}, r"decay=0.5; the steps converge for decay in \(0.5, 1\]"),
    "fast decay": ({"decay": 1.01}, "decay=1.01"),
    "no decay": ({"decay": None}, "decay=None"),
    "no total": ({"total_samples": 0}, "total_samples=0; use a positive number, or None"),
    "infinite total": ({"total_samples": float("inf")}, "total_samples=inf"),
    "NaN total": ({"total_samples": float("nan")}, "total_samples=nan"),
    "total as text": ({"total_samples": "all"}, "total_samples='all'"),
}


@pytest.mark.parametrize("what", BAD)
def test_a_bad_parameter_is_explained(what: str) -> None:
    options, message = BAD[what]
    with pytest.raises(ValueError, match=message):
        um.Online(**options)


def test_batches_hold_every_sample_once() -> None:
    for size in (1, 7, 20, 39, 40, 1000):
        counts = Counts(X)
        parts = []
        for rows, batch in counts.batches(size, np.random.default_rng(0)):
            np.testing.assert_array_equal(batch.csr.toarray(), X[rows])
            parts.append(rows)
        np.testing.assert_array_equal(np.sort(np.concatenate(parts)), np.arange(40))
        assert max(map(len, parts)) - min(map(len, parts)) <= 1
        assert max(map(len, parts)) <= 1.5 * size


# --- several passes --------------------------------------------------------------------------------------------------


def test_several_passes_come_near_the_batch_fit(kind: Callable[..., Any]) -> None:
    """From far away, but in the valley of one optimum: its topics half washed out, and the same loadings for all."""
    data = um.datasets.correlated_topics("A")
    near = um.TopicModel(6, random_state=0, max_iter=20, tol=0).fit(data).result_
    topics = 0.5 * near.topics + 0.5 * (data.feature_totals / data.total)[:, None]
    model = kind(6, init=(np.repeat(data.sample_totals[:, None] / 6, 6, axis=1), topics), tol=0, random_state=0)
    if isinstance(model, um.PoissonNMF):
        model.set_params(prefit=0)  # which is not online
    optimum = model.set_params(max_iter=200).fit(data).result_.trace["objective"].iloc[-1]
    passes = (
        model.set_params(max_iter=40, online=um.Online(batch_size=25, offset=1)).fit(data).result_.trace["objective"]
    )
    first, last = optimum - passes.iloc[0], optimum - passes.iloc[-1]
    assert first > 0.5 * abs(optimum)
    # with two Gamma priors the scale of topics moves slowly, and more so in small steps
    assert abs(last) < (0.02 if isinstance(model, um.BayesianPoissonNMF) else 1e-3) * first


def test_passes_from_a_random_start_improve(kind: Callable[..., Any]) -> None:
    data = um.datasets.correlated_topics("A")
    options = {"n_components": 6, "init": "random", "tol": 0, "random_state": 0}
    fit = kind(**options, max_iter=6, online=um.Online(batch_size=20, offset=1)).fit(data).result_
    objective = fit.trace.loc[fit.trace["stage"] != "prefit", "objective"].to_numpy()
    assert objective[-1] > objective[0] + 0.02 * abs(objective[0])
    assert np.isfinite(fit.L).all()
    assert np.isfinite(fit.F).all()


def test_a_first_step_of_one_does_not_lose_features_of_other_batches(kind: Callable[..., Any]) -> None:
    sparse = np.kron(np.eye(4), np.full((5, 6), 3.0))  # most batches of two samples have no counts in most features
    online = um.Online(batch_size=2, offset=0)
    fit = kind(2, init="random", max_iter=3, tol=0, online=online, random_state=0).fit(sparse).result_
    assert np.isfinite(fit.trace["objective"]).all()
    assert (fit.F.sum(axis=1) > 0).all()


def test_passes_do_not_depend_on_the_number_of_threads(kind: Callable[..., Any]) -> None:
    options = {"n_components": 3, "init": (L0, F0), "max_iter": 3, "tol": 0, "random_state": 0}
    one, two = (kind(**options, online=um.Online(batch_size=15), n_jobs=jobs).fit(X).result_ for jobs in (1, 2))
    assert one.L.tobytes() == two.L.tobytes()
    assert one.F.tobytes() == two.F.tobytes()


# --- streams ---------------------------------------------------------------------------------------------------------


def stream(n: int = 600, m: int = 40, seed: int = 0) -> Floats:
    """Samples of four clear topics."""
    rng = np.random.default_rng(seed)
    topics = rng.dirichlet(np.full(m, 0.4), 4)
    return np.array([rng.multinomial(60, shares @ topics) for shares in rng.dirichlet(np.full(4, 0.2), n)], dtype=float)


STREAM = stream()


def streamed(kind: Callable[..., Any], batches: list[Floats], K: int = 4, **options: Any) -> Any:
    model = kind(K, init="random", random_state=0, online=um.Online(offset=2, total_samples=600), **options)
    for batch in batches:
        model.partial_fit(batch)
    return model


def test_the_score_of_new_samples_improves_along_the_stream(kind: Callable[..., Any]) -> None:
    held_out, parts = STREAM[500:], np.split(STREAM[:500], 20)
    model = streamed(kind, parts[:1])
    first = model.score(held_out)
    for part in parts[1:]:
        model.partial_fit(part)
    assert model.score(held_out) > first + 0.03
    assert model.n_iter_ == 20
    assert model.transform(held_out).shape == (100, 4)
    assert model.result_.L.shape == (25, 4)  # of the last batch


def test_what_is_kept_does_not_grow_with_the_samples(kind: Callable[..., Any]) -> None:
    def sizes(parts: list[Floats]) -> dict[str, tuple[int, ...]]:
        kept = streamed(kind, parts).stream_
        arrays = vars(kept.right) | {"counts": kept.counts, "sums": kept.sums}
        return {name: np.shape(values) for name, values in arrays.items()}

    few, many = sizes(np.split(STREAM[:50], 2)), sizes([STREAM, STREAM])
    assert few == many
    assert few["counts"] == (40, 4)


def test_a_later_batch_may_have_features_never_seen(kind: Callable[..., Any]) -> None:
    first = STREAM[:100].copy()
    first[:, :10] = 0
    for offset in (0, 10):
        model = kind(4, init="random", random_state=0, online=um.Online(offset=offset))
        model.partial_fit(first).partial_fit(STREAM[100:200])
        before = model.score(STREAM[200:])
        for part in np.split(STREAM[200:500], 10):
            model.partial_fit(part)
        assert np.isfinite(before)
        assert model.score(STREAM[500:]) > before
        seen = STREAM[:, :10].sum(axis=0) > 20
        assert (model.components_[:, :10].sum(axis=0) > 1e-4)[seen].all()


def test_a_batch_without_counts_or_of_one_sample_is_no_problem(kind: Callable[..., Any]) -> None:
    model = streamed(kind, [STREAM[:100], np.zeros((3, 40)), STREAM[[7]], STREAM[100:200]])
    assert np.isfinite(model.result_.F).all()
    assert np.isfinite(model.score(STREAM))


def test_another_number_of_features_is_refused_and_changes_nothing(kind: Callable[..., Any]) -> None:
    model = streamed(kind, [STREAM[:100]])
    before = model.stream_
    with pytest.raises(ValueError, match=r"X has 39 features, but .* is expecting 40 features"):
        model.partial_fit(STREAM[:, :39])
    assert model.stream_ is before
    with pytest.raises(ValueError, match="no counts at all"):
        kind(4).partial_fit(np.zeros((3, 40)))


def test_a_stream_does_not_depend_on_the_number_of_threads(kind: Callable[..., Any]) -> None:
    parts = np.split(STREAM[:300], 3)
    one, two = (streamed(kind, parts, n_jobs=jobs) for jobs in (1, 2))
    assert one.components_.tobytes() == two.components_.tobytes()
    assert one.stream_.counts.tobytes() == two.stream_.counts.tobytes()


def test_fitting_ends_a_stream(kind: Callable[..., Any]) -> None:
    model = streamed(kind, [STREAM[:100]]).set_params(max_iter=2, tol=0, online=None)
    model.fit(X)
    assert not hasattr(model, "stream_")
    assert model.partial_fit(X).n_iter_ == 1
    assert model.components_.shape == (4, 25)


@pytest.mark.parametrize("kind", [um.GammaPoisson, um.BayesianPoissonNMF])
def test_priors_chosen_by_the_data_stay_those_of_the_first_batch(kind: type) -> None:
    model = kind(4, init="random", random_state=0).partial_fit(STREAM[:100])
    first = model.result_.posterior["L_prior_rate"]
    model.partial_fit(10 * STREAM[100:200])
    np.testing.assert_array_equal(model.result_.posterior["L_prior_rate"], first)


@pytest.mark.parametrize("name", ["LDA", "smoothed LDA", "Gamma–Gamma"])
def test_the_posterior_of_a_stream_can_be_asked(name: str) -> None:
    model = streamed(FAMILY[name], np.split(STREAM[:200], 2))
    assert model.standard_deviations("loadings").shape == (100, 4)
    assert np.isfinite(model.elbo_)
    if name != "LDA":
        low, high = model.credible_intervals("factors")
        assert (low < high).all()
