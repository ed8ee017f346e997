"""From a table to a repaired series with a calendar, and from the series to windows and batches."""
