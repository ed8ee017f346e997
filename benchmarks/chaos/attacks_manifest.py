"""Attacks through manifest.json, result.json and the JSON format."""

import json
from typing import Any

from benchmarks.chaos.attacks_configuration import ENORMOUS, SIZES
from benchmarks.chaos.scene import Scene

NAMES = (
    *("=cmd|' /C calc'!A0", "+1+1", "@SUM(1)", "-2+3", "\t=1", "\r=1", "\x1b[31mred", "\x1b]0;title\x07", "a\nb", "\0"),
    *("<script>alert(1)</script>", "x" * 10**5, "", " ", "‮txt", "../../x", "${oc.env:CHAOS_SECRET}", "$(touch x)"),
    *('"; rm -rf x', "nan", "{{7*7}}", "%s%s%n", "\ud800"),
)
"""Names that a spreadsheet, a terminal, a browser or a shell would interpret."""


def architecture(scene: Scene) -> str:
    """Set an enormous or an impossible model size."""
    node = scene.choose(
        *(("options", "encoder_layers"),) * 3, *(("options", "decoder_layers"),) * 3, *(("sizes", "horizon"),) * 3,
        ("options", "encoder_layers"), ("options", "decoder_layers"), ("options", "d_model"), ("options", "d_ff"),
        ("options", "num_heads"), ("options", "patch_length"), ("options", "stride"), ("options", "head_dim"),
        ("options", "dropout"), ("sizes", "num_targets"), ("sizes", "num_past_covariates"), ("sizes", "num_known"),
        ("sizes", "context_length"), ("sizes", "horizon"), ("mechanisms", "encoder", "factor"), ("options", "unknown"),
        ("options", "channels"), ("options", "linear_path"), ("options", "level"),
    )  # fmt: skip
    value = scene.choose(*SIZES, *ENORMOUS)
    if node[-1] == "factor":
        scene.edit("manifest.json", ["architecture", "mechanisms", "encoder", "name"], "probsparse")
    scene.edit("manifest.json", ["architecture", *node], value)
    if scene.random.random() < 0.3:
        other = scene.choose("encoder_layers", "decoder_layers", "d_model")
        scene.edit("manifest.json", ["architecture", "options", other], scene.choose(*SIZES))
    return f"architecture.{'.'.join(node)}={str(value)[:40]}"


def mechanism(scene: Scene) -> str:
    """Use a module as the name of a mechanism or a preset."""
    scene.plant()
    scene.modules |= {"antigravity", "this", "pty"}
    node = scene.choose(("mechanisms", "encoder", "name"), ("mechanisms", "decoder", "name"), ("preset",))
    value = scene.choose(
        *("payload", "..payload", "...outputs.evil.payload", "antigravity", "os", "__init__", "base", "_few", "x.y"),
        *("../../payload", "full\0", 7, None, [], {"_target_": "os.abort"}, "payload.X", "evil_module"),
    )
    scene.edit("manifest.json", ["architecture", *node], value)
    return f"architecture.{'.'.join(node)}={value!r}"


def data_facts(scene: Scene) -> str:
    """Describe the data wrongly: names, frequency, zone, cycles, repairs."""
    node, value = scene.choose(
        (("data", "targets"), [scene.choose(*NAMES), "oil"]),
        (("data", "targets"), scene.choose([], ["load"] * 2, ["load"] * 10**5, "load", None, [None, 1])),
        (("data", "past_covariates"), scene.choose([scene.choose(*NAMES)], ["x"] * 10**6, {})),
        (("data", "time_column"), scene.choose(*NAMES, None, 1)),
        (
            ("data", "frequency"),
            scene.choose("1ns", "999999999D", "-1h", "0h", "ME", "x", "h" * 10**5, None, "1e9YE", "W-X"),
        ),
        (("data", "shown_frequency"), scene.choose("1ns", "x", -1, "999999999D")),
        (
            ("data", "time_zone"),
            scene.choose("../../../../../../etc/passwd", "/etc/passwd", "x", "UTC\0", "", 7, "a" * 10**5),
        ),
        (("data", "cycles"), scene.choose([], ["x"], ["hour_of_day"] * 10**5, ["__class__"], "hour_of_day", [["x"]])),
        (("data", "duplicates"), scene.choose("x", None, [], "eval")),
        (("data", "missing"), scene.choose("mask", "ffill", "interpolate", "x", None)),
        (("format",), scene.choose(2, "1", None, True, 1.0, 2**70, -1)),
        (("data",), scene.choose(None, [], {}, "x")),
    )
    scene.edit("manifest.json", node, value)
    return f"manifest {'.'.join(node)}={str(value)[:60]!r}"


def scaler(scene: Scene) -> str:
    """Write scaler values that destroy a forecast."""
    key = scene.choose("mean", "scale")
    value = scene.choose(float("nan"), float("inf"), 1e308, -1.0, 0.0, 1e-320, 2**70, "1", None, [], True, 1e38, 1e30)
    if scene.random.random() < 0.7:
        scene.edit("manifest.json", ["scaler", key, 0], value)
    else:
        scene.edit("manifest.json", ["scaler", key], scene.choose([value] * 3, [], value, [1.0] * 10**6))
    return f"scaler.{key}: {str(value)[:30]}"


def listed_file(scene: Scene) -> str:
    """List files outside the folder, which a check of hashes would read."""
    name = scene.choose(
        str(scene.outside / "secret.csv"), "../../../../../outside/secret.csv", "/dev/zero", "/dev/stdin", "..", "",
        "checkpoints", "x\0", "model.safetensors/x", "~/x", "/proc/self/mem", "x" * 5000,
    )  # fmt: skip
    entry = scene.choose({"bytes": 1, "sha256": "0" * 64}, {"bytes": 2**70, "sha256": None}, {}, None, "x", [])
    if scene.random.random() < 0.7:
        scene.edit("manifest.json", ["files", name], entry)
    else:
        scene.edit("manifest.json", ["files"], scene.choose({name: entry}, [], None, {"model.safetensors": entry}, "x"))
    return f"files[{name[:50]!r}]={entry}"


def result(scene: Scene) -> str:
    """Write file names, or text that a report must escape, to the result."""
    node, value = scene.choose(
        (
            ("data", "path"),
            scene.choose("/dev/zero", "/dev/stdin", str(scene.outside / "secret.csv"), "/proc/self/mem", 7),
        ),
        (("data", "name"), scene.choose(*NAMES)),
        (("data", "targets"), scene.choose([scene.choose(*NAMES)], ["x"] * 10**5, None, "load")),
        (("data", "windows", "test"), scene.choose(*SIZES)),
        (("command",), scene.choose("train.py $(touch x)", "x\n\n# <script>alert(1)</script>", None, 7, "x" * 10**6)),
        (("config", "attention", "name"), scene.choose(*NAMES, None, 1)),
        (("config", "data", "name"), scene.choose(*NAMES)),
        (("config", "context_length"), scene.choose(*SIZES)),
        (("config", "training", "batch_size"), scene.choose(*SIZES)),
        (("test", "scaled", "mse"), scene.choose(float("nan"), float("inf"), -1, 1e308, 2**2000, "0.1", None, [])),
        (("speed", "fit_seconds"), scene.choose(float("nan"), -1, 10**400, "x", None, {})),
        (("speed", "peak_memory_mib"), scene.choose(float("inf"), -1, 10**400, "x", None)),
        (("model", "parameters"), scene.choose(*SIZES)),
        (("model", "best_step"), scene.choose(*SIZES)),
        (("test", "by_step"), scene.choose([], [{}] * 10**5, None, "x")),
        (("baselines",), scene.choose({}, None, [], {"x": {}})),
        (("seed",), scene.choose(*SIZES)),
        (("device",), scene.choose(*NAMES, None, {"name": scene.choose(*NAMES)})),
    )
    scene.edit("result.json", node, value)
    return f"result {'.'.join(node)}={str(value)[:50]!r}"


def text(scene: Scene) -> str:
    """Write JSON that is hard to parse: deeply nested, long, with huge numbers, or invalid."""
    name = scene.choose("config.json", "manifest.json", "result.json") if scene.finished else "config.json"
    whole = (scene.run / name).read_text(encoding="utf-8")
    deep = 10**5
    what, content = scene.choose(
        ("100,000 brackets", "[" * deep + "]" * deep),
        ("100,000 braces", '{"a":' * deep + "1" + "}" * deep),
        ("open brackets", "[" * deep),
        ("a deep value", whole.rstrip().removesuffix("}") + ', "deep": ' + "[" * deep + "]" * deep + "}"),
        ("an integer of 100,000 digits", whole.rstrip().removesuffix("}") + ', "x": ' + "9" * deep + "}"),
        ("a float of 100,000 digits", whole.rstrip().removesuffix("}") + ', "x": 1.' + "9" * deep + "}"),
        ("20 MB of blanks", whole + " " * 20_000_000),
        ("a string of 20 MB", whole.rstrip().removesuffix("}") + ', "x": "' + "x" * 20_000_000 + '"}'),
        ("no object", scene.choose("[]", "null", "1", '"x"', "true", "NaN")),
        ("cut", whole[: scene.random.randrange(len(whole))]),
        ("another encoding", whole.encode("utf-16")),
        ("invalid UTF-8", whole.encode().replace(b"csv", b"\xff\xfe\x00")),
        ("a mark of byte order", b"\xef\xbb\xbf" + whole.encode()),
        ("a key twice", whole.rstrip().removesuffix("}") + ', "seed": 5, "format": 3, "data": {}}'),
        ("zero bytes", whole.replace("a", "\0")),
        ("lone surrogates", whole.replace("csv", "\\ud800")),
        ("empty", ""),
    )
    scene.write(name, content)
    return f"{name}: {what}"


def kinds(scene: Scene) -> str:
    """Write a value of another type at a random path."""
    name = scene.choose("config.json", "manifest.json", "result.json") if scene.finished else "config.json"
    content = scene.read(name)
    changes = []
    for _ in range(scene.choose(1, 1, 2, 5)):
        node: Any = content
        path: list[Any] = []
        while isinstance(node, dict | list) and node and (not path or scene.random.random() < 0.8):
            key = scene.choose(*(node if isinstance(node, dict) else range(len(node))))
            parent, path = node, [*path, key]
            node = node[key]
        if not path:
            break
        value = scene.choose(
            *(None, True, 0, -1, 2**70, 1e400, float("nan"), "", "x", [], {}, [[]], {"a": {}}, "x" * 10**4, [1] * 1000),
            *scene.random.sample(NAMES, 2),
        )
        parent[path[-1]] = value
        changes.append(f"{'.'.join(map(str, path))}={str(value)[:20]!r}")
    scene.write(name, json.dumps(content, indent=1))
    return f"{name}: {', '.join(changes)}"


ATTACKS = {architecture: 5, mechanism: 3, data_facts: 4, scaler: 2, listed_file: 2, result: 5, text: 3, kinds: 6}
"""Attacks through manifest.json or result.json, with their weights."""
