"""The claims of `reproduce.joint` on data small enough for a test, and that all results are there to be made.

The tests of the other results are part of `make reproduce`.
"""

from __future__ import annotations

from importlib import import_module

import numpy as np
import pandas as pd
import pytest
from conftest import random_counts
from reproduce import joint
from reproduce.__main__ import RESULT_MODULES

import unmix as um

X = um.Counts(random_counts(30, 40, K=4, seed=1, mean=6.0))
START = joint.random_start(X, 3)


@pytest.mark.parametrize("name", RESULT_MODULES)
def test_every_result_can_be_made(name: str) -> None:
    assert callable(import_module(f"reproduce.{name}").main)


def test_sequential_updates_take_four_products_and_joint_ones_three() -> None:
    found = joint.counted_products(X, repetitions=1).set_index("algorithm")
    assert found["products"].to_dict() == {joint.SEQUENTIAL: 4, joint.JOINT: 3}
    assert found["multiplications"].to_dict() == {
        joint.SEQUENTIAL: 4 * 30 * 40 * joint.K,
        joint.JOINT: 3 * 30 * 40 * joint.K,
    }
    assert found["difference"].max() < 1e-9  # the listings are unmix's algorithms


def test_a_penalty_rescales_with_l1_topics_and_makes_sparse_with_l2_topics() -> None:
    found = joint.sparsity(X, START, (0.0, 1.0, 30.0), 300)
    l1, l2 = (found[found["norm"] == norm] for norm in ("l1", "l2"))
    assert (l1["absent"] == l1["absent"].iloc[0]).all()
    assert l1["difference after rescaling"].max() < 1e-8
    np.testing.assert_allclose(l1["L over that without penalty"], [1, 1 / 2, 1 / 31], rtol=1e-9)
    assert l2["absent"].iloc[-1] > l2["absent"].iloc[0]
    assert l2["difference after rescaling"].iloc[-1] > 1e-2


def test_joint_nmf_is_plsa() -> None:
    assert joint.joint_beside_plsa(X, START, 30) < 1e-12


def test_lda_and_gamma_poisson_agree_with_one_rate_only() -> None:
    found = joint.lda_beside_gamma_poisson(X, START, 20)
    assert len(found) == 20
    assert found[["γ, one rate", "topics, one rate"]].to_numpy().max() < 1e-10
    assert found["bound"].max() < 1e-8
    assert found["γ, unequal rates"].max() > 1e-3


def test_the_race_counts_iterations_and_time_to_the_lower_of_two_ends() -> None:
    def run(solver: str, step: float, loglik: list[float]) -> pd.DataFrame:
        seconds = step * np.arange(len(loglik))
        return pd.DataFrame({"iteration": range(len(loglik)), "seconds": seconds, "loglik": loglik, "solver": solver})

    runs = [
        run(joint.SEQUENTIAL, 0.4, [-9.0, -5.0, -4.0, -3.0]),
        run(joint.JOINT, 0.3, [-9.0, -7.0, -6.0, -5.0]),
        run(joint.DEFAULT, 1.0, [-9.0, -2.0, -2.0, -2.0]),
    ]
    found = joint.race(pd.concat(runs).assign(data="made up")).set_index("solver")
    assert found["target"].unique() == [-5.0]
    assert found["iterations to target"].to_dict() == {joint.SEQUENTIAL: 1, joint.JOINT: 3, joint.DEFAULT: 1}
    assert found["seconds to target"].to_dict() == pytest.approx(
        {joint.SEQUENTIAL: 0.4, joint.JOINT: 0.9, joint.DEFAULT: 1.0}
    )
    assert "0.75 of the time" in joint.duels(found.reset_index())[0]
    slower = joint.Findings(pd.DataFrame(), found.reset_index(), [], pd.DataFrame(), 0.0, pd.DataFrame())
    assert "2.25 on made up" in joint.doubts(slower)[0]


def test_curves_begin_together_and_never_fall() -> None:
    found = joint.by_turns(X, START, 10)
    first = found.loc[found["iteration"] == 0, "loglik"]
    np.testing.assert_allclose(first, first.iloc[0], rtol=1e-12)
    for solver in joint.SOLVERS:
        run = found[found["solver"] == solver]
        assert list(run["iteration"]) == list(range(11))
        assert run["seconds"].iloc[0] == 0
        assert (run["loglik"].diff().dropna() >= -1e-8).all()
