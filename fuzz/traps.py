"""What a hostile file tries: a payload that leaves a trace when it runs, and secrets in files that it has no business to read."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

CANARY = "canary"  # a folder that a payload leaves behind
WORD, NUMBER = "xyzzyplugh", 31337.0
SECRETS = (WORD, f"{NUMBER:.0f}")  # of the files that links lead to
HUGE = (2**40, 2**62)  # more than any memory


class Payload:
    """Leaves the canary behind if it is unpickled."""

    def __init__(self, folder: Path) -> None:
        self.where = str(folder / CANARY)

    def __reduce__(self) -> Any:
        return os.makedirs, (self.where, 0o777, True)


def secret(folder: Path, lines: int = 12) -> Path:
    """A file beside, with the secret in every line."""
    (folder / "kept").mkdir(exist_ok=True)
    file = folder / "kept" / "elsewhere.txt"
    file.write_text(f"{WORD}\n" * lines)
    return file
