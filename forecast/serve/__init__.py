"""`forecast serve`: trained models as an HTTP service, and a page for people without a terminal."""
