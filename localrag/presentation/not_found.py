"""What a question came to that the documents do not answer, in a reader's language."""

from __future__ import annotations

from collections.abc import Sequence

from localrag.messages import InterfaceLanguage, Say, speaker
from localrag.types import NotFound, Suggestion

MOST_NAMED = 5
"""Words of a question that are named."""


_SUGGESTIONS = {
    "spelling": "“{instead}” instead of “{word}”",
    "translation": "“{instead}” instead of “{word}”",
    "without": "without “{word}”",
    "heading": "a heading in the documents",
}


def looked_for_text(not_found: NotFound, language: InterfaceLanguage | None = None) -> str:
    """What was looked for; `language` None is the reader's."""
    say = speaker(language)
    return say(
        "Looked for: {words}", words=say(", ").join(not_found.looked_for) or not_found.question
    )


def reason_text(not_found: NotFound, language: InterfaceLanguage | None = None) -> str:
    """Why the closest sentence does not suffice, as far as it is known."""
    say = speaker(language)
    if not_found.closest is None:
        return say("No passage was found.")
    reasons = []
    only = [word for word in not_found.missing if word not in not_found.absent]
    if only:
        reasons.append(say("This sentence does not contain {words}.", words=_either(only, say)))
    if not_found.absent:
        words = _either(not_found.absent, say)
        reasons.append(say("None of the passages found contains {words}.", words=words))
    if not_found.written:
        reasons.append(say("An answer was written from the passages, but they do not bear it out."))
    elif not_found.probability is not None:
        reasons.append(
            say(
                "The model puts the probability that the passages answer the question at "
                "{percent}%, which is too low for an answer.",
                percent=max(1, round(100 * not_found.probability)),  # it never is quite sure
            )
        )
    elif not reasons:
        reasons.append(say("According to the model, the passages do not answer the question."))
    return ("" if reasons[0].endswith("。") else " ").join(reasons)


def suggestion_text(suggestion: Suggestion, language: InterfaceLanguage | None = None) -> str:
    """In what a wording differs from the question."""
    say = speaker(language)
    words = {"instead": suggestion.instead, "word": suggestion.word}
    return say(_SUGGESTIONS[suggestion.kind], **words)


def _either(words: Sequence[str], say: Say) -> str:
    *names, last = (f"“{word}”" for word in words[:MOST_NAMED])
    if not names:
        return last
    return say("{words} or {last}", words=say(", ").join(names), last=last)
