"""Write the committed split files of a task again: ``python datasets/make_splits.py freesolv bbb-class ...``.

The files hold the columns ``row,part`` for every row with a usable input and label. Data that is not bundled is looked
for in ``ZOO_MIRROR``. A released file must not change: results in ``cards/results.csv`` belong to it by its checksum.
"""

from __future__ import annotations

import argparse

from zoo.core.splits import make_split
from zoo.specs.catalog import Catalog
from zoo.workflows.build import load_data

SEEDS = range(5)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("tasks", nargs="+", metavar="TASK")
    catalog = Catalog()
    for name in parser.parse_args().tasks:
        task = catalog.task(name)
        if task.split.file is None:
            raise SystemExit(f"task {name} names no split file")
        folder = catalog.dataset_folder(task.dataset)
        data = load_data(task, catalog.dataset(task.dataset), {}, folder=folder, mirror=None)
        spec = task.split.model_copy(update={"file": None})
        for seed in SEEDS:
            split = make_split(spec, seed, data.records, data.records.keys, domain=data.domain)
            path = folder / task.split.file.replace("{seed}", str(seed))
            split.write(path, data.records)
            print(f"{path}: {split.sizes} sha256 {split.hash}")


if __name__ == "__main__":
    main()
