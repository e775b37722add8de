"""Muon and AdamW as one optimiser, because a trainer that is exact takes only one."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from typing import Any

import torch
from torch.optim import AdamW, Muon, Optimizer


class MuonAdamW(Optimizer):
    """torch's own Muon for some groups and torch's own AdamW for the others, to the bits of both run side by side.

    ``param_groups`` and ``state`` hold those of both, so that schedules, gradient scalers, clipping and checkpoints
    see a single optimiser. A step calls the closure once, before the first update.

    Muon replaces a matrix's momentum by the nearest orthogonal matrix, found by five Newton-Schulz iterations
    (K. Jordan et al. 2024, https://kellerjordan.github.io/posts/muon/), times 0.2 sqrt(longer side), which gives the
    update the size that AdamW's usually has: one rate and one weight decay serve both (Liu et al. 2025,
    arXiv:2502.16982). torch runs the iterations in bfloat16 for weights of any type. They repeat to the bit, but two
    gradients that differ in their last bit can give updates that differ by one part in 256.

    Parameters
    ----------
    groups
        Parameter groups as torch takes them, with ``lr``, ``weight_decay`` and ``algorithm``: ``muon`` or ``adamw``.
    betas
        AdamW's.
    """

    def __init__(self, groups: Iterable[Mapping[str, Any]], *, betas: tuple[float, float]) -> None:
        own = [dict(group) for group in groups]
        muon, adamw = ([g for g in own if g["algorithm"] == name] for name in ("muon", "adamw"))
        self.algorithms: dict[str, Optimizer] = {}
        if muon:
            self.algorithms["muon"] = Muon(muon, adjust_lr_fn="match_rms_adamw")
        if adamw:
            self.algorithms["adamw"] = AdamW(adamw, betas=betas, fused=True)
        super().__init__(own, {})  # by now each group holds its algorithm's defaults

    def step(self, closure: Callable[[], Any] | None = None) -> Any:
        """Update all parameters; return what the closure returned."""
        loss = None
        if closure is not None:
            with torch.enable_grad():
                loss = closure()
        for name, algorithm in self.algorithms.items():
            # Linked at every step: loading a state puts new groups and a new state into place.
            algorithm.param_groups = [g for g in self.param_groups if g["algorithm"] == name]
            algorithm.state = self.state
            algorithm.step()
        return loss

    def __getstate__(self) -> dict[str, Any]:
        return super().__getstate__() | {"algorithms": self.algorithms}
