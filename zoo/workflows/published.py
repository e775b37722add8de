"""Weights that others have published, as bundles: converted once, kept in the cache."""

from __future__ import annotations

import contextlib
from pathlib import Path

import torch

from zoo.core.bundle import read_spec, save_bundle
from zoo.core.domain import DOMAINS, Published, get_domain, load_object
from zoo.errors import ZooError
from zoo.resources import cache_dir, mirror_dir
from zoo.workflows.cards import bundle_readme
from zoo.workflows.model import prediction_columns
from zoo.workflows.rebuild import rebuild


def published_names() -> list[str]:
    """Return the names of all published models."""
    return [name for reader in _readers() for name in reader.names()]


def published_bundle(model: str, mirror: Path | None = None, *, extra: bool = False) -> Path | None:
    """Return the bundle of a published model, by its name or the path of its file; None for what is neither.

    It is made when it is first asked for: found in the mirror or the cache or fetched, read without running anything in
    it, and written beside the checksum of its file.

    Parameters
    ----------
    model
        A name (:func:`published_names`), or a file in the publisher's format.
    mirror
        Folder with copies of published files; by default that of ``ZOO_MIRROR``.
    extra
        Whether files that only some uses need (ESM-2: contacts) must be there too.
    """
    for reader in _readers():
        found = reader.locate(model, mirror_dir(mirror), extra=extra)
        if found is None:
            continue
        key, convert = found
        folder = cache_dir() / "models" / key
        if (folder / "config.json").is_file():
            return folder
        converted = convert()
        loaded = rebuild(converted.spec, converted.state, str(folder), torch.device("cpu"))
        inputs = {converted.spec.input_column: converted.examples}
        result = loaded.predict(converted.examples)
        names = [c for t in converted.spec.targets for c in prediction_columns(t)]
        example = {"inputs": inputs, "outputs": {n: result[n].tolist() for n in names}}
        readme = bundle_readme(converted.spec, example)
        try:
            save_bundle(folder, converted.spec, converted.state, example, readme, extra=converted.extra)
        except ZooError:
            # Another process may have been faster.
            with contextlib.suppress(ZooError):
                read_spec(folder)
                return folder
            raise
        return folder
    return None


def _readers() -> list[Published]:
    domains = [get_domain(name) for name in DOMAINS]
    return [load_object(domain.published) for domain in domains if domain.published]
