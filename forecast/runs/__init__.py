"""The run folder: its files, settings, checkpoints and results, and how many of them are read."""
