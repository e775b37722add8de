"""Every trainable parameter is in exactly one group, by the meaning of its module."""

import torch
from torch import nn

from zoo.core.optim import describe_groups, make_optimizer, parameter_groups
from zoo.specs.task import TrainSpec


class Net(nn.Module):
    def __init__(self):
        super().__init__()
        self.embed = nn.Embedding(5, 4)
        self.layer = nn.Linear(4, 4)
        self.norm = nn.LayerNorm(4)
        self.frozen = nn.Linear(4, 4).requires_grad_(requires_grad=False)
        self.tied = nn.Linear(4, 5, bias=False)
        self.tied.weight = self.embed.weight
        self.gain = nn.Parameter(torch.ones(1))


def test_groups_follow_module_meaning():
    groups = {name: [n for n, _ in members] for name, members in parameter_groups(Net()).items()}
    assert groups["decay"] == ["layer.weight"]
    assert sorted(groups["no_decay"]) == ["embed.weight", "gain", "layer.bias", "norm.bias", "norm.weight"]


def test_the_optimizer_holds_each_trainable_parameter_once():
    net = Net()
    optimizer = make_optimizer(net, TrainSpec(weight_decay=0.3))
    held = [p for g in optimizer.param_groups for p in g["params"]]
    wanted = {id(p) for p in net.parameters() if p.requires_grad}
    assert {id(p) for p in held} == wanted
    assert len(held) == len(wanted)
    assert [g["weight_decay"] for g in optimizer.param_groups] == [0.3, 0.0]
    assert describe_groups(optimizer)[0] == "decay: 1 tensors, 16 elements, lr 0.001, weight decay 0.3"
