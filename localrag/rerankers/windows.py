"""Long passages in pieces, for cross-encoders that learnt from short ones.

A passage is worth as much as its best piece (MaxP: Dai and Callan, "Deeper Text
Understanding for IR with Contextual Neural Language Modeling", SIGIR 2019).
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

from localrag.text.sentences import split_sentences

HEADING_SHARE = 3
"""A first line longer than 1/3 of a window is no heading and is not repeated."""


def windows(text: str, size: int, count_tokens: Callable[[Sequence[str]], list[int]]) -> list[str]:
    """Whole sentences in pieces of about `size` tokens; a text of up to 1.5 `size` stays whole.

    Neighbours share a sentence, and a heading in the first line stands in front of each. A
    sentence longer than `size` is a piece of its own.
    """
    if count_tokens([text])[0] * 2 <= size * 3:
        return [text]
    heading, line_break, body = text.partition("\n")
    if not body.strip() or count_tokens([heading])[0] * HEADING_SHARE > size:
        heading, line_break, body = "", "", text
    sentences = [body[span.start : span.end] for span in split_sentences(body)]
    lengths = count_tokens(sentences)
    pieces: list[str] = []
    start = 0
    while start < len(sentences):
        end, tokens = start + 1, lengths[start]
        while end < len(sentences) and tokens + lengths[end] <= size:
            tokens += lengths[end]
            end += 1
        pieces.append(heading + line_break + " ".join(sentences[start:end]))
        if end == len(sentences):
            break
        start = max(end - 1, start + 1)
    return pieces or [text]
