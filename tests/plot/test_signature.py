"""Signatures are drawn in the field's order and colours, of every kind of mutation, whatever the order of the features."""

from __future__ import annotations

import numpy as np
import pandas as pd
import pytest
from matplotlib.colors import to_hex
from matplotlib.figure import Figure

import unmix as um
from unmix.base.kinds import mutation_type
from unmix.plot.signature import layout_of, layouts

SIZES = {"single": 96, "doublet": 78, "small": 83, "classes of copy": 48, "classes of structural": 32}


def known(features: list[str], K: int = 2, seed: int = 0) -> um.Fit:
    rng = np.random.default_rng(seed)
    table = pd.DataFrame(rng.gamma(0.5, 1, (len(features), K)), index=features, columns=[f"SBS{k}" for k in range(K)])
    return um.PoissonNMF.from_factors(table).result_


@pytest.mark.parametrize("layout", layouts(), ids=lambda layout: layout.kind)
def test_bars_stand_in_the_fields_order_whatever_that_of_the_features(layout) -> None:
    features = list(layout.features)
    assert len(set(features)) == len(features) == next(n for kind, n in SIZES.items() if layout.kind.startswith(kind))
    shuffled = np.random.default_rng(1).permutation(features).tolist()
    fit = known(shuffled)
    panels = um.plot.signature(fit)
    assert len(panels) == 2
    expected = pd.Series(fit.topics[:, 0], index=shuffled).loc[features]
    np.testing.assert_allclose([bar.get_height() for bar in panels[0].patches], expected)
    colors = [color for group in layout.groups for color in group.colors]
    assert [to_hex(bar.get_facecolor()) for bar in panels[0].patches] == [color.lower() for color in colors]
    labels = {text.get_text() for text in panels[0].texts}
    assert {group.label for group in layout.groups} | {group.heading for group in layout.groups} - {""} <= labels
    panels[0].figure.draw_without_rendering()


def test_doublets_are_one_of_each_pair_of_reverse_complements() -> None:
    doublets = layouts()[1].features
    turned = {"A": "T", "C": "G", "G": "C", "T": "A"}

    def complement(pair: str) -> str:
        return turned[pair[1]] + turned[pair[0]]

    changes = {tuple(name.split(">")) for name in doublets}
    every = {(a + b, c + d) for a in turned for b in turned for c in turned for d in turned if a != c and b != d}
    assert changes | {(complement(old), complement(new)) for old, new in changes} == every
    both = [pair for pair in changes if (complement(pair[0]), complement(pair[1])) in changes]
    assert all((complement(old), complement(new)) == (old, new) for old, new in both)


def test_types_that_the_fit_lacks_are_drawn_as_zero() -> None:
    features = [name for name in layouts()[0].features if not name.startswith("T")]
    heights = [bar.get_height() for bar in um.plot.signature(known(features), 1)[0].patches]
    assert len(heights) == 96
    assert (np.array(heights) > 0).sum() == 72


def test_one_topic_is_drawn_where_it_is_asked_for_under_its_name() -> None:
    ax = Figure().subplots()
    assert um.plot.signature(known(list(layouts()[0].features)), 2, ax) is ax
    assert ax.texts[0].get_text() == "SBS1"
    fit = known(list(layouts()[0].features))
    titled = um.plot.signature(
        fit, 2, match=um.match_catalogue(fit, pd.DataFrame({"SBS9": fit.topics[:, 1]}, index=fit.features))
    )[0]
    assert titled.texts[0].get_text() == "SBS1 · most similar to SBS9 (1.00)"
    with pytest.raises(ValueError, match="ax holds one topic, and 2 were asked for"):
        um.plot.signature(known(list(layouts()[0].features)), [1, 2], ax)


def test_other_features_are_refused_by_name() -> None:
    with pytest.raises(ValueError, match=r"the feature 'war' is not a type of mutation; .*A\[C>A\]A"):
        um.plot.signature(known(["war", "peace"]))
    with pytest.raises(ValueError, match="have no names"):
        um.plot.signature(um.PoissonNMF.from_factors(np.ones((96, 2))).result_)
    assert layout_of(["AC>CA"]).kind.startswith("doublet")


SPELLINGS = {
    "sigfit": {"ACA>AAA": "A[C>A]A", "TTG>TCG": "T[T>C]G"},
    "signeR": {"C>A:ACA": "A[C>A]A", "T>C:TTG": "T[T>C]G"},
    "musicatk": {"C>A_ACA": "A[C>A]A"},
    "SomaticSignatures": {"CA A.A": "A[C>A]A", "TC T.G": "T[T>C]G"},
    "Palimpsest": {"CA_A.A": "A[C>A]A"},
    "make.names": {"A.C.A.A": "A[C>A]A", "X1.Del.C.0": "1:Del:C:0"},
    "the other strand": {"T[G>T]T": "A[C>A]A", "TGT>TTT": "A[C>A]A", "GT>TG": "AC>CA", "CG>AC": "CG>GT"},
    "MutationalPatterns": {
        **{"AC_CA": "AC>CA", "C_deletion_1": "1:Del:C:0", "T_deletion_6+": "1:Del:T:5", "C_insertion_5+": "1:Ins:C:5"},
        **{"2bp_deletion_1": "2:Del:R:0", "5+bp_deletion_6+": "5:Del:R:5", "3bp_insertion_0": "3:Ins:R:0"},
        **{"5+bp_deletion_with_microhomology_5+": "5:Del:M:5"},
    },
    "PCAWG": {
        **{
            "DEL_C_1_0": "1:Del:C:0",
            "DEL_T_1_5+": "1:Del:T:5",
            "INS_C_1_5+": "1:Ins:C:5",
            "DEL_repeats_2_0": "2:Del:R:0",
        },
        **{"DEL_repeats_5+_5+": "5:Del:R:5", "INS_repeats_5+_0": "5:Ins:R:0", "DEL_MH_5+_5+": "5:Del:M:5"},
    },
    "copy numbers": {"2:LOH:0-100Kb": "2:LOH:0-100kb", "9+:het:>40MB": "9+:het:>40Mb"},
    "other names": {"ACTB": "ACTB", "A[C>A]": "A[C>A]", "ACA>AAC": "ACA>AAC", "AA": "AA"},
}


@pytest.mark.parametrize("program", SPELLINGS)
def test_types_of_mutations_are_known_by_the_spellings_of_other_programs(program) -> None:
    for name, known in SPELLINGS[program].items():
        assert mutation_type(name) == known
        assert program == "other names" or any(known in layout.features for layout in layouts())


@pytest.mark.parametrize("layout", layouts(), ids=lambda layout: layout.kind)
def test_the_usual_spelling_stays(layout) -> None:
    assert [mutation_type(name) for name in layout.features] == list(layout.features)


def test_signatures_of_other_spellings_are_drawn_matched_and_transformed_alike() -> None:
    types = list(layouts()[0].features)
    sigfit = [f"{t[0]}{t[2]}{t[6]}>{t[0]}{t[4]}{t[6]}" for t in types]
    table = pd.DataFrame(np.random.default_rng(0).gamma(0.5, 1, (96, 3)), index=types, columns=["a", "b", "c"])
    here, there = (um.PoissonNMF.from_factors(table.set_axis(names)).result_ for names in (types, sigfit))
    heights = [[bar.get_height() for bar in um.plot.signature(fit, 2)[0].patches] for fit in (here, there)]
    np.testing.assert_allclose(*heights)
    assert (
        um.match_catalogue(there, table).table["best"].tolist()
        == um.match_catalogue(here, table).table["best"].tolist()
    )
    assert um.compare(here, there).table["cosine"].to_numpy() == pytest.approx(1)
    X = np.random.default_rng(1).poisson(20 * table.to_numpy().sum(axis=1), (4, 96))
    proportions = [here.transform(um.Counts(X, features=names)) for names in (types, sigfit)]
    np.testing.assert_array_equal(*proportions)


def test_counts_are_called_as_their_field_calls_them() -> None:
    X = np.ones((3, 4))
    cells = ["AAACCTGAGAAACCAT-1", "AAACCTGAGAAACCGC-1", "AAACCTGAGAAACCTA-1"]
    for samples, features, said in (
        (None, ["A[C>A]A", "A[C>A]C", "A[C>A]G", "A[C>A]T"], "3 tumours × 4 mutation types"),
        (cells, ["ACTB", "GAPDH", "B2M", "MYC"], "3 cells × 4 genes"),
        (None, ["ACTB", "GAPDH", "B2M", "MYC"], "3 samples × 4 genes"),
        (None, ["a", "b", "c", "d"], "3 samples × 4 features"),
    ):
        counts = um.Counts(X, samples=samples, features=features)
        assert repr(counts).startswith(f"Counts({said}")
        assert repr(um.TopicModel(1).fit(counts).result_).startswith(f"Fit({said}")


@pytest.mark.parametrize("layout", layouts()[:4], ids=lambda layout: layout.kind)
def test_the_report_has_the_bars_of_signatures(layout) -> None:
    from unmix.report.payload import payload

    features = np.random.default_rng(1).permutation(layout.features).tolist()
    X = np.random.default_rng(0).poisson(3.0, (20, len(features)))
    fit = um.TopicModel(2, random_state=0, tol=1e-2).fit(um.Counts(X, features=features)).result_
    sent = payload(fit, "title")["signature"]
    assert sent["names"] == layout.features
    assert sum(len(group["colours"]) for group in sent["groups"]) == len(features)
    expected = pd.Series(fit.topics[:, 1], index=features).loc[list(layout.features)]
    np.testing.assert_allclose(sent["heights"][1], expected, rtol=1e-3)
    assert "signature" not in payload(um.TopicModel(2, random_state=0, tol=1e-2).fit(um.Counts(X)).result_, "title")


def test_boxes_of_substitutions_can_be_seen_on_white() -> None:
    for group in layouts()[0].groups:
        channels = [int(group.colors[0][i : i + 2], 16) / 255 for i in (1, 3, 5)]
        linear = [c / 12.92 if c <= 0.04045 else ((c + 0.055) / 1.055) ** 2.4 for c in channels]
        assert 1.05 / (np.dot(linear, [0.2126, 0.7152, 0.0722]) + 0.05) >= 3, group.label
