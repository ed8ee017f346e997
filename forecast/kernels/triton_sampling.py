"""The steps of `probsparse` as kernels in Triton.

One kernel scores all queries against a sample of keys and writes one sortable number each, so that no score is stored.
After the choice, one kernel computes the softmax of the few chosen queries and the mean of the values, over parts of
the length; a short one adds the parts. The last kernel writes each row of the output once, a row of the softmax or the
mean. The backward pass sums the gradient of the mean, then reads each key and value once.

The state of a head is one row of float32, as in `triton_sums`: the rows of the softmax (u, V), the logarithms of their
divisors (u,), their largest scores (u,), the sum of the values (V,) and the count of keys.
"""

from typing import Any

import torch
import triton
import triton.language as tl
from torch import Tensor

from forecast.kernels.triton_rows import (
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
from forecast.kernels.triton_sums import load_state, state_size, states_in_parts, store_state

LOWEST = tl.constexpr(torch.finfo(torch.float32).min)


@triton.jit
def _sortable(measure, rows):
    """Return integers of 64 bits in the order of the measure; of equal ones, the first row is the highest."""
    bits = (measure + 0.0).to(tl.int32, bitcast=True)
    ordered = tl.where(bits < 0, bits ^ 0x7FFFFFFF, bits)
    return ordered.to(tl.int64) * 4294967296 + (2147483647 - rows)


@triton.jit(do_not_specialize=["heads", "length", "splits", "rows_per_split", "sampled", "num_keys"])
def _rank(
    query, key, positions, valid, divisors, query_mask, ranks, query_strides, key_strides, position_strides,
    valid_stride, query_mask_stride, heads, length, splits, rows_per_split, sampled, num_keys,
    E: tl.constexpr, BLOCK: tl.constexpr, BLOCK_E: tl.constexpr, BLOCK_U: tl.constexpr, PRECISION: tl.constexpr,
    PER_QUERY: tl.constexpr, HAS_VALID: tl.constexpr, HAS_DIVISORS: tl.constexpr, IS_PUBLISHED: tl.constexpr,
    HAS_QUERY_MASK: tl.constexpr,
):  # fmt: skip
    """Write a sortable number for each query: the largest of its sampled scores less their mean."""
    matrix, _split, first, stop = program_rows(splits, rows_per_split, length)
    batch = matrix // heads
    query, key = head_of(query, query_strides, matrix, heads), head_of(key, key_strides, matrix, heads)
    columns, numbers = tl.arange(0, BLOCK_E), tl.arange(0, BLOCK_U)
    positions += batch * position_strides[0]
    is_valid = numbers < sampled
    if HAS_VALID:
        is_valid = is_valid & (tl.load(valid + batch * valid_stride + numbers, mask=is_valid, other=0) != 0)
    count = tl.sum(is_valid.to(tl.float32), axis=0)
    shared = tl.load(positions + numbers * position_strides[2], mask=is_valid, other=0)
    shared_keys = load_rows(key, shared, is_valid, key_strides, columns, E)
    denominator = tl.maximum(count, 1.0)
    if HAS_DIVISORS:
        denominator = tl.load(divisors + batch).to(tl.float32)
    elif IS_PUBLISHED:
        denominator = num_keys.to(tl.float32)
    for row in range(first, stop, BLOCK):
        rows = rows_from(row, BLOCK)
        is_query = rows < stop
        queries = load_rows(query, rows, is_query, query_strides, columns, E)
        if PER_QUERY:
            highest, total = tl.full([BLOCK], -float("inf"), tl.float32), tl.zeros([BLOCK], tl.float32)
            for number in range(sampled):
                places = positions + rows * position_strides[1] + number * position_strides[2]
                own = tl.load(places, mask=is_query, other=0)
                keys = load_rows(key, own, is_query, key_strides, columns, E)
                scores = tl.sum(queries * keys, axis=1)
                is_seen = number < count  # the valid ones come first
                highest = tl.where(is_seen, tl.maximum(highest, scores), highest)
                total += tl.where(is_seen, scores, 0.0)
        else:
            scores = product(queries, tl.trans(shared_keys), tl.zeros([BLOCK, BLOCK_U], tl.float32), PRECISION)
            highest = tl.max(tl.where(is_valid[None, :], scores, -float("inf")), axis=1)
            total = tl.sum(tl.where(is_valid[None, :], scores, 0.0), axis=1)
        measure = tl.where(count > 0, highest - total / denominator, LOWEST)
        if HAS_QUERY_MASK:
            own_mask = tl.load(query_mask + batch * query_mask_stride + rows, mask=is_query, other=0)
            measure = tl.where(own_mask != 0, measure, -float("inf"))
        tl.store(ranks + matrix * length + rows, _sortable(measure, rows), mask=is_query)


@triton.jit(do_not_specialize=["heads", "length", "splits", "rows_per_split", "scale"])
def _attend_few(
    query, key, value, mask, chosen, states, query_strides, key_strides, value_strides, mask_stride,
    heads, length, splits, rows_per_split, scale,
    U: tl.constexpr, E: tl.constexpr, V: tl.constexpr, SIZE: tl.constexpr, BLOCK: tl.constexpr, BLOCK_U: tl.constexpr,
    BLOCK_E: tl.constexpr, BLOCK_V: tl.constexpr, PRECISION: tl.constexpr, HAS_MASK: tl.constexpr, FINISH: tl.constexpr,
):  # fmt: skip
    """Compute the softmax of the chosen queries and the sum of the values over the keys of one program."""
    matrix, split, first, stop = program_rows(splits, rows_per_split, length)
    query, key = head_of(query, query_strides, matrix, heads), head_of(key, key_strides, matrix, heads)
    value = head_of(value, value_strides, matrix, heads)
    mask += (matrix // heads) * mask_stride
    columns, numbers = tl.arange(0, BLOCK_E), tl.arange(0, BLOCK_U)
    value_columns = tl.program_id(1) * BLOCK_V + tl.arange(0, BLOCK_V)
    places = tl.load(chosen + matrix * U + numbers, mask=numbers < U, other=-1)
    queries = load_rows(query, places, places >= 0, query_strides, columns, E)
    mixed, divisor = tl.zeros([BLOCK_U, BLOCK_V], tl.float32), tl.zeros([BLOCK_U], tl.float32)
    top, values_sum = tl.full([BLOCK_U], -float("inf"), tl.float32), tl.zeros([BLOCK_V], tl.float32)
    counts = tl.zeros([BLOCK], tl.float32)
    for row in range(first, stop, BLOCK):
        rows = rows_from(row, BLOCK)
        is_key = rows < stop
        if HAS_MASK:
            is_key = is_key & (tl.load(mask + rows, mask=is_key, other=0) != 0)
        keys = load_rows(key, rows, is_key, key_strides, columns, E)
        values = load_rows(value, rows, is_key, value_strides, value_columns, V)
        scores = product(queries, tl.trans(keys), tl.zeros([BLOCK_U, BLOCK], tl.float32), PRECISION) * scale
        scores = tl.where(is_key[None, :], scores, -float("inf"))
        highest = tl.maximum(top, tl.max(scores, axis=1))
        zero_point = tl.where(highest == -float("inf"), 0.0, highest)
        decay = tl.exp(top - zero_point)
        weights = rounded(tl.exp(scores - zero_point[:, None]), PRECISION)
        divisor = divisor * decay + tl.sum(weights, axis=1)
        mixed = product(weights, values, mixed * decay[:, None], PRECISION)
        values_sum += tl.sum(values, axis=0)
        counts += is_key.to(tl.float32)
        top = highest
    if FINISH:
        mixed = mixed / tl.where(divisor > 0, divisor, 1.0)[:, None]
        divisor = tl.where(divisor > 0, tl.log(tl.where(divisor > 0, divisor, 1.0)) + top, 0.0)
    state, is_first = states + (matrix * splits + split) * SIZE, tl.program_id(1) == 0
    count = tl.sum(counts, axis=0)
    store_state(state, numbers, value_columns, mixed, divisor, top, values_sum, count, is_first, U, V, SIZE)


@triton.jit(do_not_specialize=["heads", "length", "splits", "rows_per_split"])
def _place(
    states, chosen, output, output_strides, heads, length, splits, rows_per_split,
    U: tl.constexpr, V: tl.constexpr, SIZE: tl.constexpr, BLOCK: tl.constexpr, BLOCK_U: tl.constexpr,
    BLOCK_V: tl.constexpr, PRECISION: tl.constexpr,
):  # fmt: skip
    """Write the rows of one program: those of the state at the chosen places, the mean of the values elsewhere."""
    matrix, _split, first, stop = program_rows(splits, rows_per_split, length)
    output = head_of(output, output_strides, matrix, heads)
    numbers, value_columns = tl.arange(0, BLOCK_U), tl.program_id(1) * BLOCK_V + tl.arange(0, BLOCK_V)
    places = tl.load(chosen + matrix * U + numbers, mask=numbers < U, other=-1)
    few, _divisor, values_sum, count = load_state(states + matrix * SIZE, numbers, value_columns, U, V)
    mean = values_sum / tl.maximum(count, 1.0)
    for row in range(first, stop, BLOCK):
        rows = rows_from(row, BLOCK)
        is_place = (rows[:, None] == places[None, :]).to(tl.float32)
        picked = product(is_place, few, tl.zeros([BLOCK, BLOCK_V], tl.float32), PRECISION)
        picked = tl.where((tl.max(is_place, axis=1) > 0)[:, None], picked, mean[None, :])
        store_rows(output, picked, rows, rows < stop, output_strides, value_columns, V)


@triton.jit(do_not_specialize=["heads", "length", "splits", "rows_per_split"])
def _sum_gradients(
    gradient, chosen, parts, gradient_strides, heads, length, splits, rows_per_split,
    U: tl.constexpr, V: tl.constexpr, BLOCK: tl.constexpr, BLOCK_U: tl.constexpr, BLOCK_V: tl.constexpr,
):  # fmt: skip
    """Sum the gradients of the rows that are the mean of the values, over the rows of one program."""
    matrix, split, first, stop = program_rows(splits, rows_per_split, length)
    gradient = head_of(gradient, gradient_strides, matrix, heads)
    numbers, value_columns = tl.arange(0, BLOCK_U), tl.program_id(1) * BLOCK_V + tl.arange(0, BLOCK_V)
    places = tl.load(chosen + matrix * U + numbers, mask=numbers < U, other=-1)
    total = tl.zeros([BLOCK_V], tl.float32)
    for row in range(first, stop, BLOCK):
        rows = rows_from(row, BLOCK)
        is_chosen = tl.max((rows[:, None] == places[None, :]).to(tl.int32), axis=1) > 0
        found = load_rows(gradient, rows, (rows < stop) & ~is_chosen, gradient_strides, value_columns, V)
        total += tl.sum(found, axis=0)
    tl.store(parts + (matrix * splits + split) * V + value_columns, total, mask=value_columns < V)


@triton.jit(do_not_specialize=["heads", "length", "splits", "rows_per_split", "gradient_splits", "scale"])
def _few_gradients(
    query, key, value, mask, chosen, gradient, states, gradient_parts, parts, key_gradient, value_gradient,
    query_strides, key_strides, value_strides, mask_stride, gradient_strides, key_gradient_strides,
    value_gradient_strides, heads, length, splits, rows_per_split, gradient_splits, scale,
    U: tl.constexpr, E: tl.constexpr, V: tl.constexpr, SIZE: tl.constexpr, PART_SIZE: tl.constexpr,
    BLOCK: tl.constexpr, BLOCK_U: tl.constexpr, BLOCK_E: tl.constexpr, BLOCK_V: tl.constexpr, BLOCK_S: tl.constexpr,
    TILES: tl.constexpr, PRECISION: tl.constexpr, HAS_MASK: tl.constexpr,
):  # fmt: skip
    """Write the gradients of the keys and values of one program, and its part of those of the chosen queries."""
    matrix, split, first, stop = program_rows(splits, rows_per_split, length)
    query, key = head_of(query, query_strides, matrix, heads), head_of(key, key_strides, matrix, heads)
    value, gradient = head_of(value, value_strides, matrix, heads), head_of(gradient, gradient_strides, matrix, heads)
    key_gradient = head_of(key_gradient, key_gradient_strides, matrix, heads)
    value_gradient = head_of(value_gradient, value_gradient_strides, matrix, heads)
    mask += (matrix // heads) * mask_stride
    columns, numbers = tl.arange(0, BLOCK_E), tl.arange(0, BLOCK_U)
    value_columns, split_numbers = tl.arange(0, BLOCK_V), tl.arange(0, BLOCK_S)
    places = tl.load(chosen + matrix * U + numbers, mask=numbers < U, other=-1)
    is_place = places >= 0
    queries = load_rows(query, places, is_place, query_strides, columns, E)
    gradient_parts += (matrix * gradient_splits + split_numbers)[:, None] * V
    is_split = (split_numbers < gradient_splits)[:, None]
    inner = tl.zeros([BLOCK_U], tl.float32)
    for number in tl.static_range(TILES):
        each = number * BLOCK_V + value_columns
        few, logarithms, _values, count = load_state(states + matrix * SIZE, numbers, each, U, V)
        above = load_rows(gradient, places, is_place, gradient_strides, each, V)
        inner += tl.sum(few * above, axis=1)
        found = tl.load(gradient_parts + each[None, :], mask=is_split & (each < V)[None, :], other=0.0)
        of_mean = tl.sum(found, axis=0) / tl.maximum(count, 1.0)
    query_gradient = tl.zeros([BLOCK_U, BLOCK_E], tl.float32)
    for row in range(first, stop, BLOCK):
        rows = rows_from(row, BLOCK)
        is_row = rows < stop
        is_key = is_row
        if HAS_MASK:
            is_key = is_row & (tl.load(mask + rows, mask=is_row, other=0) != 0)
        keys = load_rows(key, rows, is_key, key_strides, columns, E)
        scores = product(queries, tl.trans(keys), tl.zeros([BLOCK_U, BLOCK], tl.float32), PRECISION) * scale
        is_pair = is_place[:, None] & is_key[None, :]
        weights = tl.where(is_pair, tl.exp(scores - logarithms[:, None]), 0.0)
        of_weights = tl.zeros([BLOCK_U, BLOCK], tl.float32)
        for number in tl.static_range(TILES):
            each = number * BLOCK_V + value_columns
            if TILES > 1:
                above = load_rows(gradient, places, is_place, gradient_strides, each, V)
                found = tl.load(gradient_parts + each[None, :], mask=is_split & (each < V)[None, :], other=0.0)
                of_mean = tl.sum(found, axis=0) / tl.maximum(count, 1.0)
            values = load_rows(value, rows, is_key, value_strides, each, V)
            of_weights = product(above, tl.trans(values), of_weights, PRECISION)
            of_values = tl.zeros([BLOCK, BLOCK_V], tl.float32) + of_mean[None, :]
            of_values = product(tl.trans(weights), above, of_values, PRECISION)
            of_values = tl.where(is_key[:, None], of_values, 0.0)
            store_rows(value_gradient, of_values, rows, is_row, value_gradient_strides, each, V)
        of_scores = weights * (of_weights - inner[:, None]) * scale
        of_keys = product(tl.trans(of_scores), queries, tl.zeros([BLOCK, BLOCK_E], tl.float32), PRECISION)
        store_rows(key_gradient, of_keys, rows, is_row, key_gradient_strides, columns, E)
        query_gradient = product(of_scores, keys, query_gradient, PRECISION)
    nothing = tl.zeros([BLOCK_E], tl.float32)
    part = parts + (matrix * splits + split) * PART_SIZE
    store_state(part, numbers, columns, query_gradient, inner, inner, nothing, 0.0, True, U, E, PART_SIZE)


def _tiles(query: Tensor, value_width: int, few: int) -> Tiles:
    """Return the sizes of a program whose scores are those of `few` queries or keys."""
    tiles = tiles_of(max(query.shape[3], few), value_width, query.dtype)
    return tiles._replace(width=power_of_two(query.shape[3]))


@torch.library.custom_op("forecast::informative_queries", mutates_args=())
@on_its_device
def informative_queries(
    query: Tensor,
    key: Tensor,
    positions: Tensor,
    valid: Tensor | None,
    divisors: Tensor | None,
    query_mask: Tensor | None,
    is_published: bool,
    count: int,
) -> Tensor:
    """Return the chosen queries (B, H, u); see `forecast.kernels.fused.informative_queries`."""
    batch, heads, length, width = query.shape
    ranks = query.new_empty((batch, heads, length), dtype=torch.int64)
    sampled = positions.shape[2]
    tiles = _tiles(query, width, sampled)
    split = split_of(length, batch * heads, tiles.rows, query.device)
    valids, queries = mask_or(valid, positions), mask_or(query_mask, positions)
    batch_stride = positions.stride(0) if positions.shape[0] > 1 else 0
    if ranks.numel():
        _rank[(batch * heads * split.parts,)](
            *(query, key, positions, valids[0], positions if divisors is None else divisors, queries[0], ranks),
            *(query.stride(), key.stride(), (batch_stride, *positions.stride()[1:]), valids[1], queries[1]),
            *(heads, length, split.parts, split.rows, sampled, key.shape[2]),
            E=width, BLOCK=tiles.rows, BLOCK_E=tiles.width, BLOCK_U=power_of_two(sampled), num_warps=tiles.warps,
            PRECISION=precision_of(query), PER_QUERY=positions.shape[1] > 1, HAS_VALID=valid is not None,
            HAS_DIVISORS=divisors is not None, IS_PUBLISHED=is_published, HAS_QUERY_MASK=query_mask is not None,
        )  # fmt: skip
    return ranks.topk(count, dim=-1).indices


@informative_queries.register_fake
def _(query: Tensor, *rest: Any) -> Tensor:
    return query.new_empty((*query.shape[:2], rest[-1]), dtype=torch.int64)


def _few_constants(query: Tensor, value: Tensor, chosen: Tensor) -> dict[str, Any]:
    """Return the constants that the kernels for a few queries share."""
    few, value_width = chosen.shape[2], value.shape[3]
    tiles = _tiles(query, value_width, few)
    return {
        "U": few,
        "V": value_width,
        "SIZE": state_size(few, value_width),
        "BLOCK": tiles.rows,
        "BLOCK_U": power_of_two(few),
        "BLOCK_V": tiles.value_width,
        "num_warps": tiles.warps,
    }


def _placed(states: Tensor, chosen: Tensor, output: Tensor, few: int) -> Tensor:
    """Write rows of the states to `output` at the chosen places, and the mean elsewhere."""
    batch, heads, length, width = output.shape
    tiles = tiles_of(few, width, output.dtype)
    split = split_of(length, batch * heads, tiles.rows, output.device)
    precision = precision_of(output, True)
    _place[batch * heads * split.parts, tiles.number](
        *(states, chosen, output, output.stride(), heads, length, split.parts, split.rows),
        U=few, V=width, SIZE=state_size(few, width), BLOCK=tiles.rows, BLOCK_U=tiles.width, BLOCK_V=tiles.value_width,
        PRECISION=precision, num_warps=tiles.warps,
    )  # fmt: skip
    return output


@torch.library.custom_op("forecast::softmax_of_few", mutates_args=())
@on_its_device
def softmax_of_few(
    query: Tensor, key: Tensor, value: Tensor, mask: Tensor | None, chosen: Tensor
) -> tuple[Tensor, Tensor]:
    """Return the output (B, H, L, V) and the state of each head; see `forecast.kernels.fused.softmax_of_few`."""
    output, states = _empty_results(query, value, chosen)
    if not output.numel() or not key.shape[2]:
        return output.zero_(), states.zero_()
    heads, width, few = query.shape[1], query.shape[3], chosen.shape[2]
    constants, tiles = _few_constants(query, value, chosen), _tiles(query, value.shape[3], few)
    hidden = mask_or(mask, key)

    def attend(grid: tuple[int, ...], parts: Tensor, split: Split, finish: bool) -> None:
        _attend_few[grid](
            *(query, key, value, hidden[0], chosen, parts, query.stride(), key.stride(), value.stride(), hidden[1]),
            *(heads, key.shape[2], split.parts, split.rows, width**-0.5),
            **constants, E=width, BLOCK_E=tiles.width, PRECISION=precision_of(query), HAS_MASK=mask is not None,
            FINISH=finish,
        )  # fmt: skip

    states = states_in_parts(attend, key, (few, value.shape[3]), tiles, "softmax", True)
    return _placed(states, chosen, output, few), states


def _empty_results(query: Tensor, value: Tensor, chosen: Tensor) -> tuple[Tensor, Tensor]:
    batch, heads, length, _ = query.shape
    states = query.new_empty((batch, heads, state_size(chosen.shape[2], value.shape[3])), dtype=torch.float32)
    return heads_first(batch, heads, length, value.shape[3], value), states


@softmax_of_few.register_fake
def _(query: Tensor, key: Tensor, value: Tensor, mask: Tensor | None, chosen: Tensor) -> tuple[Tensor, Tensor]:
    return _empty_results(query, value, chosen)


@torch.library.custom_op("forecast::softmax_of_few_gradients", mutates_args=())
@on_its_device
def softmax_of_few_gradients(
    gradient: Tensor,
    query: Tensor,
    key: Tensor,
    value: Tensor,
    mask: Tensor | None,
    chosen: Tensor,
    states: Tensor,
) -> tuple[Tensor, Tensor, Tensor]:
    """Return the gradients of query, key and value."""
    found = query_gradient, key_gradient, value_gradient = [torch.empty_like(x) for x in (query, key, value)]
    if not gradient.numel() or not key.shape[2]:
        return query_gradient.zero_(), key_gradient.zero_(), value_gradient.zero_()
    heads, width, few = query.shape[1], query.shape[3], chosen.shape[2]
    constants, tiles = _few_constants(query, value, chosen), _tiles(query, value.shape[3], few)
    gradient_parts = _summed_gradients(gradient, chosen, tiles, constants)
    hidden = mask_or(mask, key)
    gradient_splits = gradient_parts.shape[1]

    def read_keys(grid: tuple[int, ...], parts: Tensor, split: Split, _: bool) -> None:
        _few_gradients[(grid[0],)](
            *(query, key, value, hidden[0], chosen, gradient, states, gradient_parts, parts, *found[1:]),
            *(query.stride(), key.stride(), value.stride(), hidden[1], gradient.stride()),
            *(key_gradient.stride(), value_gradient.stride()),
            *(heads, key.shape[2], split.parts, split.rows, gradient_splits, width**-0.5),
            **constants, E=width, BLOCK_E=tiles.width, PART_SIZE=state_size(few, width), TILES=tiles.number,
            BLOCK_S=1 << (gradient_splits - 1).bit_length(), PRECISION=precision_of(query), HAS_MASK=mask is not None,
        )  # fmt: skip

    query_states = states_in_parts(read_keys, key, (few, width), tiles, "none", False)
    return _placed(query_states, chosen, query_gradient, few), key_gradient, value_gradient


def _summed_gradients(gradient: Tensor, chosen: Tensor, tiles: Tiles, constants: dict[str, Any]) -> Tensor:
    """Return the sums of the gradients of the rows not chosen, in parts, shape (B·H, parts, V)."""
    batch, heads, length, value_width = gradient.shape
    split = split_of(length, batch * heads, tiles.rows, gradient.device)
    parts = gradient.new_empty((batch * heads, split.parts, value_width), dtype=torch.float32)
    sizes = {name: constant for name, constant in constants.items() if name != "SIZE"}
    _sum_gradients[batch * heads * split.parts, tiles.number](
        gradient, chosen, parts, gradient.stride(), heads, length, split.parts, split.rows, **sizes
    )
    return parts


@softmax_of_few_gradients.register_fake
def _(gradient: Tensor, query: Tensor, key: Tensor, value: Tensor, *rest: Any) -> tuple[Tensor, Tensor, Tensor]:
    return torch.empty_like(query), torch.empty_like(key), torch.empty_like(value)


def _save(ctx: Any, inputs: tuple[Any, ...], output: tuple[Tensor, Tensor]) -> None:
    ctx.save_for_backward(*inputs, output[1])


def _gradients(context: Any, gradient: Tensor, _: Tensor) -> tuple[Tensor | None, ...]:
    return *softmax_of_few_gradients(gradient, *context.saved_tensors), None, None


softmax_of_few.register_autograd(_gradients, setup_context=_save)
