"""Models with known factors: `from_factors` gives the loadings that a fit would give, and refuses counts of other features."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest
import scipy.sparse as sp
from conftest import random_counts

import unmix as um
from unmix.cli import main

FEATURES = [f"type {j}" for j in range(15)]


def known() -> np.ndarray:
    return np.random.default_rng(5).gamma(0.4, 1, (15, 3)) + 0.02


def counts() -> um.Counts:
    return um.Counts(random_counts(), samples=[f"tumour {i}" for i in range(12)], features=FEATURES)


@pytest.mark.parametrize("kind", [um.PoissonNMF, um.TopicModel])
def test_known_factors_give_the_loadings_of_the_fit_they_come_from(kind: type[um.PoissonNMF]) -> None:
    fitted = kind(3, random_state=0).fit(counts())
    again = kind.from_factors(fitted.result_.F)
    np.testing.assert_allclose(again.transform(counts()), fitted.transform(counts()), rtol=1e-6, atol=1e-9)
    assert again.score(counts(), smoothing=0) == pytest.approx(fitted.score(counts(), smoothing=0))


def test_loadings_for_known_factors_satisfy_their_kkt_conditions() -> None:
    F, X = known(), random_counts()
    L = um.PoissonNMF.from_factors(F).transform(X)
    gradient = F.sum(axis=0) - (X / (L @ F.T)) @ F
    assert np.abs(np.minimum(L, gradient)).max() < 1e-4
    assert (gradient > -1e-4).all()


def test_noise_free_counts_give_back_the_true_exposures() -> None:
    truth = np.random.default_rng(2).integers(0, 1000, (6, 3)).astype(float)
    L = um.PoissonNMF.from_factors(known()).transform(truth @ known().T)
    np.testing.assert_allclose(L, truth, rtol=1e-4, atol=1e-3)


def test_proportions_do_not_depend_on_the_scale_of_the_factors() -> None:
    scaled = um.TopicModel.from_factors(known() * [1e-3, 1, 1e3])
    plain = um.TopicModel.from_factors(known())
    np.testing.assert_allclose(scaled.components_, plain.components_)
    np.testing.assert_allclose(scaled.transform(counts()), plain.transform(counts()), atol=1e-6)
    np.testing.assert_allclose(scaled.transform(counts()).sum(axis=1), 1)


def test_a_table_of_factors_names_the_features() -> None:
    table = pd.DataFrame(known(), index=FEATURES, columns=["one", "two", "three"])
    model = um.PoissonNMF.from_factors(table)
    assert model.result_.features.tolist() == FEATURES
    assert model.result_.top_features(2)["feature"].isin(FEATURES).all()
    frame = pd.DataFrame(random_counts(), columns=FEATURES)
    expected = model.transform(frame.to_numpy())  # without names there is nothing to compare
    for same in (frame, counts(), sp.csr_array(frame.to_numpy())):
        np.testing.assert_array_equal(model.transform(same), expected)


@pytest.mark.parametrize("fitted", [True, False])
def test_features_are_found_by_name_and_others_are_refused(fitted: bool) -> None:
    model = um.PoissonNMF(3, random_state=0).fit(counts()) if fitted else um.PoissonNMF.from_factors(known(), FEATURES)
    swapped = um.Counts(random_counts()[:, ::-1], features=FEATURES[::-1])
    np.testing.assert_array_equal(model.transform(swapped), model.transform(counts()))
    assert model.score(swapped) == model.score(counts())
    with pytest.raises(ValueError, match="no feature has a name that the model knows"):
        model.transform(um.Counts(random_counts(), features=[f"other {j}" for j in range(15)]))
    with pytest.raises(ValueError, match=r"feature 15 is 'new', the model has 'type 14' there.*the names differ"):
        model.score(um.Counts(random_counts(), features=[*FEATURES[:-1], "new"]))
    with pytest.raises(ValueError, match=r"X has 14 features, but .* is expecting 15"):
        model.transform(random_counts()[:, 1:])


def test_named_counts_may_follow_a_fit_of_a_table() -> None:
    model = um.TopicModel(3, random_state=0).fit(pd.DataFrame(random_counts(), columns=FEATURES))
    np.testing.assert_array_equal(
        model.transform(counts()), model.transform(pd.DataFrame(random_counts(), columns=FEATURES))
    )


def test_sparse_exposures_do_not_depend_on_the_scale_of_the_factors_and_are_sparser() -> None:
    few = um.SparsePoissonNMF.from_factors(known() * [1, 10, 0.1], penalty=20).transform(counts())
    same = um.SparsePoissonNMF.from_factors(known(), penalty=20).transform(counts())
    np.testing.assert_allclose(few, same, rtol=1e-6, atol=1e-9)
    assert (few == 0).sum() > (um.PoissonNMF.from_factors(known()).transform(counts()) == 0).sum()


def test_a_model_of_known_factors_is_saved_and_used_by_the_command_line(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    model = um.TopicModel.from_factors(known(), FEATURES)
    model.result_.save(tmp_path / "known.safetensors")
    loaded = um.load(tmp_path / "known.safetensors")
    np.testing.assert_array_equal(loaded.F, model.result_.F)
    pd.DataFrame(random_counts(), index=counts().samples, columns=FEATURES).to_csv(tmp_path / "new.csv")
    with pytest.raises(SystemExit, match="0"):
        main(["info", str(tmp_path / "known.safetensors")])
    assert "TopicModel with 3 topics" in capsys.readouterr().out
    arguments = [str(tmp_path / name) for name in ("known.safetensors", "new.csv", "out.csv")]
    with pytest.raises(SystemExit, match="0"):
        main(["transform", *arguments[:2], "-o", arguments[2]])
    written = pd.read_csv(tmp_path / "out.csv", index_col=0)
    np.testing.assert_allclose(written, model.transform(counts()))
    assert list(written.index) == counts().samples.tolist()


def test_a_table_of_known_factors_is_a_model_with_rows_in_any_order(tmp_path: Path) -> None:
    """COSMIC's own table: a column `Type`, then one per signature. `unmix transform` takes it as MODEL."""
    table = pd.DataFrame(known(), index=pd.Index(FEATURES, name="Type"), columns=["SBS1", "SBS2", "SBS3"])
    want = um.PoissonNMF.from_factors(known(), FEATURES).transform(counts())
    turned = table.sample(frac=1, random_state=0)
    for factors in (turned, turned.reset_index()):
        model = um.PoissonNMF.from_factors(factors)
        np.testing.assert_allclose(model.transform(counts()), want, rtol=1e-6)
        assert model.result_.labels == ["SBS1", "SBS2", "SBS3"]
    new = pd.DataFrame(random_counts(), index=counts().samples, columns=FEATURES)
    new.to_csv(tmp_path / "new.csv")
    shares = um.TopicModel.from_factors(known(), FEATURES).transform(counts())
    for name, separator in {"cosmic.csv": ",", "cosmic.tsv": "\t", "cosmic.txt": "\t"}.items():
        turned.to_csv(tmp_path / name, sep=separator)
        with pytest.raises(SystemExit, match="0"):
            main(["transform", str(tmp_path / name), str(tmp_path / "new.csv"), "-o", str(tmp_path / "out.csv")])
        written = pd.read_csv(tmp_path / "out.csv", index_col=0)
        np.testing.assert_allclose(written, shares, atol=1e-6)
        assert list(written) == ["SBS1", "SBS2", "SBS3"]
        np.testing.assert_allclose(um.analysis.transform(tmp_path / name, new), shares, atol=1e-6)


BAD: dict[str, tuple[Any, dict[str, Any], str]] = {
    "one dimension": ([1.0, 2.0], {}, r"F has shape \(2,\); use features × topics"),
    "no topics": (np.ones((3, 0)), {}, r"F has shape \(3, 0\)"),
    "negative": ([[1.0, 0.5], [-1.0, 2.0]], {}, r"F\[1, 0\] is -1"),
    "not a number": ([[1.0, np.nan]], {}, r"F\[0, 1\] is nan"),
    "a dead topic": ([[1.0, 0.0], [1.0, 0.0]], {}, "column 1 of F is all zero"),
    "two columns of text": (
        pd.DataFrame({"a": ["x"], "b": ["y"], "c": [1.0]}),
        {},
        "the columns 'a' and 'b' of F are text",
    ),
    "too few names": ([[1.0], [1.0]], {"features": ["a"]}, "1 names for 2 features"),
    "a wrong parameter": ([[1.0], [1.0]], {"dtype": "float8"}, "dtype='float8'"),
}


@pytest.mark.parametrize("case", BAD)
def test_bad_factors_are_refused(case: str) -> None:
    F, more, message = BAD[case]
    with pytest.raises(ValueError, match=message):
        um.PoissonNMF.from_factors(F, **more)


def test_a_catalogue_finds_the_types_of_counts_in_any_order_and_without_some() -> None:
    """As COSMIC's file and a table of tumours, which list the same types in two orders."""
    catalogue = pd.DataFrame(known(), index=FEATURES, columns=["SBS1", "SBS5", "SBS18"])
    model = um.PoissonNMF.from_factors(catalogue)
    tumours = pd.DataFrame(random_counts(), columns=FEATURES)
    expected = model.transform(um.Counts(tumours))
    np.testing.assert_allclose(model.transform(tumours[FEATURES[::-1]]), expected)
    with pytest.warns(UserWarning, match="1 feature of the fit is not in X: taken as not measured"):
        fewer = model.transform(tumours[FEATURES[:-1]])
    np.testing.assert_allclose(fewer, um.PoissonNMF.from_factors(catalogue[:-1]).transform(tumours[FEATURES[:-1]]))
