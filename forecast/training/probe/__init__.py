"""Measures of the attention of a network on one batch."""
