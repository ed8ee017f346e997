"""Attacks of a run folder on the command that reads it: values of its JSON files, and files in its place."""

from collections.abc import Iterator, Sequence
from itertools import cycle
from typing import Any

from tests.support.guard import TOKEN

MARK, OUTSIDE, URL, SECRET = "{mark}", "{outside}", "{url}", "ATTACK_SECRET"
"""Words in a value for a file that no command may make, a private folder, and an address that none may ask, and the
name of an environment variable that none may read."""

Edit = tuple[Sequence[str | int], Any]
"""Path in a JSON file, and the value to put there."""

PAYLOADS = ("outputs.evil.payload.X", "payload.X", "evil_module.X", "evil_package.X", "outputs.evil.payload:X")
"""Names of a class in the run folder or in the current folder."""

CALLS: tuple[tuple[str, list[Any]], ...] = (
    ("os.system", ["touch {mark}"]),
    ("posix.system", ["touch {mark}"]),
    ("subprocess.run", [["touch", "{mark}"]]),
    ("subprocess.Popen", [["touch", "{mark}"]]),
    ("subprocess.check_output", ["touch {mark}"]),
    ("builtins.exec", [f"open('{{mark}}', 'a').close()  # {TOKEN}"]),
    ("builtins.eval", [f"open('{{mark}}', 'a').close() or '{TOKEN}'"]),
    ("builtins.open", ["{mark}", "a"]),
    ("runpy.run_path", ["outputs/evil/payload.py"]),
    ("runpy.run_module", ["payload"]),
    ("importlib.import_module", ["payload"]),
    ("builtins.__import__", ["payload"]),
    ("pydoc.locate", ["payload.X"]),
    ("pkgutil.resolve_name", ["payload.X"]),
    ("hydra.utils.get_class", ["payload.X"]),
    ("hydra.utils.instantiate", [{"_target_": "os.system", "_args_": ["touch {mark}"]}]),
    ("hydra._internal.utils._locate", ["payload.X"]),
    ("torch.load", ["outputs/evil/payload.pt"]),
    ("torch.hub.load", ["outputs/evil", "x"]),
    ("torch.utils.cpp_extension.load", ["payload", ["payload.cpp"]]),
    ("pickle.load", ["outputs/evil/payload.pt"]),
    ("shutil.rmtree", ["{outside}"]),
    ("os.remove", ["{outside}/secret.csv"]),
    ("os.makedirs", ["{outside}/made"]),
    ("pathlib.Path.write_text", ["{mark}", "x"]),
    ("forecast.common.files.write_json", ["{mark}", 1]),
    ("forecast.training.train.train", [{}]),
    ("forecast.tables.download.locate", ["x"]),
    ("urllib.request.urlopen", ["{url}"]),
    ("socket.create_connection", [["127.0.0.1", 1]]),
    ("webbrowser.open", ["{url}"]),
    ("antigravity.geohash", [1.0, 1.0, "x"]),
    ("this.s", []),
    ("pty.spawn", ["true"]),
    ("code.interact", []),
    ("time.sleep", [1000000]),
    ("signal.pause", []),
    ("sys.exit", [77]),
    ("os._exit", [77]),
    ("os.abort", []),
    *((f"lightning.pytorch.loggers.{name}", []) for name in ("WandbLogger", "MLFlowLogger", "CometLogger")),
    ("lightning.pytorch.callbacks.LambdaCallback", []),
    ("lightning.pytorch.callbacks.Timer", [{"seconds": 1}]),
    ("lightning.pytorch.Trainer", []),
    ("torch.optim.LBFGS", []),
    ("torch.optim.Optimizer", []),
    ("torch.nn.Linear", [10**6, 10**6]),
    ("numpy.zeros", [10**11]),
    ("numpy.fromfile", ["{outside}/secret.csv"]),
    ("builtins.bytearray", [2**40]),
)
"""Targets with their arguments."""

RARE = ("antigravity", "this", "pty", "turtledemo", "idlelib", "wandb", "mlflow", "comet_ml", "neptune", "webbrowser")
"""Modules that the program never imports: an import of one is an effect of an attack."""

NODES = [
    *(["optimizer"], ["scheduler"], ["logger"], ["callbacks", "mine"], ["callbacks", "early_stopping"]),
    *(["callbacks", "figures"], ["trainer", "plugins"], ["model"], ["data"], ["training"]),
]
"""Nodes of a configuration that may have a `_target_`."""

WORDS = [
    *("payload", "..payload", "...outputs.evil.payload", "antigravity", "os", "__init__", "base", "_few", "../../x"),
    *("/etc/passwd", "full\n", "full.py", "", "eval", "__import__('os')", "payload:X", "torch.nn.functional"),
]
WORD_NODES = [
    *(["attention", "name"], ["decoder_attention", "name"], ["cross_attention", "name"], ["model", "name"], ["loss"]),
    *(["data", "source"], ["training", "precision"], ["trainer", "accelerator"], ["trainer", "strategy"]),
    *(["hydra", "launcher", "_target_"], ["_target_"], ["defaults"]),
]
"""Names of a mechanism, a preset, a loss or a source."""

URLS = [
    *("{url}", "https://127.0.0.1:9/x", "ftp://127.0.0.1:9/x", "file://{outside}/secret.csv", "//127.0.0.1/x"),
    *("http://127.0.0.1:9@127.0.0.1:9/", "HTTP://127.0.0.1:9/X", "gopher://127.0.0.1:1/"),
]
FILE_NAMES = [
    "etth1.csv",
    "ETTh1.csv",
    "x.csv",
    "",
    ".",
    "x\n.csv",
    "~/x.csv",
    "outputs/evil/payload.py",
    "CON",
    "x" * 300,
]

TABLES = [
    *("/dev/zero", "/dev/stdin", "/proc/self/environ", "{url}", "s3://bucket/x.csv", "memory://x.csv", "/dev/tty"),
    *("file://{outside}/secret.csv", "{outside}/secret.csv", "outputs/evil", "~/secret.csv", "*.csv", "|touch x"),
    *("x\0.csv", "\\\\host\\share\\x.csv"),
]
"""Paths of the table: private files, devices and addresses."""

INTERPOLATIONS = [
    *(f"${{oc.env:{SECRET}}}", f"x${{oc.env:{SECRET}}}x", "${oc.env:ABSENT}", "${oc.env:HOME}/x", "${data.name}"),
    *("${oc.decode:'[1,2]'}", "${oc.create:{a:1}}", "${hydra:runtime.cwd}", "${.}", "${..}", "${", "${a:b:c}"),
    *(f"${{oc.select:x,${{oc.env:{SECRET}}}}}", "${now:%Y}", "${oc.dict.keys:data}", "${output_dir}", "???"),
]
INTERPOLATED = [
    *(
        ["logger", "name"],
        ["data", "name"],
        ["data", "path"],
        ["output_dir"],
        ["callbacks", "early_stopping", "monitor"],
    ),
    *(["data", "targets"], ["model", "d_model"], ["optimizer", "lr"], ["loss"], ["data", "time_column"], ["seed"]),
    *(["trainer", "default_root_dir"], ["callbacks", "mine", "dirpath"], ["training", "max_time"], ["sweep", "name"]),
]

ESCAPE = "../../../../ESCAPED"

LOGGERS = [
    *({"_target_": "lightning.pytorch.loggers.CSVLogger", key: ESCAPE} for key in ("version", "prefix", "save_dir")),
    *({"_target_": "lightning.pytorch.loggers.TensorBoardLogger", key: ESCAPE} for key in ("sub_dir", "log_dir")),
    *({"_target_": "forecast.training.tensorboard.logger.Board", key: ESCAPE} for key in ("name", "sub_dir")),
]

PLACES: list[Edit] = [
    (["output_dir"], ESCAPE), (["output_dir"], "{outside}"), (["resume"], ESCAPE), (["sweep", "name"], ESCAPE),
    (["trainer", "default_root_dir"], "{outside}"), (["hydra", "run", "dir"], "{outside}"),
    (["hydra", "sweep", "dir"], "{outside}"),
    *((["data", "name"], name) for name in (ESCAPE, "x" * 300, "a\nb", "\x1b[31m", "<script>alert(1)</script>")),
]  # fmt: skip
"""Places of writing."""

CALLBACKS = [
    *("ModelCheckpoint", "DeviceStatsMonitor", "ModelSummary", "BatchSizeFinder", "StochasticWeightAveraging"),
    *("LearningRateFinder", "GarbageCollection", "BasePredictionWriter", "Callback"),
]

TRAINER: list[tuple[str, Any]] = [
    ("plugins", [{"_target_": "os.abort"}]), ("strategy", "ddp_spawn"), ("devices", -1), ("log_every_n_steps", 0),
    ("log_every_n_steps", -1), ("accelerator", "tpu"), ("profiler", "pytorch"), ("fast_dev_run", True),
    ("max_steps", -1), ("callbacks", ["x"]), ("enable_checkpointing", True), ("default_root_dir", "../../.."),
    ("detect_anomaly", True), ("devices", [0] * 10**5), ("devices", "9" * 50), ("num_nodes", 2**70),
    ("use_distributed_sampler", 1),
]  # fmt: skip
"""Options of the trainer that only code should set."""

SIZED = [
    *(["model", name] for name in ("encoder_layers", "decoder_layers", "d_model", "d_ff", "num_heads", "patch_length")),
    *(["model", name] for name in ("stride", "head_dim", "dropout")),
    *(["training", name] for name in ("batch_size", "evaluation_batch_size", "evaluation_stride", "first_origin")),
    *(["training", name] for name in ("validations_per_epoch", "checkpoint_minutes", "mixing_prior", "max_grad_norm")),
    *(["context_length"], ["horizon"], ["seed"], ["training", "start_confidence"], ["data", "rows"]),
    *(["data", "split", "train"], ["callbacks", "probe", "windows"], ["optimizer", "lr"], ["attention", "factor"]),
    *(["optimizer", "weight_decay"], ["scheduler", "warmup_fraction"], ["callbacks", "early_stopping", "patience"]),
]
SIZES: list[Any] = [
    *(10**5, 10**6, 10**400),
    *(10**9, 2**31, 2**40, 2**63, 2**70, 10**30, -1, 0, -(10**9), 1.5, 1e9, 1e300, "64", True, None, [], {}, "1e9"),
    *(float("nan"), float("inf"), [10**9]),
]
"""Values for a size, most of them enormous or impossible."""

STRANGE = [
    *("=cmd|' /C calc'!A0", "@SUM(1)", "\t=1", "\x1b]0;title\x07", "a\nb", "\0", "<script>alert(1)</script>", "", " "),
    *("x" * 10**5, "\u202etxt", "../../x", f"${{oc.env:{SECRET}}}", "$(touch x)", '"; rm -rf x', "{{7*7}}", "%s%n"),
    "\ud800",
]
"""Names that a spreadsheet, a terminal, a browser or a shell would interpret."""

KINDS: list[Any] = [
    *(None, True, 0, -1, 2**70, float("inf"), float("nan"), "", "x", [], {}, [[]], {"a": {}}, "x" * 10**4, [1] * 1000),
]
"""Values that replace those of another type."""


def in_turn(paths: Sequence[Sequence[str | int]], values: Sequence[Any]) -> list[Edit]:
    """Return pairs of a path and a value, in which each path and each value occurs at least once."""
    count = max(len(paths), len(values))
    return [(paths[place % len(paths)], values[place % len(values)]) for place in range(count)]


def leaves(node: Any, path: tuple[str | int, ...] = ()) -> Iterator[tuple[str | int, ...]]:
    """Yield the path of every group, list and value below a node."""
    if path:
        yield path
    if isinstance(node, dict | list):
        for key, value in node.items() if isinstance(node, dict) else enumerate(node[:2]):
            yield from leaves(value, (*path, key))


def filled(node: Any, words: dict[str, str]) -> Any:
    """Return a value with paths and addresses of the scene for the words in braces."""
    if isinstance(node, str):
        for word, value in words.items():
            node = node.replace(word, value)
        return node
    if isinstance(node, dict):
        return {filled(key, words): filled(value, words) for key, value in node.items()}
    return [filled(value, words) for value in node] if isinstance(node, list) else node


CONFIGURATION: list[Edit] = [
    *(([*node, "_target_"], name) for node, name in in_turn(NODES[6:], PAYLOADS)),
    *((node, {"_target_": name, "_args_": values}) for node, (name, values) in in_turn(NODES, CALLS)),
    *in_turn(WORD_NODES, WORDS),
    *((["data"], {"source": "file", "path": None, "file_name": name, "url": url, "sha256": "0" * 64})
      for name, url in in_turn(FILE_NAMES, URLS)),
    *((["data"], {"source": "file", "path": path}) for path in TABLES),
    *in_turn(INTERPOLATED, INTERPOLATIONS),
    *((["logger"], options) for options in LOGGERS),
    *PLACES,
    *((["callbacks", "mine"], {"_target_": f"lightning.pytorch.callbacks.{name}"}) for name in CALLBACKS),
    *((["callbacks", "mine"], {"_target_": f"lightning.pytorch.callbacks.{name}", "dirpath": ESCAPE})
      for name in CALLBACKS),
    *((["trainer", key], value) for key, value in TRAINER),
    *in_turn(SIZED, SIZES),
]  # fmt: skip
"""Attacks through config.json of an unfinished run."""

MORE: list[Edit] = [
    *(([*node, key], [{"deep": {"_target_": name, "_args_": values}}])
      for (node, (name, values)), key in zip(in_turn(NODES[::-1], CALLS), cycle(["monitor", "lr", "betas", "_args_"]))),
    *((path, value) for path in SIZED for value in (2**70, -1, 0, "64", float("nan"))),
]  # fmt: skip
"""Combinations of the same parts."""


MANIFEST: list[Edit] = [
    *in_turn([["data", "targets", 0], ["data", "time_column"], ["data", "past_covariates", 0]], STRANGE),
    *((["data", "targets"], value) for value in (["load"] * 10**5, [None, 1])),
    (["data", "past_covariates"], ["x"] * 10**6),
    *((["data", "frequency"], value) for value in ("1ns", "999999999D", "-1h", "0h", "ME", "h" * 10**5, "1e9YE")),
    *((["data", "shown_frequency"], value) for value in ("1ns", "x", -1, "999999999D")),
    *((["data", "time_zone"], zone) for zone in ("../../../../../etc/passwd", "/etc/passwd", "UTC\0", 7, "a" * 10**5)),
    *((["data", "cycles"], value) for value in (["hour_of_day"] * 10**6, ["__class__"], "hour_of_day")),
    *((["scaler", "mean", 0], value) for value in (float("nan"), float("inf"), 1e308, 10**400, 1e38, True)),
    *((["scaler", "scale", 0], value) for value in (float("nan"), float("inf"), 1e308, -1.0, 1e-320, 1e38)),
    (["scaler", "mean"], [1.0] * 10**6),
    *((["validation_mse", "model"], value) for value in (10**400, "x", -1)),
    *((path, 10**400) for path in (["calibration", "windows"], ["calibration", "test_coverage", "80"])),
    *((path, 10**400) for path in (["limits", "lower", 0], ["training_range", "lowest", 0])),
    *((["files", name], {"bytes": 1, "sha256": "0" * 64}) for name in ("{outside}/secret.csv", "/dev/zero", "..", "")),
    *((["files", name], {}) for name in ("checkpoints", "x\0", "model.safetensors/x", "/proc/self/mem", "x" * 5000)),
    (["files", "model.safetensors"], {"bytes": 2**70, "sha256": None}),
]  # fmt: skip
"""Attacks through manifest.json, besides those of `predict/test_opening.py` and `tests/common/test_bounds.py`."""

RESULT: list[Edit] = [
    *in_turn([["data", "name"], ["config", "attention", "name"], ["data", "targets", 0], ["command"]], STRANGE),
    (["device"], "\x1b[31m"),
    *((["data", "path"], path) for path in ("/dev/zero", "/dev/stdin", "{outside}/secret.csv", "/proc/self/mem")),
    (["data", "targets"], ["x"] * 10**5),
    (["command"], "x\n\n# <script>alert(1)</script>" * 10**4),
    *((["config", key], value) for key in ("context_length", "horizon") for value in (2**70, -1, 0)),
    *((["test", "scaled", "mse"], value) for value in (float("nan"), float("inf"), -1, 1e308, 2**2000)),
    *((["speed", "fit_seconds"], value) for value in (float("nan"), -1, 10**400)),
    *((["model", "parameters"], value) for value in (2**70, -1, 0)),
    *((["test", "by_step"], value) for value in ([], [{}] * 10**5)),
    *((["baselines"], value) for value in ({}, {"x": {}})),
]  # fmt: skip
"""Attacks through result.json, besides the values of another type in `tests/runs/test_result_kinds.py`."""


def plant(content: Any, path: Sequence[str | int], value: Any) -> Any:
    """Put a value into a JSON content, a group into that of its name; create missing groups."""
    node = content
    for key in path[:-1]:
        if isinstance(node, dict) and not isinstance(node.get(key), dict | list):
            node[key] = {}
        node = node[key]
    old = node[path[-1]] if not isinstance(node, dict) else node.get(path[-1])
    node[path[-1]] = {**old, **value} if isinstance(old, dict) and isinstance(value, dict) and value else value
    return content


def text_of(edit: Edit) -> str:
    """Return a readable name of an edit."""
    path, value = edit
    shown = value["_target_"] if isinstance(value, dict) and "_target_" in value else value
    shown = shown[:40] if isinstance(shown, str | list) else shown
    return f"{'.'.join(map(str, path))}={shown!r}"[:70].encode("ascii", "backslashreplace").decode()
