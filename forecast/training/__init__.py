"""`python train.py`: one run from configuration to result, or a sweep of them."""
