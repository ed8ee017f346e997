"""`python -m forecast.benchmark`: time and memory of attention and of forecasts."""
