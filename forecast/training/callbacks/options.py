"""Options that several callbacks have."""

from forecast.common.errors import InputError

MOST_WINDOWS = 1_000
"""Windows that a callback may look at: it does so at each validation."""


def check_windows(windows: object) -> int:
    """Give the number of windows.

    Raises
    ------
    InputError
        If it is no whole number, or out of its range.
    """
    if not isinstance(windows, int) or isinstance(windows, bool) or not 1 <= windows <= MOST_WINDOWS:
        raise InputError(f"windows={windows}: must be a whole number from 1 to {MOST_WINDOWS}")
    return windows
