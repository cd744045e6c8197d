"""Names on the page: of topics, that survive; of samples, below the bars and by any metadata; and means of many samples."""

import json
import re
import shutil
from dataclasses import replace

import numpy as np
import pandas as pd
import pytest

import unmix as um
from unmix.analysis.samples import means_along
from unmix.cli import main
from unmix.plot import structure, topic_colors
from unmix.report.payload import named_topics, read_names

CHROMIUM = next(filter(None, map(shutil.which, ("chromium", "chromium-browser", "google-chrome"))), None)
in_browser = pytest.mark.skipif(CHROMIUM is None, reason="no chromium or google-chrome on the PATH")
HOSTILE = "</script><img src=x onerror='window.canary = 1'>"


def made(n, K, **about):
    rng = np.random.default_rng(n)
    X = um.Counts(rng.poisson(200 * rng.dirichlet([0.4] * K, n) @ rng.dirichlet(np.full(50, 0.3), K)), **about)
    return um.TopicModel(K, random_state=0, tol=1e-2, max_iter=20, init="random").fit(X).result_


pytestmark = pytest.mark.filterwarnings("ignore::sklearn.exceptions.ConvergenceWarning")


@pytest.fixture(scope="module")
def few():
    dates = [f"2017/{1 + i % 12}/{1 + i}" for i in range(21)]
    titles = [f"Story {i}" if i else "Trump in Alaska" for i in range(21)]
    table = pd.DataFrame({"date": dates, "Title": titles, "snippet": "Once upon a time", "kind": ["a", "b", "c"] * 7})
    return made(21, 4, samples=[f"PD{i}" for i in range(21)], metadata=table)


@pytest.fixture(scope="module")
def many():
    return made(900, 4, metadata=pd.DataFrame({"year": np.repeat(np.arange(2000, 2010), 90), "t": np.arange(900.0)}))


@pytest.fixture
def tab(tmp_path):
    sync_api = pytest.importorskip("playwright.sync_api", reason="the browser tests need playwright")
    complaints = []
    with sync_api.sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=CHROMIUM, args=["--no-sandbox"])
        page = browser.new_page(viewport={"width": 1280, "height": 800})
        page.on("console", lambda message: complaints.append(message.text))
        page.on("pageerror", lambda error: complaints.append(str(error)))

        def open(fit, fragment="", **given):
            um.write_report(fit, tmp_path / "page.html", **given)
            return again(tmp_path / "page.html", fragment)

        def again(path, fragment=""):
            page.goto("about:blank")
            page.goto(path.as_uri() + fragment)
            page.wait_for_selector("body[data-ready]")
            return page

        open.again = again
        yield open
        browser.close()
    assert complaints == []


@in_browser
def test_a_saved_copy_keeps_the_names_of_topics_and_runs_as_the_page_does(tab, few, tmp_path) -> None:
    page = tab(few, "#name1=Smoking&theme=dark", names={3: HOSTILE})
    assert page.locator("#save-copy").is_visible()
    with page.expect_download() as got:
        page.locator("#save-copy").click()
    got.value.save_as(tmp_path / "copy.html")
    with page.expect_download() as got:
        page.locator("#download-names").click()
    got.value.save_as(tmp_path / "names.json")
    assert json.loads((tmp_path / "names.json").read_text(encoding="utf-8")) == {"1": "Smoking", "3": HOSTILE}
    page = tab.again(tmp_path / "copy.html")
    assert {"Smoking", HOSTILE} <= set(page.locator("#topics .name").all_inner_texts())
    assert page.locator("#save-copy").is_hidden()  # nothing in it that the file does not have
    assert page.evaluate("window.canary") is None


@in_browser
def test_a_given_name_can_be_changed_and_the_address_keeps_the_change(tab, few) -> None:
    page = tab(few, names=["one", "two", "three", "four"])
    assert "name" not in page.url.partition("#")[2]
    page.locator("#topics li", has_text="two").locator(".topic").focus()
    page.keyboard.press("F2")
    page.keyboard.type("second")
    page.keyboard.press("Enter")
    assert "name2=second" in page.url
    page.reload()
    page.wait_for_selector("body[data-ready]")
    assert set(page.locator("#topics .name").all_inner_texts()) == {"one", "second", "three", "four"}


def test_the_terminal_takes_names_from_json_and_csv(few, tmp_path, capsys) -> None:
    few.save(tmp_path / "model.safetensors")
    (tmp_path / "names.json").write_text('{"2": "APOBEC"}', encoding="utf-8")
    (tmp_path / "names.csv").write_text('topic,name\n2,"APOBEC, mostly"\n', encoding="utf-8")
    (tmp_path / "bad.json").write_text('{"nine": 3', encoding="utf-8")
    assert read_names(tmp_path / "names.csv") == {2: "APOBEC, mostly"}
    command = ["report", str(tmp_path / "model.safetensors"), "-o", str(tmp_path / "page.html"), "-q", "--names"]
    with pytest.raises(SystemExit) as left:
        main([*command, str(tmp_path / "names.json")])
    assert left.value.code == 0
    text = (tmp_path / "page.html").read_text(encoding="utf-8")
    data = json.loads(re.search(r'id="data">(.*?)</script>', text, re.DOTALL)[1])
    assert data["names"] == {"1": "APOBEC"}
    with pytest.raises(SystemExit) as left:
        main([*command, str(tmp_path / "bad.json")])
    assert left.value.code == 2
    assert "holds no names of topics" in capsys.readouterr().err


def test_a_fit_whose_topics_have_names_has_them_on_its_page(few, tmp_path) -> None:
    named = replace(few)
    object.__setattr__(named, "names", np.array(["", "APOBEC", "", ""]))
    um.write_report(named, tmp_path / "page.html")
    assert '"names":{"1":"APOBEC"}' in (tmp_path / "page.html").read_text(encoding="utf-8")


def test_names_that_do_not_fit_are_refused() -> None:
    assert named_topics(["a", " ", "c  d"], 3) == {"0": "a", "2": "c d"}
    with pytest.raises(ValueError, match="2 names for 3 topics"):
        named_topics(["a", "b"], 3)
    with pytest.raises(ValueError, match="no topic 4; this fit has topics 1 to 3"):
        named_topics({4: "x"}, 3)


@in_browser
def test_few_samples_have_their_names_below_them_with_their_dates(tab, few) -> None:
    page = tab(few)
    labels = page.locator("#x-axis span").all_inner_texts()
    assert len(labels) == 21
    assert labels[0] == "PD0 · 2017-01-01"
    page = tab(few, "#order=similarity&group=kind")
    assert set(page.locator("#x-axis span").all_inner_texts()) == set(few.samples)
    assert page.locator("#group-axis span").all_inner_texts() == ["a", "b", "c"]


@in_browser
def test_many_samples_in_order_of_time_are_drawn_as_means(tab, many) -> None:
    page = tab(many, "#order=column:year")
    assert "Bars are means of samples" in page.locator("#structure-means").inner_text()
    top = page.evaluate(
        """() => {
          const bars = document.getElementById("bars"), [w, h] = [bars.width, bars.height];
          const pixels = new Uint32Array(bars.getContext("2d").getImageData(0, 0, w, h).data.buffer);
          const column = (x) => Array.from({ length: h }, (_, y) => pixels[y * w + x]).join();
          return new Set(Array.from({ length: w }, (_, x) => column(x))).size;
        }"""
    )
    assert top <= 10  # a bar a year
    assert page.locator("#structure-means").is_visible()
    page = tab(many, "#order=similarity")
    assert page.locator("#structure-means").is_hidden()


@in_browser
def test_samples_are_found_by_their_titles_and_cards_show_title_and_snippet(tab, few) -> None:
    page = tab(few)
    page.locator("#sample-search").fill("trump")
    assert page.locator("#sample-search-options li").all_inner_texts() == ["PD0Trump in Alaska"]
    page.keyboard.press("Enter")
    assert page.locator("#sample-title").inner_text() == "PD0"
    typical = page.locator(".topic-card .typical").first
    assert "· Story" in typical.inner_text()
    assert "Once upon a time" in typical.inner_text()


@in_browser
def test_words_of_a_text_have_the_colour_of_the_topic_they_are_of(tab) -> None:
    """And the tip says how sure that is: the largest φ of `Fit.responsibilities`."""
    texts = [
        "Roses, red roses! The wine's red",
        "red wine; white wine",
        "White snow on white roses",
        "snow, cold snow",
    ] * 3
    X = um.read_texts(texts, snippets=True, stop_words=None)
    fit = um.TopicModel(2, random_state=0, tol=1e-3).fit(X).result_
    page = tab(fit, "#sample=1")
    tints = page.locator("#sample .tint")
    assert page.locator("#sample dd", has_text="Roses").inner_text() == texts[0]
    assert tints.all_inner_texts() == ["Roses", "red", "roses", "The", "wine's", "red"]
    phi = dict(zip(X.features[X.csr[[0]].indices], fit.responsibilities(X.take([0])), strict=True))
    for word, tint in zip(["roses", "red", "roses", "the", "wine", "red"], tints.all(), strict=True):
        topic, sure = re.fullmatch(r"topic (\d): ([\d.]+)%", tint.get_attribute("title")).groups()
        assert int(topic) == phi[word].argmax() + 1
        assert float(sure) == pytest.approx(100 * phi[word].max(), abs=1)
    color = topic_colors(fit)[phi["red"].argmax()]
    assert tints.last.evaluate("word => getComputedStyle(word).getPropertyValue('--colour')") == color
    assert page.locator(".topic-card .snippet .tint").count() > 10


@in_browser
def test_a_name_that_is_its_title_stands_once(tab) -> None:
    titles = [f"Story {i % 7}" for i in range(21)]
    names = [title if i < 7 else f"{title}-{i // 7}" for i, title in enumerate(titles)]
    page = tab(made(21, 4, samples=names, metadata=pd.DataFrame({"title": titles})))
    shown = page.locator(".topic-card .typical button").all_inner_texts()
    assert shown
    assert set(shown) <= set(names)


@in_browser
def test_numbers_on_the_map_stand_in_circles_that_hold_them_or_beside(tab) -> None:
    rng = np.random.default_rng(0)
    L, F = 200 * rng.dirichlet(np.geomspace(3, 0.3, 40), 60), rng.dirichlet(np.full(50, 0.3), 40).T
    page = tab(um.Fit(L, F, pd.DataFrame(), "converged", 0.0))
    numbers = page.evaluate(
        """() => [...document.querySelectorAll("#map-places text")].map((text) => {
          const box = text.getBBox(), [x, y] = ["x", "y"].map((name) => Number(text.getAttribute(name)));
          const circles = [...document.querySelectorAll("#map-places circle")].map((circle) => circle.getBBox());
          const around = circles.filter((c) => Math.abs(c.x + c.width / 2 - x) < 0.1 && Math.abs(c.y + c.height / 2 - y) < 0.1);
          return { beside: text.classList.contains("beside"), fits: around.some((c) => c.width >= box.width) };
        })"""
    )
    assert len(numbers) == 40
    assert len({number["beside"] for number in numbers}) == 2
    assert all(number["fits"] != number["beside"] for number in numbers)


@in_browser
def test_suggestions_for_features_stay_inside_the_window(tab) -> None:
    page = tab(made(60, 40))
    page.locator("#feature").fill("feature")
    box = page.locator("#feature-options").bounding_box()
    assert box["y"] >= 0
    assert box["y"] + box["height"] <= 800
    page.keyboard.press("Enter")
    found = page.locator("#feature-found").bounding_box()
    assert found["y"] + found["height"] <= 800


def test_pictures_name_few_samples_and_average_many(few, many) -> None:
    labels = [label.get_text() for label in structure(few, order="date").get_xticklabels()]
    assert labels[0] == "PD0 · 2017-01-01"
    assert len(labels) == 21
    assert {label.get_text() for label in structure(few, group="kind").get_xticklabels()} == set(few.samples)
    ax = structure(many, order="year")
    assert ax.get_xlabel() == "year (means of 900 samples)"
    assert ax.get_xlim() == (0, 900)
    heaviest = int(np.argmax(many.shares))
    bottom = ax.collections[-1].get_paths()[0].vertices  # the area of the heaviest topic, drawn last
    means = many.proportions[:, heaviest].reshape(10, 90).mean(axis=1)
    assert all(np.isclose(bottom[:, 1], mean).any() for mean in means)


@pytest.mark.parametrize("groups", [1, 3, 7, 20, 60])
def test_every_sample_has_its_name_whatever_its_group(groups) -> None:
    fit = made(60, 3, samples=[f"s{i}" for i in range(60)])
    ax = structure(fit, group=np.arange(60) % groups)
    assert len(ax.get_xticks()) == 60
    assert {label.get_text() for label in ax.get_xticklabels()} == set(fit.samples)


def test_bars_of_means_never_part_what_has_the_same_value() -> None:
    places = np.sort(np.random.default_rng(0).integers(0, 40, 1000)).astype(float)
    starts = means_along(places, 30)
    assert (np.diff(starts, append=1000) >= 30).all()
    assert (places[starts[1:]] != places[starts[1:] - 1]).all()
