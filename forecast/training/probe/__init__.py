"""Measures of what a network's attention does on one batch."""
