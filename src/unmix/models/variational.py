"""Variational inference for data of any size: a model is a prior on L and one on F; its bound, its beliefs, its result."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace
from functools import cached_property
from typing import cast

import numpy as np
from scipy.special import gammaln

from unmix.base.memory import closed
from unmix.base.types import Factor, Floats, Record
from unmix.counts.data import Arrays, Data, Engine, Part, Visit, Visited, gathered, joined, with_rows
from unmix.counts.formulas import standardised
from unmix.counts.sides import FeatureSums, Sides, column_sums
from unmix.models.beliefs import (
    Belief,
    DirichletColumns,
    DirichletRows,
    Gammas,
    HierarchicalGammas,
    KnownColumns,
    PointTopics,
    Prior,
)
from unmix.models.covariates import CovariateGammas
from unmix.models.known import Known
from unmix.models.poisson import poisson_to_topics
from unmix.models.problem import TINY, Estimate, Iterate, Multiplied, bound_scales, scaled_counts, shared_scales
from unmix.models.rates import Rates, group_sums


@dataclass(frozen=True, eq=False)
class Variational:
    """A prior on L and one on F."""

    left: Prior
    right: Prior

    @property
    def n_topics(self) -> int:
        return len(self.left.shape_and_rates(np.zeros(1))[0])

    @property
    def totals_given(self) -> bool:
        """Whether the bound is one of log p(X | sample totals), as in LDA, and not of log p(X)."""
        return self.left.proportions

    def terms(self, totals: Floats, left: Belief, xlog: float) -> Floats:
        """What samples with these totals add to the bound, by its summands. `xlog` is Σ x log Σ_k l̃_ik f̃_jk for l̃, f̃
        divided by exp(shift)."""
        given = gammaln(totals + 1).sum() + len(totals) if self.totals_given else 0.0
        return np.array([xlog, totals @ left.shifts, left.bound, given])

    def elbo(self, X: Data, right: Belief, terms: Floats, sums: Floats, rates: Rates | None = None) -> float:
        """With all constants, from `terms` and the sums of E l over all samples, by group where rates have multipliers. Effects
        of batches are integrated out: of their beliefs, the best ones."""
        xlog, shifted, bound, given = terms
        expected = sums @ right.sums if rates is None else rates.first_term(sums, self.right.mean(right))
        value = xlog + shifted + X.feature_totals @ right.shifts - X.log_factorials - expected
        return float(value + bound + right.bound + given - self.left.penalty)

    def at_start(self, X: Data, F: Factor) -> Variational:
        """With what the prior of loadings is to begin with."""
        return replace(self, left=self.left.at_start(X.sample, F)) if self.left.fits else self

    def of_samples(self, arrays: Arrays) -> Variational:
        """With the prior of the samples that have these rows."""
        return replace(self, left=self.left.at(arrays)) if arrays else self

    def learned(self, n: int, statistics: Floats) -> Variational:
        """With the prior of loadings learned."""
        return replace(self, left=self.left.learned(n, statistics))

    @property
    def elsewhere(self) -> Variational:
        """Without what belongs to samples."""
        return self.of_samples({name: array[:0] for name, array in self.left.of_samples.items()})

    def start(self, sides: Sides, X: Data, L: Factor, F: Factor, rates: Rates | None = None) -> tuple[Belief, Belief]:
        """q(L) and q(F) to begin with at maximum-likelihood factors."""
        on_L, on_F = self.left.scale_terms(), self.right.scale_terms()
        if on_L is not None and on_F is not None:
            Z, u, Y, v = scaled_counts(sides, L, F, *on_L, *on_F, rates)
            return self.left.update(Z, u), self.right.update(Y, v)
        if rates is not None:
            right = self.right.start(F.astype(np.float64, copy=False), column_sums(L), np.ones(F.shape[1]))
            topics = self.right.mean(right)
            L = L * (column_sums(F) / column_sums(topics))
            cost = rates.for_loadings(topics, L)[0][rates.groups]
            shares = L * cost / np.maximum((L * cost).sum(axis=1, keepdims=True), TINY)
            return self.left.update(shares * X.sample_totals[:, None], cost), right
        proportions, topics, _, _ = poisson_to_topics(L, F)
        totals = X.sample_totals[:, None]
        right = self.right.start(topics, column_sums(totals * proportions), np.ones(topics.shape[1]))
        return self.left.start(proportions, totals, right.sums), right

    def rescaled(
        self, left: Belief, right: Belief, n: float, sums: Floats, share: float = 1.0
    ) -> tuple[Belief, Belief, Floats]:
        """Where both sides have a scale: q with the best one of each topic, for n samples with these `scale_sums`; and by what
        the loadings were divided. Where there are no `exact_scales`, the bound may fall; they go this `share` of the way."""
        on_L, on_F = self.left.scale_terms(), self.right.scale_terms()
        if on_L is None or on_F is None:
            return left, right, np.ones(len(sums))
        m, of_right = len(right.parameters), self.right.scale_sums(right)
        if self.exact_scales:
            z = bound_scales(on_L, on_F, n, m, sums, of_right)
        else:
            (V, bend_V), (U, bend_U) = _pulls(self.left, sums), _pulls(self.right, of_right)
            z = shared_scales(on_L.shape, on_F.shape, n, m, (V, U), bend_V + bend_U) ** share
        left = self.left.belief(left.parameters, left.rates * z)
        return left, self.right.belief(right.parameters, right.rates / z), z

    def scaled_right(self, right: Belief, scales: Floats) -> Belief:
        """q(F) of factors times these."""
        if self.right.own_scale:
            return self.right.belief(right.parameters, right.rates / scales)
        return self.right.belief(right.parameters * scales)

    @property
    def exact_scales(self) -> bool:
        """Whether rescaling a topic is an exact block of coordinate ascent."""
        return not (self.left.rates_of_rows or self.right.rates_of_rows)

    def factors(self, X: Data, left: Belief, right: Belief) -> tuple[Floats, Floats]:
        """Posterior means on the Poisson scale."""
        return self.loadings(left, X.sample_totals), self.right.mean(right)

    def loadings(self, left: Belief, totals: Floats) -> Floats:
        """Posterior means of samples with these totals, on the Poisson scale."""
        L = self.left.mean(left)
        return L * totals[:, None] if self.totals_given else L

    @property
    def kinds(self) -> dict[str, str]:
        """The names of the priors' classes; with `arrays`, all that `restore` needs."""
        return {"L": type(self.left).__name__, "F": type(self.right).__name__}

    def arrays(self, left: Belief, right: Belief) -> dict[str, Floats]:
        """Model and beliefs as arrays, under names that begin with L and F."""
        named = {"L": self.left.arrays(left), "F": self.right.arrays(right)}
        return {name + key: array for name, arrays in named.items() for key, array in arrays.items()}


def _pulls(prior: Prior, sums: Floats) -> tuple[Floats, float]:
    """Of `scale_sums`: how the prior pulls at the scale of each topic, and how that changes along a scale that all share."""
    if prior.rates_of_rows:
        return sums[:-1], float(sums[-1])
    terms = prior.scale_terms()
    assert terms is not None
    return terms.rate * sums, float(terms.rate @ sums)


def restore(kinds: Mapping[str, str], arrays: Mapping[str, Floats]) -> tuple[Variational, Belief, Belief]:
    """The model, q(L) and q(F) that `kinds` and `arrays` of a `Variational` were taken from."""
    (left, q_left), (right, q_right) = (
        Prior.kinds[kinds[side]].restore(
            {name[1:]: array for name, array in arrays.items() if name[:1] == side and name[1:2] in ("", "_")}
        )
        for side in ("L", "F")
    )
    return Variational(left, right), q_left, q_right


@dataclass(frozen=True, kw_only=True, eq=False)
class Beliefs(Iterate):
    """q(L) and q(F), and the numerators at them that came with the bound (none after inner iterations)."""

    model: Variational
    left: Belief
    right: Belief
    A: Floats | None = None
    B: Floats | None = None
    strength: float = 0.0  # of the prior of effects of batches; 0 for that of the task
    corrected: bool = False

    @property
    def before(self) -> Arrays:
        """Where visits find the parameters of q(L), and their rates where those differ."""
        return {"L": self.left.parameters} | ({"rates": self.left.rates} if self.left.rates.ndim == 2 else {})

    def save(self) -> Record:
        effects = {"strength": self.strength, "corrected": self.corrected} if self.strength else {}
        return {"loss": self.loss} | effects | self.model.arrays(self.left, self.right)


@dataclass(frozen=True, eq=False)
class StreamedBelief:
    """q(F), q(L) without its rows, and the number of the pass that left them, under this model."""

    model: Variational
    left: Belief
    right: Belief
    number: int

    @property
    def before(self) -> int:
        """Where visits find the parameters of q(L)."""
        return self.number

    def beyond(self, last: StreamedBelief, beta: float) -> StreamedBelief:
        """Moved on along the change since the last one."""
        model = replace(self.model, left=self.model.left.ahead(last.model.left, beta))
        return replace(self, model=model, right=model.right.beyond(self.right, last.right, beta))

    def save(self) -> Record:
        return {"number": self.number} | self.model.arrays(self.left, self.right)


def rowless(rates: Floats) -> Belief:
    """q(L) of no samples, with these rates, or rates of groups: what is in one place where the rows are not."""
    return started(np.empty((0, rates.shape[-1])), rates)


def started(parameters: Factor, rates: Floats) -> Belief:
    """A belief to continue from: its parameters and rates, and nothing else."""
    none = np.empty(0)
    return Belief(parameters.astype(np.float64, copy=False), rates, none, none, none, np.nan)


@dataclass(frozen=True, eq=False)
class Inference(Multiplied):
    """Find the posterior of a variational model of these counts: the task that `CAVI` and its relatives solve.

    Parameters
    ----------
    X : Counts or Shards
        The data.
    model : Variational
        A prior on L and one on F.
    batch_prior : float, default=None
        Strength of the prior of effects of batches, if the data have such; None to learn it.
    rates : Rates, default=None
        Multipliers of rates; by default those of the data.
    known : Known, default=None
        What is known of topics, which the model's prior on F says.

    See Also
    --------
    solvers.CAVI, LDA

    Examples
    --------
    >>> import numpy as np, unmix as um
    >>> from unmix.models.beliefs import DirichletColumns, DirichletRows
    >>> from unmix.models.variational import Variational
    >>> X, rng = um.Counts([[9, 1, 0], [8, 2, 1], [0, 1, 7], [1, 0, 8]]), np.random.default_rng(0)
    >>> task = um.solvers.Inference(X, Variational(DirichletRows(np.full(2, 0.5)), DirichletColumns(np.full(3, 0.1))))
    >>> solver = um.solvers.CAVI()
    >>> first = solver.start(task, rng.random((4, 2)), rng.random((3, 2)))
    >>> _, status = um.solvers.run(task, solver, first, max_iter=5, tol=0)
    >>> status
    'max_iter'
    """

    X: Data
    model: Variational
    batch_prior: float | None = None
    rates: Rates | None = None
    known: Known | None = None

    @cached_property
    def sides(self) -> Sides:
        return self.X.sides()

    @property
    def needs(self) -> list[str]:
        """What a solver must support, in the words of `solvers.base.NEEDS`."""
        return self.needs_of_rates

    @cached_property
    def engine(self) -> Engine:
        """What visits the parts of the data."""
        return self.X.engine(self.model.n_topics)

    def loss(self, model: Variational, left: Belief, right: Belief, xlog: float | None = None) -> float:
        """`xlog` is Σ x log Σ_k l̃ f̃ where the caller has it already."""
        if xlog is None:
            xlog = float(self.sides.left.xlogs(left.geometric, right.geometric).sum())
        sums = left.sums if self.rates is None else self.rates.sums(model.left.mean(left))
        return -model.elbo(self.X, right, model.terms(self.X.sample_totals, left, xlog), sums, self.rates)

    def cost_of_loadings(self, left: Belief | None, right: Belief) -> Floats | None:
        """What a unit of each topic costs in every sample, with the best beliefs of effects here, or, without loadings, effects
        of one; None where rates have no multipliers."""
        if self.rates is None:
            return None
        U = self.rates.sums(self.model.left.mean(left)) if self.rates.estimated and left is not None else None
        return self.rates.costs_of_loadings(U, self.model.right.mean(right))[self.rates.groups]

    def cost_of_factors(self, left: Belief, right: Belief) -> Floats:
        """What a unit of each topic costs, in every feature where rates have multipliers."""
        if self.rates is None:
            return left.sums
        return self.rates.costs_of_factors(self.rates.sums(self.model.left.mean(left)), self.model.right.mean(right))

    def scales(self, U: Floats, right: Belief) -> tuple[Floats, Floats] | None:
        """Where effects are estimated: by what rows of F (m × K, or m × 1) and sums and means of L in each group (groups × K)
        are best multiplied, which priors alone decide; as `Problem.settled` has it. Topics that are estimated keep their
        condition, and loadings their rates."""
        rates = self.rates
        if rates is None or not rates.estimated:
            return None
        prior, on_F = self.model.left.scale_terms(), self.model.right.scale_terms()
        assert prior is not None
        F, owners = self.model.right.mean(right), rates.given.owners
        samples, batches = np.bincount(rates.groups, minlength=len(U)), len(rates.totals)  # type: ignore[arg-type]
        of_L = (samples * prior.shape.sum(), U @ prior.rate)
        shapes, costs = (np.bincount(owners, values, batches).astype(np.float64) for values in of_L)  # type: ignore[arg-type]
        if on_F is None:  # the scale of topics, which follows, is for the prior of loadings to like
            pull = samples.sum() * prior.shape - prior.rate * U.sum(axis=0)
            of_one = self.model.right.conditioned(F)
            of_F = np.zeros(len(F)), -of_one @ pull, of_one @ (prior.rate * U.sum(axis=0))
        else:
            of_F = np.full(len(F), on_F.shape.sum()), F @ on_F.rate, F @ on_F.rate
        c, a = rates.scales_under(U, F, of_F, (shapes, costs, costs))
        if on_F is not None:
            return c[:, None], np.repeat(a[:, None], F.shape[1], axis=1)
        z = column_sums(self.model.right.conditioned(F * c[:, None])) / column_sums(self.model.right.conditioned(F))
        return c[:, None] / z, a[:, None] * z

    def metrics(self, state: Iterate) -> dict[str, float]:
        found = {"loglik": np.nan, "objective": -state.loss, "elbo": -state.loss}
        rates = self.at(state).rates
        return found | ({"batch_prior": rates.strength} if rates is not None and rates.estimated else {})

    def kkt(self, state: Iterate) -> float:
        return np.nan

    def factors(self, state: Beliefs | StreamedBeliefs) -> Factor:
        at = _best(state)
        return at.model.right.mean(at.right)

    def sums(self, state: Beliefs | StreamedBeliefs) -> Floats:
        """Sums of the means of the loadings, by group."""
        at, rates = _best(state), self.rates
        assert rates is not None
        parameters = gathered(self.engine, self.X, at.before, at.model.n_topics)
        return rates.sums(parameters / _of_samples(at, rates))

    def result(self, state: Beliefs | StreamedBeliefs) -> Estimate:
        at, rates = _best(state), self.at(state).rates
        model, F, after = at.model, at.model.right.mean(at.right), 1 + max(state.numbers, default=0)
        shared, before = cast(Arrays, {"F": F, "rates": at.left.rates}), at.before
        if rates is not None:
            shared["groups"] = np.arange(len(rates.given.labels))
            before = before | {"groups": rates.groups} if isinstance(before, dict) else before
        sums = self.engine.over(self.X, Means(model), shared, before=before, after=after)
        expected = float(sums["v"] @ column_sums(F)) if rates is None else rates.expected_total(sums["v"], F)
        loglik = float(sums["xlog"][0]) - self.X.log_factorials - expected
        L, parameters = (closed(gathered(self.engine, self.X, where, F.shape[1])) for where in (after, at.before))
        self.engine.keep_only(set(state.numbers))
        own = at.left.rates if rates is None else _of_samples(at, rates)
        if isinstance(at, StreamedBelief):
            own = model.of_samples(self.model.left.of_samples).left.expanded(own)
        left = started(parameters, own)
        multipliers = {} if rates is None else rates.arrays(sums["v"], F)
        told = self.model.left.told
        return Estimate(L, F, loglik, model.arrays(left, at.right), model.kinds, multipliers=multipliers, told=told)


@dataclass(frozen=True, kw_only=True, eq=False)
class StreamedBeliefs(Iterate):
    """The best beliefs so far."""

    best: StreamedBelief
    strength: float = 0.0
    corrected: bool = False


def _best(state: Beliefs | StreamedBeliefs) -> Beliefs | StreamedBelief:
    return state.best if isinstance(state, StreamedBeliefs) else state


def _of_samples(at: Beliefs | StreamedBelief, rates: Rates) -> Floats:
    """Rates of beliefs of all samples: of groups where data are visited in parts."""
    return at.left.rates[rates.groups] if isinstance(at, StreamedBelief) else at.left.rates


@dataclass(frozen=True, eq=False)
class Infer(Visit):
    """q(L) of the samples, from what the last visit left or from counts spread evenly; and what the bound, q(F) and a prior
    that is learned need of it."""

    model: Variational
    steps: int
    tolerance: float
    learns_prior: bool = False
    first: bool = False

    def __call__(self, tiles: Iterable[Part], shared: Arrays, before: Arrays) -> Visited:
        prior, right = self.model.left, self.model.right.belief(shared["F"], shared["F_rate"])
        m, K = right.parameters.shape
        costs, terms, parameters = shared.get("costs"), np.zeros(4), []
        v = np.zeros(K if costs is None else costs.shape)
        statistics: Floats | float = 0.0
        scale = np.zeros(0 if self.model.exact_scales else K + prior.rates_of_rows)
        sums = (
            FeatureSums.zeros(m, K)
            if self.model.right.regressed
            else FeatureSums(np.zeros((m, K)), np.zeros((0, 0), np.float32))
        )
        for tile, rows in with_rows(tiles, before):
            sides, totals, groups = Sides(tile), tile.sample_totals, rows.get("groups")
            prior = self.model.left.at(rows)
            start = None if self.first else started(rows["L"], _of_rows(prior, shared, rows))
            cost = None if costs is None else costs[groups]
            left = prior.infer(sides.left, right, start, totals, steps=self.steps, tolerance=self.tolerance, cost=cost)
            if self.model.right.regressed:
                sides.right.add_sums(left.geometric, right.geometric, sums)
                xlog = float(sides.left.xlogs(left.geometric, right.geometric).sum())
            else:
                B, xlog = sides.right.numerators(right.geometric, left.geometric)
                sums.numerators[:] += B
            terms += self.model.terms(totals, left, xlog)
            if self.learns_prior:
                statistics = statistics + prior.statistics(left)
            if not self.model.exact_scales:
                scale += prior.scale_sums(left)
            v += left.sums if costs is None else group_sums(prior.mean(left), groups, len(v))
            parameters.append(left.parameters)
        added: Arrays = {"B": sums.numerators, "H": sums.curvature, "v": v, "terms": terms, "scale": scale}
        added["statistics"] = np.asarray(statistics) if self.learns_prior else np.zeros(0)
        kept = {name: before[name] for name in ("groups", "rows") if name in before}
        return Visited({"L": joined(parameters)} | kept, added)


def _of_rows(prior: Prior, shared: Arrays, rows: Arrays) -> Floats:
    """Rates of the beliefs of these samples: one per entry, those of groups, or what all share."""
    if "rates" in rows:
        return rows["rates"]
    return shared["rates"][rows["groups"]] if "groups" in rows else prior.at(rows).expanded(shared["rates"])


@dataclass(frozen=True, eq=False)
class Means(Visit):
    """Posterior means of the loadings, on the Poisson scale."""

    model: Variational

    def __call__(self, tiles: Iterable[Part], shared: Arrays, before: Arrays) -> Visited:
        F, means, xlog, groups = shared["F"], [], 0.0, shared.get("groups")
        v = np.zeros(F.shape[1] if groups is None else (len(groups), F.shape[1]))
        for tile, rows in with_rows(tiles, before):
            L = self.model.loadings(started(rows["L"], _of_rows(self.model.left, shared, rows)), tile.sample_totals)
            xlog += float(Sides(tile).left.xlogs(L, F).sum())
            v += group_sums(L, rows.get("groups"), len(v))
            means.append(L)
        return Visited({"L": joined(means)}, {"xlog": np.array([xlog]), "v": v})


# Latent Dirichlet allocation, in the Dirichlet–Poisson form of Geiger and Park.
#
#     l*_i ~ Dirichlet(α),   f*_k ~ Dirichlet(η) or estimated,   x_i | t_i ~ Multinomial(t_i, Σ_k l*_ik f*_k)
#
# Given the totals t_i this is x_ij ~ Poisson(Σ_k l*_ik f*_jk) up to the constant Σ_i log t_i! + n.


def lda(alpha: Floats, eta: Floats | None, known: Known | None = None) -> Variational:
    return Variational(DirichletRows(alpha), topics_prior(len(alpha), eta, known))


def topics_prior(n_topics: int, eta: Floats | None, known: Known | None) -> Prior:
    """Of topics that are estimated, or, with a Dirichlet(η) prior, believed; with what is known of them."""
    if known is None:
        return PointTopics() if eta is None else DirichletColumns(eta)
    held = np.append(known.held, np.zeros(n_topics - len(known), dtype=bool))
    extra = np.zeros((len(known.columns), n_topics))
    extra[:, : len(known)] = known.extra
    extra = extra[:, ~held]
    if eta is None:
        inner: Prior = PointTopics(extra if extra.any() else None)
    else:
        inner = DirichletColumns(eta[:, None] + extra if extra.any() else eta)
    if not held.any():
        return inner
    columns = np.zeros((len(known.columns), n_topics))
    columns[:, : len(known)] = np.where(known.held, known.columns, 0.0)
    return KnownColumns(columns, held, inner)


# Gamma–Poisson (Geiger and Park, algorithm 7; Canny's GaP):  l_ik ~ Gamma(shape_k, rate_k),  columns of F sum to one
# (estimated, or believed with a Dirichlet(η) prior).
#
# With equal rates it is LDA with α = shape and a negative binomial for the sample totals (their lemmas E.1 and E.3).


def gamma_poisson(shape: Floats, rate: Floats, eta: Floats | None = None, known: Known | None = None) -> Variational:
    return Variational(Gammas(shape, rate), topics_prior(len(shape), eta, known))


def gamma_poisson_given(
    formula: str, X: Data, n_topics: int, shape: Floats | None, eta: Floats | None, known: Known | None
) -> Variational:
    """The same with a prior mean of l_ik that follows from covariates of samples; shapes from moments where none are given."""
    told, columns = standardised(formula, X.metadata, X.shape[0], "prevalence")
    prior = CovariateGammas.of(
        np.ones(n_topics) if shape is None else shape, columns, X.sample_totals, told, by_moments=shape is None
    )
    return Variational(prior, topics_prior(n_topics, eta, known))


def log_total(totals: Floats, shape: Floats, rate: float) -> Floats:
    """log p(t_i): the negative binomial by which Gamma–Poisson with equal rates differs from LDA (lemma E.1)."""
    A = np.sum(shape)
    return gammaln(A + totals) - gammaln(A) - gammaln(totals + 1) + A * np.log(rate) - (A + totals) * np.log1p(rate)


# Bayesian Poisson factorisation (Paisley's notes):  l_ik ~ Gamma(a, b),  f_jk ~ Gamma(c, d), shapes and rates.


def gamma_gamma(n_topics: int, a: float, b: float, c: float, d: float) -> Variational:
    ones = np.ones(n_topics)
    return Variational(Gammas(a * ones, b * ones), Gammas(c * ones, d * ones))


# Hierarchical Poisson factorisation:  l_ik ~ Gamma(a, ξ_i),  f_jk ~ Gamma(c, η_j),  ξ_i ~ Gamma(s, s/b),  η_j ~ Gamma(s, s/d).


def hierarchical(n_topics: int, a: float, b: float, c: float, d: float, rate_shape: float) -> Variational:
    ones = np.ones(n_topics)
    return Variational(*(HierarchicalGammas(x * ones, y * ones, rate_shape * ones) for x, y in ((a, b), (c, d))))
