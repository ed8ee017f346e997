"""`python -m forecast.export`: write a run as one file that predicts without this program."""
