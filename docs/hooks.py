"""Parts of the site that MkDocs makes: options, commands, mechanisms, notebooks, and equations as MathML."""

import argparse
import dataclasses
import html
import os
import re
from collections.abc import Callable, Iterable, Mapping
from functools import partial
from importlib import import_module
from pathlib import Path
from types import NoneType
from typing import TYPE_CHECKING, Any, get_type_hints
from unittest.mock import patch

import mechanisms
import notebooks
from omegaconf import OmegaConf

from forecast.attention import available
from forecast.common.conf_files import choice_files, configuration_folder, load_choice
from forecast.common.settings import Option, kinds_of, options_of
from forecast.common.tables import table

if TYPE_CHECKING:
    from mkdocs.config.defaults import MkDocsConfig
    from mkdocs.structure.files import Files
    from mkdocs.structure.pages import Page

ROOT = Path(__file__).resolve().parents[1]
CONF = configuration_folder()

WIDTH = 80
"""Characters in a line of a command's usage."""

Rows = list[list[str]]


def on_files(files: "Files", config: "MkDocsConfig") -> "Files":
    """Add the made pages to the site."""
    from mkdocs.structure.files import File

    for path, make in pages().items():
        files.append(File.generated(config, path, content=make()))
    for name in available():
        files.append(File.generated(config, mechanisms.picture_of(name), content=mechanisms.picture(name)))
    return files


def on_config(config: "MkDocsConfig") -> "MkDocsConfig":
    """Add the page of each mechanism to the menu, below the page that lists them."""
    assert config.nav is not None
    (reference,) = (entry["Reference"] for entry in config.nav if "Reference" in entry)
    listed = reference.index("reference/mechanisms.md")
    pages = [{name: mechanisms.path_of(name)} for name in available()]
    reference[listed] = {"Attention mechanisms": ["reference/mechanisms.md", *pages]}
    return config


def on_page_content(content: str, page: "Page | None" = None, **_: Any) -> str:
    """Return a page with its equations as MathML, which a browser shows without a script, and with wrapped messages."""
    if page is not None and page.file.src_uri.startswith(f"{mechanisms.FOLDER}/"):
        content = mechanisms.without_plain_equation(content)
    content = re.sub(r'<div class="language-(bash|text) highlight">.*?</div>', _wrapped, content, flags=re.DOTALL)
    return re.sub(r'<(span|div) class="arithmatex">\\[(\[](.*?)\\[)\]]</\1>', _equation, content, flags=re.DOTALL)


def _wrapped(found: re.Match[str]) -> str:
    """Return a block marked for wrapping between words and flags, unless it has columns or an indent."""
    if found[1] == "text" and re.search(r"[│┃]|\S {2,}\S|\n {4}|,[^\s,]+,", found[0]):
        return found[0]
    block = found[0].replace("highlight", "highlight wraps", 1)
    return re.sub(r"(?<=[\s>])--[\w-]+", r"<span>\g<0></span>", block)


def _equation(found: re.Match[str]) -> str:
    from latex2mathml.converter import convert

    tag, text = found.groups()
    equation = convert(html.unescape(text), display="block" if tag == "div" else "inline")
    return f'<{tag} class="arithmatex">{equation}</{tag}>'


# Options

KINDS = {int: "integer", float: "number", bool: "`true` or `false`", str: "text", dict: "mapping", list: "list"}
"""Words for the kinds of values."""

HEADINGS = ("option", "default", "values", "meaning")


def options_page() -> str:
    """Return the page of all options, from the settings classes and the files of `conf/`."""
    from forecast.data.settings import DIAGNOSTIC, SYNTHETIC, DataSettings
    from forecast.model.presets import OPTIONS
    from forecast.runs.settings import EvaluationSettings, Settings, TrainerSettings, TrainingSettings
    from forecast.training.sweep.settings import SweepSettings

    root = _plain(OmegaConf.load(CONF / "config.yaml"))
    data = _values_of(CONF / "data" / "csv.yaml")
    for source in (DIAGNOSTIC, SYNTHETIC):
        made = _values_of(CONF / "data" / f"{source}.yaml")
        data |= {key: made[key] for key in options_of(DataSettings) if key in made and key not in data}
    training, trainer = (_values_of(CONF / group / "default.yaml") for group in ("training", "trainer"))
    return _page(
        "# Options",
        "Write an option as `name=value` after `python train.py`, and a choice of a group as `group=choice`.",
        "This page is made from the program. `python train.py --cfg job` prints the values of your own command.",
        "## Groups",
        table(("group", "choices", "default"), _groups(root["defaults"])),
        "`attention=` sets the self-attention of the encoder and of the decoder. "
        "`attention@decoder_attention=` and `attention@cross_attention=` set one place alone.",
        "## Top level",
        _declared(Settings, "", root),
        "## `evaluation`",
        _declared(EvaluationSettings, "evaluation", root["evaluation"]),
        "## `sweep`",
        "These options hold for the jobs of `python train.py -m`.",
        _declared(SweepSettings, "sweep", root["sweep"]),
        "## `data`",
        "The defaults are those of `data=csv`. Options of another source only have the defaults of its own choice.",
        _declared(DataSettings, "data", data),
        _described("data"),
        "## `training`",
        _declared(TrainingSettings, "training", training),
        "## `trainer`",
        _declared(TrainerSettings, "trainer", trainer),
        _described("trainer"),
        *_choices("model", OPTIONS),
        *(part for group in ("attention", "optimizer", "scheduler", "callbacks", "logger") for part in _choices(group)),
        "## `experiment`",
        "An experiment sets several options at once. Words after it on the command line take precedence.",
        _described("experiment"),
    )


def _page(*parts: str) -> str:
    return "\n\n".join(filter(None, parts)) + "\n"


def _plain(config: Any) -> dict[str, Any]:
    values = OmegaConf.to_container(config, resolve=False)
    assert isinstance(values, dict)
    return {str(key): value for key, value in values.items()}


def _values_of(file: Path) -> dict[str, Any]:
    return _plain(load_choice(file))


def _groups(defaults: Iterable[Any]) -> Rows:
    pairs = {str(name): choice for entry in defaults if isinstance(entry, dict) for name, choice in entry.items()}
    rows = []
    for group in sorted(folder.name for folder in CONF.iterdir() if folder.is_dir()):
        choices = ", ".join(f"`{file.stem}`" for file in choice_files(group))
        rows.append([f"`{group}`", choices, _code(pairs.get(group))])
    places = [[f"`{name}`", "as `attention`", _code(choice)] for name, choice in pairs.items() if "attention@" in name]
    return sorted(rows + places)


def _declared(declared: type, group: str, values: Mapping[str, Any]) -> str:
    """Return the table of a settings class; `values` has the defaults of `conf/`."""
    hints = get_type_hints(declared)
    defaults = {each.name: each.default for each in dataclasses.fields(declared)}
    rows = []
    for name, option in options_of(declared).items():
        key = f"{group}.{name}" if group else name
        sources = " or ".join(f"`data.source={source}`" for source in option.sources)
        about = f"{option.about} {sources} only." if sources else option.about
        default = values.get(name, defaults[name])
        rows.append([f"`{key}`", _code(default), _allowed(option, hints[name]), about])
    return table(HEADINGS, rows)


def _allowed(option: Option, hint: Any) -> str:
    """Return the kind, unit and range of an option's values, or its choices."""
    kinds = kinds_of(hint)
    kinds = sorted(kinds, key=lambda kind: kind is bool)
    words = [f"list of {option.items}" if kind is list else KINDS[kind] for kind in kinds if kind is not NoneType]
    text = ", ".join(words) + (f" ({option.unit})" if option.unit else "")
    if option.choices:
        text = ", ".join(f"`{choice}`" for choice in option.choices)
    bounds = option.range_text(kinds) if option.has_bounds else f", or {option.null}" if NoneType in kinds else ""
    return (text + (bounds if bounds.startswith(",") or not bounds else f", {bounds}")).removeprefix(", or ")


def _choices(group: str, declared: Mapping[str, type] | None = None) -> list[str]:
    """Return the parts about a group: each choice with its description and its options, `declared` or commented."""
    files = choice_files(group)
    parts = [f"## `{group}`"]
    for file in files:
        values = _values_of(file)
        rows = _commented(group, values, file)
        made = _declared(declared[file.stem], group, values) if declared else table(HEADINGS, rows) if rows else ""
        parts += [f"### `{group}={file.stem}`"] if len(files) > 1 else []
        parts += [f"{_description(file)}.", made]
    return parts


def _commented(group: str, values: Mapping[str, Any], file: Path) -> Rows:
    """Return a row for each value of a YAML file, with its comment, or else its parent's or another choice's."""
    comments = [_comments(each) for each in (file, *choice_files(group))]
    rows = []
    for name, value in _leaves(values):
        if name == "name":  # the word of the choice itself
            continue
        allowed = _allowed(Option(""), type(value))
        places = [each.get(key) for key in (name, name.rpartition(".")[0]) for each in comments]
        rows.append([f"`{group}.{name}`", _code(value), allowed, next(filter(None, places), "")])
    return rows


def _leaves(values: Mapping[str, Any], prefix: str = "") -> Iterable[tuple[str, Any]]:
    for key, value in values.items():
        if isinstance(value, dict):
            yield from _leaves(value, f"{prefix}{key}.")
        elif key != "_target_":
            yield f"{prefix}{key}", value


def _comments(file: Path) -> dict[str, str]:
    """Return the comment beside each key of a YAML file, by dotted name."""
    found: dict[str, str] = {}
    path: list[tuple[int, str]] = []
    for line in file.read_text(encoding="utf-8").splitlines():
        if match := re.match(r"( *)(\w+):(.*)", line):
            path = [(depth, key) for depth, key in path if depth < len(match[1])] + [(len(match[1]), match[2])]
            found[".".join(key for _, key in path)] = match[3].partition(" # ")[2].strip()
    return found


def _described(group: str) -> str:
    """Return the table of a group's choices and what each is."""
    return table(("choice", "what it is"), [[f"`{group}={f.stem}`", _description(f)] for f in choice_files(group)])


def _description(file: Path) -> str:
    """Return the comment at the top of a YAML file, without Hydra's own line and without commands."""
    lines = []
    for line in file.read_text(encoding="utf-8").splitlines():
        if not line.startswith("#"):
            break
        if "@package" not in line and not line.startswith("# python "):
            lines.append(line.removeprefix("#").strip())
    return re.sub(r"(?<![.;:,]) \n(?=[A-Z])", ". ", " \n".join(lines)).replace("\n", "").rstrip(".")


def _code(value: Any) -> str:
    """Return a value as it is typed on the command line."""
    return "required" if value == "???" or value is dataclasses.MISSING else f"`{_typed(value)}`"


def _typed(value: Any) -> str:
    if isinstance(value, dict):
        return "{" + ", ".join(f"{key}: {_typed(each)}" for key, each in value.items()) + "}"
    if isinstance(value, (list, tuple)):
        return "[" + ", ".join(map(_typed, value)) + "]"
    if value is None or isinstance(value, bool):
        return {None: "null", True: "true", False: "false"}[value]
    return str(value)


# Commands


class _CapturedParser(Exception):
    """A command's parser, raised where it would read the command line."""

    def __init__(self, parser: argparse.ArgumentParser) -> None:
        self.parser = parser


def commands(package: str = "forecast") -> list[str]:
    """Return the modules of `python -m <module>`, except training, which reads Hydra's words, and `forecast`."""
    files = sorted((ROOT / package).rglob("*.py"))
    runnable = [file for file in files if '\nif __name__ == "__main__":' in file.read_text(encoding="utf-8")]
    names = [".".join(file.relative_to(ROOT).with_suffix("").parts).removesuffix(".__main__") for file in runnable]
    return sorted(name for name in names if name not in ("forecast", "forecast.training"))


def main_of(module: str) -> Any:
    """Return the function that `python -m <module>` calls."""
    is_package = (ROOT / module.replace(".", "/")).is_dir()
    return import_module(f"{module}.__main__" if is_package else module).main


def parser_of(module: str) -> argparse.ArgumentParser:
    """Return the parser of a command, taken from its `main` at the moment when it reads the command line."""

    def capture(parser: argparse.ArgumentParser, *_: Any, **__: Any) -> None:
        raise _CapturedParser(parser)

    replaced = dict.fromkeys(("parse_args", "parse_intermixed_args"), capture)
    with patch.dict(os.environ), patch.multiple(argparse.ArgumentParser, **replaced):
        try:
            main_of(module)()
        except _CapturedParser as found:
            return found.parser
    raise LookupError(f"{module}: has no parser")


def commands_page() -> str:
    """Return the page of all commands, from their parsers."""
    from hydra import compose, initialize_config_dir

    from forecast.training.command_line import help_text

    with initialize_config_dir(version_base="1.3", config_dir=str(CONF)):
        config = compose("config")
    parts = [
        "# Commands",
        "This page is made from the parsers of the commands. `--help` prints the same text.",
        "[Exit codes](exit-codes.md) hold for all of them. `forecast predict` does the same as "
        "`python -m forecast.predict`, and so for each command of one word; `forecast --help` lists them.",
        "## `python train.py`",
        "`forecast train`, `python -m forecast.training` and `forecast-train` do the same. [Options](options.md) lists "
        "all options.",
        f"```text\n{help_text(config)}\n```",
    ]
    for module in commands():
        parser = parser_of(module)
        parts += [f"## `python -m {module}`", *_command(parser)]
        for name, other in _subcommands(parser).items():
            parts += [f"### `python -m {module} {name}`", *_command(other)]
    return _page(*parts)


def _subcommands(parser: argparse.ArgumentParser) -> dict[str, argparse.ArgumentParser]:
    return {
        name: other
        for action in parser._actions
        if isinstance(action, argparse._SubParsersAction)
        for name, other in action.choices.items()
    }


def _command(parser: argparse.ArgumentParser) -> list[str]:
    """Return a command's description, usage and flags."""
    parser.formatter_class = partial(argparse.HelpFormatter, width=WIDTH)
    formatter = parser._get_formatter()
    rows = []
    for action in parser._actions:
        if not isinstance(action, (argparse._HelpAction, argparse._SubParsersAction)):
            name = ", ".join(action.option_strings) or str(action.metavar or action.dest)
            rows.append([f"`{name}`", _taken(action), _default(action), formatter._expand_help(action)])
    usage = parser.format_usage().rstrip()
    described = parser.description or ""
    flags = table(("flag", "value", "default", "meaning"), rows) if rows else ""
    return [described, f"```text\n{usage}\n```", flags]


def _taken(action: argparse.Action) -> str:
    """Return what a flag takes."""
    if action.nargs == 0:
        return ""
    names = {None: "text", int: "integer", float: "number", Path: "path"}
    kind = names.get(action.type) or getattr(action.type, "__name__", "text")
    text = ", ".join(f"`{choice}`" for choice in action.choices) if action.choices else kind
    return f"{text}; one or more" if action.nargs == "+" else f"{text}; any number" if action.nargs == "*" else text


def _default(action: argparse.Action) -> str:
    if action.required:
        return "required"
    if action.default in (None, False, argparse.SUPPRESS) or action.default == []:
        return ""
    words = action.default if isinstance(action.default, (list, tuple)) else [action.default]
    return f"`{' '.join(map(str, words))}`"


# Mechanisms


def mechanisms_page() -> str:
    """Return the page that lists the attention mechanisms."""
    return _page(*mechanisms.overview({name: _description(_yaml_of(name)) for name in mechanisms.candidates()}))


def mechanism_page(name: str) -> str:
    """Return the page of one attention mechanism, from its class and its YAML file."""
    file = _yaml_of(name)
    rows = [[*row[:2], row[3]] for row in _commented("attention", _values_of(file), file)]
    options = table(("option", "default", "meaning"), rows) if rows else ""
    return _page(*mechanisms.page(name, _description(file), options))


def _yaml_of(name: str) -> Path:
    return CONF / "attention" / f"{name}.yaml"


def pages() -> dict[str, Callable[[], str]]:
    """Return the path of each made page, with the function that returns its Markdown."""
    return {
        "reference/options.md": options_page,
        "reference/commands.md": commands_page,
        "reference/mechanisms.md": mechanisms_page,
        **{mechanisms.path_of(name): partial(mechanism_page, name) for name in available()},
        **{f"tutorials/{file.stem}.md": partial(notebooks.page, file) for file in notebooks.notebooks()},
    }
