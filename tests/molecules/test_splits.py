import numpy as np
import pytest
from rdkit import Chem, DataStructs
from rdkit.Chem import rdFingerprintGenerator
from rdkit.Chem.MolStandardize import rdMolStandardize
from rdkit.Chem.Scaffolds import MurckoScaffold
from rdkit.ML.Cluster import Butina

from zoo.core.table import read_table
from zoo.errors import InputError
from zoo.molecules import splits
from zoo.molecules.splits import cluster, scaffold
from zoo.resources import bundled_root


@pytest.fixture(scope="module")
def smiles():
    return read_table(bundled_root() / "datasets" / "freesolv" / "freesolv.csv").column("smiles")[:250]


def groups(labels):
    """The partition, whatever its names."""
    return {tuple(np.flatnonzero(np.asarray(labels) == name)) for name in set(labels)}


@pytest.mark.parametrize(
    ("one", "other", "same"),
    [
        ("c1ccccc1CCO", "Cc1ccccc1", True),
        ("CCO", "CC(=O)N", True),  # acyclic molecules share the empty scaffold
        ("c1ccccc1", "c1ccncc1", False),
        ("C1CCCCC1", "c1ccccc1", False),
        ("C[C@H]1CC[C@@H](O)CC1", "C[C@@H]1CC[C@@H](O)CC1", True),
        ("c1ccccc1C(=O)[O-].[Na+]", "c1ccccc1C(=O)O", True),
        ("[NH3+]Cc1ccncc1.[Cl-]", "NCc1ccncc1", True),
        ("c1ccc(Cc2ccccc2)cc1", "c1ccc(CCc2ccccc2)cc1", False),
    ],
)
def test_scaffolds(one, other, same):
    first, second = scaffold([one, other], seed=0, options={})
    assert (first == second) == same


def test_scaffolds_are_rdkits(smiles):
    parents = [rdMolStandardize.ChargeParent(Chem.MolFromSmiles(s)) for s in smiles]
    expected = [MurckoScaffold.MurckoScaffoldSmiles(mol=mol) for mol in parents]
    assert scaffold(smiles, seed=0, options={}) == expected
    assert scaffold(["CCO"], seed=0, options={}) == [""]


def test_generic_scaffolds():
    labels = scaffold(["c1ccncc1C", "C1CCCCC1O", "C1CCCC1"], seed=0, options={"generic": True})
    assert labels[0] == labels[1] != labels[2]


def test_clusters_are_butinas(smiles):
    generator = rdFingerprintGenerator.GetMorganGenerator(radius=2, fpSize=2048)
    prints = [generator.GetFingerprint(Chem.MolFromSmiles(s)) for s in smiles]
    distances = [
        1 - x for i in range(1, len(prints)) for x in DataStructs.BulkTanimotoSimilarity(prints[i], prints[:i])
    ]
    for cutoff in (0.3, 0.4, 0.6):
        found = groups(cluster(smiles, seed=0, options={"cutoff": cutoff}))
        reference = Butina.ClusterData(distances, len(prints), cutoff, isDistData=True)
        assert found == {tuple(sorted(c)) for c in reference}


def test_the_route_for_many_molecules(smiles, monkeypatch):
    monkeypatch.setattr(splits, "LARGEST_EXACT", 10)
    labels = cluster(smiles, seed=0, options={})
    generator = rdFingerprintGenerator.GetMorganGenerator(radius=2, fpSize=2048)
    prints = [generator.GetFingerprint(Chem.MolFromSmiles(s)) for s in smiles]
    leaders = sorted({int(label) for label in labels})
    for i, label in enumerate(labels):
        to_leaders = DataStructs.BulkTanimotoSimilarity(prints[i], [prints[j] for j in leaders])
        own = DataStructs.TanimotoSimilarity(prints[i], prints[int(label)])
        assert own == max(to_leaders)
        assert 1 - own <= 0.4 + 1e-12
    for i in leaders:
        assert labels[i] == str(i)
        others = [prints[j] for j in leaders if j != i]
        assert max(DataStructs.BulkTanimotoSimilarity(prints[i], others)) < 0.6


def test_bad_options_and_molecules():
    with pytest.raises(InputError, match=r"unknown split option 'cutof'. Did you mean 'cutoff'"):
        cluster(["C"], seed=0, options={"cutof": 0.4})
    with pytest.raises(InputError, match="above 0 and below 1"):
        cluster(["C"], seed=0, options={"cutoff": 1.0})
    with pytest.raises(InputError, match="unknown split option 'cutoff'"):
        scaffold(["C"], seed=0, options={"cutoff": 0.4})
    with pytest.raises(InputError, match="'c1ccc': "):
        scaffold(["c1ccc"], seed=0, options={})
