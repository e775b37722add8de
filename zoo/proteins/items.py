"""All proteins of a data set in flat arrays; see :class:`zoo.core.types.Items`."""

from __future__ import annotations

from dataclasses import dataclass, fields
from typing import Self

import numpy as np
import torch

from zoo.core.masking import Hidden
from zoo.core.ragged import ragged_index
from zoo.errors import InputError
from zoo.proteins.alphabet import CLS, EOS, FIRST_RESIDUE, MASK, N_AMINO_ACIDS, PAD, is_standard
from zoo.proteins.descriptors import NAMES
from zoo.proteins.tokens import Tokens
from zoo.proteins.windows import window_shares, window_starts

AS_DEAR_AS_THE_REST = 2048
"""Residues from which on attention costs more than all other layers: about six times the width of a small ESM-2."""


@dataclass
class ProteinItems:
    """``n`` proteins with ``N`` residues in all.

    Parameters
    ----------
    ptr
        ``(n + 1,)`` int64 offsets of each protein's residues.
    tokens
        ``(N,)`` uint8: their tokens.
    source
        ``(N,)`` int32: each residue's index in its input sequence.
    n_source_residues
        ``(n,)`` int64: residues of each input, those that were cut off or dropped included.
    checksum
        ``(n,)`` uint32: CRC-32 of the tokens, of which what is hidden from a language model is drawn.
    window
        ``(2,)`` int64: the most residues of a row, and how many of them two windows share.
    descriptors
        ``(n, f)`` float64, with ``f`` 0 where none are asked for.
    """

    ptr: np.ndarray
    tokens: np.ndarray
    source: np.ndarray
    n_source_residues: np.ndarray
    checksum: np.ndarray
    window: np.ndarray
    descriptors: np.ndarray

    def __len__(self) -> int:
        return len(self.ptr) - 1

    @property
    def features(self) -> np.ndarray | None:
        """``(n, f)`` descriptors, or None."""
        return self.descriptors if self.descriptors.shape[1] else None

    @property
    def feature_names(self) -> list[str]:
        """Names of the descriptors."""
        return NAMES if self.descriptors.shape[1] else []

    def size(self) -> np.ndarray:
        """Return ``(n,)`` residues per protein."""
        return np.diff(self.ptr)

    def cost(self) -> np.ndarray:
        """Return ``(n,)`` work per protein in tokens, the part of attention that grows with the square included."""
        longest = int(self.window[0])
        rows = np.minimum(self.size(), longest) + 2
        count = np.maximum(1, np.ceil((self.size() - longest) / (longest - self.window[1])) + 1)
        cost: np.ndarray = count * rows * (1 + rows / AS_DEAR_AS_THE_REST)
        return cost

    def node_ptr(self, level: str) -> np.ndarray:
        """Return ``(n + 1,)`` offsets of the residues, which tokens are too, or of the ``n_i^2`` pairs of residues."""
        if level != "pair":
            return self.ptr
        longest = int(self.size().max(initial=0))
        if longest > self.window[0]:
            raise InputError(
                f"pairs need a whole protein at once, and one of {longest:,} residues is cut into windows of "
                f"{int(self.window[0]):,}. Raise --set model.featuriser.max_length={longest}, or leave out longer "
                "proteins with --set model.featuriser.long=error."
            )
        return _bounds(self.size() ** 2)

    def node_source(self, level: str) -> np.ndarray:  # noqa: ARG002
        """Return each residue's index in its input."""
        return self.source

    def n_source(self, level: str) -> np.ndarray:  # noqa: ARG002
        """Return ``(n,)`` residues of each input."""
        return self.n_source_residues

    def node_classes(self, level: str) -> tuple[np.ndarray, np.ndarray]:  # noqa: ARG002
        """Return ``(N,)`` each residue's token, and whether a model may be asked for it: the twenty amino acids."""
        return self.tokens.astype(np.int64), is_standard(self.tokens)

    def node_keys(self) -> np.ndarray:
        """Return ``(n,)`` a number of each protein that depends on its residues alone."""
        return self.checksum

    def arrays(self) -> dict[str, np.ndarray]:
        """Return everything as named arrays of numbers."""
        return {f.name: getattr(self, f.name) for f in fields(self)}

    @classmethod
    def from_arrays(cls, arrays: dict[str, np.ndarray]) -> Self:
        """Return the items that :meth:`arrays` described."""
        return cls(**arrays)

    def subset(self, index: np.ndarray) -> Self:
        """Return the proteins ``index`` as a new object (repeats allowed)."""
        index = np.asarray(index, np.int64)
        where, sizes = ragged_index(self.ptr, index)
        return type(self)(
            _bounds(sizes), self.tokens[where], self.source[where], self.n_source_residues[index],
            self.checksum[index], self.window, self.descriptors[index],
        )  # fmt: skip

    def collate(self, index: np.ndarray, dtype: torch.dtype, hidden: Hidden | None = None) -> Tokens:
        """Return the proteins ``index`` as rows, some residues hidden from the model if asked.

        Of none there is one row without a residue, so that a rank without proteins takes part in the backward.
        """
        where, sizes = ragged_index(self.ptr, np.asarray(index, np.int64))
        ptr = _bounds(sizes)
        residues = self.tokens[where].astype(np.int64)
        if hidden is not None:
            residues = disguise(residues, hidden)
        first, owner, share = self._rows(sizes)
        length = np.minimum(sizes, self.window[0])[owner]
        at, column = _within(length)
        residue = np.repeat(ptr[owner] + first, length) + column
        width = int(length.max(initial=0)) + 2
        rows = np.full((max(1, len(owner)), width), PAD, np.int64)
        rows[:, 0] = CLS
        rows[at, column + 1] = residues[residue]
        n_residues = length if len(length) else np.zeros(1, np.int64)
        rows[np.arange(len(rows)), n_residues + 1] = EOS
        start = np.searchsorted(owner, np.arange(len(sizes))) * width
        return Tokens(
            rows=torch.from_numpy(rows),
            lengths=torch.from_numpy(n_residues + 2),
            padded=bool((n_residues + 2 < width).any()),
            place=torch.from_numpy(at * width + column + 1),
            residue=torch.from_numpy(residue),
            share=torch.from_numpy(share).to(dtype),
            protein=torch.from_numpy(np.repeat(np.arange(len(sizes)), sizes)),
            ptr=torch.from_numpy(ptr),
            start=torch.from_numpy(start.astype(np.int64)),
            hidden=None if hidden is None else torch.from_numpy(hidden.nodes),
        )

    def _rows(self, sizes: np.ndarray) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
        """Return the first residue and the protein of every row, and the share of every place in them."""
        longest, overlap = (int(v) for v in self.window)
        if not (sizes > longest).any():
            return np.zeros(len(sizes), np.int64), np.arange(len(sizes)), np.ones(int(sizes.sum()))
        starts = [window_starts(int(n), longest, overlap) for n in sizes]
        shares = [window_shares(int(n), longest, s).ravel() for n, s in zip(sizes, starts, strict=True)]
        owner = np.repeat(np.arange(len(sizes)), [len(s) for s in starts])
        return np.concatenate(starts), owner, np.concatenate(shares)


def disguise(residues: np.ndarray, hidden: Hidden) -> np.ndarray:
    """Return residues with the hidden ones masked, replaced by a random amino acid, or left as they are."""
    shown = residues.copy()
    replacement = FIRST_RESIDUE + np.floor(hidden.pick * N_AMINO_ACIDS).astype(np.int64)
    shown[hidden.nodes[hidden.masked]] = MASK
    shown[hidden.nodes[hidden.replaced]] = replacement[hidden.replaced]
    return shown


def _bounds(sizes: np.ndarray) -> np.ndarray:
    return np.concatenate([[0], np.cumsum(sizes)]).astype(np.int64)


def _within(lengths: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Return the row of every place of rows of these lengths, and its position in the row."""
    row = np.repeat(np.arange(len(lengths)), lengths)
    starts = np.cumsum(lengths) - lengths
    return row, np.arange(int(lengths.sum())) - np.repeat(starts, lengths)
