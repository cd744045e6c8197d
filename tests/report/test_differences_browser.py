"""The section of differences in a browser: what it shows, by mouse and by keyboard, and that no name gets out of it."""

import shutil

import numpy as np
import pytest

import unmix as um

sync_api = pytest.importorskip(
    "playwright.sync_api", reason="the browser tests need playwright: pip install playwright"
)
CHROMIUM = next(filter(None, map(shutil.which, ("chromium", "chromium-browser", "google-chrome"))), None)
pytestmark = pytest.mark.skipif(CHROMIUM is None, reason="no chromium or google-chrome on the PATH")
HOSTILE = "</script><img src=x onerror='window.canary = 1'>"


@pytest.fixture(scope="module")
def made():
    rng = np.random.default_rng(0)
    F = rng.gamma(0.4, 1, (80, 3))
    X = rng.poisson(400 * rng.dirichlet(np.full(3, 0.3), 50) @ (F / F.sum(axis=0)).T)
    names = [HOSTILE if j == int(X.sum(axis=0).argmax()) else f"word {j}" for j in range(80)]
    counts = um.Counts(X, features=names)
    fit = um.TopicModel(3, random_state=0, tol=1e-3).fit(counts).result_
    return fit, um.differences(fit, counts)


@pytest.fixture(scope="module")
def tab(made, tmp_path_factory):
    folder = tmp_path_factory.mktemp("page")
    um.write_report(made[0], folder / "with.html", differences=made[1])
    um.write_report(made[0], folder / "without.html")
    with sync_api.sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=CHROMIUM, args=["--no-sandbox"])
        page = browser.new_page(viewport={"width": 1280, "height": 900})
        complaints = []
        page.on("console", lambda message: complaints.append(message.text))
        page.on("pageerror", lambda error: complaints.append(str(error)))

        def open(name, fragment=""):
            page.goto("about:blank")
            page.goto((folder / f"{name}.html").as_uri() + fragment)
            page.wait_for_selector("body[data-ready]")
            return page

        yield open
        browser.close()
    assert complaints == []


def most_different(d, k):
    return np.argsort(-np.nan_to_num(np.abs(d.lfc[:, k] * d.z[:, k])), kind="stable")


def test_without_differences_there_is_no_section_and_no_mark(tab):
    page = tab("without")
    assert page.locator("#differences").is_hidden()
    assert page.locator(".surely").count() == 0


def test_arrow_keys_walk_through_the_most_different_features(tab, made):
    _, d = made
    page = tab("with", "#topic=2")
    page.locator("#volcano").focus()
    for place in (0, 1, 2):
        page.keyboard.press("ArrowRight")
        j = most_different(d, 1)[place]
        said = page.locator("#volcano-said").inner_text()
        assert said.startswith(f"{d.names[j]}: {d.lfc[j, 1]:+.2f}".replace("-", "−"))
    page.keyboard.press("Enter")
    assert page.locator("#feature").input_value() == d.names[j]
    page.keyboard.press("Escape")
    assert (
        f"{int((d.lfsr[:, 1] < 0.05).sum())} features significantly differ"
        in page.locator("#volcano-said").inner_text()
    )


def test_the_topic_can_be_chosen_and_is_that_of_the_page(tab):
    page = tab("with")
    page.locator("#volcano-topic").select_option("2")
    assert "Topic 3" in page.locator("#topic-title").inner_text()
    assert "topic=3" in page.url
    page.locator("#volcano-y").select_option("frequency")
    assert page.locator("#volcano").is_visible()


def test_the_table_holds_the_numbers(tab, made):
    _, d = made
    page = tab("with", "#topic=1")
    page.locator("#volcano-table summary").click()
    row = page.locator("#volcano-table tbody tr").first
    row.wait_for()  # the table is filled when it is first opened
    cells = row.locator("th, td").all_inner_texts()
    j = most_different(d, 0)[0]
    assert cells[0] == d.names[j]
    assert cells[1] == f"{d.lfc[j, 0]:+.2f}".replace("-", "−")
    assert cells[3] == f"{d.z[j, 0]:+.2f}".replace("-", "−")


def test_hovering_tells_the_feature_under_the_mouse(tab, made):
    page = tab("with", "#topic=1")
    page.locator("#volcano").scroll_into_view_if_needed()
    box = page.locator("#volcano").bounding_box()
    found = ""
    for part in np.linspace(0.1, 0.9, 60):
        page.mouse.move(box["x"] + part * box["width"], box["y"] + 0.5 * box["height"])
        if page.locator("#tip").is_visible():
            found = page.locator("#tip").inner_text()
            break
    assert "lfsr" in found
    assert found.splitlines()[0] in made[1].names


def test_cards_mark_what_a_topic_surely_uses_more_and_names_stay_text(tab, made):
    _, d = made
    page = tab("with", "#topic=1")
    marked = page.locator("#topic-focus td.surely").all_inner_texts()
    assert marked
    sure = {name for name, more in zip(d.names, (d.lfsr[:, 0] < 0.05) & (d.lfc[:, 0] > 0), strict=True) if more}
    shown = page.locator("#topic-focus td:first-child").all_inner_texts()
    assert set(marked) == sure & set(shown)
    assert page.evaluate("window.canary") is None
