"""Signatures are drawn in the field's order and colours, of every kind of mutation, whatever the order of the features."""

from __future__ import annotations

import numpy as np
import pandas as pd
import pytest
from matplotlib.colors import to_hex
from matplotlib.figure import Figure

import unmix as um
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
    colours = [colour for group in layout.groups for colour in group.colours]
    assert [to_hex(bar.get_facecolor()) for bar in panels[0].patches] == [colour.lower() for colour in colours]
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
    with pytest.raises(ValueError, match="ax holds one topic, and 2 were asked for"):
        um.plot.signature(known(list(layouts()[0].features)), [1, 2], ax)


def test_other_features_are_refused_by_name() -> None:
    with pytest.raises(ValueError, match=r"the feature 'war' is not a type of mutation; .*A\[C>A\]A"):
        um.plot.signature(known(["war", "peace"]))
    with pytest.raises(ValueError, match="have no names"):
        um.plot.signature(um.PoissonNMF.from_factors(np.ones((96, 2))).result_)
    assert layout_of(["AC>CA"]).kind.startswith("doublet")
