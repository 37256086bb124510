"""What a question came to that the documents do not answer, in a reader's language."""

from __future__ import annotations

from collections.abc import Sequence

from localrag.messages import InterfaceLanguage, Say, speaker
from localrag.types import NotFound, Suggestion

MOST_NAMED = 5
"""Words of a question that are named."""


def looked_for_text(found: NotFound, language: InterfaceLanguage | None = None) -> str:
    """What was looked for; `language` None is the reader's."""
    say = speaker(language)
    return say("Looked for: {words}", words=say(", ").join(found.looked_for) or found.question)


def reason_text(found: NotFound, language: InterfaceLanguage | None = None) -> str:
    """Why the closest sentence does not suffice, as far as it is known."""
    say = speaker(language)
    if found.closest is None:
        return say("No passage was found.")
    reasons = []
    only = [word for word in found.missing if word not in found.absent]
    if only:
        reasons.append(say("This sentence does not contain {words}.", words=_either(only, say)))
    if found.absent:
        words = _either(found.absent, say)
        reasons.append(say("None of the passages found contains {words}.", words=words))
    if found.written:
        reasons.append(say("An answer was written from the passages, but they do not bear it out."))
    elif found.probability is not None:
        reasons.append(
            say(
                "The model puts the probability that the passages answer the question at "
                "{percent}%, which is too low for an answer.",
                percent=max(1, round(100 * found.probability)),  # it never is quite sure
            )
        )
    elif not reasons:
        reasons.append(say("According to the model, the passages do not answer the question."))
    return ("" if reasons[0].endswith("。") else " ").join(reasons)


def suggestion_text(suggestion: Suggestion, language: InterfaceLanguage | None = None) -> str:
    """In what a wording differs from the question."""
    say = speaker(language)
    match suggestion.kind:
        case "spelling" | "translation":
            return say(
                "“{instead}” instead of “{word}”", instead=suggestion.instead, word=suggestion.word
            )
        case "without":
            return say("without “{word}”", word=suggestion.word)
        case "heading":
            return say("a heading in the documents")


def _either(words: Sequence[str], say: Say) -> str:
    *some, last = (f"“{word}”" for word in words[:MOST_NAMED])
    if not some:
        return last
    return say("{some} or {last}", some=say(", ").join(some), last=last)
