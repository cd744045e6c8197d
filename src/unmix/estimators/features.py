"""New counts and the features of a fit: found by name where both have names, and by position otherwise.

A feature of the fit that new samples lack was not measured, such as a gene that another chip does not have; or it was counted
and did not occur, such as a word of a text. Topics over the measured features M alone explain parts q_ik of the counts there.
With u_k = Σ_j f_jk over all features and v_k that over M, only the part v_k / u_k of the counts of topic k falls on M, so that

    p_ik ∝ q_ik u_k / v_k

are the proportions over all features. A topic without a measured feature cannot be seen, and gets 0.

How well new samples are explained is their misfit (`models/poisson.py`), compared with those of the samples of the fit.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any, Literal

import numpy as np
import pandas as pd
from scipy.stats import binom

from unmix.base.checks import choice, parameter, plural, warn
from unmix.base.kinds import look_of_turned, mutation_types
from unmix.base.types import Floats, Integers, as_names, in_place
from unmix.counts.counts import Counts, from_anndata
from unmix.counts.data import Data, is_data
from unmix.counts.multipliers import Multipliers, labels_of, with_multipliers
from unmix.fit import Fit
from unmix.models.beliefs import Prior
from unmix.models.poisson import misfits, proportions_and_sizes

if TYPE_CHECKING:
    from unmix.estimators.base import CountsEstimator

Missing = Literal["unmeasured", "zero"]
EXPLAINED = ("known", "misfit", "rank")  # how well a sample is explained
POOR = (0.05, 0.15)  # of the samples of a fit are explained worse than half of the new ones, which is too few
ENOUGH, PER_TOPIC = 100, 20  # samples of a fit, in all and per topic, to say what is unusual
CHANCE = 1e-3  # that this many samples are poor where all is well
PROPORTIONS = ("TopicModel", "LDA", "AllocationModel")  # is what their `transform` gives; the others give loadings
ROUNDING = 1e-9  # by which the sums of all factors of a topic may differ where nothing was lost


@dataclass(frozen=True)
class Matched:
    """Counts of features of a fit, in its order.

    Attributes
    ----------
    counts : Counts
        Its columns are all features of the fit, or those that were measured.
    missing : int
        Number of features of the fit that the counts did not have.
    unknown : int
        Number of features that the fit does not have: they are omitted.
    measured : array, default=None
        Places of the columns among the features of the fit, where missing features were not measured; None if all are there.
    unknown_totals : array, default=None
        Counts of each sample in features that the fit does not have; None for none.
    """

    counts: Counts
    missing: int = 0
    unknown: int = 0
    measured: Integers | None = None
    unknown_totals: Floats | None = None

    @property
    def known(self) -> Floats:
        """The share of each sample's counts that is in features of the fit; NaN without counts."""
        there = self.counts.sample_totals
        total = there if self.unknown_totals is None else there + self.unknown_totals
        return np.divide(there, total, out=np.full(len(total), np.nan), where=total > 0)

    @property
    def taken(self) -> Missing:
        """What missing features were taken for."""
        return "zero" if self.measured is None else "unmeasured"

    def some(self, proportions: Floats, most: int) -> tuple[Matched, Floats]:
        """Up to this many samples, and their proportions."""
        rows, few = self.counts.some(most)
        unknown = None if self.unknown_totals is None else self.unknown_totals[rows]
        return replace(self, counts=few, unknown_totals=unknown), proportions[rows]

    def notes(self, what: str = "feature", where: str = "X", model: str = "the fit") -> list[str]:
        """What the user should know: features that are missing, and what that was taken for, and features omitted."""
        counted, taken, other = [], "taken as 0 in every sample", "unmeasured"
        if self.measured is not None:
            taken, other = "taken as not measured, topics are found by the others", "zero"
        remedy = f"{taken} ({parameter('missing', other)} changes that)"
        for n, of, problem in (
            (self.missing, model, f"not in {where}: {remedy}"),
            (self.unknown, where, f"unknown to {model}: ignored"),
        ):
            if n:
                counted.append(f"{plural(n, what)} of {of} {'is' if n == 1 else 'are'} {problem}")
        return counted


def match_features(counts: Counts, fit: Fit, missing: Missing | None = "zero") -> Matched:
    """Counts brought to the features of a fit; unknown ones are omitted.

    Parameters
    ----------
    counts : Counts
        New samples.
    fit : Fit
        Of any model.
    missing : {"zero", "unmeasured"}, default="zero"
        Features of the fit that the counts lack: "zero" gives them columns of zeros; "unmeasured" omits them, and
        `Matched.measured` says which are there. None is "zero" for a fit of texts, as a word that is not in a text occurs zero
        times, and "unmeasured" for every other fit.

    Returns
    -------
    Matched
        For `loadings_of` and `proportions_of`.
    """
    if missing is None:
        missing = "unmeasured" if fit.text is None else "zero"
    choice("missing", missing, ("unmeasured", "zero"))
    if in_place("feature", (fit.features, len(fit.F)), (counts.features, counts.shape[1]), where="the matrix"):
        return Matched(counts, unknown_totals=counts.unknown)
    to = places_of(counts, fit)
    there = np.unique(to[to >= 0])
    absent, unknown = len(fit.F) - there.size, int((to < 0).sum())
    names, measured = fit.feature_names, None
    if absent and missing == "unmeasured":
        to, names, measured = np.where(to >= 0, np.searchsorted(there, to), -1), names[there], there
    matched = counts.with_features(to, names)
    return Matched(matched, absent, unknown, measured, counts.sample_totals - matched.sample_totals)


def places_of(counts: Data, fit: Fit) -> Integers:
    """Places of the features of the counts in the fit, −1 for those that it does not have."""
    if in_place("feature", (fit.features, len(fit.F)), (counts.features, counts.shape[1]), where="the matrix"):
        return np.arange(counts.shape[1])
    assert counts.features is not None
    place = {name: j for j, name in enumerate(fit.feature_names)}
    if len(place) < len(fit.F):
        raise ValueError("features of the model share a name; use counts with the same features in the same order")
    to = np.array([place.get(name, -1) for name in counts.features])
    if (to < 0).all():  # types of mutations have many spellings
        place = {name: j for j, name in enumerate(mutation_types(place))}
        to = np.array([place.get(name, -1) for name in mutation_types(counts.features)])
    if (to < 0).all():
        raise ValueError(
            f"no feature has a name that the model knows (such as {fit.feature_names[0]!s}); compare the spelling"
        )
    return to


def multiplied_as_in_fit(X: Any, fit: Fit, batch: Any, opportunities: Any) -> Any:
    """New samples with their multipliers: of batches, those that the fit has."""
    effects = "batches" in fit.rates
    if batch is None and opportunities is None:
        if effects and not (is_data(X) and X.multipliers is not None):
            warn("the fit has effects of batches, and no batch is given: multipliers are taken as one; use batch=...")
        return X
    if batch is not None and not effects and opportunities is None:
        raise ValueError("the fit has no effects of batches; remove batch, or fit with batch=...")
    X = from_anndata(X)
    counts = with_multipliers(X if is_data(X) else Counts(X), batch, opportunities, estimated=False)
    return with_effects(counts, fit, batch) if batch is not None and effects else counts


def with_effects(counts: Data, fit: Fit, batch: Any) -> Data:
    """Counts with the effects that a fit has of their batches; one for other batches."""
    labels = labels_of(counts, batch, "batch")
    place = {label: b for b, label in enumerate(fit.rates["batches"].tolist())}
    codes = np.array([place.get(label, len(place)) for label in labels.tolist()])
    if unseen := sorted({*labels.tolist()} - place.keys()):
        names = ", ".join(unseen[:3]) + (", …" if len(unseen) > 3 else "")
        warn(
            f"the fit does not know {'batch' if len(unseen) == 1 else 'batches'} {names}: multipliers there are taken as one"
        )
    effects = (fit.rates["counts"] + fit.rates["strength"]) / (fit.rates["expected"] + fit.rates["strength"])
    table, to = np.ones((len(place) + 1, counts.shape[1])), places_of(counts, fit)
    table[:-1, to >= 0] = effects[:, to[to >= 0]]
    given = counts.multipliers or Multipliers(np.zeros(len(codes), np.int32), as_names([""]))
    return counts.with_multipliers(given.times(table, codes))


def loadings_of(estimator: CountsEstimator, matched: Matched) -> Floats:
    """What `transform` gives of matched counts: proportions, or loadings."""
    if matched.measured is None:
        return np.asarray(estimator._transformed(matched.counts), dtype=np.float64)
    known = estimator.result_
    model = type(estimator)(**estimator.get_params(deep=False))
    model.result_ = restricted(known, matched.measured)
    found = np.asarray(model._transformed(matched.counts), dtype=np.float64)
    seen = known.F[matched.measured].sum(axis=0, dtype=np.float64)
    proportions = type(estimator).__name__ in PROPORTIONS
    scales = scales_of(known if proportions else model.result_)
    weights = found * np.divide(scales, seen, out=np.zeros_like(seen), where=seen > 0)
    if not proportions:
        return weights
    sums = weights.sum(axis=1, keepdims=True)
    return weights / np.where(sums > 0, sums, 1.0)


def proportions_of(estimator: CountsEstimator, matched: Matched) -> Floats:
    """Proportions of topics in matched counts, over all features of the fit."""
    return as_proportions(estimator, loadings_of(estimator, matched))


def as_proportions(estimator: CountsEstimator, loadings: Floats) -> Floats:
    """What `transform` gives as proportions."""
    if type(estimator).__name__ in PROPORTIONS:
        return loadings
    return proportions_and_sizes(loadings, estimator.result_._prepared(_sums_of_components))[0]


def _sums_of_components(fit: Fit) -> Floats:
    return np.ascontiguousarray(fit.F.T).astype(np.float64, copy=False).sum(axis=1)


def goodness(fit: Fit, matched: Matched, proportions: Floats) -> pd.DataFrame:
    """How well samples are explained, one row each, as `unmix.analysis.goodness_of_fit` has it."""
    topics = fit.topics if matched.measured is None else fit.topics[matched.measured]
    seen = proportions @ topics.sum(axis=0)
    shares = proportions / np.where(seen > 0, seen, 1.0)[:, None]
    others = fit.data.get("reference") or {}
    ordered = np.asarray(others.get("misfits", ()), dtype=np.float64)
    found = misfits(matched.counts, shares, topics, others.get("depth", np.inf))
    rank = np.full(len(found), np.nan)
    if ordered.size:
        worse = ordered.size - np.searchsorted(ordered, found)
        rank = np.where(np.isnan(found), np.nan, (worse + 1) / (ordered.size + 1))
    return pd.DataFrame(dict(zip(EXPLAINED, (matched.known, found, rank), strict=True)))


def doubts(fit: Fit, tables: Sequence[pd.DataFrame], model: str = "the fit") -> list[str]:
    """What to say if samples, explained as these tables have it, do not fit the model."""
    table = pd.concat(tables)
    compared = len((fit.data.get("reference") or {}).get("misfits", ()))
    enough = compared >= ENOUGH and len(fit.L) >= PER_TOPIC * fit.n_topics
    ranks = table["rank"].dropna()[: None if enough else 0]
    found: list[str] = []
    for level in POOR:
        poor = int((ranks < level).sum())
        if not found and 2 * poor >= max(ranks.size, 1) and binom.sf(poor - 1, ranks.size, level) < CHANCE:
            found.append(
                f"these samples do not fit {model}: {poor / ranks.size:.0%} of them are explained worse than {1 - level:.0%} of "
                "its own samples, so that proportions may mean little; unmix.analysis.goodness_of_fit has a number for each"
            )
    expected, known = (fit.text or {}).get("known", 0.0), table["known"].mean()
    if known < expected / 2:
        found.append(
            f"{model} knows {known:.0%} of the words of these texts, and {expected:.0%} of its own: a different language?"
        )
    return found


def scales_of(fit: Fit) -> Floats:
    """u_k = Σ_j f_jk"""
    return fit.F.sum(axis=0, dtype=np.float64)


def restricted(fit: Fit, features: Integers) -> Fit:
    """The fit over some of its features: topics are taken over those, and proportions are as they were."""
    posterior = {
        name: array[features] if name.startswith("F") and array.ndim == 2 else array
        for name, array in fit.posterior.items()
    }
    names = None if fit.features is None else fit.features[features]
    return rescaled(replace(fit, F=fit.F[features], features=names, posterior=posterior), scales_of(fit))


def rescaled(fit: Fit, scales: Floats) -> Fit:
    """A fit whose F has lost features since its columns summed to `scales`, with l_ik u_k, and so the proportions, as then."""
    now = scales_of(fit)
    if np.allclose(now, scales, rtol=ROUNDING, atol=0):
        return fit
    lost = np.divide(scales, now, out=np.ones_like(now), where=now > 0)
    kind = Prior.kinds.get(fit.priors.get("F", ""))
    if kind is None or kind.own_scale:
        return replace(fit, L=(fit.L * lost).astype(fit.L.dtype))
    arrays = {name[1:]: array for name, array in fit.posterior.items() if name.startswith("F")}
    kept = {f"F{name}": array for name, array in kind.without_rows(arrays, lost).items()}
    return replace(fit, F=fit.F * lost, posterior={**fit.posterior, **kept})


def refuse_equal_names(X: Any) -> None:
    """Before scikit-learn, and what it asks, refuse tables with such."""
    if isinstance(X, pd.DataFrame) and not X.columns.is_unique:
        again = X.columns[X.columns.duplicated()][0]
        raise ValueError(f"several columns of the table are called {again!r}; use a different name for each feature")


def warn_of_turned(counts: Data) -> None:
    """Where samples have names as genes do, for example, and features have not."""
    if counts.in_memory and counts.samples is not None and (look := look_of_turned(counts.samples, counts.features)):
        warn(
            f"the samples have names of {look}, such as {counts.samples[0]}; rows must be samples: transpose the counts"
        )
