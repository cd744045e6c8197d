"""The exact enumerator is right: against numerical integration, and against the sum over labelings of single counts."""

from __future__ import annotations

from itertools import product
from math import comb

import numpy as np
import pytest
from oracle import Oracle, log_evidence_gamma_gamma, log_sizes, tensors
from scipy import stats
from scipy.integrate import quad
from scipy.special import gammaln, logsumexp, roots_jacobi
from scipy.stats import beta as beta_distribution
from scipy.stats import gamma as gamma_distribution
from scipy.stats import poisson

TINY = Oracle(
    np.array([[2, 0, 1], [1, 2, 0]]), alpha=np.array([0.5, 0.7, 1.1]), beta=np.array([1.2, 0.4]), a=2.3, b=0.8
)


def gauss_beta(p: float, q: float) -> tuple[np.ndarray, np.ndarray]:
    """Nodes and weights that integrate polynomials exactly over Beta(p, q); quad says the same of one of them."""
    nodes, weights = roots_jacobi(12, q - 1, p - 1)
    nodes, weights = (nodes + 1) / 2, weights / weights.sum()
    want = quad(lambda x: x**3 * (1 - x) * beta_distribution.pdf(x, p, q), 0, 1)[0]
    assert weights @ (nodes**3 * (1 - nodes)) == pytest.approx(want, rel=1e-7)
    return nodes, weights


def polya(labels: tuple[int, ...], tokens: list[tuple[int, int]], oracle: Oracle) -> float:
    """log of the chance of one labeling, token after token."""
    n, K = len(oracle.X), len(oracle.beta)
    by_sample, by_feature = np.zeros((n, K)), np.zeros((len(oracle.alpha), K))
    total = 0.0
    for (i, j), k in zip(tokens, labels, strict=True):
        total += np.log((oracle.beta[k] + by_sample[i, k]) / (oracle.beta.sum() + by_sample[i].sum()))
        total += np.log((oracle.alpha[j] + by_feature[j, k]) / (oracle.alpha.sum() + by_feature[:, k].sum()))
        by_sample[i, k] += 1
        by_feature[j, k] += 1
    return total


@pytest.mark.parametrize(("X", "K"), [([[3]], 2), ([[2, 1], [0, 4]], 3)])
def test_every_tensor_comes_once(X: list[list[int]], K: int) -> None:
    counts = np.array(X)
    all_of_them = tensors(counts, K)
    assert len(all_of_them) == np.prod([comb(x + K - 1, K - 1) for x in counts.ravel()])
    assert len({S.tobytes() for S in all_of_them}) == len(all_of_them)
    assert all((S.sum(axis=2) == counts).all() for S in all_of_them)


def test_evidence_is_the_sum_over_labelings() -> None:
    X = TINY.X
    tokens = [(i, j) for i, j in product(range(2), range(3)) for _ in range(X[i, j])]
    labelings = logsumexp([polya(z, tokens, TINY) for z in product(range(2), repeat=len(tokens))])
    coefficient = gammaln(X.sum(axis=1) + 1).sum() - gammaln(X + 1).sum()
    assert TINY.log_evidence_lda == pytest.approx(coefficient + labelings, abs=1e-12)
    assert TINY.log_evidence == pytest.approx(TINY.log_evidence_lda + log_sizes(X.sum(axis=1), 2.3, 0.8), abs=1e-12)


def test_sizes_are_an_integral_over_a_gamma() -> None:
    for t in (0, 1, 5):
        want = quad(lambda s, t=t: poisson.pmf(t, s) * gamma_distribution.pdf(s, 2.3, scale=1 / 0.8), 0, 80)[0]
        assert log_sizes(np.array([t]), 2.3, 0.8) == pytest.approx(np.log(want), abs=1e-7)


def test_one_cell_is_its_size_alone() -> None:
    """With one feature topics do not matter."""
    oracle = Oracle(np.array([[4]]), np.array([0.3]), np.array([1.5, 0.2]), a=1.7, b=0.6)
    assert oracle.log_evidence == pytest.approx(log_sizes(np.array([4]), 1.7, 0.6), abs=1e-12)


def test_one_sample_of_two_features_is_an_integral() -> None:
    """p(x | t) = ∫∫∫ Binomial(x_1; t, l w_1 + (1 − l) w_2), with w_1, w_2 ~ Beta(α) and l ~ Beta(β)."""
    x, alpha, beta = np.array([[3, 1]]), np.array([1.4, 2.2]), np.array([1.3, 1.7])
    oracle = Oracle(x, alpha, beta, a=2.3, b=0.8)
    topic, topic_weight = gauss_beta(*alpha)
    share, share_weight = gauss_beta(*beta)
    part, w1, w2 = np.meshgrid(share, topic, topic, indexing="ij")
    weight = share_weight[:, None, None] * topic_weight[:, None] * topic_weight
    chance = part * w1 + (1 - part) * w2
    want = (weight * comb(4, 3) * chance**3 * (1 - chance)).sum()
    assert oracle.log_evidence_lda == pytest.approx(np.log(want), abs=1e-12)


def test_posterior_means_are_distributions_and_add_up_to_the_data() -> None:
    np.testing.assert_allclose(TINY.posterior.sum(), 1, rtol=1e-12)
    np.testing.assert_allclose(TINY.topics.sum(axis=0), 1, rtol=1e-12)
    np.testing.assert_allclose(TINY.proportions.sum(axis=1), 1, rtol=1e-12)
    np.testing.assert_allclose(TINY.mean(lambda S: S.sum(axis=2)), TINY.X, rtol=1e-12)


def test_posterior_mean_is_the_ratio_of_two_evidences() -> None:
    """p(next count of sample 0 falls on feature j | X) = E Σ_k l*_0k f*_jk: the evidence with it over the one without."""
    chance = TINY.mean(lambda S: TINY.proportions_given(S)[0] @ TINY.topics_given(S).T)
    for j in range(3):
        more = TINY.X.copy()
        more[0, j] += 1
        after = Oracle(more, TINY.alpha, TINY.beta, TINY.a, TINY.b)
        # the new count may be any of the x_0j + 1 of that cell, or any of the t_0 + 1 of the sample
        change = after.log_evidence_lda - TINY.log_evidence_lda + np.log(more[0, j] / more[0].sum())
        assert np.exp(change) == pytest.approx(chance[j], rel=1e-10)


def test_the_gamma_gamma_evidence_is_the_double_integral() -> None:
    a, b, c, d, x = 0.7, 0.9, 1.3, 2.2, 3

    def density(log_f: np.ndarray, log_l: np.ndarray) -> np.ndarray:
        prior = stats.gamma.logpdf(np.exp(log_l), a, scale=1 / b) + stats.gamma.logpdf(np.exp(log_f), c, scale=1 / d)
        return np.exp(prior + stats.poisson.logpmf(x, np.exp(log_f + log_l)) + log_l + log_f)

    grid = np.linspace(-25, 6, 800)
    total = density(*np.meshgrid(grid, grid)).sum() * (grid[1] - grid[0]) ** 2
    assert log_evidence_gamma_gamma(np.array([[x]]), 1, a, b, c, d) == pytest.approx(np.log(total), abs=1e-6)


def test_the_gamma_gamma_evidence_agrees_with_draws_from_the_prior() -> None:
    X, hyper, rng = np.array([[2, 0], [1, 3]]), (1.4, 0.9, 1.6, 2.2), np.random.default_rng(0)
    a, b, c, d = hyper
    loadings, factors = rng.gamma(a, 1 / b, (300_000, 2, 2)), rng.gamma(c, 1 / d, (300_000, 2, 2))
    likelihood = np.exp(stats.poisson.logpmf(X, np.einsum("sik,sjk->sij", loadings, factors)).sum(axis=(1, 2)))
    error = likelihood.std() / np.sqrt(len(likelihood))
    assert abs(np.exp(log_evidence_gamma_gamma(X, 2, *hyper)) - likelihood.mean()) < 4 * error
