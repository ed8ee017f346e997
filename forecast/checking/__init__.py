"""What every attention mechanism promises, measured: `python -m forecast.check` prints it."""
