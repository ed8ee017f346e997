import json
from dataclasses import asdict

from forecast.plan.messages import MEASURE, Answer, Ask
from tests.plan.made import measured


def test_questions_and_answers_are_the_same_after_the_way_to_another_process() -> None:
    ask = Ask(MEASURE, {"training": {"batch_size": 8}}, 2.5, 2**30)
    assert Ask(**json.loads(json.dumps(asdict(ask)))) == ask
    for answer in (measured(), Answer("refused: a reason", steps=3)):
        assert Answer.of(json.loads(json.dumps(asdict(answer)))) == answer
