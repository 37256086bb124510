"""A "Yes" in front of a sentence that says no: "Yes, smoking is forbidden" for "May I smoke?".

A small model agrees before it has read what it agrees to. The sentence behind it is what the
passage says, so the word is taken out; what stays says all that was said.
"""

from __future__ import annotations

import re
from collections.abc import Iterator

_LONGEST = 300
"""Code points of a first sentence that are waited for."""
_BEGINNING = re.compile(r"\s*(?:(?:yes|是的|可以|能|对)(?=\s*(?:[,，:：]|\Z)))?", re.IGNORECASE)
"""Not 对于 or 可以在: a comma or a colon stands behind it, or nothing yet."""
_NO = (
    r"forbidden|prohibited|banned|not (?:allowed|permitted|possible)|(?:must|may|can) ?not"
    r"|(?:must|can|is|are)n['’]t|禁止|严禁|不得|不允许|不可以|不准|不能"
)
_FALSE = re.compile(
    r"\s*(?:yes|是的|可以|能|对)\s*[,，:：]\s*"
    r"(?![^.!?。！？]*(?:\b(?:but|except|unless|only|however|if)\b|但|除|仅|只|如果))"
    rf"(?=[^.!?。！？]*(?:{_NO}))",
    re.IGNORECASE,
)
_ASKS_FOR_NO = re.compile(
    rf"{_NO}|\b(?:not|no|against|forbid|prohibit|ban)\b|n['’]t\b|不|没|禁", re.I
)
_END = re.compile(r"[.!?](?:\s|\Z)|[。！？\n]")


def without_false_yes(pieces: Iterator[str], question: str) -> Iterator[str]:
    """What is written, as it comes, without a "Yes" that its own sentence contradicts.

    Only a first sentence that begins so is waited for, and none where the question itself says no.
    """
    held = ""
    if not _ASKS_FOR_NO.search(question):
        for piece in pieces:
            held += piece
            begun = _BEGINNING.match(held)
            waits = not begun or begun[0].strip() or len(held.strip()) < len("yes")
            if not waits or len(held) > _LONGEST or _END.search(held):
                break
    if false := _FALSE.match(held):
        held = held[false.end() :]
        held = held[:1].upper() + held[1:]
    if held:
        yield held
    yield from pieces
