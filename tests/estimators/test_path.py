"""Fits of many numbers of topics from one."""

from typing import Any

import numpy as np
import pytest
from conftest import random_counts

import unmix as um

X = random_counts(60, 50, K=5, seed=2, mean=5.0)

pytestmark = pytest.mark.filterwarnings("ignore::sklearn.exceptions.ConvergenceWarning")


def test_a_path_has_one_converged_fit_for_every_number_of_topics() -> None:
    fits = um.fit_path(X, [4, 2, 7, 1, 4], random_state=0)
    assert list(fits) == [1, 2, 4, 7]
    assert [fit.n_topics for fit in fits.values()] == [1, 2, 4, 7]
    assert {fit.status for fit in fits.values()} == {"converged"}
    logliks = [fit.loglik for fit in fits.values()]
    assert logliks == sorted(logliks)
    for fit in fits.values():
        assert fit.params["model"] == "TopicModel"
        assert um.loglik(X, fit.L, fit.F) == pytest.approx(fit.loglik, rel=1e-9)
    single = np.outer(X.sum(axis=1), X.sum(axis=0)) / X.sum()
    np.testing.assert_allclose(fits[1].L @ fits[1].F.T, single, rtol=1e-6)


def test_the_largest_is_the_default_fit_and_the_others_are_as_good() -> None:
    fits = um.fit_path(X, range(2, 7), random_state=0)
    whole = um.TopicModel(6, random_state=0).fit(X).result_
    assert fits[6].L.tobytes() == whole.L.tobytes()
    for K in range(2, 6):
        alone = max(um.TopicModel(K, random_state=seed).fit(X).result_.loglik for seed in range(2))
        nothing = fits[2].loglik - um.fit_path(X, [1])[1].loglik
        assert fits[K].loglik > alone - 0.05 * nothing


def test_a_path_depends_on_its_seed_only() -> None:
    one, two = (um.fit_path(X, [2, 4], random_state=3, n_jobs=jobs) for jobs in (1, 2))
    for K in one:
        assert one[K].F.tobytes() == two[K].F.tobytes()


@pytest.mark.parametrize(
    "model",
    [
        um.LDA(alpha=0.3, eta=0.1),
        um.BayesianPoissonNMF(),
        um.SparsePoissonNMF(penalty=0.1),
        um.PoissonNMF(solver="scd"),
    ],
    ids=lambda model: type(model).__name__,
)
def test_every_model_has_a_path(model: Any) -> None:
    fits = um.fit_path(X, [3, 5], model, random_state=0, tol=1e-3)
    assert [fit.params["model"] for fit in fits.values()] == [type(model).__name__] * 2
    assert [fit.n_topics for fit in fits.values()] == [3, 5]
    assert fits[3].trace["note"].iloc[0] in ("given", "resumed")
    assert model.n_components == 10  # the one that was given is left as it was


@pytest.mark.parametrize("bad", [0, 2.5, True, "3"])
def test_numbers_of_topics_are_whole_numbers(bad: Any) -> None:
    with pytest.raises(ValueError, match="use whole numbers >= 1"):
        um.fit_path(X, [2, bad])
