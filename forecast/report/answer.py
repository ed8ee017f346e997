"""The first sentences of a report."""

from collections.abc import Iterator, Sequence

from forecast.common.text import from_to
from forecast.report.budget import is_best_last, is_partial, is_short, passes
from forecast.report.comparisons import (
    BETTER,
    NOT_SHOWN,
    NOT_TESTED,
    ONE_FORECAST,
    WORSE,
    Comparison,
    Comparisons,
    baselines_of,
    error,
)
from forecast.report.costs import (
    BUSY,
    COSTS,
    INFERENCE,
    MEMORY,
    TRAINING,
    busy_words,
    clearly_cheaper,
    crossing_of,
    times_cheaper,
    verdict,
)
from forecast.report.phrases import counted, interval_told, listed, named, quality_words, score, shown, signed
from forecast.report.sections import CONTROL, REFERENCE, Section, Setting


def headline(section: Section, comparisons: Comparisons) -> str:
    """Return the main result, at the longest look-back at which another mechanism and the reference were timed.

    Among clearly faster mechanisms, it names the fastest that is not shown to have a larger error, else the fastest.
    """
    pairs = timed_pairs(comparisons)
    if not pairs:
        return _without(section, comparisons)
    longest = max(pair.setting.look_back for pair in pairs)
    there = [pair for pair in pairs if pair.setting.look_back == longest]
    where = f"On {section.title}, at look-back {longest:,}"
    if not (faster := [pair for pair in there if clearly_cheaper(TRAINING, pair.setting, pair.against)]):
        nearest = max(there, key=_times_faster)
        return (
            f"{where}{_after(nearest)} no mechanism trains clearly faster than `{nearest.against.arm}`; the fastest of "
            f"the others, `{nearest.setting.arm}`, takes {shown(1 / _times_faster(nearest))} times its time, "
            f"{quality_words(nearest)}."
        )
    chosen = min(faster, key=lambda pair: (pair.verdict == WORSE, pair.verdict == NOT_TESTED, -_times_faster(pair)))
    return (
        f"{where}{_after(chosen)} `{chosen.setting.arm}` trains {shown(_times_faster(chosen))} times faster than "
        f"`{chosen.against.arm}`, {quality_words(chosen)}{_other_costs(chosen)}."
    )


def timed_pairs(comparisons: Comparisons) -> list[Comparison]:
    """Return the comparisons with the reference for which training times exist, without the control."""
    return [each for each in pairs_of(comparisons) if times_cheaper(TRAINING, each.setting, each.against) is not None]


def pairs_of(comparisons: Comparisons) -> list[Comparison]:
    """Return the comparisons of mechanisms with the reference, without the control."""
    return [each for each in comparisons.reference.values() if each.setting.mechanism not in (REFERENCE, CONTROL)]


def _without(section: Section, comparisons: Comparisons) -> str:
    """Return the sentence for the case without training times to compare."""
    if section.reference is None:
        return f"On {section.title} no run has attention={REFERENCE}, with which the others would be compared."
    if all(setting.mechanism in (REFERENCE, CONTROL) for setting in section.settings):
        return f"On {section.title} no mechanism was trained to compare with `{section.reference}`, the control aside."
    if not (pairs := pairs_of(comparisons)):
        return f"On {section.title} no mechanism was trained at a look-back that `{section.reference}` was trained at."
    if any(verdict(TRAINING, pair.setting, pair.against) == BUSY for pair in pairs):
        return (
            f"On {section.title} no mechanism is called faster or slower to train than `{section.reference}`: other "
            "processes took processors from the runs that were timed."
        )
    if any(pair.setting.conditions == pair.against.conditions for pair in pairs):
        return f"On {section.title} training was not timed: a run's first steps are not, and these had few others."
    return (
        f"On {section.title} training was not timed side by side with `{section.reference}`: what ran on other "
        "devices, in other batches or otherwise is not compared."
    )


def _times_faster(pair: Comparison) -> float:
    return times_cheaper(TRAINING, pair.setting, pair.against) or float("nan")


def _other_costs(pair: Comparison) -> str:
    """Return how inference and memory compare, as far as measured."""
    told = []
    if (times := times_cheaper(INFERENCE, pair.setting, pair.against)) is not None:
        if clearly_cheaper(INFERENCE, pair.setting, pair.against):
            told.append(f"forecasts {shown(times)} times faster")
        elif clearly_cheaper(INFERENCE, pair.against, pair.setting):
            told.append(f"forecasts {shown(1 / times)} times slower")
        else:
            told.append("forecasts about as fast")
    if (times := times_cheaper(MEMORY, pair.setting, pair.against)) is not None:
        told.append(f"takes {shown(1 / times)} times its peak memory")
    return f"; it {listed(told)}" if told else ""


def _after(pair: Comparison) -> str:
    """Return the number of steps if a run had too few of them to judge quality."""
    runs = [*pair.setting.runs, *pair.against.runs]
    steps = from_to([run.number("model.steps") for run in runs], "{:,.0f}".format)
    return f", after {steps} training steps," if any(map(is_short, runs)) else ""


def leaving(section: Section, comparisons: Comparisons) -> Iterator[str]:
    """Yield the look-backs at which mechanisms train faster, if training was timed at two or more; skip the control."""
    pairs = timed_pairs(comparisons)
    look_backs = sorted({pair.setting.look_back for pair in pairs})
    if len(look_backs) < 2:
        return
    faster = [pair for pair in pairs if clearly_cheaper(TRAINING, pair.setting, pair.against)]
    where = {pair.setting.look_back for pair in faster}
    if quiet := [pair for pair in pairs_of(comparisons) if pair.setting.look_back in {*look_backs} - where]:
        told = listed([f"{each:,}" for each in look_backs if each not in where])
        aside = " (the control aside)" if section.control else ""
        yield f"At look-back {told} no mechanism{aside} trains clearly faster than `{REFERENCE}`{_reason(quiet)}."
    if faster:
        words = [_arm_words(section, arm, pairs, faster) for arm in dict.fromkeys(pair.setting.arm for pair in faster)]
        yield f"Clearly faster to train than `{REFERENCE}`: {'; '.join(words)}."


def _reason(pairs: Sequence[Comparison]) -> str:
    """Return other reasons to leave the reference where nothing trains faster, or say that there are none."""
    reasons = {
        "errs less": [pair for pair in pairs if pair.verdict == BETTER],
        "forecasts clearly faster": [pair for pair in pairs if clearly_cheaper(INFERENCE, pair.setting, pair.against)],
        "takes clearly less memory": [pair for pair in pairs if clearly_cheaper(MEMORY, pair.setting, pair.against)],
    }
    if told := [f"{named(pair.setting)} {does}" for does, those in reasons.items() for pair in those]:
        return f", though {listed(told)}"
    if any(map(_is_unknown, pairs)):
        return ", and not everything could be compared"
    return (
        ", forecasts clearly faster, takes clearly less memory or is shown to err less: there is no reason to leave "
        f"`{REFERENCE}`"
    )


def _is_unknown(pair: Comparison) -> bool:
    untested = pair.verdict == NOT_TESTED and pair.why != ONE_FORECAST
    return untested or any(times_cheaper(cost, pair.setting, pair.against) is None for cost in COSTS)


def _arm_words(section: Section, arm: str, pairs: Sequence[Comparison], faster: Sequence[Comparison]) -> str:
    """Return the look-backs at which an arm is faster, and the interpolated one where it becomes faster."""
    timed, at = (
        sorted(pair.setting.look_back for pair in those if pair.setting.arm == arm) for those in (pairs, faster)
    )
    told = f"`{arm}` at look-back {listed([f'{each:,}' for each in at])}"
    if at == timed:
        return told if len(at) == 1 else f"{told}, wherever it was timed"
    if at[-1] != timed[-1]:
        return told
    crossing = crossing_of(section, arm, TRAINING) if section.reference else None
    before = max((each for each in timed if each < at[0]), default=None)
    if crossing is None or before is None or not before < crossing < at[0]:
        return told
    return f"{told} (its time falls below that of `{section.reference}` near {shown(crossing)}, interpolated)"


def answer(section: Section, comparisons: Comparisons) -> list[str]:
    """Return the sentences, the most important first; names are in backticks."""
    return [
        headline(section, comparisons),
        _budget(section),
        *_linear_paths(section),
        *leaving(section, comparisons),
        *busy_words(section),
        *_control(section, comparisons),
        *_best(section, comparisons),
        *_baselines(section, comparisons),
    ]


def _budget(section: Section) -> str:
    """Return the amount of training, and whether it is enough to judge quality."""
    runs = [run for setting in section.settings for run in setting.runs]
    steps = from_to([run.number("model.steps") for run in runs], "{:,.0f}".format)
    over = from_to([passes(run) for run in runs], shown)
    told = (
        f"{counted(len(runs), 'run')} of {steps} training steps, {over} pass{'' if over == '1' else 'es'} over the data"
    )
    if any(map(is_short, runs)):
        causes = {
            "made less than one pass over their data": sum(map(is_partial, runs)),
            "were best at the last step that was validated": sum(map(is_best_last, runs)),
        }
        words = [f"{number} of {len(runs)} runs {what}" for what, number in causes.items() if number]
        told += f": this speaks of cost, not of converged quality ({listed(words)})"
    if singles := sum(len(setting.runs) == 1 for setting in section.settings):
        count = len(section.settings)
        each = "one seed each" if singles == count else f"{singles} of {count} settings have one seed"
        told += f"; {each}: another may fall otherwise"
    return f"{told}."


def _linear_paths(section: Section) -> Iterator[str]:
    """Yield the settings whose forecasts use no attention."""
    if alike := [setting for setting in section.settings if setting.is_linear_path]:
        yield (
            f"In {len(alike)} of {len(section.settings)} settings validation gave the encoder-decoder no weight: "
            f"{_some(alike)} forecast{'s' if len(alike) == 1 else ''} by the linear path alone, and no attention had "
            "a part in it."
        )


def _control(section: Section, comparisons: Comparisons) -> Iterator[str]:
    """Yield whether self-attention helped, judged by the control."""
    if section.control is None:
        yield f"There is no control: add attention={CONTROL} to see whether self-attention does anything here."
        return
    pairs = [each for each in comparisons.control.values() if each.setting.mechanism != CONTROL]
    if section.reference is not None:
        pairs = [each for each in pairs if each.setting.mechanism == REFERENCE]
    alike: dict[tuple[str, str], list[str]] = {}
    for each in pairs:
        if each.verdict == NOT_SHOWN:
            alike.setdefault((each.setting.arm, each.against.arm), []).append(f"{each.setting.look_back:,}")
    for (arm, control), look_backs in alike.items():
        yield (
            f"At look-back {listed(look_backs)} the control `{control}` is not told apart from `{arm}`: self-attention "
            "is not shown to help there."
        )
    for each in (pair for pair in pairs if pair.verdict != NOT_SHOWN):
        where = f"At look-back {each.setting.look_back:,}"
        if each.verdict in (BETTER, WORSE):
            yield f"{where} `{each.setting.arm}` forecasts {quality_words(each)} than the control `{each.against.arm}`."
        else:
            yield f"{where} `{each.setting.arm}` was not tested against the control `{each.against.arm}`: {each.why}."


def _best(section: Section, comparisons: Comparisons) -> Iterator[str]:
    """Yield the lowest error, and faster mechanisms not distinguished from it, without the control."""
    best = comparisons.best
    if len(section.settings) == 1 or all(setting.is_linear_path for setting in section.settings):
        return
    told = f"Lowest test MSE: {named(best)}, {score(error(best))}"
    alike = [each for each in comparisons.with_best.values() if each.verdict == NOT_SHOWN]
    cheaper = [
        each for each in alike if each.setting.mechanism != CONTROL and clearly_cheaper(TRAINING, each.setting, best)
    ]
    if cheaper:
        fastest = max(cheaper, key=lambda each: times_cheaper(TRAINING, each.setting, best) or 0.0)
        times = times_cheaper(TRAINING, fastest.setting, best)
        assert times is not None
        told += (
            f"; not told apart from it and the fastest to train: {named(fastest.setting)}, {shown(times)} times faster "
            f"at {signed(fastest.per_cent)} % MSE ({interval_told(fastest)})"
        )
    elif alike:
        told += f"; not told apart from it: {_some([each.setting for each in alike])}"
    yield f"{told}."


def _some(settings: list[Setting]) -> str:
    names = [named(each) for each in settings[:3]]
    return listed(names) if len(settings) <= 3 else f"{', '.join(names)} and {len(settings) - 3} more"


def _baselines(section: Section, comparisons: Comparisons) -> Iterator[str]:
    """Yield the best baseline's score beside the best model's."""
    if found := baselines_of(section):
        lowest = min(found, key=lambda each: each.mse)
        yield (
            f"The best baseline, {lowest.label}, scores {score(lowest.mse)}, the best model "
            f"{score(error(comparisons.best))} (no interval: the windows of baselines are not kept)."
        )
