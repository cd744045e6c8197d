"""Tables of results: printed, and written as Markdown and CSV."""

from pathlib import Path

import pandas as pd


def significant(value: object) -> str:
    """Three figures for measurements, thousands separators for large numbers, a dash for what is missing."""
    if value is None or (isinstance(value, float) and pd.isna(value)):
        return "–"
    if isinstance(value, bool) or not isinstance(value, int | float):
        return str(value)
    if abs(value) >= 1000 or isinstance(value, int):
        return f"{value:,.0f}"
    return f"{value:.3g}"


def markdown(table: pd.DataFrame) -> str:
    rows = [[significant(value) for value in row] for row in table.astype(object).itertuples(index=False)]
    lines = [list(table.columns), ["---"] * table.shape[1], *rows]
    return "\n".join("| " + " | ".join(line) + " |" for line in lines)


def publish(rows: list[dict], title: str, name: str, out: Path, remark: str = "") -> pd.DataFrame:
    """Print the table, and write it to `out/name.md` and `out/name.csv`."""
    table = pd.DataFrame(rows)
    text = f"## {title}\n\n{markdown(table)}\n" + (f"\n{remark}\n" if remark else "")
    print(f"\n{text}", flush=True)
    out.mkdir(parents=True, exist_ok=True)
    (out / f"{name}.md").write_text(text)
    table.to_csv(out / f"{name}.csv", index=False)
    return table
