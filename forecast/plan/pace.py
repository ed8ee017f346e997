"""How long a training is, how fast it goes, and what follows from both."""

from dataclasses import dataclass


@dataclass(frozen=True)
class Length:
    """The length of a configured training; its parts are in windows."""

    train: int
    validation: int
    test: int
    batch: int  # windows in a training step
    steps: int  # of the whole training
    interval: int  # steps from one validation to the next
    max_seconds: float | None  # what `training.max_time` allows
    scores_start: bool  # whether the validation part is scored before the first step too

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
    """Mean times in seconds, except for the first ones."""

    step: float  # forward, backward and update, with the callbacks of a step
    wait: float  # for the data of a step
    between: float  # from the end of a step to the request for the next data
    first: float  # extra time of the first steps
    window: float  # one window of a validation
    validation: float  # a validation beside its windows: pictures, saving the state
    first_validation: float  # extra time of the first validation
    prepare: float  # data, model and the linear map, before the training

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
