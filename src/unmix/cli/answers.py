"""What a fit's folder may hold besides the fit: answers to further questions, each with its file and a section of the page."""

from __future__ import annotations

import warnings
from collections.abc import Callable, Mapping
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

from unmix.cli import show

if TYPE_CHECKING:
    from unmix.analysis.results import Result
    from unmix.counts import Counts
    from unmix.estimators.base import CountsEstimator
    from unmix.fit import Fit
    from unmix.shards import Shards

RUNS = 20  # of --stability, unless told


def check_answerable(counts: Counts | Shards, topics: int, *, differences: bool, stability: bool) -> None:
    """What cannot be answered is best said before the fit."""
    from unmix.shards import Shards

    for asked, option in ((differences, "--differences"), (stability, "--stability")):
        if asked and isinstance(counts, Shards):
            raise ValueError(f"{option} is for counts in memory, and these are shards; leave it out")
    if differences and topics < 2:
        raise ValueError("--differences compares topics, and there is one only; leave it out, or fit at least 2")


def answers_to(
    result: Fit,
    counts: Any,
    estimator: CountsEstimator,
    *,
    differences: bool,
    stability: bool,
    freedom: bool,
    runs: int = RUNS,
) -> dict[str, Result]:
    """By the names of sections. Ctrl-C ends the questions, not what is known by then."""
    from unmix import analysis

    asked: dict[str, tuple[str, Callable[[], Result]]] = {}
    if differences:
        asked["differences"] = (
            "comparing topics",
            lambda: analysis.differences(result, counts, n_jobs=estimator.n_jobs),
        )
    if stability:
        asked["stability"] = ("fitting halves of the counts", lambda: _stability(result, counts, estimator, runs))
    if freedom:
        asked["freedom"] = ("looking for other factors with the same rates", lambda: analysis.freedom(result))
    found: dict[str, Result] = {}
    for name, (doing, answer) in asked.items():
        try:
            with show.working(doing):
                found[name] = answer()
        except KeyboardInterrupt:
            show.note(f"interrupted: the fit is kept, without --{' and --'.join([*asked][len(found) :])}")
            break
    return found


def _stability(result: Fit, counts: Any, estimator: CountsEstimator, runs: int) -> Result:
    """Runs start from scratch, wherever the fit itself began, and say nothing on their way."""
    from sklearn.base import clone
    from sklearn.exceptions import ConvergenceWarning

    from unmix.analysis import stability

    init = getattr(estimator, "init", "auto")
    plain = clone(estimator).set_params(
        callbacks=(), verbose=False, **({} if isinstance(init, str) else {"init": "auto"})
    )
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ConvergenceWarning)  # its advice says so
        return stability(counts, result.n_topics, runs, estimator=plain, reference=result)


def answers_in(folder: Path) -> dict[str, Result]:
    """Those that were kept in a fit's folder."""
    from unmix.analysis import Differences, Freedom, Stability
    from unmix.data.write import ANSWER_FILES

    kinds: dict[str, type[Result]] = {"differences": Differences, "stability": Stability, "freedom": Freedom}
    files = {name: folder / file for name, file in ANSWER_FILES.items()}
    return {name: kinds[name].load(file) for name, file in files.items() if file.is_file()}


def files_of(answers: Mapping[str, Any]) -> dict[str, Callable[[Path], None]]:
    """Names of files, and what writes them to a path."""
    from unmix import plot
    from unmix.cli.differences import files_of as of_differences
    from unmix.cli.differences import picture
    from unmix.data.write import ANSWER_FILES

    files: dict[str, Callable[[Path], None]] = {ANSWER_FILES[name]: found.save for name, found in answers.items()}
    if "differences" in answers:
        files |= of_differences(answers["differences"])
    if "stability" in answers:
        files["stability.csv"] = partial(_write_table, answers["stability"].table)
        files["stability.png"] = picture(lambda: plot.stability(answers["stability"])[0])  # type: ignore[index]
    if "freedom" in answers:
        files["freedom.csv"] = partial(_write_table, answers["freedom"].by_sample)
    return files


def write_page_again(folder: Path, known: Fit) -> None:
    """The page in the folder of this very model, with all answers that lie there."""
    from unmix.cli.fitting import read_model
    from unmix.data.write import MODEL_FILE
    from unmix.report import write_report

    if not (folder / "report.html").is_file() or not (folder / MODEL_FILE).is_file():
        return
    there = read_model(folder)
    if there.L.shape == known.L.shape and bool((there.L == known.L).all()):
        write_report(known, folder / "report.html", **answers_in(folder))  # type: ignore[arg-type]


def _write_table(table: Any, path: Path) -> None:
    from unmix.data.spreadsheet import write_csv

    write_csv(table, path)
