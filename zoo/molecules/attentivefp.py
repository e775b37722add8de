"""AttentiveFP: graph attention with gated updates (Xiong et al. 2020, doi:10.1021/acs.jmedchem.9b00959).

The layers are PyG's own (``GATEConv``, ``GATConv``); they are put together here so that atoms and bonds can be read
out as well, and so that what a level does not need is not built.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, ClassVar

import torch
from torch import Tensor, nn
from torch.func import functional_call
from torch.nn import functional as F
from torch_geometric.nn import GATConv
from torch_geometric.nn.models.attentive_fp import GATEConv

from zoo.molecules.features import ATOM_SIZES, BOND_SIZES
from zoo.molecules.gine import SumByTarget, ends_sum
from zoo.molecules.graph import MolGraph
from zoo.molecules.layers import FieldEmbedding, Readout, check_levels, gather, hyper_parameters


class AttentiveFP(nn.Module):
    """Graph attention with gated updates, and a molecule that attends to its atoms in turn.

    Parameters
    ----------
    levels
        Which of ``molecule``, ``atom``, ``bond`` are asked for; only what they need is built.
    width
        Length of every hidden vector.
    depth
        Number of atom layers.
    steps
        How often the molecule attends to its atoms.
    dropout
        Of attention weights, and in front of every gated update.
    """

    VERSION: ClassVar[int] = 1
    HPARAMS: ClassVar[dict[str, Any]] = {"width": 200, "depth": 3, "steps": 2, "dropout": 0.0}

    def __init__(self, levels: Sequence[str], **hparams: Any) -> None:
        super().__init__()
        hp = hyper_parameters(self.HPARAMS, hparams)
        check_levels(levels)
        width, dropout = int(hp["width"]), float(hp["dropout"])
        self.levels = tuple(levels)
        self.steps = int(hp["steps"])
        self.dims = dict.fromkeys(levels, width)
        self.dropout = nn.Dropout(dropout)
        self.atom_in = FieldEmbedding(ATOM_SIZES, width)
        self.bond_in = FieldEmbedding(BOND_SIZES, width)
        self.gate_conv = _by_target(GATEConv(width, width, edge_dim=width, dropout=dropout))
        self.gate_gru = nn.GRUCell(width, width)
        deeper = range(int(hp["depth"]) - 1)
        self.atom_convs = nn.ModuleList(_attention(width, dropout) for _ in deeper)
        self.atom_grus = nn.ModuleList(nn.GRUCell(width, width) for _ in deeper)
        if "molecule" in levels:
            self.sum = Readout("sum", width)
            self.molecule_conv = _attention(width, dropout)
            self.molecule_gru = nn.GRUCell(width, width)
        if "bond" in levels:
            self.bond_self = FieldEmbedding(BOND_SIZES, width)
            self.bond_out = nn.Linear(width, width)

    def forward(self, graph: MolGraph) -> dict[str, Tensor]:
        """Return ``(n_molecules, width)``, ``(n_atoms, width)`` and ``(n_bonds, width)`` for the levels asked for."""
        x = F.leaky_relu(gather(self.atom_in(graph.atom_fields), graph.atom_kind))
        edge = gather(self.bond_in(graph.bond_fields), graph.edge_kind)
        message = self.dropout(F.elu(self.gate_conv(x, graph.edge_index, edge)))
        x = self.gate_gru(message, x).relu()
        for conv, gru in zip(self.atom_convs, self.atom_grus, strict=True):
            message = self.dropout(F.elu(conv(x, graph.edge_index)))
            x = gru(message, x).relu()
        found: dict[str, Tensor] = {}
        if "molecule" in self.levels:
            found["molecule"] = self._molecules(x, graph)
        if "atom" in self.levels:
            found["atom"] = x
        if "bond" in self.levels:
            kind = graph.edge_kind.index_select(0, graph.bond_edges[:, 0])
            own = gather(self.bond_self(graph.bond_fields), kind)
            found["bond"] = (self.bond_out(ends_sum(x, graph)) + own).relu()
        return found

    def _molecules(self, x: Tensor, graph: MolGraph) -> Tensor:
        membership = torch.stack([torch.arange(len(x), device=x.device), graph.molecule])
        out: Tensor = self.sum(x.double(), graph).relu()
        for _ in range(self.steps):
            message = self.dropout(F.elu(self.molecule_conv((x, out.to(x.dtype)), membership)))
            out = F.relu(_exact_update(self.molecule_gru, message, out))
        return out.to(x.dtype)


def _exact_update(cell: nn.GRUCell, message: Tensor, state: Tensor) -> Tensor:
    """Return a gated update in float64.

    The state begins as a sum over atoms. With hundreds of them its entries are in the hundreds, the gates' arguments
    cancel among these, and a gate's error is multiplied by the state: what float32 rounds differently alone and in a
    batch would grow from 1e-7 to 1e-4. There is one row a molecule, so float64 costs next to nothing.
    """
    weights = {name: parameter.double() for name, parameter in cell.named_parameters()}
    updated: Tensor = functional_call(cell, weights, (message.double(), state))
    return updated


def _attention(width: int, dropout: float) -> GATConv:
    return _by_target(GATConv(width, width, dropout=dropout, add_self_loops=False, negative_slope=0.01))


def _by_target(conv: Any) -> Any:
    conv.aggr_module = SumByTarget()
    return conv
