"""Files become Counts and fits become folders, whole or not at all."""

from dataclasses import replace
from functools import partial

import numpy as np
import pandas as pd
import pytest
import scipy.io
import scipy.sparse as sp

import unmix as um
from unmix.data.read import READERS, read
from unmix.data.write import write_counts, write_fit

MATRIX = np.array([[1, 0, 2, 0], [0, 3, 0, 0], [5, 0, 0, 7]])
SAMPLES, FEATURES = ["x", "y", "z"], ["ant", "bee", "cat", "dog"]


@pytest.fixture(scope="module")
def fit():
    rng = np.random.default_rng(0)
    return um.TopicModel(2, random_state=0, init="random").fit(rng.poisson(2, (12, 9))).result_


def same(counts, other):
    return counts.shape == other.shape and (counts.csr != other.csr).nnz == 0


def save_npz(path, table):
    sp.save_npz(path, sp.csr_array(table.to_numpy()))
    (path.parent / "features.txt").write_text("\n".join(table.columns) + "\n", encoding="utf-8")
    pd.DataFrame({"sample": table.index, "year": [1790, 1791, 1792]}).to_csv(path.parent / "samples.csv", index=False)


def save_mtx(path, table):
    scipy.io.mmwrite(path, sp.coo_array(table.to_numpy()))


def save_csv(path, table):
    table.to_csv(path)


SAVERS = {".npz": save_npz, ".mtx": save_mtx, ".csv": save_csv}


@pytest.mark.parametrize("ending", READERS)
def test_each_format_round_trips_to_the_same_counts(ending, tmp_path):
    table = pd.DataFrame(MATRIX, index=SAMPLES, columns=FEATURES)
    SAVERS[ending](tmp_path / f"counts{ending}", table)
    counts = read(tmp_path / f"counts{ending}")
    assert same(counts, um.Counts(MATRIX))
    if ending != ".mtx":  # which has no place for names
        assert counts.samples.tolist() == SAMPLES
        assert counts.features.tolist() == FEATURES


def test_ending_may_be_in_capitals(tmp_path):
    (tmp_path / "COUNTS.CSV").write_text(",a\nx,1\n")
    assert read(str(tmp_path / "COUNTS.CSV")).total == 1


def test_metadata_beside_a_matrix_come_along(tmp_path):
    save_npz(tmp_path / "counts.npz", pd.DataFrame(MATRIX, index=SAMPLES, columns=FEATURES))
    assert read(tmp_path / "counts.npz").metadata.to_dict("list") == {"year": [1790, 1791, 1792]}


@pytest.mark.parametrize(
    ("name", "content", "problem"),
    [
        ("features.txt", b"ant\nbee\n", "has 2 rows for 4"),
        ("features.txt", b"\xff\xfe\x00", "cannot be read"),
        ("samples.csv", b"year\n1790\n", "has 1 rows for 3"),
        ("samples.csv", b"a\n1\n2,3\n", "cannot be read"),
    ],
)
def test_neighbours_that_do_not_fit_are_left_aside_with_a_warning(name, content, problem, tmp_path):
    sp.save_npz(tmp_path / "counts.npz", sp.csr_array(MATRIX))
    (tmp_path / name).write_bytes(content)
    with pytest.warns(UserWarning, match=rf"{name}: left aside, it {problem}"):
        counts = read(tmp_path / "counts.npz")
    assert counts.features is None
    assert counts.metadata is None


CSV_LAYOUTS = {
    "pandas with an index": (",ant,bee\n0,1,2\n1,3,4\n", ["0", "1"]),
    "pandas without an index": ("ant,bee\n1,2\n3,4\n", None),
    "R's write.csv": ('"","ant","bee"\n"s1",1,2\n"s2",3,4\n', ["s1", "s2"]),
    "R's write.table, no header for row names": ("ant,bee\ns1,1,2\ns2,3,4\n", ["s1", "s2"]),
    "named column of text": ("sample,ant,bee\ns1,1,2\ns2,3,4\n", ["s1", "s2"]),
    "names that look like missing values": (",ant,bee\nNA,1,2\nnull,3,4\n", ["NA", "null"]),
    "a byte order mark and Windows line ends": ("\ufeff,ant,bee\r\ns1,1,2\r\ns2,3,4\r\n", ["s1", "s2"]),
    "quoted newlines": (',ant,bee\n"s\n1",1,2\ns2,3,4\n', ["s\n1", "s2"]),
}


@pytest.mark.parametrize("layout", CSV_LAYOUTS)
def test_csv_files_are_understood_as_people_write_them(layout, tmp_path):
    text, samples = CSV_LAYOUTS[layout]
    (tmp_path / "counts.csv").write_bytes(text.encode())
    counts = read(tmp_path / "counts.csv")
    assert counts.csr.toarray().tolist() == [[1, 2], [3, 4]]
    assert counts.features.tolist() == ["ant", "bee"]
    assert samples == (None if counts.samples is None else counts.samples.tolist())


def test_csv_keeps_features_that_share_a_name(tmp_path):
    (tmp_path / "counts.csv").write_text(",gene,gene\nx,1,2\n")
    assert read(tmp_path / "counts.csv").features.tolist() == ["gene", "gene"]


def test_numbers_under_an_id_are_counts_but_not_silently(tmp_path):
    (tmp_path / "counts.csv").write_text("id,ant\n1,5\n2,6\n")
    with pytest.warns(UserWarning, match="'id', holds numbers and is taken as counts"):
        assert read(tmp_path / "counts.csv").shape == (2, 2)


def test_an_array_of_objects_is_never_unpickled(tmp_path):
    class Trap:
        def __reduce__(self):
            return (pytest.fail, ("the file was unpickled",))

    np.savez(tmp_path / "trap.npz", format=np.array([Trap()], dtype=object))
    with pytest.raises(ValueError, match="allow_pickle=False"):
        read(tmp_path / "trap.npz")


def test_indices_beyond_the_matrix_are_refused(tmp_path):
    matrix = sp.csr_array(MATRIX)
    matrix.indices[0] = 1000
    sp.save_npz(tmp_path / "counts.npz", matrix)
    with pytest.raises(ValueError, match="no sparse matrix that can be read"):
        read(tmp_path / "counts.npz")


def test_missing_file_is_file_not_found(tmp_path):
    with pytest.raises(FileNotFoundError, match=r"none\.npz: no such file"):
        read(tmp_path / "none.npz")


def test_written_counts_read_back_the_same(tmp_path):
    write_counts(um.Counts(MATRIX), tmp_path / "counts.npz")
    assert same(read(tmp_path / "counts.npz"), um.Counts(MATRIX))


def test_a_folder_holds_the_fit_in_tables(fit, tmp_path):
    folder = tmp_path / "new" / "results"
    write_fit(fit, folder)
    names = ["model.safetensors", "proportions.csv", "top_features.csv", "topics.csv", "trace.csv"]
    assert sorted(path.name for path in folder.iterdir()) == names
    table = partial(pd.read_csv, float_precision="round_trip")
    np.testing.assert_array_equal(table(folder / "proportions.csv", index_col="sample"), fit.proportions)
    np.testing.assert_array_equal(table(folder / "topics.csv", index_col="feature"), fit.topics)
    pd.testing.assert_series_equal(table(folder / "trace.csv")["loglik"], fit.trace["loglik"])
    assert set(pd.read_csv(folder / "top_features.csv")["topic"]) == {1, 2}
    assert um.load(folder / "model.safetensors").loglik == fit.loglik


def test_only_a_fit_that_did_not_converge_is_saved_with_its_solver(fit, tmp_path):
    write_fit(fit, tmp_path / "done")
    assert um.load(tmp_path / "done" / "model.safetensors").state is None
    write_fit(replace(fit, status="max_iter"), tmp_path / "short")
    assert um.load(tmp_path / "short" / "model.safetensors").state is not None


def test_an_earlier_fit_is_replaced_and_other_files_stay(fit, tmp_path):
    folder = tmp_path / "results"
    write_fit(fit, folder)
    (folder / "trace.csv").write_text("old")
    (folder / "notes.txt").write_text("mine")
    write_fit(fit, folder, pictures={"dot.png": lambda path: path.write_text("picture") and None})
    assert (folder / "trace.csv").read_text() != "old"
    assert (folder / "notes.txt").read_text() == "mine"
    assert (folder / "dot.png").read_text() == "picture"
    assert list(tmp_path.iterdir()) == [folder], "nothing temporary is left behind"


def test_a_failing_write_leaves_the_previous_results_intact(fit, tmp_path):
    folder = tmp_path / "results"
    write_fit(fit, folder)
    before = {path.name: path.read_bytes() for path in folder.iterdir()}

    def fail(path):
        path.write_text("half a pic")
        raise OSError("no space left")

    with pytest.raises(OSError, match="no space left"):
        write_fit(fit, folder, pictures={"structure.png": fail})
    assert {path.name: path.read_bytes() for path in folder.iterdir()} == before
    assert list(tmp_path.iterdir()) == [folder]


def test_a_failing_swap_puts_the_previous_results_back(fit, tmp_path, monkeypatch):
    folder = tmp_path / "results"
    write_fit(fit, folder)
    (folder / "trace.csv").write_text("old")
    rename = type(folder).rename

    def stubborn(self, target):
        if self.name == "new":
            raise OSError("cannot rename")
        return rename(self, target)

    monkeypatch.setattr(type(folder), "rename", stubborn)
    with pytest.raises(OSError, match="cannot rename"):
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
    with pytest.raises(FileExistsError, match="give a new folder inside it"):
        write_fit(fit, ".")
