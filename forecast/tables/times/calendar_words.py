"""Words of the calendar in seven languages: months, weekdays, and the names of columns that hold parts of a time."""

import re
import unicodedata

_MONTHS = (
    "january janvier januar enero gennaio januari janeiro jan jaen jänner janv ene gen",
    "february fevrier februar febrero febbraio februari fevereiro feb feber fevr fev",
    "march mars maerz marz marzo maart marco mar mrz mrt maer",
    "april avril abril aprile apr avr abr",
    "may mai mayo maggio mei maio mag",
    "june juin juni junio giugno junho jun giu",
    "july juillet juli julio luglio julho jul juil lug",
    "august aout agosto augustus aug aou ago",
    "september septembre septiembre settembre setembro sep sept set setiembre",
    "october octobre oktober octubre ottobre outubro oct okt ott out",
    "november novembre noviembre novembro nov",
    "december decembre dezember diciembre dicembre dezembro dec dez dic",
)
_ENGLISH = ("Jan", "Feb", "Mar", "Apr", "May", "Jun", "Jul", "Aug", "Sep", "Oct", "Nov", "Dec")
_WEEKDAYS = """
    mon monday tue tues tuesday wed wednesday thu thur thurs thursday fri friday sat saturday sun sunday
    mo montag di dienstag mi mittwoch do donnerstag fr freitag sa samstag sonnabend so sonntag
    lun lundi mardi mer mercredi jeu jeudi ven vendredi sam samedi dim dimanche
    lunes martes mie miercoles jue jueves vie viernes sab sabado dom domingo
    lunedi martedi mercoledi gio giovedi venerdi sabato domenica
    ma maandag dinsdag wo woensdag donderdag vr vrijdag za zaterdag zo zondag
    seg segunda ter terca qua quarta qui quinta sex sexta
    mar
"""  # mar is also March: a weekday only beside another month
_PARTS = {
    "year": "year yr yyyy yy jahr annee an ano anio anno jaar ejercicio",
    "month": "month mon mm monat mois mes mese maand mth",
    "day": "day dd dayofmonth mday tag jour dia giorno dag",
    "hour": "hour hr hh h he hb hourending hourbeginning hourend stunde std heure hora ora uur",
    "minute": "minute min mi mm minuten minuto minuut mn",
    "second": "second sec sekunde seconde segundo secondo ss",
    "date": "date datum fecha data dato",
    "time": "time uhrzeit zeit heure hora ora uur tijd tijdstip clock timeofday hhmm horaire orario tod",
    "quarter": "quarter qtr quartal trimestre trim kwartaal",
    "week": "week wk kw woche kalenderwoche semaine semana settimana isoweek weeknumber weekofyear",
    "period": "period sp settlementperiod periode periodo periodo tijdvak interval intervall slot block pte halfhour"
    " viertelstunde quarterhour qh programmeerperiode zeitscheibe",
    "zone": "timezone tz zone zeitzone fuseau",
    "yearday": "doy yday dayofyear julianday jday yearday",
}
_TIMES = """
    timestamp datetime dates times ds unix epoch ts unixtime unixtimestamp zeitstempel
    zeitpunkt yyyymm yyyymmdd yyyymmddhh ymd fechahora horodatage momento moment
    mtu opentime closetime utc period years months days
"""
_FILLERS = frozenset(
    """
    ending beginning end begin start of the number no nr num local utc gmt cet cest lt lst est mez obs observation
    measurement trading trade settlement delivery calendar cal iso fiscal report reading hr
    """.split()  # noqa: SIM905
)


MONTHS = {word: number for number, words in enumerate(_MONTHS, 1) for word in words.split()}
"""The number of each month by its name or short name, without accents, in lower case."""

WEEKDAYS = frozenset(_WEEKDAYS.split())
"""Names and short names of weekdays, without accents, in lower case."""

WORD = re.compile(r"[^\W\d_]+")
"""A word without digits."""


def plain_word(text: str) -> str:
    """Return a word in lower case without accents."""
    if not text.isascii():
        text = "".join(letter for letter in unicodedata.normalize("NFKD", text) if not unicodedata.combining(letter))
    return text.lower()


def month_of(word: str) -> int | None:
    """Return the number of the month with this name, else None."""
    return MONTHS.get(plain_word(word))


def in_english(text: str) -> str:
    """Return the text with English short names of months, such as Okt as Oct."""
    return WORD.sub(lambda match: _ENGLISH[number - 1] if (number := month_of(match[0])) else match[0], text)


def part_kinds(name: str) -> tuple[str, ...]:
    """Return the parts of a time that a column name may mean, such as hour or month; empty: none."""
    words = _words_of(name)
    left = [word for word in words if word not in _FILLERS]
    for word in ("".join(words), *(left if len(left) == 1 else ())):
        if kinds := tuple(kind for kind, known in _BY_PART.items() if word in known):
            return kinds
    return ()


def means_time(name: str) -> bool:
    """Return whether a column name has a word of time, such as timestamp or Datum."""
    return any(word in _TIME_WORDS for word in (*_words_of(name), "".join(_words_of(name))))


def _words_of(name: str) -> list[str]:
    """Return the words of a name; HourEnding and hour_ending have two, and brackets are left out."""
    name = re.sub(r"[(\[][^)\]]*[)\]]", " ", name) or name
    return [plain_word(word) for word in WORD.findall(re.sub(r"(?<=[a-z])(?=[A-Z])", " ", name))]


_BY_PART = {kind: frozenset(words.split()) for kind, words in _PARTS.items()}
_SHORT = "yy an mon mi min mn mm sec ss data slot block interval dd h he hb clock trim"
"""Words that are parts of a time only beside others."""
_TIME_WORDS = frozenset(_TIMES.split()).union(*_BY_PART.values()) - frozenset(_SHORT.split())
