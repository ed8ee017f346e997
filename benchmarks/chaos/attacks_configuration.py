"""Attacks through config.json: targets, addresses, paths, interpolations, sizes, types."""

from typing import Any

from benchmarks.chaos.scene import SECRET, Scene

NODES = (
    *(("optimizer",), ("scheduler",), ("logger",), ("logger",)),
    *(("callbacks", "mine"), ("callbacks", "mine")),
    ("callbacks", "early_stopping"),
    ("callbacks", "learning_rate"),
    ("callbacks", "mine"),
    ("trainer", "plugins"),
    ("model",),
    ("data",),
    ("training",),
)
"""Nodes of a configuration that may have a `_target_`."""

OWN_CODE = ("outputs.evil.payload.X", "payload.X", "evil_module.X", "evil_package.X", "outputs.evil.payload:X")

CALLS: tuple[tuple[str, list[Any]], ...] = (
    ("os.system", ["touch {mark}"]),
    ("posix.system", ["touch {mark}"]),
    ("subprocess.run", [["touch", "{mark}"]]),
    ("subprocess.Popen", [["touch", "{mark}"]]),
    ("subprocess.check_output", ["touch {mark}"]),
    ("builtins.exec", ["open('{mark}', 'a').close()  # chaos_canary"]),
    ("builtins.eval", ["open('{mark}', 'a').close() or 'chaos_canary'"]),
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
    ("forecast.data.download.locate", ["x"]),
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
    ("lightning.pytorch.loggers.WandbLogger", []),
    ("lightning.pytorch.loggers.MLFlowLogger", []),
    ("lightning.pytorch.loggers.CometLogger", []),
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
"""Modules that the program never imports: an import of one is an effect of the attack."""


def own_code(scene: Scene) -> str:
    """Name a class in the run folder or in the current folder."""
    scene.plant()
    node, name = scene.choose(*NODES), scene.choose(*OWN_CODE)
    scene.edit("config.json", [*node, "_target_"], name)
    return f"{'.'.join(node)}._target_={name}"


def call(scene: Scene) -> str:
    """Name a function of a library, with arguments."""
    scene.plant()
    scene.modules |= set(RARE)
    node, (name, arguments) = scene.choose(*NODES), scene.choose(*CALLS)
    options: dict[str, Any] = {"_target_": name, "_args_": _filled(arguments, scene)}
    options |= scene.choose({}, {}, {"_partial_": True}, {"_recursive_": True}, {"_convert_": "all"})
    before = scene.read("config.json")
    for key in node:
        before = before.get(key) or {} if isinstance(before, dict) else {}
    scene.edit("config.json", node, scene.choose(options, {**before, **options}))
    return f"{'.'.join(node)} calls {name}"


def nested(scene: Scene) -> str:
    """Name a function in the arguments of an allowed target."""
    scene.plant()
    name, arguments = scene.choose(*CALLS)
    inner = {"_target_": name, "_args_": _filled(arguments, scene)}
    node = scene.choose(*NODES)
    key = scene.choose("monitor", "lr", "name", "betas", "x", "_args_", "warmup_fraction", "patience")
    scene.edit("config.json", [*node, key], scene.choose(inner, [inner], {"deep": [{"deeper": inner}]}))
    return f"{name} within {'.'.join(node)}.{key}"


def word(scene: Scene) -> str:
    """Use a module or a path as the name of a mechanism, a preset, a loss or a source."""
    scene.plant()
    scene.modules |= set(RARE)
    node = scene.choose(
        ("attention", "name"), ("decoder_attention", "name"), ("cross_attention", "name"), ("model", "name"),
        ("loss",), ("data", "source"), ("training", "precision"), ("trainer", "accelerator"),
        ("trainer", "strategy"), ("hydra", "launcher", "_target_"), ("_target_",), ("defaults",),
    )  # fmt: skip
    value = scene.choose(
        "payload", "..payload", "...outputs.evil.payload", "antigravity", "os", "__init__", "base", "_few", "../../x",
        "/etc/passwd", "full\n", "full.py", "", "eval", "__import__('os')", "payload:X", "torch.nn.functional",
    )  # fmt: skip
    scene.edit("config.json", node, value)
    return f"{'.'.join(node)}={value!r}"


def address(scene: Scene) -> str:
    """Set an address to download, and a file name outside the data folder."""
    url = scene.choose(
        scene.url(), scene.url("https"), scene.url("ftp"), f"file://{scene.outside}/secret.csv", "//127.0.0.1/x",
        f"http://127.0.0.1:{scene.port}@127.0.0.1:{scene.port}/", scene.url().upper(), "gopher://127.0.0.1:1/",
    )  # fmt: skip
    name = scene.choose(
        scene.escape("sitecustomize.py"), scene.escape("authorized_keys"), "a/b.csv", "..", ".", "", "x\n.csv",
        "etth1.csv", "x.csv", "~/x.csv", "outputs/evil/payload.py", "CON", "x" * 300, "ETTh1.csv",
    )  # fmt: skip
    data = scene.read("config.json")["data"]
    changes = {"source": "file", "path": None, "file_name": name, "url": url, "sha256": scene.choose(None, "0" * 64)}
    scene.edit("config.json", ["data"], {**data, **changes})
    return f"url {url[:60]!r}, file_name {name[:40]!r}"


def data_path(scene: Scene) -> str:
    """Use a private file, a device or an address as the table."""
    path = scene.choose(
        str(scene.outside / "secret.csv"), "../../../../outside/secret.csv", "/dev/zero", "/dev/stdin",
        "/proc/self/environ", scene.url(), "s3://bucket/x.csv", "memory://x.csv", f"file://{scene.outside}/secret.csv",
        "outputs/evil", "~/secret.csv", "*.csv", "|touch x", "x\0.csv", "/dev/tty", "\\\\host\\share\\x.csv",
    )  # fmt: skip
    scene.edit("config.json", ["data", "path"], path)
    return f"data.path={path!r}"


def logger(scene: Scene) -> str:
    """Let a logger write to another folder."""
    name, known = scene.choose(
        ("lightning.pytorch.loggers.CSVLogger", ["name", "version", "prefix"]),
        ("lightning.pytorch.loggers.CSVLogger", ["name"]),
        ("lightning.pytorch.loggers.TensorBoardLogger", ["name", "version", "sub_dir", "prefix"]),
        ("lightning.pytorch.loggers.TensorBoardLogger", ["sub_dir"]),
        ("lightning.pytorch.loggers.WandbLogger", ["name", "project"]),
        ("forecast.training.tensorboard.logger.Board", ["name", "sub_dir"]),
    )
    keys = scene.random.sample([*known, *scene.choose([], [], ["save_dir"], ["log_dir", "root_dir"])], 1)
    options = {"_target_": name, **{key: scene.choose(scene.escape(), f"${{oc.env:{SECRET}}}") for key in keys}}
    scene.edit("config.json", ["logger"], options)
    return f"logger {options}"


def interpolation(scene: Scene) -> str:
    """Use an interpolation: from the environment, from another key, from itself."""
    value = scene.choose(
        f"${{oc.env:{SECRET}}}", f"x${{oc.env:{SECRET}}}x", "${oc.env:ABSENT}", "${oc.env:HOME}/x", "${data.name}",
        "${oc.decode:'[1,2]'}", "${oc.create:{a:1}}", "${hydra:runtime.cwd}", "${.}", "${..}", "${", "${a:b:c}",
        f"${{oc.select:x,${{oc.env:{SECRET}}}}}", "${now:%Y}", "${oc.dict.keys:data}", "${output_dir}", "???",
    )  # fmt: skip
    node = scene.choose(
        ("logger", "name"), ("data", "name"), ("data", "path"), ("output_dir",),
        ("callbacks", "early_stopping", "monitor"),
        ("data", "targets"), ("model", "d_model"), ("optimizer", "lr"), ("loss",), ("data", "time_column"), ("seed",),
        ("trainer", "default_root_dir"), ("callbacks", "mine", "dirpath"), ("training", "max_time"), ("sweep", "name"),
    )  # fmt: skip
    scene.edit("config.json", node, value)
    return f"{'.'.join(node)}={value}"


def place_of_writing(scene: Scene) -> str:
    """Set another folder for the output."""
    node, value = scene.choose(
        (("output_dir",), scene.escape()),
        (("resume",), scene.escape()),
        (("sweep", "name"), scene.escape()),
        (
            ("data", "name"),
            scene.choose(scene.escape(), "x" * 300, "a\nb", "\x1b[31m", "=1+1", "<script>alert(1)</script>"),
        ),
        (("trainer", "default_root_dir"), str(scene.outside)),
        (("hydra", "run", "dir"), str(scene.outside)),
        (("hydra", "sweep", "dir"), str(scene.outside)),
    )
    scene.edit("config.json", node, value)
    return f"{'.'.join(node)}={value[:60]!r}"


def callback(scene: Scene) -> str:
    """Use a Lightning callback that writes to a given path."""
    name = scene.choose(
        *("ModelCheckpoint", "OnExceptionCheckpoint", "DeviceStatsMonitor", "ModelSummary", "BatchSizeFinder"),
        *("StochasticWeightAveraging", "LearningRateFinder", "GarbageCollection", "BasePredictionWriter", "Callback"),
    )
    places = {key: scene.escape() for key in scene.random.sample(["dirpath", "filename", "output_dir", "file"], 2)}
    options = {"_target_": f"lightning.pytorch.callbacks.{name}", **scene.choose({}, places, places)}
    scene.edit("config.json", ["callbacks", "mine"], options)
    return f"callbacks.mine {options}"


def trainer_option(scene: Scene) -> str:
    """Set options of the trainer that only code should set."""
    key, value = scene.choose(
        *(("plugins", [{"_target_": "os.abort"}]), ("strategy", "ddp_spawn"), ("devices", 10**6), ("devices", -1)),
        *(("num_nodes", 10**6), ("log_every_n_steps", 0), ("log_every_n_steps", -1), ("accelerator", "tpu")),
        *(("profiler", "pytorch"), ("fast_dev_run", True), ("max_steps", -1), ("callbacks", ["x"])),
        *(("enable_checkpointing", True), ("default_root_dir", "../../.."), ("detect_anomaly", True)),
        *(("devices", [0] * 10**5), ("devices", "9" * 50), ("num_nodes", 2**70), ("use_distributed_sampler", 1)),
    )
    scene.edit("config.json", ["trainer", key], value)
    return f"trainer.{key}={str(value)[:40]}"


SIZES: tuple[Any, ...] = (
    *(10**5, 10**6, 10**9, 2**31, 2**40, 2**63, 2**70, 10**30, -1, 0, -(10**9), 1.5, 1e9, 1e300, "64", True, None),
    *([], {}, float("nan"), float("inf"), "1e9", [10**9], 2**20),
)
"""Values instead of a size."""


ENORMOUS = (10**5, 10**6, 10**9, 2**31, 2**40, 2**70) * 3
"""Sizes that would use all memory or time."""


def size(scene: Scene) -> str:
    """Set an enormous or an impossible size."""
    node = scene.choose(
        ("model", "encoder_layers"), ("model", "decoder_layers"), ("model", "d_model"), ("model", "d_ff"),
        ("model", "num_heads"), ("model", "patch_length"), ("model", "stride"), ("model", "head_dim"),
        ("model", "dropout"), ("context_length",), ("horizon",), ("seed",), ("training", "batch_size"),
        ("training", "evaluation_batch_size"), ("training", "evaluation_stride"), ("training", "first_origin"),
        ("training", "validations_per_epoch"), ("training", "checkpoint_minutes"), ("training", "mixing_prior"),
        ("training", "max_grad_norm"), ("training", "start_confidence"), ("data", "rows"), ("data", "split", "train"),
        ("callbacks", "probe", "windows"), ("optimizer", "lr"), ("optimizer", "weight_decay"),
        ("scheduler", "warmup_fraction"), ("attention", "factor"), ("callbacks", "early_stopping", "patience"),
    )  # fmt: skip
    value = scene.choose(*SIZES, *ENORMOUS)
    if node == ("callbacks", "probe", "windows"):
        scene.edit("config.json", ["callbacks", "probe", "_target_"], "forecast.training.callbacks.probe.Probe")
    scene.edit("config.json", node, value)
    return f"{'.'.join(node)}={str(value)[:40]}"


ATTACKS = {
    own_code: 3, call: 5, nested: 2, word: 3, address: 4, data_path: 3, logger: 3, interpolation: 3,
    place_of_writing: 2, callback: 2, trainer_option: 2, size: 5,
}  # fmt: skip
"""Attacks through config.json, with their weights."""


def _filled(node: Any, scene: Scene) -> Any:
    """Insert the paths of the scene into the strings of `node`."""
    if isinstance(node, str):
        for name, value in (("mark", scene.mark), ("outside", scene.outside), ("url", scene.url())):
            node = node.replace(f"{{{name}}}", str(value))
        return node
    if isinstance(node, dict):
        return {key: _filled(value, scene) for key, value in node.items()}
    return [_filled(value, scene) for value in node] if isinstance(node, list) else node
