"""Formats of files: their size limits, and what is in them before a table is."""
