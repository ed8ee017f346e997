"""Callbacks of a training: checkpoints, speed, probe, pictures, progress."""
