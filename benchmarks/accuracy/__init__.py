"""`python -m benchmarks.accuracy`: fill and show the record of measured accuracy."""
