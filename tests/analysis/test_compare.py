"""Two fits side by side, and a fit beside a catalogue: pairs, distances, what differs, in Python and in the terminal."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest
from conftest import random_counts

import unmix as um
from unmix.cli import main

FEATURES = [f"type {j}" for j in range(15)]
SAMPLES = [f"tumour {i}" for i in range(12)]


def a_fit(K: int = 3, seed: int = 0, **options: Any) -> um.Fit:
    X = um.Counts(random_counts(), samples=SAMPLES, features=FEATURES)
    return um.TopicModel(K, random_state=seed, **options).fit(X).result_


def rearranged(fit: um.Fit, topics: list[int], features: np.ndarray, samples: np.ndarray) -> um.Fit:
    """The same fit in another order."""
    from dataclasses import replace

    assert fit.features is not None
    assert fit.samples is not None
    L, F = fit.L[np.ix_(samples, topics)], fit.F[np.ix_(features, topics)]
    return replace(fit, L=L, F=F, features=fit.features[features], samples=fit.samples[samples], metadata=None)


def told(arguments: list[Any], capsys: pytest.CaptureFixture[str], code: str = "0") -> str:
    with pytest.raises(SystemExit, match=code):
        main([str(argument) for argument in arguments])
    captured = capsys.readouterr()
    return captured.out + captured.err


def test_a_fit_in_another_order_of_topics_features_and_samples_is_itself() -> None:
    fit, rng = a_fit(), np.random.default_rng(0)
    other = rearranged(fit, [2, 0, 1], rng.permutation(15), rng.permutation(12))
    found = um.compare(fit, other)
    partner = dict(zip(found.table["topic"], found.table["other"], strict=True))
    assert partner == {1: 2, 2: 3, 3: 1}
    np.testing.assert_allclose(found.table["hellinger"], 0, atol=1e-6)
    np.testing.assert_allclose(found.table["cosine"], 1)
    np.testing.assert_allclose(found.table["difference"], 0, atol=1e-12)
    assert found.samples == 12
    assert found.mean_difference == pytest.approx(0)
    assert found.advice() == []


def test_distances_and_differences_are_what_they_say() -> None:
    one, two = a_fit(), a_fit(seed=1, init="random", max_iter=2, tol=0)
    found = um.compare(one, two)
    for row in found.table.itertuples():
        f, g = one.topics[:, row.topic - 1], two.topics[:, row.other - 1]
        assert row.hellinger == pytest.approx(np.sqrt(1 - np.sqrt(f * g).sum()))
        assert row.cosine == pytest.approx(f @ g / np.linalg.norm(f) / np.linalg.norm(g))
        change = two.proportions[:, row.other - 1] - one.proportions[:, row.topic - 1]
        assert row.difference == pytest.approx(np.abs(change).mean())
    largest = found.proportions.iloc[0]
    i = SAMPLES.index(largest["sample"])
    assert largest["difference"] == pytest.approx(
        two.proportions[i, largest["other"] - 1] - one.proportions[i, largest["topic"] - 1]
    )
    assert found.proportions["difference"].abs().is_monotonic_decreasing
    assert found.mean_difference == pytest.approx(found.table["difference"].mean())


def test_topics_of_the_larger_fit_that_nobody_matches_stand_alone() -> None:
    for one, two, column in ((a_fit(3), a_fit(4), "other"), (a_fit(4), a_fit(3), "topic")):
        found = um.compare(one, two)
        alone = found.table[found.table["hellinger"].isna()]
        assert len(alone) == 1
        assert len(found.table) == 4
        which = "second" if column == "other" else "first"
        assert found.advice()[0] == f"topic {alone[column].iloc[0]} of the {which} fit has no partner"


def test_other_samples_are_not_compared_and_features_of_one_fit_alone_count_as_nothing() -> None:
    fit = a_fit()
    other = um.TopicModel.from_factors(pd.DataFrame(fit.F[:10], index=FEATURES[:10])).result_
    found = um.compare(fit, other)
    assert found.samples == 0
    assert np.isnan(found.mean_difference)
    assert len(found.proportions) == 0
    kept = fit.topics[:10].sum(axis=0)
    expected = np.sqrt(1 - np.sqrt(kept))  # Σ √(f f / kept) = √kept
    np.testing.assert_allclose(found.table["hellinger"], expected[found.table["topic"] - 1])


def test_fits_that_have_nothing_in_common_are_refused() -> None:
    with pytest.raises(ValueError, match=r"no feature in common: 'type 0' … and 'a' …"):
        um.compare(a_fit(), um.TopicModel.from_factors(np.ones((2, 2)), features=["a", "b"]).result_)
    with pytest.raises(ValueError, match="the second fit has 2 features and the first has 15; use the same features"):
        um.compare(a_fit(), um.TopicModel.from_factors(np.ones((2, 2))).result_)


def test_a_comparison_survives_its_file(tmp_path: Path) -> None:
    found = um.compare(a_fit(3), a_fit(4))
    found.save(tmp_path / "found.safetensors")
    again = um.Comparison.load(tmp_path / "found.safetensors")
    np.testing.assert_array_equal(again.table["hellinger"], found.table["hellinger"])
    assert again.samples == 12


# --- catalogues ------------------------------------------------------------------------------------------------------


def catalogue() -> pd.DataFrame:
    fit = a_fit()
    known = pd.DataFrame(fit.topics[:, [1, 2, 0]] * [1, 5, 0.1], index=FEATURES, columns=["SBS2", "SBS3", "SBS1"])
    known["flat"] = 1.0
    return known


def test_topics_find_themselves_in_a_catalogue_in_another_order_and_on_another_scale() -> None:
    fit = a_fit()
    found = um.match_catalogue(fit, catalogue().sample(frac=1, random_state=0))
    assert dict(zip(found.table["topic"], found.table["best"], strict=True)) == {1: "SBS1", 2: "SBS2", 3: "SBS3"}
    np.testing.assert_allclose(found.table["cosine"], 1)
    assert (found.table["second_cosine"] < 1).all()
    assert found.cosines.shape == (3, 4)
    assert um.match_catalogue(fit, catalogue()[["flat"]]).table["second"].isna().all()
    assert um.match_catalogue(fit, catalogue()[["flat"]]).advice()


@pytest.mark.parametrize("ending", [".csv", ".txt"])
def test_a_catalogue_is_read_from_a_file(tmp_path: Path, ending: str) -> None:
    path = tmp_path / f"catalogue{ending}"
    catalogue().to_csv(path, sep="," if ending == ".csv" else "\t", index_label="Type")
    pd.testing.assert_frame_equal(
        um.match_catalogue(a_fit(), path).table, um.match_catalogue(a_fit(), catalogue()).table
    )


def test_a_substitution_and_its_trinucleotide_name_a_type(tmp_path: Path) -> None:
    table = pd.DataFrame({"Type": ["C>A", "T>G"], "SubType": ["ACA", "GTC"], "SBS1": [0.5, 0.5]})
    table.to_csv(tmp_path / "known.csv", index=False)
    fit = um.PoissonNMF.from_factors([[1.0], [1.0]], features=["A[C>A]A", "G[T>G]C"]).result_
    assert um.match_catalogue(fit, tmp_path / "known.csv").table["cosine"][0] == pytest.approx(1)


def test_features_that_the_catalogue_lacks_count_as_nothing_and_are_told() -> None:
    with pytest.warns(UserWarning, match="5 of 15 features of the fit are not in the catalogue"):
        found = um.match_catalogue(a_fit(), catalogue().iloc[:10])
    assert (found.table["cosine"] < 1).all()


BAD = {
    "no file": ("nowhere.csv", "nowhere.csv: no such file"),
    "words": (pd.DataFrame({"a": ["x"]}, index=["type 0"]), "column 'a' has entries that are not numbers"),
    "negative": (pd.DataFrame({"a": [-1.0]}, index=["type 0"]), "column 'a' has entries"),
    "other features": (pd.DataFrame({"a": [1.0]}, index=["x"]), r"no feature of the catalogue \(x …\).*\(type 0 …\)"),
    "twice": (pd.DataFrame({"a": [1.0, 2.0]}, index=["type 0"] * 2), "two rows are called 'type 0'"),
    "nothing": (pd.DataFrame(), "holds no table"),
}


@pytest.mark.parametrize("case", BAD)
def test_bad_catalogues_are_refused(case: str) -> None:
    given, message = BAD[case]
    with pytest.raises(ValueError, match=message):
        um.match_catalogue(a_fit(), given)


# --- the terminal ----------------------------------------------------------------------------------------------------


def test_the_terminal_compares_two_fits(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    one, two = tmp_path / "one.safetensors", tmp_path / "two.safetensors"
    a_fit(3).save(one)
    a_fit(4).save(two)
    said = told(["compare", one, two, "-o", tmp_path / "pairs.csv"], capsys)
    assert "of the second fit has no partner" in said
    written = pd.read_csv(tmp_path / "pairs.csv")
    expected = um.compare(a_fit(3), a_fit(4)).table
    np.testing.assert_allclose(written["hellinger"], expected["hellinger"])
    answer = json.loads(told(["compare", one, two, "--json"], capsys).partition("\nnote")[0])
    assert len(answer["table"]) == 4
    assert answer["table"][-1]["topic"] is None
    assert answer["samples"] == 12
    told(["compare", one, two, "-o", tmp_path / "pairs.png"], capsys)
    assert (tmp_path / "pairs.png").read_bytes().startswith(b"\x89PNG")


def test_the_terminal_finds_topics_in_a_catalogue(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    a_fit().save(tmp_path / "one.safetensors")
    catalogue().to_csv(tmp_path / "known.csv")
    said = told(["compare", tmp_path / "one.safetensors", tmp_path / "known.csv"], capsys)
    assert "SBS1" in said
    assert "1.000" in said
    told(["compare", tmp_path / "one.safetensors", tmp_path / "known.csv", "-o", tmp_path / "x.png"], capsys)
    assert (tmp_path / "x.png").read_bytes().startswith(b"\x89PNG")
    said = told(["compare", tmp_path / "one.safetensors", tmp_path / "nothing"], capsys, "2")
    assert "nothing: no such file" in said
