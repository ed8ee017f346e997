"""How the benchmarks measure: what is run, how time and memory are taken, and what is made of the numbers."""
