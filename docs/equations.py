r"""Equations of docstrings as LaTeX: `σ(QKᵀ/√E) V` becomes `\sigma(\frac{QK^{\top}}{\sqrt{E}}) V`."""

import re
from collections.abc import Iterable, Iterator
from dataclasses import dataclass

SYMBOLS = {
    **{"σ": r"\sigma", "φ": r"\varphi", "Σ": r"\sum", "·": r"\cdot", "×": r"\times", "−": "-", "≤": r"\le"},  # noqa: RUF001
    **{"≥": r"\ge", "≠": r"\ne", "∈": r"\in", "∞": r"\infty", "⌈": r"\lceil", "⌉": r"\rceil", "⌊": r"\lfloor"},
    **{"⌋": r"\rfloor", "‖": r"\Vert", "…": r"\ldots", "%": r"\%", "&": r"\&", "#": r"\#"},
}
"""Commands of symbols; all other characters stay as they are."""

RAISED = dict(zip("'ᵀ⁰¹²³⁴⁵⁶⁷⁸⁹⁻ⁿ", (r"\prime", r"\top", *"0123456789-n"), strict=True))
LOWERED = dict(zip("₀₁₂₃₄₅₆₇₈₉ᵢⱼₖₙ", (*"0123456789", *"ijkn"), strict=True))
FUNCTIONS = {"exp", "ln", "log", "max", "min", "sin", "cos", "tanh"}
RELATIONS = {"=", "≤", "≥", "≠", ","}
BRACKETS = {"(": ")", "[": "]", "{": "}"}

_PROSE = re.compile(r"[A-Za-z][a-z]+(?:['-][a-z]+)*|a")
_TOKEN = re.compile(rf"\s+|[A-Za-z]+|\d+(?:\.\d+)?|[{''.join(RAISED)}]+|[{''.join(LOWERED)}]+|.")


def markdown_of(docstring: str) -> str | None:
    """Return the paragraph `Equation:` of a docstring: its first equation as a block, the rest as a sentence.

    A paragraph with `$` is LaTeX already. None if there is no such paragraph.
    """
    found = re.search(r"^Equation: (.*?)(?:\n\s*\n|\Z)", docstring, re.DOTALL | re.MULTILINE)
    if found is None:
        return None
    text = " ".join(found[1].split())
    if "$" in text:
        return text
    first, *rest = _parts(text)
    block = _latex(first.text) if first.is_math else None
    if block is None:
        return _sentence([first, *rest])
    return "\n\n".join(filter(None, [f"$$\n{block}\n$$", _sentence(rest).lstrip(".;, ")]))


@dataclass(frozen=True)
class _Part:
    text: str
    is_math: bool


def _parts(text: str) -> Iterator[_Part]:
    """Yield the stretches of words and of mathematics."""
    run: list[str] = []
    for word in text.split(" "):
        ends = re.search(r"[.,;:]$", word)
        if _PROSE.fullmatch(word.strip(".,;:()")) and not {word.strip(".,;:()")} & FUNCTIONS and _depth(run) == 0:
            if run:
                yield _Part(" ".join(run), True)
                run = []
            yield _Part(f" {word} ", False)
            continue
        run.append(word)
        if ends and _depth(run) == 0:
            yield _Part(" ".join(run)[:-1], True)
            yield _Part(ends[0], False)
            run = []
    if run:
        yield _Part(" ".join(run), True)


def _depth(words: list[str]) -> int:
    text = " ".join(words)
    return sum(text.count(opening) - text.count(closing) for opening, closing in BRACKETS.items())


def _sentence(parts: Iterable[_Part]) -> str:
    return re.sub(r" {2,}", " ", "".join(map(_inline, parts))).strip()


def _inline(part: _Part) -> str:
    if not part.is_math:
        return part.text
    latex = _latex(part.text)
    return f"`{part.text}`" if latex is None else f"${latex}$"


def _latex(text: str) -> str | None:
    """Return an equation as LaTeX; None if its brackets do not match."""
    tokens = _TOKEN.findall(text)
    try:
        items = _group(tokens, None)
    except ValueError:
        return None
    return None if tokens else _joined(items)


@dataclass
class _Item:
    """A piece of LaTeX; `source` is what it was made from, `inside` the content of a pair of brackets."""

    latex: str
    source: str
    inside: str | None = None


def _group(tokens: list[str], closing: str | None) -> list[_Item]:
    """Consume `tokens` up to `closing`; return the items with fractions and scripts resolved."""
    items: list[_Item] = []
    while tokens:
        token = tokens.pop(0)
        if token == closing:
            return _fractions(items)
        if token in BRACKETS.values():
            raise ValueError(f"{token} without an opening bracket")
        if script := _script(token, tokens):
            items.append(_Item(script, token))
        else:
            items.append(_item(token, tokens))
    if closing is not None:
        raise ValueError(f"{closing} is missing")
    return _fractions(items)


def _script(token: str, tokens: list[str]) -> str | None:
    """Return a superscript or subscript, None if `token` does not begin one."""
    if token[0] in RAISED:
        return "^{" + "".join(RAISED[each] for each in token) + "}"
    if token[0] in LOWERED:
        return "_{" + "".join(LOWERED[each] for each in token) + "}"
    if token in ("_", "^") and tokens:
        item = _item(tokens.pop(0), tokens)
        return f"{token}{{{item.latex if item.inside is None else item.inside}}}"
    return None


def _item(token: str, tokens: list[str]) -> _Item:
    if token in BRACKETS:
        inside = _joined(_group(tokens, BRACKETS[token]))
        opening, closing = (token, BRACKETS[token]) if token != "{" else (r"\{", r"\}")
        return _Item(f"{opening}{inside}{closing}", token, inside)
    if token == "√" and tokens:
        item = _item(tokens.pop(0), tokens)
        return _Item(f"\\sqrt{{{item.latex if item.inside is None else item.inside}}}", token)
    if token.isalpha() and token.isascii() and len(token) > 1 and not token.isupper():
        return _Item(f"\\{token}" if token in FUNCTIONS else f"\\mathrm{{{token}}}", token)
    return _Item(SYMBOLS.get(token, " " if token.isspace() else token), token)


def _fractions(items: list[_Item]) -> list[_Item]:
    """Replace each `a/b`, and each `a / b` with spaces around the slash, by a fraction."""
    places = [place for place, item in enumerate(items) if item.source == "/"]
    if not places:
        return items
    place = places[0]
    spaced = place > 0 and items[place - 1].source.isspace()
    before, after = items[:place], items[place + 1 :]
    start = max((n + 1 for n, item in enumerate(before) if _ends(item, spaced)), default=0)
    stop = next((n for n, item in enumerate(after) if _ends(item, spaced) or item.source == "/"), len(after))
    above, below = _bare(before[start:]), _bare(after[:stop])
    return _fractions([*before[:start], _Item(f"\\frac{{{above}}}{{{below}}}", "a/b"), *after[stop:]])


def _ends(item: _Item, spaced: bool) -> bool:
    return item.source in RELATIONS or (not spaced and (item.source.isspace() or item.source in ("+", "-", "−")))  # noqa: RUF001


def _bare(items: list[_Item]) -> str:
    """Return the LaTeX of the items, without brackets around all of them."""
    kept = [item for item in items if not item.source.isspace()]
    return kept[0].inside if len(kept) == 1 and kept[0].inside is not None else _joined(items).strip()


def _joined(items: list[_Item]) -> str:
    """Return the LaTeX of the items, with a space after a command before a letter."""
    text = ""
    for item in items:
        needs_space = re.search(r"\\[A-Za-z]+$", text) and item.latex[:1].isalpha()
        text += f" {item.latex}" if needs_space else item.latex
    return text
