"""Clusters by identity: alignments against a plain recursion, clusters against families that are known."""

import shutil

import numpy as np
import pytest

from zoo.core.options import with_defaults
from zoo.errors import InputError, ZooError
from zoo.proteins import alignment, similarity
from zoo.proteins.alignment import best_alignments, candidates, linked
from zoo.proteins.similarity import cluster
from zoo.proteins.splits import OPTIONS, identity

AMINO_ACIDS = "ACDEFGHIKLMNPQRSTVWY"


def packed(texts):
    letters = np.frombuffer("".join(texts).encode(), np.uint8)
    return letters, np.cumsum([0, *map(len, texts)])


def smith_waterman(a, b):
    """Return the best score with the counts (matches, residues of a, residues of b), the largest of equal ones."""
    best = (0, (0, 0, 0))
    score = [[(0, (0, 0, 0))] * (len(b) + 1) for _ in range(len(a) + 1)]
    for i, x in enumerate(a, start=1):
        for j, y in enumerate(b, start=1):
            value, (m, r, c) = score[i - 1][j - 1]
            step = alignment.MATCH if x == y else -alignment.MISMATCH
            up, left = score[i - 1][j], score[i][j - 1]
            score[i][j] = max(
                (0, (0, 0, 0)),
                (value + step, (m + (x == y), r + 1, c + 1)),
                (up[0] - alignment.GAP, (up[1][0], up[1][1] + 1, up[1][2])),
                (left[0] - alignment.GAP, (left[1][0], left[1][1], left[1][2] + 1)),
            )
            best = max(best, score[i][j])
    return best


def test_alignments_are_smith_and_watermans():
    rng = np.random.default_rng(0)
    for _ in range(60):
        a, b = ("".join(rng.choice(list("ACDE"), rng.integers(1, 25))) for _ in range(2))
        letters, ptr = packed([a, b])
        found = int(best_alignments(letters, ptr, np.array([[0, 1, 0]]))[0])
        score, (matches, rows, columns) = smith_waterman(a, b)
        assert found >> 45 == score
        assert ((found >> 30) & 0x7FFF, (found >> 15) & 0x7FFF, found & 0x7FFF) == (matches, rows, columns)


def test_x_equals_nothing():
    letters, ptr = packed(["AXXA", "AXXA"])
    assert int(best_alignments(letters, ptr, np.array([[0, 1, 0]]))[0]) >> 45 == 2 * 4 - 2


def test_many_pairs_at_once_are_as_each_alone():
    rng = np.random.default_rng(1)
    letters, ptr = packed(["".join(rng.choice(list(AMINO_ACIDS), n)) for n in (40, 7, 55, 12)])
    pairs = np.array([[0, 1, 3], [0, 2, -9], [1, 3, 0], [2, 3, 20]])
    together = best_alignments(letters, ptr, pairs)
    assert together.tolist() == [int(best_alignments(letters, ptr, pairs[[i]])[0]) for i in range(4)]


def test_candidates_share_a_word_within_the_sequences():
    letters, ptr = packed(["MKTAYIAK", "WWMKTAWW", "GGGGG", "KMKG"])
    found = candidates(letters, ptr, 0.5)
    assert found.tolist() == [[0, 1, -2]]  # MKT and KTA; "K" + "MKT" across the border does not count


def family(rng, length, n, share, gap=False):
    """Return a sequence and relatives in which a given share of residues is unchanged, one with a gap of five."""
    first = rng.choice(list(AMINO_ACIDS), length)
    found = ["".join(first)]
    for _ in range(n - 1):
        own = first.copy()
        changed = rng.permutation(length)[: round(length * (1 - share))]
        own[changed] = [rng.choice([x for x in AMINO_ACIDS if x != first[i]]) for i in changed]
        found.append("".join(np.delete(own, range(length // 2, length // 2 + 5)) if gap else own))
    return found


@pytest.fixture(scope="module")
def families():
    """Twelve families of 4 at 55 % identity, half of them with gaps, and 50 loners; with the family of each."""
    rng = np.random.default_rng(2)
    own = [(text, f) for f in range(12) for text in family(rng, int(rng.integers(80, 200)), 4, 0.55, gap=f % 2 == 0)]
    own += [(family(rng, int(rng.integers(60, 250)), 1, 1)[0], 12 + i) for i in range(50)]
    order = rng.permutation(len(own))
    return [own[i][0] for i in order], [own[i][1] for i in order]


def same(labels):
    return {(i, j) for i in range(len(labels)) for j in range(i) if labels[i] == labels[j]}


@pytest.mark.parametrize("tool", ["builtin", "mmseqs"])
def test_families_are_found_and_strangers_kept_apart(families, tool):
    if tool == "mmseqs" and shutil.which("mmseqs") is None:
        pytest.skip("MMseqs2 is not here")
    texts, truth = families
    assert same(cluster(texts, identity=0.4, coverage=0.8, tool=tool)) == same(truth)
    assert not same(cluster(texts, identity=0.8, coverage=0.8, tool=tool))


@pytest.mark.parametrize("letters", ["KLAG", "ACGT", "A"])
def test_proteins_of_few_letters_are_linked_where_they_are_nearly_equal(letters):
    rng = np.random.default_rng(0)
    texts = ["".join(rng.choice(list(letters), 40)) for _ in range(30)]
    texts += [text[:20] + "W" + text[21:] for text in texts]
    found = cluster(texts, identity=0.4, coverage=0.8, tool="builtin")
    assert found[:30] == found[30:]
    assert len(set(found)) == (1 if letters == "A" else 30)


@pytest.mark.skipif(shutil.which("mmseqs") is None, reason="MMseqs2 is not here")
def test_proteins_of_four_letters_are_not_taken_for_nucleotides():
    texts = ["".join(np.random.default_rng(i).choice(list("ACGT"), 90)) for i in range(10)]
    texts += [texts[0][::-1].translate(str.maketrans("ACGT", "TGCA"))]  # the other strand
    assert len(set(cluster(texts, identity=0.9, coverage=0.8, tool="mmseqs"))) == 11


def test_coverage_keeps_a_domain_and_a_long_protein_apart():
    rng = np.random.default_rng(3)
    domain = "".join(rng.choice(list(AMINO_ACIDS), 100))
    longer = domain + "".join(rng.choice(list(AMINO_ACIDS), 100))
    for coverage, alike in ((0.8, False), (0.45, True)):
        labels = cluster([domain, longer], identity=0.9, coverage=coverage, tool="builtin")
        assert (labels[0] == labels[1]) == alike


def test_short_peptides_are_not_linked_by_chance():
    rng = np.random.default_rng(4)
    peptides = ["".join(rng.choice(list("KLAGRWFIVC"), rng.integers(8, 40))) for _ in range(400)]
    assert len(set(linked(peptides, 0.4, 0.8).tolist())) == 400
    relative = peptides[7] = max(peptides, key=len)[:-3] + "DDD"
    assert len(relative) > 30
    assert len(set(linked(peptides, 0.4, 0.8).tolist())) == 399


def test_peptides_that_are_all_too_short_for_mmseqs_are_clustered_all_the_same():
    rng = np.random.default_rng(5)
    peptides = ["".join(rng.choice(list(AMINO_ACIDS), n)) for n in (3, 8, 13)]
    assert len(set(cluster(peptides, identity=0.4, coverage=0.8))) == 3
    assert cluster([], identity=0.4, coverage=0.8) == []


def test_edge_cases():
    assert cluster([], identity=0.5, coverage=0.8, tool="builtin") == []
    labels = cluster(["M", "MK", "X" * 50, "X" * 50], identity=0.5, coverage=0.8, tool="builtin")
    assert len(set(labels)) == 4
    repeats = cluster(["MKTAYIAKQR" * 5] * 130, identity=0.9, coverage=0.8, tool="builtin")
    assert len(set(repeats)) == 1


def test_without_mmseqs_the_builtin_is_taken(families, monkeypatch):
    monkeypatch.setattr(similarity.shutil, "which", lambda _: None)
    texts, truth = families
    assert same(identity(texts, seed=0, options={})) == same(truth)
    with pytest.raises(InputError, match=r"identity=0.3 needs MMseqs2; the built-in search goes down to 0.4.*apt"):
        cluster(texts, identity=0.3, coverage=0.8)
    with pytest.raises(InputError, match=r"tool=mmseqs: there is no program mmseqs on the PATH. Install it"):
        cluster(texts, identity=0.5, coverage=0.8, tool="mmseqs")


def test_options_are_checked():
    assert with_defaults("x", OPTIONS, {}) == {"identity": 0.4, "coverage": 0.8, "tool": "auto"}
    with pytest.raises(InputError, match=r"option of split identity 'identitty'.*Did you mean 'identity'"):
        identity(["MK"], seed=0, options={"identitty": 0.3})
    with pytest.raises(InputError, match="identity must be above 0 and at most 1, got 30"):
        identity(["MK"], seed=0, options={"identity": 30})
    with pytest.raises(InputError, match=r"unknown split option tool 'blast'.*builtin"):
        identity(["MK"], seed=0, options={"tool": "blast"})


def test_a_failure_of_mmseqs_is_told(monkeypatch, tmp_path):
    broken = tmp_path / "mmseqs"
    broken.write_text("#!/bin/sh\necho 'no space left' >&2\nexit 3\n")
    broken.chmod(0o755)
    monkeypatch.setenv("PATH", f"{tmp_path}:/usr/bin:/bin")
    with pytest.raises(ZooError, match="mmseqs failed \\(no space left\\)"):
        cluster(["MKTAY"], identity=0.5, coverage=0.8, tool="mmseqs")
