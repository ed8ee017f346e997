"""How a model would have done, and how an earlier forecast did."""
