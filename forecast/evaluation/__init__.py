"""Scores, baselines, the linear start, the mixing weight, and the significance of a difference."""
