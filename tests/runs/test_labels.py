"""Labels are told apart where they are the same, by as few facts as will do."""

from forecast.runs.labels import unique_labels


def test_labels_of_their_own_stay_as_they_are() -> None:
    assert unique_labels(["a", "b"], [{"x": 1}, {"x": 2}]) == ["a", "b"]


def test_those_that_are_alike_get_the_facts_in_which_they_differ() -> None:
    facts = [{"x": 1, "y": 0, "z": 5}, {"x": 1, "y": None, "z": 6}, {"x": 1, "z": 6}]
    assert unique_labels(["a", "a", "b"], facts) == ["a (y=0)", "a (y=null)", "b"]


def test_a_fact_that_tells_no_more_apart_is_left_out_and_one_that_does_is_added() -> None:
    facts = [{"x": 1, "y": 1, "z": 1}, {"x": 1, "y": 1, "z": 2}, {"x": 2, "y": 2, "z": 1}]
    assert unique_labels(["", "", ""], facts) == ["x=1 z=1", "x=1 z=2", "x=2 z=1"]


def test_what_differs_in_nothing_keeps_its_label() -> None:
    assert unique_labels(["a", "a"], [{"x": [1]}, {"x": [1]}]) == ["a", "a"]
