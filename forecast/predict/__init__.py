"""`python -m forecast.predict`: forecast with a run, the mean of several runs, or an exported model."""
