"""What the program understands of a table, before a training."""
