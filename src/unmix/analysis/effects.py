"""Effects: how proportions of topics change with what is known of samples, and how sure that is.

Given the topics, one-step proportions p (`models/covariates.py`) have the true ones as their mean, however short samples are, and
V as variances, so that a regression on p does not depend on lengths; entries may be negative. Rows sum to one, and so effects
sum to zero over topics.

Samples have one weight for all topics, 1 / (τ² + v / t), where v / t is counting noise and τ² what proportions differ besides.
Errors are CR2 (Bell and McCaffrey 2002) by group, or HC2, with Satterthwaite's degrees of freedom; terms of several columns
have the approximate Hotelling test HTZ (Tipton and Pustejovsky 2015); p-values are adjusted over topics, term by term
(Benjamini and Hochberg 1995). On the log scale Σ_i weight_i w_i (p_ik − exp(w_i · b_k)) = 0, which is convex whatever the sign
of p.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, ClassVar, Literal

import numpy as np
import pandas as pd
import scipy.sparse as sp
from numpy.typing import ArrayLike, NDArray
from scipy.stats import f as fisher
from scipy.stats import t as student

from unmix.analysis.application import FitLike, data_of, fit_of, refuse_multipliers
from unmix.analysis.features import topic_names
from unmix.analysis.results import FileLayout, Result, columns
from unmix.analysis.samples import column_of_groups, column_or_values, metadata_of
from unmix.analysis.samples import groups as groups_of
from unmix.base.checks import ParameterError, analysis, choice, listed, parameter, plural, share
from unmix.base.types import Floats, Integers, as_names, order_by_name
from unmix.counts.formulas import INTERCEPT, Design, check_rank, design
from unmix.fit import Fit
from unmix.models.covariates import OneStep, Weighted
from unmix.solvers.halfsteps import poisson_regression

FEW_DF, UNRELIABLE = 5.0, 0.3
POINTS = 40  # of a curve
COMPLETE = 1e-10  # what is left of a direction that a group determines alone: it has no error there
ALONE = 1e-9  # the same, of a design that is refused
MOST_STEPS = 100
Scale = Literal["proportion", "log"]


@dataclass(frozen=True, eq=False, repr=False)
class Effects(Result):
    """What `effects` found.

    Attributes
    ----------
    table : DataFrame
        One row per topic and coefficient: `topic`, `term`, such as "party[r]", `estimate`, its standard error `se`, degrees of
        freedom `df`, `low` and `high` end of its interval, `p` and `adjusted`, p over all topics (Benjamini–Hochberg).
    tests : DataFrame
        One row per topic and term of the formula: `topic`, `term`, number of `columns`, `F`, `df` of its denominator, `p`,
        `adjusted`.
    predictions : DataFrame
        One row per topic, variable and value: `topic`, `variable`, `value` (a level, or ""), `at` (a number, or missing),
        number of `samples` with that level, `estimate`, `se`, `df`, `low`, `high`: the mean proportion if all samples had this
        value, everything else as it is.
    proportions, noise : array, n × K
        One-step proportions, and their variances by counting noise; missing for samples of fewer than two counts.
    pooled : array, K
        Shares of topics in all counts together.
    weights : array, n
        Of samples, relative; 0 for those omitted.
    names : array of str
        Of the topics.
    formula, groups : str
        The formula, and the column of groups, "" without.
    scale : str
        "proportion" or "log".
    level : float
        Of intervals.
    spread, noise_per_count : float
        τ² and v of the weights 1 / (τ² + v / t).
    reliability : float
        τ² / (τ² + v / t) of a sample with the median number of counts.
    remarks : list of str
        What `advice` says.

    See Also
    --------
    effects, plot.effects

    Examples
    --------
    >>> import unmix as um
    >>> X = um.datasets.sotu()
    >>> fit = um.TopicModel(3, tol=1e-3, random_state=0).fit(X).result_
    >>> found = um.effects(fit, X, "~ year", groups="president")
    >>> found.table.columns.tolist()
    ['topic', 'term', 'estimate', 'se', 'df', 'low', 'high', 'p', 'adjusted']
    """

    LAYOUT: ClassVar = FileLayout(
        shapes={"proportions": "nK", "noise": "nK", "pooled": "K", "weights": "n", "names": "K"},
        columns={
            "table": columns("topic estimate se df low high p adjusted", "term"),
            "tests": columns("topic columns F df p adjusted", "term"),
            "predictions": columns("topic at samples estimate se df low high", "variable value"),
        },
    )

    table: pd.DataFrame
    tests: pd.DataFrame
    predictions: pd.DataFrame
    proportions: Floats
    noise: Floats
    pooled: Floats
    weights: Floats
    names: Any
    formula: str
    groups: str
    scale: str
    level: float
    spread: float
    noise_per_count: float
    reliability: float
    remarks: list[str]

    @property
    def n_topics(self) -> int:
        """int: the number of topics K."""
        return len(self.pooled)

    @property
    def shares(self) -> Floats:
        """array, K: of topics in all counts."""
        return self.pooled

    @property
    def summary(self) -> pd.DataFrame:
        """DataFrame: one row per topic and term: its test, and the estimate of a term of one column."""
        found = self.tests.assign(name=as_names(self.names)[self.tests["topic"].to_numpy(dtype=int) - 1])
        slopes = self.table.loc[self.table["term"] != INTERCEPT, "estimate"].to_numpy(dtype=float)
        sizes = found["columns"].to_numpy(dtype=int)
        found["estimate"] = np.where(sizes == 1, slopes[np.cumsum(sizes) - sizes], np.nan)
        return found[["topic", "name", "term", "estimate", "F", "df", "p", "adjusted"]]

    def means(self, term: str) -> pd.DataFrame:
        """Mean proportions by level of a variable, everything else as it is.

        Parameters
        ----------
        term : str
            Name of a variable of the formula with levels.

        Returns
        -------
        DataFrame
            The rows of `predictions` of this variable: `topic`, `value`, `samples`, `estimate`, `se`, `df`, `low`, `high`.

        Raises
        ------
        ValueError
            If the formula has no such variable, or it is a number.

        Examples
        --------
        >>> import unmix as um
        >>> X = um.datasets.sotu()
        >>> X = X.take(X.metadata["party"].isin(["d", "r"]))
        >>> fit = um.TopicModel(3, tol=1e-3, random_state=0).fit(X).result_
        >>> um.effects(fit, X, "~ party", groups="president").means("party")["value"].unique().tolist()
        ['d', 'r']
        """
        rows = self._predictions(term)
        if rows["at"].notna().all():
            raise ValueError(f"{term} is a number, which has no levels; {parameter('curve')}({term!r}) has its curve")
        return rows.drop(columns=["variable", "at"])

    def curve(self, term: str) -> pd.DataFrame:
        """Mean proportions along a number or a date, everything else as it is.

        Parameters
        ----------
        term : str
            Name of a variable of the formula that is a number.

        Returns
        -------
        DataFrame
            The rows of `predictions` of this variable: `topic`, `at` (dates in years), `estimate`, `se`, `df`, `low`, `high`.
            Intervals cover point by point.

        Raises
        ------
        ValueError
            If the formula has no such variable, or it has levels.

        Examples
        --------
        >>> import unmix as um
        >>> X = um.datasets.sotu()
        >>> fit = um.TopicModel(3, tol=1e-3, random_state=0).fit(X).result_
        >>> um.effects(fit, X, "~ s(year, df=3)", groups="president").curve("year")["at"].max().item()
        2021.0
        """
        rows = self._predictions(term)
        if rows["at"].isna().any():
            raise ValueError(f"{term} has levels, and no curve; {parameter('means')}({term!r}) has their means")
        return rows.drop(columns=["variable", "value", "samples"])

    def _predictions(self, term: str) -> pd.DataFrame:
        known = self.predictions["variable"].unique().tolist()
        if term not in known:
            raise ValueError(f"{term!r} is not a variable of {self.formula!r}; there are {listed(known) or 'none'}")
        return self.predictions[self.predictions["variable"] == term].reset_index(drop=True)

    def advice(self) -> list[str]:
        """What the errors do not know: samples that belong together, few groups, noise, samples omitted.

        Returns
        -------
        list of str
            A sentence for each thing.

        Examples
        --------
        >>> import unmix as um
        >>> X = um.datasets.sotu()
        >>> X = X.take(X.metadata["party"].isin(["d", "r"]))
        >>> fit = um.TopicModel(3, tol=1e-3, random_state=0).fit(X).result_
        >>> um.effects(fit, X, "~ party").advice()[0]
        "party is the same in all samples of a president; groups='president' allows for that"
        """
        return list(self.remarks)


def effects(
    fit: FitLike | ArrayLike,
    X: Any,
    formula: str | ArrayLike,
    groups: str | ArrayLike | None = None,
    scale: Scale = "proportion",
    *,
    metadata: Any = None,
    level: float = 0.9,
) -> Effects:
    """How proportions of topics change with what is known of samples: a regression with honest errors.

    Topics are taken as given. Proportions are estimated without bias for samples of any length and regressed on the columns of
    the formula. Use `groups` if samples are dependent, such as cells of one donor; otherwise half of all tests may be
    significant where nothing differs.

    Parameters
    ----------
    fit : Fit, estimator, path or array
        Of any model; or topics themselves, an array m × K.
    X : Counts, Shards, array-like, AnnData or path
        Counts of the samples of the fit, or of new ones. Features are found by name where there are names.
    formula : str, DataFrame or array
        Covariates, such as "~ party + s(year)": columns of the metadata. `a:b` is an interaction, `a*b` both and their
        interaction, `C(x)` a number as levels, `s(x, df=6)` a natural cubic spline, `0` no intercept. Or a table of
        covariates, or numbers, with one row per sample.
    groups : str or array-like, default=None
        Column of the metadata that says which samples belong together, or one value per sample.
    scale : {"proportion", "log"}, default="proportion"
        Scale of coefficients: differences of proportions, or of their natural logarithms.
    metadata : DataFrame, Counts, AnnData, str or PathLike, default=None
        Table with one row per sample, found by name where there are names. By default that of the counts, or else of the fit.
    level : float, default=0.9
        Probability that an interval covers the truth.

    Returns
    -------
    Effects
        With `table`, `tests`, `means`, `curve`, `plot` and `advice`.

    Raises
    ------
    ValueError
        If a column of the formula is unknown, has missing values or levels of a single sample or group, columns depend on each
        other, or there are as many of them as samples or groups.

    See Also
    --------
    prevalence, plot.effects, sc.tl.effects

    Notes
    -----
    Errors are those given the topics: where topics are uncertain, see `unmix.freedom` and `unmix.stability`. Topics that are
    found poorly make effects smaller, and cannot make any where there are none.

    Examples
    --------
    >>> import unmix as um
    >>> X = um.datasets.sotu()
    >>> fit = um.TopicModel(3, tol=1e-3, random_state=0).fit(X).result_
    >>> alone, by_president = (um.effects(fit, X, "~ year", groups=groups) for groups in (None, "president"))
    >>> bool(by_president.table["se"].mean() > 1.2 * alone.table["se"].mean())
    True
    """
    level, scale = share("level", level), choice("scale", scale, ("proportion", "log"))  # type: ignore[assignment]
    source, F, names = _topics(fit)
    data = data_of(X, "effects", source)
    n = data.shape[0]
    own = data.metadata
    if own is None and source is not None and len(source.L) == n:
        own = source.metadata
    table = metadata_of(metadata, own, data.samples, n)
    pooled, steps = _one_step(F, data, source)
    kept = steps.totals >= 2
    if not kept.any():
        raise ValueError("no sample has two counts of features that topics have; nothing to regress")
    all_samples = design(formula, table, n)
    told = formula if isinstance(formula, str) else f"{len(all_samples.blocks)} columns"
    unit, many = np.arange(int(kept.sum())), "samples"
    if groups is not None:
        many = f"groups of {_called(groups)}"
        labels, unit = groups_of(column_or_values(table, groups, parameter("groups"), n))
        if (labels[-1] == "(none)") and (unit == len(labels) - 1).any():
            missing = int((unit == len(labels) - 1).sum())
            raise ParameterError("groups", _called(groups), f"it is missing in {plural(missing, 'sample')}; fill it in")
        unit = np.unique(unit[kept], return_inverse=True)[1]
    chosen = all_samples.part(kept)
    _check(chosen, unit, told, many, "" if groups is None else _called(groups))
    P, V, t = steps.proportions[kept], steps.noise[kept], steps.totals[kept]
    fitted = Weighted(chosen.matrix, P, V, t)
    solve = _on_proportions if scale == "proportion" else _on_logs
    estimates, errors = solve(chosen, fitted.weights, P, unit, told)
    weights = np.zeros(n)
    weights[kept] = fitted.weights / fitted.weights.mean()
    found = _Tables(chosen, estimates, errors, level, scale)
    coefficients, tests = found.coefficients(), found.tests()
    remarks = _remarks(table, chosen, kept, groups, tests, fitted.reliability, int(unit.max()) + 1)
    return Effects(
        coefficients,
        tests,
        found.predictions(),
        steps.proportions,
        steps.noise,
        pooled,
        weights,
        names,
        told,
        _called(groups),
        scale,
        level,
        fitted.spread,
        fitted.noise,
        fitted.reliability,
        remarks,
    )


def _called(given: Any) -> str:
    return "" if given is None else given if isinstance(given, str) else str(getattr(given, "name", None) or "given")


def _topics(fit: Any) -> tuple[Fit | None, Floats, Any]:
    """Topics whose columns sum to one, and their names."""
    if isinstance(fit, np.ndarray | pd.DataFrame | list):
        F = np.asarray(fit, dtype=np.float64)
        if F.ndim != 2 or not np.isfinite(F).all() or (F < 0).any() or not F.any(axis=0).all():
            raise ValueError(
                "fit: an array of topics is features × topics, with finite entries >= 0 and no column of zeros"
            )
        return None, F / F.sum(axis=0), as_names([f"topic {k + 1}" for k in range(F.shape[1])])
    source = fit_of(fit)
    refuse_multipliers(source, "effects")
    return source, np.asarray(source.topics, dtype=np.float64), as_names(topic_names(source))


# One-step proportions


def _one_step(F: Floats, data: Any, source: Fit | None) -> tuple[Floats, OneStep]:
    """Shares of topics in all counts together, and one-step proportions; features are found by name."""
    if data.shape[1] != len(F) and (source is None or source.features is None or data.features is None):
        raise ValueError(f"X has {data.shape[1]:,} features and the topics have {len(F):,}; use counts of the same")
    features = None if source is None else source.features
    places = order_by_name("feature", (features, len(F)), (data.features, data.shape[1]), reorder=True)
    if places is not None:  # of the data: where each of its features stands among the topics
        F = F[np.argsort(places)]
    used: NDArray[np.bool_] = np.asarray(F.any(axis=1))
    F, counted = np.where(used[:, None], F, 0), np.zeros(len(F))
    for part in data.parts():
        counted += np.asarray(part.csr.sum(axis=0)).ravel()
    shares = poisson_regression(F[used], counted[used])
    shares = shares / shares.sum()
    return shares, OneStep.of(F, shares, data.parts())


# Regressions and their errors


class _Robust:
    """CR2 errors of ordinary least squares by groups of rows, and degrees of freedom of contrasts of its coefficients.

    With M = (XᵀX)⁻¹ and A_g = (I − X_g M X_gᵀ)^−½ X_g the covariance of the coefficients is M (Σ_g A_gᵀe_g e_gᵀA_g) M. A
    contrast c has the terms q_g = A_g M c, a_g = q_gᵀq_g and u_g = X_gᵀq_g, and the quadratic form whose moments Satterthwaite
    and HTZ match is  δ_gh a_g − u_gᵀ M u_h.
    """

    def __init__(self, X: Floats, unit: Integers) -> None:
        self.X, self.n_groups = X, int(unit.max()) + 1
        self.alone = self.n_groups == len(X)
        self.sums = sp.csr_array((np.ones(len(X)), (unit, np.arange(len(X)))))
        R = np.linalg.qr(X, mode="r")
        root = np.linalg.inv(R)  # M = root rootᵀ
        self.M = root @ root.T
        Q = X @ root
        if self.alone:
            left = 1 - (Q**2).sum(axis=1, keepdims=True)
            self.A = X * np.where(left > COMPLETE, 1 / np.sqrt(np.maximum(left, COMPLETE)), 0)
            return
        self.A = np.empty_like(X)
        order = np.argsort(unit, kind="stable")
        for rows in np.split(order, np.cumsum(np.bincount(unit))[:-1]):
            values, vectors = np.linalg.eigh(Q[rows].T @ Q[rows])
            left = 1 - values
            scaled = np.where(left > COMPLETE, 1 / np.sqrt(np.maximum(left, COMPLETE)), 0)
            self.A[rows] = Q[rows] @ (vectors * scaled) @ vectors.T @ R

    def _by_group(self, rows: Floats) -> Floats:
        return rows if self.alone else self.sums @ rows

    def covariance(self, residuals: Floats) -> Floats:
        scores = self._by_group(self.A * residuals[:, None])
        return self.M @ (scores.T @ scores) @ self.M

    def _terms(self, C: Floats) -> tuple[Floats, Floats]:
        """a_st,g (q × q × G) and u_sg (q × G × P) of the rows of C."""
        Z = self.A @ (self.M @ C.T)
        u = np.stack([self._by_group(self.X * z[:, None]) for z in Z.T])
        a = np.stack([self._by_group(Z * z[:, None]).T for z in Z.T])
        return a, u

    def df(self, C: Floats) -> Floats:
        """Satterthwaite's degrees of freedom of each row of C."""
        found = []
        for c in C:
            a, u = self._terms(c[None])
            a, u = a[0, 0], u[0]
            own = np.einsum("gi,gi->g", u @ self.M, u)
            inner = self.M @ (u.T @ u)
            mean, square = float((a - own).sum()), float((a**2 - 2 * a * own).sum() + np.trace(inner @ inner))
            found.append(mean**2 / square if square > 0 else np.nan)
        return np.array(found)

    def hotelling(self, C: Floats) -> float:
        """ν of HTZ for the contrasts C together."""
        omega, vectors = np.linalg.eigh(C @ self.M @ C.T)
        C = (vectors / np.sqrt(omega)) @ vectors.T @ C
        a, u = self._terms(C)
        total, q = 0.0, len(C)
        own = np.stack([((u @ self.M) * one).sum(axis=2) for one in u])
        for s in range(q):
            for t in range(q):
                W = u[s].T @ u[t]
                M = self.M
                total += float(
                    (a[s, s] * a[t, t] - a[s, s] * own[t, t] - a[t, t] * own[s, s]).sum()
                    + (W * (M @ W @ M)).sum()
                    + (a[s, t] ** 2 - 2 * a[s, t] * own[s, t]).sum()
                    + (W * (M @ W.T @ M)).sum()
                )
        return q * (q + 1) / total if total > 0 else np.nan


Solved = tuple[Floats, list[tuple[_Robust, Floats]]]  # coefficients, topics × columns, and their errors by topic


def _on_proportions(design: Design, weights: Floats, P: Floats, unit: Integers, _: str) -> Solved:
    root = np.sqrt(weights)[:, None]
    X, Y = design.matrix * root, P * root
    robust = _Robust(X, unit)
    B: Floats = np.asarray(np.linalg.lstsq(X, Y, rcond=None)[0], dtype=np.float64)
    return B.T, [(robust, robust.covariance(e)) for e in (Y - X @ B).T]


def _on_logs(design: Design, weights: Floats, P: Floats, unit: Integers, formula: str) -> Solved:
    W, estimates, errors = design.matrix, [], []
    weights = weights / weights.mean()
    _check_positive(design, weights, P, formula)
    for k, p in enumerate(P.T):
        b = _log_linear(W, weights, p)
        if b is None:
            raise ParameterError(
                "scale",
                "log",
                f"topic {k + 1} has no finite coefficients for {formula!r}: its proportions are not positive throughout; "
                f"use {parameter('scale', 'proportion')}",
            )
        mu = np.exp(W @ b)
        root = np.sqrt(weights * mu)
        robust = _Robust(W * root[:, None], unit)
        estimates.append(b)
        errors.append((robust, robust.covariance(root * (p - mu) / mu)))
    return np.array(estimates), errors


def _log_linear(W: Floats, weights: Floats, p: Floats) -> Floats | None:
    """The minimum of Σ weight (exp(w·b) − p w·b), which is convex, by Newton steps that are halved until it falls."""
    start = max(float(weights @ p / weights.sum()), 1e-12)
    b = np.linalg.lstsq(W, np.full(len(p), np.log(start)), rcond=None)[0]
    target = W.T @ (weights * p)

    def loss(b: Floats) -> float:
        with np.errstate(over="ignore"):
            return float(weights @ np.exp(W @ b) - target @ b)

    value = loss(b)
    for _ in range(MOST_STEPS):
        mu = weights * np.exp(W @ b)
        gradient, hessian = W.T @ mu - target, (W.T * mu) @ W
        try:
            step = np.linalg.solve(hessian, gradient)
        except np.linalg.LinAlgError:
            return None
        if float(gradient @ step) <= 1e-20 * max(abs(value), 1e-300):
            return b
        size = 1.0
        while not (after := loss(b - size * step)) <= value:
            size /= 2
            if size < 1e-12:
                return b
        b, value = b - size * step, after
    return None


def _check_positive(design: Design, weights: Floats, P: Floats, formula: str) -> None:
    """Raises if a topic has no positive sum in a level, or in all samples."""
    for code in design.codes:
        if not code.levels:
            continue
        places = design.places_of(code)
        sums = np.array([weights[places == level] @ P[places == level] for level in range(len(code.levels))])
        for level, k in np.argwhere(sums <= 0)[:1]:
            raise ParameterError(
                "scale",
                "log",
                f"topic {k + 1} has no positive proportion in {code.factor.column} {code.levels[level]}, and so no "
                f"logarithm there; use {parameter('scale', 'proportion')}",
            )


def _check(design: Design, unit: Integers, formula: str, many: str, groups: str) -> None:
    """Raises where coefficients are not determined."""
    n_units, (n, columns) = int(unit.max()) + 1, design.matrix.shape
    if design.names == [INTERCEPT]:
        raise ParameterError("formula", formula, "there is no covariate in it; use names of columns")
    for code in design.codes:
        if not code.levels:
            continue
        places = design.places_of(code)
        for level, label in enumerate(code.levels):
            rows = places == level
            if rows.sum() == 1:
                raise ParameterError(
                    "formula",
                    formula,
                    f"only one sample has {code.factor.column} {label!r}; merge it with another level, or remove it",
                )
            if groups and rows.any() and len(np.unique(unit[rows])) == 1:
                raise ParameterError(
                    "formula",
                    formula,
                    f"all samples with {code.factor.column} {label!r} are of one {groups}, so that the two cannot be "
                    "distinguished; merge the level with another, or remove it",
                )
    if columns >= n or columns >= n_units:
        raise ParameterError(
            "formula", formula, f"it has {plural(columns, 'coefficient')}, and there are {n_units} {many}; use fewer"
        )
    check_rank(design.matrix, design.names, formula)
    _check_alone(design, unit, formula, groups)


def _check_alone(design: Design, unit: Integers, formula: str, groups: str) -> None:
    """Raises where a combination of columns is 0 but in one group (or sample): its error would be left out, not estimated."""
    Q, R = np.linalg.qr(design.matrix / np.linalg.norm(design.matrix, axis=0))
    order = np.argsort(unit, kind="stable")
    for rows in np.split(order, np.cumsum(np.bincount(unit))[:-1]):
        if (Q[rows] ** 2).sum() < 1 - ALONE:
            continue
        values, vectors = np.linalg.eigh(Q[rows].T @ Q[rows])
        if values[-1] > 1 - ALONE:
            weights = np.abs(np.linalg.solve(R, vectors[:, -1]))
            found = [design.names[j] for j in np.flatnonzero(weights > 1e-4 * weights.max())]
            what = f"a combination of {listed(found)}" if len(found) > 1 else found[0]
            outside = f"one {groups}, that of sample {rows[0] + 1}" if groups else f"sample {rows[0] + 1}"
            problem = (
                f"{what} is 0 outside of {outside}, so that its error cannot be estimated; merge levels, or use fewer"
            )
            raise ParameterError("formula", formula, problem)


class _Tables:
    """What a regression says: of coefficients, of terms, and of means at values of variables."""

    def __init__(
        self, design: Design, estimates: Floats, errors: Sequence[tuple[_Robust, Floats]], level: float, scale: str
    ) -> None:
        self.design, self.estimates, self.errors, self.level, self.scale = design, estimates, errors, level, scale
        self._dfs: dict[int, Floats] = {}

    def _contrasts(self, C: Floats) -> dict[str, Floats]:
        """Estimates of C b with their errors, topics × contrasts; robust objects are shared where topics have the same."""
        dfs: dict[int, Floats] = {}
        for robust, _ in self.errors:
            if id(robust) not in dfs:
                dfs[id(robust)] = robust.df(C)
        df = np.array([dfs[id(robust)] for robust, _ in self.errors])
        se = np.sqrt(np.maximum([np.einsum("ci,ij,cj->c", C, V, C) for _, V in self.errors], 0))
        estimate = self.estimates @ C.T
        with np.errstate(invalid="ignore"):
            reach = student.ppf((1 + self.level) / 2, df) * se
        return {"estimate": estimate, "se": se, "df": df, "low": estimate - reach, "high": estimate + reach}

    def coefficients(self) -> pd.DataFrame:
        found = self._contrasts(np.eye(len(self.design.names)))
        with np.errstate(divide="ignore", invalid="ignore"):
            found["p"] = 2 * student.sf(np.abs(found["estimate"]) / found["se"], found["df"])
        found["adjusted"] = _adjusted(found["p"])
        return _long({"term": self.design.names}, found)

    def tests(self) -> pd.DataFrame:
        K, terms = len(self.estimates), [term for term in self.design.terms if term != INTERCEPT]
        found = {name: np.full((K, len(terms)), np.nan) for name in ("F", "df", "p")}
        for place, term in enumerate(terms):
            C, hotelling = np.eye(len(self.design.names))[self.design.terms[term]], dict[int, float]()
            for k, (robust, V) in enumerate(self.errors):
                if id(robust) not in hotelling:
                    hotelling[id(robust)] = float(robust.df(C)[0]) if len(C) == 1 else robust.hotelling(C)
                q, nu, b = len(C), hotelling[id(robust)], C @ self.estimates[k]
                inverse = np.linalg.pinv(C @ V @ C.T)
                df = nu - q + 1
                if df > 0:
                    found["F"][k, place] = F = df / (nu * q) * float(b @ inverse @ b)
                    found["df"][k, place], found["p"][k, place] = df, fisher.sf(F, q, df)
        found["adjusted"] = _adjusted(found["p"])
        sizes = [part.stop - part.start for part in (self.design.terms[term] for term in terms)]
        return _long({"term": terms, "columns": sizes}, found)

    def predictions(self) -> pd.DataFrame:
        """At all levels, or along a number, for every variable of the formula."""
        parts = []
        for name, column in self.design.variables.items():
            levels = self.design.levels_of(name)
            known = column.values  # noqa: PD011
            if levels:
                at = np.arange(float(len(levels))) if column.levels else np.unique(known)
                samples = [int((known == value).sum()) for value in at]
                labels = {"variable": name, "value": list(levels), "at": np.nan, "samples": samples}
            else:
                at = np.linspace(known.min(), known.max(), POINTS)
                labels = {"variable": name, "value": "", "at": at, "samples": np.nan}
            found = self._contrasts(self.design.means_at(name, at))
            if self.scale == "log":
                found |= {one: np.exp(found[one]) for one in ("estimate", "low", "high")}
                found["se"] = found["se"] * found["estimate"]
            parts.append(_long(pd.DataFrame(labels).to_dict("list"), found))
        table = pd.concat(parts, ignore_index=True)
        return table.sort_values("topic", kind="stable", ignore_index=True)


def _long(labels: dict[str, Any], found: dict[str, Floats]) -> pd.DataFrame:
    """One row per topic and label, of arrays topics × labels."""
    K, many = next(iter(found.values())).shape
    rows = {"topic": np.repeat(np.arange(1, K + 1), many)}
    for name, values in labels.items():
        rows[name] = np.tile(np.asarray(values, dtype=object if name in ("term", "variable", "value") else None), K)
    return pd.DataFrame(rows | {name: values.ravel() for name, values in found.items()})


def _adjusted(p: Floats) -> Floats:
    """Benjamini–Hochberg over topics (rows), each column by itself; those without p stay so."""
    found = np.full_like(p, np.nan)
    for column, values in enumerate(p.T):
        known = np.flatnonzero(~np.isnan(values))
        order = known[np.argsort(-values[known], kind="stable")]
        ranked = values[order] * len(order) / np.arange(len(order), 0, -1)
        found[order, column] = np.minimum(np.minimum.accumulate(ranked), 1)
    return found


# Advice


def _remarks(
    table: pd.DataFrame | None,
    design: Design,
    kept: Any,
    groups: Any,
    tests: pd.DataFrame,
    reliability: float,
    n_groups: int,
) -> list[str]:
    remarks = []
    if groups is None and table is not None:
        for name, column in design.variables.items():
            codes = np.unique(column.values, return_inverse=True)[1]
            if outer := column_of_groups(table[kept], name, codes):
                with_option = parameter("groups", outer)
                remarks.append(f"{name} is the same in all samples of a {outer}; {with_option} allows for that")
                break
    if left := int((~kept).sum()):
        remarks.append(f"omitted: {plural(left, 'sample')} with fewer than two counts")
    if tests["df"].min() < FEW_DF:
        term = tests.loc[tests["df"].idxmin()]
        of = "samples" if groups is None else f"groups ({n_groups})"
        remarks.append(
            f"few {of} determine {term['term']} ({term['df']:.1f} degrees of freedom): its p-values are rough"
        )
    if reliability < UNRELIABLE:
        remarks.append(
            f"most of what one-step proportions vary is counting noise (reliability {reliability:.2f}): effects stay "
            "unbiased, and errors are large"
        )
    remarks.append(
        f"errors are those given the topics; {analysis('freedom')} and {analysis('stability')} say how certain topics are"
    )
    return remarks
