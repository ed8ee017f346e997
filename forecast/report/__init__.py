"""`python -m forecast.report`: what many runs say together, in words, tables and pictures."""
