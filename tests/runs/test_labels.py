"""Equal labels get as few facts as needed to become unique."""

from forecast.runs.labels import unique_labels


def test_unique_labels_stay_unchanged() -> None:
    assert unique_labels(["a", "b"], [{"x": 1}, {"x": 2}]) == ["a", "b"]


def test_equal_labels_get_the_facts_that_differ() -> None:
    facts = [{"x": 1, "y": 0, "z": 5}, {"x": 1, "y": None, "z": 6}, {"x": 1, "z": 6}]
    assert unique_labels(["a", "a", "b"], facts) == ["a (y=0)", "a (y=null)", "b"]


def test_only_facts_that_distinguish_more_are_added() -> None:
    facts = [{"x": 1, "y": 1, "z": 1}, {"x": 1, "y": 1, "z": 2}, {"x": 2, "y": 2, "z": 1}]
    assert unique_labels(["", "", ""], facts) == ["x=1 z=1", "x=1 z=2", "x=2 z=1"]


def test_things_with_equal_facts_keep_their_label() -> None:
    assert unique_labels(["a", "a"], [{"x": [1]}, {"x": [1]}]) == ["a", "a"]
