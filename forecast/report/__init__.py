"""`python -m forecast.report`: compare many runs in words, tables and pictures."""
