"""`door`: how long a person waits for `unmix info`, for an .h5ad file beside anndata's own reader, and for the report."""

import shutil
import sys
import tempfile
import warnings
from argparse import ArgumentParser, Namespace
from pathlib import Path

import numpy as np

import unmix as um
from benchmarks.commands.startup import run
from benchmarks.data import find_matrix, title
from benchmarks.measure import timed
from benchmarks.table import publish
from unmix.report import write_report

MAIN = "from unmix.cli import main; main()"


def add_arguments(parser: ArgumentParser) -> None:
    parser.add_argument("--repetitions", type=int, default=5, help="of each measurement (default 5)")


def main(arguments: Namespace) -> None:
    matrix, simulated = find_matrix(arguments.data, arguments.data_folder, arguments.out)
    name, repetitions = title(arguments.data, simulated), arguments.repetitions
    command = [sys.executable, "-c", MAIN, "info", str(matrix)]
    run(*command)  # fills the file cache
    waits = [timed(run, *command)[0] for _ in range(repetitions)]
    publish([{"command": "unmix info", "s": float(np.median(waits))}], f"Info, {name}", "door_info", arguments.out)
    counts = um.read(matrix)
    with tempfile.TemporaryDirectory() as folder:
        compare_readers(counts, Path(folder), name, arguments)
        time_report(counts, Path(folder), name, arguments)


def compare_readers(counts: um.Counts, folder: Path, name: str, arguments: Namespace) -> None:
    """Ours and anndata's in turn, of a file with the matrix alone and of one with two layers more."""
    import anndata

    rows = []
    for layers in (0, 2):
        path = folder / f"{layers}.h5ad"
        adata = anndata.AnnData(counts.csr.astype(np.float32), obs=counts.metadata)
        adata.layers.update({f"layer {i}": adata.X.copy() for i in range(layers)})
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            adata.write_h5ad(path)
            pairs = [
                (timed(um.read, path)[0], timed(anndata.read_h5ad, path)[0]) for _ in range(arguments.repetitions + 1)
            ]
        ours, theirs = np.median(pairs[1:], axis=0)
        rows.append(
            {"file with": f"X and {layers} layers", "unmix s": ours, "anndata s": theirs, "ratio": ours / theirs}
        )
    publish(rows, f"Reading .h5ad, {name}", "door_h5ad", arguments.out)


def time_report(counts: um.Counts, folder: Path, name: str, arguments: Namespace) -> None:
    fit = um.TopicModel(arguments.k, random_state=0, max_iter=20, tol=0, n_jobs=arguments.threads).fit(counts).result_
    page = folder / "report.html"
    write_report(fit, page)
    seconds = float(np.median([timed(write_report, fit, page)[0] for _ in range(arguments.repetitions)]))
    row = {"written in s": seconds, "MB": page.stat().st_size / 1e6, "answers the mouse after s": np.nan}
    if chromium := shutil.which("chromium") or shutil.which("google-chrome"):
        row["answers the mouse after s"] = time_to_answer(page, chromium, arguments.repetitions)
    else:
        print("no chromium on the PATH: the page was not opened")
    publish([row], f"Report, {name}, K = {arguments.k}", "door_report", arguments.out)


def time_to_answer(page: Path, chromium: str, repetitions: int) -> float:
    """From the call that opens the page to the words that follow the mouse over the Structure plot; the median."""
    from playwright.sync_api import sync_playwright

    waits = []
    with sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=chromium, args=["--no-sandbox"])
        for _ in range(repetitions):
            tab = browser.new_page(viewport={"width": 1440, "height": 900})
            waits.append(timed(_open_and_hover, tab, page.as_uri())[0])
            tab.close()
        browser.close()
    return float(np.median(waits))


def _open_and_hover(tab, address: str) -> None:
    tab.goto(address)
    box = tab.locator("#stage").bounding_box()
    tab.mouse.move(box["x"] + box["width"] / 2, box["y"] + box["height"] / 2)
    tab.locator("#tip").wait_for(state="visible")
