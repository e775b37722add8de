"""What a trained model is: the schema of a bundle's ``config.json``, the only source of truth about it."""

from __future__ import annotations

from typing import Annotated, Literal

from pydantic import Field

from zoo.specs.base import Spec
from zoo.specs.dataset import DomainName
from zoo.specs.target import TargetSpec

SCHEMA_VERSION = 1


class AdapterSpec(Spec):
    """Low-rank adapters (LoRA, Hu et al. 2021, arXiv:2106.09685) beside some linear layers of the encoder.

    A layer gives ``W x + alpha / rank * B A x`` with ``A`` of ``rank`` rows.
    """

    rank: Annotated[int, Field(ge=1)]
    alpha: Annotated[float, Field(gt=0)]
    dropout: Annotated[float, Field(ge=0, lt=1)]
    targets: list[str]
    """Last part of the names of the layers."""


class ArchitectureSpec(Spec):
    """Architecture by name and version with every hyper-parameter, the head's included."""

    name: str
    version: int
    hparams: dict[str, int | float | str | bool]
    head: dict[str, int | float | str | bool]
    adapter: AdapterSpec | None = None


class FeaturiserSpec(Spec):
    """The one featuriser of training and prediction, with every option."""

    name: str
    version: int
    options: dict[str, int | float | str | bool]


class ScalerSpec(Spec):
    """``raw = mean + scale * output``, after which ``10 ** raw`` where ``log10`` is set."""

    mean: float = 0.0
    scale: Annotated[float, Field(gt=0)] = 1.0
    log10: bool = False


class FeatureScalerSpec(Spec):
    """Item-level features in order: ``clip((x - mean) / scale, -limit, limit)``."""

    names: list[str]
    mean: list[float]
    scale: list[float]
    limit: Annotated[float, Field(gt=0)] = 10.0
    n_from_featuriser: Annotated[int, Field(ge=0)]
    """The first ones come from the featuriser, the rest from columns of the user's table."""


class SplitInfo(Spec):
    """The split a model was trained on."""

    method: str
    seed: int
    sha256: str
    sizes: dict[str, int]


class ScoreInfo(Spec):
    """One metric with how much it rests on. ``value`` is None where no target could be scored."""

    value: float | None
    rows: int
    targets_scored: int
    targets: int
    skipped: dict[str, str] = {}


class Provenance(Spec):
    """Where a model came from."""

    task: str
    dataset: str
    licence: str
    data_sha256: str
    split: SplitInfo
    seed: int
    threads: int
    parameters: int
    steps: int
    selected: str
    """``best`` (with the epoch) or ``last``."""
    metrics: dict[str, dict[str, ScoreInfo]]
    """Scores by metric for the model and each baseline, on the test part."""
    packages: dict[str, str]
    origin: dict[str, str] = {}
    """Of weights that were published elsewhere: their file, its sha256, where it is from and by whom."""
    start: dict[str, str] = {}
    """Of a fine-tuned model: the model it started from, its checksum, data and licence, the mode, and the layer."""


class FileDigest(Spec):
    """Checksum and size of a file of the bundle."""

    sha256: Annotated[str, Field(pattern=r"^[0-9a-f]{64}$")]
    bytes: Annotated[int, Field(ge=0)]


class ModelSpec(Spec):
    """``config.json``: everything needed to load and run a model without running anyone's code."""

    schema_version: Literal[1] = 1
    name: str
    domain: DomainName
    architecture: ArchitectureSpec
    dtype: Literal["float32", "float64"]
    featuriser: FeaturiserSpec
    input_column: str
    targets: list[TargetSpec]
    scalers: dict[str, ScalerSpec]
    features: FeatureScalerSpec | None = None
    provenance: Provenance
    files: dict[str, FileDigest] = {}
    config_sha256: str = ""
    """Of this document as canonical JSON with this field empty."""
