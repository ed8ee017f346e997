"""The first sentence: what the fastest mechanism gives at the longest look-back, and what it costs."""

from forecast.common.text import from_to
from forecast.report.budget import is_short
from forecast.report.busy import BUSY, verdict
from forecast.report.comparisons import NOT_TESTED, WORSE, Comparison, Comparisons
from forecast.report.costs import INFERENCE, MEMORY, TRAINING, clearly_cheaper, times_cheaper
from forecast.report.sections import CONTROL, REFERENCE, Section
from forecast.report.text import listed, quality_words, shown


def headline(section: Section, comparisons: Comparisons) -> str:
    """Give the sentence on the longest look-back at which another mechanism was timed beside the reference.

    Of those that train clearly faster it names the fastest that is not shown to err more; if all are, the fastest.
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
    """Give the comparisons of mechanisms with the reference, the control aside, whose training can be compared too."""
    return [each for each in pairs_of(comparisons) if times_cheaper(TRAINING, each.setting, each.against) is not None]


def pairs_of(comparisons: Comparisons) -> list[Comparison]:
    """Give the comparisons of mechanisms with the reference, the control aside."""
    return [each for each in comparisons.reference.values() if each.setting.mechanism not in (REFERENCE, CONTROL)]


def _without(section: Section, comparisons: Comparisons) -> str:
    """Give the sentence where there is nothing to say of speed."""
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
    """Say how inference and memory compare, as far as they were measured."""
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
    """Name the steps in the sentence itself where some run of the two had too few to speak of quality."""
    runs = [*pair.setting.runs, *pair.against.runs]
    steps = from_to([run.number("model.steps") for run in runs], "{:,.0f}".format)
    return f", after {steps} training steps," if any(map(is_short, runs)) else ""
