"""A pytest plugin that imports one module with a mutant in it: `UNMIX_MUTANT=NUMBER pytest -p mutants.plugin`.

The files stay as they are. When the module of the mutant is imported, its source is read, changed and compiled.
"""

from __future__ import annotations

import os
import sys
from importlib.abc import MetaPathFinder
from importlib.machinery import ModuleSpec, SourceFileLoader
from importlib.util import spec_from_file_location
from types import CodeType
from typing import Any

from mutants.listed import MUTANTS, Mutant


class Mutated(SourceFileLoader):
    """Compiles the source with the mutant in it, past any cache."""

    mutant: Mutant

    def get_code(self, fullname: str) -> CodeType:
        source = self.mutant.applied()
        return compile(source, self.get_filename(fullname), "exec", dont_inherit=True)


class Finder(MetaPathFinder):
    def __init__(self, mutant: Mutant) -> None:
        self.mutant = mutant

    def find_spec(self, name: str, path: Any = None, target: Any = None) -> ModuleSpec | None:
        if name != self.mutant.module:
            return None
        loader = Mutated(name, str(self.mutant.path))
        loader.mutant = self.mutant
        return spec_from_file_location(name, self.mutant.path, loader=loader)


if number := os.environ.get("UNMIX_MUTANT"):
    mutant = MUTANTS[int(number)]
    if mutant.module in sys.modules:
        raise RuntimeError(f"{mutant.module} was imported before its mutant")
    sys.meta_path.insert(0, Finder(mutant))
