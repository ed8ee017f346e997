"""`python -m forecast.benchmark`: measure time and memory of attention and of forecasts."""
