"""What the attention of a network does on a few fixed windows, beside the exact softmax on the same tensors."""
