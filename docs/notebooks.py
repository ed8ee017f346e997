"""The notebooks in docs/tutorials/ as pages: their cells, and with outputs if they are run."""

import ast
import contextlib
import html
import io
import json
import os
from base64 import b64encode
from pathlib import Path
from typing import Any

TUTORIALS = Path(__file__).parent / "tutorials"

RUN = "RUN_NOTEBOOKS"
"""Environment variable that runs the notebooks while the site is built, for minutes; else pages have no output."""


def notebooks() -> list[Path]:
    """Return the notebooks, in the order of their names."""
    return sorted(TUTORIALS.glob("*.ipynb"))


def cells(notebook: Path) -> list[tuple[str, str]]:
    """Return the kind of each cell, markdown or code, and its text."""
    content = json.loads(notebook.read_text(encoding="utf-8"))
    return [(cell["cell_type"], "".join(cell["source"])) for cell in content["cells"]]


def page(notebook: Path) -> str:
    """Return a notebook as Markdown; with `RUN_NOTEBOOKS`, each code cell is run and followed by its output."""
    outputs = iter(run(notebook) if os.environ.get(RUN) else ())
    parts = []
    for kind, text in cells(notebook):
        parts.append(text if kind == "markdown" else f"```python\n{text}\n```")
        if kind == "code":
            parts.append(next(outputs, ""))
    parts.append(f"[Download this notebook]({notebook.name}) and run it where the package is installed.")
    return "\n\n".join(filter(None, parts)) + "\n"


def run(notebook: Path) -> list[str]:
    """Run the code cells in one namespace; return the output of each as Markdown."""
    import matplotlib

    matplotlib.use("agg")
    names: dict[str, Any] = {}
    return [_output(text, names) for kind, text in cells(notebook) if kind == "code"]


def _output(code: str, names: dict[str, Any]) -> str:
    """Run a cell; return what it prints, its last value and its figures."""
    from matplotlib import pyplot

    body = ast.parse(code).body
    last = body.pop() if body and isinstance(body[-1], ast.Expr) else None
    printed, value = io.StringIO(), None
    with contextlib.redirect_stdout(printed):
        exec(compile(ast.Module(body, []), "<cell>", "exec"), names)
        if isinstance(last, ast.Expr):
            value = eval(compile(ast.Expression(last.value), "<cell>", "eval"), names)
    parts = [f"```text\n{printed.getvalue().rstrip()}\n```"] if printed.getvalue().strip() else []
    figures = [_picture(pyplot.figure(number)) for number in pyplot.get_fignums()]
    pyplot.close("all")
    if value is not None and not figures:
        shown = getattr(value, "_repr_html_", None)
        text = f"<pre>{html.escape(repr(value))}</pre>" if shown is None else shown()
        parts.append(f'<div class="output" markdown="0">{text}</div>')
    return "\n\n".join([*parts, *figures])


def _picture(figure: Any) -> str:
    content = io.BytesIO()
    figure.savefig(content, format="png", dpi=90, bbox_inches="tight")
    return f'<img alt="output" src="data:image/png;base64,{b64encode(content.getvalue()).decode()}">'
