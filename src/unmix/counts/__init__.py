"""Data of any size: counts in memory and shards on disk, how they are checked, and what solvers may ask of them."""
