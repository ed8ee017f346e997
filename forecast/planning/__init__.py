"""What `python -m forecast.plan` does: measure a few steps of each mechanism, foretell the training."""
