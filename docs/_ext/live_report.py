"""Writes the report of the speeches beside the pages, for the tutorial to link to."""

from __future__ import annotations

from pathlib import Path
from typing import Any


def write(app: Any, exception: Exception | None) -> None:
    if exception is None and app.builder.format == "html":
        import unmix as um

        fit = um.TopicModel(8, random_state=0).fit(um.datasets.sotu()).result_
        um.write_report(fit, Path(app.outdir) / "speeches-report.html", title="State of the Union addresses, 1790–2021")


def setup(app: Any) -> dict[str, Any]:
    app.connect("build-finished", write)
    return {"parallel_read_safe": True}
