"""The optimiser's groups by the meaning of modules, their rates, and AdamW against its formula."""

import importlib

import pytest
import torch
from torch import nn

from zoo.core.heads import Network
from zoo.core.optim import describe_groups, make_optimizer, parameter_groups
from zoo.errors import InputError
from zoo.molecules.domain import DOMAIN
from zoo.proteins.alphabet import TOKENS
from zoo.proteins.domain import DOMAIN as PROTEINS
from zoo.specs.target import TargetSpec
from zoo.specs.task import TrainSpec

ENCODERS = [
    *((name, own) for name in DOMAIN.architectures for own in ("molecule", "atom", "bond", "molecule+atom+bond")),
    *(("esm2", own) for own in ("sequence", "residue", "token", "sequence+residue")),
]
MASKED = TargetSpec(name="token", level="token", kind="multiclass", objective="masked", classes=list(TOKENS))
ESM2 = {"layers": 2, "width": 16, "heads": 2, "pooling": "attention"}
SPLITTING = [{}, {"encoder_lr_scale": 0.1}, {"optimizer": "muon"}, {"optimizer": "muon", "encoder_lr_scale": 0.1}]


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


class Block(nn.Module):
    def __init__(self):
        super().__init__()
        self.attention = nn.MultiheadAttention(4, 2)
        self.norm = nn.LayerNorm(4)
        self.up = nn.Linear(4, 8)


class Encoder(nn.Module):
    """Embeddings, two blocks and a last norm, its layers numbered."""

    n_layers = 3

    def __init__(self):
        super().__init__()
        self.embed = nn.Embedding(5, 4)
        self.raw = nn.Linear(3, 4)
        self.raw.no_muon = True
        self.blocks = nn.ModuleList(Block() for _ in range(2))
        self.score = nn.Linear(4, 1)
        self.last = nn.LayerNorm(4)

    def layer_of(self, name):
        part, _, rest = name.partition(".")
        if part == "blocks":
            return int(rest[0]) + 1
        return 0 if part in ("embed", "raw") else 2


class Model(nn.Module):
    def __init__(self, encoder=None):
        super().__init__()
        self.heads = nn.Linear(4, 2)  # before the encoder: order in the module must not decide the order of groups
        self.encoder = encoder or Encoder()


def names(module, **train):
    return {g.name: [n for n, _ in g.members] for g in parameter_groups(module, TrainSpec(**train))}


def rates(module, **train):
    return {g.name: g.lr for g in parameter_groups(module, TrainSpec(**train))}


def architecture(name, levels):
    module, _, cls = {**DOMAIN.architectures, **PROTEINS.architectures}[name].partition(":")
    encoder = getattr(importlib.import_module(module), cls)(levels=levels, **(ESM2 if name == "esm2" else {}))
    targets = [
        TargetSpec(name=level, level=level, kind="regression", unit="m") if level != "token" else MASKED
        for level in levels
    ]
    head = {"head_width": 16, "head_layers": 2, "head_dropout": 0.0}
    return Network(encoder, targets, "sequence" if name == "esm2" else "molecule", 3, head)


def test_groups_follow_module_meaning():
    groups = names(Net())
    assert list(groups) == ["decay", "no_decay"]
    assert groups["decay"] == ["layer.weight"]
    assert sorted(groups["no_decay"]) == ["embed.weight", "gain", "layer.bias", "norm.bias", "norm.weight"]


def test_a_group_without_members_is_left_out():
    assert list(names(nn.LayerNorm(3))) == ["no_decay"]


@pytest.mark.parametrize("train", SPLITTING, ids=str)
@pytest.mark.parametrize(("name", "levels"), ENCODERS)
def test_every_trainable_parameter_is_in_exactly_one_group(name, levels, train):
    network = architecture(name, levels.split("+"))
    next(network.encoder.parameters()).requires_grad_(requires_grad=False)
    wanted = {n: p for n, p in network.named_parameters() if p.requires_grad}
    groups = parameter_groups(network, TrainSpec(**train))
    members = [member for group in groups for member in group.members]
    assert sorted(n for n, _ in members) == sorted(wanted)
    assert all(p is wanted[n] for n, p in members)
    held = [p for group in make_optimizer(network, TrainSpec(**train)).param_groups for p in group["params"]]
    assert sorted(map(id, held)) == sorted(map(id, wanted.values()))
    for group in groups:
        for n, p in group.members:
            table = any(part in n for part in ("_in.", "_self.", "bonds.", "embed_tokens."))
            assert group.name.endswith("no_decay") == (p.ndim < 2 or table)
            assert group.weight_decay == (0.0 if group.name.endswith("no_decay") else 0.01)


@pytest.mark.parametrize(
    ("name", "matrices"),
    [
        ("dmpnn", ["message", "atom_out", "bond_out"]),
        ("gine", [*(f"convs.{i}.nn.{j}" for i in range(4) for j in (0, 2)), "bond_out"]),
        (
            "attentivefp",
            [
                "gate_conv.lin1",
                "gate_conv.lin2",
                "atom_convs.0.lin",
                "atom_convs.1.lin",
                "molecule_conv.lin",
                "bond_out",
            ],
        ),
    ],
)
def test_muon_takes_the_hidden_matrices_of_the_encoder(name, matrices):
    network = architecture(name, ["molecule", "atom", "bond"])
    assert sorted(names(network, optimizer="muon")["muon"]) == sorted(f"encoder.{m}.weight" for m in matrices)


def test_muon_leaves_tables_input_layers_stacked_matrices_vectors_and_heads():
    groups = names(Model(), optimizer="muon")
    assert list(groups) == ["muon", "decay", "no_decay"]
    wanted = [f"encoder.blocks.{i}.{m}.weight" for i in (0, 1) for m in ("attention.out_proj", "up")]
    assert sorted(groups["muon"]) == sorted(wanted)
    others = ["encoder.blocks.0.attention.in_proj_weight", "encoder.blocks.1.attention.in_proj_weight"]
    assert sorted(groups["decay"]) == sorted(["heads.weight", "encoder.raw.weight", "encoder.score.weight", *others])
    assert "encoder.embed.weight" in groups["no_decay"]


def test_a_matrix_shared_with_a_head_or_a_table_is_not_muons():
    model = Model(Encoder())
    model.decoder = nn.Linear(4, 8, bias=False)
    model.decoder.weight = model.encoder.blocks[0].up.weight
    assert "encoder.blocks.0.up.weight" in names(model, optimizer="muon")["decay"]
    tied = Model(Encoder())
    tied.encoder.out = nn.Linear(4, 5, bias=False)
    tied.encoder.out.weight = tied.encoder.embed.weight
    assert "encoder.embed.weight" in names(tied, optimizer="muon")["no_decay"]


def test_rates_fall_by_layer_from_the_heads_down():
    found = rates(Model(), lr=0.1, layer_decay=0.5)
    by_hand = {"head": 0.1, "layer2": 0.05, "layer1": 0.025, "layer0": 0.0125}
    assert list(found) == [f"{place}/{kind}" for place in by_hand for kind in ("decay", "no_decay")]
    for name, lr in found.items():
        assert lr == pytest.approx(by_hand[name.partition("/")[0]], rel=1e-15)
    groups = names(Model(), layer_decay=0.5)
    assert groups["layer0/no_decay"] == ["encoder.embed.weight", "encoder.raw.bias"]
    assert "encoder.last.weight" in groups["layer2/no_decay"]
    assert "encoder.blocks.0.up.weight" in groups["layer1/decay"]


def test_encoder_scale_and_layer_decay_multiply():
    assert rates(Model(), lr=0.1, encoder_lr_scale=0.2) == {
        "head/decay": 0.1,
        "head/no_decay": 0.1,
        "encoder/decay": pytest.approx(0.02),
        "encoder/no_decay": pytest.approx(0.02),
    }
    both = rates(Model(), lr=0.1, encoder_lr_scale=0.2, layer_decay=0.5, optimizer="muon")
    assert both["layer1/muon"] == both["layer1/decay"] == pytest.approx(0.1 * 0.2 * 0.25)
    assert both["head/decay"] == 0.1
    assert "head/muon" not in both


@pytest.mark.parametrize("extra", [*SPLITTING[:2], {"layer_decay": 0.9}, {"layer_decay": 0.9, "optimizer": "muon"}])
def test_the_first_group_has_the_rate_that_is_logged(extra):
    assert make_optimizer(Model(), TrainSpec(lr=0.1, **extra)).param_groups[0]["lr"] == 0.1


def test_an_encoder_without_numbered_layers_refuses_layer_decay():
    with pytest.raises(InputError, match=r"layer_decay is 0\.9.*DMPNN does not number.*train\.layer_decay=null"):
        make_optimizer(architecture("dmpnn", ["molecule"]), TrainSpec(layer_decay=0.9))


def test_a_layer_out_of_range_is_refused():
    encoder = Encoder()
    encoder.layer_of = lambda name: 3
    with pytest.raises(ValueError, match=r"layer_of puts encoder\.\S+ into layer 3 of 3"):
        make_optimizer(Model(encoder), TrainSpec(layer_decay=0.9))


def test_muon_without_a_matrix_is_refused():
    with pytest.raises(InputError, match=r"optimizer is muon.*train\.optimizer=adamw"):
        make_optimizer(Model(nn.LayerNorm(4)), TrainSpec(optimizer="muon"))


def test_groups_are_described_with_sizes_rate_and_decay():
    lines = describe_groups(make_optimizer(Net(), TrainSpec(weight_decay=0.3)))
    assert lines == [
        "decay: 1 tensor, 16 elements, lr 0.001, weight decay 0.3",
        "no_decay: 5 tensors, 33 elements, lr 0.001, weight decay 0",
    ]
    optimizer = make_optimizer(Model(), TrainSpec(optimizer="muon", layer_decay=0.5, lr=0.1))
    torch.optim.lr_scheduler.LambdaLR(optimizer, lambda step: 0.0)
    assert "layer2/muon: 2 tensors, 48 elements, lr 0.05, weight decay 0.01" in describe_groups(optimizer)


def test_adamw_by_its_formula():
    torch.manual_seed(0)
    net = nn.Sequential(nn.Linear(3, 2)).double()
    optimizer = make_optimizer(net, TrainSpec(lr=0.1, weight_decay=0.3))
    names = [n for n, _ in net.named_parameters()]
    w = [p.detach().clone() for p in net.parameters()]
    m, v = [torch.zeros_like(x) for x in w], [torch.zeros_like(x) for x in w]
    for t in range(1, 6):
        grads = [torch.randn_like(x) for x in w]
        for p, g in zip(net.parameters(), grads, strict=True):
            p.grad = g.clone()
        optimizer.step()
        for i, g in enumerate(grads):
            m[i] = 0.9 * m[i] + 0.1 * g
            v[i] = 0.999 * v[i] + 0.001 * g**2
            w[i] = w[i] * (1 - 0.1 * (0.3 if names[i] == "0.weight" else 0.0))
            w[i] = w[i] - 0.1 * (m[i] / (1 - 0.9**t)) / ((v[i] / (1 - 0.999**t)).sqrt() + 1e-8)
    for p, want in zip(net.parameters(), w, strict=True):
        torch.testing.assert_close(p.detach(), want, rtol=1e-12, atol=1e-14)


def test_the_default_is_torchs_fused_adamw_over_two_groups_to_the_bit():
    torch.manual_seed(0)
    ours, theirs = (architecture("gine", ["molecule"]) for _ in range(2))
    theirs.load_state_dict(ours.state_dict())
    small = {id(p) for n, p in theirs.named_parameters() if p.ndim < 2 or "atom_in" in n or "bonds" in n}
    optimizers = [
        make_optimizer(ours, TrainSpec()),
        torch.optim.AdamW(
            [
                {"params": [p for p in theirs.parameters() if id(p) not in small], "weight_decay": 0.01},
                {"params": [p for p in theirs.parameters() if id(p) in small], "weight_decay": 0.0},
            ],
            lr=1e-3,
            fused=True,
        ),
    ]
    for _ in range(3):
        for a, b in zip(ours.parameters(), theirs.parameters(), strict=True):
            a.grad = torch.randn_like(a)
            b.grad = a.grad.clone()
        for optimizer in optimizers:
            optimizer.step()
    assert all(torch.equal(a, b) for a, b in zip(ours.parameters(), theirs.parameters(), strict=True))


@pytest.mark.parametrize("kind", ["adamw", "muon"])
def test_a_gradient_scaler_changes_no_bit_and_clipping_sees_the_true_gradient(kind):
    torch.manual_seed(0)
    plain, scaled = Model(), Model()
    scaled.load_state_dict(plain.state_dict())
    spec = TrainSpec(optimizer=kind)
    a, b = make_optimizer(plain, spec), make_optimizer(scaled, spec)
    scaler = torch.amp.GradScaler("cpu", init_scale=1024.0, growth_interval=2)
    for step in range(4):
        lost = step == 2
        grads = [torch.randn_like(p) for p in plain.parameters()]
        for p, q, g in zip(plain.parameters(), scaled.parameters(), grads, strict=True):
            p.grad = g.clone()
            q.grad = scaler.scale(g) * (float("inf") if lost else 1.0)
        if not getattr(b, "_step_supports_amp_scaling", False):  # Lightning asks so
            scaler.unscale_(b)
        seen = nn.utils.clip_grad_norm_(scaled.parameters(), 1.0)
        if not lost:
            assert torch.equal(seen, nn.utils.clip_grad_norm_(plain.parameters(), 1.0))
            a.step()
        scaler.step(b)
        scaler.update()
        assert all(torch.equal(p, q) for p, q in zip(plain.parameters(), scaled.parameters(), strict=True)), step
