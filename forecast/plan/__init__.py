"""`python -m forecast.plan`: what a training would take on this machine, and what fits."""
