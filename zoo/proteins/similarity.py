"""Clusters of similar sequences: no two sequences of different clusters are as alike as the threshold says.

MMseqs2 does it where it is on the PATH, else :mod:`zoo.proteins.alignment`. Both link every pair that they find to
be alike, and return the connected parts (single linkage), so that a split by clusters keeps every found pair together.
Two sequences are alike when at least ``identity`` of the aligned residues are equal and the alignment covers at least
``coverage`` of both. The two find nearly but not quite the same pairs, so the clusters depend on which is there.
"""

from __future__ import annotations

import shutil
import subprocess
import tempfile
from collections.abc import Sequence
from pathlib import Path

from zoo.core.records import connected
from zoo.errors import InputError, ZooError, unknown_name
from zoo.proteins.alignment import linked

MMSEQS = "mmseqs"
TOOLS = ("auto", "mmseqs", "builtin")
_INSTALL = "Install it (Debian: apt install mmseqs2; conda: bioconda::mmseqs2), or choose another split."
SHORTEST_MMSEQS = 14
"""Residues that one sequence at least must have for MMseqs2."""
LEAST_BUILTIN = 0.4
"""The identity below which the built-in search would miss too many pairs."""


def cluster(sequences: Sequence[str], *, identity: float, coverage: float, tool: str = "auto") -> list[str]:
    """Return the cluster of each of ``n`` sequences.

    Parameters
    ----------
    sequences
        One-letter codes.
    identity, coverage
        Shares from which on two sequences belong together.
    tool
        ``mmseqs``, ``builtin``, or ``auto``: MMseqs2 where it is installed, unless all sequences are too short for it.

    Raises
    ------
    InputError
        A share is out of range, there is no such tool, or MMseqs2 is needed and not installed.
    ZooError
        MMseqs2 failed.
    """
    for name, share in (("identity", identity), ("coverage", coverage)):
        if not 0 < share <= 1:
            raise InputError(f"split option {name} must be above 0 and at most 1, got {share:g}.")
    if tool not in TOOLS:
        raise unknown_name("split option tool", tool, TOOLS)
    installed = shutil.which(MMSEQS) is not None
    if tool == "mmseqs" or (tool == "auto" and installed and max(map(len, sequences), default=0) >= SHORTEST_MMSEQS):
        if not installed:
            raise InputError(f"split option tool=mmseqs: there is no program {MMSEQS} on the PATH. {_INSTALL}")
        return _by_mmseqs(sequences, identity, coverage)
    if identity < LEAST_BUILTIN:
        raise InputError(
            f"split option identity={identity:g} needs MMseqs2; the built-in search goes down to {LEAST_BUILTIN:g}. "
            f"{_INSTALL}"
        )
    return [str(component) for component in linked(sequences, identity, coverage)]


def _by_mmseqs(sequences: Sequence[str], identity: float, coverage: float) -> list[str]:
    """Link pairs that MMseqs2 finds at its default sensitivity (Steinegger and Söding 2017, doi:10.1038/nbt.3988)."""
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        fasta = "".join(f">{i}\n{sequence}\n" for i, sequence in enumerate(sequences))
        (folder / "in.fasta").write_text(fasta, encoding="ascii")
        # Without its type MMseqs2 takes proteins of few letters for nucleotides, and then needs gigabytes.
        settings = {"--dbtype": 1, "--min-seq-id": identity, "-c": coverage, "--cov-mode": 0, "--cluster-mode": 1}
        settings |= {"--threads": 1, "-v": 1}
        command = [MMSEQS, "easy-cluster", "in.fasta", "out", "tmp", "--single-step-clustering"]
        command += [str(word) for pair in settings.items() for word in pair]
        done = subprocess.run(command, cwd=folder, capture_output=True, text=True, check=False)  # noqa: S603
        if done.returncode:
            told = (done.stderr or done.stdout).strip().splitlines()
            raise ZooError(f"mmseqs failed ({told[-1] if told else f'exit code {done.returncode}'}).")
        lines = (folder / "out_cluster.tsv").read_text(encoding="ascii").splitlines()
    named = {int(member): representative for representative, member in (line.split("\t") for line in lines)}
    return connected([[f"own={i}", f"of={named.get(i, i)}"] for i in range(len(sequences))])
