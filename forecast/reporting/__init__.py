"""The report over finished runs: what each mechanism costs and gives, from their folders alone."""
