from forecast.common.files import flatten, look_up


def test_values_are_found_by_their_paths() -> None:
    content = {"seed": 1, "model": {"d_model": 8, "path": {"on": None}}, "names": ["a", "b"], "empty": {}}
    flat = flatten(content)
    assert flat == {"seed": 1, "model.d_model": 8, "model.path.on": None, "names": ["a", "b"]}
    assert all(look_up(content, path) == value for path, value in flat.items())


def test_an_absent_path_returns_none() -> None:
    assert [look_up({"seed": 1, "model": {}}, path) for path in ("seed.x", "model.x", "x.y")] == [None] * 3
    assert look_up(None, "x") is None
