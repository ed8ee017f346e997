from dataclasses import asdict
from pathlib import Path
from typing import Any

import pytest

from forecast.plan import messages
from forecast.plan.messages import MEASURE, Answer, Request, request_child
from tests.plan.made import measured

REQUEST = Request(MEASURE, {}, 1.0, 2**30)


@pytest.mark.parametrize("answer", [measured(), Answer("memory: the process ran out of memory")])
def test_a_request_is_sent_to_a_process_and_its_answer_returned(
    answer: Answer, monkeypatch: pytest.MonkeyPatch
) -> None:
    def measure_in_child(function: str, request: Any, limit: float, *, label: str, late: str) -> Any:
        assert Path(request.pop("folder")).is_dir()
        expected = {key: value for key, value in asdict(REQUEST).items() if key != "folder"}
        assert (function, request) == ("forecast.plan.worker:answer_request", expected)
        assert (limit, label, late) == (30, "full", "took more than 30 s: raise --limit")
        return asdict(answer) if answer.length is not None else {"why": answer.why}

    monkeypatch.setattr(messages, "measure_in_child", measure_in_child)
    assert request_child(REQUEST, "full", 30) == answer


def test_the_files_of_a_killed_process_are_removed(monkeypatch: pytest.MonkeyPatch) -> None:
    seen: list[Path] = []

    def measure_in_child(_: str, request: dict[str, Any], *__: Any, **___: Any) -> dict[str, Any]:
        seen.append(Path(request["folder"]))
        (seen[0] / "checkpoint").touch()
        return {"why": "time: took more than 5 s"}

    monkeypatch.setattr("forecast.plan.messages.measure_in_child", measure_in_child)
    assert request_child(Request(MEASURE, {}, 1.0, 1), "full", 5.0).why.startswith("time: ")
    assert not seen[0].exists()
