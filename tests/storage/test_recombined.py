"""Topics of a fit selected, left out and merged: what stays, what is renormalised, what is refused."""

from contextlib import nullcontext
from dataclasses import replace

import numpy as np
import pytest

import unmix as um

pytestmark = pytest.mark.filterwarnings(
    "ignore:.*had none of these topics", "ignore::sklearn.exceptions.ConvergenceWarning"
)
X = um.Counts(np.random.default_rng(0).poisson(3.0, (30, 12)), features=[f"f{j}" for j in range(12)])


@pytest.fixture(scope="module", params=["TopicModel", "PoissonNMF", "SparsePoissonNMF", "LDA", "GammaPoisson"])
def fit(request):
    how = {"LDA": {"eta": 0.5}, "GammaPoisson": {"shape": 0.5, "rate": 0.1}}.get(request.param, {})
    return getattr(um, request.param)(4, max_iter=30, tol=0, random_state=0, **how).fit(X).result_


def test_merged_topics_keep_the_totals_of_samples_and_features(fit) -> None:
    merged, rates = fit.merge([2, 4]), fit.L @ fit.F.T
    now = merged.L @ merged.F.T
    np.testing.assert_allclose(now.sum(axis=1), rates.sum(axis=1), rtol=1e-10)
    np.testing.assert_allclose(now.sum(axis=0), rates.sum(axis=0), rtol=1e-10)
    P = fit.proportions
    np.testing.assert_allclose(merged.proportions, np.column_stack([P[:, 0], P[:, 1] + P[:, 3], P[:, 2]]), rtol=1e-10)
    np.testing.assert_allclose(merged.topics.sum(axis=0), 1)
    weights = fit.shares[[1, 3]] / fit.shares[[1, 3]].sum()
    np.testing.assert_allclose(merged.topics[:, 1], fit.topics[:, [1, 3]] @ weights, rtol=1e-10)
    np.testing.assert_array_equal(merged.L[:, 0], fit.L[:, 0])


def test_rates_stay_where_merged_topics_are_alike() -> None:
    rng = np.random.default_rng(1)
    L, F = rng.random((9, 4)), rng.random((6, 4))
    F[:, 3] = 2.5 * F[:, 0]  # the same topic in another scale
    L[:, 2] = 0.3 * L[:, 1]  # two topics that always go together
    fit = um.PoissonNMF(4, init=(L, F), max_iter=1, tol=0).fit(rng.poisson(L @ F.T) + 1).result_
    fit = replace(fit, L=L, F=F)
    for part in ([1, 4], [2, 3]):
        merged = fit.merge(part)
        np.testing.assert_allclose(merged.L @ merged.F.T, L @ F.T, rtol=1e-12)
    both = fit.merge([1, 4], [3, 2])
    assert both.n_topics == 2
    np.testing.assert_allclose(both.L @ both.F.T, L @ F.T, rtol=1e-12)


def test_selected_topics_are_taken_over_again(fit) -> None:
    lost = fit.L[:, [0, 2]].sum(axis=1) == 0
    with (
        pytest.warns(UserWarning, match=f"{lost.sum()} samples? had none of these topics")
        if lost.any()
        else nullcontext()
    ):
        chosen = fit.select([3, 1])
    np.testing.assert_allclose(chosen.proportions.sum(axis=1), 1)
    np.testing.assert_array_equal(chosen.proportions[lost], 0.5)
    own = fit.proportions[:, [2, 0]][~lost]
    np.testing.assert_allclose(chosen.proportions[~lost], own / own.sum(axis=1, keepdims=True), rtol=1e-9)
    np.testing.assert_array_equal(chosen.F, fit.F[:, [2, 0]])
    np.testing.assert_array_equal(fit.without([2, 4]).L, fit.select([1, 3]).L)
    np.testing.assert_array_equal(fit.without(2).L, fit.L[:, [0, 2, 3]])


def test_what_remains_can_be_used_and_saved(fit, tmp_path) -> None:
    for kept in (fit.merge([1, 3]), fit.without(4)):
        kept.save(tmp_path / "model.safetensors")
        again = um.load(tmp_path / "model.safetensors")
        np.testing.assert_array_equal(again.L, kept.L)
        assert again.transform(X).shape == (30, 3)
        np.testing.assert_allclose(again.transform(X).sum(axis=1), 1)
        assert (again.params["n_components"], again.posterior, len(again.trace)) == (3, {}, 0)
        um.write_report(again, tmp_path / "report.html")
        assert np.isnan(again.loglik)
        assert um.align([fit, again]).table["share"].notna().all()


def test_a_fit_goes_on_from_merged_topics(fit) -> None:
    merged = fit.merge([1, 3])
    on = um.PoissonNMF(3, init=merged, max_iter=2, tol=0).fit(X).result_
    assert on.loglik > um.loglik(X, merged.L, merged.F)


def test_names_stay(fit, tmp_path) -> None:
    named = fit.with_names({2: "tax", 4: "trade"})
    assert named.merge([2, 4]).labels == ["topic 1", "tax + trade", "topic 3"]
    assert named.merge([4, 1], name="other").labels == ["tax", "topic 2", "other"]
    assert named.merge([1, 3]).labels == ["topic 1", "tax", "trade"]
    assert named.select([4, 1]).labels == ["trade", "topic 2"]
    assert fit.merge([1, 2]).names is None


def test_what_makes_no_sense_is_refused(fit) -> None:
    with pytest.raises(ValueError, match="there is no topic 5; this fit has topics 1 to 4"):
        fit.merge([2, 5])
    with pytest.raises(ValueError, match="use at least two topics to merge"):
        fit.merge([2])
    with pytest.raises(ValueError, match="and each once"):
        fit.merge([1, 2], [2, 3])
    with pytest.raises(ValueError, match="use at least one number"):
        fit.without([1, 2, 3, 4])
    with pytest.raises(ValueError, match="and each once"):
        fit.select([1, 1])
    with pytest.raises(ValueError, match="use with_names for several"):
        fit.merge([1, 2], [3, 4], name="x")
