"""When a fit has converged, and what it says is left to gain."""

from typing import Any

import numpy as np
import pytest
from conftest import random_counts

import unmix as um
from unmix.models.problem import Iterate
from unmix.solvers.run import FEWEST, MOST, Counters, remaining_gain

X = random_counts(n=40, m=30, seed=3, mean=20.0)

pytestmark = pytest.mark.filterwarnings("ignore::sklearn.exceptions.ConvergenceWarning")


@pytest.mark.parametrize("power", [0.5, 1.0, 1.5])
@pytest.mark.parametrize("t", [60, 600, 6000])
def test_what_is_left_of_a_slow_tail_is_known(power: float, t: int) -> None:
    losses = [7.0 + 100 * max(i, 1) ** -power for i in range(t + 1)]
    assert remaining_gain(losses) == pytest.approx(losses[-1] - 7.0, rel=0.3 if t < 100 else 0.05)


@pytest.mark.parametrize("rate", [0.5, 0.9, 0.95])
def test_what_is_left_is_never_taken_for_less_where_gains_fall_geometrically(rate: float) -> None:
    losses = [rate**i for i in range(200)]
    for t in range(FEWEST, 200):
        assert remaining_gain(losses[: t + 1]) >= losses[t] * (1 - 1e-9)


def test_gains_that_do_not_fall_leave_many_times_what_the_last_third_gained() -> None:
    assert remaining_gain([100.0 - i for i in range(31)]) == pytest.approx(10 * MOST)


def test_few_iterations_say_nothing_and_a_standstill_says_all() -> None:
    assert np.isnan(remaining_gain([1.0] * FEWEST))
    assert remaining_gain([1.0] * (FEWEST + 1)) == 0


def test_an_iteration_that_is_not_conclusive_says_nothing_of_what_is_left() -> None:
    counters = Counters("fit")
    for i in range(30):
        counters = counters.after(Iterate(loss=0.9 ** (i + 1)), 0.9**i, climbs=True)
    left = counters.remaining_gain
    for _ in range(50):
        counters = counters.after(Iterate(loss=0.9**30, conclusive=False), 0.9**30, climbs=True)
        assert counters.remaining_gain == left
    assert counters.after(Iterate(loss=0.9**30), 0.9**30, climbs=True).remaining_gain == 0


# Without momentum, and where both factors are believed in, a fit may rest near a saddle point, from which nothing is to be seen.
MODELS: dict[str, tuple[Any, float]] = {
    "newton": (um.TopicModel(4), 1),
    "scd": (um.PoissonNMF(4, solver="scd"), 1),
    "newton, plain": (um.PoissonNMF(4, extrapolate=False), 10),
    "MAP": (um.TopicModel(4, prior=um.Gamma(1.2, 1.0)), 10),
    "LDA": (um.LDA(4, alpha=0.1, eta=0.1), 10),
    "Gamma-Gamma": (um.BayesianPoissonNMF(4, max_iter=3000), 10),
}


@pytest.mark.parametrize("name", MODELS)
def test_a_default_fit_ends_within_millionths_per_count_of_its_optimum(name: str) -> None:
    model, most = MODELS[name]
    fit = model.set_params(random_state=0).fit(X).result_
    assert fit.status == "converged"
    assert 0 <= fit.remaining_gain <= model.tol * X.sum()
    long = type(model)(**model.get_params() | {"tol": 0, "max_iter": 2000}).fit(X).result_
    assert len(long.trace) > 2000
    gap = long.trace["objective"].iloc[-1] - fit.trace["objective"].iloc[-1]
    assert gap <= most * model.tol * X.sum()


def test_a_fit_that_is_cut_short_says_how_much_is_left() -> None:
    plain = {"solver": "em", "extrapolate": False, "init": "random", "random_state": 0}
    whole = um.TopicModel(4, **plain, tol=0, max_iter=1500).fit(X).result_
    best = whole.trace["objective"].max()
    for iterations in (30, 60, 120, 240):
        fit = um.TopicModel(4, **plain, max_iter=iterations).fit(X).result_
        assert fit.status == "max_iter"
        left = best - fit.trace["objective"].iloc[-1]
        assert left / 10 <= fit.remaining_gain <= 10 * left
        assert "remaining gain about" in repr(fit)


def test_moves_leave_what_is_left_as_it_was() -> None:
    plain = um.TopicModel(5, random_state=1).fit(X).result_
    refined = um.TopicModel(5, random_state=1, refine=1).fit(X).result_
    if "refit" not in set(refined.trace["stage"]):
        assert refined.remaining_gain == plain.remaining_gain
    assert refined.remaining_gain <= 1e-6 * X.sum()


def test_samples_and_batches_and_known_factors_leave_nothing_that_can_be_told() -> None:
    gibbs = um.AllocationModel(3, method="gibbs", sweeps=30, burn_in=30, random_state=0).fit(X)
    batch = um.LDA(3, random_state=0).partial_fit(X)
    known = um.PoissonNMF.from_factors(np.ones((3, 2)))
    for model in (gibbs, batch, known):
        assert np.isnan(model.result_.remaining_gain)


def test_single_moves_end_where_none_is_left() -> None:
    fit = um.AllocationModel(3, method="icm", random_state=0).fit(X).result_
    assert (fit.status, fit.remaining_gain) == ("converged", 0.0)


def test_files_from_before_do_not_say_what_is_left(tmp_path: Any) -> None:
    um.TopicModel(3, random_state=0, max_iter=5, tol=0).fit(X).result_.save(tmp_path / "short.safetensors")
    assert np.isnan(um.load(tmp_path / "short.safetensors").remaining_gain)
