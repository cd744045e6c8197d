"""What everything else stands on: names of types, threads, memory and words. No numerics, no data."""
