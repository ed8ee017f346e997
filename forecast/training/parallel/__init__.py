"""Train one model in several processes."""
