"""D-MPNN: message passing along directed bonds (Yang et al. 2019, doi:10.1021/acs.jcim.9b00237).

With ``e = v -> w`` a directed bond, ``x`` the one-hot fields of an atom and ``b`` those of a bond,

    h0(e)   = W_i [x(v), b(e)]
    h(e)    = relu(h0(e) + sum over k -> v, k not the reverse of e, of W_h h(k))        depth - 1 times, from relu(h0)
    h(v)    = relu(W_o [x(v), sum over k -> v of h(k)])

which is the published network, computed differently: a linear layer on one-hot fields is a sum of embeddings; ``W_h``
is applied before the sum, so that it meets each distinct ``h`` once; and directed bonds whose surroundings agree to
the radius that has passed so far share a row (:mod:`zoo.molecules.environments`). On batches of 64 drug-like
molecules this leaves a quarter of the multiplications.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, ClassVar

import torch
from torch import Tensor, nn

from zoo.molecules.features import ATOM_SIZES, BOND_SIZES
from zoo.molecules.graph import Bag, MolGraph
from zoo.molecules.layers import FieldEmbedding, Readout, bag_sum, check_levels, gather, hyper_parameters


class DMPNN(nn.Module):
    """Directed message passing network.

    Parameters
    ----------
    levels
        Which of ``molecule``, ``atom``, ``bond`` are asked for; only what they need is built.
    width
        Length of every hidden vector.
    depth
        ``h`` is computed ``depth`` times, the first time from the bond alone.
    readout
        ``mean``, ``sum``, ``norm`` or ``attention`` over atoms.
    dropout
        After every activation. Directed bonds and atoms that share a row share its mask.
    """

    VERSION: ClassVar[int] = 1
    HPARAMS: ClassVar[dict[str, Any]] = {"width": 300, "depth": 3, "readout": "mean", "dropout": 0.0}

    def __init__(self, levels: Sequence[str], **hparams: Any) -> None:
        super().__init__()
        hp = hyper_parameters(self.HPARAMS, hparams)
        check_levels(levels)
        width = int(hp["width"])
        self.depth = int(hp["depth"])
        self.levels = tuple(levels)
        self.dims = dict.fromkeys(levels, width)
        self.source_in, self.bond_in = FieldEmbedding(ATOM_SIZES, width), FieldEmbedding(BOND_SIZES, width)
        self.message = nn.Linear(width, width, bias=False) if self.depth > 1 else None
        if "molecule" in levels or "atom" in levels:
            self.atom_self = FieldEmbedding(ATOM_SIZES, width)
            self.atom_out = nn.Linear(width, width)
        if "molecule" in levels:
            self.readout = Readout(hp["readout"], width)
        if "bond" in levels:
            self.bond_out = nn.Linear(width, width)
        self.dropout = nn.Dropout(hp["dropout"])

    def forward(self, graph: MolGraph) -> dict[str, Tensor]:
        """Return ``(n_molecules, width)``, ``(n_atoms, width)`` and ``(n_bonds, width)`` for the levels asked for."""
        edges, row = self._pass_messages(graph)
        found: dict[str, Tensor] = {}
        if "molecule" in self.levels or "atom" in self.levels:
            atoms, atom_row = self._atoms(edges, row, graph)
            if "molecule" in self.levels:
                found["molecule"] = self.readout(atoms, graph, atom_row)
            if "atom" in self.levels:
                found["atom"] = gather(atoms, atom_row)
        if "bond" in self.levels:
            both = row.index_select(0, graph.bond_edges.flatten())
            bounds = torch.arange(0, len(both) + 1, 2, dtype=torch.int32, device=both.device)
            found["bond"] = self._activate(self.bond_out(bag_sum(edges, Bag(both, bounds, len(edges)))))
        return found

    def _activate(self, x: Tensor) -> Tensor:
        """Activate ``x``, a fresh tensor that nothing else reads, in place."""
        out: Tensor = self.dropout(x.relu_())
        return out

    def _pass_messages(self, graph: MolGraph) -> tuple[Tensor, Tensor]:
        """Return the last ``h`` of the distinct directed bonds, and the row of every directed bond in it."""
        around = graph.surroundings
        first = gather(self.source_in(graph.atom_fields), around.source_kind)
        first = first + gather(self.bond_in(graph.bond_fields), around.bond_kind)
        h, row = self.dropout(first.relu()), around.edge_class
        shared = min(self.depth - 1, len(around.levels))
        for level in around.levels[:shared]:
            message = self.message(h)  # type: ignore[misc]
            h = self._activate(bag_sum(message, level.bag).add_(gather(first, level.own)))
            row = level.edge_class
        if shared < self.depth - 1:  # beyond the classified radii every directed bond has its own row
            first, h = gather(first, around.edge_class), gather(h, row)
            row = torch.arange(len(row), dtype=torch.int32, device=row.device)
            into_atoms = Bag(row, graph.incoming, len(row))
            for _ in range(self.depth - 1 - shared):
                message = self.message(h)  # type: ignore[misc]
                arriving = gather(bag_sum(message, into_atoms), graph.edge_index[0])
                h = self._activate(first + arriving - gather(message, graph.edge_reverse))
        return h, row

    def _atoms(self, edges: Tensor, row: Tensor, graph: MolGraph) -> tuple[Tensor, Tensor]:
        """Return the vectors of the distinct atoms, and the row of every atom in them."""
        around = graph.surroundings
        if self.depth <= len(around.levels) + 1:
            arriving = Bag(row.index_select(0, around.atom_edges), around.atom_offsets, len(edges))
            kind, atom_row = around.atom_kind, around.atom_class
        else:
            arriving = Bag(row, graph.incoming, len(edges))
            kind = graph.atom_kind
            atom_row = torch.arange(graph.n_atoms, dtype=torch.int32, device=row.device)
        own = gather(self.atom_self(graph.atom_fields), kind)
        return self._activate(self.atom_out(bag_sum(edges, arriving)).add_(own)), atom_row
