"""What plans of several estimators share: the best of several fits, and phases after convergence."""

from __future__ import annotations

from collections.abc import Callable
from copy import deepcopy
from dataclasses import replace
from numbers import Real
from typing import TYPE_CHECKING, TypeVar

import numpy as np

from unmix.base.checks import ParameterError
from unmix.base.types import Factor, Record
from unmix.counts.data import Data
from unmix.fit import Fit, quietly
from unmix.models.poisson import match_to_first
from unmix.models.problem import Iterate, Problem
from unmix.models.variational import Inference
from unmix.solvers.base import Solver
from unmix.solvers.run import Phase
from unmix.solvers.search import Refine

if TYPE_CHECKING:
    from unmix.estimators.base import CountsEstimator

E = TypeVar("E", bound="CountsEstimator")
T = TypeVar("T", bound=Problem | Inference)
S = TypeVar("S", bound=Iterate)

# The best of several fits, each from another start, and how far apart they end.
#
# The first start is that of the fit without `n_init`, so that more starts are never worse; seeds of the others come from it.
# They run one after the other, each with all threads. The spread says what the data do not identify: with P_s the proportions of
# start s, its topics matched with those of the best, b,
#
#     difference_s = mean_ik |P_s,ik − P_b,ik|


def generators(first: np.random.Generator, n: int) -> list[np.random.Generator]:
    """The random numbers of n starts: those of a single fit, and others that follow from them."""
    seeds = deepcopy(first).integers(2**63, size=n - 1)
    return [first, *(np.random.default_rng(int(seed)) for seed in seeds)]


def best_of(model: E, counts: Data, first: np.random.Generator, n: int) -> tuple[E, Fit]:
    """The estimator that ended highest, and its fit, with the spread of all in `data["starts"]`.

    Ctrl-C, and a callback that says stop, end the start under way; the best so far is then kept, as interrupted.
    """
    ended: list[E] = []
    stopped = False
    for rng in generators(first, n):
        one = type(model)(**model.get_params(deep=False) | {"n_init": 1, "random_state": rng})
        try:
            with quietly():  # there is one warning, of the best one, in the end
                ended.append(one.fit(counts))
        except KeyboardInterrupt:
            if not ended:
                raise
            stopped = True
        stopped = stopped or ended[-1].result_.status == "interrupted"
        if stopped:
            break
    best = max(ended, key=lambda one: objective_of(one.result_))  # of equals the first
    spread = spread_of([one.result_ for one in ended], ended.index(best))
    fit = replace(best.result_, data=best.result_.data | {"starts": spread})
    return best, replace(fit, status="interrupted") if stopped else fit


def objective_of(fit: Fit) -> float:
    return float(fit.trace["objective"].iloc[-1])


def spread_of(fits: list[Fit], best: int) -> Record:
    """What `Fit.starts` shows: of each start how high it ended, and how far from the best."""
    others = [fits[best], *fits]
    orders = match_to_first(np.stack([fit.topics for fit in others]))[1:]
    return {
        "objective": [objective_of(fit) for fit in fits],
        "loglik": [fit.loglik for fit in fits],
        "iterations": [int(fit.trace["iteration"].iloc[-1]) for fit in fits],
        "status": [fit.status for fit in fits],
        "difference": [
            float(np.abs(fit.proportions[:, order] - fits[best].proportions).mean())
            for fit, order in zip(fits, orders, strict=True)
        ],
    }


def refining(
    solver: Solver[T, S],
    start: Callable[[Factor, Factor], S],
    fit: Callable[..., Phase],
    moves: int,
    rng: np.random.Generator,
) -> list[Phase]:
    """Phases after convergence: moves that leave a poor optimum, and a fit from where they led."""
    refine = Refine(solver, start)
    return [
        Phase("refine", refine, moves, 0, lambda s: refine.start(s, rng), None, climbs=False),
        fit("refit", begin=lambda s: s.best if s.kept else None),
    ]


def strength_of(batch_prior: object) -> float | None:
    """The parameter `batch_prior`, checked; None to learn it."""
    if batch_prior == "auto":
        return None
    if not isinstance(batch_prior, Real) or not float(batch_prior) > 0:
        raise ParameterError("batch_prior", batch_prior, 'give "auto", a number > 0, or inf for no effects')
    return float(batch_prior)


def correcting(problem: Problem | Inference, fit: Callable[..., Phase]) -> list[Phase]:
    """A phase in the end, where the prior of effects of batches is learned: with the corrected one."""
    if problem.rates is None or not problem.rates.learned:
        return []
    return [fit("corrected", begin=problem.corrected)]
