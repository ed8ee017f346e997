"""What is done with doubled rows and missing values: they are refused, unless the user says otherwise."""

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from forecast.common.errors import InputError

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
    missing_values
        Numbers that stand for an empty cell in every column, such as -9999.

    Raises
    ------
    InputError
        If there is no policy of that name, or a missing value is no finite number.
    """

    duplicates: str = "error"
    missing: str = "error"
    missing_values: Sequence[float] = ()

    def __post_init__(self) -> None:
        for key, choices in (("duplicates", DUPLICATES), ("missing", MISSING)):
            value = getattr(self, key)
            if value not in choices:
                raise InputError(f"data.{key}={value}: choose {', '.join(choices[:-1])} or {choices[-1]}")
        for number in self.missing_values:
            if isinstance(number, bool) or not isinstance(number, int | float) or not math.isfinite(number):
                raise InputError(
                    f"data.missing_values holds {number!r}: give the numbers that stand for a missing value, "
                    "data.missing_values=[-9999]; an empty cell is one without being named"
                )

    @classmethod
    def of(cls, data: Mapping[str, Any]) -> "Policies":
        """Return the policies of a `data` group or of a manifest's data; what an earlier version lacks is not done."""
        values = data.get("missing_values") or ()
        return cls(data.get("duplicates", "error"), data.get("missing", "error"), tuple(values))

    def facts(self) -> dict[str, Any]:
        """Return them as plain values, missing values only where there are some."""
        named = {"missing_values": list(self.missing_values)} if self.missing_values else {}
        return {"duplicates": self.duplicates, "missing": self.missing, **named}

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
