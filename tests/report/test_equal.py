from pathlib import Path
from typing import Any

import pytest

from forecast.report.budget import MOST_VALUES, facts_of
from forecast.report.groups import groups_of
from forecast.runs.read import read_runs
from tests.report.made import result_of, write_run


def facts(root: Path, *results: dict[str, Any], stride: int = 1) -> dict[str, tuple[str, str]]:
    for place, result in enumerate(results):
        result["data"]["evaluation_stride"] = stride
        write_run(root / str(place), result)
    (group,) = groups_of(read_runs([root]).runs)
    return {fact.name: (fact.state, fact.values) for fact in facts_of(group)}


def test_studied_facts_are_compared_and_the_others_are_equal(tmp_path: Path) -> None:
    results = [result_of(name, length) for name in ("full", "linear") for length in (96, 720)]
    by_name = facts(tmp_path, *results, stride=5)
    assert by_name["mechanism"] == ("compared", "full, linear")
    assert by_name["look-back, steps"] == ("compared", "96, 720")
    assert by_name["windows seen in training"] == ("equal", "32,000")
    assert by_name["passes over the training windows"] == ("equal", "4.0")
    assert by_name["steps between scored windows"] == ("equal", "5")
    assert by_name["threads"] == ("equal", "2 threads")
    assert "differs" not in {state for state, _ in by_name.values()}


@pytest.mark.parametrize(
    ("path", "value", "name", "values"),
    [
        ("model.parameters", 120_000, "parameters", "100,000 (full); 120,000 (linear)"),
        ("model.steps", 400, "training steps", "500 (full); 400 (linear)"),
        ("model.steps", 400, "windows seen in training", "32,000 (full); 25,600 (linear)"),
        ("data.windows.test", 1999, "test windows scored", "2,000 (full); 1,999 (linear)"),
        ("data.windows.train", 7000, "training windows", "8,000 (full); 7,000 (linear)"),
        ("versions.torch", "2.11.0", "torch", "2.13.0+cpu (full); 2.11.0 (linear)"),
        ("commit", "0123", "commit", "fbc11413b8ef52d752ec155d420b6ac13c27f97b (full); 0123 (linear)"),
        ("device", "A processor, 1 threads", "threads", "2 threads (full); 1 threads (linear)"),
        ("device", "A GPU", "device", "A processor (full); A GPU (linear)"),
        ("precision", "bf16-mixed", "precision", "32-true (full); bf16-mixed (linear)"),
        ("status", "out of time", "how training ended", "finished (full); out of time (linear)"),
        ("config.sweep.isolate", True, "a process for each job", "False (full); True (linear)"),
        ("config.training.profile", True, "training.profile", "False (full); True (linear)"),
        ("config.training.evaluation_batch_size", 8, "training.evaluation_batch_size", "256 (full); 8 (linear)"),
        ("config.trainer.log_every_n_steps", 9, "trainer.log_every_n_steps", "10 (full); 9 (linear)"),
        ("seed", 2, "seeds", "1 (full); 2 (linear)"),
    ],
)
def test_a_fact_that_differs_names_its_settings(tmp_path: Path, path: str, value: Any, name: str, values: str) -> None:
    other = result_of("linear")
    node = other
    *groups, key = path.split(".")
    for group in groups:
        node = node[group]
    assert node[key] != value
    node[key] = value
    by_name = facts(tmp_path, result_of(), other)
    assert by_name[name] == ("differs", values)


def test_settings_are_named_by_look_back_alone_if_that_is_unique(tmp_path: Path) -> None:
    results = [result_of(name, length) for name in ("full", "linear") for length in (96, 720)]
    for result in results:
        result["data"]["windows"]["train"] -= result["config"]["context_length"]
    by_name = facts(tmp_path, *results)
    assert by_name["training windows"] == ("differs", "7,904 (look-back 96); 7,280 (look-back 720)")


@pytest.mark.parametrize(("count", "is_range"), [(MOST_VALUES, False), (MOST_VALUES + 1, True)])
def test_many_numbers_are_shown_as_a_range(tmp_path: Path, count: int, is_range: bool) -> None:
    results = [result_of("full", 96 + 10 * place) for place in range(count)]
    for place, result in enumerate(results):
        result["model"]["parameters"] = 1000 + place
    state, values = facts(tmp_path, *results)["parameters"]
    assert state == "differs"
    assert (values == f"from 1,000 to {999 + count:,}") == is_range
