"""Speed and memory of unmix beside other libraries: `python -m benchmarks --help`, from the project root."""
