"""Checks of values, and the error that names a parameter as its user would type it."""

from __future__ import annotations

import pickle
import warnings
from pathlib import Path

import numpy as np
import pandas as pd
import pytest

import unmix as um
from unmix.base.checks import ParameterError, choice, parameter, parameters_as, positive, real, share, whole

FINE = {
    "least": (whole, (1, 1), 1),
    "numpy's": (whole, (np.int64(7), 0), 7),
    "whole as real": (real, (3, 0), 3.0),
    "zero": (real, (0, 0), 0.0),
    "single": (positive, (np.float32(0.5),), 0.5),
    "half": (share, (0.5,), 0.5),
    "word": (choice, ("b", ("a", "b")), "b"),
}
BAD = {
    "below": (whole, (0, 1), "n=0; use a whole number >= 1"),
    "bool": (whole, (True, 1), "n=True; use a whole number >= 1"),
    "fraction": (whole, (1.0, 1), "n=1.0; use a whole number >= 1"),
    "text": (whole, ("1", 1), "n='1'; use a whole number >= 1"),
    "nan": (real, (float("nan"), 0), "n=nan; use a number >= 0"),
    "infinite": (real, (float("inf"), 0), "n=inf; use a number >= 0"),
    "real bool": (real, (True, 0), "n=True; use a number >= 0"),
    "not positive": (positive, (0,), "n=0; use a positive number"),
    "one": (share, (1.0,), "n=1.0; use a probability between 0 and 1"),
    "no share": (share, (0,), "n=0; use a probability between 0 and 1"),
    "none": (share, (None,), "n=None; use a probability between 0 and 1"),
    "other": (choice, ("c", ("a", "b")), "n='c'; choose one of a, b"),
    "array": (choice, (np.zeros(2), ("a", "b", "c")), "choose one of a, b, c"),
}


@pytest.mark.parametrize("name", FINE)
def test_a_value_that_is_allowed_comes_back_as_a_plain_one(name):
    check, (value, *limits), expected = FINE[name]
    found = check("n", value, *limits)
    assert found == expected
    assert type(found) is type(expected)


@pytest.mark.parametrize("name", BAD)
def test_a_value_that_is_not_is_named_with_its_remedy(name):
    check, (value, *limits), message = BAD[name]
    with pytest.raises(ParameterError) as error:
        check("n", value, *limits)
    assert message in str(error.value)
    assert (error.value.name, error.value.value) == ("n", value) or name in ("nan", "array")


def test_zero_is_a_share_where_it_is_allowed():
    assert share("n", 0, zero=True) == 0
    with pytest.raises(ParameterError, match=r"^n=-0\.1; use a number >= 0 and < 1$"):
        share("n", -0.1, zero=True)


def test_errors_name_parameters_as_the_program_around_them_does_and_reach_other_processes():
    error = ParameterError("folds", 0, "use a whole number >= 1")
    with parameters_as(lambda name, value: f"--{name} {value}"):
        assert str(error) == "--folds 0; use a whole number >= 1"
        assert parameter("layer", "x") == "--layer x"
        assert str(pickle.loads(pickle.dumps(error))) == str(error)
    assert str(error) == "folds=0; use a whole number >= 1"


@pytest.mark.filterwarnings("always")
@pytest.mark.parametrize("ask", ["fit", "fit_transform", "pandas", "transform", "read"])
def test_warnings_name_the_line_of_the_user(ask: str, tmp_path: Path) -> None:
    """However deep in unmix, contextlib or scikit-learn they arise."""
    X = pd.DataFrame([[9, 1, 0], [8, 2, 1], [0, 1, 7], [1, 0, 8]], columns=list("abc"))
    model = um.TopicModel(2, max_iter=1, random_state=0)
    with warnings.catch_warnings(record=True) as said:
        warnings.simplefilter("always")
        if ask == "pandas":
            model.set_output(transform="pandas").fit_transform(X)
        elif ask == "transform":
            um.TopicModel.from_factors(pd.DataFrame({"one": [1, 2], "two": [3, 4]}, index=["a", "x"])).transform(X)
        elif ask == "read":
            (tmp_path / "x.csv").write_text("gene,s1,s2\nBRCA1,1,2\nTP53,3,4\n")
            um.read(tmp_path / "x.csv")
        else:
            getattr(model, ask)(X)
    assert said
    assert {warning.filename for warning in said} == {__file__}
