"""At the edge of what numbers can be, models give finite numbers or say what is wrong: never NaN, nor a falling objective."""

from __future__ import annotations

import warnings
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
import scipy.sparse as sp
from conftest import examples
from hypothesis import given
from hypothesis import strategies as st

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
        ({"a": [1, 2]}, "a dict; use an array, a sparse matrix or a DataFrame"),
        ((row for row in BASE), "a generator; use an array, a sparse matrix or a DataFrame"),
        ([{"a": 1}, {"b": 2}], "the samples are dictionaries"),
        ({1, 2}, "a set; use an array"),
    ],
    ids=["dict", "generator", "list of dicts", "set"],
)
def test_what_is_no_matrix_is_refused_with_a_remedy(given: Any, said: str) -> None:
    with pytest.raises(ValueError, match=said):
        um.PoissonNMF(2).fit(given)


def _with(kind: Any, **more: Any) -> Callable[[], Any]:
    return lambda: kind(2, max_iter=4, tol=0, random_state=0, n_jobs=1, **more)


WIDE_MODELS: dict[str, tuple[Callable[[], Any], Callable[[np.ndarray], Any]]] = {
    **{name: (model, um.Counts) for name, model in MODELS.items()},
    **{
        solver: (_with(um.PoissonNMF, solver=solver, init="random"), um.Counts)
        for solver in ("newton", "scd", "ccd", "sn", "em", "joint", "plsi", "normalized")
    },
    "float32": (_with(um.PoissonNMF, dtype="float32"), um.Counts),
    "refined": (_with(um.TopicModel, refine=1), um.Counts),
    "best of two": (_with(um.TopicModel, n_init=2), um.Counts),
    "online": (_with(um.TopicModel, online=um.Online(batch_size=2)), um.Counts),
    "online LDA": (_with(um.LDA, eta=0.1, online=um.Online(batch_size=2)), um.Counts),
    "online GammaPoisson": (_with(um.GammaPoisson, online=um.Online(batch_size=2)), um.Counts),
    "shards": (_with(um.TopicModel), lambda X: um.Shards.of(um.Counts(X))),
    "shards, float32": (_with(um.PoissonNMF, dtype="float32"), lambda X: um.Shards.of(um.Counts(X))),
    "shards of LDA": (_with(um.LDA), lambda X: um.Shards.of(um.Counts(X))),
    "shards of GammaPoisson": (_with(um.GammaPoisson), lambda X: um.Shards.of(um.Counts(X))),
    "large prior": (_with(um.PoissonNMF, prior=um.Gamma(1e300, 1e-300)), um.Counts),
    "large prior of loadings": (_with(um.PoissonNMF, loadings_prior=um.Gamma(1e308, 1.0)), um.Counts),
    "narrow prior": (_with(um.PoissonNMF, prior=um.Gamma(2.0, 1e300)), um.Counts),
    "wide shapes": (_with(um.GammaPoisson, shape=1e300, rate=1e-300), um.Counts),
    "small shapes": (_with(um.GammaPoisson, shape=1e-300), um.Counts),
    "large Dirichlet": (_with(um.LDA, alpha=1e300, eta=1e300), um.Counts),
    "small Dirichlet": (_with(um.LDA, alpha=1e-300, eta=1e-300), um.Counts),
    "large allocation": (_with(um.AllocationModel, a=1e300, alpha=1e300), um.Counts),
    "large penalty": (_with(um.SparsePoissonNMF, penalty=1e300), um.Counts),
}
EXPONENT = st.sampled_from([-307.6, -300, -200, -150, -100, -45, -38, -12, 0, 0, 0, 3, 15, 38, 100, 149, 150])


@pytest.mark.parametrize("name", WIDE_MODELS)
@examples(8)
@given(rows=st.lists(EXPONENT, min_size=4, max_size=4), columns=st.lists(EXPONENT, min_size=5, max_size=5))
def test_counts_of_any_promised_size_give_finite_answers_or_an_error(
    tmp_path_factory: pytest.TempPathFactory, name: str, rows: list[float], columns: list[float]
) -> None:
    exponents = np.clip(np.add.outer(rows, columns), -307.6, 150)
    X = np.where(BASE[:4] > 1, 10.0**exponents, 0)
    X[0, 0] = 10.0 ** exponents[0, 0]
    make, form = WIDE_MODELS[name]
    fitted, problem = refused(lambda: make().fit(form(X)))
    if fitted is None:
        assert problem
        assert "\n" not in problem
        return
    fit = fitted.result_
    for what, values in {"L": fit.L, "F": fit.F, "proportions": fit.proportions, "topics": fit.topics}.items():
        assert np.isfinite(values).all(), what
    assert np.isfinite(fit.loglik)
    assert np.isfinite(fit.trace["objective"]).all()
    path = tmp_path_factory.mktemp("fits") / "model.safetensors"
    fit.save(path, resumable=True)
    assert um.load(path).loglik == fit.loglik
    for what, act in {
        "transform": lambda: fitted.transform(form(X)),
        "score": lambda: fitted.score(form(X)) if hasattr(fitted, "score") else 0.0,
        "perplexity": lambda: fitted.perplexity(form(X)),
    }.items():
        answer, problem = refused(act)
        assert problem or np.isfinite(answer).all(), what


def test_a_fit_that_is_no_longer_finite_says_which_iterations_were() -> None:
    class Failing(um.solvers.EM):
        def __call__(self, side: Any, fixed: Any, moving: Any, *, measure: bool = False) -> Any:
            made, xlog = super().__call__(side, fixed, moving, measure=measure)
            calls.append(1)
            return (made * np.nan if len(calls) > 6 else made), xlog

    calls: list[int] = []
    model = um.PoissonNMF(2, solver=Failing(), extrapolate=False, init="random", prefit=0, max_iter=9, tol=0)
    with pytest.raises(ValueError, match=r"the objective is nan .*The 3 iterations before were finite: max_iter=3"):
        model.fit(BASE)
