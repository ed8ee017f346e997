"""`python -m forecast.export`: a run as one file that predicts without this program."""
