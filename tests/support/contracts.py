"""Contracts of models, and forecasters with another contract."""

from collections.abc import Sequence
from copy import copy
from dataclasses import fields, replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

from forecast.data.contract import DataContract
from forecast.data.scaler import Scaler
from forecast.data.training_range import LIMITS, TrainingRange
from forecast.evaluation.limits import Limits
from forecast.predict.facts import ModelFacts
from forecast.predict.forecaster import Forecaster
from forecast.tables.reading import Reading
from forecast.tables.roles import Roles
from forecast.tables.times.clock import Clock


def contract_of(targets: Sequence[str] = ("load",), context_length: int = 20, **options: Any) -> DataContract:
    """Return a contract of a model of these targets, an hourly one if no other frequency is named."""
    known = {field.name for field in fields(Reading)}
    reading = Reading(**{"time_column": "date", "frequency": "h"} | {k: options.pop(k) for k in known & options.keys()})
    roles, scaler = Roles(list(targets)), Scaler(np.zeros(len(targets)), np.ones(len(targets)), list(targets))
    clock = options.pop("clock", None) or Clock(None, str(reading.frequency))
    return DataContract(roles, reading, clock, scaler, context_length, **{"horizon": 1} | options)


def no_facts() -> ModelFacts:
    """Return facts of a run that say nothing: no limit of a forecast, no range of training, no intervals."""
    limits = Limits(torch.tensor(-torch.inf), torch.tensor(torch.inf), 1)
    return ModelFacts(
        "", {}, {}, TrainingRange((), *[np.empty(0)] * len(LIMITS)), limits, lambda: pytest.fail("no intervals"), Path()
    )


def with_contract(forecaster: Forecaster, **changes: Any) -> Forecaster:
    """Return the forecaster with other values in its contract, which may then contradict each other."""
    contract = copy(forecaster.contract)
    for part in ("roles", "reading"):
        own = {field.name for field in fields(getattr(contract, part))} & changes.keys()
        value = replace(getattr(contract, part), **{name: changes.pop(name) for name in own})
        object.__setattr__(contract, part, value)
    for name, value in changes.items():
        object.__setattr__(contract, name, value)
    return replace(forecaster, contract=contract)
