"""`um.choose_topics`: the number of topics that foretells held-out counts, what is said of it, and what is refused."""

import json
from dataclasses import replace
from pathlib import Path

import numpy as np
import pandas as pd
import pytest

import unmix as um
from unmix.analysis import choose
from unmix.analysis.choose import (
    FEW_SAMPLES,
    compared,
    dispersion,
    estimated_overdispersion,
    foretold,
    one_standard_error,
    paired_errors,
)
from unmix.cli import main


def drawn(K, seed=0, b=None, n=120, m=100, size=200):
    """Counts of a model of K topics, with variance μ + μ²/b."""
    rng = np.random.default_rng(seed)
    rates = size * rng.dirichlet(np.full(K, 0.3), n) @ rng.dirichlet(np.full(m, 0.1), K)
    return rng.poisson(rates if b is None else rng.gamma(b, rates / b))


SMALL = drawn(3, n=40, m=30, size=80)


@pytest.fixture(scope="module")
def chosen():
    return um.choose_topics(SMALL, range(1, 6), folds=3, random_state=0)


def numbers(choice):
    """All but the time it took."""
    return choice.table.drop(columns="seconds")


# --- the right number ------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(("K", "tried"), [(1, range(1, 6)), (4, range(2, 7)), (8, range(6, 11))])
@pytest.mark.parametrize(("b", "overdispersion"), [(None, None), (1.0, "estimate")], ids=["Poisson", "overdispersed"])
def test_the_number_that_the_counts_were_drawn_with_is_best_and_suggested(K, tried, b, overdispersion):
    choice = um.choose_topics(drawn(K, b=b), tried, folds=3, overdispersion=overdispersion, random_state=0)
    assert (choice.best, choice.suggested) == (K, K)
    assert not any("largest number tried" in sentence for sentence in choice.advice())


def test_overdispersed_counts_taken_for_poisson_ones_favour_too_many_topics_and_it_says_so():
    choice = um.choose_topics(drawn(4, b=1.0), range(3, 8), folds=3, random_state=0)
    assert choice.best > 4
    assert choice.dispersion > 2
    assert any("use overdispersion='estimate'" in sentence for sentence in choice.advice())
    assert any("largest number tried" in sentence for sentence in choice.advice())


@pytest.mark.parametrize("K", [1, 4])
def test_dispersion_is_estimated_from_what_no_fit_has_seen(K):
    estimates = [
        estimated_overdispersion(um.Counts(drawn(K, seed, b=1.0)), range(1, 7), np.random.default_rng(0))
        for seed in range(2)
    ]
    assert all(0.6 < b < 1.8 for b in estimates)
    poisson = estimated_overdispersion(um.Counts(drawn(K)), range(1, 7), np.random.default_rng(0))
    assert poisson is None or poisson > 10


def test_sums_of_squares_over_all_entries_need_only_the_nonzeros():
    rng = np.random.default_rng(1)
    X, L, F = rng.poisson(0.7, (9, 8)), rng.gamma(1.0, 1, (9, 3)), rng.gamma(1.0, 1, (8, 3))
    F[2] = 0  # a rate of zero, where there are counts
    rates = L @ F.T
    found = dispersion(um.Counts(X), L, F)
    np.testing.assert_allclose(found, [((X - rates) ** 2).sum(), rates.sum(), (rates**2).sum()], rtol=1e-12)
    w = rng.gamma(1.0, 1, 9)
    found = dispersion(um.Counts(X), L, F, w)
    np.testing.assert_allclose(
        found, [w @ ((X - rates) ** 2).sum(axis=1), w @ rates.sum(axis=1), w @ (rates**2).sum(axis=1)]
    )


@pytest.mark.parametrize(
    "model",
    [
        um.PoissonNMF(prior=um.Gamma(1.1, 1.0)),
        um.SparsePoissonNMF(penalty=0.1),
        um.GammaPoisson(),
        um.BayesianPoissonNMF(),
        um.AllocationModel(alpha=0.5),
    ],
    ids=lambda model: type(model).__name__,
)
def test_any_model_can_be_chosen_for(model):
    choice = um.choose_topics(SMALL, [1, 3], model, folds=1, random_state=0)
    assert choice.model == type(model).__name__
    assert choice.best == 3
    assert model.n_components == 10  # the one that was given is left as it was


def test_another_model_has_a_curve_of_its_own():
    plain = um.choose_topics(SMALL, [2, 3, 6], folds=2, random_state=0)
    smooth = um.choose_topics(SMALL, [2, 3, 6], um.LDA(alpha=0.3, eta=0.3), folds=2, random_state=0)
    assert smooth.model == "LDA"
    assert smooth.table["delta"].iloc[-1] > plain.table["delta"].iloc[-1]  # surplus topics cost a smooth model less


def test_the_evidence_of_an_allocation_model_is_told_where_counts_are_few():
    X = np.array([[4, 0, 1], [0, 5, 1], [3, 0, 2], [0, 4, 0]])
    model = um.AllocationModel(alpha=0.5)
    choice = um.choose_topics(X, [1, 2], model, folds=2, random_state=0)
    exact = [um.AllocationModel(K, alpha=0.5).log_evidence(X, "exact") for K in (1, 2)]
    np.testing.assert_allclose(choice.table["evidence"], exact, atol=0.3)
    assert (choice.table["evidence_error"].iloc[1:] > 0).all()
    assert f"the evidence log p(X) is highest with {1 + int(exact[1] > exact[0])} topic" in "; ".join(choice.advice())
    assert "evidence" not in um.choose_topics(X, [1, 2], folds=2, random_state=0).table


# --- the score -------------------------------------------------------------------------------------------------------


def test_the_score_is_the_log_probability_under_rates_mixed_with_what_samples_have_in_common():
    X = um.Counts(SMALL)
    test, train = X.thinned((1, 3), np.random.default_rng(0))
    fit = um.TopicModel(3, random_state=0, max_iter=30, tol=0).fit(train).result_
    common = train.feature_totals + 0.5
    common /= common.sum()
    rates = fit.L @ fit.F.T
    p = (rates + common) / (rates.sum(axis=1, keepdims=True) + 1)
    np.testing.assert_allclose(p.sum(axis=1), 1)
    np.testing.assert_allclose(foretold(fit, train, test), (test.csr.toarray() * np.log(p)).sum(axis=1), rtol=1e-10)


def test_every_count_is_foretold_once(chosen):
    assert chosen.held_out == SMALL.sum()
    np.testing.assert_allclose(chosen.table["perplexity"], np.exp(-chosen.scores.sum(axis=1) / SMALL.sum()))
    assert um.choose_topics(SMALL, [2], folds=1, random_state=0).held_out == pytest.approx(SMALL.sum() / 5, rel=0.1)


def test_samples_without_counts_are_foretold_by_what_all_have_in_common():
    X = SMALL.copy()
    X[3] = 0
    X[7] = 0
    X[7, 2] = 1  # in one fold only, and then alone
    choice = um.choose_topics(X, [1, 2, 3], folds=3, random_state=0)
    assert np.isfinite(choice.scores).all()
    assert (choice.scores[:, 3] == 0).all()


def test_a_single_topic_foretells_by_the_totals(chosen):
    """K = 1 is known in closed form: all samples alike."""
    rng = np.random.default_rng([chosen.seed, 0])
    parts = um.Counts(SMALL).thinned(3, rng)
    by_hand = 0.0
    for part in parts:
        train = SMALL - part.csr.toarray()
        q = (train.sum(axis=0) + 0.5) / (train.sum() + 0.5 * SMALL.shape[1])
        sizes = train.sum(axis=1, keepdims=True)
        p = (sizes * train.sum(axis=0) / train.sum() + q) / (sizes + 1)
        by_hand += (part.csr.toarray() * np.log(p)).sum()
    assert chosen.scores[0].sum() == pytest.approx(by_hand, rel=1e-6)


# --- rules, by hand --------------------------------------------------------------------------------------------------


def made(totals, spread=0.0, tried=None, **about):
    """A choice of these totals, whose samples differ from the best by so much."""
    totals = np.asarray(totals, dtype=float)
    tried = list(range(1, len(totals) + 1)) if tried is None else tried
    n = 2 * FEW_SAMPLES
    scores = np.tile(totals[:, None] / n, (1, n))
    scores += np.where(np.arange(n) % 2, 1, -1) * spread * np.arange(len(totals))[:, None]
    fits = {name: np.ones((1, len(tried))) for name in ("loglik", "converged", "seconds")}
    fits["shares"] = np.array([[[1 / K] * K + [0] * (max(tried) - K) for K in tried]])
    plain = {"folds": 1, "status": "finished", "dispersion": 1.0, "overdispersion": None, "model": "TopicModel"}
    about = plain | {"samples": n, "seed": 0} | about
    return compared(tried, scores[None], held_out=10_000.0, fits=fits, worth=0.01, about=about)


@pytest.mark.parametrize(
    ("delta", "errors", "place"),
    [
        ([-9, -2, 0, -1], [3, 1, 0, 2], 2),
        ([-9, -1, 0, -1], [3, 1, 0, 2], 1),  # exactly one error counts
        ([-2, -9, 0, -1], [3, 1, 0, 2], 0),
        ([0, -1], [0, 5], 0),
    ],
)
def test_the_suggestion_is_the_least_within_one_standard_error(delta, errors, place):
    assert one_standard_error(np.array(delta, dtype=float), np.array(errors, dtype=float)) == place


def test_errors_are_paired_by_sample_or_by_fold_where_samples_are_few():
    rng = np.random.default_rng(0)
    many, few = rng.normal(size=(3, 4, FEW_SAMPLES)), rng.normal(size=(3, 4, FEW_SAMPLES - 1))
    d = (many - many[:, [2]]).sum(axis=0)
    np.testing.assert_allclose(paired_errors(many, 2), np.sqrt(FEW_SAMPLES) * d.std(axis=1, ddof=1))
    d = (few - few[:, [2]]).sum(axis=2)
    np.testing.assert_allclose(paired_errors(few, 2), np.sqrt(3) * d.std(axis=0, ddof=1))
    alone = few[:1]  # a single fold: samples are all there is
    assert (paired_errors(alone, 0)[1:] > 0).all()
    shifted = many + 100 * rng.normal(size=(1, 1, FEW_SAMPLES))  # what samples have of their own makes no difference
    np.testing.assert_allclose(paired_errors(shifted, 2), paired_errors(many, 2))


def test_gains_are_by_topic_and_per_thousand_counts():
    choice = made([-1000, -500, -300, -300.5], tried=[1, 2, 4, 5])
    np.testing.assert_allclose(choice.table["gain"], [np.nan, 50, 10, -0.05])
    assert choice.worthwhile == 4


def said(choice):
    return "\n".join(choice.advice())


def test_the_words_follow_the_numbers():
    peak = made([-900, -400, -100, -160, -300])
    assert (peak.best, peak.suggested) == (3, 3)
    assert said(peak).startswith("3 topics suggested: they predict held-out counts best, and no smaller number")
    assert "try more" not in said(peak)
    assert "Poisson" not in said(peak)
    assert "try more" in said(made([-900, -400, -100]))
    assert "the best is the smallest number tried, 3; try fewer" in said(made([-100, -400, -900], tried=[3, 4, 5]))
    assert said(made([-100, -400])).startswith("a single topic predicts held-out counts best")
    assert "counts vary 3 times as much as Poisson" in said(made([-9, -1, -5], dispersion=3.0))
    assert "vary as μ + μ²/2.5" in said(made([-9, -1, -5], dispersion=3.0, overdispersion=2.5))
    assert "vary as μ + μ²/1,764," in said(made([-9, -1, -5], dispersion=3.0, overdispersion=1764.3))
    assert "1 of 4 folds are finished" in said(made([-9, -1, -5], folds=4, status="interrupted"))


def test_a_flat_curve_is_told_and_the_least_of_its_numbers_suggested():
    flat = made([-900, -103, -101, -100, -102], spread=0.5)
    assert (flat.best, flat.suggested) == (4, 2)
    assert "2, 3, 4 and 5 topics are within one standard error of the best" in said(flat)
    assert "2 topics suggested: no smaller number is within one standard error of 4" in said(flat)


def test_a_smaller_number_to_consider_is_a_second_suggestion_and_never_the_first():
    choice = made([-10_000, -5_000, -4_960, -4_900, -4_800, -4_790], spread=0.01)
    assert (choice.suggested, choice.worthwhile) == (6, 2)
    assert "after 2 topics, one more gains less than 0.01 of what the first gained" in said(choice)


# --- starts that have seen nothing -----------------------------------------------------------------------------------


def test_a_start_that_has_seen_the_held_out_counts_is_refused():
    fit = um.TopicModel(2, random_state=0).fit(SMALL).result_
    for init in (fit, (fit.L, fit.F)):
        with pytest.raises(ValueError, match=r"init made elsewhere, .* leave init alone"):
            um.choose_topics(SMALL, [2], um.TopicModel(init=init))


def test_fits_of_a_fold_are_given_the_counts_of_the_others_and_nothing_else(monkeypatch):
    given = []
    original = choose.fits_downwards

    def spy(train, numbers, model):
        given.append((train.csr.toarray(), model.init))
        return original(train, numbers, model)

    monkeypatch.setattr(choose, "fits_downwards", spy)
    um.choose_topics(SMALL, [1, 2], folds=4, random_state=0)
    assert {init for _, init in given} == {"auto"}
    held_out = [SMALL - train for train, _ in given]
    assert all((part >= 0).all() for part in held_out)
    np.testing.assert_array_equal(sum(held_out), SMALL)


# --- seeds, threads, files, Ctrl-C -----------------------------------------------------------------------------------


def test_the_result_depends_on_the_seed_and_not_on_threads(chosen):
    again = um.choose_topics(SMALL, [5, 3, 1, 2, 4], folds=np.int64(3), random_state=0, n_jobs=2)
    pd.testing.assert_frame_equal(numbers(again), numbers(chosen), check_exact=True)
    other = um.choose_topics(SMALL, range(1, 6), folds=3, random_state=1)
    assert not np.array_equal(other.scores, chosen.scores)


def test_it_is_the_same_after_saving_and_loading(chosen, tmp_path):
    chosen.save(tmp_path / "choice.safetensors")
    again = um.Choice.load(tmp_path / "choice.safetensors")
    pd.testing.assert_frame_equal(again.table, chosen.table)
    assert again.advice() == chosen.advice()
    assert repr(again) == repr(chosen)
    assert repr(chosen).startswith("Choice(1 to 5 topics: 3 suggested, 3 best, 3 of 3 folds)\n")


def interrupted_after(monkeypatch, folds):
    """Ctrl-C once so many folds are finished, in the midst of a fit."""
    original, begun = choose.fits_downwards, []

    def stopping(train, numbers, model):
        begun.append(0)
        for place, made in enumerate(original(train, numbers, model)):
            if len(begun) > folds and place == 1:
                raise KeyboardInterrupt
            yield made

    monkeypatch.setattr(choose, "fits_downwards", stopping)


def test_ctrl_c_keeps_finished_folds_and_the_same_call_goes_on_to_the_same_result(chosen, tmp_path, monkeypatch):
    keep = tmp_path / "folds.safetensors"
    arguments = {"folds": 3, "random_state": 0, "checkpoint": keep}
    with monkeypatch.context() as patch:
        interrupted_after(patch, 2)
        part = um.choose_topics(SMALL, range(1, 6), **arguments)
    assert (part.status, part.folds_done) == ("interrupted", 2)
    assert part.held_out < SMALL.sum()
    assert "2 of 3 folds are finished" in said(part)
    whole = um.choose_topics(SMALL, range(1, 6), **arguments)
    assert whole.status == "finished"
    pd.testing.assert_frame_equal(numbers(whole), numbers(chosen), check_exact=True)
    assert whole.dispersion == chosen.dispersion
    with pytest.raises(ValueError, match="checkpoint of other data or other parameters"):
        um.choose_topics(SMALL, range(1, 7), **arguments)
    with monkeypatch.context() as patch:
        interrupted_after(patch, 0)
        with pytest.raises(KeyboardInterrupt):
            um.choose_topics(SMALL, range(1, 6), folds=3, random_state=0)


def test_ctrl_c_during_a_path_ends_the_path_and_not_one_of_its_fits(monkeypatch):
    original, made = um.TopicModel.fit, []

    def stopped(self, X, y=None):
        made.append(self.n_components)
        original(self, X)
        if len(made) == 3:
            self.result_ = replace(self.result_, status="interrupted")
        return self

    monkeypatch.setattr(um.TopicModel, "fit", stopped)
    with pytest.warns(UserWarning, match="interrupted: 2 of 4 fits are finished"):
        fits = um.fit_path(SMALL, range(1, 5), random_state=0)
    assert list(fits) == [3, 4]
    assert made == [4, 3, 2]


# --- what is refused -------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("options", "said"),
    [
        ({"topics": []}, "topics is empty; use numbers of topics"),
        ({"topics": [2, 0]}, "topics=0; use whole numbers >= 1"),
        ({"topics": [2, 3, 2]}, "topics has 2 twice; use every number once"),
        ({"topics": [2.5]}, r"topics=2\.5; use whole numbers"),
        ({"topics": 5}, r"topics=5; use several numbers of topics, such as range"),
        ({"topics": [100]}, "no number up to 30, of 40 samples and 30 features; use smaller"),
        ({"folds": 0}, "folds=0; use a whole number >= 1"),
        ({"folds": 2.5}, r"folds=2\.5; use a whole number"),
        ({"folds": 100_000}, "counts in total, for folds=100000; use at least 10 counts per fold"),
        ({"overdispersion": -1.0}, r'overdispersion=-1\.0; use None, a number b > 0, or "estimate"'),
        ({"overdispersion": "guess"}, "overdispersion='guess'; use None, a number b > 0, or \"estimate\""),
        ({"estimator": "lda"}, r"estimator='lda'; use one of unmix, such as unmix\.TopicModel"),
        ({"worth": 2}, "worth=2; use a part of the first gain"),
        ({"checkpoint": "folds.safetensors"}, "random_state=None; use a number, which checkpoint needs"),
        ({"X": SMALL[:1]}, "there is one sample; .* give at least two"),
        ({"X": SMALL / 2}, "choosing a number of topics needs whole numbers: the entry at row"),
    ],
)
def test_what_cannot_be_chosen_from_is_refused_by_name(options, said):
    given = {"X": SMALL, "topics": [1, 2]} | options
    with pytest.raises(ValueError, match=said):
        um.choose_topics(**given)


def test_more_topics_than_samples_or_features_are_left_out():
    with pytest.warns(UserWarning, match="topics 8, 9 ignored: there are 40 samples and 7 features"):
        choice = um.choose_topics(SMALL[:, :7], [1, 2, 8, 9], folds=2, random_state=0)
    assert choice.table["topics"].tolist() == [1, 2]


def test_fits_that_do_not_converge_are_told():
    choice = um.choose_topics(SMALL, [2, 3], um.TopicModel(max_iter=3), folds=2, random_state=0)
    assert "100% of the fits did not converge; raise max_iter or tol" in said(choice)


# --- pictures, page, terminal ----------------------------------------------------------------------------------------


def test_the_picture_marks_the_suggestion_and_has_a_bar_for_every_number(chosen):
    assert len(um.plot.choice(chosen)) == 1
    curve, shares = um.plot.choice(chosen, shares=True)
    assert [text.get_text() for text in curve.texts] == ["suggested: 3, best"]
    assert curve.lines[1].get_xdata()[0] == chosen.table["topics"].tolist().index(3)
    heights = np.array([bar.get_height() for bar in shares.patches]).reshape(-1, 5)
    np.testing.assert_allclose(heights.sum(axis=0), 1)
    points = next(line.get_ydata() for line in curve.get_lines() if line.get_marker() == "o")
    np.testing.assert_allclose(points.astype(float), chosen.table["delta"] * 1000 / SMALL.sum())
    three = um.plot.choice(chosen, stability={2: pd.DataFrame({"stability": [0.9, 0.5]})}, shares=True)
    assert len(three) == 3
    assert [line.get_ydata()[0] for line in three[1].get_lines()] == [0.7, 0.5]


def test_the_picture_of_a_single_number_and_of_equals_can_be_drawn():
    for choice in (made([-5.0], tried=[4]), made([-5.0, -5.0, -5.0])):
        curve = um.plot.choice(choice)[0]
        curve.figure.draw_without_rendering()
        points = next(line for line in curve.get_lines() if line.get_marker() == "o")
        assert len(points.get_ydata()) == len(choice.table)


def run(*arguments):
    with pytest.raises(SystemExit) as exit:
        main([str(argument) for argument in arguments])
    return exit.value.code


@pytest.fixture
def counts(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    rows, columns = [f"s{i}" for i in range(40)], [f"<b>f{j}" for j in range(30)]
    pd.DataFrame(SMALL, index=rows, columns=columns).to_csv("counts.csv")
    return "counts.csv"


def test_the_terminal_writes_a_folder_with_a_page_and_a_table(counts, chosen, capsys):
    assert run("choose", counts, "-k", "1-3,4,5", "--folds", 3, "--title", "<i>Mine") == 0
    assert sorted(path.name for path in Path("counts-choice").iterdir()) == [
        "choice.csv",
        "choice.html",
        "choice.png",
        "choice.safetensors",
    ]
    out = capsys.readouterr().out
    assert "3 topics suggested" in out
    pd.testing.assert_frame_equal(
        pd.read_csv("counts-choice/choice.csv").drop(columns="seconds"), numbers(chosen), check_dtype=False
    )
    assert um.Choice.load("counts-choice/choice.safetensors").suggested == 3
    page = Path("counts-choice/choice.html").read_text(encoding="utf-8")
    assert "&lt;i&gt;Mine" in page
    assert "<i>Mine" not in page
    assert "script-src" not in page
    assert "default-src 'none'" in page
    assert page.count("<tr") == 6
    assert "3 topics suggested" in page


def test_the_terminal_answers_in_json(counts, capsys):
    assert run("choose", counts, "-k", "2,3", "--folds", 2, "--overdispersion", 50, "--json") == 0
    answer = json.loads(capsys.readouterr().out)
    assert (answer["suggested"], answer["overdispersion"]) == (3, 50.0)
    assert [row["topics"] for row in answer["table"]] == [2, 3]
    assert answer["table"][0]["gain"] is None


def test_the_terminal_goes_on_with_finished_folds(counts, capsys, monkeypatch):
    command = ("choose", counts, "-k", "1-3", "--folds", 3)
    with monkeypatch.context() as patch:
        interrupted_after(patch, 1)
        assert run(*command) == 130
    assert "the same command with --resume continues" in capsys.readouterr().err
    assert Path("counts-choice/choice-checkpoint.safetensors").is_file()
    begun = []
    original = choose.fits_downwards
    monkeypatch.setattr(choose, "fits_downwards", lambda *given: begun.append(0) or original(*given))
    assert run(*command, "--resume") == 0
    assert len(begun) == 2
    assert not Path("counts-choice/choice-checkpoint.safetensors").exists()
    assert run(*command, "--resume") == 0
    assert "nothing to resume in counts-choice; starting again" in capsys.readouterr().err


@pytest.mark.parametrize(
    ("options", "said"),
    [
        (["-k", "3-1"], "-k 3-1; use numbers and ranges such as 1-12,16,20"),
        (["-k", "two"], "-k two; use numbers and ranges"),
        (["--overdispersion", "much"], "--overdispersion much; use None, a number b > 0"),
        (["--overdispersion", "0"], "--overdispersion 0; use None"),
        (["--set", "rho=1"], "--model topics; it has no parameter rho"),
        (["-o", "full"], "full: holds files that are not such results; use a different folder"),
        (["-k", "98,99"], "counts.csv: topics has no number up to 30"),
    ],
)
def test_the_terminal_says_in_one_line_what_was_wrong_and_writes_nothing(options, said, counts, capsys):
    Path("full").mkdir()
    Path("full/mine.txt").write_text("mine")
    assert run("choose", counts, *options) == 2
    err = capsys.readouterr().err
    assert said in err
    assert err.count("\n") == 1
    assert not Path("counts-choice").exists()
    assert [path.name for path in Path("full").iterdir()] == ["mine.txt"]


def test_of_shards_the_terminal_takes_the_samples_that_fits_start_from(counts, capsys):
    assert run("shard", counts, "-o", "all.shards") == 0
    capsys.readouterr()
    assert run("choose", "all.shards", "-k", "2,3", "--folds", 2) == 0
    assert "using 40 samples of them" in capsys.readouterr().out
    assert Path("all-choice/choice.html").is_file()
