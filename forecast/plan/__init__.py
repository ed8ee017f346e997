"""`python -m forecast.plan`: predict the time and memory of a training on this machine."""
