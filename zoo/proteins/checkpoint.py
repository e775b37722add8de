"""Read ESM-2 in the format it is published in: pickled tensors beside an ``argparse.Namespace``; no code in it runs."""

from __future__ import annotations

import argparse
import pickle
import warnings
import zipfile
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch
from torch import Tensor

from zoo.errors import BundleError, InputError
from zoo.proteins.alphabet import TOKENS
from zoo.proteins.esm2 import ESM2

_PREFIXES = ("encoder.sentence_encoder.", "encoder.")
_CONTACT = ("contact_head.regression.weight", "contact_head.regression.bias")
_SHOWN = 4


@dataclass(frozen=True)
class Checkpoint:
    """Sizes of an ESM-2, its tensors by fair-esm's names in float32, and those of its contact head if there are any."""

    hparams: dict[str, int | bool]
    state: dict[str, Tensor]
    contact: dict[str, Tensor] | None


def read_checkpoint(path: Path, regression: Path | None = None) -> Checkpoint:
    """Return the model in a published file, with the contact head of a second file, if that is given.

    What the model is, is read from the file's own configuration and held against its tensors; its name does not matter.

    Raises
    ------
    BundleError
        If a file is missing, cut short, holds anything but tensors and plain values, is no ESM-2, or its tensors are
        not those of the sizes it claims.
    """
    content = _load(path)
    hparams = _sizes(path, content)
    tensors = _renamed(path, content)
    if regression is not None:
        tensors |= _renamed(regression, _load(regression))
    contact = {name: tensors.pop(name).float() for name in _CONTACT if name in tensors}
    n_maps = int(hparams["layers"]) * int(hparams["heads"])
    if contact and [tuple(v.shape) for v in contact.values()] != [(1, n_maps), (1,)]:
        raise BundleError(f"{regression or path}: its contact head is not of a model with {n_maps} attention maps.")
    return Checkpoint(hparams, _checked(path, tensors, hparams), contact or None)


def _load(path: Path) -> dict[str, Any]:
    """Return what stands in a file, without running what may stand in it."""
    if not path.is_file():
        raise BundleError(f"{path}: there is no such file.")
    try:
        with warnings.catch_warnings(), torch.serialization.safe_globals([argparse.Namespace]):
            warnings.simplefilter("ignore")  # torch's, of what is refused below in our words
            content = torch.load(path, map_location="cpu", weights_only=True, mmap=zipfile.is_zipfile(path) or None)
    except pickle.UnpicklingError as error:
        raise BundleError(
            f"{path} holds something that is neither a tensor nor a plain value, so it was not loaded and none of its "
            "code was run. Take the file from its publisher."
        ) from error
    except Exception as error:
        raise BundleError(f"{path} is cut short, damaged, or no file of weights. Fetch it again.") from error
    if not isinstance(content, dict) or not isinstance(content.get("model"), dict):
        raise BundleError(f"{path} is no published ESM-2: it holds no tensors under the name `model`.")
    return content


def _sizes(path: Path, content: Mapping[str, Any]) -> dict[str, int | bool]:
    """Return the hyper-parameters in a file's configuration."""
    configuration = content.get("cfg")
    own = configuration.get("model") if isinstance(configuration, dict) else None
    values = own if isinstance(own, dict) else vars(own) if isinstance(own, argparse.Namespace) else {}
    names = {
        "layers": "encoder_layers",
        "width": "encoder_embed_dim",
        "heads": "encoder_attention_heads",
        "token_dropout": "token_dropout",
    }
    missing = [theirs for theirs in names.values() if theirs not in values]
    if missing:
        raise BundleError(f"{path} is no published ESM-2: its configuration does not name {', '.join(missing)}.")
    sizes: dict[str, int | bool] = {name: int(values[theirs]) for name, theirs in names.items()}
    return {**sizes, "token_dropout": bool(values["token_dropout"])}


def _renamed(path: Path, content: Mapping[str, Any]) -> dict[str, Tensor]:
    """Return the tensors of a file without the prefixes of the library they were trained with."""
    found: dict[str, Tensor] = {}
    for name, tensor in content["model"].items():
        if not isinstance(tensor, Tensor):
            raise BundleError(f"{path} is no published ESM-2: {name} is no tensor.")
        prefix = next((p for p in _PREFIXES if name.startswith(p)), "")
        found[name.removeprefix(prefix)] = tensor
    return found


def _checked(path: Path, tensors: dict[str, Tensor], hparams: Mapping[str, int | bool]) -> dict[str, Tensor]:
    """Return the tensors of the encoder and its language model; what is computed or stored twice is left out."""
    try:
        with torch.device("meta"):
            expected = ESM2(["token"], **hparams).state_dict()
    except InputError as error:
        raise BundleError(f"{path}: {error}") from error
    tied = tensors.pop("lm_head.weight", None)
    computed = {n: tensors.pop(n) for n in list(tensors) if n.endswith("rot_emb.inv_freq")}
    wrong = [f"{n} is missing" for n in expected.keys() - tensors.keys()]
    wrong += [f"{n} is unknown" for n in tensors.keys() - expected.keys()]
    wrong += [
        f"{n} is {tuple(tensors[n].shape)} instead of {tuple(expected[n].shape)}"
        for n in expected.keys() & tensors.keys()
        if tensors[n].shape != expected[n].shape
    ]
    if wrong:
        more = f" and {len(wrong) - _SHOWN} more" if len(wrong) > _SHOWN else ""
        raise BundleError(
            f"{path} is no ESM-2 of {hparams['layers']} layers, width {hparams['width']} and {len(TOKENS)} tokens: "
            f"{'; '.join(sorted(wrong)[:_SHOWN])}{more}."
        )
    if tied is not None and not torch.equal(tied, tensors["embed_tokens.weight"]):
        raise BundleError(f"{path}: lm_head.weight differs from the embedding, and in an ESM-2 they are one.")
    for name, tensor in computed.items():
        if not torch.allclose(tensor.float(), _frequency(hparams), rtol=1e-2):  # they may be stored in half precision
            raise BundleError(f"{path}: the rotary frequencies {name} are not those of ESM-2.")
    return {name: tensor.float() for name, tensor in tensors.items()}


def _frequency(hparams: Mapping[str, int | bool]) -> Tensor:
    width = int(hparams["width"]) // int(hparams["heads"])
    return 1.0 / 10_000 ** (torch.arange(0, width, 2).float() / width)
