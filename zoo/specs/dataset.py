"""What a data set is: its files with checksums, its columns, its licence and origin."""

from __future__ import annotations

from typing import Annotated, Literal

from pydantic import Field, model_validator

from zoo.specs.base import Spec

Role = Literal["input", "target", "id", "group", "weight", "feature", "time", "ignore"]
ColumnKind = Literal["smiles", "sequence", "path", "number", "category", "list", "text"]
DomainName = Literal["molecules", "proteins", "medical", "equivariant"]
Part = Literal["train", "val", "calibration", "test"]
Name = Annotated[str, Field(pattern=r"^[a-z0-9][a-z0-9._-]*$")]


class FileSpec(Spec):
    """One file of a data set, bundled beside ``dataset.yaml`` or named by a url."""

    name: str
    """File name: in the data set's folder, in a mirror, and in the cache."""
    url: str | None = None
    format: Literal["csv", "tsv", "fasta", "npz"] = "csv"
    """Format after decompression; ``.gz`` and ``.xz`` are recognised by the name."""
    member: str | None = None
    """Path inside an archive (zip)."""
    rename: dict[str, str] = {}
    """What the file calls a column (FASTA: ``sequence``) and what the data set calls it (``structure``)."""
    part: Part | None = None
    sha256: Annotated[str, Field(pattern=r"^[0-9a-f]{64}$")]
    bytes: Annotated[int, Field(gt=0)]
    rows: Annotated[int, Field(gt=0)]


class ColumnSpec(Spec):
    """One column: what it holds and what it is for."""

    name: str
    role: Role
    kind: ColumnKind
    unit: str | None = None
    description: str = ""


class DatasetSpec(Spec):
    """A data set: one folder with ``dataset.yaml``, or a user's own file (``licence`` then reads ``unknown``).

    Several files are one table: the rows of the first, joined with the others by the column of role ``id``.
    """

    name: Name
    title: str
    domain: DomainName
    files: Annotated[list[FileSpec], Field(min_length=1)]
    columns: Annotated[list[ColumnSpec], Field(min_length=1)]
    licence: str
    """SPDX expression, or ``LicenseRef-...`` with an explanation in ``description``."""
    source: str
    citation: str
    description: str = ""
    known_issues: list[str] = []

    @model_validator(mode="after")
    def _check(self) -> DatasetSpec:
        names = [c.name for c in self.columns]
        doubled = sorted({n for n in names if names.count(n) > 1})
        if doubled:
            raise ValueError(f"columns named twice: {', '.join(doubled)}")
        if not self.by_role("input"):
            raise ValueError("no column has the role 'input'")
        if len(self.files) > 1 and len(self.by_role("id")) != 1:
            raise ValueError("several files are joined by id: exactly one column needs the role 'id'")
        return self

    @property
    def n_rows(self) -> int:
        """Number of rows: those of the first file, for the others only add columns."""
        return self.files[0].rows

    def by_role(self, role: Role) -> list[ColumnSpec]:
        """Return the columns of one role, in order."""
        return [c for c in self.columns if c.role == role]
