"""The page of each attention mechanism: its equation, its cost, its options and the map of its weights."""

# ruff: noqa: RUF001 - Greek letters are the notation of the papers

import importlib
import re
import shutil
import sys
from pathlib import Path

import pytest
import torch

from forecast import attention
from forecast.attention import _parsing
from tests.support.small import ROOT
from tests.test_docs import HOOKS

PAGES = HOOKS.mechanisms
EQUATIONS = sys.modules["equations"]

OWN = '''
from forecast.attention.base import Attention, Cost, allowed_pairs
from forecast.attention.full import softmax_weights


class SteepAttention(Attention):
    """Softmax of twice the scores.

    Equation: σ(2 QKᵀ/√E) V.
    """

    causal_ability = "strict"
    time_cost = Cost(length=2, width=1)
    memory_cost = Cost(length=2)

    def attention_weights(self, query, key, mask, query_mask):
        return softmax_weights(2 * query, key, allowed_pairs(query, key, mask, self.causal))

    def attend(self, query, key, value, mask, query_mask):
        return self.attention_weights(query, key, mask, query_mask).to(value.dtype) @ value
'''


@pytest.mark.parametrize(
    ("text", "latex"),
    [
        ("σ(QKᵀ/√E) V.", r"\sigma(\frac{QK^{\top}}{\sqrt{E}}) V"),
        (
            "(ΣV + Q'(K'ᵀV)) / (S + Q' ΣK').",
            r"\frac{\sum V + Q^{\prime}(K^{\prime\top}V)}{S + Q^{\prime} \sum K^{\prime}}",
        ),
        ("Σ_{j≤i} exp(k_j) v_j / Σ_j w_j", r"\frac{\sum_{j\le i} \exp(k_{j}) v_{j}}{\sum_{j} w_{j}}"),
        ("U = factor·⌈ln S⌉", r"U = \mathrm{factor}\cdot\lceil\ln S\rceil"),
        ("x₁² + a/b − c/d", r"x_{1}^{2} + \frac{a}{b} - \frac{c}{d}"),
    ],
)
def test_an_equation_in_letters_becomes_latex(text: str, latex: str) -> None:
    assert EQUATIONS.markdown_of(f"Title.\n\nEquation: {text}\n\nMore.") == f"$$\n{latex}\n$$"


def test_words_around_an_equation_stay_words() -> None:
    text = "Equation: A(QK) V with learned matrix A, shape (r, S). The causal\nform has i instead of S."
    first, rest = EQUATIONS.markdown_of(text).split("\n\n")
    assert first == "$$\nA(QK) V\n$$"
    assert rest == "with learned matrix $A$, shape $(r, S)$. The causal form has $i$ instead of $S$."


def test_latex_is_kept_and_what_cannot_be_read_is_shown_as_it_is() -> None:
    assert EQUATIONS.markdown_of(r"Equation: $\alpha$ of all.") == r"$\alpha$ of all."
    assert EQUATIONS.markdown_of("Equation: (A + B] V.") == "`(A + B] V`."
    assert EQUATIONS.markdown_of("No formula.") is None


@pytest.mark.parametrize("name", attention.available())
def test_each_mechanism_has_a_page_with_equation_cost_map_and_docstring(name: str) -> None:
    convert = pytest.importorskip("latex2mathml.converter").convert
    page = HOOKS.pages()[f"reference/mechanisms/{name}.md"]()
    equations = re.findall(r"^\$\$\n(.*)\n\$\$$", page, re.MULTILINE)
    assert len(equations) == ("Equation:" in str(attention.find(name).__doc__))
    for latex in [*equations, *re.findall(r"(?<!\$)\$([^$\n]+)\$", page)]:
        assert not re.search(r"[ᵀ√Σσφ']", latex)
        assert "<math" in convert(latex)
    assert f"| `{name}` | O(" in page
    assert f"]({name}.png)" in page
    assert f"::: {attention.find(name).__module__}." in page
    assert f"](mechanisms/{name}.md)" in HOOKS.pages()["reference/mechanisms.md"]()


@pytest.mark.parametrize("name", attention.available())
def test_the_map_is_that_of_the_mechanism_on_the_fixed_window(name: str) -> None:
    maps = PAGES.weights_of(name)
    candidate = PAGES.candidates()[name]
    assert len(maps) == len(candidate.forms)
    query = PAGES.window()
    value = torch.eye(PAGES.STEPS, dtype=torch.float64).expand(1, 2, -1, -1)
    for causal, weights in zip(candidate.forms, maps.values(), strict=True):
        output = candidate.build(causal=causal, dtype=torch.float64)(query, query, value)
        torch.testing.assert_close(weights / PAGES.STEPS, output[0, 0])


def test_a_picture_shows_one_panel_for_each_form() -> None:
    panels = PAGES.draw(PAGES.weights_of("mean")).axes
    assert [panel.get_title() for panel in panels if panel.get_title()] == ["not causal", "causal"]
    assert PAGES.picture("linformer").startswith(b"\x89PNG\r\n")


def test_the_plain_equation_of_the_docstring_is_left_out_once() -> None:
    content = "<p>A.</p>\n<p>Equation: σ\n(Q).</p>\n<p>Cost: O(1).</p>"
    assert PAGES.without_plain_equation(content) == "<p>A.</p>\n<p>Cost: O(1).</p>"


def test_a_mechanism_of_two_files_gets_a_page(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    shutil.copytree(ROOT / "conf", tmp_path / "conf")
    (tmp_path / "conf" / "attention" / "steep.yaml").write_text("# Softmax of twice the scores\nname: steep\n")
    (tmp_path / "steep.py").write_text(OWN, encoding="utf-8")
    monkeypatch.setattr(attention, "__path__", [*attention.__path__, str(tmp_path)])
    monkeypatch.setattr(_parsing, "configuration_folder", lambda: tmp_path / "conf")
    monkeypatch.setattr(HOOKS, "CONF", tmp_path / "conf")
    importlib.invalidate_caches()
    PAGES.candidates.cache_clear()
    try:
        page = HOOKS.mechanism_page("steep")
        assert "Softmax of twice the scores." in page
        assert "\\sigma(2 \\frac{QK^{\\top}}{\\sqrt{E}}) V" in page
        assert "::: forecast.attention.steep.SteepAttention" in page
        assert list(PAGES.weights_of("steep")) == ["not causal", "causal"]
        assert "## `steep`" in HOOKS.mechanisms_page()
        assert "reference/mechanisms/steep.md" in HOOKS.pages()
    finally:
        PAGES.candidates.cache_clear()
        sys.modules.pop("forecast.attention.steep", None)
