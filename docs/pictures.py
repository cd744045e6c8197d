"""`python docs/pictures.py` draws the pictures of the README: the report of the speeches, light and dark.

Each picture keeps the labels that it shows, as text in the file; a test compares them with those of the library as it is.
"""

from __future__ import annotations

import io
import shutil
import tempfile
from pathlib import Path

from PIL import Image
from PIL.PngImagePlugin import PngInfo

import unmix as um

IMAGES = Path(__file__).parent / "images"
SIZE = {"width": 1280, "height": 800}


def labels() -> str:
    """What a topic is called in the report, and its share."""
    fit = um.TopicModel(8, random_state=0).fit(um.datasets.sotu()).result_
    names = um.analysis.topic_names(fit)
    return "\n".join(f"{name} {share:.1%}" for name, share in zip(names, fit.shares, strict=True))


def shown(picture: Path) -> str:
    """The labels in a picture that was drawn before."""
    with Image.open(picture) as image:
        return str(image.info["labels"])


def draw() -> None:
    from playwright.sync_api import sync_playwright

    fit = um.TopicModel(8, random_state=0).fit(um.datasets.sotu()).result_
    info = PngInfo()
    info.add_itxt("labels", labels())
    with tempfile.TemporaryDirectory() as folder, sync_playwright() as playwright:
        page_file = Path(folder, "report.html")
        um.write_report(fit, page_file, title="State of the Union addresses, 1790–2021")
        browser = playwright.chromium.launch(executable_path=shutil.which("chromium"), args=["--no-sandbox"])
        for scheme, name in (("light", "report.png"), ("dark", "report-dark.png")):
            page = browser.new_page(viewport=SIZE, device_scale_factor=2, color_scheme=scheme)
            page.goto(page_file.as_uri())
            page.wait_for_timeout(1_500)
            image = Image.open(io.BytesIO(page.screenshot())).convert("P", palette=Image.Palette.ADAPTIVE, colors=255)
            image.save(IMAGES / name, pnginfo=info, optimize=True)
        browser.close()


if __name__ == "__main__":
    draw()
