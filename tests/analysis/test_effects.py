"""Effects of covariates: the reference cases to their digits, what does not change anything, and what is refused."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pandas as pd
import pytest
from numpy.testing import assert_allclose

import unmix as um
from unmix.analysis.effects import _one_step, _Robust
from unmix.counts.formulas import design, parse
from unmix.models.covariates import Weighted

F = np.array([[0.6, 0.1], [0.3, 0.3], [0.1, 0.6]])
X = np.array(
    [[20, 12, 4], [4, 8, 16], [24, 8, 0], [0, 12, 24], [8, 8, 8], [12, 16, 4], [4, 1, 3], [2, 5, 8]], dtype=float
)
TABLE = pd.DataFrame(
    {
        "w": [0, 1, 0, 1, 0, 0, 1, 1],
        "z": [-1, 0.5, 0.2, 1.1, -0.4, 0.3, -0.9, 1.4],
        "g": list("aabbccdd"),
    }
)


def found(formula: object = "~ w + z", groups: object = "g", **how: object) -> um.Effects:
    return um.effects(F, X, formula, groups, metadata=TABLE, **how)  # type: ignore[arg-type]


def first(effects: um.Effects, column: str) -> np.ndarray:
    return effects.table.query("topic == 1")[column].to_numpy(dtype=float)


def test_one_step_proportions_are_those_of_the_reference_case() -> None:
    effects = found()
    assert_allclose(effects.pooled, [0.53475177, 0.46524823], atol=5e-9)
    assert_allclose(
        effects.proportions[:, 0],
        [0.94608274, 0.07072644, 1.24754255, -0.16502837, 0.5016383, 0.75982979, 0.61639894, 0.1016383],
        atol=5e-9,
    )
    assert_allclose(effects.noise[6, 0], 0.12258619, atol=5e-9)
    assert_allclose(effects.spread, 0.07044345, atol=5e-9)
    assert_allclose(effects.noise_per_count, 0.85432068, atol=5e-9)


def test_coefficients_and_errors_by_group_are_those_of_the_reference_case() -> None:
    effects = found()
    assert_allclose(first(effects, "estimate"), [0.83848603, -0.64568394, -0.14790424], atol=5e-9)
    assert_allclose(first(effects, "se"), [0.19955949, 0.33627235, 0.11097226], atol=5e-9)
    assert_allclose(first(effects, "df"), [1.702783, 2.606737, 1.709425], atol=5e-7)
    alone = found(groups=None)
    assert_allclose(first(alone, "se"), [0.18433898, 0.29298512, 0.15670727], atol=5e-9)
    assert_allclose(first(alone, "df"), [2.877582, 2.988317, 2.683323], atol=5e-7)
    log = found(scale="log")
    assert_allclose(first(log, "estimate"), [-0.24263096, -1.91106251, -0.37614485], atol=5e-8)
    assert_allclose(first(log, "se"), [0.26521384, 1.87244059, 0.38449337], atol=5e-8)


def test_a_term_of_two_columns_has_the_hotelling_test_of_the_reference_case() -> None:
    chosen = design("~ w + z", TABLE, 8)
    steps = _one_step(F, um.Counts(X), None)[1]
    weights = Weighted(chosen.matrix, steps.proportions, steps.noise, steps.totals).weights
    root = np.sqrt(weights)[:, None]
    robust = _Robust(chosen.matrix * root, np.repeat(range(4), 2))
    Y = steps.proportions[:, 0] * root[:, 0]
    b = np.linalg.lstsq(chosen.matrix * root, Y, rcond=None)[0]
    V = robust.covariance(Y - chosen.matrix * root @ b)
    nu = robust.hotelling(np.eye(3)[1:])
    df = nu - 1
    assert_allclose(df / (nu * 2) * b[1:] @ np.linalg.inv(V[1:, 1:]) @ b[1:], 6.9547548, atol=5e-7)
    assert_allclose(df, 1.3926378, atol=5e-7)


def test_one_step_proportions_and_their_variances_are_unbiased_over_all_outcomes() -> None:
    """All samples of four counts, each with its probability: exactly, with the pooled shares held at even ones."""
    outcomes = np.array([(a, b, 4 - a - b) for a in range(5) for b in range(5 - a)], dtype=float)
    rates = F @ [0.3, 0.7]
    factorials = np.array([[1, 1, 2, 6, 24][int(x)] for x in outcomes.ravel()]).reshape(outcomes.shape)
    probability = 24 * np.prod(rates**outcomes / factorials, axis=1)
    f = F @ [0.5, 0.5]
    G = np.linalg.solve(F.T @ (F / f[:, None]), (F / f[:, None]).T)
    p = outcomes @ G[0] / 4
    V = (outcomes @ G[0] ** 2 / 4 - p**2) / 3
    assert_allclose([probability @ p, probability @ p**2 - 0.09, probability @ V], [0.3, 0.165, 0.165], atol=5e-9)


# --- what does not change anything ------------------------------------------------------------------------------------


@pytest.mark.parametrize("scale", ["proportion", "log"])
@pytest.mark.parametrize("groups", [None, "g"])
def test_effects_do_not_depend_on_the_order_of_samples_features_and_topics(scale: str, groups: str | None) -> None:
    rng = np.random.default_rng(0)
    rows, features = rng.permutation(8), rng.permutation(3)
    plain = found(groups=groups, scale=scale)
    other = um.effects(
        F[features][:, ::-1], X[rows][:, features], "~ w + z", groups, metadata=TABLE.iloc[rows], scale=scale
    )  # type: ignore[arg-type]
    swapped = other.table.assign(topic=3 - other.table["topic"]).sort_values("topic", kind="stable", ignore_index=True)
    pd.testing.assert_frame_equal(plain.table, swapped, rtol=1e-7)
    assert_allclose(plain.proportions[rows], other.proportions[:, ::-1], atol=1e-9)


def test_effects_sum_to_zero_over_topics_and_intercepts_to_one() -> None:
    sums = found().table.groupby("term")["estimate"].sum()
    assert_allclose(sums[["intercept", "w", "z"]], [1, 0, 0], atol=1e-9)


def test_another_coding_of_the_same_columns_has_the_same_tests() -> None:
    text = TABLE.assign(w=TABLE["w"].map({0: "b", 1: "a"}), z=3 - 2 * TABLE["z"])
    other = um.effects(F, X, "~ w + z", "g", metadata=text)
    assert_allclose(other.tests[["F", "df", "p"]], found().tests[["F", "df", "p"]], rtol=1e-8)
    full = um.effects(F, X, "~ 0 + w + z", "g", metadata=text)
    assert full.table["term"].tolist()[:3] == ["w[a]", "w[b]", "z"]
    assert_allclose(full.means("w")["estimate"], other.means("w")["estimate"], rtol=1e-8)
    assert_allclose(full.means("w")["df"], other.means("w")["df"], rtol=1e-6)


def test_a_table_of_covariates_is_their_sum() -> None:
    for formula in (
        TABLE[["w", "z"]],
        TABLE[["w", "z"]].to_numpy(),
        TABLE[["w", "z"]].assign(one=1.0)[["one", "w", "z"]],
    ):
        other = um.effects(F, X, formula, TABLE["g"])
        assert_allclose(first(other, "estimate"), first(found(), "estimate"), rtol=1e-9)


def test_errors_by_group_equal_the_definition_with_whole_matrices() -> None:
    """CR2 and Satterthwaite with n × n matrices and square roots of matrices, as in Pustejovsky and Tipton (2018)."""
    rng = np.random.default_rng(1)
    W, unit = np.column_stack([np.ones(12), rng.normal(size=(12, 2))]), np.repeat(range(5), [1, 2, 2, 3, 4])
    y, M = rng.normal(size=12), np.linalg.inv(W.T @ W)
    rest = np.eye(12) - W @ M @ W.T
    p = []
    for g in range(5):
        own = unit == g
        values, vectors = np.linalg.eigh(rest[np.ix_(own, own)])
        p.append(rest[:, own] @ (vectors / np.sqrt(values)) @ vectors.T @ W[own] @ M)
    robust = _Robust(W, unit)
    e = rest @ y
    assert_allclose(robust.covariance(e), sum(np.outer(q.T @ e, q.T @ e) for q in p), rtol=1e-9)
    c = np.array([0.0, 1, -2])
    B = np.column_stack([q @ c for q in p])
    values = np.linalg.eigvalsh(B.T @ B)
    assert_allclose(robust.df(c[None]), values.sum() ** 2 / (values**2).sum(), rtol=1e-9)
    C = np.eye(3)[1:]
    omega, vectors = np.linalg.eigh(C @ M @ C.T)
    C = (vectors / np.sqrt(omega)) @ vectors.T @ C
    P = np.array([[q @ row for q in p] for row in C])  # contrasts × groups × n
    total = sum(
        ((P[s] @ P[s].T) * (P[t] @ P[t].T)).sum() + ((P[s] @ P[t].T) * (P[t] @ P[s].T)).sum()
        for s in range(2)
        for t in range(2)
    )
    assert_allclose(robust.hotelling(np.eye(3)[1:]), 6 / total, rtol=1e-9)


def test_an_adjusted_p_is_that_of_benjamini_and_hochberg_over_topics() -> None:
    from scipy.stats import false_discovery_control

    counts = np.random.default_rng(0).poisson(9, (30, 12))
    topics = np.random.default_rng(1).dirichlet(np.ones(12), 5).T
    effects = um.effects(topics, counts, np.arange(30.0) ** 2)
    for _, rows in effects.tests.groupby("term"):
        assert_allclose(rows["adjusted"], false_discovery_control(rows["p"].to_numpy()))


# --- any kind of data -------------------------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def speeches() -> tuple[um.Fit, um.Counts]:
    counts = um.datasets.sotu()
    counts = counts.take(counts.metadata["party"].isin(["d", "r"]))
    return um.TopicModel(4, tol=1e-3, random_state=0).fit(counts).result_, counts


def test_shards_an_anndata_and_counts_have_the_same_effects(
    speeches: tuple[um.Fit, um.Counts], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("unmix.counts.shards.SHARD", 48)
    monkeypatch.setattr("unmix.counts.shards.TILE", 8)
    fit, counts = speeches
    formula = "~ party + s(year, df=3)"
    plain = um.effects(fit, counts, formula, "president")
    shards = um.shard(counts, tmp_path / "s.shards")
    assert len(list(shards.parts())) > 1
    anndata = pytest.importorskip("anndata")
    cells = anndata.AnnData(counts.csr.astype(float), obs=counts.metadata.set_index(counts.samples))
    cells.var_names = counts.features
    for data in (shards, cells, counts.take(None, counts.features[::-1])):
        other = um.effects(fit, data, formula, "president")
        pd.testing.assert_frame_equal(other.table, plain.table, rtol=1e-9)
    loaded = tmp_path / "e.safetensors"
    plain.save(loaded)
    pd.testing.assert_frame_equal(um.Effects.load(loaded).predictions, plain.predictions)


def test_a_president_has_one_party_and_speeches_of_one_are_alike(speeches: tuple[um.Fit, um.Counts]) -> None:
    fit, counts = speeches
    alone, grouped = (um.effects(fit, counts, "~ party + s(year)", groups) for groups in (None, "president"))
    assert alone.advice()[0] == "party is the same in all samples of a president; groups='president' allows for that"
    assert not any("is the same in all samples" in text for text in grouped.advice())
    party = [e.table.query("term == 'party[r]'") for e in (alone, grouped)]
    assert (party[1]["se"].to_numpy() > 1.5 * party[0]["se"].to_numpy()).mean() >= 0.5
    assert_allclose(party[0]["estimate"], party[1]["estimate"])  # groups change errors alone
    curve = grouped.curve("year").query("topic == 1")
    assert len(curve) == 40
    assert (curve["low"] < curve["estimate"]).all()


def test_the_report_and_pictures_show_levels_and_curves(speeches: tuple[um.Fit, um.Counts]) -> None:
    from unmix.report.sections import section

    fit, counts = speeches
    effects = um.effects(fit, counts, "~ party + s(year)", "president")
    content = section("effects", fit, effects)
    party, year = content["views"]
    assert (party["by"], party["over"], party["groups"]) == ("party", "", ["d", "r"])
    assert (year["over"], len(year["topics"]), len(year["topics"][0])) == ("year", 4, 40)
    shown = [row["mean"] for row in party["topics"][1]]
    assert_allclose(shown, effects.means("party").query("topic == 2")["estimate"], rtol=1e-4)
    other = um.TopicModel(4, tol=1e-3, random_state=1).fit(counts).result_.with_names(list("abcd"))
    with pytest.raises(ValueError, match="effects is of the topics of a different fit"):
        section("effects", other, effects)
    panels = effects.plot(topics=[2, 1])
    assert [panel.get_title(loc="left") for panel in panels] == effects.names[[1, 0]].tolist()
    assert [text.get_text() for text in panels[0].get_yticklabels()] == ["d (90)", "r (92)"]
    (line,) = effects.plot("year", topics=1)[0].get_lines()
    assert_allclose(line.get_ydata(), effects.curve("year").query("topic == 1")["estimate"])
    with pytest.raises(ValueError, match="variable='president'; choose one of party, year"):
        effects.plot("president")


# --- formulas ---------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("formula", "terms"),
    [
        ("w + z", ["w", "z"]),
        ("~ w*z", ["w", "z", "w:z"]),
        ("~ w:z + w", ["w", "w:z"]),
        ("~ a*b*c", ["a", "b", "c", "a:b", "a:c", "b:c", "a:b:c"]),
        ("~ C(w) + s(z, df=3)", ["C(w)", "s(z, df=3)"]),
        ("~ `two words` + w + w", ["two words", "w"]),
        ("~ 0 + naïve.x", ["naïve.x"]),
    ],
)
def test_a_formula_has_these_terms(formula: str, terms: list[str]) -> None:
    parsed, intercept = parse(formula)
    names = [":".join(factor.label for factor in term) for term in parsed]
    assert sorted(names, key=lambda name: name.count(":")) == names
    assert set(names) == set(terms)
    assert intercept == ("0" not in formula.split())


OTHERS = ("C(w", "(w)", "w.__class__()", "C(s(z))", "@w", "w | g", "w - z", "~ ~ w")


@pytest.mark.parametrize(
    "formula",
    [
        "",
        "~",
        "w +",
        "w ** 2",
        "log(w)",
        "__import__('os')",
        "w; z",
        "s(z, 3)",
        "s(z, df=0)",
        "I(w)",
        "w + 2",
        "C(w",
        "(w)",
        *OTHERS,
    ],
)
def test_nothing_but_a_formula_is_understood(formula: str) -> None:
    with pytest.raises(ValueError, match=r"^formula="):
        design(formula, TABLE, 8)


def test_interactions_of_levels_are_products_of_their_columns() -> None:
    table = pd.DataFrame({"a": list("xyxyxy"), "b": list("uuvvww"), "x": np.arange(6.0)})
    made = design("~ a * b + a:x", table, 6)
    assert made.names == ["intercept", "a[y]", "b[v]", "b[w]", "a[y]:b[v]", "a[y]:b[w]", "a[x]:x", "a[y]:x"]
    assert_allclose(made.matrix[:, 4], (table["a"] == "y") & (table["b"] == "v"))
    rows = made.means_at("a", np.array([0.0, 1.0]))
    for level, row in zip("xy", rows, strict=True):
        assert_allclose(
            row, design("~ a * b + a:x", pd.concat([table.assign(a=level), table]), 12).matrix[:6].mean(axis=0)
        )


def test_a_term_without_those_within_it_has_as_many_columns_as_it_can() -> None:
    """The rule of R, and of Patsy where R's columns depend on each other: each term adds all that simpler ones do not span."""
    levels = {"a": ["x", "y", "z"] * 4, "b": list("uuuvvv") * 2}
    table = pd.DataFrame(levels | {"x": np.random.default_rng(0).normal(size=12)})
    for formula, columns in {
        "~ a:b": 6,
        "~ 0 + a:b": 6,
        "~ a + a:b": 6,
        "~ a:x": 4,
        "~ a:b:x": 7,
        "~ x + a:x + b:x": 5,
    }.items():
        made = design(formula, table, 12)
        assert made.matrix.shape[1] == len(made.names) == columns
        assert np.linalg.matrix_rank(made.matrix) == columns
    cells = {formula: design(formula, table, 12).matrix for formula in ("~ a:b", "~ 0 + a:b", "~ a * b")}
    for matrix in cells.values():
        assert_allclose(matrix @ np.linalg.lstsq(matrix, cells["~ a:b"], rcond=None)[0], cells["~ a:b"], atol=1e-12)
    assert design("~ a:b", table, 12).names == ["intercept", "b[v]", "a[y]:b[u]", "a[y]:b[v]", "a[z]:b[u]", "a[z]:b[v]"]


def test_a_spline_spans_natural_cubic_splines() -> None:
    """Linear beyond its knots, with continuous second derivatives, and every straight line within it."""
    from scipy.interpolate import CubicSpline

    x = np.sort(np.random.default_rng(0).uniform(0, 10, 200))
    made = design("~ s(x, df=4)", pd.DataFrame({"x": x}), 200)
    knots = np.quantile(x, [0, 0.25, 0.5, 0.75, 1])
    for j in range(5):
        target = CubicSpline(knots, np.eye(5)[j], bc_type="natural")(x)
        rest = target - made.matrix @ np.linalg.lstsq(made.matrix, target, rcond=None)[0]
        assert_allclose(rest, 0, atol=1e-9)


# --- what is refused --------------------------------------------------------------------------------------------------


def changed(**columns: object) -> pd.DataFrame:
    return TABLE.assign(**columns)  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("formula", "groups", "table", "says"),
    [
        ("~ 1", None, TABLE, "there is no covariate in it"),
        ("~ nope", None, TABLE, "there is no column 'nope'; there are w, z, g"),
        ("~ w", None, None, "there is no column 'w'; there is no metadata"),
        (
            "~ z",
            None,
            changed(z=[1, None, 3, 4, None, 6, 7, 8]),
            r"z is missing in 2 samples \(the first is sample 2\)",
        ),
        ("~ g", None, changed(g=list("aaaabbbc")), "only one sample has g 'c'"),
        ("~ h", "g", changed(h=list("uuvvvvvv")), "all samples with h 'u' are of one g, so that the two cannot be"),
        ("~ w + v", None, changed(v=1 - TABLE["w"]), "column v is a combination of intercept and w"),
        ("~ s(g)", None, TABLE, "g is text; only numbers and dates have splines"),
        ("~ s(w)", None, TABLE, "2 different values are too few; use a smaller df"),
        ("~ w + z", "g", changed(g=list("aaabbbcc")), "it has 3 coefficients, and there are 3 groups of g; use fewer"),
        ("~ w", "g", changed(g=["a", None, *"bbccdd"]), "groups='g'; it is missing in 1 sample; fill it in"),
        ("~ one", None, changed(one="x"), "one is x in all samples; remove it"),
        (
            "~ u * v",
            None,
            changed(u=list("aaaabbbb"), v=list("cdccccdd")),
            r"a combination of v\[d\] and u\[b\]:v\[d\] is 0 outside of sample 2,",
        ),
        (
            "~ z",
            "g",
            changed(z=[3, 4, 0, 0, 0, 0, 0, 0]),
            "z is 0 outside of one g, that of sample 1, so that its error",
        ),
    ],
)
def test_what_cannot_be_answered_is_refused(formula: str, groups: str | None, table: object, says: str) -> None:
    with pytest.raises(ValueError, match=says):
        um.effects(F, X, formula, groups, metadata=table)


def test_a_logarithm_of_nothing_is_refused() -> None:
    counts = np.array([[0, 2, 30]] * 4 + [[20, 10, 3]] * 4, dtype=float)
    with pytest.raises(ValueError, match=r"topic 1 has no positive proportion in w 0.*use scale='proportion'"):
        um.effects(F, counts, "~ C(w)", metadata=pd.DataFrame({"w": [0] * 4 + [1] * 4}), scale="log")


def test_topics_that_are_mixtures_of_others_are_refused() -> None:
    with pytest.raises(ValueError, match="a topic is a mixture of the others"):
        um.effects(np.column_stack([F, F.mean(axis=1)]), X, "~ w", metadata=TABLE)


def test_samples_of_one_count_and_features_of_no_topic_are_left_out() -> None:
    more = np.vstack([np.hstack([X, np.full((8, 1), 7.0)]), [[1, 0, 0, 50]]])
    effects = um.effects(np.vstack([F, [0, 0]]), more, "~ w + z", metadata=pd.concat([TABLE, TABLE[:1]]))
    assert np.isnan(effects.proportions[8]).all()
    assert "omitted: 1 sample with fewer than two counts" in effects.advice()
    assert_allclose(first(effects, "estimate"), first(found(groups=None), "estimate"), rtol=1e-2)
