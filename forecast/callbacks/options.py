"""Options that several callbacks have."""

from forecast.errors import InputError


def check_windows(windows: object) -> int:
    """Give the number of windows.

    Raises
    ------
    InputError
        If it is no whole number of at least 1.
    """
    if not isinstance(windows, int) or isinstance(windows, bool) or windows < 1:
        raise InputError(f"windows={windows}: must be a whole number of at least 1")
    return windows
