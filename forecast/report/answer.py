"""The answer of a report in a few sentences, and the details behind it."""

from collections.abc import Iterator, Sequence
from typing import NamedTuple

from forecast.common.text import from_to
from forecast.report.budget import is_best_last, is_partial, is_short, passes
from forecast.report.comparisons import (
    BETTER,
    MSE,
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
    Cost,
    busy_words,
    cheaper_range,
    clearly_cheaper,
    crossing_of,
    rounds_cheaper,
    times_cheaper,
    verdict,
)
from forecast.report.phrases import (
    counted,
    interval_words,
    listed,
    named,
    quality_words,
    rounded,
    score,
    signed,
    with_deviation,
)
from forecast.report.sections import CONTROL, REFERENCE, Section, Setting

FEWEST, MOST = 3, 5
"""Sentences of an answer."""


class Answer(NamedTuple):
    """The most important sentences first, and the other ones; names are in backticks."""

    sentences: list[str]
    details: list[str]


def answer(section: Section, comparisons: Comparisons, left_out: int = 0) -> Answer:
    """Return the answer: the main result, then its limits, then the control, as far as there is room.

    `left_out` is the number of folders that the report leaves out.
    """
    chosen = _main_pair(comparisons)
    news = [*_headline(section, comparisons, chosen), *_lowest(section, comparisons)]
    limits = [*_short(section), *_linear_paths(section), *_left_out(left_out), *list(busy_words(section))[:1]]
    control = _control_pair(section, comparisons)
    findings = [*([] if control is None else [_control(control)]), *_indistinguishable(section, comparisons)]
    room = MOST - len(news)
    limits, less = limits[:room], limits[room:]
    room -= len(limits)
    findings, other = findings[:room], findings[room:]
    details = [
        *less,
        *other,
        *_budget(section),
        *([] if chosen is None else _other_costs(chosen)),
        *_look_backs(section, comparisons),
        *list(busy_words(section))[1:],
        *_other_controls(section, comparisons, control),
        *_names(section, comparisons),
    ]
    sentences = [*news, *findings, *limits]
    fill = max(0, FEWEST - len(sentences))
    return Answer(sentences + details[:fill], details[fill:])


def _main_pair(comparisons: Comparisons) -> Comparison | None:
    """Return the comparison of the headline, at the longest look-back with training times; None without times.

    Among clearly faster mechanisms, it is the fastest that has no larger error, else the fastest. If none is clearly
    faster, it is the fastest.
    """
    pairs = timed_pairs(comparisons)
    longest = max((pair.setting.look_back for pair in pairs), default=None)
    pairs = [pair for pair in pairs if pair.setting.look_back == longest]
    if faster := [pair for pair in pairs if clearly_cheaper(TRAINING, pair.setting, pair.against)]:
        return min(faster, key=lambda pair: (pair.verdict == WORSE, pair.verdict == NOT_TESTED, -_times_faster(pair)))
    return max(pairs, key=_times_faster, default=None)


def _headline(section: Section, comparisons: Comparisons, chosen: Comparison | None) -> Iterator[str]:
    """Yield the main result: first the training time, then the error."""
    if chosen is None:
        yield _without_times(section, comparisons)
        return
    where = f"On {section.title}, at look-back {chosen.setting.look_back:,},"
    own, against = f"`{chosen.setting.arm}`", f"`{chosen.against.arm}`"
    if clearly_cheaper(TRAINING, chosen.setting, chosen.against):
        times, ends = _times(TRAINING, chosen.setting, chosen.against)
        yield f"{where} {own} trains {times} times faster than {against}{ends}."
    else:
        yield f"{where} no mechanism trains clearly faster than {against}."
        times, ends = _times(TRAINING, chosen.against, chosen.setting)
        yield f"The fastest of the others, {own}, takes {times} times as long{ends}."
    yield _sentence(_after(chosen) + quality_words(chosen))


def _sentence(clause: str) -> str:
    return f"{clause[0].upper()}{clause[1:]}."


def timed_pairs(comparisons: Comparisons) -> list[Comparison]:
    """Return the comparisons with the reference that have training times, without the control."""
    return [pair for pair in pairs_of(comparisons) if times_cheaper(TRAINING, pair.setting, pair.against) is not None]


def pairs_of(comparisons: Comparisons) -> list[Comparison]:
    """Return the comparisons of mechanisms with the reference, without the control."""
    return [pair for pair in comparisons.reference.values() if pair.setting.mechanism not in (REFERENCE, CONTROL)]


def _without_times(section: Section, comparisons: Comparisons) -> str:
    """Return the headline if there are no training times to compare."""
    where = f"On {section.title}"
    if section.reference is None:
        return f"{where}, no run has attention={REFERENCE}, the reference of all comparisons."
    if all(setting.mechanism in (REFERENCE, CONTROL) for setting in section.settings):
        return f"{where}, no mechanism except the control was trained to compare with `{section.reference}`."
    if not (pairs := pairs_of(comparisons)):
        return f"{where}, no mechanism was trained at a look-back of `{section.reference}`."
    if any(verdict(TRAINING, pair.setting, pair.against) == BUSY for pair in pairs):
        return (
            f"{where}, no training time can be compared with `{section.reference}`: other processes disturbed the "
            "timing."
        )
    if any(pair.setting.conditions == pair.against.conditions for pair in pairs):
        return f"{where}, training was not timed: timing skips the first steps, and too few others followed."
    return (
        f"{where}, no training time can be compared with `{section.reference}`: devices, batches or other conditions "
        "differ."
    )


def _times_faster(pair: Comparison) -> float:
    return times_cheaper(TRAINING, pair.setting, pair.against) or float("nan")


def _times(cost: Cost, setting: Setting, against: Setting) -> tuple[str, str]:
    """Return the cost ratio of `against` to `setting`, and its range over rounds or seeds in brackets, "" without."""
    ratio, ends = times_cheaper(cost, setting, against), cheaper_range(cost, setting, against)
    assert ratio is not None
    if ends is None:
        return rounded(ratio), ""
    rounds = len(rounds_cheaper(cost, setting, against))
    return rounded(ratio), f" ({from_to(ends, rounded)} over {f'{rounds} rounds' if rounds else 'the seeds'})"


def _other_costs(pair: Comparison) -> Iterator[str]:
    """Yield how inference time and peak memory compare, if measured."""
    setting, against = pair.setting, pair.against
    where = f"At look-back {setting.look_back:,}, `{setting.arm}`"
    if times_cheaper(INFERENCE, setting, against) is not None:
        if clearly_cheaper(INFERENCE, setting, against):
            times, ends = _times(INFERENCE, setting, against)
            yield f"{where} forecasts {times} times faster than `{against.arm}`{ends}."
        elif clearly_cheaper(INFERENCE, against, setting):
            times, ends = _times(INFERENCE, against, setting)
            yield f"{where} forecasts {times} times slower than `{against.arm}`{ends}."
        else:
            yield f"{where} forecasts about as fast as `{against.arm}`."
    if times_cheaper(MEMORY, setting, against) is not None:
        times, ends = _times(MEMORY, against, setting)
        yield f"{where} takes {times} times the peak memory of `{against.arm}`{ends}."


def _after(pair: Comparison) -> str:
    """Return the number of steps if a run had too few of them to judge its error."""
    runs = [*pair.setting.runs, *pair.against.runs]
    steps = from_to([run.number("model.steps") for run in runs], "{:,.0f}".format)
    return f"after {steps} training steps, " if any(map(is_short, runs)) else ""


def _lowest(section: Section, comparisons: Comparisons) -> Iterator[str]:
    """Yield the lowest error of a model and the error of the best baseline."""
    best = comparisons.best
    text = f"The lowest test MSE is {with_deviation(error(best), best.deviation(MSE))}"
    if len(section.settings) > 1 and not all(setting.is_linear_path for setting in section.settings):
        text += f" (`{best.arm}` at look-back {best.look_back:,})"
    if baselines := baselines_of(section):
        lowest = min(baselines, key=lambda baseline: baseline.mse)
        text += f"; the best baseline, {lowest.label}, has {score(lowest.mse)}"
    yield f"{text}."


def _indistinguishable(section: Section, comparisons: Comparisons) -> Iterator[str]:
    """Yield the fastest setting that is statistically indistinguishable from the lowest error, without the control.

    If none trains clearly faster, yield all indistinguishable settings.
    """
    best = comparisons.best
    if all(setting.is_linear_path for setting in section.settings):
        return
    pairs = [pair for pair in comparisons.with_best.values() if pair.verdict == NOT_SHOWN]
    cheaper = [
        pair for pair in pairs if pair.setting.mechanism != CONTROL and clearly_cheaper(TRAINING, pair.setting, best)
    ]
    if cheaper:
        fastest = max(cheaper, key=lambda pair: times_cheaper(TRAINING, pair.setting, best) or 0.0)
        times = times_cheaper(TRAINING, fastest.setting, best)
        assert times is not None
        yield (
            f"Statistically indistinguishable from the lowest and fastest to train: {named(fastest.setting)}, "
            f"{rounded(times)} times faster ({signed(fastest.per_cent)} % MSE, {interval_words(fastest)})."
        )
    elif pairs:
        yield f"Statistically indistinguishable from the lowest: {_some([pair.setting for pair in pairs])}."


def _some(settings: Sequence[Setting]) -> str:
    names = [named(setting) for setting in settings[:3]]
    return listed(names) if len(settings) <= 3 else f"{', '.join(names)} and {len(settings) - 3} more"


def _linear_paths(section: Section) -> Iterator[str]:
    """Yield the number of settings whose forecasts use no attention."""
    if count := sum(setting.is_linear_path for setting in section.settings):
        yield (
            f"In {count} of {len(section.settings)} settings, validation gave the encoder-decoder no weight: attention "
            f"has no part in {'its' if count == 1 else 'their'} forecasts."
        )


def _short(section: Section) -> Iterator[str]:
    """Yield whether some runs were too short to judge quality."""
    runs = [run for setting in section.settings for run in setting.runs]
    causes = {
        "made less than one pass": sum(map(is_partial, runs)),
        "were best at their last validated step": sum(map(is_best_last, runs)),
    }
    if words := [f"{number} {cause}" for cause, number in causes.items() if number]:
        words[0] = words[0].replace(" ", f" of {len(runs)} runs ", 1)
        yield f"This compares cost, not converged quality: {listed(words)}."


def _left_out(count: int) -> Iterator[str]:
    if count:
        yield f"The table Left out lists {counted(count, 'folder')} without a result to compare."


def _control_pair(section: Section, comparisons: Comparisons) -> Comparison | None:
    """Return the comparison with the control at the longest look-back: of the reference, else of the lowest error."""
    pairs = [pair for pair in _with_control(section, comparisons) if pair.verdict != NOT_TESTED]
    longest = max((pair.setting.look_back for pair in pairs), default=None)
    pairs = [pair for pair in pairs if pair.setting.look_back == longest]
    return min(pairs, key=lambda pair: (pair.setting.arm != section.reference, error(pair.setting)), default=None)


def _with_control(section: Section, comparisons: Comparisons) -> list[Comparison]:
    """Return the comparisons with the control that answer whether self-attention helps."""
    pairs = [pair for pair in comparisons.control.values() if pair.setting.mechanism != CONTROL]
    if section.reference is None:
        return pairs
    return [pair for pair in pairs if pair.setting.mechanism == REFERENCE]


def _control(pair: Comparison) -> str:
    """Return whether self-attention helps, judged by one comparison with the control."""
    where = f"At look-back {pair.setting.look_back:,},"
    if pair.verdict != NOT_SHOWN:
        return f"{where} {quality_words(pair, 'the control ')}."
    return (
        f"{where} self-attention is not shown to help: `{pair.setting.arm}` against the control "
        f"`{pair.against.arm}` is {signed(pair.per_cent)} % MSE ({interval_words(pair)})."
    )


def _other_controls(section: Section, comparisons: Comparisons, shown: Comparison | None) -> Iterator[str]:
    """Yield the other comparisons with the control."""
    if section.control is None:
        yield f"There is no control: add attention={CONTROL} to see whether self-attention helps."
        return
    pairs = [pair for pair in _with_control(section, comparisons) if pair is not shown]
    alike: dict[tuple[str, str], list[str]] = {}
    for pair in pairs:
        if pair.verdict == NOT_SHOWN:
            alike.setdefault((pair.setting.arm, pair.against.arm), []).append(f"{pair.setting.look_back:,}")
    for (arm, control), look_backs in alike.items():
        yield (
            f"At look-back {listed(look_backs)}, the control `{control}` is statistically indistinguishable from "
            f"`{arm}`: self-attention is not shown to help."
        )
    for pair in pairs:
        if pair.verdict in (BETTER, WORSE):
            yield _control(pair)
        elif pair.verdict == NOT_TESTED:
            yield (
                f"At look-back {pair.setting.look_back:,}, `{pair.setting.arm}` was not tested against the control "
                f"`{pair.against.arm}`: {pair.why}."
            )


def _budget(section: Section) -> Iterator[str]:
    """Yield the amount of training and the number of seeds, if that is one."""
    runs = [run for setting in section.settings for run in setting.runs]
    steps = from_to([run.number("model.steps") for run in runs], "{:,.0f}".format)
    over = from_to([passes(run) for run in runs], rounded)
    plural = "" if over == "1" else "es"
    yield f"{counted(len(runs), 'run')} of {steps} training steps, {over} pass{plural} over the data."
    if singles := sum(len(setting.runs) == 1 for setting in section.settings):
        yield f"{singles} of {counted(len(section.settings), 'setting')} have one seed: another seed may differ."


def _look_backs(section: Section, comparisons: Comparisons) -> Iterator[str]:
    """Yield the look-backs at which mechanisms train faster, if training was timed at two or more; skip the control."""
    pairs = timed_pairs(comparisons)
    look_backs = sorted({pair.setting.look_back for pair in pairs})
    if len(look_backs) < 2:
        return
    faster = [pair for pair in pairs if clearly_cheaper(TRAINING, pair.setting, pair.against)]
    rest = [look_back for look_back in look_backs if look_back not in {pair.setting.look_back for pair in faster}]
    if rest:
        aside = " except the control" if section.control else ""
        where = f"At look-back {listed([f'{look_back:,}' for look_back in rest])}"
        yield f"{where}, no mechanism{aside} trains clearly faster than `{REFERENCE}`."
        yield from _reasons(where, [pair for pair in pairs_of(comparisons) if pair.setting.look_back in rest])
    for arm in dict.fromkeys(pair.setting.arm for pair in faster):
        yield from _arm(section, arm, pairs, faster)


def _reasons(where: str, pairs: Sequence[Comparison]) -> Iterator[str]:
    """Yield other reasons to leave the reference where nothing trains faster, or that there are none."""
    reasons = {
        "has lower error": [pair for pair in pairs if pair.verdict == BETTER],
        "forecasts clearly faster": [pair for pair in pairs if clearly_cheaper(INFERENCE, pair.setting, pair.against)],
        "takes clearly less memory": [pair for pair in pairs if clearly_cheaper(MEMORY, pair.setting, pair.against)],
    }
    for reason, some in reasons.items():
        yield from (f"{named(pair.setting)} {reason} than `{pair.against.arm}`." for pair in some)
    if any(reasons.values()):
        return
    if any(map(_is_unknown, pairs)):
        yield f"{where}, not everything could be compared."
    else:
        yield (
            f"{where}, there is no reason to leave `{REFERENCE}`: no mechanism forecasts clearly faster, takes clearly "
            "less memory or has lower error."
        )


def _is_unknown(pair: Comparison) -> bool:
    untested = pair.verdict == NOT_TESTED and pair.why != ONE_FORECAST
    return untested or any(times_cheaper(cost, pair.setting, pair.against) is None for cost in COSTS)


def _arm(section: Section, arm: str, pairs: Sequence[Comparison], faster: Sequence[Comparison]) -> Iterator[str]:
    """Yield the look-backs at which an arm is faster, and the interpolated one from which it is."""
    timed, at = (sorted(pair.setting.look_back for pair in some if pair.setting.arm == arm) for some in (pairs, faster))
    everywhere = ", wherever it was timed" if at == timed and len(at) > 1 else ""
    look_backs = listed([f"{look_back:,}" for look_back in at])
    yield f"`{arm}` trains clearly faster than `{REFERENCE}` at look-back {look_backs}{everywhere}."
    before = max((look_back for look_back in timed if look_back < at[0]), default=None)
    if before is None or at[-1] != timed[-1] or section.reference is None:
        return
    crossing = crossing_of(section, arm, TRAINING)
    if crossing is not None and before < crossing < at[0]:
        yield (
            f"The training time of `{arm}` falls below that of `{section.reference}` near look-back "
            f"{rounded(crossing)} (interpolated)."
        )


def _names(section: Section, comparisons: Comparisons) -> Iterator[str]:
    """Yield the settings without attention in their forecasts, and why baselines have no interval."""
    if alike := [setting for setting in section.settings if setting.is_linear_path]:
        yield f"Forecast by the linear path alone: {_some(alike)}."
    if baselines_of(section):
        yield "Baselines have no interval: the errors of their windows are not saved."
