from forecast.data.windows import evenly_spaced


def test_positions_are_the_middles_of_equal_pieces() -> None:
    assert evenly_spaced(600, 3).tolist() == [100, 300, 500]
    assert evenly_spaced(2, 3).tolist() == [0, 1]
    assert evenly_spaced(1, 3).tolist() == [0]
