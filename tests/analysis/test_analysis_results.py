"""What every analysis gives back: files, and parts that survive."""

from dataclasses import dataclass, fields, replace

import numpy as np
import pandas as pd
import pytest

import unmix as um
from unmix.analysis.results import Result, in_parts
from unmix.base.progress import Progress, Step, watching


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
    with pytest.raises(FileNotFoundError, match=r"nowhere: no such file; use one written by Found.save"):
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
    first, status = in_parts(range(5), lambda part: work(part, stop_at=3), checkpoint=keep, of={"K": 2})
    assert status == "interrupted"
    assert [None if one is None else one["square"][0] for one in first] == [0, 1, 4, None, None]
    steps: list[Step] = []
    with watching(steps.append):
        second, status = in_parts(range(5), work, checkpoint=keep, of={"K": 2}, progress=Progress("parts"))
    assert status == "finished"
    assert [one["square"][0] for one in second] == [0, 1, 4, 9, 16]
    assert asked == [0, 1, 2, 3, 4]  # each once
    assert steps[-1][:3] == ("parts", 5, 5)


def test_an_interrupt_before_anything_is_finished_is_an_interrupt():
    def work(part):
        raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        in_parts(range(2), work)


def test_parts_of_other_data_are_refused(tmp_path):
    keep = tmp_path / "parts.safetensors"
    in_parts(range(2), lambda part: {"x": np.ones(1)}, checkpoint=keep, of={"K": 2})
    with pytest.raises(ValueError, match="checkpoint of other data or other parameters"):
        in_parts(range(2), lambda part: {"x": np.ones(1)}, checkpoint=keep, of={"K": 3})


# --- whatever an analysis finds can be saved and loaded ---------------------------------------------------------------

ODD = ["\ud800", "caf\udce9", "\n\t", "a,b", "", "\u2028", "'\"\\", "ü", "😀", "nan"]
COUNTS = um.Counts(
    np.random.default_rng(0).poisson(6, (10, 8)) + np.eye(10, 8), samples=ODD, features=[name + "f" for name in ODD[:8]]
)
HUGE = np.uint64(2**64 - 1)


@pytest.fixture(scope="module")
def fits():
    """Of two topics with odd names, and of one."""
    two = um.TopicModel(2, random_state=2**127, tol=1e-3).fit(COUNTS).result_.with_names(["\ud800", "\x01"])
    return two, um.TopicModel(1, random_state=0).fit(COUNTS).result_


ANALYSES = {
    "prevalence": lambda two, one: um.prevalence(
        two, list("abcde") * 2, np.arange(10), bins=np.int64(3), level=np.float32(0.5), examples=np.int8(1)
    ),
    "prevalence of one": lambda two, one: um.prevalence(one, np.array([True, False] * 5), examples=0),
    "effects": lambda two, one: um.effects(two, COUNTS, np.arange(10) % 4, list("abcde") * 2, level=np.float32(0.5)),
    "compare": lambda two, one: um.compare(two, one),
    "align": lambda two, one: um.align({"\udce9": one, np.int64(2): two}),
    "quality": lambda two, one: two.quality(COUNTS, top=np.int8(3), held_out=COUNTS),
    "quality of one": lambda two, one: one.quality(COUNTS, top=3),
    "intervals": lambda two, one: um.intervals(
        two, COUNTS, np.float32(0.9), sweeps=np.int64(6), burn_in=2, thin=2, chains=1, random_state=HUGE
    ),
    "freedom": lambda two, one: um.freedom(two, COUNTS, loss=np.float32(2), probes=np.int64(2)),
    "freedom of one": lambda two, one: um.freedom(one),
    "differences": lambda two, one: um.differences(two, COUNTS, against=np.int64(1), pseudocount=np.float32(0.5)),
    "differences, held out": lambda two, one: um.differences(
        two, COUNTS, groups=list("abcde") * 2, held_out=np.float64(0.5), random_state=2**100
    ),
    "stability": lambda two, one: um.stability(COUNTS, np.int64(2), np.int64(2), random_state=HUGE),
    "stability of one": lambda two, one: um.stability(COUNTS, 1, 2, noise="none", reference=one, random_state=0),
    "choose_topics": lambda two, one: um.choose_topics(
        COUNTS, np.arange(1, 3), folds=np.int64(2), worth=np.float32(0.01), random_state=2**100
    ),
    "assign": lambda two, one: um.assign(
        COUNTS,
        pd.DataFrame(np.ones((8, 2)) + np.eye(8, 2), index=COUNTS.features, columns=["\ud800", "b"]),
        list("ab") * 5,
        expected=np.float32(1),
        random_state=HUGE,
    ),
    "match_catalogue": lambda two, one: um.match_catalogue(
        two, pd.DataFrame(np.ones((8, 2)) + np.eye(8, 2), index=COUNTS.features, columns=["\ud800", "b"])
    ),
}


def test_every_kind_of_result_is_tried():
    def kinds(of):
        return {name for kind in of.__subclasses__() for name in (kind.__name__, *kinds(kind))}

    tried = {
        "Comparison",
        "Alignment",
        "Prevalence",
        "Effects",
        "Quality",
        "Intervals",
        "Freedom",
        "Differences",
        "Stability",
        "Choice",
        "Assignment",
    }
    assert kinds(Result) - {"Found", "Heaviest"} == tried | {"CatalogueMatch"}


@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize("name", ANALYSES)
def test_whatever_an_analysis_finds_can_be_saved_and_loaded(name, fits, tmp_path):
    found = ANALYSES[name](*fits)
    found.save(tmp_path / "found.safetensors")
    again = type(found).load(tmp_path / "found.safetensors")
    for one in fields(found):
        saved, loaded = getattr(found, one.name), getattr(again, one.name)
        if isinstance(saved, pd.DataFrame):
            pd.testing.assert_frame_equal(loaded, saved.reset_index(drop=True), check_dtype=False)
        else:
            np.testing.assert_equal(loaded, saved)
    assert again.advice() == found.advice()


@pytest.mark.parametrize(
    "change", [{"samples": "three"}, {"table": None}, {"table": pd.DataFrame({"topic": [1]})}, {"samples": 2**200}]
)
def test_a_result_that_could_not_be_read_again_is_not_written(change, fits, tmp_path):
    found = um.compare(*fits)
    found.save(tmp_path / "found.safetensors")
    before = (tmp_path / "found.safetensors").read_bytes()
    with pytest.raises(ValueError, match=r"found.safetensors: not written, as "):
        replace(found, **change).save(tmp_path / "found.safetensors")
    assert (tmp_path / "found.safetensors").read_bytes() == before
