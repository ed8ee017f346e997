"""Several processes that train one model: where each stands, what they exchange, who starts and ends them."""
