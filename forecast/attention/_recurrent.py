"""Mechanisms whose causal form carries a state of fixed size: one step at a time."""

from abc import abstractmethod

from torch import Tensor

from forecast.attention._chunks import scan_chunks
from forecast.attention._masks import Mask, masked_keys
from forecast.attention._recompute import State, compact
from forecast.attention.base import Attention, full_precision


class RecurrentAttention(Attention):
    """Base class of a mechanism whose causal form reads the positions one after the other.

    A mechanism implements `first_state` and `causal_step`; `scan` is its causal form.
    """

    @abstractmethod
    def first_state(self, key: Tensor, value: Tensor) -> State:
        """Return the state before the first position; every tensor has the batch as its first axis."""

    @abstractmethod
    def causal_step(
        self, state: State, queries: Tensor, keys: Tensor, values: Tensor, hidden: Tensor | None
    ) -> tuple[State, Tensor]:
        """Return the state after n positions and their output (B, H, n, V); `hidden` (B, 1, n, 1) masks keys."""

    def scan(self, query: Tensor, key: Tensor, value: Tensor, mask: Mask) -> Tensor:
        """Return the causal output, shape (B, H, L, V)."""
        sequences = (query, key, value, masked_keys(mask))
        return scan_chunks(self.causal_step, self.first_state(key, value), *sequences, dtype=value.dtype)

    def step(self, query: Tensor, key: Tensor, value: Tensor, state: State | None = None) -> tuple[Tensor, State]:
        """Return the causal output of the next n positions, and the state after them.

        The outputs of successive steps equal those of one call for all positions. The state does not grow with their
        number.

        Parameters
        ----------
        query, key
            Shape (B, H, n, E).
        value
            Shape (B, H, n, V).
        state
            State that the previous step returned; None before the first position.

        Returns
        -------
        tuple[Tensor, State]
            Output, shape (B, H, n, V), dtype of `value`, and the state.

        Raises
        ------
        ValueError
            If the mechanism is not causal, or shapes do not match.
        """
        if not self.causal:
            raise ValueError(f"{self.name} was built with causal=False: only a causal {self.name} has steps")
        self._check(query, key, value, None, None)
        state = self.first_state(key, value) if state is None else state
        if query.shape[2] == 0:
            return value.clone(), state
        with full_precision(query):
            state, output = self.causal_step(state, query, key, value, None)
        return output.to(value.dtype), compact(state)
