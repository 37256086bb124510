"""What to say where the documents do not answer: what was looked for, and how near they come.

Says what can be known: which words of the question stand nowhere, and which other wordings find
something. No language model is asked.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from itertools import islice

from localrag.rag.grading import as_known
from localrag.rag.question_words import Text, Word, question_words
from localrag.rag.wordings import QuestionRewriter, SearchTools
from localrag.types import Answer, Citation, NotFound, Step

MOST_SUGGESTIONS = 3


def with_not_found(
    answer: Answer, around: SearchTools, looked_at: Citation | None = None
) -> Answer:
    """The answer, with what there is to say of what the documents do not hold.

    That is the whole question where nothing was answered from them, or the parts of it that a
    pipeline has named in `Answer.not_found` by their question alone. What comes closest to the
    whole is the sentence that the model `looked_at` most, else one by words and meaning.
    """
    parts = answer.not_found
    if not parts and _unanswered(answer):
        probability, written = _probability(answer.trace), _left_out(answer.trace)
        whole = NotFound(
            answer.question, probability=probability, written=written, closest=looked_at
        )
        parts = (whole,)
    if not parts:
        return answer
    return replace(answer, not_found=tuple(_filled(part, answer, around) for part in parts))


def _unanswered(answer: Answer) -> bool:
    """Whether the documents were read and do not hold the answer."""
    notices = [statement.kind == "notice" for statement in answer.statements]
    if answer.grounded or (notices and all(notices)):
        return False
    if answer.metrics is not None and not answer.metrics.used_retrieval:
        return answer.metrics.retrieval_needed
    return answer.refuses


def _probability(trace: Sequence[Step]) -> float | None:
    """That the passages hold the answer, where that is why there is none: the highest grade."""
    grades = [step for step in trace if step.kind in ("answerable", "relevance")]
    said_yes = any(step.values.get("answer") for step in grades)
    if said_yes or any(step.kind == "write" and step.values.get("passages") != 0 for step in trace):
        return None  # it was thought to be there, and was not written
    probabilities = [step.values["probability"] for step in grades if "probability" in step.values]
    return max((float(str(probability)) for probability in probabilities), default=None)


def _left_out(trace: Sequence[Step]) -> bool:
    """Whether an answer was written that is not there; one that refuses is not checked."""
    return any(step.kind in ("check sentences", "support of a sentence") for step in trace)


def _filled(part: NotFound, answer: Answer, around: SearchTools) -> NotFound:
    question_text = Text(part.question, around.tokenize)
    words = question_words(part.question, around.tokenize)
    closest = part.closest or around.attributor(answer.contexts).nearest(part.question)
    texts = [Text(as_known(hit), around.tokenize) for hit in answer.contexts]
    missing: list[Word] = []
    if closest is not None:
        number = closest.marker - 1
        heading = answer.contexts[number].chunk.heading
        sentence = Text(f"{heading}\n{closest.quote}", around.tokenize)
        for word in words:
            # A sentence lives on what stands around it; only a number must stand in it itself.
            near = sentence if word.kind == "number" else texts[number]
            if texts[number].could_have(word, question_text) and not near.has(word):
                missing.append(word)
    absent = [word for word in missing if not any(text.has(word) for text in texts)]
    tried = QuestionRewriter(part.question, question_text, words, absent, answer.contexts, around)
    return replace(
        part,
        looked_for=tuple(word.text for word in words),
        closest=closest,
        missing=tuple(word.text for word in missing),
        absent=tuple(word.text for word in absent),
        suggestions=tuple(islice(tried.suggestions(), MOST_SUGGESTIONS)),
    )
