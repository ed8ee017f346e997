"""Files that the program refuses although it should read them, or refuses with other words than it should."""

NOT_YET: frozenset[str] = frozenset()
