"""Series that are drawn or simulated: the transformer, diagnostic windows, and a prior over processes."""
