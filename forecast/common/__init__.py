"""Errors, files, options, tables, processes, memory and time; imports nothing else of this package."""
