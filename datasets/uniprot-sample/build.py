"""Make ``uniprot-sample.fasta.xz`` from the example data of MMseqs2, as Debian packages it.

Fetch and unpack the package, then run this script; it writes the same bytes again::

    apt-get download mmseqs2-examples=14-7e284+ds-1
    dpkg-deb -x mmseqs2-examples_*.deb unpacked
    python datasets/uniprot-sample/build.py --source unpacked/usr/share/doc/mmseqs2/example-data/DB.fasta.gz
"""

from __future__ import annotations

import argparse
import hashlib
import lzma
from collections import Counter
from pathlib import Path

from zoo.core.table import read_table

SHORTEST, LONGEST = 30, 1022
AMINO_ACIDS = frozenset("ACDEFGHIKLMNPQRSTVWY")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--source", type=Path, required=True, help="DB.fasta.gz of the package")
    parser.add_argument("--out", type=Path, default=Path(__file__).parent / "uniprot-sample.fasta.xz")
    args = parser.parse_args()
    table = read_table(args.source, "fasta")
    kept: dict[str, str] = {}
    left_out: Counter[str] = Counter()
    columns = (table.column(name) for name in ("id", "description", "sequence"))
    for name, description, sequence in zip(*columns, strict=True):
        why = unfit(description, sequence) or ("duplicate" if sequence in kept else None)
        if why:
            left_out[why] += 1
        else:
            kept[sequence] = name.split("|")[1]
    text = "".join(f">{accession}\n{sequence}\n" for sequence, accession in kept.items())
    data = lzma.compress(text.encode(), preset=9 | lzma.PRESET_EXTREME)
    args.out.write_bytes(data)
    print(f"left out: {dict(left_out)}")
    print(
        f"{args.out}: {len(kept)} rows, {sum(map(len, kept))} residues, {len(data)} bytes, "
        f"sha256 {hashlib.sha256(data).hexdigest()}"
    )


def unfit(description: str, sequence: str) -> str | None:
    """Return why a record is left out, or None."""
    if "(Fragment" in description:
        return "fragment"
    if not SHORTEST <= len(sequence) <= LONGEST:
        return "length"
    return None if AMINO_ACIDS.issuperset(sequence) else "other residues than the twenty"


if __name__ == "__main__":
    main()
