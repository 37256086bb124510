"""How far apart two spellings are."""

from __future__ import annotations


def edits_between(word: str, other: str, most: int) -> int:
    """Edits that make one word of another, or `most` + 1 where it takes more.

    Optimal string alignment: an edit inserts, deletes or replaces a letter, or swaps two
    neighbours (Damerau 1964, https://doi.org/10.1145/363958.363994).
    """
    if abs(len(word) - len(other)) > most:
        return most + 1
    before: list[int] = []
    row = list(range(len(other) + 1))
    for i, letter in enumerate(word, start=1):
        earlier, before, row = before, row, [i]
        for j, other_letter in enumerate(other, start=1):
            cost = min(before[j] + 1, row[j - 1] + 1, before[j - 1] + (letter != other_letter))
            if i > 1 and j > 1 and letter == other[j - 2] and word[i - 2] == other_letter:
                cost = min(cost, earlier[j - 2] + 1)
            row.append(cost)
        if min(row) > most:
            return most + 1
    return min(row[-1], most + 1)
