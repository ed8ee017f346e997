"""Nine tasks of fev-bench: their data, their protocol, and the published scores of other models."""
