"""What every analysis gives back: files, and parts that survive."""

from dataclasses import dataclass

import numpy as np
import pandas as pd
import pytest

import unmix as um
from unmix.analysis.results import Result, in_parts


@dataclass(frozen=True, eq=False)
class Found(Result):
    numbers: np.ndarray
    names: np.ndarray
    rows: pd.DataFrame
    best: int
    note: str | None = None


FOUND = Found(np.arange(6.0).reshape(2, 3), np.array(["a", "ü"]), pd.DataFrame({"K": [1, 2], "word": ["x", None]}), 3)


def test_a_result_is_the_same_after_saving_and_loading(tmp_path):
    FOUND.save(tmp_path / "found.safetensors")
    again = Found.load(tmp_path / "found.safetensors")
    np.testing.assert_array_equal(again.numbers, FOUND.numbers)
    assert again.names.tolist() == ["a", "ü"]
    assert again.rows["K"].tolist() == [1, 2]
    assert (again.best, again.note) == (3, None)


def test_files_of_another_kind_are_refused_by_name(tmp_path):
    path = tmp_path / "found.safetensors"
    FOUND.save(path)
    with pytest.raises(ValueError, match=r"found.safetensors: not a model but what unmix.Found found"):
        um.load(path)
    fit = um.TopicModel(2, random_state=0).fit(np.ones((4, 5))).result_
    fit.save(tmp_path / "model.safetensors")
    with pytest.raises(ValueError, match="holds a Fit, not a Found"):
        Found.load(tmp_path / "model.safetensors")
    with pytest.raises(FileNotFoundError, match=r"nowhere: no such file; give one written by Found.save"):
        Found.load(tmp_path / "nowhere")
    path.write_bytes(path.read_bytes()[:40])
    with pytest.raises(ValueError, match="not a readable safetensors file"):
        Found.load(path)


def test_what_is_finished_survives_an_interrupt_and_the_rest_goes_on_from_the_file(tmp_path):
    asked = []

    def work(part, stop_at=None):
        if part == stop_at:
            raise KeyboardInterrupt
        asked.append(part)
        return {"square": np.array([part**2])}

    keep = tmp_path / "parts.safetensors"
    first, status = in_parts(range(5), lambda part: work(part, stop_at=3), keep=keep, of={"K": 2})
    assert status == "interrupted"
    assert [None if one is None else one["square"][0] for one in first] == [0, 1, 4, None, None]
    told = []
    second, status = in_parts(range(5), work, keep=keep, of={"K": 2}, tell=lambda *said: told.append(said[:2]))
    assert status == "finished"
    assert [one["square"][0] for one in second] == [0, 1, 4, 9, 16]
    assert asked == [0, 1, 2, 3, 4]  # each once
    assert told[-1] == (5, 5)


def test_an_interrupt_before_anything_is_finished_is_an_interrupt():
    def work(part):
        raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        in_parts(range(2), work)


def test_parts_of_other_data_are_refused(tmp_path):
    keep = tmp_path / "parts.safetensors"
    in_parts(range(2), lambda part: {"x": np.ones(1)}, keep=keep, of={"K": 2})
    with pytest.raises(ValueError, match="parts of other data or other parameters"):
        in_parts(range(2), lambda part: {"x": np.ones(1)}, keep=keep, of={"K": 3})
