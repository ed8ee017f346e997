"""Studies of the model and its data, run by hand; their records lie beside this folder."""
