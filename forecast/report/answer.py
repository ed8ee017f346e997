"""The answer of a report in a few sentences, and the details behind it."""

from collections.abc import Iterator, Sequence
from typing import NamedTuple

from forecast.common.files import look_up
from forecast.common.text import counted, from_to
from forecast.report.budget import is_best_last, is_partial, is_short, passes, steps_of_a_pass
from forecast.report.comparisons import (
    MSE,
    NOT_SHOWN,
    NOT_TESTED,
    Comparison,
    Comparisons,
    compared_baselines,
    error,
)
from forecast.report.costs import (
    BUSY,
    PROCESSOR,
    TRAINING,
    busy_words,
    clearly_cheaper,
    times_cheaper,
    verdict,
)
from forecast.report.groups import CONTROL, REFERENCE, RunGroup, Setting
from forecast.report.phrases import (
    interval_words,
    listed,
    named,
    quality_words,
    rounded,
    score,
    signed,
    with_deviation,
)
from forecast.report.reference_pairs import (
    main_pair,
    measured_words,
    no_mechanism,
    pairs_of,
    reference_words,
    times_words,
)
from forecast.runs.read import FinishedRun
from forecast.runs.summary import TIME, can_count

FEWEST, MOST = 3, 5
"""Sentences of an answer."""


class Answer(NamedTuple):
    """The most important sentences first, and the other ones; names are in backticks."""

    sentences: list[str]
    details: list[str]


UNEQUAL = 1.1
"""Least ratio of training steps that a report names if a time limit ended trainings."""

MARGIN = 1.1
"""Least ratio of test MSE at which a baseline is called better: baselines have no window errors to test."""

EQUAL = 1.01
"""Ratio of test MSE up to which the linear path of a void comparison is no gain over a baseline."""


def answer(group: RunGroup, comparisons: Comparisons, left_out: int = 0) -> Answer:
    """Return the answer: the decision, the main result, its limits and the control, as far as there is room.

    `left_out` is the number of folders that the report leaves out.
    """
    chosen = main_pair(comparisons)
    beaten, lowest, short = (
        list(_beaten(group, comparisons)),
        list(_lowest(group, comparisons)),
        list(_short(group)),
    )
    if not group.same_windows:
        beaten, lowest = [], list(_different_windows(comparisons))
    void = list(_void(group))
    decision = [*void, *beaten]
    take = [] if short or not group.same_windows else list(_advice(group, comparisons, void=bool(void)))
    news = [*(take if decision else []), *_headline(group, comparisons, chosen), *([] if beaten else lowest)]
    limits = [
        *_equal_times(group), *([] if void else _linear_paths(group)), *_left_out(left_out), *busy_words(group),
    ]  # fmt: skip
    control = _control_pair(group, comparisons)
    findings = [
        *([] if control is None else [_control(control)]),
        *(_indistinguishable(group, comparisons) if group.same_windows else []),
    ]
    room = MOST - len(decision) - len(news) - len(short)
    limits, less = limits[: max(0, room)], limits[max(0, room) :]
    room = max(0, room - len(limits))
    findings, other = findings[:room], findings[room:]
    details = [
        *less,
        *other,
        *([] if decision else take),
        *_budget(group),
        *(lowest if beaten else []),
        *_names(group),
    ]
    sentences = [*decision, *short, *news] if decision else [*news, *short]
    sentences = [*sentences, *findings, *limits]
    fill = max(0, FEWEST - len(sentences))
    sentences, details = sentences + details[:fill], details[fill:]
    first = f"On {group.title}, {sentences[0][0].lower()}{sentences[0][1:]}"
    return Answer([first, *sentences[1:MOST]], [*sentences[MOST:], *details])


def _void(group: RunGroup) -> Iterator[str]:
    """Yield that no forecast uses attention, if that holds for all settings but the control."""
    settings = [setting for setting in group.settings if setting.mechanism != CONTROL] or group.settings
    if not all(setting.is_linear_path for setting in settings):
        return
    why, other = "validation gave the encoder-decoder no weight in any setting", ""
    if not all(setting.is_linear_path for setting in group.settings):
        why, other = "validation gave the encoder-decoder weight only in the control", "other "
    elif not any(can_count(run.result) for setting in settings for run in setting.runs):
        why = "validation is too short to accept a training"
    yield f"The comparison of attention is void: {why}, so no {other}forecast uses attention."


def _advice(group: RunGroup, comparisons: Comparisons, *, void: bool) -> Iterator[str]:
    """Yield the baseline to take if no model is better; validation chooses the baseline.

    In a void comparison, a model that is better by less than `EQUAL` is the same linear path.
    """
    paths = ("validation.scaled.mse", MSE)
    scored = [
        baseline for baseline in compared_baselines(group) if None not in [look_up(baseline.scores, at) for at in paths]
    ]
    chosen = min(scored, key=lambda baseline: float(look_up(baseline.scores, paths[0])), default=None)
    best = error(comparisons.best)
    if chosen is not None and chosen.mse <= (EQUAL if void else 1) * best:
        yield (
            f"Take {chosen.label}, nothing is gained here: it has test MSE {score(chosen.mse)}, the best model, "
            f"`{comparisons.best.arm}`, has {score(best)}."
        )


def _beaten(group: RunGroup, comparisons: Comparisons) -> Iterator[str]:
    """Yield that a baseline is better than the best model by the margin, with both errors."""
    lowest = min(compared_baselines(group), key=lambda baseline: baseline.mse, default=None)
    best = error(comparisons.best)
    if lowest is not None and lowest.mse > 0 and best >= MARGIN * lowest.mse:
        yield (
            f"Every model is worse than {lowest.label}: the best, `{comparisons.best.arm}`, has test MSE {score(best)} "
            f"against {score(lowest.mse)} ({signed(100 * (best / lowest.mse - 1))} %)."
        )


def _headline(group: RunGroup, comparisons: Comparisons, chosen: Comparison | None) -> Iterator[str]:
    """Yield the main result: first the training time, then the error; no error if neither forecast uses attention."""
    if chosen is None:
        yield from _without_times(group, comparisons)
        return
    where = f"At look-back {chosen.setting.look_back:,},"
    own, against = f"`{chosen.setting.arm}`", f"`{chosen.against.arm}`"
    if clearly_cheaper(TRAINING, chosen.setting, chosen.against):
        times, ends = times_words(TRAINING, chosen.setting, chosen.against)
        yield f"{where} {own} trains {times} times faster than {against}{measured_words(chosen.setting, ends)}."
    else:
        none, reference = no_mechanism(comparisons, [chosen.setting.look_back]), reference_words(comparisons, chosen)
        yield f"{where} {none} trains clearly faster than {reference}{measured_words(chosen.setting)}."
        times, ends = times_words(TRAINING, chosen.against, chosen.setting)
        if reference == against:
            yield f"The fastest of the others, {own}, takes {times} times as long{ends}."
        else:
            yield f"Nearest to it, {own} takes {times} times as long as {against}{ends}."
    if not chosen.is_of_linear_paths:
        clause = _after(chosen) + quality_words(chosen)
        yield f"{clause[0].upper()}{clause[1:]}."


def _without_times(group: RunGroup, comparisons: Comparisons) -> Iterator[str]:
    """Yield the headline without training times: the reason, or the error if other processes disturbed the timing."""
    if group.reference is None:
        yield f"No run has attention={REFERENCE}, the reference of all comparisons."
        return
    if all(setting.mechanism == REFERENCE for setting in group.settings):
        yield f"All runs have attention={REFERENCE}; the tables compare their other options."
        return
    if all(setting.mechanism in (REFERENCE, CONTROL) for setting in group.settings):
        yield f"No mechanism except the control was trained to compare with `{group.reference}`."
        return
    if not (pairs := pairs_of(comparisons)):
        yield f"No mechanism was trained at a look-back of `{group.reference}`."
        return
    if any(verdict(TRAINING, pair.setting, pair.against) == BUSY for pair in pairs):
        yield from _on_a_busy_machine(pairs)
        return
    if any(pair.setting.conditions == pair.against.conditions for pair in pairs):
        yield "Training was not timed: timing skips the first steps, and too few others followed."
        return
    yield (f"No training time can be compared with `{group.reference}`: devices, batches or other conditions differ.")


def _on_a_busy_machine(pairs: Sequence[Comparison]) -> Iterator[str]:
    """Yield the headline from processor times: of the cheapest mechanism that seems no worse, else of the best one."""

    def order(pair: Comparison) -> tuple[int, float, float]:
        is_pick = not pair.seems_worse and clearly_cheaper(PROCESSOR, pair.setting, pair.against)
        saved = (times_cheaper(PROCESSOR, pair.setting, pair.against) or 0.0) if is_pick else 0.0
        return -pair.setting.look_back, -saved, error(pair.setting)

    pair = min(pairs, key=order)
    where = f"At look-back {pair.setting.look_back:,},"
    if not pair.is_of_linear_paths:
        yield f"{where} {quality_words(pair)}."
    if times_cheaper(PROCESSOR, pair.setting, pair.against) is not None:
        times, ends = times_words(PROCESSOR, pair.against, pair.setting)
        own, against = f"`{pair.setting.arm}`", f"`{pair.against.arm}`"
        measured = measured_words(pair.setting, ends)
        yield f"{where} training {own} takes {times} times the processor time of {against}{measured}."


def _after(pair: Comparison) -> str:
    """Return the number of steps if a run had too few of them to judge its error."""
    runs = [*pair.setting.runs, *pair.against.runs]
    steps = from_to([run.number("model.steps") for run in runs], "{:,.0f}".format)
    return f"after {steps} training steps, " if any(map(is_short, runs)) else ""


def _lowest(group: RunGroup, comparisons: Comparisons) -> Iterator[str]:
    """Yield the lowest error of a model and the error of the best baseline."""
    best = comparisons.best
    text = f"The lowest test MSE is {with_deviation(error(best), best.deviation(MSE))}"
    if len(group.settings) > 1 and not all(setting.is_linear_path for setting in group.settings):
        text += f" (`{best.arm}` at look-back {best.look_back:,})"
    if baselines := compared_baselines(group):
        lowest = min(baselines, key=lambda baseline: baseline.mse)
        text += f"; the best baseline, {lowest.label}, has {score(lowest.mse)}"
    yield f"{text}."


def _different_windows(comparisons: Comparisons) -> Iterator[str]:
    """Yield that mean errors cannot be compared, and what can."""
    tested = any(pair.verdict != NOT_TESTED for pair in comparisons.every)
    cure = "only the table Compared window by window compares them" if tested else "their errors cannot be compared"
    yield f"Settings were scored on different test windows: {cure}."


def _indistinguishable(group: RunGroup, comparisons: Comparisons) -> Iterator[str]:
    """Yield the fastest setting that is statistically indistinguishable from the lowest error; skip the control.

    If none trains clearly faster, yield all indistinguishable settings.
    """
    best = comparisons.best
    if all(setting.is_linear_path for setting in group.settings):
        return
    pairs = [
        pair for pair in comparisons.with_best.values() if pair.verdict == NOT_SHOWN and not pair.is_of_linear_paths
    ]
    cheaper = [
        pair for pair in pairs if pair.setting.mechanism != CONTROL and clearly_cheaper(TRAINING, pair.setting, best)
    ]
    if cheaper:
        fastest = max(cheaper, key=lambda pair: times_cheaper(TRAINING, pair.setting, best) or 0.0)
        times = times_cheaper(TRAINING, fastest.setting, best)
        assert times is not None
        controls = [pair for pair in pairs if pair.setting.mechanism == CONTROL]
        aside = any((times_cheaper(TRAINING, pair.setting, best) or 0.0) > times for pair in controls)
        but = ", control aside" if aside else ""
        yield (
            f"Statistically indistinguishable from the lowest and fastest to train{but}: {named(fastest.setting)}, "
            f"{rounded(times)} times faster ({signed(fastest.per_cent)} % MSE, {interval_words(fastest)})."
        )
    elif pairs:
        yield f"Statistically indistinguishable from the lowest: {_some([pair.setting for pair in pairs])}."


def _some(settings: Sequence[Setting]) -> str:
    names = [named(setting) for setting in settings[:3]]
    return listed(names) if len(settings) <= 3 else f"{', '.join(names)} and {len(settings) - 3} more"


def _linear_paths(group: RunGroup) -> Iterator[str]:
    """Yield the number of settings whose forecasts use no attention, if others do."""
    count = sum(setting.is_linear_path for setting in group.settings)
    if 0 < count < len(group.settings):
        yield (
            f"In {count} of {len(group.settings)} settings, validation gave the encoder-decoder no weight: attention "
            f"has no part in {'its' if count == 1 else 'their'} forecasts."
        )


def _short(group: RunGroup) -> Iterator[str]:
    """Yield whether some trainings were too short to judge errors, and how long one pass is."""
    runs = [run for setting in group.settings for run in setting.runs]
    short = [run for run in runs if is_short(run)]
    if not short:
        return
    partial = [run for run in short if is_partial(run)]
    improving = sum(map(is_best_last, short))
    causes = [f"{len(partial)} below one pass"] * bool(partial) + [f"{improving} still improving"] * bool(improving)
    cure = f", at least {max(map(steps_of_a_pass, partial)):,} steps" if partial else ""
    verb = "was" if len(short) == 1 else "were"
    yield (
        f"{len(short)} of {counted(len(runs), 'training')} {verb} too short to judge errors ({', '.join(causes)}): "
        f"train longer{cure}."
    )


def _equal_times(group: RunGroup) -> Iterator[str]:
    """Yield that a time limit gave slower mechanisms fewer steps, if it did."""
    runs: dict[str, list[FinishedRun]] = {}
    for setting in group.settings:
        runs.setdefault(setting.arm, []).extend(setting.runs)
    if not any(run.result["status"] == TIME for each in runs.values() for run in each):
        return
    steps = {arm: sum(run.number("model.steps") for run in each) / len(each) for arm, each in runs.items()}
    slow, fast = min(steps, key=lambda arm: steps[arm]), max(steps, key=lambda arm: steps[arm])
    if steps[fast] > UNEQUAL * steps[slow]:
        yield (
            f"`training.max_time` ended trainings: `{slow}` made {steps[slow]:,.0f} steps and `{fast}` "
            f"{steps[fast]:,.0f}, so errors compare equal times, not equal trainings."
        )


def _left_out(count: int) -> Iterator[str]:
    if count:
        yield f"The table Left out lists {counted(count, 'item')} that the report does not compare."


def _control_pair(group: RunGroup, comparisons: Comparisons) -> Comparison | None:
    """Return the comparison with the control at the longest look-back: of the reference, else of the lowest error."""
    pairs = [pair for pair in _with_control(group, comparisons) if pair.verdict != NOT_TESTED]
    longest = max((pair.setting.look_back for pair in pairs), default=None)
    pairs = [pair for pair in pairs if pair.setting.look_back == longest]
    return min(pairs, key=lambda pair: (pair.setting.arm != group.reference, error(pair.setting)), default=None)


def _with_control(group: RunGroup, comparisons: Comparisons) -> list[Comparison]:
    """Return the comparisons with the control that answer whether self-attention helps."""
    pairs = [pair for pair in comparisons.control.values() if pair.setting.mechanism != CONTROL]
    if group.reference is None:
        return pairs
    return [pair for pair in pairs if pair.setting.mechanism == REFERENCE]


def _control(pair: Comparison) -> str:
    """Return whether self-attention helps, judged by one comparison with the control."""
    where = f"At look-back {pair.setting.look_back:,},"
    if pair.setting.is_linear_path:
        return f"{where} validation gave `{pair.setting.arm}` no weight: its error tells nothing about self-attention."
    if pair.verdict != NOT_SHOWN:
        return f"{where} {quality_words(pair, 'the control ')}."
    return (
        f"{where} attention shows no clear benefit: `{pair.setting.arm}` has {_more_or_less(pair)} error than the "
        f"control `{pair.against.arm}` ({interval_words(pair)})."
    )


def _more_or_less(pair: Comparison) -> str:
    return f"{signed(abs(pair.per_cent)).removeprefix('+')} % {'higher' if pair.per_cent > 0 else 'lower'}"


def _budget(group: RunGroup) -> Iterator[str]:
    """Yield the amount of training and the number of seeds, if that is one."""
    runs = [run for setting in group.settings for run in setting.runs]
    steps = from_to([run.number("model.steps") for run in runs], "{:,.0f}".format)
    yield f"{counted(len(runs), 'run')} of {steps} training steps, {_passes(runs)} over the training data."
    if singles := sum(len(setting.runs) == 1 for setting in group.settings):
        yield f"{singles} of {counted(len(group.settings), 'setting')} have one seed: another seed may differ."


def _passes(runs: Sequence[FinishedRun]) -> str:
    """Return the number of passes, in per cent of one if all are below it."""
    numbers = [passes(run) for run in runs]
    if max(numbers) < 1:
        return f"{from_to([100 * number for number in numbers], '{:.3g}'.format)} % of one pass"
    over = from_to(numbers, rounded)
    return f"{over} pass{'' if over == '1' else 'es'}"


def _names(group: RunGroup) -> Iterator[str]:
    """Yield the settings without attention in their forecasts, the control, and why baselines have no interval."""
    if alike := [setting for setting in group.settings if setting.is_linear_path]:
        yield f"Forecast by the linear path alone: {_some(alike)}."
    if group.control is None:
        yield f"There is no control: add attention={CONTROL} to see whether self-attention helps."
    else:
        yield (
            f"The control `{group.control}` weights all positions equally: a mechanism that is no better gains "
            "nothing from its weights."
        )
    if compared_baselines(group):
        yield (
            "Differences to baselines have no confidence interval: a run stores the errors of the model's windows only."
        )
