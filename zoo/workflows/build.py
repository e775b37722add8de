"""The one place where specs, data, model and trainer meet."""

from __future__ import annotations

import hashlib
from collections.abc import Mapping
from dataclasses import dataclass, field
from importlib import metadata
from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch import nn

from zoo import resources
from zoo.core.bundle import canonical_json, sha256
from zoo.core.cache import featurise, featuriser_options
from zoo.core.datamodule import DataSource, ZooDataModule, node_levels
from zoo.core.domain import Domain, get_domain, load_object
from zoo.core.evaluation import make_outcome, select_labels
from zoo.core.feature_file import frozen_items
from zoo.core.frozen import Featured
from zoo.core.heads import Network
from zoo.core.join import join, rename
from zoo.core.labels import check_trainable
from zoo.core.losses import MaskedLoss
from zoo.core.masking import Hiding
from zoo.core.metrics import score
from zoo.core.module import ZooModule
from zoo.core.parts import official_parts, read_split_file
from zoo.core.records import Records, assemble
from zoo.core.scalers import fit_feature_scaler, fit_target_scaler, scale_features, scale_labels
from zoo.core.splits import Split, make_split
from zoo.core.table import Table, read_table
from zoo.core.types import Labels
from zoo.errors import DataError, InputError, unknown_name
from zoo.specs.catalog import Catalog
from zoo.specs.dataset import DatasetSpec, FileSpec
from zoo.specs.model import FeatureScalerSpec, ScalerSpec
from zoo.specs.run import RunSpec
from zoo.specs.task import TaskSpec
from zoo.workflows.network import build_network, split_hparams
from zoo.workflows.pretrained import Start, hparams_at, open_start, take_over


@dataclass
class Data:
    """A data set as records: one item per distinct thing, labels in original units, and what was dropped."""

    domain: Domain
    table: Table
    records: Records
    options: dict[str, Any]
    sha256: str
    folder: Path | None


@dataclass
class Prepared:
    """Everything a fit needs."""

    run: RunSpec
    data: Data
    split: Split
    parts: dict[str, np.ndarray]
    scalers: dict[str, ScalerSpec]
    feature_scaler: FeatureScalerSpec | None
    datamodule: ZooDataModule
    module: ZooModule
    architecture: str
    hparams: dict[str, Any]
    head: dict[str, Any]
    start: Start | None = None
    encoder: nn.Module | None = None
    """The frozen encoder, where the module trains heads on its features alone."""
    new: list[str] = field(default_factory=list)
    """Tensors of the encoder that the model it started from has not got."""

    @property
    def network(self) -> Network:
        """The whole network, which predicts from inputs; its heads are the module's."""
        return self.module.network if self.encoder is None else self.module.network.with_encoder(self.encoder)

    def labels(self, part: str) -> dict[str, Labels]:
        """Return a part's labels in original units."""
        return asked_labels(self.data.records, self.datamodule.source.hiding, self.parts[part])


def read_dataset(dataset: DatasetSpec, folder: Path, mirror: Path | None) -> tuple[Table, str]:
    """Return the rows of a data set, its files joined by id, and a hash of the files."""
    tables = [read_file(file, folder, mirror) for file in dataset.files]
    if len(tables) == 1:
        return tables[0], dataset.files[0].sha256
    used = "".join(f"{file.sha256} {file.member or ''}\n" for file in dataset.files)
    return join(tables, dataset.by_role("id")[0].name), hashlib.sha256(used.encode()).hexdigest()


def read_file(file: FileSpec, folder: Path, mirror: Path | None) -> Table:
    """Return one file of a data set, its columns called as the data set calls them."""
    return rename(read_table(resources.locate(file, folder, mirror), file.format, file.member), file.rename)


def load_data(
    task: TaskSpec, dataset: DatasetSpec, options: Mapping[str, Any], *, folder: Path, mirror: Path | None
) -> Data:
    """Read, featurise and label a data set."""
    domain = get_domain(task.domain)
    table, digest = read_dataset(dataset, folder, mirror)
    for target in task.targets:
        if target.level not in (domain.item_level, *domain.node_levels):
            allowed = ", ".join((domain.item_level, *domain.node_levels))
            raise InputError(f"target {target.name!r}: level {target.level!r} is not one of {domain.name}: {allowed}.")
    raw = table.column(dataset.by_role("input")[0].name)
    featurised = featurise(domain, raw, options)
    apart = _apart(task, table, folder)
    records = assemble(
        table, dataset, task.targets, featurised, duplicates=task.duplicates, apart=apart, paired=domain.paired
    )
    return Data(domain, table, records, featuriser_options(domain, options), digest, folder)


def _apart(task: TaskSpec, table: Table, folder: Path) -> list[str] | None:
    """Return the part of every row where an official split may hold the same thing in two parts."""
    split = task.split
    if split.overlap != "allow":
        return None
    if split.method == "column" and split.column is not None:
        return official_parts(split, table)
    if split.method == "file" and split.file is not None:
        parts = read_split_file(folder / split.file.replace("{seed}", str(split.seed)), len(table))
        return [str(parts.get(row, "")) for row in range(len(table))]
    return None


def prepare(run: RunSpec, *, folder: Path, mirror: Path | None = None) -> Prepared:
    """Build everything that a fit needs from a resolved run."""
    torch.set_num_threads(run.threads)
    task = run.task
    data = load_data(task, run.dataset, run.model.featuriser, folder=folder, mirror=mirror)
    if run.on_invalid == "error" and data.records.report.dropped:
        raise data.table.fail(
            f"{len(data.records.report.dropped)} rows cannot be used (--on-invalid error)",
            [(p.row, f"{p.value!r}: {p.reason}") for p in data.records.report.dropped],
            "Mend the rows, or leave them out with --on-invalid skip.",
        )
    split = split_of(run, data)
    records = data.records
    parts: dict[str, np.ndarray] = {str(name): part for name, part in split.parts.items()}
    for target in task.targets:
        check_trainable(target, records.labels[target.name], parts["train"])
    train_labels = {n: select_labels(v, parts["train"]) for n, v in records.labels.items()}
    scalers = {t.name: fit_target_scaler(t, train_labels[t.name]) for t in task.targets}
    features, feature_scaler = _features(data, parts["train"])
    dtype = torch.float64 if run.train.precision == "64" else torch.float32
    source = DataSource(
        items=records.items,
        rows=records.first_rows,
        labels={n: scale_labels(scalers[n], v) for n, v in records.labels.items()},
        features=features,
        dtype=dtype,
        hiding=Hiding.of(task.targets, records.items, run.seed),
        levels=node_levels(task.targets, data.domain.item_level),
    )
    architecture = run.model.architecture or task.architecture_for(len(parts["train"]))
    if architecture not in data.domain.architectures:
        raise unknown_name("architecture", architecture, data.domain.architectures)
    hparams, head = split_hparams(data.domain, architecture, run.model.hparams)
    if run.start is not None:
        hparams = hparams_at(load_object(data.domain.architectures[architecture]), hparams, run.start)
    n_features = 0 if features is None else features.shape[1]
    network = build_network(
        data.domain, architecture, hparams, head, targets=task.targets, n_features=n_features, seed=run.seed
    ).to(dtype)
    start, encoder, new = None, None, []
    if run.start is not None:
        start = open_start(run.start, mirror)
        new = take_over(network, start, run.start, run.seed)
        network.to(dtype)  # adapters too
        if not any(p.requires_grad for p in network.encoder.parameters()):
            encoder, source.items = network.encoder, _frozen(run, data, network, hparams)
            network = network.with_encoder(Featured(encoder.dims))  # type: ignore[arg-type]
    losses = {t.name: MaskedLoss(t) for t in task.targets}
    datamodule = ZooDataModule(
        source,
        parts,
        losses,
        batch_size=run.train.batch_size,
        microbatches=run.train.microbatches,
        seed=run.seed,
        laps=run.train.validations,
        batch_cost=run.train.batch_cost,
    )
    val_labels = asked_labels(records, source.hiding, parts.get("val", np.zeros(0, dtype=np.int64)))
    module = ZooModule(
        network,
        task.targets,
        scalers,
        run.train,
        total_steps=run.train.epochs * datamodule.train_loader.windows,
        seed=run.seed,
        metrics=task.metrics,
        val_labels=val_labels,
        monitor_loss=not _primary_defined(task, val_labels),
        budget_seconds=run.budget_seconds,
    )
    return Prepared(
        run,
        data,
        split,
        parts,
        scalers,
        feature_scaler,
        datamodule,
        module,
        architecture,
        hparams,
        head,
        start,
        encoder,
        new,
    )


def _frozen(run: RunSpec, data: Data, network: Network, hparams: Mapping[str, Any]) -> Any:
    """Return the items with the features that a frozen encoder gives them, through the cache."""
    if run.start is None:
        raise ValueError("only an encoder that was trained before is frozen")
    records, domain = data.records, data.domain
    levels = list(dict.fromkeys(t.level for t in run.task.targets))
    dtype = next(network.parameters()).dtype
    what = [run.start.config_sha256, hparams, domain.featuriser, domain.featuriser_version, data.options, levels]
    digest = sha256(canonical_json([*what, str(dtype)]))[:32]
    ones = np.ones(len(records), np.int64)
    return frozen_items(
        network.encoder,
        records.items,
        records.inputs,
        {lv: ones if lv == domain.item_level else np.diff(records.items.node_ptr(lv)) for lv in levels},
        path=resources.cache_dir() / "features" / f"{domain.name}-{digest}.safetensors",
        dtype=dtype,
        device=torch.device("cuda" if run.device != "cpu" and torch.cuda.is_available() else "cpu"),
    )


def asked_labels(records: Records, hiding: Hiding | None, index: np.ndarray) -> dict[str, Labels]:
    """Return the labels of the items ``index`` in original units: of masked targets, those that evaluation hides."""
    masked = () if hiding is None else hiding.targets
    return {
        name: hiding.labels(labels, index) if hiding is not None and name in masked else select_labels(labels, index)
        for name, labels in records.labels.items()
    }


def split_of(run: RunSpec, data: Data) -> Split:
    """Divide a run's records."""
    spec = run.task.split
    column = None
    if spec.method == "column" and spec.column is not None:
        column = official_parts(spec, data.table)
    return make_split(
        spec,
        run.split_seed,
        data.records,
        data.records.keys,
        domain=data.domain,
        folder=data.folder,
        column=column,
    )


def _features(data: Data, train: np.ndarray) -> tuple[np.ndarray | None, FeatureScalerSpec | None]:
    """Return scaled item-level features, the featuriser's first, and their scaler fitted on the training items."""
    records = data.records
    values = _raw_features(records)
    if values is None:
        return None, None
    own = 0 if records.items.features is None else records.items.features.shape[1]
    names = [*(records.items.feature_names if own else []), *records.feature_names]
    scaler = fit_feature_scaler(names, values[train], own)
    return scale_features(scaler, values), scaler


def _raw_features(records: Records) -> np.ndarray | None:
    present = [v for v in (records.items.features, records.features) if v is not None]
    return np.concatenate(present, axis=1) if present else None


def scaled_features(records: Records, scaler: FeatureScalerSpec) -> np.ndarray:
    """Return ``(n, f)`` features of records as a trained model wants them."""
    values = _raw_features(records)
    names = [*records.items.feature_names[: scaler.n_from_featuriser], *records.feature_names]
    if values is None or names != scaler.names:
        raise DataError(f"the model needs the features {', '.join(scaler.names)}; the data has: {', '.join(names)}.")
    return scale_features(scaler, values)


def _primary_defined(task: TaskSpec, val_labels: Mapping[str, Labels]) -> bool:
    """Whether the primary metric has a value on the validation labels (both classes there, not constant)."""
    outcomes = []
    for target in task.targets:
        labels = val_labels[target.name]
        if target.kind == "multiclass":
            perfect = np.eye(target.n_outputs)[np.where(labels.mask, labels.values, 0)]
        else:
            perfect = np.where(labels.mask, labels.values, 0.0)
        outcomes.append(make_outcome(target, perfect, labels))
    return score(task.primary.name, outcomes).value is not None


def versions(domain: Domain) -> dict[str, str]:
    """Return the versions of the packages that a result rests on."""
    names = ("scizoo", "torch", "lightning", "numpy", *domain.packages)
    found = {}
    for name in dict.fromkeys(names):
        try:
            found[name] = metadata.version(name)
        except metadata.PackageNotFoundError:
            found[name] = "unknown"
    return found


def folder_of(run: RunSpec, catalog: Catalog) -> Path:
    """Return the folder that a run's data files stand in."""
    return Path(run.data_file).parent if run.data_file is not None else catalog.dataset_folder(run.dataset.name)
