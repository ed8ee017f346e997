"""The record of measured accuracy: which runs it is made of, how it is filled, what tables come of it."""
