"""How long a training is, how fast it goes, and what follows from both."""

from dataclasses import dataclass


@dataclass(frozen=True)
class Length:
    """What a configuration asks for.

    Attributes
    ----------
    train, validation, test
        Windows of each part.
    batch
        Windows in a training step.
    steps, interval
        Steps of the whole training, and from one validation to the next.
    max_seconds
        What `training.max_time` allows; None without it.
    scores_start
        Whether the validation part is scored before the first step too.
    """

    train: int
    validation: int
    test: int
    batch: int
    steps: int
    interval: int
    max_seconds: float | None
    scores_start: bool

    def validations(self, steps: int) -> int:
        """Return the validations of a training of so many steps, the one after its last step among them."""
        interval = min(steps, self.interval)
        return -(-steps // interval)

    @property
    def epoch_steps(self) -> float:
        """Steps in one pass over the training windows."""
        return self.train / self.batch


@dataclass(frozen=True)
class Pace:
    """Seconds, each a mean but for the firsts.

    Attributes
    ----------
    step
        Forward, backward and update, with what the callbacks do at a step.
    wait
        For the data of a step.
    between
        From the end of a step to when the data of the next one are asked for.
    first
        What the first steps took beyond as many others.
    window
        A window of a validation.
    validation
        What a validation takes beside its windows: pictures, the state that is saved.
    first_validation
        What the first took of that beyond the others.
    prepare
        Data, model and the linear map, before the training.
    """

    step: float
    wait: float
    between: float
    first: float
    window: float
    validation: float
    first_validation: float
    prepare: float

    @property
    def loop(self) -> float:
        """Seconds from one step to the next."""
        return self.step + self.wait + self.between

    def validation_seconds(self, length: Length) -> float:
        """Return the time of one validation."""
        return self.validation + length.validation * self.window

    def epoch_seconds(self, length: Length) -> float:
        """Return the time of a pass over the training windows, with the validations that fall into it."""
        validations = length.epoch_steps / length.interval
        return length.epoch_steps * self.loop + validations * self.validation_seconds(length)

    def fit_seconds(self, length: Length, steps: int) -> float:
        """Return the time from the first step to the end of the last validation of a training of `steps` steps."""
        validations = length.validations(steps) * self.validation_seconds(length)
        return self.first + steps * self.loop + validations + self.first_validation

    def training_seconds(self, length: Length) -> float:
        """Return the time of the training that was asked for; `training.max_time` ends it sooner."""
        whole = self.fit_seconds(length, length.steps)
        return whole if length.max_seconds is None else min(whole, length.max_seconds)

    def result_seconds(self, length: Length) -> float:
        """Return the time from the data to the scores: the training, and the model's passes before and after it."""
        scored = length.validation * (1 + length.scores_start) + length.test
        return self.prepare + self.training_seconds(length) + scored * self.window
