"""Pairs of similar sequences without another program: shared words first, then a local alignment in a band.

Pairs that share no word of ``k`` residues are never looked at, and the band is narrow, so remote relatives are missed:
of what MMseqs2 clusters at 40 % identity, 95 % is found, and below that this is no tool for it.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from scipy.optimize import brentq
from scipy.sparse import coo_array
from scipy.sparse.csgraph import connected_components

MOST_HITS = 2e6
"""Chance hits of words that are acceptable: they set the length of the words."""
SHORTEST_WORD, LONGEST_WORD = 3, 6
HALF_BAND = 32
"""Residues by which gaps may shift an alignment off the diagonal of its shared word."""
MATCH, MISMATCH, GAP = 4, 1, 4
"""Score of equal residues, and what unequal ones and a gap cost: relatives of 40 % rise throughout, others fall."""

CHANCE = 1e-3
"""Expected number of chance pairs of a sequence: short peptides are alike by chance, which is no kinship."""

_SPACE, _GAPPED = 0.1, 0.7
_ALPHABET = 18.0  # as many equally frequent letters share as many words as the twenty amino acids do
_NEIGHBOURS = 100  # of a word that stands in more places each is compared with so many others: they are linked in turn
_FEW_LETTERS = 0.15  # probability that two letters are equal; the twenty amino acids have 0.06
_CHUNK = 2048
_SEED_SHARE = 0.2  # of the identity asked for, on the diagonal of the word alone: a gap may halve it or worse
_FIELD = 15  # bits of each count beside the score
_SCORE = 1 << 3 * _FIELD
_MATCHES = 1 << 2 * _FIELD
_ROW, _COLUMN = 1 << _FIELD, 1
_ONES = (1 << _FIELD) - 1


def linked(sequences: Sequence[str], identity: float, coverage: float) -> np.ndarray:
    """Return ``(n,)`` the component of each sequence, where pairs that are alike are linked.

    Of the best local alignment of two sequences (linear gaps), the share of equal residues in its longer side must be
    at least ``identity``, and each side at least ``coverage`` of its sequence.
    """
    n = len(sequences)
    letters = np.frombuffer("".join(sequences).upper().encode("ascii"), np.uint8)
    ptr = np.concatenate([[0], np.cumsum([len(text) for text in sequences])]).astype(np.int64)
    pairs = candidates(letters, ptr, coverage)
    pairs = pairs[_equal_on_diagonal(letters, ptr, pairs) >= _SEED_SHARE * identity]
    alike = [
        _alike(letters, ptr, pairs[start : start + _CHUNK], identity, coverage)
        for start in range(0, len(pairs), _CHUNK)
    ]
    left, right, _ = pairs[np.concatenate([np.zeros(0, bool), *alike])].T
    graph = coo_array((np.ones(len(left), np.int8), (left, right)), shape=(n, n))
    components: np.ndarray = connected_components(graph, directed=False)[1]
    return components


def candidates(letters: np.ndarray, ptr: np.ndarray, coverage: float) -> np.ndarray:
    """Return ``(m, 3)`` pairs ``i < j`` that share a word, and the diagonal (place in i less place in j) of most words.

    Pairs of which the shorter sequence cannot cover the longer one are left out. The pairs are sorted by the length
    of the first, so that those aligned together are of like length.
    """
    size = np.diff(ptr)
    codes, places = _words(letters, ptr)
    owner = np.searchsorted(ptr, places, side="right") - 1
    found = []
    for step in range(1, _NEIGHBOURS + 1):
        same = np.flatnonzero(codes[step:] == codes[:-step])
        if not len(same):
            break
        i, j = owner[same], owner[same + step]
        fits = (i != j) & (np.minimum(size[i], size[j]) >= coverage * np.maximum(size[i], size[j]))
        i, j, same = i[fits], j[fits], same[fits]
        found.append(np.stack([i, j, (places[same] - ptr[i]) - (places[same + step] - ptr[j])], axis=1))
    if not found:
        return np.zeros((0, 3), np.int64)
    hits = np.concatenate(found)
    back = hits[:, 0] > hits[:, 1]
    hits[back] = hits[back][:, [1, 0, 2]] * [1, 1, -1]
    distinct, count = np.unique(hits, axis=0, return_counts=True)
    order = np.lexsort((-count, distinct[:, 1], distinct[:, 0]))
    best = distinct[order]
    first = np.ones(len(best), bool)
    first[1:] = (best[1:, :2] != best[:-1, :2]).any(axis=1)
    best = best[first]
    return best[np.argsort(size[best[:, 0]], kind="stable")]


def _words(letters: np.ndarray, ptr: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Return the code and the place of every word that lies within a sequence, sorted by code."""
    total = len(letters)
    k = SHORTEST_WORD
    while k < LONGEST_WORD and total**2 / 2 / _ALPHABET**k > MOST_HITS:
        k += 1
    if total < k:
        return np.zeros(0, np.int64), np.zeros(0, np.int64)
    codes = np.zeros(total - k + 1, np.int64)
    for offset in range(k):
        codes = codes * 32 + (letters[offset : total - k + 1 + offset] & 31)
    places = np.arange(len(codes))
    ends = np.repeat(ptr[1:], np.diff(ptr))[: len(codes)]
    places = places[places + k <= ends]
    order = np.argsort(codes[places], kind="stable")
    return codes[places][order], places[order]


def _equal_on_diagonal(letters: np.ndarray, ptr: np.ndarray, pairs: np.ndarray) -> np.ndarray:
    """Return ``(m,)`` the share of the shorter sequence that equals the other one along the pair's diagonal."""
    size = np.diff(ptr)
    shares = np.zeros(len(pairs))
    for start in range(0, len(pairs), _CHUNK):
        i, j, diagonal = pairs[start : start + _CHUNK].T
        width = int(size[i].max(initial=0))
        at = np.arange(width)
        own, other = _letters_at(letters, ptr, i, at[None]), _letters_at(letters, ptr, j, at[None] - diagonal[:, None])
        equal = ((own == other) & (own >= 0)).sum(axis=1)
        shares[start : start + _CHUNK] = equal / np.minimum(size[i], size[j])
    return shares


def _letters_at(letters: np.ndarray, ptr: np.ndarray, which: np.ndarray, at: np.ndarray) -> np.ndarray:
    """Return the letters of the sequences ``which`` at the places ``at`` ``(m, w)``; -1 outside and for X."""
    start, end = ptr[which][:, None], ptr[which + 1][:, None]
    place = start + at
    inside = (place >= start) & (place < end)
    found = letters[np.where(inside, place, 0)].astype(np.int16)
    return np.where(inside & (found != ord("X")), found, np.int16(-1))


def _alike(letters: np.ndarray, ptr: np.ndarray, pairs: np.ndarray, identity: float, coverage: float) -> np.ndarray:
    """Return ``(m,)`` whether the best local alignment of each pair is alike enough."""
    size = np.diff(ptr)
    i, j, _ = pairs.T
    best = best_alignments(letters, ptr, pairs)
    score = best >> 3 * _FIELD
    matches, rows, columns = (best >> 2 * _FIELD) & _ONES, (best >> _FIELD) & _ONES, best & _ONES
    enough = matches >= identity * np.maximum(rows, columns)
    covered = (rows >= coverage * size[i]) & (columns >= coverage * size[j])
    result: np.ndarray = enough & covered & (score >= _by_chance(letters, size[i]))
    return result


def _by_chance(letters: np.ndarray, length: np.ndarray) -> np.ndarray:
    """Return ``(m,)`` the score that a sequence of each length reaches in all the data once in a thousand by chance.

    Karlin and Altschul's statistics (1990, doi:10.1073/pnas.87.6.2264) for alignments without gaps of letters as
    frequent as they are here; gaps are allowed for by a smaller rate. Of few letters (designed peptides, repeats)
    alignments rise by chance throughout, and there are no such statistics: as much is asked for as four equal residues
    of five give.
    """
    share = np.bincount(letters) / len(letters)
    equal = float((share**2).sum())
    if equal > _FEW_LETTERS:
        few: np.ndarray = (0.8 * MATCH - 0.2 * MISMATCH) * length
        return few
    rate = _GAPPED * brentq(lambda x: equal * np.exp(MATCH * x) + (1 - equal) * np.exp(-MISMATCH * x) - 1, 1e-3, 5)
    score: np.ndarray = np.log(_SPACE * length * len(letters) / CHANCE) / rate
    return score


def best_alignments(letters: np.ndarray, ptr: np.ndarray, pairs: np.ndarray) -> np.ndarray:
    """Return ``(m,)`` the best local alignment of each pair, packed: score, matches, residues of i, residues of j.

    Smith and Waterman's recursion on all pairs at once, in a band about each pair's diagonal. The counts stand in the
    low bits of the score, so that the maximum that the recursion takes carries them along; a step adds to the counts
    what it adds to the alignment. Gaps cost the same for every residue, so a whole row's gaps follow from a running
    maximum.
    """
    i, j, diagonal = pairs.T
    size = np.diff(ptr)
    band = np.arange(2 * HALF_BAND + 1)
    matched, unmatched = MATCH * _SCORE + _MATCHES + _ROW + _COLUMN, -MISMATCH * _SCORE + _ROW + _COLUMN
    gap_down, gap_right = GAP * _SCORE - _ROW, (GAP * _SCORE - _COLUMN) * band
    last = np.zeros((len(pairs), len(band) + 1), np.int64)  # one more cell, always 0, above the end of the band
    best = np.zeros(len(pairs), np.int64)
    for row in range(int(size[i].max(initial=0))):
        own = _letters_at(letters, ptr, i, np.full((1, 1), row))
        other = _letters_at(letters, ptr, j, (row - diagonal - HALF_BAND)[:, None] + band)
        cell = last[:, :-1] + np.where((own == other) & (own >= 0), matched, unmatched)
        cell = np.maximum(np.maximum(cell, last[:, 1:] - gap_down), 0)
        last[:, :-1] = np.maximum.accumulate(cell + gap_right, axis=1) - gap_right
        best = np.maximum(best, last.max(axis=1))
    return best
