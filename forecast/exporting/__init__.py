"""How a model leaves the program: captured as one graph, written with what describes it, opened and compared."""
