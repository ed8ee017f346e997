"""Types of command-line options for argparse."""


def positive(text: str) -> int:
    """Read an integer of at least 1."""
    value = int(text)
    if value < 1:
        raise ValueError
    return value


def seconds(text: str) -> float:
    """Read a number of seconds, at least 0."""
    value = float(text)
    if not value >= 0:
        raise ValueError
    return value


def minutes(text: str) -> float:
    """Read a number of minutes, above 0 and finite."""
    return gibibytes(text)


def gibibytes(text: str) -> float:
    """Read an amount of memory, above 0 and finite."""
    value = float(text)
    if not 0 < value < float("inf"):
        raise ValueError
    return value


# names in the error messages of argparse
positive.__name__ = "integer of at least 1"
minutes.__name__ = "number of minutes above 0"
seconds.__name__ = "number of seconds"
gibibytes.__name__ = "number of GiB above 0"
