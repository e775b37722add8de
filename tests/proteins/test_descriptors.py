"""Descriptors of whole sequences: values worked out by hand, what stands in the items, what a model then needs."""

import numpy as np
import pytest

from zoo.errors import InputError
from zoo.proteins.alphabet import AMINO_ACIDS, CODE
from zoo.proteins.descriptors import CHARGE, HYDROPATHY, HYDROPHOBICITY, NAMES, describe
from zoo.proteins.featurise import featurise
from zoo.proteins.items import ProteinItems


def described(text):
    return dict(zip(NAMES, describe(CODE[np.frombuffer(text.encode(), np.uint8)]), strict=True))


def moment(text, angle):
    turned = [HYDROPHOBICITY[letter] * np.exp(1j * np.deg2rad(angle) * i) for i, letter in enumerate(text)]
    return abs(sum(turned)) / len(text)


def test_scales_cover_the_twenty_amino_acids():
    assert set(HYDROPATHY) == set(HYDROPHOBICITY) == set(AMINO_ACIDS)
    assert sum(HYDROPATHY.values()) == pytest.approx(-9.8)
    consensus = np.array(list(HYDROPHOBICITY.values()))  # published with mean 0 and standard deviation 1
    assert (consensus.mean(), consensus.std()) == pytest.approx((0, 1), abs=0.03)
    assert set(CHARGE) == set("KRDE")


def test_values_of_a_peptide_worked_out_by_hand():
    found = described("KKDGX")
    assert found["fraction_K"] == 0.4
    assert found["fraction_A"] == 0
    assert sum(value for name, value in found.items() if name.startswith("fraction_")) == pytest.approx(0.8)
    assert found["log_length"] == pytest.approx(np.log(5))
    assert found["net_charge"] == 1
    assert found["charge_per_residue"] == 0.2
    assert found["hydropathy"] == pytest.approx((-3.9 - 3.9 - 3.5 - 0.4) / 5)


@pytest.mark.parametrize(("fold", "angle"), [("helix", 100), ("strand", 160)])
@pytest.mark.parametrize("text", ["GLWSKIKEVGKEAAKAAAKAAGKAALGAVSEAV", "KLAKLAKKLAK", "GIG", "W"])
def test_moments_equal_their_definition(text, fold, angle):
    found = described(text)
    width = min(11, len(text))
    windows = [moment(text[i : i + width], angle) for i in range(len(text) - width + 1)]
    assert found[f"largest_moment_{fold}"] == pytest.approx(max(windows))
    assert found[f"mean_moment_{fold}"] == pytest.approx(np.mean(windows))
    assert found[f"whole_moment_{fold}"] == pytest.approx(moment(text, angle))


def test_an_amphipathic_helix_has_the_larger_moment():
    helix, shuffled = "KLLKLLLKLLKKLLKLLK", "KKKKKKKKLLLLLLLLLL"
    assert described(helix)["whole_moment_helix"] > 3 * described(shuffled)["whole_moment_helix"]


def test_items_hold_them_by_protein_and_only_if_asked_for():
    texts = ["KKDG", "xx", "not 1 sequence", "GLWSKIKEV"]
    plain = featurise(texts, {}).items
    assert plain.features is None
    assert plain.feature_names == []
    items = featurise(texts, {"descriptors": "peptide"}).items
    assert items.feature_names == NAMES
    assert items.features.shape == (3, len(NAMES))
    assert np.isfinite(items.features).all()
    np.testing.assert_array_equal(items.features[2], list(described("GLWSKIKEV").values()))
    np.testing.assert_array_equal(items.subset(np.array([2, 0])).features, items.features[[2, 0]])
    np.testing.assert_array_equal(ProteinItems.from_arrays(items.arrays()).features, items.features)
    none = featurise(["1"], {"descriptors": "peptide"}).items
    assert none.features.shape == (0, len(NAMES))


def test_of_a_cropped_sequence_they_are_those_of_what_the_model_sees():
    options = {"descriptors": "peptide", "long": "crop", "max_length": 5}
    items = featurise(["KKDGAWWWWW"], options).items
    np.testing.assert_array_equal(items.features[0], list(described("KKDGA").values()))


def test_an_unknown_set_is_refused():
    with pytest.raises(InputError, match="featuriser option descriptors"):
        featurise(["MKT"], {"descriptors": "peptides"})
