"""A table becomes a series, repaired and with its calendar, and the series becomes windows and batches."""
