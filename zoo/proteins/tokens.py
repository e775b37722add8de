"""What an encoder of proteins is given: padded rows of tokens, and how their residues lie on one flat axis.

Special tokens and padding exist only in the rows. Everything outside the encoder (labels, losses, pooling, predictions)
lives on the flat axis of the batch's residues, which :meth:`Tokens.to_residues` leads to.
"""

from __future__ import annotations

from dataclasses import dataclass, fields, replace
from typing import Any

import torch
from torch import Tensor


@dataclass
class Tokens:
    """A batch of ``b`` proteins with ``n`` residues in all, as ``r`` rows of at most ``t`` tokens.

    A row is ``<cls>``, residues, ``<eos>``, padding. A protein is one row, or several windows that overlap.

    Parameters
    ----------
    rows
        ``(r, t)`` int64 tokens. What stands in the padding never matters.
    lengths
        ``(r,)`` int64: tokens of each row, the two special ones included.
    padded
        Whether some row is shorter than the longest.
    place
        ``(p,)`` int64: where the residues of all rows stand in ``rows.flatten()``.
    residue
        ``(p,)`` int64: which residue of the flat axis each place shows. With windows ``p > n``.
    share
        ``(p,)`` floats: how much each place counts for its residue; those of one residue sum to 1.
    protein
        ``(n,)`` int64: the protein of each residue.
    ptr
        ``(b + 1,)`` int64: where the residues of each protein begin.
    start
        ``(b,)`` int64: where in ``rows.flatten()`` the first ``<cls>`` of each protein stands.
    hidden
        ``(m,)`` int64: the residues, ascending, of which a language model is asked; None for all.
    """

    rows: Tensor
    lengths: Tensor
    padded: bool
    place: Tensor
    residue: Tensor
    share: Tensor
    protein: Tensor
    ptr: Tensor
    start: Tensor
    hidden: Tensor | None = None

    def to(self, device: torch.device | str | None = None, dtype: torch.dtype | None = None) -> Tokens:
        """Move to a device; the shares also change to ``dtype``."""
        own = {f.name: getattr(self, f.name) for f in fields(self)}
        moved: dict[str, Any] = {name: value.to(device) for name, value in own.items() if isinstance(value, Tensor)}
        return replace(self, **{**moved, "share": self.share.to(device=device, dtype=dtype)})

    @property
    def n_proteins(self) -> int:
        """Number of proteins."""
        return len(self.start)

    @property
    def windowed(self) -> bool:
        """Whether some residue stands in more than one row."""
        return len(self.place) > len(self.protein)

    def is_token(self) -> Tensor:
        """Return ``(r, t)``: whether a token stands there, and no padding."""
        at = torch.arange(self.rows.shape[1], device=self.rows.device)
        return at < self.lengths.unsqueeze(1)

    def to_residues(self, x: Tensor) -> Tensor:
        """Return ``(n, d)`` features of the residues from those ``(r, t, d)`` of the rows; windows are blended."""
        found = x.flatten(0, 1).index_select(0, self.place)
        if not self.windowed:
            return found  # the places are in the order of the residues
        weighted = found * self.share.to(found.dtype).unsqueeze(1)
        return weighted.new_zeros(len(self.protein), found.shape[1]).index_add(0, self.residue, weighted)
