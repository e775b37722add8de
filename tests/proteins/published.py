"""Small files in the official layout with random weights, and one that would run a command if it were unpickled."""

import argparse
import os

import esm
import torch
from torch import nn

SIZES = (2, 40, 4)
NAME = "esm2_t2_tiny"


def official(sizes=SIZES, **changes):
    """Return the content of a published file with random weights, and that of its contact file."""
    torch.manual_seed(0)
    model = esm.model.esm2.ESM2(*sizes, esm.data.Alphabet.from_architecture("ESM-1b"))
    with torch.no_grad():
        for p in model.parameters():
            if p.ndim < 2:
                nn.init.normal_(p, std=0.3)
    named = {}
    for name, tensor in model.state_dict().items():
        if not name.startswith("contact_head"):
            prefix = "encoder." if name.startswith("lm_head") else "encoder.sentence_encoder."
            named[prefix + name] = tensor
    contact = {n: v for n, v in model.state_dict().items() if n.startswith("contact_head")}
    layers, width, heads = sizes
    arguments = argparse.Namespace(
        **{
            "encoder_layers": layers,
            "encoder_embed_dim": width,
            "encoder_attention_heads": heads,
            "token_dropout": True,
            "arch": "roberta_large",
            **changes,
        }
    )
    return {"cfg": {"model": arguments, "task": None}, "model": named}, {"model": contact}


def written(folder, name=NAME, *, contact=True, content=None, **changes):
    content, contacts = official(**changes) if content is None else (content, official()[1])
    torch.save(content, folder / f"{name}.pt")
    if contact:
        torch.save(contacts, folder / f"{name}-contact-regression.pt")
    return folder / f"{name}.pt"


class Payload:
    def __init__(self, file):
        self.file = file

    def __reduce__(self):
        return os.system, (f"touch {self.file}",)
