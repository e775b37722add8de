"""``zoo predict`` and ``zoo.load``."""

from __future__ import annotations

import argparse
import sys
from pathlib import Path

import pandas as pd
import torch

from zoo.core.files import make_folder, write_atomic
from zoo.errors import DataError, InputError
from zoo.workflows.load import load_model
from zoo.workflows.model import Model

__all__ = ["load", "predict", "predict_command"]


def load(model: str | Path, *, device: str = "auto") -> Model:
    """Load a zoo model by name, a bundle (or run) by its folder, or published weights by name or file."""
    return load_model(model, device=device)


def predict(
    model: str | Path | Model, inputs: list[str] | pd.DataFrame | str | Path, *, on_invalid: str = "null"
) -> pd.DataFrame:
    """Predict with a model, a bundle or a zoo model's name; see :meth:`zoo.workflows.model.Model.predict`."""
    loaded = model if isinstance(model, Model) else load(model)
    return loaded.predict(inputs, on_invalid=on_invalid)


def predict_command(args: argparse.Namespace) -> int:
    """Predict a file and write a CSV with the input's rows in order."""
    if args.out.is_dir():
        raise InputError(f"{args.out} is a folder; -o names the CSV file to write.")
    if args.out.suffix not in ("", ".csv", ".txt"):
        raise InputError(f"-o {args.out}: predictions are written as CSV. Name a file that ends in .csv.")
    make_folder(args.out)
    if args.out.exists() and args.file.exists() and args.out.samefile(args.file):
        raise InputError(f"-o {args.out} is the input itself. Name another file to write.")
    if args.threads:
        torch.set_num_threads(args.threads)
    model = load_model(args.bundle, device=args.device or "auto", includes=args.include, mirror=args.mirror)
    result = model.predict(
        args.file,
        input_column=args.input,
        on_invalid=args.on_invalid,
        **({"batch_size": args.batch_size} if args.batch_size else {}),
    )
    write_atomic(args.out, result.to_csv(index=False, lineterminator="\n").encode())
    failed = int((result["error"] != "").sum())
    if failed == len(result):
        first = f" Row 0: {result['error'].iloc[0]}." if failed else ""
        remedy = "If the column is not the right one, name it with --input COL."
        raise DataError(f"{args.file}: no row could be predicted.{first} {remedy}")
    if not args.quiet:
        note = f", {failed} of them without a prediction (column `error` says why)" if failed else ""
        sys.stdout.write(f"{len(result)} rows{note} → {args.out}\n")
    return 0
