"""`python -m forecast.check`: measure whether attention mechanisms keep the contract."""
