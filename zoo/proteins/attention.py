"""The transformer layer of ESM-2: rotary positions, attention over a protein's own tokens, a perceptron.

Parameters have fair-esm's names.
"""

from __future__ import annotations

from typing import NamedTuple

import torch
from torch import Tensor, nn
from torch.nn import functional as F


class Surroundings(NamedTuple):
    """What every layer needs beside its input: made once per pass.

    ``cos`` and ``sin`` ``(t, d_head)`` turn queries and keys; ``visible`` ``(r, 1, 1, t)`` says which tokens may be
    looked at, None for all.
    """

    cos: Tensor
    sin: Tensor
    visible: Tensor | None


def rotary_tables(length: int, head_width: int, like: Tensor) -> tuple[Tensor, Tensor]:
    """Return ``(length, head_width)`` cosines and sines of rotary positions (Su et al. 2021, arXiv:2104.09864).

    Frequencies are computed in float32, as fair-esm does, and angles in at least float32: a half-precision integer
    above 256 (bfloat16) or 2048 (float16) is not exact.
    """
    dtype = torch.float64 if like.dtype == torch.float64 else torch.float32
    steps = torch.arange(0, head_width, 2, device=like.device).float() / head_width
    frequency = (1.0 / 10_000**steps).to(dtype)
    angle = torch.outer(torch.arange(length, device=like.device).to(dtype), frequency)
    angle = torch.cat([angle, angle], dim=-1)
    return angle.cos(), angle.sin()


def turn(x: Tensor, cos: Tensor, sin: Tensor) -> Tensor:
    """Return ``x`` ``(..., t, d)`` turned by its positions; it is in the dtype of the tables."""
    x = x.to(cos.dtype)
    first, second = x.chunk(2, dim=-1)
    return x * cos + torch.cat([-second, first], dim=-1) * sin


class SelfAttention(nn.Module):
    """Attention with rotary positions; the weights are made only where they are asked for.

    With ``maps_only`` there is nothing but what they need, and :meth:`maps` gives them.
    """

    def __init__(self, width: int, heads: int, *, maps_only: bool = False) -> None:
        super().__init__()
        self.heads, self.head_width = heads, width // heads
        self.k_proj = nn.Linear(width, width)
        if not maps_only:
            self.v_proj = nn.Linear(width, width)
        self.q_proj = nn.Linear(width, width)
        if not maps_only:
            self.out_proj = nn.Linear(width, width)
        for name, parameter in self.named_parameters():
            if name.endswith("bias"):
                nn.init.zeros_(parameter)
            else:
                nn.init.xavier_uniform_(parameter, gain=1.0 if name.startswith("out_proj") else 2**-0.5)

    def maps(self, x: Tensor, around: Surroundings) -> Tensor:
        """Return the attention ``(r, heads, t, t)`` alone."""
        query, key = self._turned(x, around)
        with torch.autocast(x.device.type, enabled=False):
            return _weights(query, key, around.visible)

    def forward(self, x: Tensor, around: Surroundings, *, maps: bool = False) -> tuple[Tensor, Tensor | None]:
        """Return ``(r, t, d)``, and the attention ``(r, heads, t, t)`` with ``maps``."""
        query, key = self._turned(x, around)
        value = self._split(self.v_proj(x))
        if x.is_cuda:
            query, key = query.to(value.dtype), key.to(value.dtype)
        else:
            # On a CPU the fused backward in half precision is several times slower than in float32.
            value = value.to(query.dtype)
        weights: Tensor | None = None
        with torch.autocast(x.device.type, enabled=False):
            if maps:
                found, weights = _explicit(query, key, value, around.visible)
            else:
                found = F.scaled_dot_product_attention(query, key, value, around.visible)
        return self.out_proj(found.transpose(1, 2).flatten(2)), weights

    def _turned(self, x: Tensor, around: Surroundings) -> tuple[Tensor, Tensor]:
        """Return queries and keys ``(r, heads, t, d_head)``, turned by their positions."""
        query, key = self._split(self.q_proj(x)), self._split(self.k_proj(x))
        return turn(query, around.cos, around.sin), turn(key, around.cos, around.sin)

    def _split(self, x: Tensor) -> Tensor:
        """Return ``(r, heads, t, d_head)``."""
        rows, length, _ = x.shape
        return x.view(rows, length, self.heads, self.head_width).transpose(1, 2)


def _explicit(query: Tensor, key: Tensor, value: Tensor, visible: Tensor | None) -> tuple[Tensor, Tensor]:
    weights = _weights(query, key, visible)
    return weights.to(value.dtype) @ value, weights


def _weights(query: Tensor, key: Tensor, visible: Tensor | None) -> Tensor:
    score = (query * query.shape[-1] ** -0.5) @ key.transpose(-1, -2)
    if visible is not None:
        score = score.masked_fill(~visible, -torch.inf)
    dtype = torch.float64 if score.dtype == torch.float64 else torch.float32
    weights: Tensor = score.softmax(dim=-1, dtype=dtype)
    return weights


class TransformerLayer(nn.Module):
    """Attention and a perceptron of four times the width, each behind a layer normalisation and residual.

    In training, ``dropout`` leaves out that share of what the two add.
    """

    def __init__(self, width: int, heads: int, dropout: float = 0.0) -> None:
        super().__init__()
        self.self_attn = SelfAttention(width, heads)
        self.self_attn_layer_norm = nn.LayerNorm(width)
        self.fc1 = nn.Linear(width, 4 * width)
        self.fc2 = nn.Linear(4 * width, width)
        self.final_layer_norm = nn.LayerNorm(width)
        self.dropout = nn.Dropout(dropout)

    def forward(self, x: Tensor, around: Surroundings, *, maps: bool = False) -> tuple[Tensor, Tensor | None]:
        """Return ``(r, t, d)``, and the attention ``(r, heads, t, t)`` with ``maps``."""
        found, weights = self.self_attn(self.self_attn_layer_norm(x), around, maps=maps)
        x = x + self.dropout(found)
        x = x + self.dropout(self.fc2(F.gelu(self.fc1(self.final_layer_norm(x)))))
        return x, weights


class MapsLayer(nn.Module):
    """What a layer's attention maps need of it: the last layer, where nothing but contacts is asked for."""

    def __init__(self, width: int, heads: int) -> None:
        super().__init__()
        self.self_attn = SelfAttention(width, heads, maps_only=True)
        self.self_attn_layer_norm = nn.LayerNorm(width)

    def forward(self, x: Tensor, around: Surroundings, *, maps: bool = True) -> tuple[Tensor, Tensor]:  # noqa: ARG002
        """Return ``x`` as it is, and the attention ``(r, heads, t, t)``."""
        return x, self.self_attn.maps(self.self_attn_layer_norm(x), around)
