"""Sweeps: many trainings from one command, with a table and a report."""
