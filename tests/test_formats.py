"""Fits saved by earlier versions load, are used and are gone on with. `models/` has one of every kind, written by 0.1.0."""

from pathlib import Path
from typing import Any

import numpy as np
import pytest
from conftest import random_counts

import unmix as um
from unmix.estimators import from_fit

FOLDER = Path(__file__).parent / "models"
TEXTS = FOLDER / "format-3-texts.safetensors"
MODELS = sorted(set(FOLDER.glob("*.safetensors")) - {TEXTS})
X = random_counts(n=40, m=30, seed=3)
# Where the version that saved them ended
ENDS = {
    "format-2-gamma-gamma": -2614.299599,
    "format-2-gibbs": -4105.583937,
    "format-2-lda": -2356.968554,
    "format-2-newton": -1958.391664,
    "format-2-online-lda": -2404.383516,
    "format-2-prefit": -1958.391664,
    "format-2-sparse": -3112.677173,
    "format-3-gamma-gamma": -2612.668329,
    "format-3-gibbs": -4105.583937,
    "format-3-lda": -2356.823790,
    "format-3-newton": -1956.645784,
    "format-3-online-lda": -2401.313174,
    "format-3-refine": -1913.157739,
    "format-3-search": -1956.645784,
    "format-3-sparse": -3165.404887,
}

pytestmark = pytest.mark.filterwarnings("ignore::sklearn.exceptions.ConvergenceWarning")


def estimator(fit: um.Fit) -> Any:
    """With all its parameters; `from_fit` leaves out those that do not matter for new samples."""
    model = from_fit(fit).set_params(init=fit.params["init"])
    if fit.params["model"] == "LDA" and "StochasticVI" in (fit.state or {})["solver"]:
        model.set_params(online=um.Online(batch_size=8))
    return model


@pytest.mark.parametrize("path", MODELS, ids=lambda path: path.stem)
def test_a_fit_of_an_earlier_format_is_read_used_and_gone_on_with(path: Path) -> None:
    fit = um.load(path)
    assert (fit.L.shape[0], fit.F.shape[0], fit.status) == (40, 30, "interrupted")
    model = estimator(fit)
    assert np.isfinite(model.transform(X)).all()
    resumed = model.resume(X, fit).result_
    objective = resumed.trace["objective"].iloc[-1]
    assert objective > fit.trace["objective"].iloc[-1]
    if path.stem == "format-2-refine":  # with moves of another kind, of which none need help
        assert "put together" in resumed.trace["note"].iloc[len(fit.trace)]
    else:
        assert objective == pytest.approx(ENDS[path.stem], rel=1e-5)


def test_a_fit_of_texts_of_the_last_release_counts_new_texts_and_keeps_its_names() -> None:
    fit = um.load(TEXTS)
    assert (fit.versions["unmix"], list(fit.names)) == ("0.1.0", ["peace", "money"])
    assert fit.transform(["gold and silver", "a treaty of peace"]).round(6).tolist() == [[0, 1], [1, 0]]


def test_every_kind_of_state_is_among_them() -> None:
    stages = {path.stem: um.load(path).trace["stage"].iloc[-1] for path in MODELS}
    assert {"prefit", "search", "fit", "sample", "refine"} <= set(stages.values())
    kinds = {kind for path in MODELS for kind in um.load(path).priors.values()}
    assert kinds == {"DirichletRows", "DirichletColumns", "Gammas"}
