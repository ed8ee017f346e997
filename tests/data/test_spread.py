from forecast.data.windows import spread


def test_positions_are_the_middles_of_equal_pieces() -> None:
    assert spread(600, 3).tolist() == [100, 300, 500]
    assert spread(2, 3).tolist() == [0, 1]
    assert spread(1, 3).tolist() == [0]
