"""A trained model: loaded from a bundle, predicting from raw inputs."""

from __future__ import annotations

import json
import logging
from collections import Counter
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import torch

from zoo.core.cache import featurise
from zoo.core.datamodule import BatchLoader, DataSource, node_levels
from zoo.core.domain import Domain
from zoo.core.evaluation import raw_outputs, to_predictions
from zoo.core.heads import Network
from zoo.core.masking import Hiding
from zoo.core.scalers import scale_features
from zoo.core.table import Table, read_table
from zoo.core.types import Featurised, Items, RowProblem
from zoo.errors import DataError, InputError, did_you_mean, unknown_name
from zoo.specs.model import ModelSpec
from zoo.specs.target import TargetSpec
from zoo.workflows.foreign import warn_of_foreign
from zoo.workflows.network import DTYPES
from zoo.workflows.pairs import describe_pairs

_log = logging.getLogger("zoo")
_CHUNK = 8192
"""Rows featurised and predicted at a time, so that a file of millions needs no more memory than its table."""


class Model:
    """A trained model.

    Attributes
    ----------
    spec
        Everything ``config.json`` says.
    network
        The torch module, in evaluation mode.
    """

    def __init__(self, spec: ModelSpec, network: Network, domain: Domain, device: torch.device) -> None:
        self.spec, self.network, self.domain, self.device = spec, network.to(device).eval(), domain, device

    def __repr__(self) -> str:
        targets = ", ".join(f"{t.name} [{t.unit or t.kind}]" for t in self.spec.targets)
        return f"Model({self.spec.name}: {self.spec.architecture.name}, {targets})"

    def predict(
        self,
        inputs: list[str] | list[str | None] | pd.DataFrame | str | Path,
        *,
        input_column: str | None = None,
        on_invalid: str = "null",
        batch_size: int = 256,
    ) -> pd.DataFrame:
        """Predict a list of raw inputs, a DataFrame, or a CSV or TSV file.

        Parameters
        ----------
        inputs
            For molecules: SMILES strings; a DataFrame or a path of a file with a column of them.
        input_column
            That column; by default the one the model was trained on, else the only one of its kind.
        on_invalid
            ``null`` keeps a row that cannot be predicted, with an empty prediction and the reason in ``error``;
            ``skip`` leaves it out; ``error`` raises.
        batch_size
            Most items per forward pass; it does not change the values.

        Returns
        -------
        DataFrame
            The input's columns, rows in order, then per target ``<target>_pred`` in its unit (classes: the label)
            with ``<target>_prob`` or ``<target>_prob_<class>``, and ``error``. Atom and bond values are JSON lists in
            the input's order, null for atoms that standardisation removed. Of pairs there is a JSON list of those
            whose probability is at least 0.5, ``[i, j]`` by position from 0, and beside it one of their probabilities.

        Raises
        ------
        ZooError
            If a column is missing, or a row cannot be predicted and ``on_invalid`` is ``error``.
        """
        if on_invalid not in ("null", "skip", "error"):
            raise unknown_name("on_invalid", on_invalid, ("null", "skip", "error"))
        table, frame = self._table(inputs)
        column = (
            self.input_column(list(frame.columns), input_column) if not isinstance(inputs, list) else frame.columns[0]
        )
        new = [c for t in self.spec.targets for c in prediction_columns(t)] + ["error"]
        if "error" in frame.columns and all(is_null(v) or v == "" for v in frame["error"]):
            frame = frame.drop(columns="error")  # of an earlier prediction, and it says nothing
        taken = [c for c in new if c in frame.columns]
        if taken:
            where = "the input" if table is None else str(table.path)
            raise InputError(f"{where} has a column {taken[0]!r} already; rename it, for the prediction is named so.")
        raw = ["" if is_null(v) else str(v) for v in frame[column]]
        notes: Counter[str] = Counter()
        pieces = [
            self._predict_chunk(raw[i : i + _CHUNK], frame.iloc[i : i + _CHUNK], i, batch_size, notes)
            for i in range(0, len(raw), _CHUNK)
        ]
        if table is not None:
            warn_of_foreign(table.path, raw, self.domain)
            log_notes(notes)
        problems = [p for _, found in pieces for p in found]
        if problems and on_invalid == "error":
            raise _refusal(table, problems)
        columns = {name: [v for piece, _ in pieces for v in piece[name]] for name in new}
        result = pd.concat([frame.reset_index(drop=True), pd.DataFrame(columns, columns=new)], axis=1)
        result.index = frame.index
        if on_invalid == "skip":
            result = result[result["error"] == ""]
        return result

    def _table(
        self, inputs: list[str] | list[str | None] | pd.DataFrame | str | Path
    ) -> tuple[Table | None, pd.DataFrame]:
        if isinstance(inputs, pd.DataFrame):
            return None, inputs
        if isinstance(inputs, str | Path):
            if isinstance(inputs, str) and not Path(inputs).exists() and "." not in inputs:
                raise InputError(
                    f"{inputs!r} is no file. To predict a single input, give a list: predict([{inputs!r}])."
                )
            table = read_table(Path(inputs))
            return table, table.frame
        if not all(isinstance(v, str) or is_null(v) for v in inputs):
            raise InputError("inputs must be a list of strings, a DataFrame, or the path of a file.")
        return None, pd.DataFrame({self.spec.input_column: list(inputs)}, dtype=object)

    def input_column(self, columns: list[str], given: str | None) -> str:
        """Return the column of the raw inputs: the given one, the training data's, or one named alike."""
        wanted = given or self.spec.input_column
        if wanted in columns:
            return wanted
        alike = [c for c in columns if c.strip().casefold() in (wanted.casefold(), self.domain.input_kind)]
        if given is None and len(alike) == 1:
            return alike[0]
        raise DataError(
            f"no column {wanted!r} in the input.{did_you_mean(wanted, columns)} It has: {', '.join(columns)}. The "
            f"model reads {self.domain.name}; name the column of their {self.domain.input_kind} with --input COL "
            "(input_column= in Python)."
        )

    def _predict_chunk(
        self, raw: list[str], frame: pd.DataFrame, offset: int, batch_size: int, notes: Counter[str]
    ) -> tuple[dict[str, list[Any]], list[RowProblem]]:
        found = featurise(self.domain, raw, self.spec.featuriser.options, cache=False)
        notes.update(found.notes)
        features, bad = self._features(found, frame)
        predictions = self.predict_items(found.items, features, batch_size)
        errors = [""] * len(raw)
        for problem in [*found.problems, *bad]:
            errors[problem.row] = problem.reason
        columns: dict[str, list[Any]] = {"error": errors}
        for target in self.spec.targets:
            columns |= self._columns(target, predictions[target.name], found, len(raw))
        for problem in bad:
            for target in self.spec.targets:
                for name in prediction_columns(target):
                    columns[name][problem.row] = None
        problems = [RowProblem(p.row + offset, p.value, p.reason) for p in [*found.problems, *bad]]
        return columns, sorted(problems, key=lambda p: p.row)

    def predict_items(
        self, items: Any, features: np.ndarray | None, batch_size: int, hiding: Hiding | None = None
    ) -> dict[str, np.ndarray]:
        """Return predictions of featurised items by target: see :func:`zoo.core.evaluation.to_predictions`.

        With ``hiding`` (of these items), masked targets are asked for what evaluation hides; else every node is shown
        and asked for.
        """
        n = len(items)
        levels = node_levels(self.spec.targets, self.domain.item_level)
        source = DataSource(items, np.arange(n), {}, features, DTYPES[self.spec.dtype], hiding, levels)
        raw = raw_outputs(self.network, BatchLoader(source, np.arange(n), most=batch_size), self.device)
        empty = {t.name: np.zeros((0, t.n_outputs)) for t in self.spec.targets}
        return {
            t.name: to_predictions(t, self.spec.scalers[t.name], raw.get(t.name, empty[t.name]))
            for t in self.spec.targets
        }

    def _features(self, found: Featurised, frame: pd.DataFrame) -> tuple[np.ndarray | None, list[RowProblem]]:
        scaler = self.spec.features
        if scaler is None:
            return None, []
        parts = [] if found.items.features is None else [found.items.features]
        bad: dict[int, RowProblem] = {}
        for name in scaler.names[scaler.n_from_featuriser :]:
            if name not in frame.columns:
                raise DataError(
                    f"the model needs the feature column {name!r}; the input has: {', '.join(frame.columns)}."
                )
            values = pd.to_numeric(frame[name], errors="coerce").to_numpy(dtype=np.float64)[found.position]
            for position in found.position[~np.isfinite(values)]:
                bad[int(position)] = RowProblem(
                    int(position), str(frame[name].iloc[position]), f"feature {name!r} is missing or not a number"
                )
            parts.append(np.where(np.isfinite(values), values, 0.0)[:, None])
        return scale_features(scaler, np.concatenate(parts, axis=1)), list(bad.values())

    def _columns(self, target: TargetSpec, pred: np.ndarray, found: Featurised, n: int) -> dict[str, list[Any]]:
        columns: dict[str, list[Any]] = {name: [None] * n for name in prediction_columns(target)}
        for name, per_item in describe_items(self.domain, found.items, target, pred).items():
            for position, value in zip(found.position.tolist(), per_item, strict=True):
                columns[name][position] = value
        return columns


def log_notes(notes: Mapping[str, int]) -> None:
    """Say what was changed in how many inputs."""
    for what, count in notes.items():
        _log.info("%s: %d", what, count)


def prediction_columns(target: TargetSpec) -> list[str]:
    """Return the names of a target's columns in a prediction file."""
    if target.kind == "binary" or target.objective == "masked":
        return [f"{target.name}_pred", f"{target.name}_prob"]
    if target.kind == "multiclass":
        return [f"{target.name}_pred", *[f"{target.name}_prob_{c}" for c in target.class_names]]
    return [f"{target.name}_pred"]


def in_input_order(items: Items, level: str, values: Sequence[Any]) -> list[str]:
    """Return per item a JSON list of its nodes' values in its input's order, null where a node was removed."""
    ptr, source, sizes = items.node_ptr(level), items.node_source(level), items.n_source(level)
    lists = []
    for i, size in enumerate(sizes.tolist()):
        row: list[Any] = [None] * size
        for node in range(ptr[i], ptr[i + 1]):
            row[int(source[node])] = values[node]
        lists.append(json.dumps(row))
    return lists


def describe_items(domain: Domain, items: Items, target: TargetSpec, pred: np.ndarray) -> dict[str, list[Any]]:
    """Return the columns of :func:`prediction_columns`, a value per item, from those of items or nodes."""
    if target.level == "pair":
        return dict(describe_pairs(items, domain.paired, target, pred))
    columns = describe(target, pred)
    if target.level == domain.item_level:
        return columns
    return {name: in_input_order(items, target.level, values) for name, values in columns.items()}


def describe(target: TargetSpec, pred: np.ndarray) -> dict[str, list[Any]]:
    """Return the columns of :func:`prediction_columns` for predictions ``(n, k)``.

    Of a masked target, whose classes are many: the likeliest class and its probability.
    """
    names = target.class_names
    if target.objective == "masked":
        best = pred.argmax(axis=1)
        labels = [names[i] for i in best]
        return dict(zip(prediction_columns(target), (labels, pred[np.arange(len(best)), best].tolist()), strict=True))
    if target.kind == "binary":
        labels = [names[int(p >= 0.5)] for p in pred[:, 0]]
        return dict(zip(prediction_columns(target), (labels, pred[:, 0].tolist()), strict=True))
    if target.kind == "multiclass":
        labels = [names[i] for i in pred.argmax(axis=1)]
        return dict(zip(prediction_columns(target), (labels, *pred.T.tolist()), strict=True))
    values = pred[:, 0].tolist() if pred.shape[1] == 1 else pred.tolist()
    return {f"{target.name}_pred": values}


def _refusal(table: Table | None, problems: list[RowProblem]) -> DataError:
    if table is not None:
        return table.fail(
            f"{len(problems)} rows cannot be predicted.",
            [(p.row, f"{p.value!r}: {p.reason}") for p in problems],
            "Mend them, or use --on-invalid null (keep them empty) or skip (leave them out).",
        )
    shown = "; ".join(f"row {p.row}: {p.value!r}: {p.reason}" for p in problems[:5])
    return DataError(f"{len(problems)} rows cannot be predicted: {shown}. Use on_invalid='null' or 'skip'.")


def is_null(value: Any) -> bool:
    """Whether a cell of a DataFrame is missing."""
    return value is None or (isinstance(value, float) and np.isnan(value)) or value is pd.NA
