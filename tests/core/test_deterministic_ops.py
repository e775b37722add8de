"""A fit calls nothing that has no deterministic kernel on a GPU, so that `--deterministic` can hold there too."""

import sys
from pathlib import Path

import pytest
import torch
from torch.utils._python_dispatch import TorchDispatchMode
from torch.utils._pytree import tree_leaves

from zoo.core.fit import fit, make_trainer
from zoo.core.module import _total
from zoo.workflows.cases import case_of

sys.path.insert(0, str(Path(__file__).parent))
from toy import toy

# Of https://docs.pytorch.org/docs/stable/generated/torch.use_deterministic_algorithms.html those that raise on CUDA;
# the sums along an axis only for floats, and bincount with weights.
RAISING = ["adaptive_avg_pool2d_backward", "adaptive_avg_pool3d_backward", "adaptive_max_pool2d_backward", "avg_pool3d_backward", "bincount", "cumsum", "ctc_loss_backward", "fractional_max_pool2d_backward", "fractional_max_pool3d_backward", "grid_sampler_2d_backward", "grid_sampler_3d_backward", "histc", "kthvalue", "logcumsumexp", "max_pool3d_with_indices_backward", "max_unpool2d", "max_unpool3d", "median", "multi_margin_loss", "nll_loss2d_forward", "put_", "reflection_pad1d_backward", "reflection_pad2d_backward", "reflection_pad3d_backward", "replication_pad1d_backward", "replication_pad2d_backward", "replication_pad3d_backward", "resize_", "scatter_reduce", "upsample_bicubic2d_backward", "upsample_bilinear2d_backward", "upsample_linear1d_backward", "upsample_trilinear3d_backward"]


class Watch(TorchDispatchMode):
    """Notes which operations run, those on floats apart from those on whole numbers."""

    def __init__(self):
        super().__init__()
        self.seen = set()

    def __torch_dispatch__(self, func, types, args=(), kwargs=None):
        if any(isinstance(a, torch.Tensor) and a.is_floating_point() for a in tree_leaves(args)):
            self.seen.add(func.overloadpacket.__name__)
        return func(*args, **(kwargs or {}))


def watched(module, data):
    with Watch() as watch:
        fit(module, data, make_trainer(module, folder=None, device="cpu"))
    # A watch that sees nothing would prove nothing.
    assert {"addmm", "add_", "_fused_adamw_"} <= watch.seen
    return sorted(watch.seen & set(RAISING))


def test_a_fit_of_several_microbatches_and_a_validation():
    module, data = toy(n=24, epochs=1, microbatches=3)
    assert watched(module, data) == []


@pytest.mark.parametrize("model", ["dmpnn", "gine", "attentivefp"])
def test_a_fit_of_molecules(model):
    with case_of("freesolv", model=model, settings={"model.hparams.width": 16}) as case:
        assert watched(*case.build(epochs=1, microbatches=2)) == []


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
def test_losses_are_added_in_order_and_in_float64(dtype):
    losses = torch.rand(7, dtype=dtype, generator=torch.Generator().manual_seed(0)).unbind()
    total = 0.0
    for loss in losses:
        total += float(loss)
    assert torch.equal(_total(list(losses)), torch.tensor(total, dtype=dtype))
    assert torch.equal(_total(list(losses)), torch.stack(losses).cumsum(0)[-1])
