"""The mutants: a claim, the file, the text that states it, the text that breaks it, and the tests that must then fail.

The text must occur exactly once in its file (tests/project/test_mutants.py); whoever moves it moves the mutant along.
"""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent


@dataclass(frozen=True)
class Mutant:
    """`tests` are arguments of pytest."""

    claim: str
    file: str  # within src/unmix, or reproduce
    old: str
    new: str
    tests: tuple[str, ...]

    @property
    def path(self) -> Path:
        return ROOT / self.file if self.file.startswith("reproduce/") else ROOT / "src" / "unmix" / self.file

    @property
    def module(self) -> str:
        dotted = self.file.removesuffix(".py").replace("/", ".")
        return dotted if dotted.startswith("reproduce.") else f"unmix.{dotted}"

    def applied(self) -> str:
        """The source with the mutant in it."""
        source = self.path.read_text(encoding="utf-8")
        if source.count(self.old) != 1:
            raise ValueError(f"{self.file} has {source.count(self.old)} times {self.old!r}; it must have it once")
        return source.replace(self.old, self.new)


def only(file: str, *words: str) -> tuple[str, ...]:
    """The tests of a file whose names have all of these words."""
    return (f"tests/{file}", "-k", " and ".join(words)) if words else (f"tests/{file}",)


THEOREMS, MODELS, VARIATIONAL = "solvers/test_theorems.py", "models/test_models.py", "models/test_variational.py"
SPARSE, ALLOCATION, MAP = "models/test_sparse.py", "estimators/test_allocation.py", "models/test_map.py"
LISTINGS = "solvers/test_listings.py"
SOLVERS, ONLINE, ACCELERATE = (
    "solvers/test_solvers.py",
    "solvers/test_online.py",
    "project/test_reproduce_accelerate.py",
)

MUTANTS = [
    # The map between Poisson NMF and the topic model, likelihoods, KKT residuals
    Mutant(
        "the misfit of Poisson counts is 0 on average",
        "models/poisson.py",
        "** 2 - y / totals[i])",
        "** 2)",
        only("analysis/test_application.py", "zero_on_average"),
    ),
    Mutant(
        "a topic costs more the rarer it is",
        "models/assignment.py",
        "np.log1p(-prevalence) - np.log(prevalence)",
        "np.log(prevalence) - np.log1p(-prevalence)",
        only("analysis/test_assign.py", "few_topics"),
    ),
    Mutant(
        "a cohort makes a topic credible, never free",
        "models/assignment.py",
        "+ expected / F.shape[1]) / (counted + 1)[:, None], LEAST, MOST)",
        "+ expected / F.shape[1]) / (counted + 1)[:, None], LEAST, 1 - LEAST)",
        only("analysis/test_assign.py", "few_topics"),
    ),
    Mutant(
        "samples of a fit are compared as if they were new to it",
        "models/poisson.py",
        "own = np.maximum(own * weights - taken, 0) / there[i]",
        "own = own + 0 * there[i] * taken",
        only("analysis/test_application.py", "as_if_they_were_new"),
    ),
    Mutant(
        "Carbonetto et al., definition 1: weights of topics have their scales",
        "models/poisson.py",
        "    weights = L * scales\n",
        "    weights = L + 0 * scales\n",
        only(THEOREMS, "carbonetto_definition_1"),
    ),
    Mutant(
        "definition 1, back: loadings are divided by the scales",
        "models/poisson.py",
        "[:, None] * Lstar / u, 0.0)",
        "[:, None] * Lstar, 0.0)",
        only(THEOREMS, "carbonetto_definition_1"),
    ),
    Mutant(
        "lemma 1: the multinomial has t_i!",
        "models/poisson.py",
        "gammaln(X.sample_totals + 1) if multinomial",
        "gammaln(X.sample_totals) if multinomial",
        only(THEOREMS, "carbonetto_lemma_1"),
    ),
    Mutant(
        "the deviance is twice the divergence",
        "models/poisson.py",
        "- xlog - X.total + expected_total(L, F))",
        "- xlog + X.total - expected_total(L, F))",
        only(MODELS, "deviance"),
    ),
    Mutant(
        "KKT residuals of both factors",
        "models/poisson.py",
        "        return max(left, residual(F, column_sums(L) - sides.right.numerators(F, L)[0]))",
        "        return left",
        only(MODELS, "residuals_are"),
    ),
    # Priors and scales
    Mutant(
        "corollary 2: the slope of a Gamma prior",
        "models/priors.py",
        "            return rate - np.where(extra > 0, extra / F, 0.0)",
        "            return rate + np.where(extra > 0, extra / F, 0.0)",
        only(MODELS, "kkt_of_a_posterior_mode"),
    ),
    Mutant(
        "corollary 2: column sums at the mode",
        "models/priors.py",
        "        return extra.sum(axis=0) / rate",
        "        return (extra.sum(axis=0) + 1) / rate",
        only(THEOREMS, "corollary_2"),
    ),
    Mutant(
        "corollary 2: a mode has concentration − 1",
        "models/priors.py",
        "np.asarray(shape, dtype=np.float64) - 1, (rows, n_topics))",
        "np.asarray(shape, dtype=np.float64) - 0.5, (rows, n_topics))",
        only(MAP, "pseudo_counts"),
    ),
    Mutant(
        "the best scale of a topic under two priors",
        "models/problem.py",
        "    root = np.sqrt(middle**2 + 4 * square * constant)",
        "    root = np.sqrt(middle**2 + 2 * square * constant)",
        only(MAP, "rescaling_finds_the_best_scale"),
    ),
    Mutant(
        "the best scale of a topic for the bound",
        "models/problem.py",
        "    return _root(d * F_sums, m * c - n * a, b * L_sums)",
        "    return _root(d * F_sums, m * c + n * a, b * L_sums)",
        only(VARIATIONAL, "one_step_equals_the_listing"),
    ),
    Mutant(
        "appendix A.5: equal column means",
        "models/problem.py",
        "alone = np.sqrt((v / len(L)) / (u / len(F))) if",
        "alone = np.sqrt(v / u) if",
        only(SOLVERS, "rescaling"),
    ),
    Mutant(
        "the l2 penalty has a slope along the topic",
        "models/problem.py",
        'slope = np.ones_like(F) if self.norm == "l1" else',
        "slope = np.ones_like(F) if self.norm else",
        only(SPARSE, "kkt"),
    ),
    # EM, joint updates, PLSA, PLSI
    Mutant(
        "algorithm 1: F sees the new loadings",
        "solvers/extrapolate.py",
        "        F, xlog = half(problem.right, L, state.F, measure=True)",
        "        F, xlog = half(problem.right, state.L, state.F, measure=True)",
        only(THEOREMS, "a32"),
    ),
    Mutant(
        "Geiger and Park, algorithm 6: PLSA with priors keeps the row sums",
        "solvers/joint.py",
        "    return (L * scale[:, None]).astype(L.dtype, copy=False)",
        "    return L",
        only(MAP, "pseudo_counts"),
    ),
    Mutant(
        "algorithm 4: topics sum to one",
        "solvers/joint.py",
        "(Y / Y.sum(axis=0)).astype(",
        "(Y / Y.sum()).astype(",
        only(THEOREMS, "joint_updates_keep"),
    ),
    Mutant(
        "Zhang et al., algorithm 3: weights collect what normalising takes from H",
        "solvers/joint.py",
        "        H, w = _normalised(G), w * G.sum(axis=0)",
        "        H, w = _normalised(G), w",
        only(THEOREMS, "zhang_algorithm_3"),
    ),
    Mutant(
        "lemma 6.1: an l1 penalty divides the loadings by 1 + ω",
        "solvers/joint.py",
        "        return super().loadings(problem, state) / (1 + _sparsity(problem).weight)",
        "        return super().loadings(problem, state)",
        only(SPARSE, "lemma_61_the_iterates"),
    ),
    Mutant(
        "the update of an l2-normalised topic minimises its bound",
        "solvers/joint.py",
        "np.sqrt(v**2 + 4 * sparsity.weight * v * Y / norms)",
        "np.sqrt(v**2 + 2 * sparsity.weight * v * Y / norms)",
        only(SPARSE, "minimises_its_bound"),
    ),
    Mutant(
        "section 3.2.2: a coordinate-descent iteration that would raise the loss is redone",
        "solvers/extrapolate.py",
        "        if safe is not None and new.loss > state.loss",
        "        if safe is not None and False and new.loss > state.loss",
        only(SOLVERS, "would_raise"),
    ),
    # Variational inference
    Mutant(
        "Paisley (34), (35): the rate of q has the cost of the other factor",
        "models/beliefs.py",
        "        return self.belief(self.shape + counts, self.rate + cost)",
        "        return self.belief(self.shape + counts, self.rate + 0 * cost)",
        only(VARIATIONAL, "one_step_equals_the_listing"),
    ),
    Mutant(
        "Geiger and Park (17): the bound of a Dirichlet",
        "models/beliefs.py",
        "        return float(term + prior - gammaln(totals).sum() - (total - totals) @ digamma(totals))",
        "        return float(term + prior + gammaln(totals).sum() - (total - totals) @ digamma(totals))",
        only(VARIATIONAL, "in_the_books"),
    ),
    Mutant(
        "Paisley (31): the bound of a Gamma",
        "models/beliefs.py",
        "        bound = term + prior + sums @ (1 - self.rate / rates)",
        "        bound = term + prior - sums @ (1 - self.rate / rates)",
        only(VARIATIONAL, "in_the_books"),
    ),
    Mutant(
        "LDA is the Dirichlet–Poisson model and a constant",
        "models/variational.py",
        "gammaln(totals + 1).sum() + len(totals) if",
        "gammaln(totals + 1).sum() if",
        only(VARIATIONAL, "in_the_books"),
    ),
    Mutant(
        "the bound has the expected total",
        "models/variational.py",
        "expected = sums @ right.sums if rates",
        "expected = 0.5 * sums @ right.sums if rates",
        only(VARIATIONAL, "in_the_books"),
    ),
    Mutant(
        "lemma E.1: totals are negative binomial",
        "models/variational.py",
        "+ A * np.log(rate) - (A + totals) * np.log1p(rate)",
        "+ A * np.log(rate) - totals * np.log1p(rate)",
        only(THEOREMS, "lemma_e1"),
    ),
    Mutant(
        "Minka: the gradient by alpha",
        "models/beliefs.py",
        "        gradient = n * (digamma(alpha.sum()) - digamma(alpha)) + g",
        "        gradient = n * (digamma(alpha.sum()) - digamma(alpha)) - g",
        only(VARIATIONAL, "newtons_alpha"),
    ),
    Mutant(
        "the spread of a Dirichlet entry",
        "models/beliefs.py",
        "    return np.sqrt(share * (1 - share) / (total + 1))",
        "    return np.sqrt(share * (1 - share) / total)",
        only(VARIATIONAL, "means_deviations_and_intervals"),
    ),
    Mutant(
        "Paisley (35): the rate of the factors uses the new loadings",
        "solvers/vi.py",
        "cost = task.cost_of_factors(left, s.right)\n        if not self.rescale:",
        "cost = task.cost_of_factors(s.left, s.right)\n        if not self.rescale:",
        only(VARIATIONAL, "one_step_equals_the_listing"),
    ),
    Mutant(
        "a step of extrapolated inference that lowers the bound is taken back",
        "solvers/vi.py",
        "            if new.loss > s.loss:\n                return replace(s, momentum=s.momentum.rejected()",
        "            if False:\n                return replace(s, momentum=s.momentum.rejected()",
        only(VARIATIONAL, "taken_back"),
    ),
    Mutant(
        "lemma E.3: the same q in the other model",
        "maps.py",
        "np.broadcast_to(1 + np.asarray(rate",
        "np.broadcast_to(np.asarray(rate",
        only(THEOREMS, "beliefs_map"),
    ),
    # Online learning
    Mutant(
        "Robbins and Monro: steps shrink by their decay",
        "solvers/online.py",
        "(self.offset + batches + 1) ** -self.decay",
        "(self.offset + batches + 1) ** -1.0",
        only(ONLINE, "hoffmans"),
    ),
    Mutant(
        "Hoffman et al.: a batch stands for all samples",
        "solvers/online.py",
        "(step * weight) * (self.right.geometric * B)",
        "step * (self.right.geometric * B)",
        only(ONLINE, "hoffmans"),
    ),
    # The allocation model
    Mutant(
        "(6): sizes have b^a",
        "models/allocation.py",
        "a * np.log(b / (b + 1))",
        "a * np.log(1 / (b + 1))",
        only(ALLOCATION, "every_tensor"),
    ),
    Mutant(
        "(7): topics are normalised",
        "models/allocation.py",
        "- log_gamma(self.alpha.sum() + topics).sum() - log_factorials)",
        "- log_gamma(topics + 1).sum() - log_factorials)",
        only(ALLOCATION, "every_tensor"),
    ),
    Mutant(
        "(5): topics given S have their prior",
        "models/allocation.py",
        "        return dirichlet_moments(self.alpha[:, None] + by_feature, -2, logs)",
        "        return dirichlet_moments(1e-9 + by_feature, -2, logs)",
        only(ALLOCATION, "moments_of_draws"),
    ),
    Mutant(
        "(5): sizes given S",
        "models/allocation.py",
        "        return (self.a + totals) / (self.b + 1)",
        "        return (self.a + totals) / self.b",
        only(ALLOCATION, "moments_of_draws"),
    ),
    Mutant(
        "(14): the gradient has the whole topic",
        "models/allocation.py",
        "        above = digamma(model.alpha.sum() + state.by_feature.sum(axis=0))",
        "        above = digamma(1 + state.by_feature.sum(axis=0))",
        only(ALLOCATION, "gradient_is_the_difference"),
    ),
    Mutant(
        "(15): the negative part has the mixed positive one",
        "solvers/allocation.py",
        "    neg = minus + (rho * plus).sum(axis=1, keepdims=True)",
        "    neg = minus + 0 * plus",
        only(ALLOCATION, "gradient_is_the_difference"),
    ),
    Mutant(
        "section 3: the ascent never falls",
        "solvers/allocation.py",
        "        if new.loss <= state.loss:\n            return new",
        "        if True:\n            return new",
        only("solvers/test_decomposition.py", "halved"),
    ),
    Mutant(
        "(13): the factored gradient by features",
        "solvers/allocation.py",
        "(other[j], own[i]) if transposed else",
        "(own[i], other[j]) if transposed else",
        only("solvers/test_decomposition.py", "listing"),
    ),
    Mutant(
        "R̂ sees chains apart",
        "solvers/sampling.py",
        "    variance = (n - 1) / n * within + float(halves.mean(axis=1).var(ddof=1))",
        "    variance = (n - 1) / n * within",
        only(ALLOCATION, "rhat"),
    ),
    Mutant(
        "the particle filter has the factorials",
        "solvers/sampling.py",
        "    logs += model.log_sizes(X.sample_totals) - X.log_factorials",
        "    logs += model.log_sizes(X.sample_totals)",
        only(ALLOCATION, "particle_filter_is_unbiased"),
    ),
    # Starts, simulations, rivals
    Mutant(
        "Topic-SCORE: the corners leave the other centres least far outside",
        "solvers/init.py",
        "    return candidates[list(min(combinations(range(n_candidates), K), key=worst))]",
        "    return candidates[:K]",
        only("solvers/test_init_refine.py", "corners_are_those"),
    ),
    Mutant(
        "Carbonetto et al., section 4: in B topics 5 and 6 come together",
        "io/simulate.py",
        "        covariance[4, 5] = covariance[5, 4] = 8\n",
        "        covariance[4, 5] = covariance[5, 4] = -2\n",
        only("io/test_simulated.py", "topics_5_and_6"),
    ),
    Mutant(
        "SQUAREM leaps",
        "reproduce/accelerate.py",
        "_factors(zero - 2 * alpha * r + alpha**2 * w, second)",
        "_factors(two, second)",
        only(ACCELERATE, "squarem_leaps"),
    ),
    Mutant(
        "Zhou et al.: the quasi-Newton step",
        "reproduce/accelerate.py",
        "np.linalg.solve(U @ U.T - U @ V.T, U @ (here - there))",
        "np.linalg.solve(U @ U.T, U @ (here - there))",
        only(ACCELERATE, "quasi_newton_finds"),
    ),
    # The printed variants
    Mutant(
        "after a rejection the default rule continues from the new pair",
        "solvers/extrapolate.py",
        "pairs, moved, reference = (new.Ln, new.Fn, new.Ln, new.Fn), m.rejected(), problem.loss(new.Ln, new.Fn)",
        "pairs, moved = (state.Ln, state.Fn, state.Ln, state.Fn), m.rejected()",
        only(LISTINGS, "by_default_is_the_rule"),
    ),
    Mutant(
        "Ang and Gillis: how fast extrapolation grows",
        "solvers/extrapolate.py",
        "            beta = min(m.ceiling, 1.1 * m.beta)",
        "            beta = min(m.ceiling, 1.05 * m.beta)",
        only(LISTINGS, "published_rule_is_that"),
    ),
    Mutant(
        "Zhang et al., algorithm 2 as printed: H with the old weights",
        "solvers/joint.py",
        "w if self.new_weights else state.w",
        "w",
        only(LISTINGS, "zhangs_algorithm_2"),
    ),
    Mutant(
        "(14) to (16): coordinate descent without resting",
        "solvers/halfsteps.py",
        "rule=self.rule, rest=self.rest)",
        "rule=self.rule, rest=True)",
        only(LISTINGS, "without_resting"),
    ),
    Mutant(
        "Paisley (34) to (36): the lecture has no block of scales",
        "solvers/vi.py",
        "        if not self.rescale:\n            return self._at(",
        "        if False:\n            return self._at(",
        only(VARIATIONAL, "without_the_block_of_scales"),
    ),
    Mutant(
        "φ is a share of the rate",
        "counts/sides.py",
        "rates / np.where(total > 0, total, 1.0)",
        "rates",
        only("analysis/test_responsibilities.py", "rows_sum_to_one"),
    ),
    Mutant(
        "(10): modes given S",
        "models/allocation.py",
        "(parameters - 1) / np.where(exists, spare, 1)",
        "parameters / np.where(exists, total, 1)",
        only(ALLOCATION, "modes_maximise"),
    ),
    Mutant(
        "entropies of topics given a count's sample or feature are less those of the counts",
        "analysis/application.py",
        "(entropy, entropy - of_counts)",
        "(entropy, entropy)",
        only("analysis/test_responsibilities.py", "conditional_entropies"),
    ),
    Mutant(
        "the entropy of features is that of their sums over samples",
        "analysis/application.py",
        'sums |= {name: _xlogx(sums[name]) for name in ("features", "topics")}',
        'sums |= {"features": sums["cells"], "topics": _xlogx(sums["topics"])}',
        only("analysis/test_responsibilities.py", "marginals_of_s"),
    ),
    Mutant(
        "Paisley (21) to (23): the rate of a Gamma belief has that of its prior",
        "models/beliefs.py",
        "return self.belief(self.shape + counts, self.rate + cost)",
        "return self.belief(self.shape + counts, cost)",
        only("models/test_generators.py", "gamma_gamma_model"),
    ),
    Mutant(
        "a Dirichlet prior on proportions is not left to a solver that cannot fit it",
        "estimators/likelihood.py",
        'by_default = self.loadings_prior is not None and self.solver == "newton"',
        "by_default = self.loadings_prior is not None",
        only(MAP, "refused_by_a_solver"),
    ),
    # Hierarchical Poisson factorisation, lists of recommendations, the start by Topic-SCORE
    Mutant(
        "Gopalan et al.: the rate of a row has that of its prior",
        "models/beliefs.py",
        "return shape / (rate + self.mean(belief).sum(axis=1))",
        "return shape / self.mean(belief).sum(axis=1)",
        only("models/test_hierarchical.py", "printed_iterates"),
    ),
    Mutant(
        "the bound of hierarchical factorisation has the entropy of the rates of rows",
        "models/beliefs.py",
        "constant - shape * np.log(rate + means.sum(axis=1))",
        "constant - self.shape.sum() * np.log(rate + means.sum(axis=1))",
        only("models/test_hierarchical.py", "all_four_kinds"),
    ),
    Mutant(
        "rates of rows are drawn with the shape and the mean of their prior",
        "io/simulate.py",
        'given[rate] / given["rate_shape"])',
        "given[rate])",
        only("models/test_generators.py", "moments_of_their_priors"),
    ),
    Mutant(
        "NDCG: gains fall with the logarithm of the rank",
        "analysis/recommend.py",
        "gains = 1 / np.log2(np.arange(2, max(lengths) + 2))",
        "gains = 1 / np.arange(1, max(lengths) + 1)",
        only("analysis/test_recommend.py", "scikit_learn"),
    ),
    Mutant(
        "appendix A.5: loadings of a Topic-SCORE start are as good as ten updates make them",
        "solvers/init.py",
        "known_factors(problem, F, rounds=5, tolerance=1e-3), F",
        "known_factors(problem, F, rounds=1, tolerance=1e-3), F",
        only("solvers/test_init_refine.py", "ten_published_sweeps"),
    ),
    # Covariates, collapsed inference
    Mutant(
        "a Newton step on coefficients is shortened where the loss may bend",
        "models/covariates.py",
        "return beta + delta * np.where(R > 1e-8, np.log1p(R) / R, 1.0)",
        "return beta + delta",
        only("models/test_covariates.py", "newton_steps_end"),
    ),
    Mutant(
        "the prior of coefficients is part of the bound",
        "models/covariates.py",
        "return float(0.5 * (self.coefficients[1:] ** 2).sum())",
        "return 0.0",
        only("models/test_covariates.py", "coefficients_are_at_their_best"),
    ),
    Mutant(
        "the bound of loadings has the rate of their prior",
        "models/covariates.py",
        "(np.log(self.prior_rates) - logs).sum(axis=0) @ self.shape",
        "-logs.sum(axis=0) @ self.shape",
        only("models/test_covariates.py", "best_bound"),
    ),
    Mutant(
        "shapes come from the spread that is not counting noise",
        "models/covariates.py",
        "self.spreads = w @ (squares - V)",
        "self.spreads = w @ squares",
        only("models/test_covariates.py", "shapes_come"),
    ),
    Mutant(
        "collapsed inference leaves a count out when it is assigned",
        "solvers/vi.py",
        "(shape + counts)[owners] - one * phi",
        "(shape + counts)[owners]",
        only("solvers/test_collapsed.py", "one_count"),
    ),
    Mutant(
        "a covariate whose error one group determines alone is refused",
        "analysis/effects.py",
        "if values[-1] > 1 - ALONE:",
        "if values[-1] > 1 + ALONE:",
        only("analysis/test_effects.py", "cannot_be_answered"),
    ),
]
