"""Length of a training, its measured pace, and the times that follow from both."""

from dataclasses import dataclass

HELD_OUT = 2 / 5
"""Rows of a result that forecast validation once more with held-out weights, of all: the model and its linear path."""


@dataclass(frozen=True)
class Length:
    """The length of a configured training; its splits are in windows."""

    train: int
    validation: int
    test: int
    batch: int  # windows in a training step
    steps: int  # of the whole training
    interval: int  # steps from one validation to the next
    max_seconds: float | None  # from `training.max_time`
    scores_start: bool  # whether the validation split is also scored before the first step
    holds_out: bool = True  # whether two rows forecast it once more, with weights that its blocks did not select

    def validations(self, steps: int) -> int:
        """Return the number of validations in a training of `steps` steps, including the final one."""
        interval = min(steps, self.interval)
        return -(-steps // interval)

    @property
    def epoch_steps(self) -> float:
        """Steps in one pass over the training windows."""
        return self.train / self.batch


@dataclass(frozen=True)
class Pace:
    """Mean times in seconds, except for the first ones."""

    step: float  # forward, backward and update, with the callbacks of a step
    wait: float  # for the data of a step
    between: float  # from the end of a step to the request for the next data
    first: float  # extra time of the first steps
    window: float  # one window of a validation
    validation: float  # rest of a validation: pictures, saving the state
    first_validation: float  # extra time of the first validation
    prepare: float  # data, model and the linear map, before the training
    scoring: float = 0.0  # one window of a split at the end, with all rows of the result

    @property
    def loop(self) -> float:
        """Seconds from one step to the next."""
        return self.step + self.wait + self.between

    def validation_seconds(self, length: Length) -> float:
        """Return the time of one validation."""
        return self.validation + length.validation * self.window

    def epoch_seconds(self, length: Length) -> float:
        """Return the time of one pass over the training windows, including its validations."""
        validations = length.epoch_steps / length.interval
        return length.epoch_steps * self.loop + validations * self.validation_seconds(length)

    def fit_seconds(self, length: Length, steps: int) -> float:
        """Return the time of `steps` steps with their validations."""
        validations = length.validations(steps) * self.validation_seconds(length)
        return self.first + steps * self.loop + validations + self.first_validation

    def training_seconds(self, length: Length) -> float:
        """Return the time of the configured training, limited by `training.max_time` and a validation after it."""
        whole = self.fit_seconds(length, length.steps)
        return whole if length.max_seconds is None else min(whole, length.max_seconds + self.validation_seconds(length))

    def result_seconds(self, length: Length) -> float:
        """Return the time from loading the data to the scores: preparation, training and scoring."""
        scored = length.validation * (1 + length.holds_out * HELD_OUT) + length.test
        start = length.scores_start * length.validation * self.window
        return self.prepare + self.training_seconds(length) + start + scored * self.scoring
