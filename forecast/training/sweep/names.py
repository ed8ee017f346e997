"""The names of a sweep and of its jobs: readable, safe in any file system, the same for the same job."""

import hashlib
import re
from collections.abc import Collection, Iterable, Sequence

from hydra.core.override_parser.overrides_parser import OverridesParser
from hydra.core.override_parser.types import Override

LONGEST = 100
"""Characters of a name; file systems allow 255 bytes, and files are written beside it under longer ones."""

NAME = re.compile(rf"[A-Za-z0-9][A-Za-z0-9._-]{{0,{LONGEST - 1}}}")
"""What a name may be."""

LAUNCHER = ("hydra/launcher", "hydra.launcher.")
"""How jobs are run says nothing about what they are."""


def parse(words: Iterable[str]) -> list[Override]:
    """Give the overrides that the words of a command line are."""
    return OverridesParser.create().parse_overrides(list(words))


def canonical(override: Override) -> str:
    """Give an override that sweeps nothing as one spelling of it."""
    return f"{override.get_key_element()}={override.get_value_element_as_str()}"


def sweep_name(words: Iterable[str]) -> str:
    """Give a name that the same words find again, in whatever order and with whatever launcher."""
    kept = [word for word in words if not word.startswith((*LAUNCHER, "sweep."))]
    return f"sweep-{_hash(sorted(kept))}"


def swept_words(words: Iterable[str], constants: Collection[str]) -> list[str]:
    """Give those overrides of a job that other jobs of its sweep do not share, sorted, the seed last."""
    found = [override for override in parse(words) if canonical(override) not in constants]
    return [canonical(override) for override in in_order(found)]


def in_order(overrides: Iterable[Override]) -> list[Override]:
    """Give the overrides sorted, the seed last."""
    return sorted(overrides, key=lambda each: (is_seed(each), canonical(each)))


def is_seed(override: Override) -> bool:
    """Say whether the override is about the seed of the run."""
    return bool(override.key_or_group == "seed")


def job_name(words: Sequence[str]) -> str:
    """Give the name of the job that is known by these words, such as attention-full_seed-1.

    A short hash follows where a letter had to be replaced or the name cut, so that no two jobs share one.
    """
    overrides = parse(words)
    keys = [str(override.package or override.key_or_group) for override in overrides]
    short = [key.rpartition(".")[2] for key in keys]
    pieces = [
        f"{key if short.count(last) > 1 else last}-{_text(override)}"
        for key, last, override in zip(keys, short, overrides, strict=True)
    ]
    wanted = "_".join(pieces) or "job"
    name = re.sub(r"[^A-Za-z0-9._-]+", "-", wanted).lstrip("._-")
    if name == wanted and len(name) <= LONGEST:
        return name
    return f"{name[: LONGEST - 9].rstrip('._-')}_{_hash(words)}"


def _text(override: Override) -> str:
    value = override.value()
    return value if isinstance(value, str) else str(override.get_value_element_as_str()).lower()


def _hash(words: Iterable[str]) -> str:
    return hashlib.sha256("\n".join(words).encode()).hexdigest()[:8]
