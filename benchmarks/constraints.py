"""The tested version of each package, for `pip install -c constraints.txt`: `python -m benchmarks.constraints`.

Run it in an environment whose tests have passed. It lists what the program and its extras need there, directly or
through other packages.
"""

import argparse
import platform
import sys
from collections.abc import Iterable, Sequence
from importlib.metadata import PackageNotFoundError, distribution
from pathlib import Path

from packaging.requirements import Requirement
from packaging.utils import canonicalize_name

from forecast.common.cli import finish
from forecast.common.files import replacing

FILE = Path(__file__).resolve().parents[1] / "constraints.txt"


def versions(package: str) -> dict[str, str]:
    """Return the installed version of each package that `package` and its extras need, by name, without local parts."""
    extras = distribution(package).metadata.get_all("Provides-Extra") or []
    found: dict[str, str] = {}
    waiting = list(_needed(package, extras))
    while waiting:
        requirement = waiting.pop()
        name = canonicalize_name(requirement.name)
        try:
            version = distribution(name).version
        except PackageNotFoundError:  # an extra that is not installed here
            continue
        if name not in found:
            found[name] = version.partition("+")[0]
            waiting += _needed(name, requirement.extras)
    return dict(sorted(found.items()))


def _needed(package: str, extras: Iterable[str]) -> Iterable[Requirement]:
    """Yield the requirements of a package on this machine, those of its extras too."""
    for text in distribution(package).requires or []:
        requirement = Requirement(text)
        if requirement.marker is None or any(requirement.marker.evaluate({"extra": extra}) for extra in ("", *extras)):
            yield requirement


def main(arguments: Sequence[str] | None = None) -> int:
    """Run the command line; return the exit code."""
    argparse.ArgumentParser(prog="python -m benchmarks.constraints", description=__doc__).parse_args(arguments)
    return finish(write)


def write() -> None:
    """Write the constraints of this environment."""
    lines = [f"# Tested with Python {platform.python_version()}; written by python -m benchmarks.constraints"]
    lines += [f"{name}=={version}" for name, version in versions("forecast").items()]
    with replacing(FILE) as file:
        file.write("\n".join([*lines, ""]).encode())


if __name__ == "__main__":
    sys.exit(main())
