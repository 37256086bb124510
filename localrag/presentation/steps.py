"""Steps and notes of a run, in a reader's language."""

from __future__ import annotations

from localrag.messages import InterfaceLanguage, Say, speaker
from localrag.types import Note, Rating, Step, StepKind


def step_name(kind: StepKind, language: InterfaceLanguage | None = None) -> str:
    """What a step of that kind is called; `language` None is the reader's."""
    return speaker(language)(kind)


def decision(step: Step, language: InterfaceLanguage | None = None) -> str:
    """What a step decided, without its score; `language` None is the reader's."""
    say = speaker(language)
    text = _decision(step, say)
    if step.values.get("unread"):
        text = say("{text} ({note})", text=text, note=_fallback(step.kind, say))
    if step.notes:
        notes = " ".join(note_text(note, language) for note in step.notes)
        text = say("{text}. {notes}", text=text, notes=notes)
    return text


def scored(step: Step, language: InterfaceLanguage | None = None) -> str:
    """What a step decided, and its score."""
    score = "" if step.score is None else f" {step.score:.2f}"
    return decision(step, language) + score


def step_line(step: Step, language: InterfaceLanguage | None = None) -> str:
    """A step on a line of its own."""
    part, text = step_name(step.kind, language), scored(step, language)
    return speaker(language)("{part}: {text}", part=part, text=text)


def note_text(note: Note, language: InterfaceLanguage | None = None) -> str:
    """A note as a sentence; `language` None is the reader's."""
    say = speaker(language)
    values = note.values
    match note.kind:
        case "grades unread":
            return say(
                "The model gave no grade for {unread} of {total} passages; "
                "their similarity was used instead.",
                **values,
            )
        case "language not served" if values["language"] == "zh":
            return say(
                "The reranker {reranker} does not serve Chinese; the order of the search is kept.",
                **values,
            )
        case "language not served":
            return say(
                "The reranker {reranker} does not serve English; the order of the search is kept.",
                **values,
            )
        case "private left out":
            return say(
                "{left_out} passages of private documents were left out: they do not go to the "
                "hosted model.",
                **values,
            )


def rating_text(rating: Rating, language: InterfaceLanguage | None = None) -> str:
    """How far passages bear something out."""
    return speaker(language)(rating)


def _decision(step: Step, say: Say) -> str:
    values = step.values
    match step.kind:
        case "retrieve" if "too_long" in values:
            return say("{too_long} passages are longer than the window", **values)
        case "retrieve":
            return say("{passages} passages", **values)
        case "filter":
            return say("{allowed} of {total} passages", **values)
        case "private":
            return say("{left_out} passages left out", **values)
        case "expand":
            return _expansion(step, say)
        case "rerank":
            return say("{reranker}: {kept} of {read} passages", **values)
        case "answerable":
            return say("yes") if values["answer"] else say("no")
        case "write":
            return _written(step, say)
        case "check citations":
            return say("{cited} cited, {removed} markers removed, {added} added", **values)
        case "retrieval decision" if values.get("strict"):
            return say("strict: from the documents or not at all")
        case "retrieval decision" if values["needed"]:
            return say("documents are needed")
        case "retrieval decision":
            return say("documents are not needed")
        case "relevance" if values["relevant"]:
            return say("passage {passage} relevant", **values)
        case "relevance":
            return say("passage {passage} irrelevant", **values)
        case "support" | "support of a sentence":
            rating: Rating = values["rating"]  # type: ignore[assignment]
            return say(rating)
        case "utility":
            return say("useful, 1 to 5")
        case "choose":
            return say("answer {answer}", **values)
        case "budget":
            return _skipped(step, say)
        case "instructions":
            return say("{left_out} sentences left out", **values)


def _expansion(step: Step, say: Say) -> str:
    match step.values:
        case {"failed": reason}:
            return say(
                "the model failed, only the question itself is searched: {reason}", reason=reason
            )
        case {"queries": (*queries,)}:
            return " | ".join(queries) or say(
                "no usable rewriting: only the question itself is searched"
            )
    return str(step.values["passage"]) or say(
        "no passage was written: only the question itself is searched"
    )


def _written(step: Step, say: Say) -> str:
    values = step.values
    match values.get("passages"), bool(values.get("cut_short")):
        case None, _:
            return say("done")
        case 0, cut_short:
            return say("without the documents, cut short" if cut_short else "without the documents")
        case _, True:
            return say("from {passages} passages, cut short", **values)
    return say("from {passages} passages", **values)


def _skipped(step: Step, say: Say) -> str:
    values = step.values
    match values["skipped"]:
        case "passages":
            return say("{count} passages were not read", **values)
        case "answers":
            return say("{count} more answers were not tried", **values)
        case "sentences":
            return say("{count} sentences were not checked", **values)
        case "utility":
            return say("usefulness was not graded")
    return say("no time was left to write an answer")


def _fallback(kind: StepKind, say: Say) -> str:
    """What counts where a grade could not be read."""
    match kind:
        case "retrieval decision":
            return say("the reply could not be read, so the documents are searched")
        case "relevance":
            return say("the reply could not be read, so the similarity was used")
        case "support of a sentence":
            return say("the reply could not be read, so it counts as not supported")
        case "utility":
            return say("the reply could not be read, so 3 was used")
    return say("the reply could not be read")
