"""R's files: what saveRDS would write, made here byte by byte after the format of R ("R internals", 1.8), and read."""

import bz2
import gzip
import lzma
import struct

import numpy as np
import pandas as pd
import pytest
import scipy.sparse as sp

import unmix as um
from unmix.base.memory import limited
from unmix.cli import main

pytest.importorskip("rdata")

GENES, CELLS = (
    ["ACTB", "CD3E", "MS4A1"],
    ["AAACCTGAGAAGGCCT-1", "AAACCTGAGACAGACC-1", "AAACCTGAGATAGTCA-1", "AAACCTGAGCGCCTCA-1"],
)
X = np.array([[1, 0, 2], [0, 3, 0], [4, 0, 0], [0, 5, 6]])  # cells × genes
NIL = struct.pack(">i", 254)


# What R would write: a type with flags, a length, values, attributes.


def flags(kind, *, attributes=False, is_object=False, tag=False, gp=0):
    return struct.pack(">i", kind | is_object << 8 | attributes << 9 | tag << 10 | gp << 12)


def char(text):
    return flags(9, gp=64) + (
        struct.pack(">i", -1) if text is None else struct.pack(">i", len(text.encode())) + text.encode()
    )


def pairs(attributes):
    return b"".join(flags(2, tag=True) + flags(1) + char(name) + value for name, value in attributes.items()) + NIL


def vector(kind, payload, n, **attributes):
    named = {name.replace("_", "."): value for name, value in attributes.items()}
    head = flags(kind, attributes=bool(named), is_object="class" in named)
    return head + struct.pack(">i", n) + payload + (pairs(named) if named else b"")


def text(*entries, **attributes):
    return vector(16, b"".join(map(char, entries)), len(entries), **attributes)


def ints(values, **attributes):
    return vector(13, np.asarray(values, ">i4").tobytes(), np.size(values), **attributes)


def reals(values, **attributes):
    return vector(14, np.asarray(values, ">f8").tobytes(), np.size(values), **attributes)


def logical(values, **attributes):
    return vector(10, np.asarray(values, ">i4").tobytes(), np.size(values), **attributes)


def r_list(*entries, **attributes):
    return vector(19, b"".join(entries), len(entries), **attributes)


def named(**entries):
    return r_list(*entries.values(), names=text(*entries))


def s4(kind, package="Matrix", **slots):
    slots = {name.replace("_", "."): value for name, value in slots.items()}
    return flags(25, attributes=True, is_object=True, gp=1) + pairs(
        slots | {"class": text(kind, package=text(package))}
    )


def matrix(values, rows=None, columns=None, of=ints):
    """A matrix of R: columns one after the other."""
    values = np.asarray(values)
    names = {} if rows is None else {"dimnames": r_list(text(*rows), text(*columns))}
    return of(values.T.ravel(), dim=ints(values.shape), **names)


def sparse(values, rows=None, columns=None, kind="dgCMatrix"):
    values = np.asarray(values)
    names = r_list(*(NIL if one is None else text(*one) for one in (rows, columns)))
    common = {"Dim": ints(values.shape), "Dimnames": names, "factors": r_list()}
    if kind[1:] == "gTMatrix":
        coo = sp.coo_array(values)
        found = {"i": ints(coo.row), "j": ints(coo.col), "x": reals(coo.data)}
    elif kind[1:] == "gRMatrix":
        csr = sp.csr_array(values)
        found = {"p": ints(csr.indptr), "j": ints(csr.indices), "x": reals(csr.data)}
    elif kind == "dgeMatrix":
        found = {"x": reals(values.T.ravel())}
    else:
        csc = sp.csc_array(values)
        found = {"i": ints(csc.indices), "p": ints(csc.indptr), "x": reals(csc.data)}
    return s4(kind, **found | ({"x": logical(csc.data > 0)} if kind[0] == "l" else {}) | common)


def frame(columns, rows=None):
    names = ints([-(2**31), -len(X)]) if rows is None else text(*rows)
    return r_list(*columns.values(), names=text(*columns), row_names=names, **{"class": text("data.frame")})


def factor(codes, levels):
    return ints(codes, levels=text(*levels), **{"class": text("factor")})


def write(path, thing, packed=gzip.compress):
    header = b"X\n" + struct.pack(">iii", 3, 0x00040301, 0x00030500) + struct.pack(">i", 5) + b"UTF-8"
    path.write_bytes(packed(header + thing))
    return path


ABOUT = {
    "cluster": factor([1, 2, -(2**31), 1], ["T", "B"]),
    "depth": reals([3.0, 3, 4, 11]),
    "donor": text("d1", "d1", "d2", None),
}


def logmap(names, layers, there=None):
    there = np.ones((len(names), len(layers)), int) if there is None else np.asarray(there)
    return matrix(there, names, layers, of=lambda values, **more: logical(values, **more, **{"class": text("LogMap")}))


def seurat(assays, active="RNA"):
    slots = {"assays": named(**assays), "meta.data": frame(ABOUT, CELLS), "active.assay": text(active)}
    return s4("Seurat", "SeuratObject", **slots, commands=r_list(), misc=r_list())


def assay(counts, data=None):
    empty = sparse(np.zeros((0, 0)))
    slots = {
        "counts": counts,
        "data": empty if data is None else data,
        "scale.data": matrix(np.zeros((0, 0)), of=reals),
    }
    return s4("Assay", "SeuratObject", **slots, key=text("rna_"))


def assay5(layers, cells, features):
    return s4("Assay5", "SeuratObject", layers=named(**layers), cells=cells, features=features, default=ints([1]))


def experiment(assays, kind="SingleCellExperiment", older=False):
    held = s4("SimpleList", "S4Vectors", listData=named(**assays))
    if older:  # an environment with `data`, in the second bucket of its table
        inside = flags(2, tag=True) + flags(1) + char("data") + held + NIL
        space = flags(4) + struct.pack(">i", 0) + flags(253) + NIL + vector(19, NIL + inside, 2) + NIL
        held = s4("ShallowSimpleListAssays", "SummarizedExperiment", **{".xData": space})
    else:
        held = s4("SimpleAssays", "SummarizedExperiment", data=held)
    about = s4("DFrame", "S4Vectors", rownames=text(*CELLS), nrows=ints([4]), listData=named(**ABOUT))
    ranges = s4("GRanges", "GenomicRanges", ranges=s4("IRanges", "IRanges", NAMES=text(*GENES)))
    names = {"NAMES": text(*GENES)} if kind == "SummarizedExperiment" else {"rowRanges": ranges}
    return s4(kind, kind, assays=held, colData=about, **names)


def same(counts, samples=CELLS, features=GENES, values=X):
    assert counts.csr.toarray().tolist() == np.asarray(values).tolist()
    assert (counts.samples.tolist(), counts.features.tolist()) == (samples, features)


# Claims


@pytest.mark.parametrize("kind", ["dgCMatrix", "dgRMatrix", "dgTMatrix", "dgeMatrix", "lgCMatrix"])
@pytest.mark.parametrize("packed", [gzip.compress, bz2.compress, lzma.compress, bytes])
def test_matrices_of_matrix_are_read_as_they_stand_or_as_their_names_say(tmp_path, kind, packed):
    want = X > 0 if kind[0] == "l" else X
    path = write(tmp_path / "x.rds", sparse(X, ["a", "b", "c", "d"], ["one", "two", "three"], kind), packed)
    same(um.read(path), ["a", "b", "c", "d"], ["one", "two", "three"], want)
    same(um.read(path, transpose=True), ["one", "two", "three"], ["a", "b", "c", "d"], want.T)
    path = write(tmp_path / "cells.rds", sparse(X.T, GENES, CELLS, kind), packed)
    with pytest.warns(UserWarning, match="rows look like features .*transposed"):
        same(um.read(path), values=want)
    bare = um.read(write(tmp_path / "bare.rds", sparse(X, kind=kind), packed))
    assert bare.samples is None
    assert bare.csr.toarray().tolist() == want.tolist()


def test_matrices_tables_and_data_frames_of_r_are_read(tmp_path):
    rows = ["a", "b", "c", "d"]
    same(um.read(write(tmp_path / "m.rds", matrix(X, rows, GENES))), rows)
    same(um.read(write(tmp_path / "r.rds", matrix(X, rows, GENES, of=reals))), rows)
    columns = {gene: ints(column) for gene, column in zip(GENES, X.T, strict=True)}
    same(um.read(write(tmp_path / "f.rds", frame(columns, rows))), rows)
    long = {"sample": factor([1, 1, 2], ["s1", "s2"]), "feature": text("u", "v", "u"), "count": ints([3, 1, 2])}
    same(um.read(write(tmp_path / "l.rds", frame(long))), ["s1", "s2"], ["u", "v"], [[3, 1], [2, 0]])
    texts = um.read(write(tmp_path / "t.rds", frame({"id": text("x", "y"), "text": text("red wine", "red roses")})))
    assert texts.features.tolist() == ["red", "roses", "wine"]


def test_a_data_frame_that_another_writer_made_is_read(tmp_path):
    import rdata

    rdata.write_rds(tmp_path / "x.rds", pd.DataFrame(X, columns=GENES, index=["a", "b", "c", "d"]))
    same(um.read(tmp_path / "x.rds"), ["a", "b", "c", "d"])


@pytest.mark.parametrize("version", [3, 5])
def test_a_seurat_object_gives_the_counts_of_its_assay_with_names_and_metadata(tmp_path, version):
    log = np.log1p(X)
    if version == 3:
        rna = assay(sparse(X.T, GENES, CELLS), sparse(log.T, GENES, CELLS))
    else:
        layers = {"counts": sparse(X.T), "data": sparse(log.T)}
        rna = assay5(layers, logmap(CELLS, ["counts", "data"]), logmap(GENES, ["counts", "data"]))
    tags = assay(sparse(X.T[:2] + 1, ["tag1", "tag2"], CELLS))
    path = write(tmp_path / "cells.rds", seurat({"ADT": tags, "RNA": rna}))
    counts = um.read(path)
    same(counts)
    assert counts.metadata["cluster"].tolist()[:2] == ["T", "B"]
    assert counts.metadata["cluster"].isna().tolist() == [False, False, True, False]
    assert counts.metadata["depth"].tolist() == [3, 3, 4, 11]
    for layer in ("counts", "RNA", "RNA/counts"):
        same(um.read(path, layer=layer))
    same(um.read(path, layer="ADT"), features=["tag1", "tag2"], values=X[:, :2] + 1)
    with pytest.warns(UserWarning, match=r"RNA/data holds numbers that are not counts.*RNA/counts.*layer='RNA/counts'"):
        assert um.read(path, layer="data").total == pytest.approx(log.sum())
    with pytest.raises(ValueError, match=r"cells.rds: no layer 'spliced' in it; it has 'RNA/counts', .*'ADT/counts'"):
        um.read(path, layer="spliced")
    with pytest.raises(ValueError, match="transpose=True does not apply to an R object of class Seurat"):
        um.read(path, transpose=True)


def test_split_layers_of_a_seurat_object_are_one_matrix(tmp_path):
    """counts.a has the first two genes of two cells, counts.b the last two of the others."""
    layers = {"counts.a": sparse(X[:2, :2].T), "counts.b": sparse(X[2:, 1:].T)}
    cells = logmap(CELLS, layers, [[1, 0], [1, 0], [0, 1], [0, 1]])
    features = logmap(GENES, layers, [[1, 0], [1, 1], [0, 1]])
    path = write(tmp_path / "cells.rds", seurat({"RNA": assay5(layers, cells, features)}))
    want = X.copy()
    want[:2, 2] = want[2:, 0] = 0
    same(um.read(path), values=want)
    same(um.read(path, layer="counts.b"), CELLS[2:], GENES[1:], X[2:, 1:])


@pytest.mark.parametrize("older", [False, True])
@pytest.mark.parametrize("kind", ["SingleCellExperiment", "SummarizedExperiment"])
def test_an_experiment_gives_its_counts_with_names_and_metadata(tmp_path, kind, older):
    assays = {"logcounts": sparse(np.log1p(X).T), "counts": matrix(X.T)}
    path = write(tmp_path / "cells.rds", experiment(assays, kind, older))
    counts = um.read(path)
    same(counts)
    assert counts.metadata["donor"].tolist() == ["d1", "d1", "d2", None]
    with pytest.warns(UserWarning, match="layer='counts'"):
        um.read(path, layer="logcounts")
    shards = um.shard(path, tmp_path / "shards")
    same(next(shards.parts()))


def test_a_list_of_matrices_is_chosen_from(tmp_path):
    path = write(
        tmp_path / "x.rds", named(first=matrix(X, CELLS, GENES), note=text("about"), second=sparse(X + 1, CELLS, GENES))
    )
    same(um.read(path, layer="second"), values=X + 1)
    with pytest.raises(
        ValueError, match="no layer called 'counts' in it; it has 'first', 'second': choose one with layer='first'"
    ):
        um.read(path)


def test_the_command_line_reads_it(tmp_path, capsys):
    path = write(
        tmp_path / "cells.rds", seurat({"RNA": assay(sparse(X.T, GENES, CELLS), sparse(np.log1p(X).T, GENES, CELLS))})
    )
    with pytest.raises(SystemExit, match="0"):
        main(["info", str(path)])
    shown = capsys.readouterr().out
    assert all(words in shown for words in ("R object", "4 × 3", "RNA/counts", "RNA/data", "not counts"))
    with pytest.raises(SystemExit, match="0"):
        main(["fit", str(path), "-k", "2", "-o", str(tmp_path / "out"), "--quiet"])
    assert um.load(tmp_path / "out" / "model.safetensors").features.tolist() == GENES


BAD = {
    "an environment": (flags(253), "without a matrix"),
    "a function's room": (flags(21) + struct.pack(">i", 2**31 - 1) + NIL, "a function of 2,147,483,647 parts"),
    "a sequence": (
        flags(238) + pairs({"a": NIL})[:-4] + NIL + reals([1e15, 1, 1]) + NIL,
        "not a readable .rds file",
    ),
    "a long array": (vector(14, b"", 2**31 - 1), "an array in it would need|too early"),
    "a negative length": (vector(14, b"", -5), "a negative length"),
    "symmetric": (
        sparse(X[:3, :3], kind="dsCMatrix"),
        "a matrix of class dsCMatrix, which unmix does not read; convert it",
    ),
    "on disk": (
        experiment({"counts": s4("HDF5Matrix", "HDF5Array", Dim=ints([3, 4]))}),
        "a matrix of class HDF5Matrix",
    ),
    "outside": (
        s4("dgCMatrix", i=ints([7]), p=ints([0, 1]), x=reals([1]), Dim=ints([2, 1])),
        "its indices are damaged",
    ),
    "disordered": (
        s4("dgCMatrix", i=ints([0]), p=ints([1, 0]), x=reals([1]), Dim=ints([2, 1])),
        "starts of its rows are out of",
    ),
    "short": (ints([1, 2, 3], dim=ints([2, 2])), "3 values for a matrix of 2 × 2"),
    "cube": (ints(range(8), dim=ints([2, 2, 2])), "an array of 3 dimensions"),
    "negative": (matrix([[1, -2], [3, 4]], ["a", "b"], ["u", "v"]), r"row 1 \('a'\), column 2 \('v'\) is -2"),
    "missing": (matrix([[1, -(2**31)], [3, 4]], ["a", "b"], ["u", "v"]), r"row 1 \('a'\), column 2 \('v'\) is nan"),
    "text": (text("a", dim=ints([1, 1])), "without a matrix"),
}


@pytest.mark.parametrize("problem", BAD)
def test_what_is_wrong_is_said_with_the_file_and_a_remedy(tmp_path, problem):
    thing, words = BAD[problem]
    path = write(tmp_path / "bad.rds", thing)
    with pytest.raises(ValueError, match=words) as error:
        um.read(path)
    assert str(error.value).startswith(str(path))
    assert ";" in str(error.value) or "damaged" in str(error.value)


def test_other_files_and_files_cut_short_are_refused(tmp_path):
    path = write(tmp_path / "x.rds", sparse(X, CELLS, GENES))
    whole = gzip.decompress(path.read_bytes())
    for end in range(0, len(whole), 7):
        path.write_bytes(whole[:end])
        with pytest.raises(ValueError, match=r"x.rds: (not a readable .rds file|not a file that saveRDS)"):
            um.read(path)
    path.write_bytes(b"RDX3\nX\n" + whole[2:])
    with pytest.raises(ValueError, match=r"an .RData file, which save"):
        um.read(path)


def test_a_small_file_that_unpacks_to_more_than_memory_is_refused(tmp_path):
    """Six hundred thousand empty entries are 2.4 MB, which gzip packs into 2.4 kB, and hundreds of megabytes in memory."""
    path = write(tmp_path / "bomb.rds", vector(19, NIL * 600_000, 600_000))
    with limited("150MB"), pytest.raises(ValueError, match=r"bomb.rds: what is in it would need"):
        um.read(path)


@pytest.mark.filterwarnings("ignore")
def test_everything_it_reads_survives_spoiled_bytes(tmp_path):
    """One byte of a file at a time is changed: a ValueError that names the file, or counts."""
    whole = gzip.decompress(write(tmp_path / "x.rds", seurat({"RNA": assay(sparse(X.T, GENES, CELLS))})).read_bytes())
    rng = np.random.default_rng(0)
    for place in rng.choice(len(whole), 150, replace=False).tolist():
        (tmp_path / "x.rds").write_bytes(whole[:place] + bytes([rng.integers(256)]) + whole[place + 1 :])
        try:
            um.read(tmp_path / "x.rds")
        except ValueError as error:
            assert str(error).startswith(str(tmp_path / "x.rds"))  # noqa: PT017
