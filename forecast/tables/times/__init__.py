"""Times as they are written in tables: their parsing, their step, and the clock they follow."""
