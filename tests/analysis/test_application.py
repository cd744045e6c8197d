"""A saved fit is a model: it is applied to new samples by its own inference, features by name, texts as they were counted."""

import pickle
import warnings
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace

import anndata
import numpy as np
import pandas as pd
import pytest
import scipy.sparse as sp
from conftest import random_counts, shared_data

import unmix as um
from unmix.estimators import from_fit
from unmix.io.read.words import Words
from unmix.models.poisson import misfits

FEATURES = [f"f{j}" for j in range(25)]
ALL = random_counts(38, 25, K=3, seed=4, mean=8.0)
X, NEW = um.Counts(ALL[:30], features=FEATURES), ALL[30:]
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
    with pytest.raises(ValueError, match="not made from texts; use counts"):
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


# How well samples are explained


def drawn(n, m=60, K=4, total=400, seed=0, topics_seed=0):
    """Poisson counts of topics that depend on `topics_seed`, of samples that depend on `seed`."""
    topics = np.random.default_rng(topics_seed).dirichlet(np.full(m, 0.3), K)
    rng = np.random.default_rng(seed)
    return um.Counts(
        rng.poisson(total * rng.dirichlet(np.full(K, 0.5), n) @ topics), features=[f"f{j}" for j in range(m)]
    )


@pytest.fixture(scope="module")
def reference():
    return um.TopicModel(4, random_state=0).fit(drawn(300)).result_


def test_the_misfit_is_the_sum_that_is_promised(reference):
    new = drawn(5, seed=1)
    proportions, t = reference.transform(new), new.sample_totals[:, None]
    pi, y = proportions @ reference.topics.T, new.csr.toarray() / t
    floor = 0.3 / np.minimum(t, np.median(drawn(300).sample_totals))
    want = (((y - pi) ** 2 - y / t) / (pi + floor)).sum(axis=1)
    np.testing.assert_allclose(um.analysis.goodness_of_fit(reference, new)["misfit"], want)


def test_a_misfit_does_not_grow_with_depth_and_is_zero_on_average():
    """Of Poisson counts around the rates of the model itself, whatever their depth."""
    rng = np.random.default_rng(0)
    topics, shares = rng.dirichlet(np.full(200, 0.3), 3).T, rng.dirichlet(np.ones(3), 400)
    for depth in (50, 500, 5_000):
        found = misfits(um.Counts(rng.poisson(depth * shares @ topics.T)), shares, topics, 500.0)
        assert abs(found.mean()) < 4 * found.std() / 20


@pytest.mark.parametrize("name", KINDS)
def test_new_samples_of_the_same_kind_rank_as_those_of_the_fit_and_others_last(name):
    model = getattr(um, name)(4, random_state=0, **KINDS[name]).fit(drawn(300))
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        model.transform(drawn(100, seed=1))
    alike = um.analysis.goodness_of_fit(model, drawn(100, seed=1))["rank"]
    assert 0.3 < alike.median() < 0.7
    assert (alike < 0.05).mean() < 0.15
    strangers = drawn(100, seed=1, topics_seed=1)
    assert um.analysis.goodness_of_fit(model, strangers)["rank"].max() < 0.05
    for transform in (model.transform, model.result_.transform, lambda X: model.transform(um.Shards.of(X))):
        with pytest.warns(
            UserWarning, match="do not fit the fit: 100% of them are explained worse than 95% of its own"
        ):
            transform(strangers)


def test_a_fit_of_shards_and_a_saved_one_know_how_well_their_samples_were_explained(reference, tmp_path):
    reference.save(tmp_path / "model.safetensors")
    again = um.load(tmp_path / "model.safetensors")
    assert again.data["reference"] == reference.data["reference"]
    assert len(again.data["reference"]["misfits"]) == 300
    streamed = um.TopicModel(4, random_state=0).fit(um.Shards.of(drawn(300))).result_
    want, found = (np.quantile(fit.data["reference"]["misfits"], [0.1, 0.5, 0.9]) for fit in (reference, streamed))
    np.testing.assert_allclose(found, want, rtol=0.2)
    given = um.TopicModel.from_factors(reference.F).result_
    assert um.analysis.goodness_of_fit(given, drawn(9))["rank"].isna().all()


def test_samples_of_a_fit_are_compared_as_if_they_were_new_to_it():
    """Many topics of few samples describe them closely, and new ones of the same kind less so."""
    X = drawn(350, m=300, K=10, total=100)
    first, new = np.arange(200), np.arange(200, 350)
    fit = um.TopicModel(10, random_state=0, tol=0.1).fit(X.take(first)).result_
    with warnings.catch_warnings(action="ignore"):
        own, rank = (um.analysis.goodness_of_fit(fit, X.take(rows))["rank"] for rows in (first, new))
    assert own.median() > 0.55  # 0.5, if they were compared with themselves
    assert 0.25 < rank.median() < 0.6
    assert (rank < 0.05).mean() < 0.2


def test_a_fit_of_few_samples_per_topic_does_not_judge():
    """Its topics are too much those of its own samples: new ones of the same kind have low ranks."""
    X = drawn(200, m=300, K=15, total=200)
    model = um.TopicModel(15, random_state=0, tol=0.1).fit(X.take(np.arange(100)))
    with warnings.catch_warnings(action="error"):
        warnings.filterwarnings("ignore", "[0-9]+ features with counts have no weight")
        model.transform(X.take(np.arange(100, 200)))
    assert um.analysis.goodness_of_fit(model, X.take(np.arange(9)))["rank"].notna().all()


def test_features_that_are_missing_or_unknown_leave_ranks_alone(reference):
    new = drawn(100, seed=1)
    some = um.Counts(
        np.column_stack([new.csr.toarray()[:, 15:], np.full(100, 100)]), features=[*new.features[15:], "other"]
    )
    table = um.analysis.goodness_of_fit(reference, some)
    assert 0.25 < table["rank"].median() < 0.75
    seen = new.csr[:, 15:].sum(axis=1)
    np.testing.assert_allclose(table["known"], seen / (seen + 100))
    assert table.index.name == "sample"


def test_a_sample_without_counts_has_no_rank(reference):
    table = um.analysis.goodness_of_fit(reference, np.zeros((2, 60)))
    assert table[["known", "misfit", "rank"]].isna().all(axis=None)


@pytest.mark.filterwarnings("ignore:[0-9]+ features with counts have no weight")
@pytest.mark.parametrize(("data_set", "K"), [("sotu", 8), ("newsgroups", 10), ("pbmc_facs", 6)])
def test_held_out_samples_of_real_data_fit_and_shuffled_ones_do_not(data_set, K):
    X = um.datasets.sotu().csr if data_set == "sotu" else sp.load_npz(shared_data(data_set) / "counts.npz")
    rng = np.random.default_rng(0)
    order = rng.permutation(X.shape[0])[:800]
    X = X[order[np.asarray(X[order].sum(axis=1)).ravel() > 0]]
    new = X[-200:] if data_set != "sotu" else X[-50:]
    model = um.TopicModel(K, random_state=0, tol=1e-2).fit(X[: X.shape[0] - new.shape[0]])
    with warnings.catch_warnings():
        warnings.filterwarnings("error", "these samples do not fit")
        model.transform(new)
        rank = um.analysis.goodness_of_fit(model, new)["rank"]
    assert 0.2 < rank.median() < 0.7
    assert (rank < 0.05).mean() < 0.2
    with pytest.warns(UserWarning, match="these samples do not fit the fit"):
        model.transform(new[:, rng.permutation(X.shape[1])])


def test_texts_of_another_language_bring_a_warning_and_others_do_not():
    rng = np.random.default_rng(0)
    english = [
        f"{a}{b}" for a in ("tax", "farm", "ship", "gold", "law") for b in ("", "er", "ing", "ed", "s", "less", "ly")
    ]
    german = ["steuer", "bauer", "schiff", "gesetz", "ruhe", "shiping", "gold"]

    def drawn_texts(words, n, strange=0.1):
        names = [f"name{i}" for i in range(1_000)]
        return [" ".join(rng.choice(names if rng.random() < strange else words) for _ in range(30)) for _ in range(n)]

    fit = um.TopicModel(2, random_state=0).fit(um.read_texts(drawn_texts(english, 200))).result_
    assert fit.text["known"] == pytest.approx(0.9, abs=0.05)  # names that occur in one text or two are left out
    table = um.analysis.goodness_of_fit(fit, drawn_texts(english, 50))
    assert table["known"].mean() == pytest.approx(fit.text["known"], abs=0.03)
    fit.transform(drawn_texts(english, 50))
    with pytest.warns(
        UserWarning,
        match=r"the fit knows \d+% of the words of these texts, and 9\d% of its own: a different lang",
    ):
        fit.transform(drawn_texts(german, 50))
    one = um.analysis.goodness_of_fit(fit, ["gold und gold, schiff und shiping"])
    assert one["known"].tolist() == [3 / 6]
