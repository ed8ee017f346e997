"""What the attention of a network does, measured on one batch."""
