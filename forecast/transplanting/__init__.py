"""What `python -m forecast.transplant` does: a run's weights under another attention or look-back, scored."""

TRANSPLANT = "transplant.json"
"""The file in a run folder that its scores are kept in."""
