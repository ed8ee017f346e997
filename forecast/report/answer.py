"""The answer in plain words, made from the numbers: nothing is claimed that its interval does not support."""

from collections.abc import Iterator

from forecast.common.text import from_to
from forecast.report.baselines import baselines_of
from forecast.report.budget import is_best_last, is_partial, is_short, passes
from forecast.report.busy import busy_words
from forecast.report.comparisons import BETTER, NOT_SHOWN, WORSE, Comparisons, error
from forecast.report.costs import TRAINING, clearly_cheaper, times_cheaper
from forecast.report.headline import headline
from forecast.report.leaving import leaving
from forecast.report.sections import CONTROL, REFERENCE, Section
from forecast.report.settings import Setting
from forecast.report.text import counted, interval_told, listed, named, quality_words, score, shown, signed


def answer(section: Section, comparisons: Comparisons) -> list[str]:
    """Give the sentences, the most asked for first; names stand in backticks."""
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
    """Give how much training there was, and whether it can speak of quality."""
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
    """Yield which settings' forecasts no attention had a part in."""
    if alike := [setting for setting in section.settings if setting.is_linear_path]:
        yield (
            f"In {len(alike)} of {len(section.settings)} settings validation gave the encoder-decoder no weight: "
            f"{_some(alike)} forecast{'s' if len(alike) == 1 else ''} by the linear path alone, and no attention had "
            "a part in it."
        )


def _control(section: Section, comparisons: Comparisons) -> Iterator[str]:
    """Yield whether self-attention did anything, by the control."""
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
    """Yield the lowest error, and what is not told apart from it and trains faster, the control aside."""
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
