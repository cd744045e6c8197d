"""Exact answers for tiny data: every way to label the counts of X with K topics, written down and summed.

Independent of the package: only NumPy and SciPy. With S_ijk the counts of cell (i, j) with label k, all else integrated out,

    p(S) = Π_i Gamma-Poisson(t_i; a, b) · t_i! · DirMult(S_i·; β) · Π_k DirMult(S_·k; α) / Π S_ijk!

as in the allocation model; given the sample totals, the same without the first factor is LDA with Dirichlet topics.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from functools import cached_property
from itertools import product

import numpy as np
from scipy.integrate import quad
from scipy.special import gammaln, logsumexp


def ways(x: int, K: int) -> Iterator[tuple[int, ...]]:
    """All (s_1, …, s_K) >= 0 with sum x."""
    if K == 1:
        yield (x,)
        return
    for first in range(x + 1):
        for rest in ways(x - first, K - 1):
            yield (first, *rest)


def tensors(X: np.ndarray, K: int) -> list[np.ndarray]:
    """All whole S (n × m × K) with Σ_k S_ijk = x_ij."""
    return [np.array(choice).reshape(*X.shape, K) for choice in product(*(list(ways(int(x), K)) for x in X.ravel()))]


def log_sizes(totals: np.ndarray, a: float, b: float) -> float:
    """Σ_i log p(t_i), t_i ~ Poisson(s_i), s_i ~ Gamma(a, rate b)."""
    t = np.asarray(totals, dtype=float)
    terms = gammaln(a + t) - gammaln(a) - gammaln(t + 1) + a * np.log(b / (b + 1)) - t * np.log1p(b)
    return float(terms.sum())


def log_urn(counts: np.ndarray, prior: np.ndarray) -> float:
    """log of the chance that Pólya's urn gives one sequence with these counts: Γ(Σp)/Γ(Σp + N) Π Γ(p + c)/Γ(p)."""
    total = gammaln(prior.sum()) - gammaln(prior.sum() + counts.sum())
    return float(total + (gammaln(prior + counts) - gammaln(prior)).sum())


def log_evidence_gamma_gamma(X: np.ndarray, K: int, a: float, b: float, c: float, d: float) -> float:
    """log p(X) for l_ik ~ Gamma(a, b), f_jk ~ Gamma(c, d), x_ij ~ Poisson(Σ_k l_ik f_jk).

    Given S, topics are independent. With u = Σ_j f_jk ~ Gamma(m c, d), f / u ~ Dirichlet(c), and l integrated out,

        p(S_··k) = Π_i [b^a Γ(a+S_ik)/Γ(a)] · Urn(S_jk; c) · ∫ Gamma(u; m c, d) u^S_k Π_i (b+u)^−(a+S_ik) du / Π S_ijk!
    """
    m = X.shape[1]

    def log_topic(S: np.ndarray) -> float:
        rows, columns = S.sum(axis=1), S.sum(axis=0)

        def integrand(log_u: float) -> float:
            u = np.exp(log_u)
            density = m * c * (np.log(d) + log_u) - gammaln(m * c) - d * u
            return float(np.exp(density + S.sum() * log_u - ((a + rows) * np.log(b + u)).sum()))

        integral = quad(integrand, -60, 12, points=[-6, -2, 0, 2, 5], limit=400, epsabs=0, epsrel=1e-10)[0]
        loadings = (a * np.log(b) + gammaln(a + rows) - gammaln(a)).sum()
        return float(loadings + log_urn(columns, np.full(m, c)) + np.log(integral) - gammaln(S + 1.0).sum())

    known: dict[bytes, float] = {}
    terms = []
    for S in tensors(X, K):
        parts = [S[:, :, k] for k in range(K)]
        for part in parts:
            if part.tobytes() not in known:
                known[part.tobytes()] = log_topic(part)
        terms.append(sum(known[part.tobytes()] for part in parts))
    return float(logsumexp(terms))


@dataclass(frozen=True)
class Oracle:
    """X: n × m whole counts; alpha: m, of topics; beta: K, of proportions; a, b: of sizes."""

    X: np.ndarray
    alpha: np.ndarray
    beta: np.ndarray
    a: float = 1.0
    b: float = 1.0

    @cached_property
    def tensors(self) -> list[np.ndarray]:
        return tensors(self.X, len(self.beta))

    def log_given_totals(self, S: np.ndarray) -> float:
        """log p(S | sample totals)."""
        labelings = gammaln(S.sum(axis=(1, 2)) + 1).sum() - gammaln(S + 1.0).sum()
        samples = sum(log_urn(S[i].sum(axis=0), self.beta) for i in range(len(S)))
        topics = sum(log_urn(S[:, :, k].sum(axis=0), self.alpha) for k in range(S.shape[2]))
        return float(labelings + samples + topics)

    def log_joint(self, S: np.ndarray) -> float:
        """log p(S) of the allocation model."""
        return log_sizes(S.sum(axis=(1, 2)), self.a, self.b) + self.log_given_totals(S)

    @cached_property
    def log_joints(self) -> np.ndarray:
        return np.array([self.log_joint(S) for S in self.tensors])

    @property
    def log_evidence(self) -> float:
        """log p(X) of the allocation model."""
        return float(logsumexp(self.log_joints))

    @property
    def log_evidence_lda(self) -> float:
        """log p(X | sample totals): LDA with proportions ~ Dirichlet(beta) and topics ~ Dirichlet(alpha)."""
        return self.log_evidence - log_sizes(self.X.sum(axis=1), self.a, self.b)

    @cached_property
    def posterior(self) -> np.ndarray:
        """p(S | X) of every tensor."""
        return np.exp(self.log_joints - self.log_evidence)

    def mean(self, function) -> np.ndarray:
        """E[function(S) | X]."""
        return sum(p * np.asarray(function(S)) for p, S in zip(self.posterior, self.tensors, strict=True))

    def topics_given(self, S: np.ndarray) -> np.ndarray:
        """E[f*_jk | S], m × K."""
        parameters = self.alpha[:, None] + S.sum(axis=0)
        return parameters / parameters.sum(axis=0)

    def proportions_given(self, S: np.ndarray) -> np.ndarray:
        """E[l*_ik | S], n × K."""
        parameters = self.beta + S.sum(axis=1)
        return parameters / parameters.sum(axis=1, keepdims=True)

    @property
    def topics(self) -> np.ndarray:
        return self.mean(self.topics_given)

    @property
    def proportions(self) -> np.ndarray:
        return self.mean(self.proportions_given)
