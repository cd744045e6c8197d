"""Latent Dirichlet allocation, in the Dirichlet–Poisson form of Geiger and Park.

    l*_i ~ Dirichlet(α),   f*_k ~ Dirichlet(η) or estimated,   x_i | t_i ~ Multinomial(t_i, Σ_k l*_ik f*_k)

Given the totals t_i this is x_ij ~ Poisson(Σ_k l*_ik f*_jk) up to the constant Σ_i log t_i! + n.
"""

from __future__ import annotations

from unmix.models.beliefs import DirichletColumns, DirichletRows, PointTopics
from unmix.models.variational import Variational
from unmix.types import Floats


def lda(alpha: Floats, eta: Floats | None) -> Variational:
    return Variational(DirichletRows(alpha), PointTopics() if eta is None else DirichletColumns(eta))
