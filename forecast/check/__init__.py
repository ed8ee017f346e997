"""`python -m forecast.check`: whether an attention mechanism keeps the contract, measured."""
