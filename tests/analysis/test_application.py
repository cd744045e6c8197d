"""A saved fit is a model: it is applied to new samples by its own inference, features by name, texts as they were counted."""

import pickle
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace

import anndata
import numpy as np
import pandas as pd
import pytest
from conftest import random_counts

import unmix as um
from unmix.estimators import from_fit
from unmix.io.read.words import Words

FEATURES = [f"f{j}" for j in range(25)]
X = um.Counts(random_counts(30, 25, K=3, seed=4, mean=8.0), features=FEATURES)
NEW = random_counts(8, 25, K=3, seed=5, mean=8.0)
TEXTS = [
    "red roses and red wine",
    "white wine and white roses",
    "blue sea, blue sky",
    "sea and sky and red sky",
    "wine",
] * 3

KINDS = {
    "PoissonNMF": {},
    "TopicModel": {},
    "SparsePoissonNMF": {},
    "LDA": {"eta": 0.3, "alpha": 0.2},
    "GammaPoisson": {"eta": 0.3},
    "BayesianPoissonNMF": {},
    "AllocationModel": {"max_iter": 50, "tol": 0},
}


@pytest.fixture(scope="module")
def texts():
    return um.TopicModel(2, random_state=0).fit(um.read_texts(TEXTS, ngrams=2)).result_


@pytest.mark.parametrize("name", KINDS)
def test_what_was_saved_transforms_as_what_was_fitted(name, tmp_path):
    model = getattr(um, name)(3, random_state=0, **KINDS[name]).fit(X)
    model.result_.save(tmp_path / "model.safetensors")
    fit = um.load(tmp_path / "model.safetensors")
    again = getattr(um, name).from_fit(fit)
    new = um.Counts(NEW, features=FEATURES)
    np.testing.assert_allclose(again.transform(new), model.transform(new), rtol=1e-9, atol=1e-12)
    want, *_ = um.poisson_to_topics(model.transform(new), model.components_.T)
    np.testing.assert_allclose(fit.transform(new), want, rtol=1e-9, atol=1e-12)
    np.testing.assert_allclose(fit.transform(new).sum(axis=1), 1)


def test_a_fit_of_the_embedded_speeches_takes_new_texts():
    fit = um.TopicModel(2, random_state=0, max_iter=3, init="random", prefit=0, tol=0).fit(um.datasets.sotu()).result_
    words = ["silver", "gold", "coinage"]
    new = um.Counts([[2, 1, 1]], features=words)
    with pytest.warns(UserWarning, match="features of the fit are not in X: taken as 0"):
        want = fit.transform(new)
    np.testing.assert_allclose(fit.transform(["Gold, and silver: the SILVER coinage of us."]), want)


def test_features_are_found_by_name_in_any_order_and_what_is_not_there_is_told():
    fit = um.TopicModel(3, random_state=0).fit(X).result_
    want = fit.transform(um.Counts(NEW, features=FEATURES))
    turned = pd.DataFrame(NEW[:, ::-1], index=list("abcdefgh"), columns=FEATURES[::-1])
    np.testing.assert_allclose(fit.transform(turned), want)
    np.testing.assert_allclose(fit.transform(anndata.AnnData(turned)), want)
    np.testing.assert_allclose(fit.transform(NEW), want)  # without names, by position
    with pytest.warns(
        UserWarning, match="1 feature of the fit is not in X: taken as not .* 2 features of X are unknown"
    ):
        fit.transform(turned.drop(columns="f3").assign(other=1, more=2))


@pytest.mark.parametrize(
    "name", [name for name in KINDS if name != "SparsePoissonNMF"]
)  # whose penalty grows with counts
def test_features_that_were_not_measured_leave_proportions_and_loadings_alone(name):
    """Many counts, of two thirds of the features: what all of them would show. As zeros they show something else."""
    model = getattr(um, name)(3, random_state=0, **KINDS[name]).fit(X)
    fit = model.result_
    truth = np.random.default_rng(0).dirichlet(np.ones(3), 6)
    new = um.Counts(np.round(1e6 * truth @ fit.topics.T), features=FEATURES)
    kept = np.sort(np.argsort(-fit.topics[:, 0])[8:])
    some = new.take(None, kept)
    with pytest.warns(UserWarning, match=r"^8 features of the fit are not in X: taken as not measured"):
        found = model.transform(some)
    np.testing.assert_allclose(found, model.transform(new), rtol=0, atol=0.03 * found.max())
    with pytest.warns(UserWarning, match="not measured"):
        np.testing.assert_allclose(fit.transform(some), truth, atol=0.02)
    with pytest.warns(UserWarning, match="taken as 0 in every sample"):
        assert np.abs(fit.transform(some, missing="zero") - truth).max() > 0.1
    with pytest.warns(UserWarning, match="not measured"):  # part by part, with one warning
        np.testing.assert_array_equal(model.transform(um.Shards.of(some)), found)
    with pytest.raises(ValueError, match=r"missing='none'; choose one of unmeasured, zero"):
        fit.transform(some, missing="none")


def test_texts_are_counted_as_those_of_the_fit(texts):
    new = ["Red wine, red wine!", "the blue sky"]
    want = texts.transform(um.read_texts(new, like=texts))
    for given in (new, tuple(new), pd.Series(new)):
        np.testing.assert_array_equal(texts.transform(given), want)
    assert want[0].argmax() != want[1].argmax()


@pytest.mark.parametrize("name", KINDS)
def test_a_fit_prepares_its_words_and_topics_once_and_answers_many_threads_with_the_same_bits(name, monkeypatch):
    """As by a fit that has prepared nothing; and one text of few words as among others. A copy has prepared nothing."""
    rest = " ".join(f"w{one}{other}" for one in "abcdefghi" for other in "abcdefghijklmnopqrstuvwxyz")
    many = um.read_texts([f"{text} {rest}" for text in TEXTS])
    fit = getattr(um, name)(3, random_state=0, **KINDS[name]).fit(many).result_
    want = [replace(fit).transform([text]) for text in TEXTS]
    fit.transform(TEXTS[:1])
    size = len(pickle.dumps(replace(fit)))
    assert len(pickle.dumps(fit)) == size

    def never(*_):
        raise AssertionError("prepared again")

    monkeypatch.setattr(Words, "__init__", never)
    monkeypatch.setattr(type(fit._prepared(from_fit)), "__init__", never)
    with ThreadPoolExecutor(4) as pool:
        got = list(pool.map(lambda text: fit.transform([text]), 3 * TEXTS))
    np.testing.assert_array_equal(np.vstack(got), np.vstack(3 * want))
    np.testing.assert_array_equal(fit.transform(TEXTS), np.vstack(want))


def test_texts_for_a_fit_of_counts_are_refused():
    fit = um.TopicModel(3, random_state=0).fit(X).result_
    with pytest.raises(ValueError, match="not made from texts; give counts"):
        fit.transform(["some words"])


def test_a_fit_of_another_model_is_refused_by_name():
    fit = um.LDA(3, random_state=0).fit(X).result_
    with pytest.raises(ValueError, match=r"made by LDA; use unmix.LDA.from_fit, or fit.transform"):
        um.TopicModel.from_fit(fit)
    poisson = um.PoissonNMF(3, random_state=0).fit(X).result_
    assert um.TopicModel.from_fit(poisson).transform(X).sum(axis=1) == pytest.approx(1)


@pytest.mark.parametrize("bad", ["one string", ["a", 3, "b"], []])
def test_what_is_no_list_of_texts_is_refused(bad):
    with pytest.raises(ValueError, match=r"one string|texts\[1\] is 3|there are no texts"):
        um.read_texts(bad)


def test_a_column_of_texts_brings_its_index_as_names():
    table = pd.DataFrame({"text": TEXTS[:3], "year": [1, 2, 3]}, index=["a", "b", "c"])
    counts = um.read_texts(table["text"], metadata=table[["year"]], stop_words=None, min_df=1)
    assert counts.samples.tolist() == ["a", "b", "c"]
    assert counts.metadata["year"].tolist() == [1, 2, 3]
    assert "and" in counts.features
