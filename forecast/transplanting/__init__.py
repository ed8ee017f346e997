"""What `python -m forecast.transplant` does: a run's weights under another attention or look-back, scored."""
