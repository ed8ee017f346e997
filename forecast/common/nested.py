"""Nested plain values, such as a configuration or a result, by dotted path."""

from collections.abc import Mapping
from typing import Any


def flatten(content: Mapping[str, Any], prefix: str = "") -> dict[str, Any]:
    """Give the values under dotted paths; a list is a value."""
    flat: dict[str, Any] = {}
    for key, value in content.items():
        flat |= flatten(value, f"{prefix}{key}.") if isinstance(value, Mapping) else {f"{prefix}{key}": value}
    return flat


def look_up(content: Any, path: str) -> Any:
    """Give the value at a dotted path, None where there is none."""
    for part in path.split("."):
        content = content.get(part) if isinstance(content, Mapping) else None
    return content
