"""Make `localrag/text/word_frequencies.txt`: how common words are in texts at large.

    pip install wordfreq==3.1.1
    python scripts/word_frequencies.py

From the lists of wordfreq (Robyn Speer, 2022, doi:10.5281/zenodo.7199437), whose data are under
CC BY-SA 4.0, cut into terms as the keyword index cuts them: a term has the share of all words that
are cut to it. Terms rarer than 1 in 50,000 are left out: they would add next to nothing to a count.
"""

from __future__ import annotations

import math
from collections import defaultdict
from pathlib import Path

from localrag.text.tokenize import Tokenizer

FILE = Path(__file__).resolve().parents[1] / "localrag" / "text" / "word_frequencies.txt"
LISTED = 50_000
"""Words of each list that are looked at."""
LEAST = 4.3
"""Of a term, in the Zipf scale of van Heuven et al. (2014): log10 of its number in 10^9 words."""
HEAD = """\
# Terms by their frequency in texts at large: log10 of the number in 10^9 words, then terms.
# Made by scripts/word_frequencies.py from wordfreq 3.1.1 (Robyn Speer, 2022,
# doi:10.5281/zenodo.7199437).
# These figures are under CC BY-SA 4.0: https://creativecommons.org/licenses/by-sa/4.0/
"""


def main() -> None:
    """Write the file."""
    import wordfreq  # type: ignore[import-not-found] # only this needs it

    tokenize, shares = Tokenizer(), defaultdict[str, float](float)
    for language in ("en", "zh"):
        for word in wordfreq.top_n_list(language, LISTED):
            if word.isascii() == (language == "en"):  # "app" in Chinese texts
                for term in set(tokenize(word)):
                    shares[term] += wordfreq.word_frequency(word, language)
    by_value: dict[float, list[str]] = defaultdict(list)
    for term, share in shares.items():
        value = round(math.log10(share) + 9, 1) if share else 0.0
        if value >= LEAST and not term.isdecimal():
            by_value[value].append(term)
    lines = [f"{value:.1f} {' '.join(sorted(by_value[value]))}" for value in sorted(by_value)]
    FILE.write_text(HEAD + "\n".join(reversed(lines)) + "\n", encoding="utf-8")


if __name__ == "__main__":
    main()
