"""The packages that only an exported model needs."""

from importlib.util import find_spec
from pathlib import Path

from forecast.common.errors import InputError

OPENING, WRITING = ("onnxruntime",), ("onnx", "onnxscript", "onnxruntime")
"""What an .onnx file needs; a .pt2 needs torch alone."""


def require(path: Path, packages: tuple[str, ...] = OPENING) -> None:
    """Refuse a file whose packages are not installed.

    Raises
    ------
    InputError
        Naming the first that is missing, and how to install it.
    """
    missing = [name for name in packages if path.suffix == ".onnx" and find_spec(name) is None]
    if missing:
        raise InputError(
            f'{path}: {missing[0]} is not installed: pip install -e ".[export]", or choose a name that ends in .pt2'
        )
