"""What a GPU must show, in one command of minutes: `python -m benchmarks.gpu`."""
