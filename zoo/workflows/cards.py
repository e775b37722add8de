"""Model cards: written from ``config.json``, never by hand."""

from __future__ import annotations

import json
from collections.abc import Sequence
from typing import Any

import yaml

from zoo.specs.model import ModelSpec

_LIMITS = (
    "Predictions carry no uncertainty and no statement whether an input resembles the training data. "
    "The scores above hold for inputs like those of the test part; they come from one split and one seed."
)


def bundle_readme(spec: ModelSpec, example: dict[str, Any], more: Sequence[str] = ()) -> str:
    """Return the README of a bundle: a Hugging Face model card with results, use, data and limits.

    ``more`` are lines of Markdown that follow the results.
    """
    front = {
        "library_name": "scizoo",
        "license": "other" if spec.provenance.licence == "unknown" else spec.provenance.licence.lower(),
        "tags": [spec.domain, spec.architecture.name, spec.provenance.task],
    }
    return "\n".join(
        [
            "---",
            yaml.safe_dump(front, sort_keys=False).strip(),
            "---",
            "",
            f"# {spec.name}",
            "",
            _what(spec),
            "",
            "## Results",
            "",
            *_results(spec),
            "",
            *more,
            *([""] if more else []),
            "## Use",
            "",
            "```python",
            "import zoo",
            "",
            'model = zoo.load("path/of/this/folder")',
            f"model.predict({json.dumps(_shortest(example['inputs'][spec.input_column]))})",
            "```",
            "",
            "## Training data",
            "",
            *_data(spec),
            "",
            "## Limits",
            "",
            _LIMITS,
            "",
        ]
    )


def _shortest(inputs: list[str]) -> list[str]:
    """Return the shortest example, for a line that can be read."""
    return [min(inputs, key=len)]


def _what(spec: ModelSpec) -> str:
    targets = ", ".join(
        f"`{t.name}` ({t.kind}, {t.level} level{', ' + t.unit if t.unit else ''})" for t in spec.targets
    )
    return (
        f"Architecture `{spec.architecture.name}` version {spec.architecture.version}, "
        f"{spec.provenance.parameters:,} parameters, predicts {targets}."
    )


def _results(spec: ModelSpec) -> list[str]:
    metrics = spec.provenance.metrics
    if not metrics:
        return ["None recorded."]
    names = list(next(iter(metrics.values())))
    lines = ["| | " + " | ".join(names) + " |", "|---|" + "---|" * len(names)]
    for model, scores in metrics.items():
        cells = [_cell(scores[n].value) for n in names]
        lines.append(f"| {model} | " + " | ".join(cells) + " |")
    first = max(next(iter(metrics.values())).values(), key=lambda found: found.rows)
    lines += ["", f"Test part, {first.rows} labels, {first.targets_scored} of {first.targets} targets scored."]
    return lines


def _cell(value: float | None) -> str:
    return "-" if value is None else f"{value:.4g}"


def _data(spec: ModelSpec) -> list[str]:
    p = spec.provenance
    sizes = ", ".join(f"{name} {n}" for name, n in p.split.sizes.items())
    begun = p.start and [
        f"- started from `{p.start['model']}` (config sha256 `{p.start['config_sha256']}`), which was trained on "
        f"{p.start['dataset']} (licence {p.start['licence']}); mode {p.start['mode']}"
        + (f", layer {p.start['layer']}" if "layer" in p.start else "")
    ]
    return [
        *(begun or []),
        f"- data set `{p.dataset}` (licence {p.licence}), sha256 `{p.data_sha256}`",
        f"- split {p.split.method}, seed {p.split.seed}: {sizes}; sha256 `{p.split.sha256}`",
        f"- seed {p.seed}, {p.steps} optimiser steps, weights: {p.selected}",
        "- " + ", ".join(f"{name} {version}" for name, version in p.packages.items()),
    ]
