"""The published weights of ESM-2, by name or as a file: found, fetched, and turned into a bundle's parts."""

from __future__ import annotations

from collections.abc import Callable
from importlib import metadata
from pathlib import Path

import torch
from safetensors.torch import load, save
from torch import Tensor

from zoo.core.bundle import CONFIG
from zoo.core.domain import Converted
from zoo.core.heads import HEAD_DEFAULTS
from zoo.errors import BundleError, DownloadError
from zoo.proteins.alphabet import TOKENS
from zoo.proteins.checkpoint import read_checkpoint
from zoo.proteins.esm2 import ESM2
from zoo.proteins.featurise import NAME, OPTIONS, VERSION
from zoo.proteins.official import BASE, CITATION, DATASET, FILES, LICENCE, SIZES, TASK
from zoo.resources import locate_published, sha256_of
from zoo.specs.model import (
    ArchitectureSpec,
    FeaturiserSpec,
    ModelSpec,
    Provenance,
    ScalerSpec,
    SplitInfo,
)
from zoo.specs.target import TargetSpec

CONTACT = "contact.safetensors"
"""The file of a bundle that holds the contact head, where there is one."""
MASKED_RESIDUE = TargetSpec(name="residue", level="token", kind="multiclass", objective="masked", classes=list(TOKENS))
_EXAMPLES = [
    "MKTAYIAKQRQISFVKSHFSRQLEERLGLIEVQ",
    "GSHMASMTGGQQMGRGSEF",
    "KVFGRCELAAAMKRHGLDNYRGYSLGNWVCAAKFESNFNTQATNRNTDGS",
]


class OfficialESM2:
    """ESM-2 as published; see :class:`zoo.core.domain.Published`."""

    def names(self) -> list[str]:
        """Return the names there are."""
        return list(FILES)

    def locate(self, model: str, mirror: Path | None, *, extra: bool) -> tuple[str, Callable[[], Converted]] | None:
        """Return a key of a model's files and how to convert them; None for what is neither a name nor a file.

        The file of the contact head stands beside a local file (``NAME-contact-regression.pt``) or is fetched. Where
        it is missing, that is an error only with ``extra``.

        Raises
        ------
        BundleError, DownloadError
            If a file is missing.
        """
        if model in FILES:
            weights, digest = locate_published(f"{BASE}/models/{FILES[model]}.pt", mirror)
            regression = _fetched_regression(model, mirror, extra=extra)
        elif model.endswith(".pt") and Path(model).is_file():
            weights, digest = Path(model), sha256_of(Path(model))
            regression = _regression_beside(weights, extra=extra)
        else:
            return None
        with_contacts = "" if regression is None else f"-{sha256_of(regression)[:8]}"
        key = f"{model if model in FILES else weights.stem}-{digest[:16]}{with_contacts}"
        return key, lambda: _convert(model, weights, digest, regression)


OFFICIAL = OfficialESM2()


def _fetched_regression(model: str, mirror: Path | None, *, extra: bool) -> Path | None:
    try:
        return locate_published(f"{BASE}/regression/{FILES[model]}-contact-regression.pt", mirror)[0]
    except DownloadError:
        if extra:
            raise
        return None  # most uses never ask for contacts


def _regression_beside(weights: Path, *, extra: bool) -> Path | None:
    path = weights.with_name(f"{weights.stem}-contact-regression.pt")
    if path.is_file():
        return path
    if extra:
        raise BundleError(
            f"contacts need the contact head of {weights.name}, in a file of its own: put {path.name} beside it. "
            f"It is published at {BASE}/regression/."
        )
    return None


def _convert(model: str, weights: Path, digest: str, regression: Path | None) -> Converted:
    found = read_checkpoint(weights, regression)
    sizes = tuple(found.hparams[name] for name in ("layers", "width", "heads"))
    if model in SIZES and sizes != SIZES[model]:
        raise BundleError(
            f"{weights} holds an ESM-2 of {sizes[0]} layers, width {sizes[1]} and {sizes[2]} heads, and {model} has "
            f"{SIZES[model]}. Put the right file there."
        )
    state = {f"encoder.{name}": tensor for name, tensor in found.state.items()}
    extra = {} if found.contact is None else {CONTACT: save(found.contact)}
    origin = {"file": weights.name, "sha256": digest, "source": "facebookresearch/esm", "citation": CITATION}
    name = model if model in FILES else weights.stem.lower()
    spec = ModelSpec(
        name=name,
        domain="proteins",
        architecture=ArchitectureSpec(
            name="esm2", version=ESM2.VERSION, hparams={**ESM2.HPARAMS, **found.hparams}, head=dict(HEAD_DEFAULTS)
        ),
        dtype="float32",
        featuriser=FeaturiserSpec(name=NAME, version=VERSION, options=dict(OPTIONS)),
        input_column="sequence",
        targets=[MASKED_RESIDUE],
        scalers={MASKED_RESIDUE.name: ScalerSpec()},
        provenance=Provenance(
            task=TASK,
            dataset=DATASET,
            licence=LICENCE,
            data_sha256="",
            split=SplitInfo(method="unknown", seed=0, sha256="", sizes={}),
            seed=0,
            threads=torch.get_num_threads(),
            parameters=sum(tensor.numel() for tensor in state.values()),
            steps=0,
            selected="published",
            metrics={},
            packages={"scizoo": metadata.version("scizoo"), "torch": metadata.version("torch")},
            origin=origin,
        ),
    )
    return Converted(spec, state, _EXAMPLES, extra)


def add_contacts(encoder: ESM2, bundle: Path) -> None:
    """Give an encoder the contact head that stands in its bundle.

    Raises
    ------
    BundleError
        If it has none.
    """
    encoder.add_contact_head(contact_state(bundle))


def contact_state(bundle: Path) -> dict[str, Tensor]:
    """Return the contact head's tensors in a bundle.

    Raises
    ------
    BundleError
        If it has none.
    """
    path = bundle / CONTACT
    if not path.is_file():
        raise BundleError(
            f"{bundle / CONFIG} is of a model without a contact head, so it says nothing of contacts. The published "
            f"models have one: {', '.join(FILES)}."
        )
    state: dict[str, Tensor] = load(path.read_bytes())
    return state
