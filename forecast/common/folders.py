"""Where things lie that come with the program."""

from pathlib import Path


def configuration_folder() -> Path:
    """Give the folder of the configuration: inside the package when installed, beside it in a checkout."""
    package = Path(__file__).resolve().parents[1]
    inside = package / "conf"
    return inside if inside.is_dir() else package.parent / "conf"
