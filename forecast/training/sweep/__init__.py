"""Many trainings of one command, with a table and a report of them."""
