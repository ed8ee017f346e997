"""A finished run in a few lines of Markdown, as the board's text shows it."""

from collections.abc import Mapping
from typing import Any

from forecast.common.markdown import inert
from forecast.runs.table import HEADINGS, caption, speed_line, table_rows, title


def summary(result: Mapping[str, Any]) -> str:
    """Give the command, the data, the result table and the speed of a `result.json`."""
    data, model, speed = result["data"], result["model"], result["speed"]
    windows = ", ".join(f"{count:,} {part}" for part, count in data["windows"].items())
    if (every := data.get("evaluation_stride", 1)) > 1:
        windows += f" (of validation and test 1 in {every})"
    rows = [HEADINGS, ["---", *["---:"] * (len(HEADINGS) - 1)], *table_rows(result)]
    lines = [
        f"``{result['command']}``",
        "",
        f"**{data['name']}**: {data['rows']:,} rows of {data['frequency']}, {len(data['targets'])} targets; "
        f"windows: {windows}",
        "",
        f"{title(result)}; {model['parameters']:,} parameters, step {model['best_step']:,} of "
        f"{model['steps']:,} kept; {result['status']}; seed {result['seed']}",
        "",
        *("| " + " | ".join(_escaped(cell) for cell in row) + " |" for row in rows),
        "",
        caption(result),
        "",
        f"{speed_line(speed)}; {result['device']}",
    ]
    return "\n".join(map(inert, lines))


def _escaped(cell: str) -> str:
    return cell.replace("|", "\\|")
