"""Files and embedded data sets -> Counts; fits -> files."""
