"""Analyses report their progress in one form, fit quietly, pass Ctrl-C on, and do nothing twice."""

from __future__ import annotations

import subprocess
import sys
import warnings
from collections.abc import Callable
from dataclasses import replace
from typing import Any

import numpy as np
import pytest
from conftest import random_counts
from sklearn.exceptions import ConvergenceWarning

import unmix as um
from unmix.base.progress import Step, watching
from unmix.fit import finished, quietly

X = um.Counts(random_counts(20, 15, K=3, seed=1, mean=6.0))
FIT = um.TopicModel(2, random_state=0).fit(X).result_
ANALYSES: dict[str, tuple[str, Callable[..., Any]]] = {
    "choose_topics": ("6 of 6 fits", lambda **how: um.choose_topics(X, [1, 2, 3], folds=2, random_state=0, **how)),
    "stability": ("3 of 3 fits", lambda **how: um.stability(X, 2, runs=2, random_state=0, **how)),
    "consensus": ("3 of 3 fits", lambda **how: um.consensus(X, 2, runs=2, random_state=0, **how)),
    "differences": ("1 of 1 parts", lambda **how: um.differences(FIT, X, **how)),
    "freedom": (" parts", lambda **how: um.freedom(FIT, probes=1, **how)),
    "intervals": ("10 of 10 sweeps", lambda **how: um.intervals(FIT, X, sweeps=10, burn_in=0, random_state=0, **how)),
}


@pytest.mark.parametrize("name", ANALYSES)
def test_every_analysis_tells_how_far_it_is_in_one_form(name: str, capsys: pytest.CaptureFixture[str]) -> None:
    line, analysis = ANALYSES[name]
    steps: list[Step] = []
    with watching(steps.append):
        analysis(verbose=True)
    assert capsys.readouterr().err == ""
    assert [step.done for step in steps] == sorted(step.done or 0 for step in steps)
    assert steps[-1].done == steps[-1].of, "in the end all is finished"
    assert all(step.remaining is None or step.remaining >= 0 for step in steps)
    assert steps[-1].remaining in (0, None)
    assert str(steps[-1]).endswith(line)


def test_a_quiet_fit_says_by_its_status_that_it_has_not_converged() -> None:
    with warnings.catch_warnings():
        warnings.simplefilter("error", ConvergenceWarning)
        with quietly():
            fit = um.TopicModel(2, tol=1e-12, max_iter=1, random_state=0).fit(X).result_
    assert finished(fit).status == "max_iter"
    with pytest.raises(KeyboardInterrupt):
        finished(replace(fit, status="interrupted"))


def test_ctrl_c_during_the_fit_to_a_part_of_the_counts_ends_the_analysis(monkeypatch: pytest.MonkeyPatch) -> None:
    fit = um.TopicModel.fit

    def interrupted(model: um.TopicModel, counts: um.Counts) -> um.TopicModel:
        fit(model, counts).result_ = replace(model.result_, status="interrupted")
        return model

    monkeypatch.setattr(um.TopicModel, "fit", interrupted)
    with pytest.raises(KeyboardInterrupt):
        um.differences(FIT, X, held_out=0.5, random_state=0)


def test_counts_are_divided_into_folds_once(monkeypatch: pytest.MonkeyPatch) -> None:
    calls, thinned = [], um.Counts.thinned
    monkeypatch.setattr(um.Counts, "thinned", lambda *given, **how: calls.append(1) or thinned(*given, **how))
    um.choose_topics(X, [1, 2], folds=3, random_state=0)
    assert len(calls) == 1


def test_proportions_are_checked_once(monkeypatch: pytest.MonkeyPatch) -> None:
    module = sys.modules["unmix.analysis.differences"]
    calls, proportions_of = [], module.proportions_of
    monkeypatch.setattr(module, "proportions_of", lambda *given: calls.append(1) or proportions_of(*given))
    um.differences(FIT.proportions, X)
    assert len(calls) == 1


@pytest.mark.parametrize("kind", [um.TopicModel, um.LDA])
def test_a_fit_transforms_as_its_estimator_does_to_the_last_bit(kind: type) -> None:
    model = kind(2, random_state=0, max_iter=20, tol=0).fit(X)
    np.testing.assert_array_equal(model.result_.transform(X), model.transform(X))


def test_the_command_line_starts_without_what_only_some_commands_need() -> None:
    heavy = "sorted({'sklearn', 'pandas', 'scipy', 'matplotlib'} & sys.modules.keys())"
    found = subprocess.run(
        [sys.executable, "-c", f"import sys, unmix.cli; print({heavy})"], capture_output=True, text=True, check=True
    )
    assert found.stdout.strip() == "[]"
