"""The tables of what was held equal, of the comparisons, of the commands and of what was left out."""

from collections.abc import Sequence

from forecast.common.tables import Sheet
from forecast.common.text import NONE
from forecast.evaluation.bootstrap import DRAWS, LEVEL, Interval
from forecast.report.comparisons import LEAST_FREEDOM, Comparison, Comparisons, SeedSpread
from forecast.report.equal import facts_of
from forecast.report.sections import REFERENCE, Section
from forecast.report.text import interval_words, level_words, signed

EQUAL, COMMANDS, LEFT_OUT = "Held equal", "Commands", "Left out"
LOWEST = ", the lowest"
"""After what a setting is compared with because its error is the lowest."""


def equal_sheet(section: Section) -> Sheet:
    """Give the table of what was held equal and what was not."""
    cells = [[fact.name, fact.state, fact.values] for fact in facts_of(section)]
    notes = (
        "other keys of the configuration are listed where they differ; what is not listed was the same in all, "
        "names, paths and how often progress was shown or saved aside",
    )
    return Sheet(EQUAL, ("what", "state", "values"), cells, notes)


def comparison_sheet(comparisons: Comparisons) -> Sheet | None:
    """Give the table of paired comparisons, None where there is nothing to compare."""
    headings = (
        *("mechanism", "look-back", "against", "MSE, % more", "interval, %", "level, %", "verdict"),
        *("windows", "block, windows"),
    )
    cells = [_comparison_cells(each) for each in comparisons.every]
    return Sheet("Compared window by window", headings, cells, _comparison_notes(comparisons)) if cells else None


def _comparison_cells(each: Comparison) -> list[str]:
    there = f" at {each.against.look_back:,}" if each.against.look_back != each.setting.look_back else ""
    lowest = "" if each.level == LEVEL else LOWEST
    settings = [each.setting.arm, f"{each.setting.look_back:,}", each.against.arm + there + lowest]
    counts = [NONE, NONE] if each.interval is None else [f"{each.interval.count:,}", _block(each.interval)]
    return [*settings, signed(each.per_cent), interval_words(each), level_words(each), each.verdict, *counts]


def _block(interval: Interval) -> str:
    return f"{interval.block:,}" + (" (a fifth)" if interval.capped else "")


def _comparison_notes(comparisons: Comparisons) -> tuple[str, ...]:
    untested = {each.why for each in comparisons.every if each.interval is None}
    among = {each.level for each in comparisons.with_best.values()} - {LEVEL}
    return (
        f"each setting against `{REFERENCE}` and the control at its look-back, and against the lowest error of all; an "
        "interval for each, none for all of them together",
        *(
            f"the lowest was chosen on these windows: those intervals are of {100 * level:.6g} %, at which those of "
            f"all pairs hold together at {100 * LEVEL:g} %"
            for level in among
        ),
        "of each test window's MSE, averaged over the seeds first: the interval speaks of further windows of this "
        f"series{_seeds_note(comparisons.seeds)}",
        f"circular block bootstrap (Politis and Romano 1992), {DRAWS:,} draws: neighbouring windows share targets, so "
        "a block is twice as long as they do, longer where the differences' own autocorrelation asks for it (Politis "
        "and White 2004, corrected 2009); stretched for the few blocks (Hesterberg 2015)",
        *(
            ("a fifth: longer blocks were asked for than a fifth of the windows; the interval may be too narrow",)
            if any(each.interval and each.interval.capped for each in comparisons.every)
            else ()
        ),
        *(f"not tested: {why}" for why in sorted(untested)),
    )


def _seeds_note(seeds: SeedSpread) -> str:
    """Say how further seeds are counted in, if they are."""
    if seeds.freedom < LEAST_FREEDOM:
        return ", not of further seeds"
    return (
        f" and of further seeds: the MSE varies by {100 * seeds.share:.2g} % from one to another (standard deviation, "
        f"one for all settings, {seeds.freedom} degrees of freedom; Student's, added in quadrature)"
    )


def command_sheet(section: Section) -> Sheet:
    """Give the command behind each run."""
    cells = [
        [setting.arm, f"{setting.look_back:,}", str(run.result["seed"]), run.name, f"`{run.result['command']}`"]
        for setting in section.settings
        for run in setting.runs
    ]
    return Sheet(COMMANDS, ("mechanism", "look-back", "seed", "folder", "command"), cells)


def left_out_sheet(left_out: Sequence[tuple[str, str]]) -> Sheet | None:
    """Give the table of what is not in the report, None where everything is."""
    cells = [[name, why] for name, why in left_out]
    return Sheet(LEFT_OUT, ("folder", "why"), cells) if cells else None
