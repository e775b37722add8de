"""ESM-2's own heads: the language model, and contacts from attention maps. They are built on demand only."""

from __future__ import annotations

import torch
from torch import Tensor, nn
from torch.nn import functional as F

RARE = -3.0
"""The logit that contacts start from: about one pair in twenty, for to learn that they are rare takes many steps."""


class LanguageHead(nn.Module):
    """Logits of the 33 tokens; the matrix is that of the embedding, stored there alone."""

    def __init__(self, width: int, n_tokens: int) -> None:
        super().__init__()
        self.dense = nn.Linear(width, width)
        self.layer_norm = nn.LayerNorm(width)
        self.bias = nn.Parameter(torch.zeros(n_tokens))

    def forward(self, x: Tensor, embedding: Tensor) -> Tensor:
        """Return ``(n, 33)`` logits of ``(n, d)`` features, given the embedding ``(33, d)``."""
        x = self.layer_norm(F.gelu(self.dense(x)))
        return F.linear(x, embedding) + self.bias


class ContactHead(nn.Module):
    """Logistic regression on corrected attention maps (Rao et al. 2021, doi:10.1101/2020.12.15.422761)."""

    def __init__(self, n_maps: int) -> None:
        super().__init__()
        self.regression = nn.Linear(n_maps, 1)
        # Attention between two residues is about one over their number: small weights would make nothing of it.
        nn.init.normal_(self.regression.weight)
        nn.init.constant_(self.regression.bias, RARE)

    def forward(self, maps: Tensor) -> Tensor:
        """Return ``(r, l, l)`` logits from ``(r, n_maps, l, l)`` maps between residues, 0 where there is none."""
        symmetric = maps + maps.transpose(-1, -2)
        logits: Tensor = self.regression(product_correction(symmetric).permute(0, 2, 3, 1))
        return logits.squeeze(3)


def product_correction(maps: Tensor) -> Tensor:
    """Return maps ``(..., l, l)`` without what their row and column sums explain (average product correction)."""
    rows, columns = maps.sum(-1, keepdim=True), maps.sum(-2, keepdim=True)
    return maps - rows * columns / maps.sum((-1, -2), keepdim=True)
