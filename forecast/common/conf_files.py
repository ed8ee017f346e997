"""The files of `conf/`, their options, and suggestions for unknown options.

A file whose name begins with `_` is a base of other files, not a choice.
"""

from collections.abc import Collection, Sequence
from difflib import SequenceMatcher
from functools import cache
from pathlib import Path

from omegaconf import DictConfig, OmegaConf


def configuration_folder() -> Path:
    """Return the configuration folder: inside an installed package, next to the package in a checkout."""
    package = Path(__file__).resolve().parents[1]
    inside = package / "conf"
    return inside if inside.is_dir() else package.parent / "conf"


def choice_files(group: str) -> list[Path]:
    """Return the files of a group's choices, in alphabetical order."""
    return [file for file in sorted((configuration_folder() / group).glob("*.yaml")) if not file.stem.startswith("_")]


def load_choice(file: Path) -> DictConfig:
    """Return the options of a choice, including those of its base files."""
    content = OmegaConf.load(file)
    assert isinstance(content, DictConfig)
    bases = [name for name in content.pop("defaults", []) if isinstance(name, str) and name != "_self_"]
    merged = OmegaConf.merge(*(OmegaConf.load(file.with_name(f"{name}.yaml")) for name in bases), content)
    assert isinstance(merged, DictConfig)
    return merged


SYNONYMS = {
    "training.max_epochs": "epoch epochs n_epochs num_epochs train_epochs",
    "training.max_steps": "steps iterations num_steps train_steps",
    "training.max_time": "time time_limit minutes",
    "training.batch_size": "batch batchsize train_batch_size",
    "training.evaluation_batch_size": "eval_batch_size val_batch_size test_batch_size",
    "training.mixing_prior": "share_prior",
    "training.max_grad_norm": "grad_clip clip gradient_clip_val clip_grad_norm",
    "training.precision": "amp dtype fp16 bf16 use_amp",
    "training.progress": "progress_bar verbose enable_progress_bar",
    "trainer.accelerator": "device gpu cuda use_gpu",
    "trainer.devices": "gpus num_gpus workers num_processes",
    "optimizer.lr": "learning_rate lrate max_lr",
    "optimizer.weight_decay": "wd decay",
    "callbacks.early_stopping.patience": "early_stopping",
    "context_length": "lookback look_back seq_len input_length input_size input_chunk_length history window_size",
    "horizon": "pred_len prediction_length forecast_length output_length output_size output_chunk_length steps_ahead h",
    "model.start_length": "label_len label_length",
    "model.num_heads": "heads n_heads nhead attention_heads",
    "model.encoder_layers": "layers e_layers num_layers n_layers num_encoder_layers",
    "model.decoder_layers": "d_layers num_decoder_layers",
    "model.d_model": "width hidden_size hidden_dim dim",
    "model.d_ff": "ffn_dim dim_feedforward",
    "model.patch_length": "patch patch_len patch_size",
    "data.path": "file csv filename data_path root_path dataset_path",
    "data.targets": "target target_column y columns",
    "data.time_column": "timestamp datetime ds date_column",
    "data.frequency": "freq interval resolution",
    "data.past_covariates": "covariates exogenous hist_exog hist_exog_list",
    "data.known_covariates": "covariates exogenous future_covariates futr_exog futr_exog_list known_reals regressors",
    "data.static_covariates": "static_features stat_exog stat_exog_list static_reals static_categoricals",
    "data.categorical": "categories categoricals cat_features",
    "data.holidays": "holiday country country_holidays",
    "data.calendar": "seasonality time_features",
    "data.date_format": "datetime_format strptime",
    "data.time_zone": "timezone tz",
    "data.missing": "nan fillna impute",
    "data.name": "dataset run_name experiment_name",
    "seed": "random_seed random_state",
    "output_dir": "output out out_dir results_dir checkpoints",
    "resume": "checkpoint ckpt_path resume_from",
    "attention": "attn mechanism",
}
"""Names of an option in other programs, by option; the last part of an unknown name is looked up here."""

CLOSE = 0.7
"""Smallest `difflib` ratio at which a word counts as a misspelt option."""

SHOWN = 3
"""Largest number of options in a message."""

HYDRA_KEYS = ("defaults", "hydra")
"""Root keys that are not options of a run."""


@cache
def option_files() -> dict[str, list[str]]:
    """Return the options of `conf/`: dotted name → the choices that have it (`model=informer`), empty at the root.

    The groups `decoder_attention` and `cross_attention` have the choices of `attention`.
    """
    folder = configuration_folder()
    root = OmegaConf.load(folder / "config.yaml")
    assert isinstance(root, DictConfig)
    options: dict[str, list[str]] = {str(name): [] for name in _paths(root) if name.split(".")[0] not in HYDRA_KEYS}
    for group in sorted(path.name for path in folder.iterdir() if path.is_dir()):
        options.setdefault(group, [])
        for file in choice_files(group):
            if not file.read_text(encoding="utf-8").startswith("# @package _global_"):
                for name in _paths(load_choice(file)):
                    options.setdefault(f"{group}.{name}", []).append(f"{group}={file.stem}")
    for place in ("decoder_attention", "cross_attention"):
        for name, choices in [(name, choices) for name, choices in options.items() if name.startswith("attention.")]:
            options[place + name.removeprefix("attention")] = [f"attention@{place}={word[10:]}" for word in choices]
    return options


def about_option(name: str) -> str:
    """Return the advice for an option that is not in the composed configuration."""
    if name.startswith("hydra."):
        return "Hydra has no such option"
    known = option_files()
    if choices := known.get(name):
        others = f" and {len(choices) - 1} more have" if len(choices) > SHOWN else " has"
        named = choices[0] if len(choices) > SHOWN else listed(choices)
        return f"the chosen {name.split('.')[0]} has no such option: {named}{others} it"
    if near := nearest_options(name):
        return f"no such option: did you mean {listed(near)}?"
    return "no such option: python train.py --help lists the common ones, python train.py --cfg job all"


def nearest_options(name: str) -> list[str]:
    """Return at most three options similar to a word, the likeliest first."""
    last = name.rsplit(".", 1)[-1].lower()
    if meant := [option for option, others in SYNONYMS.items() if last in others.split()]:
        return meant[:SHOWN]
    known = [option for option in option_files() if _is_place(option, name) and not option.endswith("_target_")]
    if same := [option for option in known if option.rsplit(".", 1)[-1] == last and option != name]:
        return same[:SHOWN]
    scores = {option: _likeness(name.lower(), option) for option in known}
    best = max(scores.values())
    near = sorted((option for option in known if scores[option] >= max(CLOSE, best - 0.05)), key=lambda o: -scores[o])
    return near[:SHOWN]


def nearest_choice(group: str, name: str, choices: Collection[str]) -> str:
    """Return a question that suggests the nearest choices of a group, empty if no choice is near."""
    scores = {choice: SequenceMatcher(None, name.lower(), choice).ratio() for choice in choices}
    best = max(scores.values(), default=0.0)
    near = [f"{group}={choice}" for choice in sorted(choices) if scores[choice] >= max(CLOSE, best - 0.05)]
    return f"did you mean {listed(near[:SHOWN])}?" if near else ""


def listed(names: Sequence[str]) -> str:
    """Join names as in a sentence: a, b or c."""
    return names[0] if len(names) == 1 else f"{', '.join(names[:-1])} or {names[-1]}"


def _paths(config: object, prefix: str = "") -> list[str]:
    assert isinstance(config, DictConfig)
    names = []
    for key in map(str, config):
        names.append(f"{prefix}{key}")
        node = config._get_node(key)
        if isinstance(node, DictConfig) and not node._is_missing() and not node._is_none():
            names += _paths(node, f"{prefix}{key}.")
    return names


def _is_place(option: str, name: str) -> bool:
    """Return whether an option is a candidate: decoder and cross-attention only if the word names them."""
    place = option.split(".")[0]
    return place not in ("decoder_attention", "cross_attention") or name.startswith(place)


def _likeness(name: str, option: str) -> float:
    whole = SequenceMatcher(None, name, option).ratio()
    (group, _, last), (option_group, _, option_last) = name.rpartition("."), option.rpartition(".")
    if group and group != option_group:
        return whole
    return max(whole, SequenceMatcher(None, last, option_last).ratio())
