"""What newcomers bring is read as they mean it: which texts are meant, in which language, and from which files."""

from __future__ import annotations

import json
import sys
import tracemalloc
import warnings
from dataclasses import replace
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
import scipy.sparse as sp
from test_read import MATRIX, TABLE, read_quietly, save_10x, write

import unmix as um
from unmix.cli import main
from unmix.io.read import blocks, kind_of, name_of
from unmix.io.read.tables import Table
from unmix.io.read.words import WIDESPREAD, guessed_language, words

TEXTS = ["one bee hums", "two wasps sting", "three ants dig"]


def table_of_texts(path: Path, **columns: list) -> Path:
    pd.DataFrame(columns | {"text": TEXTS}).to_csv(path, index=False)
    return path


def run(capsys: pytest.CaptureFixture, *words: object) -> tuple[int, str, str]:
    with pytest.raises(SystemExit) as ended:
        main([str(word) for word in words])
    told = capsys.readouterr()
    return ended.value.code, told.out, told.err


# which texts are meant


NAMINGS = {
    "an id": ({"id": [7, 8, 9], "title": ["A", "B", "C"]}, ["7", "8", "9"], {"title": ["A", "B", "C"]}, ""),
    "another id": ({"Article_ID": [7, 8, 9]}, ["7", "8", "9"], None, "named by 'Article_ID'; id_column chooses"),
    "a title": ({"title": ["A", "B", "C"]}, ["A", "B", "C"], {"title": ["A", "B", "C"]}, ""),
    "a headline": (
        {"headline": ["A", "B", "C"]},
        ["A", "B", "C"],
        {"headline": ["A", "B", "C"]},
        "title_column chooses",
    ),
    "repeated titles": (
        {"title": ["A", "B", "A"]},
        ["A", "B", "A-1"],
        {"title": ["A", "B", "A"]},
        "1 sample had the name of an earlier sample",
    ),
    "one title for all": ({"title": ["A"] * 3}, ["text 1", "text 2", "text 3"], {"title": ["A"] * 3}, ""),
    "ids that repeat": ({"doc_id": [1, 1, 2]}, ["text 1", "text 2", "text 3"], {"doc_id": [1, 1, 2]}, ""),
    "a title missing": ({"title": ["A", None, "C"]}, ["A", "text 2", "C"], {"title": ["A", np.nan, "C"]}, ""),
    "pandas' count of rows": (
        {"": [0, 1, 2], "title": ["A", "B", "C"]},
        ["A", "B", "C"],
        {"title": ["A", "B", "C"]},
        "",
    ),
    "row names": ({"": ["x", "y", "z"], "title": ["A", "B", "C"]}, ["x", "y", "z"], {"title": ["A", "B", "C"]}, ""),
}


@pytest.mark.parametrize("case", NAMINGS)
def test_texts_are_named_by_an_id_or_else_a_title_which_stays_in_the_metadata(case, tmp_path):
    columns, samples, metadata, note = NAMINGS[case]
    counts, said = read_quietly(table_of_texts(tmp_path / "a.csv", **columns))
    assert counts.samples.tolist() == samples
    assert (counts.metadata is None) == (metadata is None)
    if metadata is not None:
        pd.testing.assert_frame_equal(counts.metadata, pd.DataFrame(metadata))
    assert [note in told for told in said] == [True] * bool(note)


def test_columns_of_ids_and_titles_can_be_chosen(tmp_path):
    path = table_of_texts(tmp_path / "a.csv", id=[1, 2, 3], key=["k", "l", "m"], topic=["A", "B", "C"])
    counts = um.read(path, id_column="key", title_column="topic")
    assert counts.samples.tolist() == ["k", "l", "m"]
    assert counts.text["title_column"] == "topic"
    assert um.read(path, title_column="topic").samples.tolist() == ["1", "2", "3"], "an id is there"
    with pytest.raises(
        ValueError, match=r"id_column='kye': no such column for every text; there are 'id', 'key', 'topic'"
    ):
        um.read(path, id_column="kye")
    (tmp_path / "counts.csv").write_text(",ant\nx,1\n")
    with pytest.raises(ValueError, match="title_column is for texts, and these are counts"):
        um.read(tmp_path / "counts.csv", title_column="ant")


@pytest.mark.parametrize("missing", ["null", "NaN"])
def test_a_title_missing_from_json_lines_is_no_name(missing, tmp_path):
    lines = (f'{{"title": {title}, "text": "a few words"}}\n' for title in ('"A"', missing, '"C"'))
    (tmp_path / "a.jsonl").write_text("".join(lines))
    assert um.read(tmp_path / "a.jsonl").samples.tolist() == ["A", "text 2", "C"]


@pytest.mark.parametrize("ending", ["csv", "jsonl"])
@pytest.mark.parametrize("case", NAMINGS)
def test_shards_and_json_lines_name_texts_alike(case, ending, tmp_path):
    columns, samples, _, _ = NAMINGS[case]
    if ending == "jsonl" and "" in columns:
        pytest.skip("JSON has no columns without a name")
    path = table_of_texts(tmp_path / "a.csv", **columns)
    if ending == "jsonl":
        path = tmp_path / "a.jsonl"
        records = pd.DataFrame(columns | {"text": TEXTS}).to_dict("records")
        path.write_text("".join(json.dumps(record) + "\n" for record in records))
    counts, _ = read_quietly(path)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("warnings.warn", lambda *_, **__: None)
        shards = um.shard(path, tmp_path / "shards")
    assert shards.samples.tolist() == counts.samples.tolist() == samples
    assert shards.text == counts.text


def test_how_texts_begin_is_kept_when_asked_within_a_bound(tmp_path, monkeypatch):
    path = tmp_path / "a.txt"
    path.write_text("bee " * 200 + "\nshort one\n")
    assert um.read(path).metadata is None
    long, short = um.read(path, snippets=True).metadata["snippet"]
    assert long == "bee " * 49 + "…"
    assert short == "short one"
    monkeypatch.setattr("unmix.io.read.names.ALL_LETTERS", 100)
    assert len(um.read(path, snippets=True).metadata["snippet"][0]) <= 50
    monkeypatch.setattr("unmix.io.read.names.ALL_LETTERS", 60)
    with pytest.warns(UserWarning, match="2 texts are too many to keep snippets of"):
        assert um.read(path, snippets=True).metadata is None
    monkeypatch.undo()
    frame = pd.DataFrame({"year": [1, 2, 3]}, index=["x", "y", "z"])
    kept = um.read_texts(TEXTS, metadata=frame, snippets=True).metadata
    assert kept["snippet"].tolist() == TEXTS, "whatever the index"


def test_whole_numbers_with_gaps_stay_whole_and_survive_a_saved_fit(tmp_path):
    years = [1790, None, 1792]
    path = table_of_texts(tmp_path / "a.csv", year=years)
    (tmp_path / "more.csv").write_text("sample,born\ntext 1,1700\ntext 2,\ntext 3,1702\n")
    lines = [json.dumps({"text": text, "year": year}) for text, year in zip(TEXTS, years, strict=True)]
    (tmp_path / "a.jsonl").write_text("\n".join(lines))
    for source in (path, tmp_path / "a.jsonl"):
        counts, _ = read_quietly(source, metadata=tmp_path / "more.csv")
        assert counts.metadata["year"].dropna().tolist() == [1790, 1792]
        assert [str(value) for value in counts.metadata["year"]] == ["1790", "<NA>", "1792"]
    fit = um.TopicModel(1, random_state=0).fit(um.read(path)).result_
    fit.save(tmp_path / "fit.safetensors")
    again = um.load(tmp_path / "fit.safetensors").metadata["year"]
    assert [str(value) for value in again.dropna()] == ["1790", "1792"]


# words


def test_addresses_leave_no_words():
    text = 'See http://ow.ly/abc, https://t.co/x (www.bees.org/a_b) or bit.ly/3xY; jo.bee@hive.co.uk and http t co <a href="http://x.y">hive</a>'
    assert words(text) == ["see", "or", "and", "co", "href", "hive"]
    kept = "Bees.Wasps and/or ants, U.S./Canada, 3/4, hive.com said @bee"
    assert " ".join(words(kept)) == "bees wasps and or ants u.s canada hive com said @bee"


def test_long_runs_of_letters_take_no_time_to_clear_of_addresses():
    runs = f"{'a' * 200_000}/ {'b.' * 100_000}/ {'c' * 200_000}@ d@{'e' * 200_000} {'f@' * 100_000}"
    assert [len(word) for word in words(runs)] == [200_000, 199_999, 200_000, 200_000]


def test_a_model_keeps_the_rules_by_which_its_words_were_counted():
    texts = ["bees at https://hive.org", "bees at https://hive.org again"]
    counts = um.read_texts(texts)
    assert counts.text["rules"] == 3
    assert counts.features.tolist() == ["bees"]
    fit = um.TopicModel(1, random_state=0).fit(counts).result_
    assert um.read_texts(texts, like=fit).csr.toarray().tolist() == [[1], [1]]
    for rules in (2, 4):
        with pytest.raises(ValueError, match="counts words in a way this version of unmix does not know; fit it again"):
            um.read_texts(texts, like=replace(fit, text=fit.text | {"rules": rules}))


GERMAN = "Der Rat hat über die Rente und das Gesetz beraten; das ist nicht mit dem Antrag der Grünen im Land zu machen"


def test_stop_words_of_other_languages():
    pytest.importorskip("stop_words")
    counts = um.read_texts([GERMAN, GERMAN], stop_words="german")
    assert {"der", "die", "und", "nicht"}.isdisjoint(counts.features)
    assert {"rente", "gesetz", "antrag"} <= set(counts.features)
    assert "nicht" in counts.text["stop_words"], "the words themselves are remembered"
    with pytest.raises(ValueError, match=r"no stop words of 'klingon'; there are those of arabic, .* german, "):
        um.read_texts([GERMAN], stop_words="klingon")


def test_stop_words_of_other_languages_ask_for_their_package(monkeypatch):
    monkeypatch.setitem(sys.modules, "stop_words", None)
    with pytest.raises(ValueError, match=r"'german' needs stop-words; install it with: pip install stop-words"):
        um.read_texts([GERMAN], stop_words="german")


def test_another_language_than_that_of_the_stop_words_is_noticed(tmp_path):
    with pytest.warns(UserWarning, match=r"most widespread words are .*: German\? stop_words='german'"):
        um.read_texts([GERMAN, GERMAN])
    (tmp_path / "a.txt").write_text(f"{GERMAN}\n{GERMAN}\n")
    with pytest.warns(UserWarning, match=r": German\?"):
        um.shard(tmp_path / "a.txt", tmp_path / "shards")
    um.read_texts([GERMAN], stop_words=None)  # as asked for: silent


@pytest.mark.parametrize("language", WIDESPREAD)
def test_every_language_is_known_by_its_own_words_and_no_english_text_is_taken_for_it(language):
    assert guessed_language(WIDESPREAD[language].split())[0] == language
    counts = um.datasets.sotu()
    order = np.argsort(-np.bincount(counts.csr.indices), kind="stable")[:25]
    assert guessed_language(counts.features[order].tolist()) is None


# encodings and files that cannot be read


@pytest.mark.parametrize("name", ["a.csv", "a.txt", "a.jsonl", "folder"])
def test_an_encoding_can_be_given(name, tmp_path):
    path = tmp_path / name
    content = {
        "a.csv": "id,text\n1,café bee\n",
        "a.txt": "café bee\n",
        "a.jsonl": '{"text": "café bee"}\n',
        "folder": "café bee",
    }[name]
    path.mkdir() if name == "folder" else None
    (path / "1.txt" if name == "folder" else path).write_text(content, encoding="cp1252")
    with pytest.raises(ValueError, match=r"is not UTF-8\)?; say what it is, such as encoding='cp1252'"):
        um.read(path)
    assert um.read(path, encoding="latin-1").features.tolist() == ["bee", "café"]
    assert um.shard(path, tmp_path / "shards", encoding="latin-1").features.tolist() == ["bee", "café"]
    with pytest.raises(ValueError, match="encoding='klingon' is unknown; use utf-8, latin-1"):
        um.read(path, encoding="klingon")


def test_a_folder_may_hold_utf8_beside_another_encoding(tmp_path):
    folder = tmp_path / "texts"
    folder.mkdir()
    for name, encoding in {"1": "latin-1", "2": "utf-8", "3": "utf-8-sig", "4": "ascii"}.items():
        (folder / f"{name}.txt").write_bytes(("Bienenstöcke" if name < "4" else "Biene").encode(encoding))
    for counts in (um.read(folder, encoding="latin-1"), um.shard(folder, tmp_path / "shards", encoding="cp1252")):
        assert counts.features.tolist() == ["biene", "bienenstöcke"]
        assert counts.shape == (4, 2)
    with pytest.raises(ValueError, match="encoding='klingon' is unknown"):
        um.read(folder, encoding="klingon")
    (folder / "5.txt").write_bytes("Ähre".encode("utf-16"))
    assert read_quietly(folder, encoding="utf-16", skip_bad=True)[0].samples.tolist() == ["5"], "taken at its word"


def test_utf16_is_recognised_by_its_mark(tmp_path):
    (tmp_path / "a.csv").write_text("id,text\n1,bee\n", encoding="utf-16")
    with pytest.raises(ValueError, match="such as encoding='utf-16'"):
        um.read(tmp_path / "a.csv")
    assert um.read(tmp_path / "a.csv", encoding="utf-16").features.tolist() == ["bee"]


def test_all_files_that_cannot_be_read_are_named_at_once_and_can_be_skipped(tmp_path, capsys):
    folder = tmp_path / "texts"
    folder.mkdir()
    for name, text in {"1": "bee bee", "2": "café", "3": "wasp", "4": "dé"}.items():
        (folder / f"{name}.txt").write_bytes(text.encode("latin-1"))
    bad = r"2 of 4 files cannot be read: 2\.txt \(line 1 is not UTF-8\), 4\.txt \(line 1 is not UTF-8\)"
    remedy = "; say what it is, such as encoding='cp1252', or save the file again as UTF-8; or continue without them"
    with pytest.raises(ValueError, match=f"{bad}{remedy} with skip_bad=True$"):
        um.read(folder)
    counts, said = read_quietly(folder, skip_bad=True)
    assert counts.samples.tolist() == ["1", "3"]
    assert "2 of 4 files cannot be read" in said[0]
    with pytest.warns(UserWarning, match=bad):
        assert um.shard(folder, tmp_path / "shards", skip_bad=True).samples.tolist() == ["1", "3"]
    code, _, err = run(capsys, "info", folder)
    assert code == 2
    assert "continue without them with --skip-bad" in err
    assert run(capsys, "info", folder, "--skip-bad")[0] == 0


# files of other programs


def test_the_two_columns_of_sigprofiler_become_types_of_mutations(tmp_path):
    rows = "C>A,ACA,1,2\nC>A,ACC,3,4\nT>G,GTT,5,6\n"
    types = ["A[C>A]A", "A[C>A]C", "G[T>G]T"]
    for header in ("Mutation type,Trinucleotide", "MutationsType,SubType", "Type,SubType"):
        (tmp_path / "m.csv").write_text(f"{header},S1,S2\n{rows}")
        counts, said = read_quietly(tmp_path / "m.csv")
        assert counts.features.tolist() == types
        assert counts.samples.tolist() == ["S1", "S2"]
        assert counts.csr.toarray().tolist() == [[1, 3, 5], [2, 4, 6]]
        assert len(said) == 1
    with pytest.warns(UserWarning, match="transposed"):
        assert um.shard(tmp_path / "m.csv", tmp_path / "shards").features.tolist() == types
    for name in ("m.txt", "breast.SBS96.all"):
        (tmp_path / name).write_text(f"Mutation type,Trinucleotide,S1,S2\n{rows}".replace(",", "\t"))
        assert read_quietly(tmp_path / name)[0].features.tolist() == types
        assert kind_of(tmp_path / name).startswith("TSV table")
    (tmp_path / "m.txt").write_text("a line of words\nC>A\tin words, or in other\t5\n")
    assert kind_of(tmp_path / "m.txt") == "text, one document a line"
    (tmp_path / "m.csv").write_text("type,context,joined,S1\nC>A,ACA,A[C>A]A,1\nT>G,GTT,G[T>G]T,2\n")
    assert read_quietly(tmp_path / "m.csv")[0].features.tolist() == [types[0], types[2]]
    (tmp_path / "m.csv").write_text("type,context,S1,S2\nC>A,ATA,1,1\nT>G,GTT,2,2\n")  # no such mutation: left as it is
    assert read_quietly(tmp_path / "m.csv")[0].features.tolist() == ["S1", "S2"]


def test_the_padded_header_of_gensim_is_read_and_the_vocabulary_beside_it(tmp_path):
    text = "%%MatrixMarket matrix coordinate real general\n2 3 2" + " " * 40 + "\n1 1 2\n2 3 1\n"
    write(tmp_path / "corpus.mm", text)
    (tmp_path / "corpus.mm.vocab").write_text("ant\nbee\ncat\n")
    counts = um.read(tmp_path / "corpus.mm")
    assert counts.csr.toarray().tolist() == [[2, 0, 0], [0, 0, 1]]
    assert counts.features.tolist() == ["ant", "bee", "cat"]


def test_lda_c_takes_the_size_of_its_vocabulary_and_names_bad_lines(tmp_path):
    path = tmp_path / "ap.ldac"
    path.write_text("2 0:1 2:3\n0\n1 1:5\n")
    assert um.read(path).csr.toarray().tolist() == [[1, 0, 3], [0, 0, 0], [0, 5, 0]]
    (tmp_path / "vocab.txt").write_text("ant\nbee\ncat\ndog\n")
    counts = um.read(path)
    assert counts.shape == (3, 4)
    assert counts.features.tolist() == ["ant", "bee", "cat", "dog"]
    shards = um.shard(path, tmp_path / "shards")
    assert (shards.take(np.arange(3)).csr != counts.csr).nnz == 0
    (tmp_path / "vocab.txt").write_text("ant\n")
    with pytest.warns(UserWarning, match=r"vocab.txt: ignored, it has 1 rows for 3"):
        assert um.read(path).features is None
    (tmp_path / "vocab.txt").unlink()
    for line, problem in {
        "2 0:1": "promises 2 terms, 1 are there",
        "1 a:b": "is not of the form",
        "1 -1:2": "below 0",
    }.items():
        path.write_text(f"1 0:1\n{line}\n")
        with pytest.raises(ValueError, match=rf"ap\.ldac: line 2 .*{problem}"):
            um.read(path)


def test_excel_sheets_are_tables_as_any_other(tmp_path, monkeypatch):
    pytest.importorskip("openpyxl")
    path = tmp_path / "a.xlsx"
    with pd.ExcelWriter(path) as book:
        pd.DataFrame({"id": [1, 2, 3], "text": TEXTS, "year": [1790, 1791, 1792]}).to_excel(
            book, sheet_name="A", index=False
        )
        TABLE.to_excel(book, sheet_name="B")
    counts, said = read_quietly(path)
    assert counts.samples.tolist() == ["1", "2", "3"]
    assert counts.metadata["year"].tolist() == [1790, 1791, 1792]
    assert said == [f"{path}: the sheet 'A' was read; omitted: 'B'"]
    monkeypatch.setitem(sys.modules, "openpyxl", None)
    with pytest.raises(ValueError, match=r"reading .xlsx needs openpyxl; install it with: pip install openpyxl"):
        um.read(path)


def save_old_h5ad(path: Path, kind: str = "csr") -> None:
    """As anndata 0.6 did."""
    h5py = pytest.importorskip("h5py")
    pytest.importorskip("anndata")
    n, m = MATRIX.shape
    matrix = {"csr": sp.csr_array, "csc": sp.csc_array}[kind](MATRIX.astype("f4"))
    obs = np.zeros(n, dtype=[("index", "S4"), ("n_genes", "i8"), ("louvain", "i1")])
    obs["index"], obs["n_genes"], obs["louvain"] = [b"x", b"y", b"z"], [2, 1, 2], [0, 1, -1]
    var = np.array([(name.encode(),) for name in TABLE.columns], dtype=[("index", "S4")])
    with h5py.File(path, "w") as file:
        file["X"] = MATRIX - 1.5
        file["obs"], file["var"], file["raw.var"] = obs, var, var
        file["uns/louvain_categories"] = np.array([b"T cells", b"B cells"])
        group = file.create_group("raw.X")
        group.attrs["h5sparse_format"], group.attrs["h5sparse_shape"] = kind, (n, m)
        group["data"], group["indices"], group["indptr"] = matrix.data, matrix.indices, matrix.indptr


@pytest.mark.parametrize("kind", ["csr", "csc"])
def test_anndata_files_from_before_0_7_are_read(kind, tmp_path):
    save_old_h5ad(tmp_path / "old.h5ad", kind)
    with pytest.raises(ValueError, match=r"X holds negative numbers, .*raw holds whole numbers: use raw=True"):
        um.read(tmp_path / "old.h5ad")
    counts = um.read(tmp_path / "old.h5ad", raw=True)
    assert counts.csr.toarray().tolist() == MATRIX.tolist()
    assert counts.samples.tolist() == ["x", "y", "z"]
    assert counts.features.tolist() == list(TABLE.columns)
    assert counts.metadata["n_genes"].tolist() == [2, 1, 2]
    assert counts.metadata["louvain"].astype(object).where(counts.metadata["louvain"].notna(), None).tolist() == [
        "T cells", "B cells", None
    ]  # fmt: skip
    shards = um.shard(tmp_path / "old.h5ad", tmp_path / "shards", raw=True, sample_by="louvain")
    assert (shards.take(np.arange(3)).csr != counts.csr).nnz == 0


def test_info_on_scaled_cells_says_where_counts_are(tmp_path, capsys):
    anndata = pytest.importorskip("anndata")
    adata = anndata.AnnData(MATRIX - 1.5, layers={"counts": sp.csr_matrix(MATRIX), "logged": np.log1p(MATRIX)})
    adata.obs["site"] = ["lung", "skin", "lung"]
    adata.write_h5ad(tmp_path / "cells.h5ad")
    save_old_h5ad(tmp_path / "old.h5ad")
    code, out, err = run(capsys, "info", tmp_path / "cells.h5ad")
    assert code == 0
    for told in (
        "3 × 4, negative numbers: scaled",
        "3 × 4, whole numbers: counts",
        "3 × 4, fractions: normalised",
        "site",
    ):
        assert told in out
    assert "layer 'counts' holds whole numbers: use --layer counts" in err
    code, out, _ = run(capsys, "info", tmp_path / "old.h5ad", "--json")
    answer = json.loads(out)
    assert answer["matrices"]["raw"] == "3 × 4, whole numbers: counts"
    assert answer["metadata"] == ["n_genes", "louvain"]
    code, out, _ = run(capsys, "info", tmp_path / "cells.h5ad", "--layer", "counts")
    assert code == 0
    assert "looks like counts" in out


# counts in Python


def test_features_are_taken_by_name_by_place_or_by_truth_values():
    counts = um.Counts(TABLE)
    wanted = MATRIX[:, [3, 0]].tolist()
    names = counts.take(features=["dog", "ant"])
    assert names.csr.toarray().tolist() == counts.take(features=[3, 0]).csr.toarray().tolist() == wanted
    assert names.features.tolist() == ["dog", "ant"]
    assert names.csr.has_sorted_indices
    assert counts.take([2, 0], ["dog"]).csr.toarray().tolist() == [[7], [0]]
    assert counts.take(features=np.array([True, False, False, True])).features.tolist() == ["ant", "dog"]
    assert counts.take([1]).samples.tolist() == ["y"]
    for features, problem in {
        ("emu", "ant"): "there is no 'emu'; compare the spelling",
        (0, 4): "4 is out of range: use 0 to 3",
        (0.5,): "use their names, their places, or 4 truth values",
    }.items():
        with pytest.raises(ValueError, match=f"features: .*{problem}"):
            counts.take(features=list(features))
    twice = um.Counts(MATRIX, features=["a", "b", "a", "c"])
    assert twice.take(features=["c", "b"]).shape == (3, 2)
    with pytest.raises(ValueError, match="several are called 'a'; use places"):
        twice.take(features=["a"])
    with pytest.raises(ValueError, match="no names of features; use places"):
        um.Counts(MATRIX).take(features=["a"])


def test_what_looks_like_tf_idf_is_warned_of_once_and_counts_are_not(tmp_path, capsys):
    X = np.random.default_rng(0).poisson(3, (12, 6)) + 1
    with pytest.warns(UserWarning, match="100% of the values are not whole numbers, as after tf-idf") as said:
        um.TopicModel(2, random_state=0).fit(np.log1p(X))
    assert len(said) == 1
    assert said[0].filename == __file__
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        um.TopicModel(2, random_state=0).fit(np.where(X == 1, 0.5, X))  # some fractions may be meant
    sp.save_npz(tmp_path / "logs.npz", sp.csr_array(np.log1p(X)))
    _, _, err = run(capsys, "fit", tmp_path / "logs.npz", "-k", 2, "-o", tmp_path / "out")
    assert err.count("not whole numbers") == 1


# what is said


def test_messages_in_the_terminal_speak_of_its_options(tmp_path, capsys):
    (tmp_path / "a.jsonl").write_text('{"body": "bee"}\n')
    code, _, err = run(capsys, "info", tmp_path / "a.jsonl")
    assert code == 2
    assert "name the field with --text-column" in err


def test_the_options_of_the_terminal_reach_the_reader(tmp_path, capsys):
    pytest.importorskip("stop_words")
    path = tmp_path / "a.csv"
    rows = pd.DataFrame({"key": ["k", "l"], "subject": ["Ä", "B"], "body": [GERMAN, GERMAN + " Biene"]})
    rows.to_csv(path, index=False, encoding="cp1252")
    options = (
        "--text-column body --id-column key --title-column subject --encoding cp1252 --stop-words german --snippets"
    )
    code, _, err = run(capsys, "fit", path, "-k", 1, "-o", tmp_path / "out", *options.split())
    assert (code, "German?" in err) == (0, False)
    fit = um.load(tmp_path / "out" / "model.safetensors")
    assert fit.samples.tolist() == ["k", "l"]
    assert fit.metadata["subject"].tolist() == ["Ä", "B"]
    assert fit.metadata["snippet"][0].startswith("Der Rat hat")
    assert "der" not in fit.features
    assert "encoding='cp1252'" in fit.data["python"]


def test_sums_of_counts_are_shown_with_few_digits():
    assert repr(um.Counts([[319_044.2382, 1]])).endswith("total 319,045)")
    assert repr(um.Counts([[0.25, 1]])).endswith("total 1.25)")
    assert repr(um.Counts([[10_000_000_000, 1]])).endswith("total 10,000,000,001)")


def test_a_10x_folder_is_called_by_the_folder_it_lies_in(tmp_path):
    for inner in ("filtered_gene_bc_matrices/hg19", "outs/filtered_feature_bc_matrix", "own"):
        place = tmp_path / "pbmc3k" / inner
        place.parent.mkdir(parents=True, exist_ok=True)
        save_10x(place, TABLE)
        assert name_of(place) == ("own" if inner == "own" else "pbmc3k")
    assert name_of(tmp_path / "pbmc3k/outs/filtered_feature_bc_matrix/matrix.mtx") == "pbmc3k"
    assert name_of(tmp_path / "pbmc3k" / "outs" / "filtered_feature_bc_matrix.h5") == "pbmc3k"
    assert name_of(tmp_path / "pbmc3k" / "matrix.csv") == "matrix", "only what 10x names"


def test_names_do_not_keep_the_texts_beside_them_in_memory(monkeypatch) -> None:
    """A column of a part of a table is a part of its memory."""
    monkeypatch.setattr(blocks, "KEPT", 0)

    def read(_texts):
        for part in range(30):
            rows = [[f"{part}-{i}", f"{part}-{i} " * 5_000] for i in range(10)]  # some 300 kB of texts
            yield ["id", "text"], pd.DataFrame(np.array(rows, dtype=object))

    table = Table(read)
    tracemalloc.start()
    try:
        names = table.columns([0])[0]
        peak = tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()
    assert len(names) == 300
    assert peak < 3e6
