"""What is done with doubled and missing rows: refused, unless the user says otherwise."""

from dataclasses import dataclass

from forecast.errors import InputError

DUPLICATES = ("error", "mean", "first", "last")
MISSING = ("error", "ffill", "interpolate", "mask")


@dataclass(frozen=True)
class Policies:
    """How a table is repaired.

    Parameters
    ----------
    duplicates
        Rows of the same time: "error" refuses them; "mean", "first" and "last" make one row of them, column by
        column, of the values that are there, in the order of the file.
    missing
        Rows absent from the regular grid, and empty cells: "error" refuses them; "ffill" puts the last value
        before; "interpolate" a straight line in time between the neighbours, a gap without an end filled
        forward; "mask" fills as "ffill" does for the baselines and the model's linear path, while its
        encoder-decoder takes what was filled as the window's own mean.

    Raises
    ------
    InputError
        If there is no policy of that name.
    """

    duplicates: str = "error"
    missing: str = "error"

    def __post_init__(self) -> None:
        for key, choices in (("duplicates", DUPLICATES), ("missing", MISSING)):
            value = getattr(self, key)
            if value not in choices:
                raise InputError(f"data.{key}={value}: choose {', '.join(choices[:-1])} or {choices[-1]}")

    @property
    def fills(self) -> bool:
        """Whether missing values are filled."""
        return self.missing != "error"

    @property
    def reads_past_gaps(self) -> bool:
        """Whether a fill knows the value after its gap."""
        return self.missing == "interpolate"

    @property
    def masks_past(self) -> bool:
        """Whether the model is told which values of its context were filled."""
        return self.missing == "mask"


STRICT = Policies()
"""Refuses both."""
