"""What a training writes for TensorBoard."""
