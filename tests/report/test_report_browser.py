"""The report in a browser, from disk and without a network: what it shows, and that hands on keys and mouse work."""

import re
import shutil
from itertools import pairwise
from xml.etree import ElementTree

import numpy as np
import pandas as pd
import pytest

import unmix as um
from unmix.plot import topic_order
from unmix.report import write_report

sync_api = pytest.importorskip(
    "playwright.sync_api", reason="the browser tests need playwright: pip install playwright"
)
CHROMIUM = next(filter(None, map(shutil.which, ("chromium", "chromium-browser", "google-chrome"))), None)
pytestmark = pytest.mark.skipif(CHROMIUM is None, reason="no chromium or google-chrome on the PATH")

CANARY = "window.canary = 1"
HOSTILE = [
    f"</script><script>{CANARY}</script>",
    f'"><img src=x onerror="{CANARY}">',
    f"javascript:{CANARY}",
    f"<svg/onload='{CANARY}'>",
]


@pytest.fixture(scope="module")
def browser():
    with sync_api.sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=CHROMIUM, args=["--no-sandbox"])
        yield browser
        browser.close()


@pytest.fixture(scope="module")
def speeches():
    """State of the Union, a few iterations of eight topics."""
    X = um.datasets.sotu()
    return um.TopicModel(8, max_iter=8, tol=0, init="random", prefit=0, random_state=0).fit(X).result_


@pytest.fixture(scope="module")
def small():
    """Random counts and four topics, found by a search."""
    counts = np.random.default_rng(3).poisson(np.random.default_rng(4).gamma(0.3, 4, (30, 25)))
    return um.TopicModel(4, random_state=0).fit(counts).result_


@pytest.fixture(scope="module")
def hostile():
    """A small fit all of whose names want to be markup."""
    rng = np.random.default_rng(0)
    L, F = rng.dirichlet(np.full(3, 0.4), 24) * 50, rng.dirichlet(np.full(12, 0.4), 3).T
    trace = pd.DataFrame(
        {"seconds": [0.1, 0.2, 0.3], "loglik": [-9.0, -5.0, -4.0], "note": HOSTILE[:3], "stage": "start"}
    )
    names = np.array([HOSTILE[i % 4] for i in range(24)])
    table = pd.DataFrame({HOSTILE[0]: names, HOSTILE[1]: ["2020-01-01", "2020-03-01", "2020-07-01", None] * 6})
    about = {"params": {"model": HOSTILE[0]}, "versions": {HOSTILE[1]: HOSTILE[2]}}
    data = {"source": HOSTILE[0], "command": HOSTILE[1]}
    features = np.array([f"={i} {HOSTILE[i % 4]}" for i in range(12)])
    return um.Fit(L, F, trace, "interrupted", -4.0, names, features, table, data=data, **about)


@pytest.fixture(scope="module")
def sixty():
    """Sixty topics, more than have colours, in samples of two groups over twenty years."""
    rng = np.random.default_rng(1)
    L, F = rng.dirichlet(np.full(60, 0.1), 80) * 50, rng.dirichlet(np.full(90, 0.1), 60).T
    table = pd.DataFrame({"year": np.repeat(np.arange(2000, 2020), 4), "arm": ["case", "control"] * 40})
    features = np.array([f"gene{j}" for j in range(90)])
    return um.Fit(L, F, pd.DataFrame(), "converged", -4.0, None, features, table)


@pytest.fixture(scope="module")
def analysed():
    """What `write_report` takes for a page with a section for every analysis of a fit."""
    rng = np.random.default_rng(5)
    counts = rng.poisson(rng.gamma(0.3, 4, (40, 3)) @ rng.gamma(0.3, 1, (3, 25)))
    table = pd.DataFrame({"year": np.repeat(np.arange(2000, 2020), 2), "arm": ["case", "control"] * 20})
    X = um.Counts(counts, features=[f"a rather long name of gene {j}" for j in range(25)], metadata=table)
    fit = um.TopicModel(3, random_state=0).fit(X).result_
    results = {
        "stability": um.stability(X, 3, runs=2, reference=fit),
        "differences": um.differences(fit, X),
        "intervals": um.intervals(fit, X, sweeps=20, burn_in=10),
        "quality": um.analysis.quality(fit, X),
        "freedom": um.freedom(fit, X),
        "prevalence": um.prevalence(fit, by="arm", over="year", bins=3),
        "effects": um.effects(fit, X, "~ arm + year"),
    }
    return fit, results


@pytest.fixture(scope="module")
def addresses(speeches, small, hostile, sixty, analysed, tmp_path_factory):
    folder = tmp_path_factory.mktemp("report")
    write_report(speeches, folder / "speeches.html", title="State of the Union")
    write_report(small, folder / "small.html")
    write_report(hostile, folder / "hostile.html", title=HOSTILE[0])
    write_report(sixty, folder / "sixty.html")
    write_report(analysed[0], folder / "analysed.html", **analysed[1])
    write_report(um.Fit(np.ones((1, 1)), np.ones((2, 1)), pd.DataFrame(), "converged", 0.0), folder / "one.html")
    return {path.stem: path.as_uri() for path in folder.iterdir()}


class Visitor:
    """Opens pages, and keeps account of what they complain about and ask for. One tab serves all tests that can share it."""

    def __init__(self, browser, addresses):
        self.browser, self.addresses = browser, addresses
        self.tab = self.new_tab()

    def new_tab(self, **options):
        context = self.browser.new_context(**{"viewport": {"width": 1280, "height": 900}} | options)
        context.set_offline(True)
        context.route(re.compile("^(?!file:|data:|blob:)"), lambda route: route.abort())
        page = context.new_page()
        page.on("console", lambda message: self.complaints.append(message.text))
        page.on("pageerror", lambda error: self.complaints.append(str(error)))
        page.on("request", lambda request: self.requests.append(request.url.partition("#")[0]))
        return page

    def open(self, name="speeches", fragment="", **options):
        self.complaints, self.requests, self.own = [], [], self.new_tab(**options) if options else None
        page = self.own or self.tab
        page.goto("about:blank")  # so that another fragment is another visit
        page.goto(self.addresses[name] + fragment)
        page.wait_for_selector("body[data-ready]")
        return page

    def leave(self):
        if self.own:
            self.own.context.close()
        assert self.complaints == []
        assert {url for url in self.requests if not url.startswith(("data:", "blob:", "about:"))} <= set(
            self.addresses.values()
        )


@pytest.fixture(scope="module")
def visitor(browser, addresses):
    visitor = Visitor(browser, addresses)
    yield visitor
    visitor.tab.context.close()


@pytest.fixture
def opened(visitor):
    """A function that opens a page; at the end, nothing may have gone wrong and nothing may have been asked for."""
    yield visitor.open
    visitor.leave()


def at_sample(page, place, n):
    """The middle of the column at this place of the Structure plot."""
    box = page.locator("#stage").bounding_box()
    return box["x"] + (place + 0.5) / n * box["width"], box["y"] + box["height"] / 2


def pixel(page, x, y):
    """The colour of the Structure plot at parts of its width and height."""
    script = """([x, y]) => { const bars = document.querySelector("#bars"), copy = new OffscreenCanvas(1, 1).getContext("2d");
        copy.drawImage(bars, -Math.floor(x * bars.width), -Math.floor(y * bars.height));
        return [...copy.getImageData(0, 0, 1, 1).data]; }"""
    return page.evaluate(script, [x, y])


def texts(page, selector):
    return page.locator(selector).all_text_contents()


def shown_features(page, card):
    return texts(page, f"{card} tbody td:first-child")


def test_hovering_tells_the_sample_its_metadata_and_its_largest_topics(opened, speeches):
    page = opened(fragment="#order=file")
    page.mouse.move(*at_sample(page, 70, 233))
    tip = page.locator("#tip")
    assert tip.locator("b").text_content() == speeches.samples[70]
    assert texts(page, "#tip .about") == [
        f"{name}: {speeches.metadata[name][70]}" for name in ("year", "president", "party")
    ]
    largest = np.argsort(-speeches.proportions[70], kind="stable")[:3]
    assert [int(number) - 1 for number in texts(page, "#tip .swatch")] == largest.tolist()
    parts = [float(text.rstrip("%")) for text in texts(page, "#tip li span:last-child")]
    np.testing.assert_allclose(parts, 100 * speeches.proportions[70, largest], atol=0.5)
    page.mouse.move(5, 5)
    assert tip.is_hidden()


def test_columns_are_stacked_by_topic_in_the_palettes_colours(opened, speeches):
    page = opened(fragment="#order=file")
    place = int(np.argmax(speeches.proportions[:, topic_order(speeches)[0]]))
    color = pixel(page, (place + 0.5) / 233, 0.98)
    assert "#{:02X}{:02X}{:02X}".format(*color[:3]) == "#0072B2", "the heaviest topic is at the bottom"


def test_samples_can_be_ordered_by_a_column(opened, speeches):
    page = opened(fragment="#order=similarity")
    page.select_option("#order", "column:president")
    page.select_option("#order", "column:year")
    order = np.argsort(speeches.metadata["year"], kind="stable")
    for place in (0, 100, 232):
        page.mouse.move(*at_sample(page, place, 233))
        assert page.locator("#tip b").text_content().startswith(str(speeches.metadata["year"][order[place]]))
    ticks = [int(text) for text in texts(page, "#x-axis span")]
    assert len(ticks) >= 5
    assert ticks == sorted(ticks)
    assert all(tick % 10 == 0 for tick in ticks)


def test_samples_can_be_ordered_by_a_topic(opened, speeches):
    page = opened(fragment="#order=topic:3")
    page.mouse.move(*at_sample(page, 0, 233))
    best = speeches.proportions[:, 2].max()
    name = page.locator("#tip b").text_content()
    assert speeches.proportions[list(speeches.samples).index(name), 2] == pytest.approx(best, abs=1e-4)


def test_groups_stand_together_under_their_names(opened, speeches):
    page = opened()
    page.select_option("#group", "party")
    parties = sorted(speeches.metadata["party"].unique())
    labels = texts(page, "#x-axis span")
    assert set(labels) <= set(parties)
    assert {"d", "r"} <= set(labels)
    page.locator("#stage").focus()
    page.keyboard.press("Home")
    seen = [page.locator("#tip .about").nth(2).text_content()]
    page.keyboard.press("End")
    seen.append(page.locator("#tip .about").nth(2).text_content())
    assert seen == [f"party: {parties[0]}", f"party: {parties[-1]}"]


def times(lift):
    """As the page writes a lift."""
    return f"{lift:,.0f}×" if lift >= 9.95 else f"{lift:.1f}×"


@pytest.mark.parametrize("name", ["speeches", "small"])
def test_the_page_opens_with_the_features_and_the_lifts_of_top_features(opened, name, request):
    fit = request.getfixturevalue(name)
    page = opened(name)
    table = fit.top_features(30)
    for place, k in enumerate(topic_order(fit)):
        rows = table[table["topic"] == k + 1]
        card = f"#topic-all .topic-card:nth-child({place + 1})"
        assert shown_features(page, card) == rows["feature"].tolist()[:8]
        assert texts(page, "#topics .name")[place] == ", ".join(rows["feature"][:3])
        page.locator("#topics .topic").nth(place).click()
        assert shown_features(page, "#topic-focus") == rows["feature"].tolist()
        assert texts(page, "#topic-focus tbody td:last-child") == [times(lift) for lift in rows["lift"]]
        page.locator("#topics .topic").nth(place).click()
    page.locator("#feature").fill(rows["feature"].iloc[0])
    page.keyboard.press("Enter")
    found = page.locator(f"#feature-found tr[data-topic='{k + 1}'] td:last-child").text_content()
    assert found == times(rows["lift"].iloc[0]), "the search tells the same lift"


@pytest.mark.parametrize("lamb", [0.0, 0.5, 1.0])
def test_the_slider_ranks_features_by_relevance(opened, speeches, lamb):
    page = opened(fragment="#topic=2")
    listed = shown_features(page, "#topic-focus")
    assert page.locator("#lambda").is_hidden()
    page.select_option("#rank", "relevance")
    page.locator("#lambda").fill(str(lamb))
    page.wait_for_function("lamb => document.querySelector('#lambda-value').value === lamb.toFixed(2)", arg=lamb)
    page.wait_for_timeout(60)
    p, lift = speeches.topics[:, 1], um.analysis.lifts(speeches)[:, 1]
    kept = p > 1e-6
    relevance = lamb * np.log(p[kept]) + (1 - lamb) * np.log(lift[kept])
    best = dict(zip(speeches.features[kept], relevance, strict=True))
    shown = shown_features(page, "#topic-focus")
    assert len(shown) == 30
    thirtieth = np.sort(relevance)[-30]
    assert all(best[name] >= thirtieth - 2e-3 for name in shown)
    ranked = [best[name] for name in shown]
    assert all(a >= b - 2e-3 for a, b in pairwise(ranked))
    assert f"lambda={lamb:g}" in page.url
    page.select_option("#rank", "distinctive")
    assert shown_features(page, "#topic-focus") == listed
    assert "lambda" not in page.url


def test_features_can_be_sorted_by_lift(opened, speeches):
    page = opened(fragment="#topic=1")
    before = shown_features(page, "#topic-focus")
    page.get_by_role("button", name="lift", exact=True).click()
    after = shown_features(page, "#topic-focus")
    assert sorted(before) == sorted(after)
    lift = dict(zip(speeches.features, um.analysis.lifts(speeches)[:, 0], strict=True))
    values = [lift[name] for name in after]
    assert all(a >= b * 0.999 for a, b in pairwise(values))
    assert page.locator("#topic-focus th[aria-sort='descending']").text_content() == "lift"


def test_a_feature_is_found_while_typing_with_the_topics_that_use_it(opened, speeches):
    page = opened()
    page.locator("#feature").press_sequentially("slaver")
    assert "slavery" in texts(page, "#feature-options li")
    page.keyboard.press("ArrowDown")
    page.keyboard.press("ArrowUp")
    page.locator("#feature").fill("slavery")
    page.keyboard.press("Enter")
    weights = speeches.topics[list(speeches.features).index("slavery")]
    expected = [k + 1 for k in np.argsort(-weights) if weights[k] > 1e-6]
    rows = page.locator("#feature-found tr")
    found = [int(rows.nth(i).get_attribute("data-topic")) for i in range(rows.count())]
    assert found[: len(expected)] == expected
    page.locator("#feature").fill("no such word")
    assert texts(page, "#feature-options li") == ["No match"]


def test_a_topic_in_focus_is_at_the_bottom_and_the_others_are_pale(opened, speeches):
    page = opened(fragment="#order=file")
    topic = int(topic_order(speeches)[2])
    place = int(np.argmax(speeches.proportions[:, topic]))
    other = int(np.argmin(speeches.proportions[:, topic]))
    before = pixel(page, (other + 0.5) / 233, 0.98)
    page.locator("#topics .topic").nth(2).click()
    assert page.locator("#topics li.focused .swatch").text_content() == str(topic + 1)
    assert "#{:02X}{:02X}{:02X}".format(*pixel(page, (place + 0.5) / 233, 0.98)[:3]) == "#56B4E9"
    assert sum(pixel(page, (other + 0.5) / 233, 0.98)[:3]) > sum(before[:3])
    assert page.locator("#topic-title").text_content() == f"Topic {topic + 1}"
    page.locator("#topics .topic").nth(2).click()
    assert page.locator("#topic-all .topic-card").count() == 8


def test_the_address_keeps_the_view(opened):
    page = opened(
        fragment="#order=topic:2&group=party&topic=3&lambda=0.85&sort=lift&theme=dark&sample=12&name3=War+%26+peace"
    )

    def view():
        values = "#order", "#group", "#lambda"
        return [page.locator(value).input_value() for value in values] + [
            page.locator("#topics li.focused .name").text_content(),
            page.locator("#sample-title").text_content(),
            page.locator("html").get_attribute("data-theme"),
            page.locator("th[aria-sort='descending']").text_content(),
        ]

    expected = ["topic:2", "party", "0.85", "War & peace", "1801 Thomas Jefferson", "dark", "lift"]
    assert view() == expected
    page.locator("#unfocus").click()
    assert "&topic=" not in page.url
    page.locator("#topics .topic", has_text="War & peace").click()
    page.reload()
    page.wait_for_selector("body[data-ready]")
    assert view() == expected


@pytest.mark.parametrize("order", ["column:nope", "year", "3", "topic:9", "topic:", "column:"])
def test_nonsense_in_the_address_is_ignored(opened, order):
    page = opened(
        fragment=f"#order={order}&group=<b>&topic=99&lambda=abc&sample=-1&theme=pink&name1=%3Cimg%20src=x%3E%"
    )
    assert page.locator("#order").input_value() == "column:year"
    assert page.locator("#topics .name", has_text="<img src=x>").count() == 1
    assert page.locator("#sample").is_hidden()


def test_a_topic_is_renamed_everywhere_and_the_name_is_kept(opened):
    page = opened()
    page.locator("#topics .topic").first.focus()
    page.keyboard.press("F2")
    page.keyboard.type("Money")
    page.keyboard.press("Enter")
    assert page.locator("#topics .name").first.text_content() == "Money"
    assert page.locator("#topic-all .topic-head button").first.text_content() == "Money"
    page.reload()
    assert page.locator("#topics .name").first.text_content() == "Money"
    page.keyboard.press("Tab")
    page.locator("#topics .topic").first.focus()
    page.keyboard.press("F2")
    page.keyboard.type("other")
    page.keyboard.press("Escape")
    assert page.locator("#topics .name").first.text_content() == "Money"


def test_dragging_zooms_and_escape_zooms_out(opened, speeches):
    page = opened(fragment="#order=file")
    (x0, y), (x1, _) = at_sample(page, 100, 233), at_sample(page, 119, 233)
    page.mouse.move(x0, y)
    page.mouse.down()
    page.mouse.move((x0 + x1) / 2, y)
    page.mouse.move(x1, y)
    page.mouse.up()
    assert page.locator("#zoom-out").is_visible()
    box = page.locator("#stage").bounding_box()
    page.mouse.move(box["x"] + 3, y)
    assert page.locator("#tip b").text_content() == speeches.samples[100]
    page.locator("#stage").focus()
    page.keyboard.press("Escape")
    assert page.locator("#zoom-out").is_hidden()


def test_everything_can_be_done_by_keyboard(opened, speeches):
    page = opened(fragment="#order=file")
    page.keyboard.press("Tab")
    assert page.evaluate("document.activeElement.id") == "skip"
    page.keyboard.press("Enter")
    assert page.evaluate("document.activeElement.id") == "stage"
    for _ in range(3):
        page.keyboard.press("ArrowRight")
    assert page.locator("#said").text_content().startswith(f"{speeches.samples[2]}; topic ")
    page.keyboard.press("Enter")
    assert page.locator("#sample-title").text_content() == speeches.samples[2]
    page.locator("#sample .close").press("Enter")
    assert page.evaluate("document.activeElement.id") == "stage"
    page.locator("#topics .topic").first.focus()
    page.keyboard.press("ArrowDown")
    page.keyboard.press("Enter")
    assert page.locator("#topics .topic").nth(1).get_attribute("aria-pressed") == "true"
    page.locator("#topic-focus input").fill("Gold")
    page.keyboard.press("Tab")
    assert page.evaluate("document.activeElement.textContent") == "rank"
    assert page.locator("#topics .name").nth(1).text_content() == "Gold"
    page.locator("#unfocus").press("Enter")
    page.locator("#topic-all .topic-head button").nth(3).press("Enter")
    assert page.evaluate("document.activeElement.id") == "topic-title"
    page.locator("#heat").focus()
    page.keyboard.press("ArrowRight")
    page.keyboard.press("ArrowRight")
    assert re.search(r"distance 0\.\d{3}$", page.locator("#heat-said").text_content())
    page.locator("#time-plot").focus()
    page.keyboard.press("ArrowRight")
    assert page.locator("#time-said").text_content().startswith("1790–1794: 5 samples; ")


def test_a_sample_opens_with_all_its_topics_and_those_most_like_it(opened, speeches):
    page = opened()
    page.locator("#sample-search").press_sequentially("1863 abr")
    page.keyboard.press("Enter")
    i = next(i for i, name in enumerate(speeches.samples) if name.startswith("1863"))
    assert page.locator("#sample-title").text_content() == speeches.samples[i]
    roots = np.sqrt(speeches.proportions)
    nearest = np.argsort(-(roots @ roots[i]))
    expected = [speeches.samples[j] for j in nearest if j != i][:6]
    assert texts(page, "#sample .typical button") == expected
    assert texts(page, "#sample dl dd")[0] == "1863"


def test_the_tables_behind_the_pictures_hold_their_numbers(opened, speeches):
    page = opened(fragment="#order=file")
    for summary in page.locator("summary").all():
        summary.click()
    first = texts(page, "#structure-table tbody tr:first-child > *")
    assert first[0] == speeches.samples[0]
    shown = [float(text.rstrip("%")) for text in first[1:]]
    np.testing.assert_allclose(shown, 100 * speeches.proportions[0, topic_order(speeches)], atol=0.5)
    assert page.locator("#structure-table tbody tr").count() == 200
    page.get_by_role("button", name="200 more").click()
    assert page.locator("#structure-table tbody tr").count() == 233
    assert page.locator("#map-table tbody tr").count() == 8
    assert page.locator("#fit-table tbody tr").count() == len(speeches.trace)
    assert page.locator("#time-table tbody tr").count() == 47


def test_hostile_names_stay_text(opened, hostile):
    page = opened("hostile", "#topic=1&sample=1&name2=" + HOSTILE[1].replace("=", "%3D"))
    page.select_option("#group", HOSTILE[0])
    page.mouse.move(*at_sample(page, 3, 24))
    for summary in page.locator("summary").all():
        summary.click()
    page.locator("#feature").fill("=1 ")
    page.keyboard.press("Enter")
    page.evaluate("window.dispatchEvent(new HashChangeEvent('hashchange'))")
    assert page.evaluate("window.canary") is None
    assert page.locator("img, main script").count() == 0
    assert page.locator("#title").text_content() == HOSTILE[0]
    assert page.title() == f"{HOSTILE[0]} · unmix"
    assert page.locator("#sample-title").text_content() == hostile.samples[0]
    assert HOSTILE[1] in texts(page, "#reproduce pre")[0]


def test_downloads_hold_the_numbers_and_no_formula(opened, hostile, tmp_path):
    page = opened("hostile")
    for button, rows, values in (("proportions", 24, hostile.proportions), ("topics", 12, hostile.topics)):
        with page.expect_download() as event:
            page.locator(f"#download-{button}").click()
        event.value.save_as(tmp_path / f"{button}.csv")
        table = pd.read_csv(tmp_path / f"{button}.csv")
        assert list(table.columns[1:]) == ["topic 1", "topic 2", "topic 3"]
        assert len(table) == rows
        np.testing.assert_allclose(table.iloc[:, 1:], values, rtol=3e-4, atol=1e-5)
    assert list(table["feature"]) == [f"'{name}" for name in hostile.features]
    assert list(pd.read_csv(tmp_path / "proportions.csv")["sample"]) == list(hostile.samples)


def test_the_page_tells_how_the_fit_started(opened, small, speeches):
    def start(page):
        return page.locator("#fit-facts dt:text-is('started from') + dd").text_content()

    assert start(opened("small")) == small.trace["note"][0] == "search: 4 starts"
    assert start(opened("speeches")) == speeches.trace["note"][0] == "random"


def test_what_the_data_do_not_have_is_not_shown(opened):
    page = opened("one")
    for hidden in ("#structure", "#scatter", "#time", "#map", "#sample", "#advice", "#topic-tools"):
        assert page.locator(hidden).is_hidden()
    assert texts(page, "#sections button") == ["Topics", "Convergence", "Reproduce"]
    assert page.locator(".topic-card .typical").count() == 0


def test_on_paper_there_are_no_controls_and_all_topics(opened):
    page = opened(fragment="#topic=3&theme=dark", reduced_motion="reduce")
    assert page.locator("#topic-all .topic-card").count() == 0
    page.emulate_media(media="print")
    page.wait_for_selector("#topic-all .topic-card")
    assert page.locator("#topic-all .topic-card:visible").count() == 8
    for control in ("#order", "#rank", "#theme", "#feature", "#download-topics", "summary", "#marks"):
        assert page.locator(control).first.is_hidden()
    assert page.evaluate("getComputedStyle(document.querySelector('.card')).backgroundColor") == "rgb(255, 255, 255)"


def contrast(one, other):
    def luminance(color):
        channels = np.array([float(c) for c in re.findall(r"[\d.]+", color)[:3]]) / 255
        linear = np.where(channels <= 0.04045, channels / 12.92, ((channels + 0.055) / 1.055) ** 2.4)
        return linear @ [0.2126, 0.7152, 0.0722]

    light, dark = sorted([luminance(one), luminance(other)], reverse=True)
    return (light + 0.05) / (dark + 0.05)


@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_text_can_be_read_in_both_themes(opened, scheme):
    page = opened(color_scheme=scheme, fragment="#topic=2&sample=1")
    pairs = page.evaluate("""() => [...document.querySelectorAll("body *")].filter((node) => node.checkVisibility()
        && !node.closest("svg, .hidden, .skip") && [...node.childNodes].some((c) => c.nodeType === 3 && c.data.trim()))
        .map((node) => { let back = node; const clear = (n) => getComputedStyle(n).backgroundColor === "rgba(0, 0, 0, 0)";
            while (back.parentElement && clear(back)) back = back.parentElement;
            return [node.textContent, getComputedStyle(node).color, getComputedStyle(back).backgroundColor]; })""")
    assert len(pairs) > 100
    poor = [(text, one, other) for text, one, other in pairs if other.startswith("rgb(") and contrast(one, other) < 4.5]
    assert poor == []


def test_the_theme_follows_the_system_until_it_is_chosen(opened):
    page = opened(color_scheme="dark")
    background = "getComputedStyle(document.documentElement).backgroundColor"
    dark = page.evaluate(background)
    page.locator("#theme").click()
    assert page.evaluate(background) != dark
    assert "theme=light" in page.url
    page.emulate_media(color_scheme="light")
    page.locator("#theme").click()
    assert page.evaluate(background) == dark


@pytest.mark.parametrize("name", ["speeches", "analysed"])
@pytest.mark.parametrize("width", [360, 2560])
def test_nothing_sticks_out_at_any_width(opened, name, width):
    page = opened(name, "#group=party&topic=2&sample=1", viewport={"width": width, "height": 800})
    assert page.evaluate("document.documentElement.scrollWidth") <= width


def test_a_phone_shows_the_first_topics_and_says_how_many_more_there_are(opened):
    page = opened(viewport={"width": 400, "height": 800})
    assert page.locator("#topics li:visible").count() == 5
    assert page.locator("#more-topics").inner_text() == "Show 3 more topics"
    page.locator("#more-topics").click()
    assert page.locator("#topics li:visible").count() == 8


def test_the_button_of_the_theme_names_the_other_one(opened):
    page = opened(color_scheme="dark")
    assert page.locator("#theme").inner_text() == "Light theme"
    page.locator("#theme").click()
    assert page.locator("#theme").inner_text() == "Dark theme"


def test_columns_of_words_are_set_to_the_left_and_numbers_to_the_right(opened):
    page = opened("analysed")
    sides = page.evaluate(
        "[...document.querySelector('#quality tbody tr').cells].slice(1, 3).map((cell) => getComputedStyle(cell).textAlign)"
    )
    assert sides == ["left", "right"]


def test_sixty_topics_are_filtered_paged_and_listed(opened, sixty):
    page = opened("sixty")
    order = topic_order(sixty)
    assert texts(page, "#topics li:not([hidden]) .swatch") == [str(k + 1) for k in order[:12]]
    assert texts(page, "#topic-all .topic-card .swatch") == [str(k + 1) for k in order[:12]]
    page.get_by_role("button", name="Next topics", exact=True).click()
    assert texts(page, "#topic-all .topic-card .swatch") == [str(k + 1) for k in order[12:24]]
    feature = sixty.top_features(1)["feature"][30]
    page.locator("#topic-filter").fill(feature)
    found = [int(text) - 1 for text in texts(page, "#topics li:not([hidden]) .swatch")]
    table = sixty.top_features(30)
    assert set(found) == {int(k) - 1 for k in table.loc[table["feature"] == feature, "topic"]}
    page.locator("#topic-filter").fill("")
    page.locator("#more-topics").click()
    assert page.locator("#topics li:not([hidden])").count() == 60
    page.select_option("#topic-sort", "similarity")
    page.select_option("#topic-view", "table")
    listed = [int(text) - 1 for text in texts(page, "#topic-all .swatch")]
    assert sorted(listed) == list(range(60))
    assert texts(page, "#topics .swatch") == [str(k + 1) for k in listed]
    distances = um.analysis.topic_distances(sixty)
    neighbours = np.mean([distances[a, b] for a, b in pairwise(listed)])
    assert neighbours < np.mean([distances[a, b] for a, b in pairwise(order)]), "similar topics are neighbours"
    assert page.locator("#time-panels figure").count() == 12
    grey = page.locator("#topics li", has_text=str(order[40] + 1)).locator(".topic").first
    grey.click()
    assert (
        page.locator("#topics li.focused .swatch").evaluate("node => getComputedStyle(node).backgroundColor")
        == "rgb(26, 30, 36)"
    )


def test_means_by_group_are_those_of_prevalence(opened, sixty, tmp_path):
    page = opened("sixty")
    table = um.prevalence(sixty, by="arm").table
    k = topic_order(sixty)[0]
    own = table[table["topic"] == k + 1]
    shown = texts(page, f"#prevalence figure[data-topic='{k + 1}'] title")
    assert [text.partition(":")[0] for text in shown] == own["group"].tolist() == ["case", "control"]
    page.locator("#prevalence-table summary").click()
    with page.expect_download() as event:
        page.get_by_label("Download Means as a table as CSV").click()
    event.value.save_as(tmp_path / "means.csv")
    saved = pd.read_csv(tmp_path / "means.csv")
    assert len(saved) == 120
    np.testing.assert_allclose(saved.iloc[:2][["mean", "low", "high"]], own[["mean", "low", "high"]], rtol=1e-4)


def test_a_word_shows_its_topics_on_hover(opened, speeches):
    page = opened()
    link = page.locator("#topic-all .topic-card").first.locator("[data-feature]").first
    link.hover()
    word = link.text_content()
    weights = speeches.topics[list(speeches.features).index(word)]
    assert page.locator("#tip b").text_content() == word
    shown = [int(text) - 1 for text in texts(page, "#tip .swatch")]
    assert shown == [k for k in np.argsort(-weights, kind="stable") if weights[k] > 1e-6][:10]
    page.mouse.move(2, 2)
    assert page.locator("#tip").is_hidden()


def test_the_map_of_samples_is_linked_with_the_structure_plot(opened, speeches):
    page = opened(fragment="#order=file")
    page.locator("#scatter-plot").focus()
    for _ in range(3):
        page.keyboard.press("ArrowRight")
    assert page.locator("#said").text_content().startswith(f"{speeches.samples[2]}; topic ")
    page.keyboard.press("Enter")
    assert page.locator("#sample-title").text_content() == speeches.samples[2]
    page.locator("#scatter-plot").scroll_into_view_if_needed()
    box = page.locator("#scatter-plot").bounding_box()
    page.mouse.move(box["x"] + 2, box["y"] + 2)
    page.mouse.down()
    page.mouse.move(box["x"] + box["width"] / 2, box["y"] + box["height"] / 2)
    page.mouse.move(box["x"] + box["width"] - 2, box["y"] + box["height"] - 2)
    page.mouse.up()
    means = speeches.proportions.mean(axis=0)
    said = page.locator("#scatter-said").text_content()
    assert said.startswith("233 samples selected. Mean proportions: ")
    assert said.endswith(";".join(said.split(";")[1:]))
    assert f"{int(np.argmax(means)) + 1} " in said.partition("Mean proportions: ")[2][:3]
    page.locator("#unselect").click()
    assert page.locator("#scatter-said").text_content().startswith("Each point is a sample")


def test_every_figure_can_be_saved(opened, tmp_path):
    page = opened()
    buttons = page.locator("[aria-label$='as SVG']")
    names = buttons.evaluate_all("nodes => nodes.filter((n) => n.checkVisibility()).map((n) => n.ariaLabel)")
    assert len(names) >= 7
    for name in names:
        with page.expect_download() as event:
            page.get_by_label(name, exact=True).locator("visible=true").click()
        event.value.save_as(tmp_path / "figure.svg")
        text = (tmp_path / "figure.svg").read_text(encoding="utf-8")
        root = ElementTree.fromstring(text)
        shapes = [
            node for node in root.iter() if node.tag.rpartition("}")[2] in ("path", "rect", "circle", "image", "line")
        ]
        assert len(shapes) > 3, name
        assert "var(" not in text
    with page.expect_download() as event:
        page.get_by_label("Download figure samples as PNG").click()
    event.value.save_as(tmp_path / "figure.png")
    assert (tmp_path / "figure.png").read_bytes()[:4] == b"\x89PNG"


def test_a_notebook_shows_the_report_in_a_frame(opened, hostile):
    page = opened("one")
    page.goto("about:blank")  # a notebook has no policy of the report
    page.set_content(hostile.show(title=HOSTILE[0], height=500)._repr_html_() + hostile._repr_html_())
    frame = page.frame_locator("iframe")
    frame.locator("body[data-ready]").wait_for()
    assert frame.locator("#title").text_content() == HOSTILE[0]
    assert frame.locator("#share").is_hidden()
    frame.locator("#topics .topic").first.click()
    assert frame.locator("#topic-title").text_content().startswith("Topic ")
    assert texts(page, "table td:nth-child(2)") == [str(k + 1) for k in topic_order(hostile)]
    assert page.evaluate("window.canary") is None
    assert page.locator("img").count() == 0


RULES = ("wcag2a", "wcag2aa", "wcag21a", "wcag21aa", "wcag22aa", "best-practice")


@pytest.mark.parametrize(
    ("name", "fragment", "scheme"),
    [
        ("speeches", "#topic=2&sample=3", "light"),
        ("sixty", "", "dark"),
        ("sixty", "#view=table", "light"),
        ("analysed", "", "dark"),
        ("analysed", "", "light"),
        ("one", "", "dark"),
    ],
)
def test_the_report_is_accessible(opened, name, fragment, scheme):
    axe = pytest.importorskip("axe_playwright_python.sync_playwright", reason="needs axe-playwright-python").Axe()
    page = opened(name, fragment, color_scheme=scheme, bypass_csp=True)
    if name != "sixty":  # whose tables have thousands of cells
        page.evaluate(
            "for (const id of ['map-table', 'fit-table', 'rank-help']) document.getElementById(id).open = true"
        )
    found = axe.run(page, options={"runOnly": RULES}).response["violations"]
    assert [(rule["id"], [node["html"] for node in rule["nodes"]]) for rule in found] == []
