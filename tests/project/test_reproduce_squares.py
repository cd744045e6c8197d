"""Squared error beside the divergence: the measures on factors whose answer is known."""

from __future__ import annotations

import numpy as np
import pytest
from reproduce import squares
from reproduce.common import Job

import unmix as um

pytestmark = pytest.mark.reproduce


def test_the_distance_of_the_true_topics_in_another_order_and_scale_is_zero() -> None:
    truth = np.random.default_rng(0).dirichlet(np.ones(9), 3).T
    assert squares.distance(7 * truth[:, [2, 0, 1]], truth) == pytest.approx(0, abs=1e-7)
    assert squares.distance(np.zeros((9, 3)), truth) == 1


def test_held_out_words_are_predicted_best_by_their_own_rates() -> None:
    rng = np.random.default_rng(1)
    L, F = rng.gamma(1, 1, (20, 2)), rng.dirichlet(np.full(30, 0.2), 2).T
    train, test = um.Counts(rng.poisson(50 * L @ F.T) + 1), um.Counts(rng.poisson(50 * L @ F.T)).csr
    own = squares.held_out(test, L, F, train)
    assert own > squares.held_out(test, L[::-1], F, train)
    assert own == pytest.approx(squares.held_out(test, 3 * L, F, train))


@pytest.mark.parametrize("loss", squares.LOSSES)
def test_each_loss_is_lowest_where_it_is_minimised(loss: str) -> None:
    X = um.datasets.correlated_topics("A", seed=1)
    dense = X.csr.toarray()
    found = {other: squares.factors(X, 6, other, 0) for other in (squares.THEIRS, loss)}
    errors = {name: ((dense - L @ F.T) ** 2).sum() for name, (L, F) in found.items()}
    if "squared" in loss:
        assert errors[loss] < errors[squares.THEIRS]
    else:
        assert um.deviance(X, *found[loss]) <= um.deviance(X, *found[squares.THEIRS]) * (1 + 1e-3)


def test_a_section_is_made_and_made_again_from_its_tables(tmp_path, monkeypatch) -> None:
    monkeypatch.setattr(squares, "NUMBERS", (2,))
    monkeypatch.setattr(
        squares, "distances", lambda job, seed, run=squares.distances: run(job, seed) if seed < 2 else []
    )
    section = squares.main(Job("squares", folder=tmp_path))
    assert "in 2 of 2 draws" in section.text or "in 1 of 2 draws" in section.text or "in 0 of 2 draws" in section.text
    assert squares.main(Job("squares", folder=tmp_path, written=True)) == section
