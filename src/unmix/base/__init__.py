"""What everything else is on: names of types, threads, memory and words. No numerics, no data."""
