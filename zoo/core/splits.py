"""Divide items into parts so that nothing alike straddles two parts, and give every division a checksum."""

from __future__ import annotations

import hashlib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from zoo.core.domain import Domain, Splitter, load_object
from zoo.core.files import write_atomic
from zoo.core.parts import PARTS, as_part, read_split_file
from zoo.core.records import Records, connected
from zoo.errors import DataError, unknown_name
from zoo.specs.dataset import Part
from zoo.specs.task import SplitSpec

_TOLD = 5


@dataclass(frozen=True)
class Split:
    """A division of ``n`` items.

    Parameters
    ----------
    parts
        Per part the positions of its items, ascending int64; every item is in exactly one part.
    method, seed
        How it was made.
    hash
        SHA-256 over the lines ``row,part`` of all data rows of all items, in order of the rows.
    """

    parts: dict[Part, np.ndarray]
    method: str
    seed: int
    hash: str

    @property
    def sizes(self) -> dict[str, int]:
        """Number of items per part."""
        return {part: len(index) for part, index in self.parts.items()}

    def write(self, path: Path, records: Records) -> None:
        """Write the CSV ``row,part`` that :func:`make_split` reads: every data row of every item, ascending."""
        path.parent.mkdir(parents=True, exist_ok=True)
        write_atomic(path, f"row,part\n{_row_lines(self.parts, records)}".encode())


def make_split(
    spec: SplitSpec,
    seed: int,
    records: Records,
    inputs: Sequence[str],
    *,
    domain: Domain,
    folder: Path | None = None,
    column: Sequence[str] | None = None,
) -> Split:
    """Divide the items of a data set.

    A committed file of the asked seed (``spec.file``, with ``{seed}`` in its name, in ``folder``) wins over computing
    the split again.

    Parameters
    ----------
    spec, seed
        The method with its fractions and options, and the split seed.
    inputs
        Per item its input as text, for the domain's own methods.
    folder
        Where ``spec.file`` is looked for: the data set's folder.
    column
        For method ``column``: the part of every row of the table, so that torn duplicates are found; or that of
        every item.

    Raises
    ------
    DataError
        Fewer items than parts, an empty part, a file that does not list the rows, or things that are alike in two
        parts.
    """
    if len(records) < 2:
        raise DataError(
            f"there is only {len(records)} usable row, which cannot be divided into "
            f"{', '.join(_wanted(spec))}. Give a file with more rows."
        )
    path = _split_file(spec, seed, folder)
    if path is not None:
        by_row = _read_file(path, records, exact=spec.method != "file")
        part_of = _parts_of_items(by_row, records, str(path))
    elif spec.method == "column":
        part_of = _parts_of_items(_column_parts(spec, records, column), records, f"column {spec.column!r}")
    else:
        part_of = _computed(spec, seed, records, inputs, domain)
    if spec.overlap == "error":
        _check_alike(part_of, records)
    named = {part: np.flatnonzero([p == part for p in part_of]).astype(np.int64) for part in PARTS}
    parts = {part: index for part, index in named.items() if len(index)}
    _check_filled(parts, spec, len(records))
    digest = hashlib.sha256(_row_lines(parts, records).encode()).hexdigest()
    return Split(parts, spec.method, seed, digest)


def _wanted(spec: SplitSpec) -> list[Part]:
    return [part for part in PARTS if spec.fractions.get(part, 0.0) > 0]


def _row_lines(parts: Mapping[Part, np.ndarray], records: Records) -> str:
    pairs = [(int(row), part) for part, index in parts.items() for item in index for row in records.rows[item]]
    return "".join(f"{row},{part}\n" for row, part in sorted(pairs))


def _computed(spec: SplitSpec, seed: int, records: Records, inputs: Sequence[str], domain: Domain) -> list[Part]:
    """Divide by the method; what is alike (key, group, the domain's label) goes to one part."""
    texts = [[f"key={key}"] for key in records.keys]
    if records.groups is not None:
        for own, group in zip(texts, records.groups, strict=True):
            own.append(f"group={group}")
    if spec.method != "random":
        if spec.method not in domain.splitters:
            raise unknown_name("split method", spec.method, ["random", "column", "file", *domain.splitters])
        splitter: Splitter = load_object(domain.splitters[spec.method])
        labels = splitter(list(inputs), seed=seed, options=spec.options)
        for own, label in zip(texts, labels, strict=True):
            own.append(f"label={label}")
    return assign(connected(texts), records.first_rows, {part: spec.fractions[part] for part in _wanted(spec)}, seed)


def assign(blocks: Sequence[str], rows: np.ndarray, fractions: Mapping[Part, float], seed: int) -> list[Part]:
    """Give whole blocks to parts so that the parts' sizes come close to the fractions.

    Blocks larger than half of the smallest part but train are dealt first, the largest first, and fill train before
    any other part: common scaffolds are learnt from, rare ones are asked about. The others follow in an order drawn
    by the seed, each to the part that lacks most of its size among those with room for it.

    The order depends on nothing but the seed and the first row of each block (SHA-256, no generator whose stream
    could change).

    Parameters
    ----------
    blocks, rows
        Per item its block and its row.
    fractions
        Parts in order with their share, all above 0.

    Returns
    -------
    list
        Per item its part.
    """
    members: dict[str, list[int]] = {}
    for item, block in enumerate(blocks):
        members.setdefault(block, []).append(item)
    drawn = sorted(members.values(), key=lambda own: hashlib.sha256(f"{seed}:{min(rows[own])}".encode()).digest())
    target = _target_sizes(len(blocks), fractions)
    limit = min([size for part, size in target.items() if part != "train"], default=0) / 2
    large = sorted((own for own in drawn if len(own) > limit), key=len, reverse=True)
    small = [own for own in drawn if len(own) <= limit]
    room: dict[Part, int] = dict(target)
    part_of: list[Part] = ["train"] * len(blocks)
    for own in [*large, *small]:
        fitting = [part for part in room if room[part] >= len(own)]
        if not fitting:
            part = max(room, key=lambda p: room[p])
        elif len(own) > limit:
            part = fitting[0]
        else:
            part = max(fitting, key=lambda p: room[p] / target[p])
        room[part] -= len(own)
        for item in own:
            part_of[item] = part
    return part_of


def _target_sizes(n: int, fractions: Mapping[Part, float]) -> dict[Part, int]:
    """Return whole sizes that sum to n, by largest remainder, at least one each where n allows."""
    exact = {part: share * n for part, share in fractions.items()}
    sizes = {part: int(size + 1e-9) for part, size in exact.items()}
    by_remainder = sorted(exact, key=lambda part: sizes[part] - exact[part])
    for part in by_remainder[: n - sum(sizes.values())]:
        sizes[part] += 1
    for part in [p for p, size in sizes.items() if size == 0]:
        largest = max(sizes, key=lambda p: sizes[p])
        if sizes[largest] > 1:
            sizes[part], sizes[largest] = 1, sizes[largest] - 1
    return sizes


def _split_file(spec: SplitSpec, seed: int, folder: Path | None) -> Path | None:
    if spec.file is None:
        return None
    name = Path(spec.file.replace("{seed}", str(seed)))
    path = name if folder is None else folder / name
    if path.is_file():
        return path
    if spec.method == "file":
        raise DataError(f"{path}: there is no such split file (split seed {seed}). It holds the columns row,part.")
    return None


def _read_file(path: Path, records: Records, *, exact: bool) -> dict[int, Part]:
    """Return the part of every row, having checked that the file lists the rows of the records."""
    by_row = read_split_file(path, records.n_rows)
    held = {int(r) for own in records.rows for r in own}
    _check_listed(path, "data rows with a usable input and label are not in the split file", held - set(by_row))
    if exact:
        _check_listed(path, "rows of the split file have no usable input or label", set(by_row) - held)
    return by_row


def _check_listed(path: Path, what: str, rows: set[int]) -> None:
    if rows:
        shown = ", ".join(map(str, sorted(rows)[:_TOLD]))
        raise DataError(
            f"{path}: {len(rows)} {what} (rows {shown}{', ...' if len(rows) > _TOLD else ''}). "
            f"The file belongs to another version of the data; make it again or remove it."
        )


def _column_parts(spec: SplitSpec, records: Records, column: Sequence[str] | None) -> dict[int, Part]:
    if column is not None and len(column) == len(records) < records.n_rows:
        by_row = dict.fromkeys(range(records.n_rows), "")
        by_row.update({int(r): part for own, part in zip(records.rows, column, strict=True) for r in own})
        column = list(by_row.values())
    if column is None or len(column) != records.n_rows:
        given = "none" if column is None else str(len(column))
        raise DataError(
            f"split by column {spec.column!r}: one part per data row is needed ({records.n_rows}), got {given}."
        )
    rows = sorted(int(r) for own in records.rows for r in own)
    parts = {row: as_part(column[row]) for row in rows}
    bad = [row for row, part in parts.items() if part is None]
    if bad:
        shown = ", ".join(f"row {row}: {column[row]!r}" for row in bad[:_TOLD])
        raise DataError(
            f"split by column {spec.column!r}: {len(bad)} rows name no part ({shown}). Parts are {', '.join(PARTS)}."
        )
    return {row: part for row, part in parts.items() if part is not None}


def _parts_of_items(by_row: Mapping[int, Part], records: Records, source: str) -> list[Part]:
    torn = [own for own in records.rows if len({by_row[int(r)] for r in own}) > 1]
    if torn:
        shown = "; ".join(", ".join(f"row {r} {by_row[int(r)]}" for r in own) for own in torn[:_TOLD])
        raise DataError(
            f"{source}: {len(torn)} duplicates stand in more than one part ({shown}). "
            f"Move them into one part, or let the task say `overlap: allow` with a `reason`."
        )
    return [by_row[int(own[0])] for own in records.rows]


def _check_alike(part_of: Sequence[Part], records: Records) -> None:
    """Raise where a key or a group is in two parts."""
    for what, names in (("duplicates", records.keys), ("groups", records.groups)):
        found: dict[str, int] = {}
        for item, name in enumerate(names or []):
            other = found.setdefault(name, item)
            if part_of[other] != part_of[item]:
                rows = f"row {records.rows[other][0]} {part_of[other]}, row {records.rows[item][0]} {part_of[item]}"
                raise DataError(
                    f"the split tears {what} apart ({rows}). "
                    f"Move them into one part, or let the task say `overlap: allow` with a `reason`."
                )


def _check_filled(parts: Mapping[Part, np.ndarray], spec: SplitSpec, n: int) -> None:
    needed = {"train", "test"} if spec.method in ("column", "file") else set(_wanted(spec))
    empty = [part for part in PARTS if part in needed and part not in parts]
    if empty:
        raise DataError(
            f"split {spec.method!r} of {n} items leaves {', '.join(empty)} empty. Give more rows, choose other "
            f"fractions or method random, or correct the split file or column."
        )
