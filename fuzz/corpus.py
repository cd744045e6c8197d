"""Sound files of every kind, small, and what is done with each: whatever is wrong with one must be said, not felt."""

from __future__ import annotations

import contextlib
import gzip
import io
import json
import warnings
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import scipy.io
import scipy.sparse as sp
from sklearn.exceptions import ConvergenceWarning

import unmix as um
from unmix.cli import main
from unmix.io.write import write_counts

NAMES = ["ant", "bee", "cat", "dog", "elk", "fox", "gnu", "hen"]
TEXTS = [f"{NAMES[i % 8]} and {NAMES[(i * 3) % 8]} met {NAMES[(i * 5) % 8]} twice" for i in range(12)]


@dataclass(frozen=True)
class Subject:
    """A folder of files, and what is tried with it once one of them is spoiled."""

    make: Callable[[Path], None]
    tries: tuple[Callable[[Path], object], ...]

    def files(self, folder: Path) -> list[str]:
        """Those that are worth spoiling."""
        found = sorted(file.relative_to(folder).as_posix() for file in folder.rglob("*") if file.is_file())
        return [name for name in found if not name.startswith("kept/")]


def counts() -> um.Counts:
    rng = np.random.default_rng(0)
    X = rng.poisson(rng.gamma(0.5, 4, (12, 2)) @ rng.gamma(0.5, 1, (8, 2)).T) + (rng.random((12, 8)) < 0.2)
    metadata = pd.DataFrame({"year": range(1990, 2002), "site": ["sea", "land", "air"] * 4})
    return um.Counts(X.astype(float), [f"s{i}" for i in range(12)], NAMES, metadata)


def terminal(*arguments: str) -> str:
    """What a command says; an exit code other than 0 and 2, or other words than one line, are a failure."""
    said, told = io.StringIO(), io.StringIO()
    code: Any = None
    with contextlib.redirect_stdout(told), contextlib.redirect_stderr(said):
        try:
            main(arguments)
        except SystemExit as end:
            code = end.code
    if code not in (0, 2):
        raise AssertionError(f"exit code {code}: {said.getvalue()[-300:]}")
    if code == 2 and sum(line.startswith("error: ") for line in said.getvalue().splitlines()) != 1:
        raise AssertionError(f"exit code 2 without one line: {said.getvalue()[-300:]}")
    if any(not letter.isprintable() and letter != "\n" for letter in said.getvalue() + told.getvalue()):
        raise AssertionError(f"control characters in the terminal: {(said.getvalue() + told.getvalue())[-300:]!r}")
    return said.getvalue() + told.getvalue()


# ---- counts in every format


def packed(path: Path, text: str) -> None:
    path.write_bytes(gzip.compress(text.encode(), mtime=0) if path.suffix == ".gz" else text.encode())


def _market(path: Path) -> None:
    scipy.io.mmwrite(buffer := io.BytesIO(), sp.coo_array(counts().csr), field="integer")
    packed(path, buffer.getvalue().decode())


def _tenx(path: Path) -> None:
    X = counts()
    csr = X.csr.astype(int)
    import h5py

    with h5py.File(path, "w") as file:
        group = file.create_group("matrix")
        group["data"], group["indices"], group["indptr"] = csr.data, csr.indices, csr.indptr
        group["shape"] = np.array(csr.shape[::-1])
        group["barcodes"] = np.array(X.samples, dtype="S")
        group["features/id"] = group["features/name"] = np.array(X.features, dtype="S")
        group["features/feature_type"] = np.array(["Gene Expression"] * 8, dtype="S")


def tenx_folder(folder: Path) -> None:
    X = counts()
    scipy.io.mmwrite(buffer := io.BytesIO(), sp.coo_array(X.csr.T), field="integer")
    packed(folder / "matrix.mtx.gz", buffer.getvalue().decode())
    packed(folder / "features.tsv.gz", "".join(f"id\t{name}\tGene Expression\n" for name in NAMES))
    packed(folder / "barcodes.tsv.gz", "".join(f"{name}\n" for name in X.samples.tolist()))


def _anndata() -> Any:
    import anndata

    X = counts()
    obs = X.metadata.set_axis(X.samples).assign(site=lambda table: table["site"].astype("category"))
    return anndata.AnnData(sp.csr_matrix(X.csr), obs, pd.DataFrame(index=NAMES))


def _mudata(path: Path) -> None:
    import h5py
    from anndata.io import write_elem

    with h5py.File(path, "w") as file:
        write_elem(file.create_group("mod"), "rna", _anndata())
        write_elem(file, "obs", _anndata().obs)


def _loom(path: Path) -> None:
    import h5py

    X = counts()
    with h5py.File(path, "w") as file:
        file["matrix"], file["layers/twice"] = X.csr.toarray().T, 2 * X.csr.toarray().T
        file["row_attrs/Gene"], file["col_attrs/CellID"] = np.array(X.features, "S"), np.array(X.samples, "S")
        file["col_attrs/site"] = np.array(X.metadata["site"], "S")


def _rds(path: Path) -> None:
    import rdata

    rdata.write_rds(path, frame())


def zarr_formats() -> tuple[int, ...]:
    """Which of them the installed zarr writes."""
    try:
        import zarr
    except ImportError:
        return ()
    return (2, 3) if hasattr(zarr.storage, "LocalStore") else (2,)


def anndata_zarr(path: Path, version: int) -> None:
    import anndata

    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # of anndata, about formats to come
        if len(zarr_formats()) == 1:
            _anndata().write_zarr(path)
        else:
            with anndata.settings.override(zarr_write_format=version):
                _anndata().write_zarr(path)


def frame() -> pd.DataFrame:
    X = counts()
    return pd.DataFrame(X.csr.toarray(), index=X.samples, columns=X.features).rename_axis("sample")


def _long() -> pd.DataFrame:
    return frame().reset_index().melt("sample", var_name="feature", value_name="count")


def _jsonl(path: Path) -> None:
    records = ({"id": f"t{i}", "text": text, "year": 1990 + i} for i, text in enumerate(TEXTS))
    packed(path, "".join(json.dumps(record) + "\n" for record in records))


def _ldac(path: Path) -> None:
    rows = [[f"{j}:{x:.0f}" for j, x in enumerate(row) if x] for row in counts().csr.toarray().tolist()]
    packed(path, "".join(" ".join([str(len(row)), *row]) + "\n" for row in rows))


FORMATS: dict[str, Callable[[Path], object]] = {
    "own.npz": lambda path: write_counts(counts(), path),
    "scipy.npz": lambda path: sp.save_npz(path, counts().csr.tocsc()),
    "coo.npz": lambda path: sp.save_npz(path, counts().csr.tocoo(), compressed=False),
    "array.npy": lambda path: np.save(path, counts().csr.toarray()),
    "matrix.mtx": _market,
    "market.mtx.gz": _market,
    "blei.ldac": _ldac,
    "blei.ldac.gz": _ldac,
    "v3.h5": _tenx,
    "cells.h5ad": lambda path: _anndata().write_h5ad(path),
    "cells.h5mu": _mudata,
    "cells.loom": _loom,
    "frame.rds": _rds,
    **{f"v{version}.zarr": lambda path, version=version: anndata_zarr(path, version) for version in zarr_formats()},
    "wide.csv": lambda path: frame().to_csv(path),
    "wide.csv.gz": lambda path: packed(path, frame().to_csv()),
    "long.tsv": lambda path: _long().to_csv(path, sep="\t", index=False),
    "long.tsv.gz": lambda path: packed(path, _long().to_csv(sep="\t", index=False)),
    "wide.parquet": lambda path: frame().to_parquet(path),
    "wide.xlsx": lambda path: frame().to_excel(path),
    "lines.txt": lambda path: path.write_text("\n".join(TEXTS)),
    "lines.txt.gz": lambda path: packed(path, "\n".join(TEXTS)),
    "texts.jsonl": _jsonl,
    "texts.jsonl.gz": _jsonl,
}


def _read(name: str) -> tuple[Callable[[Path], object], ...]:
    return (
        lambda folder: um.read(folder / name),
        lambda folder: terminal("info", str(folder / name)),
        lambda folder: um.shard(folder / name, folder / "made.shards"),
    )


def _formats() -> dict[str, Subject]:
    one = {name: Subject(lambda folder, name=name: FORMATS[name](folder / name), _read(name)) for name in FORMATS}
    return one | {"10x": Subject(tenx_folder, _read("."))}


# ---- models


def _bayes(kind: Any, **more: Any) -> Any:
    return lambda: kind(2, max_iter=4, tol=0.0, random_state=0, **more)


ESTIMATORS: dict[str, Callable[[], Any]] = {
    "PoissonNMF": _bayes(um.PoissonNMF),
    "TopicModel": _bayes(um.TopicModel, refine=1),
    "em": _bayes(um.PoissonNMF, solver="em", extrapolate=False, init="random"),
    "online": _bayes(um.TopicModel, online=um.Online(batch_size=5)),
    "SparsePoissonNMF": _bayes(um.SparsePoissonNMF),
    "LDA": _bayes(um.LDA),
    "LDA-auto": _bayes(um.LDA, alpha="auto", eta=0.1, init="random"),
    "LDA-online": _bayes(um.LDA, online=um.Online(batch_size=5)),
    "GammaPoisson": _bayes(um.GammaPoisson),
    "BayesianPoissonNMF": _bayes(um.BayesianPoissonNMF),
    "bld": _bayes(um.AllocationModel, method="bld"),
    "icm": _bayes(um.AllocationModel, method="icm"),
    "gibbs": _bayes(um.AllocationModel, method="gibbs"),
}


def fitted(name: str) -> um.Fit:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ConvergenceWarning)
        return ESTIMATORS[name]().fit(counts()).result_


def _save_model(name: str, folder: Path) -> None:
    (folder / "kept").mkdir()
    write_counts(counts(), folder / "kept" / "counts.npz")
    fit = fitted(name)
    fit.save(folder / "kept" / "sound.safetensors", resumable=True)
    fit.save(folder / "model.safetensors", resumable=True)


def _resumed(name: str, folder: Path) -> None:
    fit = um.load(folder / "model.safetensors")
    ESTIMATORS[name]().set_params(max_iter=6).resume(counts(), fit)


def _begun_from(name: str, folder: Path) -> None:
    fit = um.load(folder / "model.safetensors")
    ESTIMATORS[name]().set_params(init=fit).fit(counts())


def _used(folder: Path) -> None:
    fit = um.load(folder / "model.safetensors")
    repr(fit)
    fit.advice(), fit.starts, fit.objective, fit.kkt, fit.shares, fit.labels, fit.exposures
    if not np.isfinite(fit.transform(counts())).all():
        raise AssertionError("proportions that are no numbers")
    um.freedom(fit)
    um.sc.from_fit(fit)
    fit.save(folder / "again.safetensors", resumable=True)
    um.load(folder / "again.safetensors")


def _on_model(command: str, *more: str) -> Callable[[Path], object]:
    def run(folder: Path) -> None:
        words = (word.replace("DIR", str(folder)) for word in more)
        terminal(command, str(folder / "model.safetensors"), *words)

    return run


def _models() -> dict[str, Subject]:
    commands = (
        _on_model("info"),
        _on_model("info", "--json"),
        _on_model("transform", "DIR/kept/counts.npz", "-o", "DIR/out.csv"),
        _on_model("report", "-o", "DIR/out.html"),
        _on_model("compare", "DIR/kept/sound.safetensors"),
        _on_model("differences", "DIR/kept/counts.npz", "-o", "DIR/differences.csv"),
        _used,
    )

    def subject(name: str) -> Subject:
        return Subject(
            lambda folder: _save_model(name, folder),
            (*commands, lambda folder: _resumed(name, folder), lambda folder: _begun_from(name, folder)),
        )

    return {f"model-{name}": subject(name) for name in ESTIMATORS}


# ---- a fit's folder, answers, shards


def _fit_folder(folder: Path) -> None:
    fit, X = fitted("TopicModel"), counts()
    (folder / "kept").mkdir()
    write_counts(X, folder / "kept" / "counts.npz")
    for name, answer in {
        "differences": um.differences(fit, X),
        "stability": um.stability(X, 2, 3, estimator=ESTIMATORS["em"]()),
        "freedom": um.freedom(fit),
    }.items():
        answer.save(folder / f"{name}.safetensors")
    fit.save(folder / "model.safetensors")


def _answers(folder: Path) -> None:
    fit, other, X = fitted("TopicModel"), fitted("em"), counts()
    um.choose_topics(X, [1, 2], estimator=ESTIMATORS["em"](), folds=2).save(folder / "Choice.safetensors")
    um.compare(fit, other).save(folder / "Comparison.safetensors")
    um.align([fit, other]).save(folder / "Alignment.safetensors")
    um.intervals(fit, X, sweeps=20, burn_in=5, chains=2).save(folder / "Intervals.safetensors")
    um.prevalence(fit, np.arange(len(X)) % 2, np.arange(len(X))).save(folder / "Prevalence.safetensors")
    um.effects(fit, X, np.arange(len(X)) % 3).save(folder / "Effects.safetensors")
    fit.quality(X).save(folder / "Quality.safetensors")


def _loaded(folder: Path) -> None:
    for file in sorted(folder.glob("*.safetensors")):
        answer = getattr(um.analysis, file.stem).load(file)
        repr(answer)
        answer.advice()
        answer.save(folder / "again.bin")


def _shards(folder: Path) -> None:
    um.shard(counts(), folder / "x.shards")
    (folder / "kept").mkdir()
    fitted("PoissonNMF").save(folder / "kept" / "model.safetensors")


def _of_shards(folder: Path) -> None:
    shards = um.Shards(folder / "x.shards")
    shards.verify()
    repr(shards)
    um.PoissonNMF(2, max_iter=2, random_state=0).fit(shards)


def subjects() -> dict[str, Subject]:
    """All of them by name."""
    return {
        **_formats(),
        **_models(),
        "fit": Subject(_fit_folder, (lambda folder: terminal("report", str(folder)),)),
        "answers": Subject(_answers, (_loaded,)),
        "shards": Subject(
            _shards,
            (
                _of_shards,
                lambda folder: terminal("info", str(folder / "x.shards"), "--verify"),
                lambda folder: terminal(
                    "transform",
                    str(folder / "kept" / "model.safetensors"),
                    str(folder / "x.shards"),
                    "-o",
                    str(folder / "out.csv"),
                ),
            ),
        ),
    }
