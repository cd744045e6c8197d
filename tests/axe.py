"""What axe-core finds wrong with a page in a browser: WCAG 2.2, levels A and AA, and best practices."""

from __future__ import annotations

from typing import Any

import pytest

TAGS = ["wcag2a", "wcag2aa", "wcag21a", "wcag21aa", "wcag22aa", "best-practice"]


def violations(page: Any) -> list[str]:
    """One line per rule that a page of Playwright breaks: rule, number of elements, the first of them."""
    axe = pytest.importorskip("axe_playwright_python.sync_playwright", reason="axe-playwright-python is not installed")
    options = {"runOnly": {"type": "tag", "values": TAGS}, "resultTypes": ["violations"]}
    found = axe.Axe().run(page, options=options).response["violations"]
    return [f"{rule['id']}: {len(rule['nodes'])}, first {rule['nodes'][0]['html'][:120]}" for rule in found]
