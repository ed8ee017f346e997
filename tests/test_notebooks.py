"""The notebooks of the tutorials: without output in the repository, and run as they are."""

import importlib.util
import json
from pathlib import Path
from types import ModuleType

import pytest

from tests.support.small import ROOT


def load_notebooks() -> ModuleType:
    """Return docs/notebooks.py, which is in no package."""
    spec = importlib.util.spec_from_file_location("docs_notebooks", ROOT / "docs" / "notebooks.py")
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


NOTEBOOKS = load_notebooks()

EVERY = pytest.mark.parametrize("notebook", NOTEBOOKS.notebooks(), ids=lambda notebook: notebook.stem)


@EVERY
def test_a_notebook_has_no_output(notebook: Path) -> None:
    for cell in json.loads(notebook.read_text(encoding="utf-8"))["cells"]:
        assert not cell.get("outputs")
        assert cell.get("execution_count") is None


@EVERY
def test_a_page_has_each_cell_of_its_notebook(notebook: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv(NOTEBOOKS.RUN, raising=False)
    page = NOTEBOOKS.page(notebook)
    assert page.startswith("# ")
    assert all(text in page for _, text in NOTEBOOKS.cells(notebook))


@pytest.mark.slow
@pytest.mark.usefixtures("drawn")
@pytest.mark.parametrize(
    "notebook",
    [
        pytest.param(path, marks=pytest.mark.exhaustive) if "known" in path.stem else path
        for path in NOTEBOOKS.notebooks()
    ],
    ids=lambda notebook: notebook.stem,
)
def test_a_notebook_runs_and_its_page_has_the_output(notebook: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv(NOTEBOOKS.RUN, "1")
    page = NOTEBOOKS.page(notebook)
    assert '<div class="output"' in page
    if ".plot(" in page:
        assert "data:image/png;base64" in page
