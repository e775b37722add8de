"""The featuriser: what is kept, changed, counted and refused, and how batches are laid out."""

import numpy as np
import pytest
import torch

from zoo.core.masking import Hiding
from zoo.errors import InputError
from zoo.proteins.alphabet import AMINO_ACIDS, CLS, EOS, MASK, PAD, TOKENS, is_standard, spell
from zoo.proteins.featurise import featurise
from zoo.proteins.items import ProteinItems
from zoo.proteins.windows import window_shares, window_starts

LIKE_DNA = "look like DNA or RNA, of A, C, G, T, U and N alone; if they are, translate them first"


def one(text, **options):
    return featurise([text], options)


@pytest.mark.parametrize(
    ("given", "options", "kept", "source", "note"),
    [
        ("MKTAYXBUZO", {}, "MKTAYXBUZO", range(10), {}),
        ("mkT", {}, "MKT", range(3), {"lower case made upper case": 1}),
        (" MKT\n", {}, "MKT", range(3), {}),
        ("MK T\r\nA", {}, "MKTA", range(4), {"white space inside left out": 1}),
        ("MJ*-.T", {}, "MXXXXT", range(6), {"J, *, - or . made X (residues)": 4}),
        ("MJ*T", {"odd": "drop"}, "MT", [0, 3], {"J, *, - or . dropped (residues)": 2}),
        ("MKTAY", {"max_length": 3, "long": "crop"}, "MKT", range(3), {"cropped to 3 residues": 1}),
        ("ACGT" * 9, {}, "ACGT" * 9, range(36), {LIKE_DNA: 1}),
        ("MKT*", {}, "MKT", range(3), {"stop (*) at the end left out": 1}),
        ("M*KTAY", {"max_length": 3, "long": "crop", "odd": "drop"}, "MKT", [0, 2, 3],
         {"J, *, - or . dropped (residues)": 1, "cropped to 3 residues": 1}),
        ("MKTAY", {"max_length": 3, "overlap": 1, "long": "window"}, "MKTAY", range(5), {"cut into windows": 1}),
    ],
)  # fmt: skip
def test_what_becomes_of_a_sequence(given, options, kept, source, note):
    found = one(given, **options)
    assert found.key == [kept]
    assert spell(found.items.tokens) == kept
    assert found.items.source.tolist() == list(source)
    assert found.items.n_source("residue").tolist() == [len("".join(given.split()).rstrip("*"))]
    assert found.notes == note


@pytest.mark.parametrize(
    ("given", "options", "says"),
    [
        ("", {}, "empty"),
        (" \t", {}, "empty"),
        ("nan", {}, "'nan' stands for a missing sequence"),
        ("MK1T", {}, "'1' at residue 3"),
        ("CC(=O)Nc1ccc(O)cc1", {}, r"'\(' at residue 3 is no one-letter code"),
        ("MKÅT", {}, "'Å' at residue 3"),
        ("MKßT", {}, "'ß' at residue 3"),
        ("M*K", {"odd": "error"}, r"'\*' at residue 2"),
        ("**", {"odd": "drop"}, "nothing of the sequence"),
        ("M" * 40_000, {}, "40,000 residues, and 1,022 are allowed"),
    ],
)
def test_what_is_refused_names_the_residue_and_the_way_out(given, options, says):
    found = featurise(["MKT", given, "TKM"], options)
    assert found.position.tolist() == [0, 2]
    assert len(found.items) == 2
    assert [p.row for p in found.problems] == [1]
    assert len(found.problems[0].value) < 80
    with pytest.raises(AssertionError, match=says):
        raise AssertionError(found.problems[0].reason)


@pytest.mark.parametrize(
    ("options", "says"),
    [
        ({"long": "cut"}, "crop"),
        ({"odd": "x"}, "drop"),
        ({"max_length": 0}, "at least 1"),
        ({"long": "window", "max_length": 10, "overlap": 10}, "max_length - 1 = 9"),
        ({"length": 3}, "length"),
    ],
)
def test_impossible_options_are_named(options, says):
    with pytest.raises(InputError, match=says):
        featurise(["MKT"], options)


def test_no_usable_sequence_gives_no_item():
    found = featurise(["", "1"], {})
    assert len(found.items) == 0
    assert len(found.problems) == 2


def test_rows_are_special_tokens_residues_and_padding():
    items = featurise(["MK", "TAYW"], {}).items
    batch = items.collate(np.array([1, 0]), torch.float32)
    assert batch.rows.tolist() == [
        [CLS, *(TOKENS.index(a) for a in "TAYW"), EOS],
        [CLS, *(TOKENS.index(a) for a in "MK"), EOS, PAD, PAD],
    ]
    assert batch.lengths.tolist() == [6, 4]
    assert (batch.ptr.tolist(), batch.protein.tolist(), batch.start.tolist()) == ([0, 4, 6], [0] * 4 + [1] * 2, [0, 6])
    assert spell(batch.rows.flatten()[batch.place]) == "TAYWMK"
    assert batch.padded
    assert not items.collate(np.array([1, 1]), torch.float32).padded


def test_a_batch_of_none_is_one_row_without_a_residue():
    items = featurise(["MK"], {}).items
    batch = items.collate(np.zeros(0, np.int64), torch.float32)
    assert batch.rows.tolist() == [[CLS, EOS]]
    assert batch.n_proteins == len(batch.place) == 0


@pytest.mark.parametrize(
    ("length", "size", "overlap"), [(47, 20, 8), (1023, 1022, 256), (40_000, 1022, 256), (9, 5, 4), (10, 5, 0)]
)
def test_windows_cover_a_sequence_and_their_shares_sum_to_one(length, size, overlap):
    starts = window_starts(length, size, overlap)
    assert starts[0] == 0
    assert starts[-1] == length - size
    assert (np.diff(starts) <= size - overlap).all()
    position = starts[:, None] + np.arange(size)
    total = np.bincount(position.ravel(), window_shares(length, size, starts).ravel(), minlength=length)
    np.testing.assert_allclose(total, 1.0)


def test_subset_and_arrays_keep_everything():
    items = featurise(["MK", "TAYW", "G"], {"max_length": 10, "overlap": 2, "long": "window"}).items
    part = items.subset(np.array([2, 0, 2]))
    assert spell(part.tokens) == "GMKG"
    assert part.checksum.tolist() == items.checksum[[2, 0, 2]].tolist()
    again = ProteinItems.from_arrays(items.arrays())
    assert all((again.arrays()[n] == a).all() for n, a in items.arrays().items())


def test_cost_counts_the_square_and_the_windows():
    cost = featurise(["M" * 100, "M" * 1000, "M" * 2000], {"long": "window"}).items.cost()
    np.testing.assert_allclose(cost[:2], [102 * (1 + 102 / 2048), 1002 * (1 + 1002 / 2048)])
    np.testing.assert_allclose(cost[2], 3 * 1024 * (1 + 1024 / 2048))


def test_what_is_hidden_is_masked_replaced_by_an_amino_acid_or_left(sequences):
    items = featurise(sequences(900, 50, 600, letters=AMINO_ACIDS), {}).items
    hiding = Hiding(("t",), items.ptr, items.node_classes("token")[1], items.node_keys(), 0)
    index = np.array([2, 0, 1])
    hidden = hiding.draw(index, 0)
    plain, disguised = items.collate(index, torch.float32), items.collate(index, torch.float32, hidden)
    before, after = (b.rows.flatten()[b.place].numpy() for b in (plain, disguised))
    changed = np.flatnonzero(before != after)
    assert set(changed) <= set(hidden.nodes)
    assert (after[hidden.nodes[hidden.masked]] == MASK).all()
    replaced = after[hidden.nodes[hidden.replaced]]
    assert is_standard(replaced).all()
    assert len(set(replaced.tolist())) > 10
    left = hidden.nodes[~hidden.masked & ~hidden.replaced]
    assert (after[left] == before[left]).all()
    assert len(left) > 10
    assert disguised.hidden.tolist() == hidden.nodes.tolist()


def test_unusual_residues_are_never_asked_for():
    items = featurise(["XBUZO" * 30 + "M"], {}).items
    hiding = Hiding(("t",), items.ptr, items.node_classes("token")[1], items.node_keys(), 0)
    assert hiding.draw(np.array([0]), 0).nodes.tolist() == [150]
