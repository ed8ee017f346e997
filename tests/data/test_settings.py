from typing import Any

import pytest

from forecast.common.errors import InputError
from forecast.data.settings import DataSettings
from tests.support.small import compose


def group(name: str, **changes: Any) -> dict[str, Any]:
    words = ["data.path=my.csv"] if name == "csv" else []
    return {**compose(f"data={name}", *words)["data"], **changes}


@pytest.mark.parametrize("duplicates", ["error", "mean", "first", "last"])
@pytest.mark.parametrize("missing", ["error", "ffill", "interpolate", "mask"])
def test_a_file_may_have_every_policy(duplicates: str, missing: str) -> None:
    DataSettings.parse(group("csv", duplicates=duplicates, missing=missing))


@pytest.mark.parametrize(
    ("key", "value", "message"),
    [
        ("duplicates", "sum", "data.duplicates=sum: choose error, mean, first or last"),
        ("duplicates", None, "data.duplicates=None: must be str"),
        ("duplicates", True, "data.duplicates=True: must be str"),
        ("missing", "bfill", "data.missing=bfill: choose error, ffill, interpolate or mask"),
        ("missing", 0, "data.missing=0: must be str"),
        ("missing", ["mask"], "must be str"),
        (
            "missing_values",
            -9999,
            r"data.missing_values=-9999: must be a list of numbers and texts, data.missing_values=\[-9999\]",
        ),
        ("about", 5, "data.about=5: must be str or null"),
        ("about", ["x"], "must be str or null"),
    ],
)
def test_an_unusable_value_is_refused_by_name(key: str, value: Any, message: str) -> None:
    with pytest.raises(InputError, match=message if "[" not in str(value) else f"data.{key}=.*{message}"):
        DataSettings.parse(group("csv", **{key: value}))


@pytest.mark.parametrize("value", ["", "  ", "x" * 41, "a\nb", None, True, float("nan"), float("inf")])
def test_a_missing_value_is_a_finite_number_or_a_short_text(value: Any) -> None:
    DataSettings.parse(group("csv", missing_values=[-9999, 1e20, "NA"]))
    with pytest.raises(InputError, match=r"^data\.missing_values holds .*: list the numbers"):
        DataSettings.parse(group("csv", missing_values=[value]))


@pytest.mark.parametrize("key", ["duplicates", "missing", "missing_values"])
def test_missing_policies_are_refused(key: str) -> None:
    config = group("csv")
    del config[key]
    with pytest.raises(InputError, match=f"data.{key}: is missing"):
        DataSettings.parse(config)


@pytest.mark.parametrize(("key", "value"), [("duplicates", "mean"), ("missing", "mask")])
def test_the_simulation_refuses_repair_options(key: str, value: str) -> None:
    with pytest.raises(InputError, match=f"data.{key}={value}: the simulation has no gaps and no duplicates"):
        DataSettings.parse(group("synthetic", **{key: value}))


def test_the_simulation_refuses_options_of_files() -> None:
    with pytest.raises(InputError, match=r"data\.about: not an option of data\.source=synthetic"):
        DataSettings.parse(group("synthetic", about="x"))
