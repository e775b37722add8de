"""A data set of short proteins and a task on it at every level, for tests of any verb."""

import itertools
import json

import numpy as np
import pandas as pd
import yaml

from zoo.proteins.alphabet import AMINO_ACIDS, TOKENS
from zoo.resources import sha256_of

N = 90
SMALL = {"layers": 2, "width": 16, "heads": 2, "head_width": 16}
TARGETS = {
    "sequence": [
        {"name": "y", "level": "sequence", "kind": "regression"},
        {"name": "c", "level": "sequence", "kind": "binary", "classes": ["no", "yes"]},
    ],
    "residue": [
        {
            "name": "ss",
            "column": "states",
            "mask_column": "resolved",
            "level": "residue",
            "kind": "multiclass",
            "classes": ["H", "E", "C"],
        },
    ],
    "pair": [
        {"name": "contacts", "level": "pair", "kind": "binary", "min_separation": 3, "mask_column": "resolved"},
    ],
    "token": [
        {"name": "t", "level": "token", "kind": "multiclass", "objective": "masked", "classes": list(TOKENS)},
    ],
}
METRICS = {
    "sequence": [("rmse", "min"), ("roc_auc", "max")],
    "residue": [("accuracy", "max"), ("mcc", "max")],
    "pair": [("average_precision", "max"), ("precision_at_l", "max")],
    "token": [("perplexity", "min"), ("accuracy", "max")],
}


def touching(text):
    """The pairs of residues in contact: one of a kind and one of another, wherever they stand."""
    pairs = itertools.combinations(range(len(text)), 2)
    return [[i, j] for i, j in pairs if {text[i], text[j]} in ({"C"}, {"W", "D"}, {"F", "Y"})]


def write_tasks(root, unresolved="HEC"):
    """Write the tasks ``short-sequence``, ``-residue``, ``-pair`` and ``-token`` to a folder for ``--include``.

    The state of a residue that is not resolved is any of the letters ``unresolved``; nobody may look at it.
    """
    folder = root / "datasets" / "short"
    folder.mkdir(parents=True)
    (root / "tasks" / "proteins").mkdir(parents=True)
    rng = np.random.default_rng(0)
    texts = ["".join(rng.choice(list(AMINO_ACIDS), int(rng.integers(4, 30)))) for _ in range(N)]
    state = {a: "H" if a in "AELMQ" else "E" if a in "VIYFW" else "C" for a in AMINO_ACIDS}
    labels = [[None if rng.random() < 0.2 else state[a] for a in text] for text in texts]
    frame = pd.DataFrame(
        {
            "sequence": texts,
            "y": [f"{text.count('L') / len(text):.3f}" if rng.random() < 0.8 else "" for text in texts],
            "c": ["yes" if "W" in text else "no" for text in texts],
            "ss": [json.dumps(own) for own in labels],
            "states": ["".join(label or rng.choice(list(unresolved)) for label in own) for own in labels],
            "resolved": ["".join("01"[label is not None] for label in own) for own in labels],
            "contacts": [json.dumps(touching(text)) for text in texts],
        }
    )
    path = folder / "short.csv"
    frame.to_csv(path, index=False)
    kinds = {
        "sequence": ("input", "sequence"),
        "y": ("target", "number"),
        "c": ("target", "category"),
        "ss": ("target", "list"),
        "states": ("target", "text"),
        "contacts": ("target", "list"),
        "resolved": ("ignore", "text"),
    }
    columns = [{"name": name, "role": role, "kind": kind} for name, (role, kind) in kinds.items()]
    file = {"name": path.name, "sha256": sha256_of(path), "bytes": path.stat().st_size, "rows": N}
    about = {
        "name": "short",
        "title": "Short proteins",
        "domain": "proteins",
        "licence": "CC0-1.0",
        "source": "made up",
    }
    (folder / "dataset.yaml").write_text(
        yaml.safe_dump({**about, "citation": "none", "files": [file], "columns": columns})
    )
    for level, targets in TARGETS.items():
        metrics = [{"name": n, "direction": d, "primary": i == 0} for i, (n, d) in enumerate(METRICS[level])]
        task = {
            "name": f"short-{level}",
            "title": level,
            "domain": "proteins",
            "dataset": "short",
            "targets": targets,
            "metrics": metrics,
            "split": {"method": "random"},
            "models": ["esm2"],
            "recipe": {"model": {"hparams": SMALL}, "train": {"epochs": 2, "batch_cost": 500, "validations": 2}},
        }
        (root / "tasks" / "proteins" / f"short-{level}.yaml").write_text(yaml.safe_dump(task))
    return root
