import json
from dataclasses import asdict

from forecast.plan.messages import MEASURE, Answer, Request
from tests.plan.made import measured


def test_requests_and_answers_survive_a_round_trip_through_json() -> None:
    request = Request(MEASURE, {"training": {"batch_size": 8}}, 2.5, 2**30)
    assert Request(**json.loads(json.dumps(asdict(request)))) == request
    for answer in (measured(), Answer("refused: a reason", steps=3)):
        assert Answer.of(json.loads(json.dumps(asdict(answer)))) == answer
