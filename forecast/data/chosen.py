"""Which windows of its parts a run is asked to use: fewer than there are, where look-backs are compared at a cost."""

from forecast.common.errors import InputError


def training_targets(rows: range, first_origin: int | None, context_length: int, horizon: int) -> range:
    """Give the training part's target rows, from `first_origin` on where that is given.

    With the same first origin, runs of every look-back train on the same targets.

    Raises
    ------
    InputError
        If no window has its first target there.
    """
    if first_origin is None:
        return rows
    name = f"training.first_origin={first_origin}"
    if first_origin < context_length:
        raise InputError(
            f"{name}: a look-back of {context_length} steps has no window before row {context_length}: give at least "
            "that, or null for the first there is"
        )
    if first_origin + horizon > rows.stop:
        raise InputError(
            f"{name}: the training part ends with row {rows.stop - 1}: give at most {rows.stop - horizon}, "
            f"{horizon} rows before its end"
        )
    return range(first_origin, rows.stop)


def check_stride(stride: int, horizon: int) -> None:
    """Refuse to score so few windows that rows between them would be no window's target.

    The last window is always scored; before the first one that is, fewer than `stride` rows are no target.

    Raises
    ------
    InputError
        Naming the bounds.
    """
    if not 1 <= stride <= horizon:
        raise InputError(
            f"training.evaluation_stride={stride}: must be from 1 (every window) to the horizon, {horizon}: beyond "
            "it rows between the windows would never be scored"
        )
