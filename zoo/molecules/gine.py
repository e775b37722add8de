"""GINE: graph isomorphism network with bond features (Hu et al. 2020, arXiv:1905.12265), on PyG's ``GINEConv``.

Each layer is residual with layer normalisation in front, where the paper has batch statistics: a molecule's
prediction must not depend on its company.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, ClassVar

import torch
from torch import Tensor, nn
from torch_geometric.nn import GINEConv
from torch_geometric.nn.aggr import Aggregation

from zoo.molecules.features import ATOM_SIZES, BOND_SIZES
from zoo.molecules.graph import Bag, MolGraph
from zoo.molecules.layers import FieldEmbedding, Readout, bag_sum, check_levels, gather, hyper_parameters


class SumByTarget(Aggregation):
    """PyG's sum over incoming edges as one ``index_add``: fast on CPU, deterministic everywhere."""

    def forward(
        self,
        x: Tensor,
        index: Tensor | None = None,
        ptr: Tensor | None = None,
        dim_size: int | None = None,
        dim: int = -2,
    ) -> Tensor:
        """Return ``(dim_size, d)`` sums of the rows ``x`` ``(n_edges, d)`` by ``index``."""
        del ptr
        if index is None or dim_size is None:
            raise ValueError("a sum by target needs the targets and their number")
        shape = list(x.shape)
        shape[dim] = dim_size
        return x.new_zeros(shape).index_add(dim, index, x)


class GINE(nn.Module):
    """Graph isomorphism network with bond features.

    Parameters
    ----------
    levels
        Which of ``molecule``, ``atom``, ``bond`` are asked for; only what they need is built.
    width
        Length of every hidden vector.
    depth
        Number of layers.
    readout
        ``mean``, ``sum``, ``norm`` or ``attention`` over atoms.
    dropout
        After every layer.
    """

    VERSION: ClassVar[int] = 1
    HPARAMS: ClassVar[dict[str, Any]] = {"width": 256, "depth": 4, "readout": "mean", "dropout": 0.0}

    def __init__(self, levels: Sequence[str], **hparams: Any) -> None:
        super().__init__()
        hp = hyper_parameters(self.HPARAMS, hparams)
        check_levels(levels)
        width, depth = int(hp["width"]), int(hp["depth"])
        self.levels = tuple(levels)
        self.dims = dict.fromkeys(levels, width)
        self.atom_in = FieldEmbedding(ATOM_SIZES, width)
        self.bonds = nn.ModuleList(FieldEmbedding(BOND_SIZES, width) for _ in range(depth))
        self.norms = nn.ModuleList(nn.LayerNorm(width) for _ in range(depth))
        self.convs = nn.ModuleList(
            GINEConv(_perceptron(width), train_eps=True, aggr=SumByTarget()) for _ in range(depth)
        )
        self.last = nn.LayerNorm(width)
        self.dropout = nn.Dropout(hp["dropout"])
        if "molecule" in levels:
            self.readout = Readout(hp["readout"], width)
        if "bond" in levels:
            self.bond_self = FieldEmbedding(BOND_SIZES, width)
            self.bond_out = nn.Linear(width, width)

    def forward(self, graph: MolGraph) -> dict[str, Tensor]:
        """Return ``(n_molecules, width)``, ``(n_atoms, width)`` and ``(n_bonds, width)`` for the levels asked for."""
        x = gather(self.atom_in(graph.atom_fields), graph.atom_kind)
        for bond, norm, conv in zip(self.bonds, self.norms, self.convs, strict=True):
            edge = gather(bond(graph.bond_fields), graph.edge_kind)
            x = x + self.dropout(conv(norm(x), graph.edge_index, edge))
        x = self.last(x)
        found: dict[str, Tensor] = {}
        if "molecule" in self.levels:
            found["molecule"] = self.readout(x, graph)
        if "atom" in self.levels:
            found["atom"] = x
        if "bond" in self.levels:
            kind = graph.edge_kind.index_select(0, graph.bond_edges[:, 0])
            own = gather(self.bond_self(graph.bond_fields), kind)
            found["bond"] = (self.bond_out(ends_sum(x, graph)) + own).relu()
        return found


def ends_sum(atoms: Tensor, graph: MolGraph) -> Tensor:
    """Return ``(n_bonds, d)``: the sum over the two atoms of each bond, the same from either end."""
    ends = graph.edge_index[0].index_select(0, graph.bond_edges.flatten()).to(torch.int32)
    bounds = torch.arange(0, len(ends) + 1, 2, dtype=torch.int32, device=ends.device)
    return bag_sum(atoms, Bag(ends, bounds, len(atoms)))


def _perceptron(width: int) -> nn.Module:
    return nn.Sequential(nn.Linear(width, 2 * width), nn.ReLU(), nn.Linear(2 * width, width))
