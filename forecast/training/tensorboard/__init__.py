"""Output of a training for TensorBoard."""
