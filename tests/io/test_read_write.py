"""Fits become folders and Counts become files, whole or not at all."""

from functools import partial

import numpy as np
import pandas as pd
import pytest
import scipy.sparse as sp

import unmix as um
from unmix.io.read import read
from unmix.io.write import write_counts, write_fit

MATRIX = np.array([[1, 0, 2, 0], [0, 3, 0, 0], [5, 0, 0, 7]])
SAMPLES, FEATURES = ["x", "y", "z"], ["ant", "bee", "cat", "dog"]


@pytest.fixture(scope="module")
def fit():
    rng = np.random.default_rng(0)
    return um.TopicModel(2, random_state=0, init="random").fit(rng.poisson(2, (12, 9))).result_


def same(counts, other):
    return counts.shape == other.shape and (counts.csr != other.csr).nnz == 0


def test_written_counts_read_back_the_same_with_their_names_and_metadata(tmp_path):
    metadata = pd.DataFrame({"year": [1790, 1791, 1792], "party": ["NA", np.nan, "d, r"]})
    counts = um.Counts(MATRIX, SAMPLES, FEATURES, metadata)
    write_counts(counts, tmp_path / "counts.npz")
    again = read(tmp_path / "counts.npz")
    assert same(again, counts)
    assert again.samples.tolist() == SAMPLES
    assert again.features.tolist() == FEATURES
    pd.testing.assert_frame_equal(again.metadata, metadata)
    assert (sp.load_npz(tmp_path / "counts.npz") != counts.csr).nnz == 0, "scipy reads it too"


def test_written_counts_hold_no_objects(tmp_path):
    write_counts(um.Counts(MATRIX, SAMPLES, FEATURES), tmp_path / "counts.npz")
    with np.load(tmp_path / "counts.npz", allow_pickle=False) as archive:
        assert {archive[name].dtype.kind for name in archive} <= set("biufS")


def test_a_folder_holds_the_fit_in_tables(fit, tmp_path):
    folder = tmp_path / "new" / "results"
    write_fit(fit, folder)
    names = ["exposures.csv", "model.safetensors", "proportions.csv", "top_features.csv", "topics.csv", "trace.csv"]
    assert sorted(path.name for path in folder.iterdir()) == names
    texts = partial(
        pd.read_csv, dtype=str
    )  # and Python's own float: versions of pandas differ in the last digit of theirs
    for name, index, expected in (("proportions", "sample", fit.proportions), ("topics", "feature", fit.topics)):
        written = texts(folder / f"{name}.csv", index_col=index).to_numpy(object)
        np.testing.assert_array_equal([[float(number) for number in row] for row in written], expected)
    assert [float(number) for number in texts(folder / "trace.csv")["loglik"]] == fit.trace["loglik"].tolist()
    assert set(pd.read_csv(folder / "top_features.csv")["topic"]) == {1, 2}
    assert um.load(folder / "model.safetensors").loglik == fit.loglik


def test_only_a_fit_that_did_not_converge_is_saved_with_its_solver(fit, tmp_path):
    write_fit(fit, tmp_path / "done")
    assert um.load(tmp_path / "done" / "model.safetensors").state is None
    short = (
        um.TopicModel(2, random_state=0, max_iter=2, tol=0).fit(np.random.default_rng(0).poisson(3, (12, 9))).result_
    )
    write_fit(short, tmp_path / "short")
    assert um.load(tmp_path / "short" / "model.safetensors").state is not None


def test_an_earlier_fit_is_replaced_and_other_files_stay(fit, tmp_path):
    folder = tmp_path / "results"
    write_fit(fit, folder)
    (folder / "trace.csv").write_text("old")
    (folder / "notes.txt").write_text("mine")
    assert write_fit(fit, folder) == {}
    assert (folder / "trace.csv").read_text() != "old"
    assert (folder / "notes.txt").read_text() == "mine"
    assert list(tmp_path.iterdir()) == [folder], "nothing temporary is left behind"


def test_a_model_that_cannot_be_written_leaves_the_previous_results_intact(fit, tmp_path, monkeypatch):
    folder = tmp_path / "results"
    write_fit(fit, folder)
    before = {path.name: path.read_bytes() for path in folder.iterdir()}

    def fail(self, path, **how):
        path.write_text("half a model")
        raise OSError("no space left")

    monkeypatch.setattr(um.Fit, "save", fail)
    with pytest.raises(OSError, match="no space left"):
        write_fit(fit, folder)
    assert {path.name: path.read_bytes() for path in folder.iterdir()} == before
    assert list(tmp_path.iterdir()) == [folder]


def test_a_failing_swap_leaves_the_previous_results(fit, tmp_path, monkeypatch):
    folder = tmp_path / "results"
    write_fit(fit, folder)
    (folder / "trace.csv").write_text("old")
    rename = type(folder).rename

    def stubborn(self, target):
        if self.name == "new":
            raise OSError("cannot rename")
        return rename(self, target)

    def fail(one, other):
        raise OSError("cannot exchange")

    monkeypatch.setattr(type(folder), "rename", stubborn)
    for exchange, problem in ((fail, "cannot exchange"), (lambda one, other: False, "cannot rename")):
        monkeypatch.setattr("unmix.storage.files.exchange", exchange)
        with pytest.raises(OSError, match=problem):
            write_fit(fit, folder)
        assert (folder / "trace.csv").read_text() == "old"
        assert list(tmp_path.iterdir()) == [folder]


def test_a_folder_with_other_things_is_refused_unless_forced(fit, tmp_path):
    folder = tmp_path / "thesis"
    folder.mkdir()
    (folder / "chapter.tex").write_text("years of work")
    with pytest.raises(FileExistsError, match="thesis: holds files that are not a fit's"):
        write_fit(fit, folder)
    assert [path.name for path in folder.iterdir()] == ["chapter.tex"]
    write_fit(fit, folder, force=True)
    assert (folder / "chapter.tex").read_text() == "years of work"
    assert (folder / "model.safetensors").is_file()


def test_places_that_cannot_be_replaced_are_refused(fit, tmp_path, monkeypatch):
    (tmp_path / "file").write_text("")
    with pytest.raises(FileExistsError, match="file: is a file"):
        write_fit(fit, tmp_path / "file")
    (tmp_path / "here").mkdir()
    monkeypatch.chdir(tmp_path / "here")
    with pytest.raises(FileExistsError, match="use a new folder inside it"):
        write_fit(fit, ".")
