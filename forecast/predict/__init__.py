"""`python -m forecast.predict`: forecasts from a run, an average of runs or an exported model."""
