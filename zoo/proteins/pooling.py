"""From residues to one vector per protein, over its residues and nothing else."""

from __future__ import annotations

import torch
from torch import Tensor, nn

from zoo.errors import unknown_name
from zoo.proteins.tokens import Tokens

POOLINGS = ("mean", "attention", "first")


class AttentionPooling(nn.Module):
    """A learnt weighted mean: ``sum_i softmax_i(v . tanh(W x_i)) x_i`` over a protein's residues."""

    def __init__(self, width: int) -> None:
        super().__init__()
        self.project = nn.Linear(width, width)
        # Not a linear layer of one output: a bias would change nothing under the softmax.
        self.score = nn.Parameter(torch.zeros(width))

    def forward(self, x: Tensor, tokens: Tokens) -> Tensor:
        """Return ``(b, d)`` from ``(n, d)`` features of residues."""
        score = torch.tanh(self.project(x)) @ self.score.to(x.dtype)
        # The largest score of a protein is taken off, which changes nothing but overflow.
        largest = score.new_full((tokens.n_proteins,), -torch.inf)
        largest = largest.scatter_reduce(0, tokens.protein, score.detach(), "amax")
        weight = (score - largest.index_select(0, tokens.protein)).exp()
        total = weight.new_zeros(tokens.n_proteins).index_add(0, tokens.protein, weight)
        return _sums(x * weight.unsqueeze(1), tokens) / total.unsqueeze(1)


class MeanPooling(nn.Module):
    """The mean over a protein's residues."""

    def forward(self, x: Tensor, tokens: Tokens) -> Tensor:
        """Return ``(b, d)`` from ``(n, d)`` features of residues."""
        return _sums(x, tokens) / tokens.ptr.diff().unsqueeze(1).to(x.dtype)


def make_pooling(name: str, width: int) -> nn.Module | None:
    """Return a pooling of residues by name; None for ``first``, which takes the ``<cls>`` token instead.

    Raises
    ------
    InputError
        For an unknown name.
    """
    if name not in POOLINGS:
        raise unknown_name("pooling", name, POOLINGS)
    return {"mean": MeanPooling(), "attention": AttentionPooling(width), "first": None}[name]


def _sums(x: Tensor, tokens: Tokens) -> Tensor:
    return x.new_zeros(tokens.n_proteins, x.shape[1]).index_add(0, tokens.protein, x)
