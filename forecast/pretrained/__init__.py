"""The pretrained network: its weights, and forecasts of a table without a training on it."""
