import pytest

from forecast.tables.times.calendar_words import in_english, means_time, month_of, part_kinds


@pytest.mark.parametrize(
    ("name", "kind"),
    [
        *((name, "year") for name in ("Year", "YYYY", "Jahr", "année", "año", "ano", "anno", "jaar", "calendar_year")),
        *((name, "month") for name in ("MONTH", "Monat", "mois", "mes", "mês", "mese", "maand")),
        *((name, "day") for name in ("day", "Tag", "jour", "día", "dia", "giorno", "dag")),
        *((name, "hour") for name in ("HE", "HourEnding", "hour_ending", "Stunde", "heure", "hora", "ora", "uur")),
        *((name, "time") for name in ("Time", "Uhrzeit", "Time (CET)", "tijd", "Local Time")),
        *((name, "quarter") for name in ("Qtr", "Quartal", "trimestre", "kwartaal")),
        *((name, "week") for name in ("KW", "Kalenderwoche", "semaine", "settimana", "ISO week")),
        *((name, "period") for name in ("Settlement Period", "Viertelstunde")),
    ],
)
def test_a_part_of_a_time_is_known_by_its_name_in_seven_languages(name: str, kind: str) -> None:
    assert kind in part_kinds(name)


@pytest.mark.parametrize("name", ["load", "day-ahead price", "month_to_date_sales", "hours worked", "yearly", "1.8.0"])
def test_a_name_with_other_words_is_no_part_of_a_time(name: str) -> None:
    assert part_kinds(name) == ()


def test_only_names_with_a_word_of_time_mean_one() -> None:
    assert [
        name for name in ("open_time", "timestamp", "ds", "Datum", "sales", "n", "minutes", "id") if means_time(name)
    ] == [
        *("open_time", "timestamp", "ds", "Datum"),
    ]


def test_months_are_known_with_and_without_accents() -> None:
    assert [month_of(name) for name in ("März", "mrt", "août", "Aout", "dic", "Oktober", "x")] == [
        3,
        3,
        8,
        8,
        12,
        10,
        None,
    ]
    assert in_english("05-Okt-21") == "05-Oct-21"
