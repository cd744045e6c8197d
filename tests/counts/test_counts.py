"""Counts takes whatever holds counts, says what is wrong with anything else, and leaves its input as it was."""

from __future__ import annotations

import copy
import tracemalloc
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest
import scipy.sparse as sp
from conftest import ARRAY_TYPES, awkward_counts, random_counts
from scipy.special import gammaln

import unmix as um
from unmix import Counts
from unmix.kernels import CSR


def same_rows(one: CSR, two: CSR) -> bool:
    return all(a.dtype == b.dtype and np.array_equal(a, b) for a, b in zip(one, two, strict=True))


def messy_arrays() -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """data, indices, indptr of [[0, 5, 0, 2], [0, 0, 0, 0], [3, 0, 0, 1]]: unsorted, with duplicates and explicit zeros."""
    data = np.array([2.0, 4.0, 1.0, 0.0, 0.0, 1.0, 3.0])
    indices = np.array([3, 1, 1, 0, 2, 3, 0])
    return data, indices, np.array([0, 4, 5, 7])


CLEAN = np.array([[0, 5, 0, 2], [0, 0, 0, 0], [3, 0, 0, 1.0]])


def messy_coo(kind: Any) -> Any:
    data, indices, indptr = messy_arrays()
    return kind((data, (np.repeat(np.arange(3), np.diff(indptr)), indices)), shape=(3, 4))


def messy_csc(kind: Any) -> Any:
    """The same counts by column: entries of a column unsorted, one of them in two parts, an explicit zero."""
    data = np.array([3.0, 0.0, 4.0, 1.0, 1.0, 2.0])
    return kind((data, np.array([2, 0, 0, 0, 2, 0]), np.array([0, 2, 4, 4, 6])), shape=(3, 4))


MESSY = {
    "csr_matrix": lambda: sp.csr_matrix(messy_arrays(), shape=(3, 4)),
    "csr_array": lambda: sp.csr_array(messy_arrays(), shape=(3, 4)),
    "coo_matrix": lambda: messy_coo(sp.coo_matrix),
    "coo_array": lambda: messy_coo(sp.coo_array),
    "csc_matrix": lambda: messy_csc(sp.csc_matrix),
    "csc_array": lambda: messy_csc(sp.csc_array),
}


@pytest.mark.parametrize("dtype", ["float64", "float32", "int64", "int32", "uint8"])
@pytest.mark.parametrize("kind", ARRAY_TYPES)
def test_every_array_type_gives_the_same_arrays(kind: str, dtype: str) -> None:
    X = random_counts(seed=4)
    want = Counts(sp.csr_array(X))
    got = Counts(ARRAY_TYPES[kind](X.astype(dtype)))
    assert same_rows(got.rows, want.rows)
    assert same_rows(got.columns, want.columns)
    assert got.shape == X.shape
    assert (got.rows.indptr.dtype, got.rows.indices.dtype, got.rows.data.dtype) == (np.int64, np.int32, np.float64)
    np.testing.assert_array_equal(got.csr.toarray(), X)


def test_fractional_counts_are_kept_to_the_last_digit(array_type: Any) -> None:
    X = random_counts() / 3
    np.testing.assert_array_equal(Counts(array_type(X)).csr.toarray(), X)


def test_booleans_are_counts_of_zero_and_one() -> None:
    np.testing.assert_array_equal(Counts(np.array([[True, False]])).csr.toarray(), [[1, 0]])


def test_numbers_stored_as_objects_are_counts() -> None:
    np.testing.assert_array_equal(Counts(np.array([[1, 0], [2.5, 3]], dtype=object)).csr.toarray(), [[1, 0], [2.5, 3]])


def test_half_precision_counts_are_counts() -> None:
    np.testing.assert_array_equal(Counts(np.array([[1, 0, 2.5]], dtype=np.float16)).csr.toarray(), [[1, 0, 2.5]])


@pytest.mark.parametrize("kind", MESSY)
def test_duplicates_are_summed_zeros_dropped_and_indices_sorted(kind: str) -> None:
    X = Counts(MESSY[kind]())
    assert same_rows(X.rows, Counts(CLEAN).rows)
    np.testing.assert_array_equal(X.rows.indptr, [0, 2, 2, 4])
    np.testing.assert_array_equal(X.rows.indices, [1, 3, 0, 3])
    np.testing.assert_array_equal(X.rows.data, [5, 2, 3, 1])


@pytest.mark.parametrize("dtype", ["uint8", "int8", "bool"])
@pytest.mark.parametrize("form", ["tocoo", "tocsr", "tocsc"])
def test_duplicates_of_a_narrow_type_do_not_overflow(form: str, dtype: str) -> None:
    value = {"uint8": 200, "int8": 100, "bool": 1}[dtype]
    data, place = np.full(3, value, dtype=dtype), np.zeros(3, dtype=int)
    matrix = {
        "tocoo": lambda: sp.coo_array((data, (place, place)), shape=(1, 1)),
        "tocsr": lambda: sp.csr_array((data, place, [0, 3]), shape=(1, 1)),
        "tocsc": lambda: sp.csc_array((data, place, [0, 3]), shape=(1, 1)),
    }[form]()
    assert Counts(matrix).total == 3 * value


@pytest.mark.parametrize("kind", MESSY)
def test_a_sparse_input_is_left_as_it_was(kind: str) -> None:
    matrix = MESSY[kind]()
    before = copy.deepcopy(matrix)
    Counts(matrix)
    names = ("data", "row", "col") if matrix.format == "coo" else ("data", "indices", "indptr")
    for name in names:
        np.testing.assert_array_equal(getattr(matrix, name), getattr(before, name))


def test_explicit_zeros_in_an_otherwise_clean_matrix_stay_in_the_input() -> None:
    matrix = sp.csr_array((np.array([1.0, 0.0, 2.0]), np.array([0, 1, 0]), np.array([0, 2, 3])), shape=(2, 2))
    assert Counts(matrix).nnz == 2
    assert matrix.nnz == 3
    np.testing.assert_array_equal(matrix.data, [1, 0, 2])


def test_a_dense_or_tabular_input_is_left_as_it_was() -> None:
    X = awkward_counts()
    dense, frame = X.copy(), pd.DataFrame(X.copy())
    Counts(dense)
    Counts(frame)
    np.testing.assert_array_equal(dense, X)
    np.testing.assert_array_equal(frame.to_numpy(), X)


def test_names_of_a_frame_are_kept_as_text() -> None:
    X = Counts(pd.DataFrame([[1, 2], [3, 4]], index=[1990, 1991], columns=["ant", "bee"]))
    assert X.samples is not None
    assert X.features is not None
    assert X.samples.tolist() == ["1990", "1991"]
    assert X.features.tolist() == ["ant", "bee"]


def test_names_given_by_hand_win_over_those_of_a_frame() -> None:
    X = Counts(pd.DataFrame([[1, 2]], columns=["ant", "bee"]), samples=["first"], features=["cat", "dog"])
    assert (X.samples.tolist(), X.features.tolist()) == (["first"], ["cat", "dog"])


def test_an_array_has_no_names() -> None:
    X = Counts([[1, 2]])
    assert X.samples is None
    assert X.features is None


def test_counts_of_counts_keep_names_metadata_and_memory() -> None:
    metadata = pd.DataFrame({"year": [1, 2]})
    X = Counts([[1, 2], [3, 4]], samples=["a", "b"], features=["c", "d"], metadata=metadata)
    again = Counts(X)
    assert again.rows is X.rows
    assert again.metadata is metadata
    assert (again.samples.tolist(), again.features.tolist()) == (["a", "b"], ["c", "d"])
    assert Counts(X, features=["e", "f"]).features.tolist() == ["e", "f"]


@pytest.mark.parametrize("which", ["samples", "features"])
def test_a_wrong_number_of_names_is_refused(which: str) -> None:
    with pytest.raises(ValueError, match=rf"1 names for 2 {which}; use one name each"):
        Counts(np.ones((2, 2)), **{which: ["only"]})


def test_metadata_of_another_length_are_refused() -> None:
    with pytest.raises(ValueError, match="metadata has 3 rows for 2 samples"):
        Counts(np.ones((2, 2)), metadata=pd.DataFrame({"year": [1, 2, 3]}))


BAD_VALUES = {
    "negative": (-3.0, r"Negative .*: -3 at row 2, column 1"),
    "NaN": (np.nan, r"NaN: nan at row 2, column 1"),
    "infinite": (np.inf, r"infinity: inf at row 2, column 1"),
    "minus infinite": (-np.inf, r"infinity: -inf at row 2, column 1"),
}


@pytest.mark.parametrize("value", BAD_VALUES)
@pytest.mark.parametrize("kind", [kind for kind in ARRAY_TYPES if kind != "Counts"])
def test_a_bad_value_is_named_with_its_place(kind: str, value: str) -> None:
    X = random_counts(5, 4)
    X[2, 1], message = BAD_VALUES[value]
    with pytest.raises(ValueError, match=message):
        Counts(ARRAY_TYPES[kind](X))


def test_the_place_of_a_bad_value_is_right_in_an_unsorted_matrix_too() -> None:
    data, indices, indptr = messy_arrays()
    data[5] = -7
    with pytest.raises(ValueError, match="-7 at row 2, column 3"):
        Counts(sp.csr_matrix((data, indices, indptr), shape=(3, 4)))


def test_a_negative_integer_is_named_with_its_place() -> None:
    with pytest.raises(ValueError, match="-3 at row 1, column 0"):
        Counts([[1, 2], [-3, 4]])


@pytest.mark.parametrize(
    "matrix",
    [
        [["a", "b"]],
        np.array([["1", "2"]]),
        np.array([["1", 2]], dtype=object),
        np.array([[b"1", 2]], dtype=object),
        pd.DataFrame({"count": [1, 2], "word": ["ant", "bee"]}),
        pd.DataFrame({"count": pd.array([1, 2], dtype="Int64"), "word": ["ant", "bee"]}),
        pd.DataFrame({"word": pd.Categorical(["ant", "bee"])}),
    ],
    ids=["list", "U", "object", "bytes", "frame", "extension frame", "categorical"],
)
def test_text_is_refused(matrix: Any) -> None:
    with pytest.raises(ValueError, match=r"(holds text|dtype <U\d+); unmix needs numbers"):
        Counts(matrix)


def test_objects_that_are_no_numbers_are_refused() -> None:
    with pytest.raises((TypeError, ValueError), match=r"number.*dict|dict.*number"):
        Counts(np.array([[{}, 2]], dtype=object))


def test_dates_are_refused() -> None:
    with pytest.raises(ValueError, match="'day' holds dates; unmix needs numbers"):
        Counts(pd.DataFrame({"day": pd.to_datetime(["2020-01-01"])}))


@pytest.mark.parametrize(
    "matrix", [np.array([[1j, 2]]), sp.csr_array(np.array([[1j, 2]])), np.array([[1j, 2]], dtype=object)]
)
def test_complex_numbers_are_refused(matrix: Any) -> None:
    with pytest.raises(ValueError, match="Complex data not supported"):
        Counts(matrix)


@pytest.mark.parametrize("kind", [np.zeros, sp.csr_array, sp.coo_matrix, lambda shape: pd.DataFrame(np.zeros(shape))])
@pytest.mark.parametrize(("shape", "missing"), [((0, 3), "sample"), ((3, 0), "feature"), ((0, 0), "sample")])
def test_an_empty_matrix_is_refused(kind: Any, shape: tuple[int, int], missing: str) -> None:
    with pytest.raises(ValueError, match=rf"0 {missing}\(s\)"):
        Counts(kind(shape))


@pytest.mark.parametrize(
    ("matrix", "dimensions"),
    [
        ([1, 2, 3], 1),
        ([], 1),
        (np.float64(3), 0),
        (None, 0),
        (pd.Series([1, 2]), 1),
        (np.ones((2, 2, 2)), 3),
        (sp.coo_array(np.array([1.0, 2.0])), 1),
        (sp.csr_array(np.array([1.0, 2.0])), 1),
    ],
    ids=["list", "empty list", "number", "None", "Series", "3-D", "1-D coo_array", "1-D csr_array"],
)
def test_anything_but_two_dimensions_is_refused(matrix: Any, dimensions: int) -> None:
    with pytest.raises(ValueError, match=rf"Expected 2D array.*{dimensions} dimension"):
        Counts(matrix)


def test_a_masked_entry_is_named_with_its_place() -> None:
    with pytest.raises(ValueError, match=r"\(1, 0\) is masked"):
        Counts(np.ma.masked_array([[1, 2], [3, 4]], mask=[[0, 0], [1, 0]]))


def test_a_masked_array_without_masked_entries_is_an_array() -> None:
    assert Counts(np.ma.masked_array([[1, 2], [3, 4]])).total == 10


def test_a_missing_value_of_pandas_is_named_with_its_place() -> None:
    with pytest.raises(ValueError, match="NaN: nan at row 1, column 0"):
        Counts(pd.DataFrame({"a": pd.array([1, None], dtype="Int64"), "b": [1, 2]}))


def test_nullable_integers_without_missing_values_are_counts() -> None:
    X = Counts(pd.DataFrame({"a": pd.array([1, 3], dtype="Int64"), "b": [1, 2]}))
    np.testing.assert_array_equal(X.csr.toarray(), [[1, 1], [3, 2]])


def test_counts_whose_squares_overflow_are_refused() -> None:
    with pytest.raises(ValueError, match="the counts are too large, up to"):
        Counts([[1e308, 1e308], [1e308, 0]])


def test_more_features_than_an_index_can_hold_are_refused() -> None:
    wide = sp.coo_array((np.ones(1), (np.array([0]), np.array([2**31]))), shape=(1, 2**32))
    with pytest.raises(ValueError, match="up to 2,147,483,647"):
        Counts(wide)


@pytest.mark.parametrize("fill", [0, 1, np.nan])
def test_a_sparse_frame_with_any_fill_value_works(fill: float) -> None:
    frame = pd.DataFrame(
        {
            "a": pd.arrays.SparseArray([1.0, 1.0, 3.0], fill_value=fill),
            "b": pd.arrays.SparseArray([0.0, 1.0, 0.0], fill_value=0),
        }
    )
    X = Counts(frame)
    np.testing.assert_array_equal(X.csr.toarray(), [[1, 0], [1, 1], [3, 0]])
    assert X.nnz == 4


def test_a_frame_that_is_sparse_in_part_works() -> None:
    frame = pd.DataFrame({"a": pd.arrays.SparseArray([1.0, 0.0], fill_value=0), "b": [2, 3]})
    np.testing.assert_array_equal(Counts(frame).csr.toarray(), [[1, 2], [0, 3]])


def test_the_transpose_is_built_once_with_narrow_indices() -> None:
    dense = awkward_counts()
    X = Counts(dense)
    columns = X.columns
    assert X.columns is columns
    assert X.column_order is X.column_order
    assert (columns.indptr.dtype, columns.indices.dtype) == (np.int64, np.int32)
    assert same_rows(columns, Counts(dense.T).rows)


def test_column_order_says_where_a_transposed_entry_stands() -> None:
    X = Counts(awkward_counts())
    row_of = np.repeat(np.arange(X.shape[0]), np.diff(X.rows.indptr))
    column_of = np.repeat(np.arange(X.shape[1]), np.diff(X.columns.indptr))
    np.testing.assert_array_equal(X.rows.data[X.column_order], X.columns.data)
    np.testing.assert_array_equal(row_of[X.column_order], X.columns.indices)
    np.testing.assert_array_equal(X.rows.indices[X.column_order], column_of)


def test_csr_shares_memory_with_the_rows() -> None:
    X = Counts(random_counts())
    assert np.shares_memory(X.csr.data, X.rows.data)
    assert np.shares_memory(X.csr.indices, X.rows.indices)


def test_sums_and_sizes() -> None:
    dense = awkward_counts()
    X = Counts(dense)
    assert X.shape == dense.shape
    assert len(X) == len(dense)
    assert X.nnz == np.count_nonzero(dense)
    assert X.total == pytest.approx(dense.sum(), rel=1e-15)
    np.testing.assert_allclose(X.sample_totals, dense.sum(axis=1), rtol=1e-15)
    np.testing.assert_allclose(X.feature_totals, dense.sum(axis=0), rtol=1e-15)
    assert repr(Counts([[1, 0, 2], [0, 3, 0]])) == "Counts(2 samples × 3 features, 3 nonzeros, total 6)"


@pytest.mark.parametrize("scale", [1, 0.5, 1e5], ids=["small integers", "fractions", "large integers"])
def test_log_factorials_are_the_sum_over_all_counts(scale: float) -> None:
    dense = random_counts() * scale
    assert Counts(dense).log_factorials == pytest.approx(gammaln(dense + 1).sum(), rel=1e-13)


def test_a_matrix_of_zeros_is_counts_without_nonzeros() -> None:
    X = Counts(np.zeros((2, 3)))
    assert (X.nnz, X.total, X.log_factorials) == (0, 0.0, 0.0)
    np.testing.assert_array_equal(X.columns.indptr, [0, 0, 0, 0])


def broken(**arrays: Any) -> sp.csr_array:
    """A CSR matrix whose arrays were changed behind the back of scipy."""
    matrix = sp.csr_array(np.array([[1.0, 0, 2], [0, 3, 0], [4, 0, 5]]))
    for name, values in arrays.items():
        getattr(matrix, name)[:] = values
    return matrix


@pytest.mark.parametrize(
    ("matrix", "said"),
    [
        (broken(indices=[0, 9, 1, 0, 2]), "entry in columns 9, and columns 0 to 2"),
        (broken(indices=[0, -1, 1, 0, 2]), "entry in columns -1"),
        (broken(indptr=[0, 4, 3, 5]), "its indptr does not rise from 0 to 5"),
        (broken(indptr=[0, 2, 3, 50]), "its indptr does not rise"),
        (broken(indptr=[1, 2, 3, 5]), "its indptr does not rise"),
        (broken(indptr=[0, -2, 3, 5]), "its indptr does not rise"),
        (broken(indices=[0, 9, 1, 0, 2]).T, "entry in rows 9, and rows 0 to 2"),
    ],
)
def test_a_sparse_matrix_that_points_outside_itself_is_refused(matrix: Any, said: str) -> None:
    with pytest.raises(ValueError, match=f"broken: .*{said}"):
        Counts(matrix)


def test_a_matrix_of_too_many_rows_is_refused_before_it_is_converted() -> None:
    many = sp.coo_array((np.ones(2), (np.array([0, 2_999_999_999]), np.array([0, 1]))), shape=(3_000_000_000, 10))
    with pytest.raises(ValueError, match="the matrix is 3000000000 × 10; unmix takes up to"):
        Counts(many)


def test_one_long_name_takes_the_room_it_needs(tmp_path: Path) -> None:
    names = ["x" * 100_000, *(f"f{i}" for i in range(2_999))]
    to_anndata, to_fit = um.sc.from_fit, um.sc.to_fit  # importing them takes long while memory is watched
    tracemalloc.start()
    try:
        counts = Counts(np.ones((2, 3_000)), features=names)
        fit = um.PoissonNMF(1, max_iter=1, tol=0).fit(counts).result_
        fit.save(tmp_path / "model.safetensors")
        again = um.load(tmp_path / "model.safetensors")
        assert again.top_features(3_000)["feature"].isin(names).all()
        assert to_fit(to_anndata(again)).features.tolist() == names
        assert tracemalloc.get_traced_memory()[1] < 100 << 20  # all names as long as the longest take 1.2 GB
    finally:
        tracemalloc.stop()
    assert counts.features.tolist() == again.features.tolist() == names
    assert counts.take(features=[names[0], "f7"]).features.tolist() == [names[0], "f7"]


def test_a_nul_character_in_a_name_is_refused_where_it_stands() -> None:
    with pytest.raises(ValueError, match=r"the name 'b\\x00d' among the samples has a NUL character"):
        Counts(np.ones((2, 2)), samples=["a", "b\0d"])


@pytest.mark.parametrize(
    ("matrix", "said"),
    [
        ({"a": [1, 2]}, "the matrix is a dict; use an array"),
        ((row for row in [[1, 2], [3, 4]]), "the matrix is a generator; use an array"),
        ([{"a": 1}, {"b": 2}], "the samples are dictionaries; pandas.DataFrame"),
    ],
)
def test_what_is_no_matrix_is_refused_with_what_to_give(matrix: Any, said: str) -> None:
    with pytest.raises(ValueError, match=said):
        Counts(matrix)


def test_numbers_of_the_other_byte_order_are_the_same_numbers() -> None:
    X = random_counts(6, 5)
    np.testing.assert_array_equal(Counts(X.astype(">f8")).csr.toarray(), Counts(X).csr.toarray())


def test_counts_next_to_nothing_are_refused() -> None:
    with pytest.raises(ValueError, match=r"the smallest count is 4.94066e-324, too small .*multiply"):
        Counts(np.array([[1, 2], [3, 4]]) * 5e-324)


@pytest.mark.parametrize(("given", "remedy"), [("counts.npz", "unmix.read "), (["a cat", "a dog"], "unmix.read_texts")])
def test_names_of_files_and_texts_are_refused_with_what_reads_them(given: Any, remedy: str) -> None:
    with pytest.raises(ValueError, match=remedy):
        Counts(given)


def test_arrays_that_begin_anywhere_are_counts_like_any_other():
    """As after a journey through another process, or from a file that was mapped."""
    X = sp.csr_matrix(np.random.default_rng(0).poisson(1.0, (30, 20)).astype(float))
    moved = X.copy()
    for name in ("data", "indices", "indptr"):
        array = getattr(X, name)
        anywhere = np.frombuffer(b"x" + array.tobytes(), dtype=array.dtype, offset=1)
        assert not anywhere.flags.aligned
        setattr(moved, name, anywhere)
    for found, expected in zip(Counts(moved).rows, Counts(X).rows, strict=True):
        np.testing.assert_array_equal(found, expected)
    assert (
        um.TopicModel(3, random_state=0).fit(moved).result_.loglik
        == um.TopicModel(3, random_state=0).fit(X).result_.loglik
    )


def test_an_anndata_gives_its_x_with_names_and_obs() -> None:
    anndata = pytest.importorskip("anndata")
    X = random_counts(30, 12)
    names = [f"cell {i}" for i in range(30)], [f"gene {j}" for j in range(12)]
    obs = pd.DataFrame({"batch": ["a", "b"] * 15}, index=names[0])
    adata = anndata.AnnData(sp.csr_matrix(X.astype(float)), obs=obs, var=pd.DataFrame(index=names[1]))
    counts = Counts(adata)
    assert same_rows(counts.rows, Counts(X).rows)
    assert (counts.samples.tolist(), counts.features.tolist()) == names
    assert counts.metadata["batch"].tolist() == ["a", "b"] * 15
    assert Counts(adata, features=[f"g{j}" for j in range(12)]).features[0] == "g0"
    with pytest.raises(ValueError, match="this AnnData has no X"):
        Counts(anndata.AnnData(obs=obs))
