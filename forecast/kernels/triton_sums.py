"""Sums over the keys and their means for the queries, as kernels in Triton: `linear`, `efficient` and `taylor`.

Forward, one kernel sums features of keys times values, φ(K)ᵀV, over parts of the length. A short kernel adds the parts
where there are several. The last kernel multiplies the features of the queries by the sums and divides. The backward
pass has one kernel over the queries, for their gradient and that of the sums, the short one, and one over the keys. The
features stay in registers: apart from inputs and outputs, only the sums are stored.

The state of a head is one row of float32: the sums (E, V), their divisors (E,), the largest keys (E,), the sum of the
values (V,) and the count of keys. With a softmax over positions the divisors become their logarithms, and the sums
means. For `taylor` the sums are relative to the mean of the values, which replaces their sum.
"""

import math
from collections.abc import Callable
from typing import Any

import torch
import triton
import triton.language as tl
from torch import Tensor

from forecast.kernels.triton_rows import (
    REDUCED_ELEMENTS,
    Split,
    Tiles,
    head_of,
    heads_first,
    load_rows,
    mask_or,
    on_its_device,
    power_of_two,
    precision_of,
    product,
    program_rows,
    rounded,
    rows_from,
    split_of,
    store_rows,
    tiles_of,
)

# As in linear.py and taylor.py of forecast/attention, whose equations these kernels compute.
LOWEST_KEY = tl.constexpr(-110.0)
ROOT_OF_KEY_FACTOR = tl.constexpr(math.exp(20.0))
SMALL = tl.constexpr(-37.0)
SMALLEST_MEAN_WEIGHT = tl.constexpr(1e-4)
SMALLEST_LENGTH = tl.constexpr(1e-12)
TINY = tl.constexpr(torch.finfo(torch.float32).tiny)

SPLIT_PRECISION = ("relu", "taylor")
"""Features whose weights may nearly cancel: bfloat16 would dominate them, so products have 16 bits."""

ALIGNMENT = 32
"""The size of a state is a multiple of this many numbers."""


@triton.jit
def _logarithm_of_one_plus(x):
    """Return log(1 + x) for x from 0 to 1; the quotient corrects the rounding of 1 + x."""
    one_plus = 1.0 + x
    return tl.where(one_plus == 1.0, x, tl.log(one_plus) * x / tl.where(one_plus == 1.0, 1.0, one_plus - 1.0))


@triton.jit
def _shifted_exponential(x, shift, IS_SCALED_KEY: tl.constexpr):
    """Return exp(x + shift), where the shift of keys is 40: adding it would cost five bits of x."""
    if IS_SCALED_KEY:
        root = tl.exp(0.5 * x) * ROOT_OF_KEY_FACTOR
        exponential = root * root
    else:
        exponential = tl.exp(x + shift)
    return exponential


@triton.jit
def _map(x, shift, factor, FEATURES: tl.constexpr, IS_SCALED_KEY: tl.constexpr):
    """Return φ(x) e^shift and its derivative, where `factor` is e^shift, or any factor of relu."""
    if FEATURES == "relu":
        features, slope = tl.maximum(x, 0.0) * factor, tl.where(x > 0, factor, 0.0)
    else:
        below = _shifted_exponential(tl.minimum(x, 0.0), shift, IS_SCALED_KEY)
        if FEATURES == "elu":
            features = below + tl.maximum(x, 0.0) * factor
            slope = tl.minimum(features, factor)
        else:
            small = tl.exp(-tl.abs(x))
            usual = (tl.maximum(x, 0.0) + _logarithm_of_one_plus(small)) * factor
            features = tl.where(x < SMALL, below, usual)
            slope = tl.where(x < 0, below, factor) / (1.0 + small)
    return features, slope


@triton.jit
def _unit(x):
    """Return rows scaled to length 1, and the inverse length; 0 for those that count as zero."""
    length = tl.sqrt(tl.sum(x * x, axis=1))[:, None]
    inverse = tl.where(length > SMALLEST_LENGTH, 1.0 / tl.maximum(length, SMALLEST_LENGTH), 0.0)
    return x * inverse, inverse


@triton.jit
def _query_features(query, is_column, logarithms, scale, FEATURES: tl.constexpr, NORMALIZE: tl.constexpr):
    """Return features of queries, zero beyond the width, and what `_through_features` needs."""
    if FEATURES == "taylor":
        features, slope = _unit(query)
    elif FEATURES == "exp" or FEATURES == "softmax":
        exponents = query + logarithms[None, :] if FEATURES == "exp" else query
        exponents = tl.where(is_column[None, :], exponents, -float("inf"))
        if NORMALIZE:
            features = tl.exp(exponents - tl.max(exponents, axis=1)[:, None])
            features = features / tl.sum(features, axis=1)[:, None] * scale
        else:
            features = tl.exp(exponents)
        slope = features
    else:
        shift = tl.zeros([query.shape[0], 1], tl.float32)
        factor = shift + 1.0
        if NORMALIZE:
            top = tl.max(tl.where(is_column[None, :], query, -float("inf")), axis=1)[:, None]
            if FEATURES == "relu":
                factor = 1.0 / tl.where(top > 0, top, 1.0)
            else:
                shift = -tl.minimum(top, 0.0)
                factor = tl.exp(tl.minimum(shift, -SMALL))
        features, slope = _map(query, shift, factor, FEATURES, False)
        features = tl.where(is_column[None, :], features, 0.0)
    return features, slope


@triton.jit
def _key_features(key, is_key, logarithms, FEATURES: tl.constexpr, NORMALIZE: tl.constexpr):
    """Return features of keys, zero for hidden keys, and what `_through_features` needs.

    With a softmax over positions they are its weights, where `logarithms` are those of the sums of exponentials.
    """
    if FEATURES == "taylor":
        features, slope = _unit(key)
    elif FEATURES == "exp" or FEATURES == "softmax":
        features = tl.exp(key - logarithms[None, :])
        slope = features
    elif NORMALIZE and FEATURES != "relu":
        factor = ROOT_OF_KEY_FACTOR * ROOT_OF_KEY_FACTOR
        features, slope = _map(tl.maximum(key, LOWEST_KEY), 0.0, factor, FEATURES, True)
        slope = tl.where(key >= LOWEST_KEY, slope, 0.0)
    else:
        features, slope = _map(key, 0.0, 1.0, FEATURES, False)
    return tl.where(is_key[:, None], features, 0.0), slope


@triton.jit
def _through_features(gradient, features, slope, scale, FEATURES: tl.constexpr, NORMALIZE: tl.constexpr):
    """Return the gradient of queries or keys for that of their features."""
    if FEATURES == "taylor":
        gradient = (gradient - features * tl.sum(features * gradient, axis=1)[:, None]) * slope
    elif FEATURES == "exp" or FEATURES == "softmax":
        if NORMALIZE:
            gradient -= tl.sum(features * gradient, axis=1)[:, None] / scale
        gradient = features * gradient
    else:
        gradient = gradient * slope
    return gradient


@triton.jit
def _matrix_offsets(columns, value_columns, E: tl.constexpr, V: tl.constexpr):
    """Return offsets and mask of the sums (E, V) within a state."""
    is_inside = (columns < E)[:, None] & (value_columns < V)[None, :]
    return columns[:, None] * V + value_columns[None, :], is_inside


@triton.jit
def load_state(state, columns, value_columns, E: tl.constexpr, V: tl.constexpr):
    """Return the sums (E, V), their divisors (E,), the mean of the values (V,) and the count of keys."""
    offsets, is_inside = _matrix_offsets(columns, value_columns, E, V)
    sums = tl.load(state + offsets, mask=is_inside, other=0.0)
    total = tl.load(state + E * V + columns, mask=columns < E, other=0.0)
    mean = tl.load(state + E * V + 2 * E + value_columns, mask=value_columns < V, other=0.0)
    return sums, total, mean, tl.load(state + E * V + 2 * E + V)


@triton.jit
def store_state(
    state, columns, value_columns, sums, total, top, values, count, is_first,
    E: tl.constexpr, V: tl.constexpr, SIZE: tl.constexpr,
):  # fmt: skip
    """Write a state, with zeros at its end; what does not belong to one tile of the values only if `is_first`."""
    offsets, is_inside = _matrix_offsets(columns, value_columns, E, V)
    tl.store(state + offsets, sums, mask=is_inside)
    is_column = (columns < E) & is_first
    tl.store(state + E * V + columns, total, mask=is_column)
    tl.store(state + E * V + E + columns, top, mask=is_column)
    tl.store(state + E * V + 2 * E + value_columns, values, mask=value_columns < V)
    tl.store(state + E * V + 2 * E + V, count, mask=is_first)
    rest = E * V + 2 * E + V + 1 + tl.arange(0, 32)
    tl.store(state + rest, tl.zeros([32], tl.float32), mask=(rest < SIZE) & is_first)


@triton.jit
def _finish(sums, total, top, values, count, FEATURES: tl.constexpr):
    """Turn sums (E, V) over all keys into those that queries read: means, or sums relative to the mean value."""
    if FEATURES == "taylor":
        values = values / tl.maximum(count, 1.0)
        sums = sums - total[:, None] * values[None, :]
    if FEATURES == "exp" or FEATURES == "softmax":
        divisor = tl.where(total > 0, total, 1.0)
        sums = sums / divisor[:, None]
        total = tl.where(total > 0, tl.log(divisor) + top, 0.0)
    return sums, total, values


@triton.jit(do_not_specialize=["heads", "length", "splits", "rows_per_split"])
def _sum_keys(
    key, value, mask, states, key_strides, value_strides, mask_stride, heads, length, splits, rows_per_split,
    E: tl.constexpr, V: tl.constexpr, SIZE: tl.constexpr, BLOCK: tl.constexpr, BLOCK_E: tl.constexpr,
    BLOCK_V: tl.constexpr, FEATURES: tl.constexpr, NORMALIZE: tl.constexpr, PRECISION: tl.constexpr,
    HAS_MASK: tl.constexpr, FINISH: tl.constexpr,
):  # fmt: skip
    """Sum features of keys times values over the rows of one program, for one tile of the values."""
    matrix, split, first, stop = program_rows(splits, rows_per_split, length)
    key, value = head_of(key, key_strides, matrix, heads), head_of(value, value_strides, matrix, heads)
    mask += (matrix // heads) * mask_stride
    columns, value_columns = tl.arange(0, BLOCK_E), tl.program_id(1) * BLOCK_V + tl.arange(0, BLOCK_V)
    sums = tl.zeros([BLOCK_E, BLOCK_V], tl.float32)
    total, values_sum = tl.zeros([BLOCK_E], tl.float32), tl.zeros([BLOCK_V], tl.float32)
    top, counts = tl.full([BLOCK_E], -float("inf"), tl.float32), tl.zeros([BLOCK], tl.float32)
    for row in range(first, stop, BLOCK):
        rows = rows_from(row, BLOCK)
        is_key = rows < stop
        if HAS_MASK:
            is_key = is_key & (tl.load(mask + rows, mask=is_key, other=0) != 0)
        keys = load_rows(key, rows, is_key, key_strides, columns, E)
        values = load_rows(value, rows, is_key, value_strides, value_columns, V)
        if FEATURES == "exp" or FEATURES == "softmax":
            highest = tl.maximum(top, tl.max(tl.where(is_key[:, None], keys, -float("inf")), axis=0))
            zero_point = tl.where(highest == -float("inf"), 0.0, highest)
            decay = tl.exp(top - zero_point)
            sums, total, top = sums * decay[:, None], total * decay, highest
        else:
            zero_point = total
        features, _slope = _key_features(keys, is_key, zero_point, FEATURES, NORMALIZE)
        features = rounded(features, PRECISION)
        total += tl.sum(features, axis=0)
        if FEATURES == "taylor":
            values_sum += tl.sum(values, axis=0)
            counts += is_key.to(tl.float32)
        sums = product(tl.trans(features), values, sums, PRECISION)
    count = tl.sum(counts, axis=0)
    if FINISH:
        sums, total, values_sum = _finish(sums, total, top, values_sum, count, FEATURES)
    state = states + (matrix * splits + split) * SIZE
    is_first = tl.program_id(1) == 0
    store_state(state, columns, value_columns, sums, total, top, values_sum, count, is_first, E, V, SIZE)


@triton.jit(do_not_specialize=["splits"])
def _add_splits(
    parts, states, splits,
    E: tl.constexpr, V: tl.constexpr, SIZE: tl.constexpr, BLOCK_S: tl.constexpr, BLOCK_V: tl.constexpr,
    FEATURES: tl.constexpr, FINISH: tl.constexpr,
):  # fmt: skip
    """Add the states of all splits of a head, for one feature; gradients are sums of the plainest kind."""
    matrix, feature = tl.program_id(0).to(tl.int64), tl.program_id(1)
    numbers, value_columns = tl.arange(0, BLOCK_S), tl.arange(0, BLOCK_V)
    is_split = numbers < splits
    part = parts + (matrix * splits + numbers) * SIZE
    is_inside = is_split[:, None] & (value_columns < V)[None, :]
    sums = tl.load(part[:, None] + feature * V + value_columns[None, :], mask=is_inside, other=0.0)
    total = tl.load(part + E * V + feature, mask=is_split, other=0.0)
    top = 0.0
    if FINISH and (FEATURES == "exp" or FEATURES == "softmax"):
        tops = tl.load(part + E * V + E + feature, mask=is_split, other=-float("inf"))
        top = tl.max(tops, axis=0)
        decay = tl.exp(tops - tl.where(top == -float("inf"), 0.0, top))
        sums, total = sums * decay[:, None], total * decay
    values = tl.load(part[:, None] + E * V + 2 * E + value_columns[None, :], mask=is_inside, other=0.0)
    values = tl.sum(values, axis=0)
    count = tl.sum(tl.load(part + E * V + 2 * E + V, mask=is_split, other=0.0), axis=0)
    one = feature + tl.arange(0, 1)
    sums, total = tl.sum(sums, axis=0)[None, :], tl.sum(total, axis=0) + tl.zeros([1], tl.float32)
    if FINISH:
        sums, total, values = _finish(sums, total, top, values, count, FEATURES)
    store_state(states + matrix * SIZE, one, value_columns, sums, total, total, values, count, True, E, V, SIZE)


@triton.jit
def _weight(features, total, count, FEATURES: tl.constexpr):
    """Return the inverse of the sum of each query's weights (n, 1), and whether it depends on the features."""
    weight = tl.sum(features * total[None, :], axis=1)[:, None]
    if FEATURES == "taylor":
        weight += count
        is_used = weight > SMALLEST_MEAN_WEIGHT * count
        inverse = tl.where(is_used, 1.0 / tl.where(is_used, weight, 1.0), 0.0)
    else:
        is_used = weight >= TINY
        inverse = 1.0 / tl.where(is_used, weight, 1.0)
    return inverse, is_used


@triton.jit(do_not_specialize=["heads", "length", "splits", "rows_per_split", "scale"])
def _mix(
    query, states, output, query_strides, output_strides, heads, length, splits, rows_per_split, scale,
    E: tl.constexpr, V: tl.constexpr, SIZE: tl.constexpr, BLOCK: tl.constexpr, BLOCK_E: tl.constexpr,
    BLOCK_V: tl.constexpr, FEATURES: tl.constexpr, NORMALIZE: tl.constexpr, PRECISION: tl.constexpr,
    DIVIDE: tl.constexpr,
):  # fmt: skip
    """Write the output of the queries of one program, for one tile of the values."""
    matrix, _split, first, stop = program_rows(splits, rows_per_split, length)
    query, output = head_of(query, query_strides, matrix, heads), head_of(output, output_strides, matrix, heads)
    columns, value_columns = tl.arange(0, BLOCK_E), tl.program_id(1) * BLOCK_V + tl.arange(0, BLOCK_V)
    sums, total, mean, count = load_state(states + matrix * SIZE, columns, value_columns, E, V)
    for row in range(first, stop, BLOCK):
        rows = rows_from(row, BLOCK)
        is_query = rows < stop
        queries = load_rows(query, rows, is_query, query_strides, columns, E)
        features, _slope = _query_features(queries, columns < E, total, scale, FEATURES, NORMALIZE)
        features = rounded(features, PRECISION)
        mixed = product(features, sums, tl.zeros([BLOCK, BLOCK_V], tl.float32), PRECISION)
        if DIVIDE:
            inverse, _is_used = _weight(features, total, count, FEATURES)
            mixed = mixed * inverse
        if FEATURES == "taylor":
            mixed += mean[None, :]
        store_rows(output, mixed, rows, is_query, output_strides, value_columns, V)


@triton.jit(do_not_specialize=["heads", "length", "splits", "rows_per_split", "scale"])
def _query_gradients(
    query, gradient, states, parts, query_gradient, query_strides, gradient_strides, query_gradient_strides,
    heads, length, splits, rows_per_split, scale,
    E: tl.constexpr, V: tl.constexpr, SIZE: tl.constexpr, BLOCK: tl.constexpr, BLOCK_E: tl.constexpr,
    BLOCK_V: tl.constexpr, TILES: tl.constexpr, FEATURES: tl.constexpr, NORMALIZE: tl.constexpr,
    PRECISION: tl.constexpr, DIVIDE: tl.constexpr,
):  # fmt: skip
    """Sum the gradient of the state over the queries of one program; the first tile also writes their gradient."""
    matrix, split, first, stop = program_rows(splits, rows_per_split, length)
    query, gradient = head_of(query, query_strides, matrix, heads), head_of(gradient, gradient_strides, matrix, heads)
    query_gradient = head_of(query_gradient, query_gradient_strides, matrix, heads)
    state, tile = states + matrix * SIZE, tl.program_id(1) if TILES > 1 else 0
    columns, value_columns = tl.arange(0, BLOCK_E), tl.arange(0, BLOCK_V)
    sums, total, _mean, count = load_state(state, columns, value_columns, E, V)
    grad_sums, grad_total = tl.zeros([BLOCK_E, BLOCK_V], tl.float32), tl.zeros([BLOCK_E], tl.float32)
    grad_values = tl.zeros([BLOCK_V], tl.float32)
    for row in range(first, stop, BLOCK):
        rows = rows_from(row, BLOCK)
        is_query = rows < stop
        queries = load_rows(query, rows, is_query, query_strides, columns, E)
        exact, slope = _query_features(queries, columns < E, total, scale, FEATURES, NORMALIZE)
        features = rounded(exact, PRECISION)
        own = load_rows(gradient, rows, is_query, gradient_strides, tile * BLOCK_V + value_columns, V)
        grad_values += tl.sum(own, axis=0)
        if DIVIDE:
            inverse, is_used = _weight(features, total, count, FEATURES)
            own = own * inverse
        grad_sums = product(tl.trans(features), own, grad_sums, PRECISION)
        if tile == 0:
            grad_features = tl.zeros([BLOCK, BLOCK_E], tl.float32)
            inner = tl.zeros([BLOCK], tl.float32)
            for number in tl.static_range(TILES):
                if TILES > 1:
                    each = number * BLOCK_V + value_columns
                    sums, _total, _mean, _count = load_state(state, columns, each, E, V)
                    own = load_rows(gradient, rows, is_query, gradient_strides, each, V)
                    if DIVIDE:
                        own = own * inverse
                grad_features = product(own, tl.trans(sums), grad_features, PRECISION)
                if DIVIDE:
                    mixed = product(features, sums, tl.zeros([BLOCK, BLOCK_V], tl.float32), PRECISION)
                    inner += tl.sum(own * mixed, axis=1)
            if DIVIDE:
                weights = tl.where(is_used, inner[:, None] * inverse, 0.0)
                grad_features -= weights * total[None, :]
                grad_total -= tl.sum(features * weights, axis=0)
            found = _through_features(grad_features, exact, slope, scale, FEATURES, NORMALIZE)
            if FEATURES == "exp":
                grad_total += tl.sum(tl.where(is_query[:, None], found, 0.0), axis=0)
            store_rows(query_gradient, found, rows, is_query, query_gradient_strides, columns, E)
    part = parts + (matrix * splits + split) * SIZE
    value_columns += tile * BLOCK_V
    store_state(
        part, columns, value_columns, grad_sums, grad_total, grad_total, grad_values, 0.0, tile == 0, E, V, SIZE
    )


@triton.jit(do_not_specialize=["heads", "length", "splits", "rows_per_split"])
def _key_gradients(
    key, value, mask, states, grad_states, key_gradient, value_gradient, key_strides, value_strides, mask_stride,
    key_gradient_strides, value_gradient_strides, heads, length, splits, rows_per_split,
    E: tl.constexpr, V: tl.constexpr, SIZE: tl.constexpr, BLOCK: tl.constexpr, BLOCK_E: tl.constexpr,
    BLOCK_V: tl.constexpr, TILES: tl.constexpr, FEATURES: tl.constexpr, NORMALIZE: tl.constexpr,
    PRECISION: tl.constexpr, HAS_MASK: tl.constexpr,
):  # fmt: skip
    """Write the gradients of the keys and values of one program."""
    matrix, _split, first, stop = program_rows(splits, rows_per_split, length)
    key, value = head_of(key, key_strides, matrix, heads), head_of(value, value_strides, matrix, heads)
    key_gradient = head_of(key_gradient, key_gradient_strides, matrix, heads)
    value_gradient = head_of(value_gradient, value_gradient_strides, matrix, heads)
    mask += (matrix // heads) * mask_stride
    columns, value_columns = tl.arange(0, BLOCK_E), tl.arange(0, BLOCK_V)
    state, grad_state = states + matrix * SIZE, grad_states + matrix * SIZE
    sums, total, mean, count = load_state(state, columns, value_columns, E, V)
    grad_sums, grad_total, grad_values, _grad_count = load_state(grad_state, columns, value_columns, E, V)
    for number in tl.static_range(TILES):
        if FEATURES == "exp" or FEATURES == "softmax":
            if TILES > 1:
                each = number * BLOCK_V + value_columns
                sums, _total, _mean, _count = load_state(state, columns, each, E, V)
                grad_sums, _total, _values, _count = load_state(grad_state, columns, each, E, V)
            grad_total -= tl.sum(sums * grad_sums, axis=1)
    for row in range(first, stop, BLOCK):
        rows = rows_from(row, BLOCK)
        is_row = rows < stop
        is_key = is_row
        if HAS_MASK:
            is_key = is_row & (tl.load(mask + rows, mask=is_row, other=0) != 0)
        keys = load_rows(key, rows, is_key, key_strides, columns, E)
        features, slope = _key_features(keys, is_key, total, FEATURES, NORMALIZE)
        grad_features = tl.zeros([BLOCK, BLOCK_E], tl.float32) + grad_total[None, :]
        for number in tl.static_range(TILES):
            each = number * BLOCK_V + value_columns
            if TILES > 1:
                grad_sums, _total, grad_values, _count = load_state(grad_state, columns, each, E, V)
                _sums, _total, mean, _count = load_state(state, columns, each, E, V)
            values = load_rows(value, rows, is_key, value_strides, each, V)
            found = product(features, grad_sums, tl.zeros([BLOCK, BLOCK_V], tl.float32), PRECISION)
            if FEATURES == "taylor":
                values -= mean[None, :]
                moved = tl.sum(total[:, None] * grad_sums, axis=0)
                found += ((grad_values - moved) / tl.maximum(count, 1.0))[None, :]
            grad_features = product(values, tl.trans(grad_sums), grad_features, PRECISION)
            found = tl.where(is_key[:, None], found, 0.0)
            store_rows(value_gradient, found, rows, is_row, value_gradient_strides, each, V)
        # the weights of a softmax over positions are its own derivative: the sum over positions is in grad_total
        found = _through_features(grad_features, features, slope, 1.0, FEATURES, False)
        found = tl.where(is_key[:, None], found, 0.0)
        store_rows(key_gradient, found, rows, is_row, key_gradient_strides, columns, E)


def state_size(width: int, value_width: int) -> int:
    size = width * value_width + 2 * width + value_width + 1
    return -(-size // ALIGNMENT) * ALIGNMENT


def _constants(query: Tensor, value: Tensor, features: str) -> dict[str, Any]:
    """Return the constants that all kernels share."""
    width, value_width = query.shape[3], value.shape[3]
    tiles = tiles_of(width, value_width, query.dtype)
    return {
        "E": width,
        "V": value_width,
        "SIZE": state_size(width, value_width),
        "BLOCK": tiles.rows,
        "BLOCK_E": tiles.width,
        "BLOCK_V": tiles.value_width,
        "FEATURES": features,
        "PRECISION": precision_of(query, features in SPLIT_PRECISION),
        "num_warps": tiles.warps,
    }


def _divides(features: str, normalize: bool) -> bool:
    """Return whether the output is divided by the sum of the weights; a softmax has sum 1."""
    return features == "taylor" or (normalize and features not in ("exp", "softmax"))


def states_in_parts(
    start: Callable[[tuple[int, ...], Tensor, Split, bool], None],
    rows: Tensor,
    shape: tuple[int, int],
    tiles: Tiles,
    features: str,
    finish: bool,
) -> Tensor:
    """Return states (B, H, SIZE) with sums of `shape` over `rows` (B, H, N, ·), added where there are several parts.

    `start(grid, states, split, finish)` starts the kernel that writes the states or their parts.
    """
    batch, heads, length = rows.shape[:3]
    width, value_width = shape
    size, padded = state_size(*shape), power_of_two(value_width)
    split = split_of(length, batch * heads, tiles.rows, rows.device, REDUCED_ELEMENTS // padded)
    states = rows.new_empty((batch, heads, size), dtype=torch.float32)
    grid = (batch * heads * split.parts, tiles.number)
    if split.parts == 1:
        start(grid, states, split, finish)
        return states
    parts = states.new_empty((batch, heads, split.parts, size))
    start(grid, parts, split, False)
    _add_splits[batch * heads, width](
        *(parts, states, split.parts),
        E=width, V=value_width, SIZE=size, BLOCK_S=1 << (split.parts - 1).bit_length(), BLOCK_V=padded,
        FEATURES=features, FINISH=finish,
    )  # fmt: skip
    return states


@torch.library.custom_op("forecast::summed_means", mutates_args=())
@on_its_device
def summed_means(
    query: Tensor, key: Tensor, value: Tensor, mask: Tensor | None, features: str, normalize: bool, scale: float
) -> tuple[Tensor, Tensor]:
    """Return the output (B, H, L, V) and the state of each head; see `forecast.kernels.fused.summed_means`."""
    output, states = _empty_results(query, key, value)
    if not output.numel() or not key.shape[2]:
        return output.zero_(), states.zero_()
    heads, constants = query.shape[1], _constants(query, value, features) | {"NORMALIZE": normalize}
    hidden = mask_or(mask, key)

    def sum_keys(grid: tuple[int, ...], parts: Tensor, split: Split, finish: bool) -> None:
        _sum_keys[grid](
            *(key, value, hidden[0], parts, key.stride(), value.stride(), hidden[1]),
            *(heads, key.shape[2], split.parts, split.rows),
            **constants, HAS_MASK=mask is not None, FINISH=finish,
        )  # fmt: skip

    shape = query.shape[3], value.shape[3]
    tiles = tiles_of(*shape, query.dtype)
    states = states_in_parts(sum_keys, key, shape, tiles, features, True)
    split = split_of(query.shape[2], query.shape[0] * heads, tiles.rows, query.device)
    _mix[query.shape[0] * heads * split.parts, tiles.number](
        *(query, states, output, query.stride(), output.stride()),
        *(heads, query.shape[2], split.parts, split.rows, scale),
        **constants, DIVIDE=_divides(features, normalize),
    )  # fmt: skip
    return output, states


def _empty_results(query: Tensor, key: Tensor, value: Tensor) -> tuple[Tensor, Tensor]:
    batch, heads, length, width = query.shape
    states = query.new_empty((batch, heads, state_size(width, value.shape[3])), dtype=torch.float32)
    return heads_first(batch, heads, length, value.shape[3], value), states


@summed_means.register_fake
def _(
    query: Tensor, key: Tensor, value: Tensor, mask: Tensor | None, features: str, normalize: bool, scale: float
) -> tuple[Tensor, Tensor]:
    return _empty_results(query, key, value)


@torch.library.custom_op("forecast::summed_means_gradients", mutates_args=())
@on_its_device
def summed_means_gradients(
    gradient: Tensor,
    query: Tensor,
    key: Tensor,
    value: Tensor,
    mask: Tensor | None,
    states: Tensor,
    features: str,
    normalize: bool,
    scale: float,
) -> tuple[Tensor, Tensor, Tensor]:
    """Return the gradients of query, key and value."""
    query_gradient, key_gradient, value_gradient = tuple(map(torch.empty_like, (query, key, value)))
    if not gradient.numel() or not key.shape[2]:
        return query_gradient.zero_(), key_gradient.zero_(), value_gradient.zero_()
    heads, tiles = query.shape[1], tiles_of(query.shape[3], value.shape[3], query.dtype)
    constants = _constants(query, value, features) | {"NORMALIZE": normalize, "TILES": tiles.number, "num_warps": 8}

    def sum_queries(grid: tuple[int, ...], parts: Tensor, split: Split, finish: bool) -> None:
        _query_gradients[grid](
            *(query, gradient, states, parts, query_gradient),
            *(query.stride(), gradient.stride(), query_gradient.stride()),
            *(heads, query.shape[2], split.parts, split.rows, scale),
            **constants, DIVIDE=_divides(features, normalize),
        )  # fmt: skip

    shape = query.shape[3], value.shape[3]
    grad_states = states_in_parts(sum_queries, query, shape, tiles, features, False)
    hidden = mask_or(mask, key)
    split = split_of(key.shape[2], key.shape[0] * heads, tiles.rows, key.device)
    _key_gradients[(key.shape[0] * heads * split.parts,)](
        *(key, value, hidden[0], states, grad_states, key_gradient, value_gradient),
        *(key.stride(), value.stride(), hidden[1], key_gradient.stride(), value_gradient.stride()),
        *(heads, key.shape[2], split.parts, split.rows),
        **constants, HAS_MASK=mask is not None,
    )  # fmt: skip
    return query_gradient, key_gradient, value_gradient


@summed_means_gradients.register_fake
def _(gradient: Tensor, query: Tensor, key: Tensor, value: Tensor, *rest: Any) -> tuple[Tensor, Tensor, Tensor]:
    return torch.empty_like(query), torch.empty_like(key), torch.empty_like(value)


def _save(ctx: Any, inputs: tuple[Any, ...], output: tuple[Tensor, Tensor]) -> None:
    query, key, value, mask, *ctx.options = inputs
    ctx.save_for_backward(query, key, value, mask, output[1])


def _gradients(context: Any, gradient: Tensor, _: Tensor) -> tuple[Tensor | None, ...]:
    query, key, value, mask, states = context.saved_tensors
    found = summed_means_gradients(gradient, query, key, value, mask, states, *context.options)
    return *found, None, None, None, None


summed_means.register_autograd(_gradients, setup_context=_save)
