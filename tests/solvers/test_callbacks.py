"""What listens to a run: the KKT residual now and then, and the line that says how long it will take."""

from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest
from conftest import random_counts

import unmix as um
from unmix.solvers import MeasureKKT, ProgressBar, StopAtKKT
from unmix.solvers.callbacks import time_left
from unmix.solvers.run import Callback, Counters

X = random_counts(n=30, m=25, seed=2)


def test_kkt_is_measured_ever_more_rarely_and_is_the_residual_of_its_iteration() -> None:
    trace = (
        um.TopicModel(3, init="random", random_state=0, max_iter=60, tol=0, callbacks=[MeasureKKT()])
        .fit(X)
        .result_.trace
    )
    known = trace.index[trace["kkt"].notna()].tolist()
    assert known[:5] == [1, 2, 3, 4, 6]
    assert (np.diff(known[:-1]) >= 0.3 * np.array(known[:-2])).all()
    short = um.TopicModel(3, init="random", random_state=0, max_iter=known[-3] - 10, tol=0).fit(X).result_
    assert trace["kkt"][known[-3]] == short.kkt


@pytest.mark.parametrize("callback", [MeasureKKT(growth=1), StopAtKKT(0, every=1)], ids=["measured", "awaited"])
def test_kkt_is_known_during_moves_too(callback: Callback) -> None:
    fit = um.TopicModel(3, refine=2, random_state=0, max_iter=60, callbacks=[callback]).fit(X).result_
    moves = fit.trace[fit.trace["stage"] == "refine"]
    assert len(moves) == 2
    assert moves["kkt"].notna().all()
    assert fit.kkt == moves["kkt"].iloc[-1] or fit.trace["stage"].iloc[-1] != "refine"


def test_a_model_without_kkt_conditions_has_none_in_its_trace() -> None:
    trace = um.LDA(3, random_state=0, max_iter=5, tol=0, callbacks=[MeasureKKT()]).fit(X).result_.trace
    assert trace["kkt"].isna().all()


def progress(gains: list[float], *, seconds: float, total: float, done: int) -> Any:
    objective = np.cumsum([0.0, *gains])
    rows = [
        {"iteration": i, "seconds": i * seconds, "objective": float(value), "kkt": np.nan, "stage": "fit"}
        for i, value in enumerate(objective)
    ]
    session = SimpleNamespace(counters=Counters("fit", done=done))
    told = {"trace": SimpleNamespace(rows=rows), "session": session}
    return SimpleNamespace(**told, row=rows[-1], problem=SimpleNamespace(X=SimpleNamespace(total=total)))


def test_time_left_follows_gains_that_fall_steadily() -> None:
    """Gains halve with every iteration: after eleven 1 is left, and ten later 2^-10; a third more of all is spent to be sure."""
    told = progress([2.0**-i for i in range(-10, 1)], seconds=3.0, total=1.0, done=11)
    assert time_left(told, max_iter=500, tol=2.0**-10) == pytest.approx((1.5 * 21 - 11) * 3.0)


def test_time_left_is_at_most_what_the_iterations_allow() -> None:
    told = progress([1.0] * 20, seconds=2.0, total=1.0, done=20)
    assert time_left(told, max_iter=50, tol=1e-9) == pytest.approx(30 * 2.0)
    assert time_left(progress([1.0] * 3, seconds=2.0, total=1.0, done=3), max_iter=50, tol=1e-9) is None


def test_the_bar_tells_iteration_objective_gain_kkt_and_time(capsys: pytest.CaptureFixture[str]) -> None:
    told = progress([2.0**-i for i in range(-10, 1)], seconds=3.0, total=1.0, done=11)
    told.trace.rows[4]["kkt"] = 0.123
    with ProgressBar(500, 2.0**-10) as bar:
        bar(told)
        fields = bar._bar.tasks[0].fields
        numbers, left = fields["numbers"], fields["left"]
    assert numbers == "11 it · 2,047.00 (+6.2/it) · KKT 0.12"
    assert left == "~62 s remaining"
    assert capsys.readouterr().out == ""  # stderr, so that results can be piped
