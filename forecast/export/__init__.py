"""`python -m forecast.export`: write a run as one file that forecasts without this program."""
