"""Parts of the model for a PyTorch model of one's own, with the defaults of the files in conf/."""

from typing import Any

from forecast import attention as mechanisms
from forecast.common.errors import InputError
from forecast.model.encoder import EncoderLayer
from forecast.model.informer import Informer
from forecast.model.presets import OPTIONS, Mechanisms, Sizes, build


def encoder_layer(
    attention: str = "full",
    *,
    d_model: int | None = None,
    num_heads: int | None = None,
    d_ff: int | None = None,
    dropout: float | None = None,
    norm_first: bool = True,
    max_key_length: int | None = None,
    **arguments: Any,
) -> EncoderLayer:
    """Build an encoder layer, self-attention and feed-forward: (B, L, d_model) to (B, L, d_model).

    Parameters
    ----------
    attention
        Name of the mechanism, with its `arguments`; those that are not given are the ones of its file.
    d_model, num_heads, d_ff, dropout
        As in `conf/model/patch_informer.yaml`; None: its value.
    norm_first
        Whether a LayerNorm precedes each part (pre-LN), or follows the sum (post-LN).
    max_key_length
        Largest L, for mechanisms with parameters per position.

    Examples
    --------
    >>> layer = encoder_layer("linear", d_model=32)
    >>> layer(torch.randn(8, 96, 32)).shape
    torch.Size([8, 96, 32])
    """
    given = {"d_model": d_model, "num_heads": num_heads, "d_ff": d_ff, "dropout": dropout}
    known = _defaults("patch_informer")
    sizes: dict[str, Any] = {name: known[name] if value is None else value for name, value in given.items()}
    width, heads = sizes["d_model"], sizes["num_heads"]
    layer = mechanisms.build(attention, d_model=width, num_heads=heads, max_key_length=max_key_length, **arguments)
    return EncoderLayer(layer, width, sizes["d_ff"], sizes["dropout"], norm_first=norm_first)


def informer(
    context_length: int,
    horizon: int,
    *,
    num_targets: int = 1,
    num_past_covariates: int = 0,
    num_known: int = 0,
    model: str = "patch_informer",
    attention: str | dict[str, Any] = "full",
    **options: Any,
) -> Informer:
    """Build a whole encoder-decoder that maps z-scores of a look-back to those of the horizon.

    Parameters
    ----------
    context_length, horizon
        T and h, in steps.
    num_targets, num_past_covariates
        Numbers of columns of the look-back, (B, T, targets + covariates).
    num_known
        F, the number of inputs known in advance, such as sine and cosine of the hour: (B, T, F) and (B, h, F).
    model
        patch_informer or informer, a file of `conf/model/`, whose other values `options` replace.
    attention
        Name of the mechanism of encoder and decoder, or a dict with its `name` and arguments.

    Examples
    --------
    >>> model = informer(96, 24, attention="probsparse", num_known=2)
    >>> past, known = torch.randn(8, 96, 1), torch.randn(8, 120, 2)
    >>> model(past, known[:, :96], known[:, 96:]).shape
    torch.Size([8, 24, 1])
    """
    if model not in OPTIONS:
        raise InputError(f"model {model!r} does not exist: choose one of {', '.join(OPTIONS)}")
    values = _defaults(model)
    chosen = {"name": attention} if isinstance(attention, str) else dict(attention)
    own = {**mechanisms.defaults(chosen["name"]), **chosen}
    full = {"name": "full", **mechanisms.defaults("full")}
    sizes = Sizes(num_targets, num_past_covariates, num_known, context_length, horizon)
    return build(sizes=sizes, mechanisms=Mechanisms(own, own, full), **{**values, **options})


def _defaults(preset: str) -> dict[str, Any]:
    """Return the options of a preset of conf/model."""
    from forecast.common.conf_files import configuration_folder, load_choice  # here: a forecast reads no such file

    return {str(key): value for key, value in load_choice(configuration_folder() / "model" / f"{preset}.yaml").items()}
