"""The jobs of a multirun: their words, folders and processes, and what is told and tabled of them."""
