"""Generated series: a prior over processes, and the windows of a training on them."""
