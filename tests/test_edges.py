"""At the edge of what numbers can be, models give finite numbers or say what is wrong: never NaN, nor a falling objective."""

from __future__ import annotations

import warnings
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
import scipy.sparse as sp

import unmix as um

BASE = np.random.default_rng(0).poisson(3, (6, 5)) + np.eye(6, 5)
TINY = np.finfo(float).tiny
MATRICES: dict[str, np.ndarray] = {
    "1e300": BASE * 1e300 / BASE.sum(),
    "1e150": BASE * 1e150,
    "near 2^53": BASE + 2.0**53 - 8,
    "above 2^53": BASE * 2.0**54,
    "1e-12": BASE * 1e-12,
    "1e-150": BASE * 1e-150,
    "smallest": BASE * TINY * 2,
    "denormal": BASE * TINY / 1024,
    "mixed": BASE * np.array([1e-100, 1e-12, 1.0, 1e12, 1e100, 1e-3])[:, None],
    "mixed columns": BASE * np.array([1e-100, 1e-12, 1.0, 1e12, 1e100]),
}


def _few(kind: Any, **more: Any) -> Callable[[], Any]:
    return lambda: kind(2, max_iter=6, tol=0, random_state=0, n_jobs=1, **more)


MODELS: dict[str, Callable[[], Any]] = {
    "PoissonNMF": _few(um.PoissonNMF),
    "TopicModel": _few(um.TopicModel),
    "SparsePoissonNMF": _few(um.SparsePoissonNMF),
    "LDA": _few(um.LDA),
    "LDA eta": _few(um.LDA, eta=0.1),
    "GammaPoisson": _few(um.GammaPoisson),
    "BayesianPoissonNMF": _few(um.BayesianPoissonNMF),
    "bld": _few(um.AllocationModel, method="bld"),
}


def refused(act: Callable[[], Any]) -> tuple[Any, str]:
    """What it gives, or what it says in one line."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        try:
            return act(), ""
        except ValueError as error:
            return None, str(error)


@pytest.mark.parametrize("model", MODELS)
@pytest.mark.parametrize("what", MATRICES)
def test_numbers_at_the_edge_give_finite_answers_or_an_error(what: str, model: str) -> None:
    X = MATRICES[what]
    fitted, problem = refused(lambda: MODELS[model]().fit(X))
    if fitted is None:
        assert problem
        fitted, _ = refused(lambda: MODELS[model]().fit(BASE))  # and then new samples of that kind
    else:
        fit = fitted.result_
        for name, array in {"L": fit.L, "F": fit.F, "proportions": fit.proportions, "topics": fit.topics}.items():
            assert np.isfinite(array).all(), name
        objective = fit.trace["objective"].to_numpy()
        assert np.isfinite(objective).all()
        assert np.isfinite(fit.loglik)
        if model != "SparsePoissonNMF":
            fall = (np.maximum.accumulate(objective) - objective).max()
            # the objective is a difference of terms that may be far larger than itself: their last digits are lost
            terms = X.sum() * (1 + abs(np.log(X.sum()))) + np.abs(objective).max() + 100 * X.size
            assert fall <= 64 * np.finfo(float).eps * terms, "the objective falls"
    for name, act in {
        "transform": lambda: fitted.transform(X),
        "score": lambda: fitted.score(X) if hasattr(fitted, "score") else 0.0,
        "perplexity": lambda: fitted.perplexity(X),
    }.items():
        answer, problem = refused(act)
        assert problem or np.isfinite(answer).all(), name


def test_big_endian_numbers_are_numbers() -> None:
    plain = um.Counts(BASE)
    swapped = um.Counts(BASE.astype(">f8"))
    sparse = sp.csr_array(BASE)
    sparse.data = sparse.data.astype(">f8")
    for other in (swapped, um.Counts(sparse), um.Counts(BASE.astype(">i4"))):
        assert other.rows.data.dtype == np.dtype("=f8")
        np.testing.assert_array_equal(other.csr.toarray(), plain.csr.toarray())


@pytest.mark.parametrize(
    ("given", "said"),
    [
        ({"a": [1, 2]}, "a dict; give an array, a sparse matrix or a DataFrame"),
        ((row for row in BASE), "a generator; give an array, a sparse matrix or a DataFrame"),
        ([{"a": 1}, {"b": 2}], "the samples are dictionaries"),
        ({1, 2}, "a set; give an array"),
    ],
    ids=["dict", "generator", "list of dicts", "set"],
)
def test_what_is_no_matrix_is_refused_with_a_remedy(given: Any, said: str) -> None:
    with pytest.raises(ValueError, match=said):
        um.PoissonNMF(2).fit(given)
