"""Colours and words on a white picture: a tenth of the time that a plotting library takes for a few tables."""

from functools import cache
from pathlib import Path

import matplotlib
import numpy as np
from PIL import Image, ImageDraw, ImageFont

WIDTH, LINE = 352, 12
"""Pixels: as wide as TensorBoard's cards, and from one line of words to the next."""


@cache
def _font() -> ImageFont.FreeTypeFont:
    return ImageFont.truetype(str(Path(matplotlib.get_data_path()) / "fonts" / "ttf" / "DejaVuSans.ttf"), 9)


def colored(values: np.ndarray, colors: str, low: float, high: float) -> np.ndarray:
    """Return the colours of a table (n, m), those beyond `low` and `high` as of these: (n, m, 3), uint8, NaN white."""
    shares = np.clip((values - low) / (high - low), 0, 1)
    painted = matplotlib.colormaps[colors](np.nan_to_num(shares), bytes=True)[..., :3]
    return np.where(np.isnan(values)[..., None], np.uint8(255), painted)


class Drawing:
    """A picture `WIDTH` wide and so many pixels high, in which places are pixels from its upper left corner."""

    def __init__(self, height: int) -> None:
        self._image = Image.new("RGB", (WIDTH, height), "white")
        self._draw = ImageDraw.Draw(self._image)

    def write(self, place: tuple[float, float], words: str, anchor: str = "lm", color: str = "black") -> None:
        """Write words; `anchor` is Pillow's: "lm" left and middle, "mm" the middle, "rm" right and middle."""
        self._draw.text(place, words, fill=color, font=_font(), anchor=anchor)

    def write_upwards(self, place: tuple[int, int], words: str) -> None:
        """Write words from below to above, their middle at `place`."""
        length = int(_font().getlength(words)) + 2
        line = Image.new("RGB", (length, LINE), "white")
        ImageDraw.Draw(line).text((length / 2, LINE / 2), words, fill="black", font=_font(), anchor="mm")
        self._image.paste(line.rotate(90, expand=True), (place[0] - LINE // 2, place[1] - length // 2))

    def paste(self, pixels: np.ndarray, box: tuple[int, int, int, int]) -> None:
        """Stretch a table of colours (n, m, 3) over a box: left, top, right, bottom."""
        size = (box[2] - box[0], box[3] - box[1])
        table = Image.fromarray(np.ascontiguousarray(pixels))
        self._image.paste(table.resize(size, Image.Resampling.NEAREST), box[:2])

    def mark(self, left: float, middle: float) -> None:
        """Draw a small triangle that points to the left."""
        self._draw.polygon([(left, middle), (left + 4, middle - 2), (left + 4, middle + 2)], fill="black")

    def bar(self, box: tuple[int, int, int, int], colors: str, labels: dict[float, str]) -> None:
        """Draw the colours from 0 below to 1 above, with labels beside it at their shares of the height."""
        self.paste(colored(np.linspace(1, 0, 64)[:, None], colors, 0, 1), box)
        for share, label in labels.items():
            self.write((box[2] + 3, box[3] - share * (box[3] - box[1])), label)

    def pixels(self) -> np.ndarray:
        """Return the picture: (height, width, 3), uint8."""
        return np.asarray(self._image)
