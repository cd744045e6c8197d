"""Mutants of the mathematics: one wrong line each, which its tests must notice. `python -m mutants` tries them all."""
