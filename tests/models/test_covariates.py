"""The prior that covariates enter: reference cases to their digits, invariants, and all that a fit can do with it."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest
from numpy.testing import assert_allclose, assert_array_equal
from scipy.stats import gamma, poisson

import unmix as um
from unmix.models.beliefs import PointTopics
from unmix.models.covariates import CovariateGammas, newton_step, rows_with
from unmix.models.variational import Inference, Variational
from unmix.solvers.vi import CAVI, ExtrapolatedVI, infer

F = np.array([[0.6, 0.1], [0.3, 0.3], [0.1, 0.6]])


def drawn(n: int = 240, seed: int = 0, least: int = 5, most: int = 40) -> um.Counts:
    """Three topics whose shares depend on a group and a number."""
    rng = np.random.default_rng(seed)
    topics = rng.dirichlet(np.full(60, 0.1), 3).T
    group, z = rng.integers(0, 3, n), rng.normal(size=n)
    mean = np.exp(rng.normal(0, 1, (3, 3))[group] + z[:, None] * rng.normal(0, 0.7, 3))
    P = np.array([rng.dirichlet(3 * row / row.sum()) for row in mean])
    X = [rng.multinomial(t, topics @ p) for t, p in zip(rng.integers(least, most, n), P, strict=True)]
    table = pd.DataFrame({"g": [f"g{i}" for i in group], "z": z})
    return um.Counts(
        np.array(X), samples=[f"s{i}" for i in range(n)], features=[f"f{j}" for j in range(60)], metadata=table
    )


COUNTS = drawn()


def model(**how: Any) -> um.GammaPoisson:
    return um.GammaPoisson(3, prevalence="~ g + z", random_state=0, **how)


@pytest.mark.parametrize(
    ("ridge", "best"),
    [(0.0, [-1.34991784, 1.07014619, 0.13676664]), (1.0, [-1.11356081, 0.61485096, 0.21567906])],
)
def test_newton_steps_end_at_the_coefficients_of_the_reference_case(ridge: float, best: list[float]) -> None:
    W = np.column_stack([np.ones(8), [0, 1, 0, 1, 0, 0, 1, 1], [-1, 0.5, 0.2, 1.1, -0.4, 0.3, -0.9, 1.4]])
    ratio, a, Λ = np.array([0.2, 0.5, 0.1, 0.9, 0.4, 0.3, 0.7, 1.2]), 0.8, ridge * np.diag([0.0, 1, 1])

    def loss(b: np.ndarray) -> float:
        return float(a * (W @ b + ratio * np.exp(-W @ b)).sum() + b @ Λ @ b / 2)

    for start in (np.zeros((3, 1)), np.full((3, 1), 4.0), np.full((3, 1), -6.0)):
        beta, values = start, [loss(start[:, 0])]
        for _ in range(60):
            r = ratio * np.exp(-W @ beta[:, 0])
            gradient = a * W.T @ (1 - r) + Λ @ beta[:, 0]
            beta = newton_step(beta, gradient[:, None], (a * (W.T * r) @ W + Λ)[None], np.abs(W).max(axis=0))
            values.append(loss(beta[:, 0]))
        assert_allclose(beta[:, 0], best, atol=5e-9)
        assert (np.diff(values) <= 1e-12).all()  # none made it worse, wherever it began


def test_the_best_bound_of_the_reference_case_is_below_its_evidence() -> None:
    X = um.Counts([[3, 1, 0], [0, 2, 3], [1, 1, 1]])
    columns, beta, a = np.array([[0.0], [1], [0.5]]), np.array([[-0.5, -1], [0.4, 0.8]]), np.array([0.7, 1.5])
    prior = CovariateGammas(a, np.ones(2), beta, np.ones(2), rows_with(columns, X.sample_totals))
    one = Variational(prior, PointTopics())
    task, right = Inference(X, one), one.right.belief(F)
    left = infer(task, one, right, None, 10_000, 1e-14)
    bound = -task.loss(one, left, right) + prior.penalty
    assert_allclose(bound, -14.35118446, atol=5e-9)
    # the evidence, by quadrature over both loadings of each sample
    nodes, weights = np.polynomial.legendre.leggauss(400)
    total = 0.0
    for x, rate in zip(X.csr.toarray(), prior.prior_rates, strict=True):
        ends = gamma.ppf(1 - 1e-13, a) / rate
        u = (nodes[:, None] + 1) / 2
        grid = ends * u**4  # dense near 0, where densities may be infinite
        step = weights[:, None] / 2 * 4 * u**3 * ends
        density = gamma.pdf(grid, a, scale=1 / rate) * step
        rates = F[:, 0, None, None] * grid[:, 0, None] + F[:, 1, None, None] * grid[:, 1]
        likelihood = np.prod([poisson.pmf(k, r) for k, r in zip(x, rates, strict=True)], axis=0)
        total += float(np.log(density[:, 0] @ likelihood @ density[:, 1]))
    assert_allclose(total, -13.59187950, atol=1e-6)
    assert bound < total


# --- invariants -------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "how", [{}, {"extrapolate": False}, {"inner": 0}, {"inner": 0, "extrapolate": False}, {"eta": 0.1}]
)
def test_the_bound_never_falls(how: dict[str, Any]) -> None:
    trace = model(max_iter=40, tol=0, **how).fit(COUNTS).result_.trace["objective"].to_numpy()
    assert (np.diff(trace) >= -1e-10 * np.abs(trace[1:])).all()


def test_an_intercept_alone_has_the_bound_of_gamma_poisson() -> None:
    X = um.Counts(np.random.default_rng(0).multinomial(30, np.full(12, 1 / 12), 50))  # all of one size
    shape, beta = np.array([0.4, 0.9]), np.array([[-0.3, -1.4]])
    prior = CovariateGammas(shape, np.ones(2), beta, np.ones(1), rows_with(np.zeros((50, 0)), X.sample_totals))
    plain = um.GammaPoisson(2, shape=shape, rate=shape / (30 * np.exp(beta[0])), random_state=0, max_iter=5, tol=0).fit(
        X
    )
    _, left, right = um.models.variational.restore(plain.result_.priors, plain.result_.posterior)
    one = Variational(prior, PointTopics())
    same = prior.belief(left.parameters, np.broadcast_to(left.rates, left.parameters.shape))
    assert_allclose(-Inference(X, one).loss(one, same, right), plain.elbo_, rtol=1e-12)


def test_coefficients_are_at_their_best_where_a_fit_ends() -> None:
    """No small change of β raises the objective, prior of coefficients included."""
    fit = model(tol=0, max_iter=400).fit(COUNTS).result_
    task = Inference(COUNTS, model()._model(COUNTS))
    one, left, right = um.models.variational.restore(fit.priors, fit.posterior)
    prior = one.left.at(task.model.left.of_samples)

    def objective(beta: np.ndarray) -> float:
        whole = Variational(replace(prior, coefficients=beta), one.right)
        return -Inference(COUNTS, whole).loss(whole, whole.left.belief(left.parameters, left.rates), right)

    best = prior.coefficients
    assert_allclose(objective(best), fit.trace["objective"].iloc[-1], rtol=1e-10)
    for place in np.ndindex(best.shape):
        step = np.zeros(best.shape)
        step[place] = 0.05
        up, down = objective(best + step), objective(best - step)
        assert up < objective(best) > down
        assert abs(up - down) / 0.1 < 0.25  # without the ridge the slope would be β


def test_another_size_moves_intercepts_alone() -> None:
    """s → c s: β moves by −log c in its intercept; the bound stays."""
    fit = (
        model(max_iter=30, tol=0, init=(np.ones((240, 3)), np.random.default_rng(0).random((60, 3))))
        .fit(COUNTS)
        .result_
    )
    task = Inference(COUNTS, um.GammaPoisson(3, prevalence="~ g + z")._model(COUNTS))
    one, left, right = um.models.variational.restore(fit.priors, fit.posterior)
    left_prior = one.left.at(task.model.left.of_samples)
    rows, beta = left_prior.rows.copy(), left_prior.coefficients.copy()
    rows[:, -1] *= 7
    beta[0] -= np.log(7)
    bounds = []
    for prior in (left_prior, replace(left_prior, rows=rows, coefficients=beta)):
        whole = Variational(prior, one.right)
        bounds.append(-Inference(COUNTS, whole).loss(whole, prior.belief(left.parameters, left.rates), right))
    assert_allclose(bounds, bounds[0], rtol=1e-12)


def test_a_different_order_of_samples_or_features_changes_nothing() -> None:
    rng = np.random.default_rng(1)
    rows, features = rng.permutation(240), rng.permutation(60)
    L, F = rng.random((240, 3)), rng.random((60, 3))
    plain = model(max_iter=20, tol=0, init=(L, F)).fit(COUNTS)
    other = model(max_iter=20, tol=0, init=(L[rows], F[features])).fit(COUNTS.take(rows, features))
    assert_allclose(other.elbo_, plain.elbo_, rtol=1e-6)
    assert_allclose(other.result_.L, plain.result_.L[rows], atol=0.05)


def test_threads_do_not_matter() -> None:
    one, two = (model(max_iter=10, tol=0, n_jobs=n).fit(COUNTS).result_ for n in (1, 2))
    assert_array_equal(one.L, two.L)
    assert_array_equal(one.posterior["L_coefficients"], two.posterior["L_coefficients"])


def test_shapes_come_from_the_spread_of_proportions_and_not_from_the_bound() -> None:
    """Proportions ~ Dirichlet(.6, .6, .6) about the same means: shapes are near .6, from short samples too."""
    rng = np.random.default_rng(3)
    topics = rng.dirichlet(np.full(80, 0.1), 3).T
    z = rng.normal(size=1500)
    X = um.Counts(
        np.array([rng.multinomial(20, topics @ p) for p in rng.dirichlet(np.full(3, 0.6), 1500)]),
        metadata=pd.DataFrame({"z": z}),
    )
    few = um.Counts(
        np.array([rng.multinomial(5, topics @ p) for p in rng.dirichlet(np.full(3, 0.6), 4000)]),
        metadata=pd.DataFrame({"z": rng.normal(size=4000)}),
    )
    prior = um.GammaPoisson(3, prevalence="~ z")._model(few).left
    assert_allclose(prior.at_start(few, topics).shape, 0.6, atol=0.1)  # without noise taken off it would be 0.35
    found = um.GammaPoisson(3, prevalence="~ z", random_state=0).fit(X)
    assert ((found.result_.posterior["L_prior"] > 0.4) & (found.result_.posterior["L_prior"] < 0.85)).all()
    slopes = found.coefficients_.query("term == 'z'")["estimate"]
    assert (slopes.abs() < 0.15).all()


# --- what a fit can do ------------------------------------------------------------------------------------------------


def test_known_covariates_find_proportions_of_short_samples() -> None:
    counts = drawn(600, seed=2, least=3, most=9)
    whole = model(tol=1e-6).fit(counts)
    plain = um.GammaPoisson(3, random_state=0, tol=1e-6).fit(counts)
    more = drawn(600, seed=2, least=3, most=9).thinned(2, np.random.default_rng(0))[0]
    assert whole.score(more) > plain.score(more)
    assert whole.coefficients_["term"].tolist()[:5] == ["intercept", "g[g0]", "g[g1]", "g[g2]", "z"]


def test_a_fit_is_saved_loaded_and_transforms_new_samples_with_their_covariates(tmp_path: Path) -> None:
    fitted = model(tol=1e-6).fit(COUNTS)
    fit = fitted.result_
    fit.save(tmp_path / "fit.safetensors")
    loaded = um.load(tmp_path / "fit.safetensors")
    assert loaded.data["covariates"] == fit.data["covariates"]
    some = COUNTS.take(np.arange(40))
    assert_allclose(loaded.transform(some), fit.proportions[:40], atol=2e-3)
    assert_array_equal(loaded.transform(some), fit.transform(some))
    again = um.GammaPoisson.from_fit(loaded)
    assert again.prevalence == "~ g + z"
    assert_array_equal(again.transform(some), fitted.transform(some))
    assert_allclose(again.score(some), fitted.score(some))


def test_new_samples_without_covariates_are_taken_as_average_ones_with_a_warning() -> None:
    fitted = model(tol=1e-4).fit(COUNTS)
    with pytest.warns(
        UserWarning, match="there is no g and there is no z; covariates that are not known are taken as their"
    ):
        without = fitted.transform(COUNTS.csr)
    assert np.abs(without - fitted.transform(COUNTS)).max() > 0.01
    table = COUNTS.metadata.assign(g=["g0", "new"] * 120)
    with pytest.warns(UserWarning, match="g is missing or unknown to the fit in 120 samples"):
        fitted.transform(um.Counts(COUNTS, metadata=table))
    with pytest.raises(ValueError, match="z is a number in the fit, and text in these samples"):
        fitted.transform(um.Counts(COUNTS, metadata=table.assign(g="g0", z="high")))


@pytest.mark.parametrize("how", [{}, {"extrapolate": False}])
@pytest.mark.parametrize("kind", ["memory", "shards"])
def test_a_fit_that_was_resumed_ends_like_one_that_was_not(how: dict[str, Any], kind: str, tmp_path: Path) -> None:
    X = COUNTS if kind == "memory" else um.Shards.of(COUNTS)
    whole = model(max_iter=12, tol=0, **how).fit(X).result_
    model(max_iter=5, tol=0, **how).fit(X).result_.save(tmp_path / "half.safetensors", resumable=True)
    resumed = model(max_iter=12, tol=0, **how).resume(X, um.load(tmp_path / "half.safetensors")).result_
    assert_allclose(resumed.trace["objective"].iloc[-1], whole.trace["objective"].iloc[-1], rtol=1e-12)
    assert_allclose(resumed.L, whole.L, rtol=1e-9)


def test_shards_end_where_memory_does(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("unmix.counts.shards.SHARD", 96)
    monkeypatch.setattr("unmix.counts.shards.TILE", 32)
    fit = model(tol=1e-7).fit(COUNTS).result_
    shards = um.shard(COUNTS, tmp_path / "s.shards")
    assert shards.n_shards == 3
    streamed = model(tol=1e-7).fit(shards)
    assert_allclose(streamed.elbo_, fit.trace["objective"].iloc[-1], rtol=1e-3)
    trace = streamed.result_.trace["objective"].to_numpy()
    assert (np.diff(trace) >= 0).all()
    assert_allclose(streamed.transform(shards), streamed.result_.L, atol=0.05)
    assert_array_equal(streamed.result_.L, model(tol=1e-7).fit(um.Shards.of(COUNTS)).result_.L)


@pytest.mark.parametrize(
    ("formula", "how", "says"),
    [
        ("~ g + nope", {}, "prevalence='~ g [+] nope'; there is no column 'nope'; there are g, z"),
        ("~ 0 + g", {}, "a prior always has an intercept; remove 0"),
        ("~ 1", {}, "it has no columns"),
        ("log(z)", {}, "'log[(]' is not understood"),
        (["g"], {}, "use a formula such as '~ party [+] s[(]year[)]'"),
        ("~ g", {"rate": 2.0}, "rate=2.0; with prevalence it follows from covariates; use None"),
    ],
)
def test_what_is_no_prior_is_refused(formula: Any, how: dict[str, Any], says: str) -> None:
    with pytest.raises(ValueError, match=says):
        um.GammaPoisson(3, prevalence=formula, **how).fit(COUNTS)


def test_missing_covariates_and_batches_are_refused() -> None:
    table = COUNTS.metadata.assign(z=[np.nan, *COUNTS.metadata["z"][1:]])
    with pytest.raises(ValueError, match=r"z is missing in 1 sample \(the first is sample 1\)"):
        model().fit(um.Counts(COUNTS, metadata=table))
    with pytest.raises(ValueError, match="prevalence does not support batch or opportunities; use only one of them"):
        model().fit(COUNTS, opportunities=1 + np.arange(60))
    with pytest.raises(ValueError, match="there is no column 'g'; there is no metadata"):
        model().fit(COUNTS.csr)


def test_solvers_of_all_kinds_reach_the_same_bound() -> None:
    task = Inference(COUNTS, model()._model(COUNTS))
    known = um.PoissonNMF(3, random_state=0, tol=1e-3).fit(COUNTS).result_
    L, F = known.L, known.F
    ends = []
    for solver in (CAVI(inner=20), ExtrapolatedVI(inner=20), CAVI(), ExtrapolatedVI()):
        state, _ = um.solvers.run(task, solver, solver.start(task, L, F), max_iter=1500, tol=0)
        ends.append(-state.loss)
    assert_allclose(ends, max(ends), rtol=5e-3)


# --- everywhere -------------------------------------------------------------------------------------------------------


def test_mini_batches_find_the_same_coefficients(tmp_path: Path) -> None:
    counts = drawn(1200, seed=4)
    whole = model(tol=1e-6).fit(counts)
    online = um.Online(batch_size=100)
    fitted = model(online=online, max_iter=30, tol=0).fit(counts)
    assert_allclose(fitted.coefficients_["estimate"], whole.coefficients_["estimate"], atol=0.15)
    assert fitted.elbo_ > whole.elbo_ - 2e-3 * abs(whole.elbo_)
    model(online=online, max_iter=3, tol=0).fit(counts).result_.save(tmp_path / "f.safetensors", resumable=True)
    resumed = model(online=online, max_iter=30, tol=0).resume(counts, um.load(tmp_path / "f.safetensors"))
    assert_allclose(resumed.elbo_, fitted.elbo_, rtol=1e-9)
    stream = model()
    for first in range(0, 1200, 150):
        stream.partial_fit(counts.take(np.arange(first, first + 150)))
    assert_allclose(stream.coefficients_["estimate"], whole.coefficients_["estimate"], atol=0.5)
    stream.result_.save(tmp_path / "last.safetensors")
    assert_array_equal(um.load(tmp_path / "last.safetensors").transform(counts), stream.result_.transform(counts))


def test_an_anndata_keeps_a_fit_and_its_covariates(tmp_path: Path) -> None:
    anndata = pytest.importorskip("anndata")
    cells = anndata.AnnData(COUNTS.csr.astype(float), obs=COUNTS.metadata.set_index(COUNTS.samples))
    cells.var_names = COUNTS.features
    um.sc.tl.topics(cells, model=model(tol=1e-5))
    direct = model(tol=1e-5).fit(COUNTS).result_
    assert_allclose(um.sc.to_fit(cells).posterior["L_coefficients"], direct.posterior["L_coefficients"])
    cells.write_h5ad(tmp_path / "cells.h5ad")
    kept = um.sc.to_fit(anndata.read_h5ad(tmp_path / "cells.h5ad"))
    assert kept.data["covariates"] == direct.data["covariates"]
    assert_array_equal(kept.transform(COUNTS), direct.transform(COUNTS))
    assert_allclose(um.sc.to_fit(cells[:50].copy()).transform(COUNTS), direct.transform(COUNTS))


def test_the_command_line_has_it_as_covariates(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    from unmix.cli import main

    def run(*words: object) -> tuple[int, str]:
        with pytest.raises(SystemExit) as end:
            main([str(word) for word in words])
        said = capsys.readouterr()
        return int(end.value.code or 0), said.out + said.err

    pd.DataFrame(COUNTS.csr.toarray(), index=COUNTS.samples, columns=COUNTS.features).to_csv(tmp_path / "counts.csv")
    COUNTS.metadata.set_index(pd.Index(COUNTS.samples, name="sample")).to_csv(tmp_path / "table.csv")
    reading = (tmp_path / "counts.csv", "--metadata", tmp_path / "table.csv")
    asked = ("--model", "gamma-poisson", "-k", 3, "--covariates", "~ g + z", "-o", tmp_path / "fit")
    code, said = run("fit", *reading, *asked)
    assert code == 0, said
    fit = um.load(tmp_path / "fit")
    assert_allclose(fit.posterior["L_coefficients"], model().fit(COUNTS).result_.posterior["L_coefficients"], rtol=1e-6)
    code, said = run("transform", tmp_path / "fit", *reading, "-o", tmp_path / "p.csv")
    assert code == 0, said
    assert_allclose(pd.read_csv(tmp_path / "p.csv", index_col=0), fit.transform(COUNTS), atol=1e-6)
    code, said = run("effects", tmp_path / "fit", *reading, "--formula", "~ g + z")
    assert code == 0, said
    code, said = run("fit", *reading, "--model", "topics", "-k", 3, "--covariates", "~ g", "-o", tmp_path / "other")
    assert code == 2
    assert "covariates" in said, said


def test_folds_and_halves_of_counts_take_their_covariates_along() -> None:
    estimator = um.GammaPoisson(prevalence="~ g", tol=1e-2)
    assert um.choose_topics(COUNTS, [2, 3], estimator=estimator, folds=2, random_state=0).status == "finished"
    assert um.stability(COUNTS, 2, runs=2, estimator=estimator, random_state=0).status == "finished"
