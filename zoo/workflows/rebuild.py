"""From what a bundle says and its tensors to a model."""

from __future__ import annotations

import torch
from torch import Tensor

from zoo.core.bundle import load_strict
from zoo.core.domain import get_domain, load_object
from zoo.errors import BundleError, unknown_name
from zoo.specs.model import ModelSpec
from zoo.workflows.model import Model
from zoo.workflows.network import DTYPES, build_network


def rebuild(spec: ModelSpec, state: dict[str, Tensor], where: str, device: torch.device) -> Model:
    """Return the model of a specification; this installation must make the same features and layers.

    ``where`` names the bundle in messages.

    Raises
    ------
    BundleError
        If the featuriser or the architecture is of another version, or a tensor does not fit.
    """
    domain = get_domain(spec.domain)
    own = (domain.featuriser, domain.featuriser_version)
    if (spec.featuriser.name, spec.featuriser.version) != own:
        raise BundleError(
            f"{where} was trained with the featuriser {spec.featuriser.name} version {spec.featuriser.version}; "
            f"this installation has {own[0]} version {own[1]}. Use the version of scizoo it was made with: "
            f"pip install scizoo=={spec.provenance.packages.get('scizoo', '?')}"
        )
    name = spec.architecture.name
    if name not in domain.architectures:
        raise BundleError(f"{where}: {unknown_name('architecture', name, domain.architectures)}")
    current = load_object(domain.architectures[name]).VERSION
    if spec.architecture.version != current:
        raise BundleError(
            f"{where} needs version {spec.architecture.version} of {name}; this installation has version {current}."
        )
    network = build_network(
        domain,
        name,
        spec.architecture.hparams,
        spec.architecture.head,
        targets=spec.targets,
        n_features=0 if spec.features is None else len(spec.features.names),
        seed=0,
        adapter=spec.architecture.adapter,
    ).to(DTYPES[spec.dtype])
    load_strict(network, state, f"{where}/model.safetensors")
    return Model(spec, network, domain, device)
