"""The scripts behind published numbers, and their records."""
