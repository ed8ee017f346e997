import numpy as np

from forecast.common.drawing import WIDTH, Drawing, colored


def test_colours_are_those_of_the_shares_and_nan_is_white() -> None:
    painted = colored(np.array([[-1.0, 0.0, 4.0, 9.0, np.nan]]), "viridis", 0, 4)[0]
    assert painted[0].tolist() == painted[1].tolist() == [68, 1, 84]
    assert painted[2].tolist() == painted[3].tolist() == [253, 231, 36]
    assert painted[4].tolist() == [255, 255, 255]


def test_what_is_drawn_is_where_it_was_asked_for() -> None:
    drawing = Drawing(100)
    drawing.paste(np.full((2, 2, 3), (7, 70, 170), np.uint8), (10, 20, 30, 50))
    drawing.write((200, 50), "words", "mm")
    drawing.write_upwards((300, 50), "upwards")
    pixels = drawing.pixels()
    assert pixels.shape == (100, WIDTH, 3)
    rows, columns = np.nonzero((pixels == (7, 70, 170)).all(-1))
    assert (rows.min(), rows.max(), columns.min(), columns.max()) == (20, 49, 10, 29)
    dark = (pixels < 128).all(-1)
    flat, upright = dark[:, 150:250], dark[:, 260:]
    assert np.ptp(np.nonzero(flat)[1]) > np.ptp(np.nonzero(flat)[0])
    assert np.ptp(np.nonzero(upright)[0]) > np.ptp(np.nonzero(upright)[1])


def test_a_bar_rises_from_the_first_colour_to_the_last() -> None:
    drawing = Drawing(100)
    drawing.bar((10, 10, 20, 90), "viridis", {0.0: "0", 1.0: "1"})
    pixels = drawing.pixels()
    assert pixels[89, 15].tolist() == [68, 1, 84]
    assert pixels[10, 15].tolist() == [253, 231, 36]
