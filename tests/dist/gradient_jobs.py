"""Gradients that not every process has, summed; each process writes what it got to a file named in the payload."""

import json
from pathlib import Path

import torch

from zoo.core.ranks import rank, sum_gradients


def some_missing(payload):
    """Sum three parameters: one with a gradient everywhere, one on rank 1 alone, one nowhere; then two odd lots."""
    own = rank()
    both, second, none = (torch.nn.Parameter(torch.zeros(2, 2)) for _ in range(3))
    both.grad = torch.full((2, 2), 1.0 + own)
    if own == 1:
        second.grad = torch.tensor([[1.0, 2.0], [3.0, 4.0]])
    found = {"loss": float(sum_gradients([none, second, both], torch.tensor(10.0 + own)))}
    found |= {name: None if p.grad is None else p.grad.tolist() for name, p in zip("bsn", (both, second, none))}
    found["loss of no parameters"] = float(sum_gradients([], torch.tensor(0.5)))
    # Parameters of another type make a buffer of their own, and there only rank 0 has a gradient.
    wide = torch.nn.Parameter(torch.zeros(3, dtype=torch.float64))
    wide.grad = None if own else torch.full_like(wide, 1 / 3)
    narrow = torch.nn.Parameter(torch.zeros(1))
    found["loss of two types"] = float(sum_gradients([wide, narrow], torch.tensor(1.5)))
    found["wide"], found["narrow"] = wide.grad.tolist(), narrow.grad
    Path(payload["folder"], f"{own}.json").write_text(json.dumps(found))
