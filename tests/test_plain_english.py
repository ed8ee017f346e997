"""Limits for the prose: length of sentences and of the README, first words of docstrings, forbidden idioms."""

import ast
import re
import subprocess
from collections.abc import Iterator
from pathlib import Path
from statistics import fmean

import pytest

from tests.support.small import ROOT

PAGES = [ROOT / "README.md", *sorted((ROOT / "docs").rglob("*.md"))]

MOST_WORDS = 35
MOST_WORDS_ON_AVERAGE = 17
MEASUREMENT_WORDS = 3_500
MEASUREMENT_PROSE = 900
"""Most words of a page of measurements with its tables, and of its sentences alone."""
README_LINES = 200
README_BYTES = 12_000

IDIOMS = (
    *("anew", "manieth", "whoever", "foretold", "told apart", "nobody's business", "goes on with", "of which each"),
    "as many as fit",
)
"""Phrases that a reader has to decode. This list is the only place that has them."""

CLAUSES = ("in place of", "that of", "those of", "of before")
"""Phrases for which a page has a plain clause: instead of, the noun once more, before."""

ABBREVIATIONS = r"(?<!\be\.g\.)(?<!\bi\.e\.)(?<!\bal\.)(?<!\bvs\.)(?<!\bcf\.)(?<!\bFig\.)(?<!\bNo\.)(?<!\bpp\.)"
SENTENCE_END = re.compile(rf"{ABBREVIATIONS}(?<=[.!?])[\"”')\]*_]*\s+(?=[\"“'(\[*_`]*[A-Z0-9`$])")


def paragraphs(markdown: str) -> Iterator[str]:
    """Yield the paragraphs and list items of a page, without code blocks, tables, headings and comments."""
    text = re.sub(r"\A---\n.*?^---\n", "", markdown, flags=re.DOTALL | re.MULTILINE)
    text = re.sub(r"<!--.*?-->", "\n\n", text, flags=re.DOTALL)
    text = re.sub(r"^ *(```+|~~~+).*?^ *\1 *$", "\n\n", text, flags=re.DOTALL | re.MULTILINE)
    text = re.sub(r"^ *\$\$.*?\$\$ *$", "\n\n", text, flags=re.DOTALL | re.MULTILINE)
    text = re.sub(r"^:::.*\n(?: {4}.*\n|\n(?= {4}))*", "\n\n", text, flags=re.MULTILINE)
    lines: list[str] = []
    for line in [*text.splitlines(), ""]:
        content = line.strip()
        is_break = not content or content[0] in "|#<" or re.match(r"(!!!|\?\?\?|===|---)", content)
        item = re.match(r"(?:[-*+]|\d+[.)]|:|>|\[\^\w+\]:) +(.*)", content)
        if (is_break or item) and lines:
            yield " ".join(lines)
            lines = []
        if not is_break:
            lines.append(item[1] if item else content)


def plain(paragraph: str) -> str:
    """Return a paragraph as it is read: the text of a link, no picture, one word for code and for an equation."""
    text = re.sub(r"!\[[^\]]*\]\([^)]*\)(\{[^}]*\})?", "", paragraph)
    text = re.sub(r"(`+).+?\1", lambda found: "Code", text)
    text = re.sub(r"\$[^$]+\$", "x", text)
    return re.sub(r"\[([^\]]*)\](?:\([^)]*\)|\[[^\]]*\])", r"\1", text)


def sentences(markdown: str) -> list[str]:
    """Return the sentences of a page."""
    found = [part for paragraph in paragraphs(markdown) for part in SENTENCE_END.split(plain(paragraph))]
    return [sentence for sentence in found if count_words(sentence)]


def count_words(sentence: str) -> int:
    return sum(any(letter.isalnum() for letter in word) for word in sentence.split())


EXAMPLE = """# A heading of many words that does not count as a sentence at all

First sentence with `some code here`. Second one, e.g. This is still it! (A third?)
It goes over two
lines, see [the link](page.md).

- An item without a full stop
- Two sentences. In one item.

| a | table |
|---|---|

```bash
no sentence
```

!!! note "Title"
    Text within it, 0.36 of it.

::: forecast.thing
    options: {}

Done.
"""


def test_sentences_are_counted_as_a_reader_counts_them() -> None:
    assert [count_words(sentence) for sentence in sentences(EXAMPLE)] == [4, 7, 2, 8, 6, 2, 3, 6, 1]


@pytest.mark.parametrize("page", PAGES, ids=lambda path: path.relative_to(ROOT).as_posix())
def test_no_sentence_has_more_than_35_words(page: Path) -> None:
    long = [each for each in sentences(page.read_text(encoding="utf-8")) if count_words(each) > MOST_WORDS]
    assert long == []


def test_sentences_have_17_words_on_average_at_most() -> None:
    counts = {page: list(map(count_words, sentences(page.read_text(encoding="utf-8")))) for page in PAGES}
    assert fmean(count for page in counts.values() for count in page) <= MOST_WORDS_ON_AVERAGE


def test_the_readme_has_at_most_200_lines_and_12_kb() -> None:
    content = (ROOT / "README.md").read_bytes()
    assert len(content.splitlines()) <= README_LINES
    assert len(content) <= README_BYTES


@pytest.mark.parametrize("page", PAGES, ids=lambda path: path.relative_to(ROOT).as_posix())
def test_a_page_repeats_the_noun_and_says_instead_of(page: Path) -> None:
    text = " ".join(page.read_text(encoding="utf-8").split())
    assert re.findall(rf".{{40}}\b(?:{'|'.join(CLAUSES)})\b.{{20}}", text) == []


def test_no_line_of_the_program_says_in_place_of() -> None:
    files = [
        path
        for folder in ("forecast", "conf")
        for path in (ROOT / folder).rglob("*.*")
        if path.suffix not in (".pyc", ".safetensors")
    ]
    texts = {path: " ".join(path.read_text(encoding="utf-8").split()) for path in files}
    found = [
        str(path) for path, text in texts.items() if re.search(r"\b(?:in place of|of before)\b", text, re.IGNORECASE)
    ]
    assert found == []


def test_a_page_of_measurements_is_tables_and_few_sentences() -> None:
    pages = list((ROOT / "docs" / "measurements").glob("*.md"))
    counts = {page.name: len(page.read_text(encoding="utf-8").split()) for page in pages}
    assert max(counts.values()) <= MEASUREMENT_WORDS, counts
    prose = {page.name: sum(map(count_words, sentences(page.read_text(encoding="utf-8")))) for page in pages}
    assert max(prose.values()) <= MEASUREMENT_PROSE, prose


def test_no_docstring_begins_with_give() -> None:
    found = []
    for path in (
        path for folder in ("forecast", "benchmarks", "tests", "docs") for path in (ROOT / folder).rglob("*.py")
    ):
        text = path.read_text(encoding="utf-8")
        if not re.search(r"[\"'](?:\s|\\\n)*gives?\b", text, re.IGNORECASE):
            continue  # no docstring to look for: parsing all files takes four seconds
        for node in ast.walk(ast.parse(text)):
            if isinstance(node, (ast.Module, ast.ClassDef, ast.FunctionDef, ast.AsyncFunctionDef)):
                words = (ast.get_docstring(node) or "").split()
                if words and words[0].rstrip(".,:").lower() in ("give", "gives"):
                    found.append(f"{path.relative_to(ROOT)}: {getattr(node, 'name', 'module')}")
    assert found == []


def tracked_texts() -> Iterator[tuple[str, str]]:
    """Yield each text file of the checkout with its content in one line; skip without a checkout."""
    if not (ROOT / ".git").exists():
        pytest.skip("not a checkout")
    listed = subprocess.run(["git", "ls-files", "-z"], cwd=ROOT, capture_output=True, check=True).stdout
    for name in filter(None, listed.decode().split("\0")):
        path = ROOT / name
        if path == Path(__file__).resolve() or not path.is_file():
            continue
        content = path.read_bytes()
        if b"\0" not in content:
            yield name, re.sub(r"\s+(?:#+ )?", " ", content.decode("utf-8", errors="replace"))


@pytest.mark.slow
def test_the_idioms_are_in_no_file() -> None:
    pattern = re.compile(rf"\b(?:{'|'.join(map(re.escape, IDIOMS))})\b", re.IGNORECASE)
    found = [f"{name}: {match[0]}" for name, text in tracked_texts() for match in pattern.finditer(text)]
    assert found == []
