"""`python -m benchmarks.accuracy`: run, keep and show the measured accuracy."""
