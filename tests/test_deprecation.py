"""Names that have changed keep working for one release, and say what to write instead."""

from typing import Any

import pytest
from conftest import random_counts

import unmix as um
from unmix import solvers

X = random_counts(n=30, m=25, seed=2)


def fit() -> um.Fit:
    return um.TopicModel(3, random_state=0, max_iter=3, tol=0).fit(X).result_


def short_run(**options: Any) -> Any:
    problem, solver = solvers.Problem(um.Counts(X), 3), solvers.Alternate(solvers.EM())
    start = solver.start(problem, fit().L, fit().F)
    return solvers.run(problem, solver, start, max_iter=2, tol=0, **options)


@pytest.mark.parametrize(
    ("old", "new", "said"),
    [
        (lambda: solvers.Newton(enough=0.5), lambda: solvers.Newton(tolerance=0.5), "write tolerance="),
        (lambda: solvers.CAVI(enough=0.5), lambda: solvers.CAVI(tolerance=0.5), "write tolerance="),
        (lambda: solvers.CAVI(learn_alpha=True), lambda: solvers.CAVI(learn_prior=True), "write learn_prior="),
        (lambda: solvers.Shrunk, lambda: solvers.SparseL1, r"write unmix.solvers.SparseL1"),
        (lambda: solvers.Sparse, lambda: solvers.SparseL2, r"write unmix.solvers.SparseL2"),
        (lambda: solvers.Problem(um.Counts(X), 3, threads=2).n_topics, lambda: 3, "leave it out"),
        (lambda: short_run(keep=False)[1], lambda: short_run(catch_interrupt=False)[1], "write catch_interrupt="),
        (lambda: short_run(stage="fit")[1], lambda: short_run(phase="fit")[1], "write phase="),
        (lambda: fit().to_anndata().shape, lambda: um.sc.from_fit(fit()).shape, r"write unmix.sc.from_fit\(fit\)"),
    ],
)
def test_the_old_name_still_works_and_tells_the_new_one(old: Any, new: Any, said: str) -> None:
    with pytest.warns(FutureWarning, match=f"will go in the next release; {said}"):
        got = old()
    assert got == new()  # without a warning, which would be an error here


def test_a_name_that_never_was_is_none() -> None:
    with pytest.raises(AttributeError, match=r"module 'unmix.solvers' has no attribute 'Adam'"):
        solvers.Adam  # noqa: B018
