"""Features of public holidays."""

import datetime
import sys
import warnings
from types import SimpleNamespace
from typing import Any

import numpy as np
import pandas as pd
import pytest

from forecast.common.errors import InputError
from forecast.data import holidays as module
from forecast.data.holidays import MOST_DAYS, Holidays
from forecast.data.settings import DataSettings
from tests.support.covering import covering
from tests.support.small import compose

library = pytest.importorskip("holidays", reason="it needs the extra: pip install -e '.[holidays]'")

PLACES = ["DE-BY", "DE", "US", "US-CA", "AU-VIC", "NO", "IN"]


DAYS = [(0, 0), (2, 0), (0, 1), (3, 2)]
"""Days before and after."""


@pytest.mark.parametrize(("place", "days", "frequency"), covering(PLACES, DAYS, ["h", "15min", "D"], every=3))
def test_each_feature_is_the_calendar_of_its_own_day(place: str, days: tuple[int, int], frequency: str) -> None:
    """Compare with a slow reference: ask the library for the date of each row, one by one."""
    before, after = days
    country, _, subdivision = place.partition("-")
    known = library.country_holidays(country, subdiv=subdivision or None)
    index = pd.date_range("2019-12-20", "2020-01-08", freq=frequency)
    shifts = [0, *range(1, before + 1), *range(-1, -after - 1, -1)]
    expected = [[(time.date() + datetime.timedelta(shift)) in known for shift in shifts] for time in index]
    features = Holidays.parse(place, before, after).features(index)
    assert features.dtype == np.float64
    np.testing.assert_array_equal(features, expected)


def test_the_columns_are_in_the_order_of_the_features() -> None:
    holidays = Holidays("US", before=2, after=2)
    names = ["holiday", "holiday in 1 day", "holiday in 2 days", "holiday 1 day ago", "holiday 2 days ago"]
    assert holidays.columns == names
    days = pd.date_range("2023-07-01", periods=7)  # Independence Day is the fourth
    features = pd.DataFrame(holidays.features(days), index=days.day, columns=holidays.columns)
    assert {name: features.index[features[name] == 1].tolist() for name in names} == dict(
        zip(names, ([4], [3], [2], [5], [6]), strict=True)
    )


def test_known_holidays_of_parts_of_countries() -> None:
    def days_of(place: str, month: str) -> list[int]:
        days = pd.date_range(month, periods=30)
        return days.day[Holidays.parse(place).features(days)[:, 0] == 1].tolist()

    assert days_of("DE-BY", "2024-11-01") == [1]  # All Saints' Day
    assert days_of("DE-BE", "2024-11-01") == []
    assert days_of("AU-VIC", "2024-11-01") == [5]  # Melbourne Cup
    assert days_of("US", "2024-11-01") == [11, 28]


def test_the_date_is_that_of_the_time_zone_of_the_index() -> None:
    berlin = pd.date_range("2023-12-24 00:00", "2023-12-27 23:00", freq="h", tz="Europe/Berlin")
    holidays = Holidays("DE")
    np.testing.assert_array_equal(holidays.features(berlin)[:, 0], np.isin(berlin.day, [25, 26]))
    assert not np.array_equal(holidays.features(berlin), holidays.features(berlin.tz_convert("UTC")))


def test_a_part_of_an_index_has_the_same_features() -> None:
    index = pd.date_range("2021-12-28", "2022-01-05", freq="6h")
    holidays = Holidays("DE", 3, 3)
    whole = holidays.features(index)
    assert whole.any(axis=0).sum() == len(holidays.columns)
    np.testing.assert_array_equal(np.concatenate([holidays.features(index[:9]), holidays.features(index[9:])]), whole)
    np.testing.assert_array_equal(holidays.features(index[::-1]), whole[::-1])
    assert holidays.features(index[:0]).shape == (0, 7)


@pytest.mark.parametrize("place", PLACES)
def test_years_that_the_library_does_not_know_have_a_note_and_no_warning(place: str) -> None:
    index = pd.DatetimeIndex(["1678-01-01", "1900-05-01", "2024-05-01", "2261-12-31"])
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        features = Holidays.parse(place, 1, 1).features(index)
        _, note = Holidays.parse(place).notes(index)
        assert len(Holidays.parse(place).notes(index[2:3])) == len(Holidays.parse(place).notes(index[:0])) == 1
    assert (features.shape, features[[0, 3]].sum()) == ((4, 3), 0)
    assert note.startswith(f"holidays of {place}: the library lacks some or all of ")
    assert Holidays.parse(place).notes(index[:1])[1].endswith("some or all of 1678")


@pytest.mark.parametrize(
    ("place", "line"),
    [
        ("BY", "holidays of Belarus (BY): 2 days in the table"),
        ("DE-BY", "holidays of Germany (DE-BY): 2 days in the table"),
        ("US-CA", "holidays of United States (US-CA): 1 days in the table"),
    ],
)
def test_a_line_names_the_country_and_the_number_of_days(place: str, line: str) -> None:
    assert Holidays.parse(place).notes(pd.date_range("2024-01-01", "2024-01-06 23:00", freq="h"))[0] == line


def test_years_of_which_the_library_warns_have_a_note(monkeypatch: pytest.MonkeyPatch) -> None:
    def incomplete(*names: Any, years: int = 2024, **options: Any) -> Any:
        if years < 2001:
            warnings.warn("Requested Holidays are available only from 2001", UserWarning, stacklevel=2)
        return library.country_holidays(*names, years=years, **options)

    known = {"country_holidays": incomplete, "list_supported_countries": library.list_supported_countries}
    monkeypatch.setattr(module, "_library", lambda: SimpleNamespace(**known))
    module._holidays_of.cache_clear()
    notes = Holidays("DE").notes(pd.date_range("1999-06-01", "2003-06-01", freq="D"))
    module._holidays_of.cache_clear()
    assert notes[1:] == ("holidays of DE: the library lacks some or all of 2 years from 1999 to 2000",)


@pytest.mark.parametrize(
    ("place", "message"),
    [
        ("de", r"unknown country 'de' \(did you mean DE\?\): use its ISO 3166 code"),
        ("XQZJ", "unknown country 'XQZJ': use its ISO 3166 code"),
        ("", "unknown country ''"),
        ("DE-by", r"unknown subdivision 'by' of DE \(did you mean BY\?\): choose from BB, BE, "),
        ("DE-", "unknown subdivision '' of DE: choose from BB, BE, "),
        ("AU-VIV", r"unknown subdivision 'VIV' of AU \(did you mean VIC\?\)"),
        ("US-ZZ", "unknown subdivision 'ZZ' of US: choose from AK, .*, …$"),
        ("SE-1", "the library has no subdivisions of SE: set data.holidays=SE"),
        ("DE\n", "has control characters"),
    ],
)
def test_an_unknown_place_is_refused_in_one_line(place: str, message: str) -> None:
    with pytest.raises(InputError, match=rf"^data\.holidays=.*{message}") as caught:
        Holidays.parse(place)
    assert "\n" not in str(caught.value)


def test_a_missing_library_is_named_with_its_cure(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "holidays", None)
    for act in (lambda: Holidays.parse("DE"), lambda: Holidays("DE").to_dict()):
        with pytest.raises(InputError, match=r'^data\.holidays: .*pip install -e "\.\[holidays\]"$'):
            act()


@pytest.mark.parametrize("frequency", ["s", "15min", "h", "12h", "D", "B", "24h"])
def test_steps_up_to_a_day_have_holidays(frequency: str) -> None:
    Holidays("DE").check_frequency(frequency)


@pytest.mark.parametrize("frequency", ["25h", "2D", "W-SUN", "MS", "QS-JAN", "YE-DEC", "2B"])
def test_longer_steps_are_refused(frequency: str) -> None:
    with pytest.raises(InputError, match=f"^data.holidays=DE-BY: rows every {frequency} span more than a day: set "):
        Holidays("DE-BY").check_frequency(frequency)


def test_the_values_of_a_manifest_are_the_same_features() -> None:
    holidays = Holidays("DE-BY", 2, 1)
    facts = holidays.to_dict()
    assert facts == {"place": "DE-BY", "before": 2, "after": 1, "library": library.__version__}
    assert Holidays.from_dict(facts) == holidays


GOOD = {"place": "DE", "before": 0, "after": 0, "library": "0.1"}


@pytest.mark.parametrize(
    "facts",
    [
        *({**GOOD, "place": value} for value in (None, 5, "", "DE\x1b", ["DE"])),
        *({**GOOD, key: value} for key in ("before", "after") for value in (-1, MOST_DAYS + 1, 1.0, True, "1", None)),
        *({**GOOD, "library": value} for value in (None, 0.1, "\n")),
        *({key: value for key, value in GOOD.items() if key != lost} for lost in GOOD),
        *({**GOOD, "more": 1}, None, [], "DE"),
    ],
    ids=str,
)
def test_damaged_values_of_a_manifest_are_refused(facts: object) -> None:
    assert Holidays.from_dict(GOOD) == Holidays("DE")
    with pytest.raises(ValueError, match=r"holidays|number of days"):
        Holidays.from_dict(facts)


def test_a_place_of_another_version_of_the_library_is_refused_when_it_is_used() -> None:
    with pytest.raises(InputError, match=r"^data\.holidays=DE-ZZ: unknown subdivision 'ZZ'"):
        Holidays("DE-ZZ").features(pd.date_range("2024-01-01", periods=3))


@pytest.mark.parametrize("key", ["holidays_before", "holidays_after"])
def test_days_around_holidays_need_holidays(key: str) -> None:
    words = ["data=csv", "data.path=my.csv", f"data.{key}=2"]
    with pytest.raises(InputError, match=rf"^data\.{key}=2: needs data\.holidays"):
        DataSettings.parse(compose(*words)["data"])
    assert DataSettings.parse(compose(*words, "data.holidays=DE-BY")["data"]).holidays == "DE-BY"
    with pytest.raises(InputError, match=rf"data\.{key}=8: must be at least 0 and at most 7"):
        DataSettings.parse(compose(*words[:2], f"data.{key}=8", "data.holidays=DE")["data"])
