"""Steps and notes of a run, in a reader's language."""

from __future__ import annotations

from localrag.messages import InterfaceLanguage, phrase
from localrag.types import Note, Rating, Step, StepKind


def step_name(kind: StepKind, language: InterfaceLanguage | None = None) -> str:
    """What a step of that kind is called; `language` None is the reader's."""
    match kind:
        case "retrieve":
            return phrase("retrieve", language)
        case "rerank":
            return phrase("rerank", language)
        case "expand":
            return phrase("expand", language)
        case "filter":
            return phrase("filter", language)
        case "private":
            return phrase("private documents", language)
        case "answerable":
            return phrase("answerable", language)
        case "write":
            return phrase("write", language)
        case "check citations":
            return phrase("check citations", language)
        case "retrieval decision":
            return phrase("retrieval decision", language)
        case "relevance":
            return phrase("relevance", language)
        case "support of a sentence":
            return phrase("support of a sentence", language)
        case "support":
            return phrase("support", language)
        case "utility":
            return phrase("utility", language)
        case "choose":
            return phrase("choose", language)
        case "budget":
            return phrase("time budget", language)
        case "instructions":
            return phrase("instructions in documents", language)


def decision(step: Step, language: InterfaceLanguage | None = None) -> str:
    """What a step decided, without its score; `language` None is the reader's."""
    text = _decision(step, language)
    if step.values.get("unread"):
        text = phrase("{text} ({note})", language, text=text, note=_fallback(step.kind, language))
    if step.notes:
        notes = " ".join(note_text(note, language) for note in step.notes)
        text = phrase("{text}. {notes}", language, text=text, notes=notes)
    return text


def scored(step: Step, language: InterfaceLanguage | None = None) -> str:
    """What a step decided, and its score."""
    score = "" if step.score is None else f" {step.score:.2f}"
    return decision(step, language) + score


def step_line(step: Step, language: InterfaceLanguage | None = None) -> str:
    """A step on a line of its own."""
    part, text = step_name(step.kind, language), scored(step, language)
    return phrase("{part}: {text}", language, part=part, text=text)


def note_text(note: Note, language: InterfaceLanguage | None = None) -> str:
    """A note as a sentence; `language` None is the reader's."""
    values = note.values
    match note.kind:
        case "grades unread":
            return phrase(
                "The model gave no grade for {count} of {all} passages; "
                "their similarity was used instead.",
                language,
                count=values["unread"],
                all=values["total"],
            )
        case "language not served" if values["language"] == "zh":
            return phrase(
                "The reranker {names} does not serve Chinese; the order of the search is kept.",
                language,
                names=values["reranker"],
            )
        case "language not served":
            return phrase(
                "The reranker {names} does not serve English; the order of the search is kept.",
                language,
                names=values["reranker"],
            )
        case "private left out":
            return phrase(
                "{count} passages of private documents were left out: they do not go to the "
                "hosted model.",
                language,
                count=values["left_out"],
            )


def rating_text(rating: Rating, language: InterfaceLanguage | None = None) -> str:
    """How far passages bear something out."""
    match rating:
        case "fully supported":
            return phrase("fully supported", language)
        case "partially supported":
            return phrase("partially supported", language)
        case "no support":
            return phrase("no support", language)


def _decision(step: Step, language: InterfaceLanguage | None) -> str:
    values = step.values
    match step.kind:
        case "retrieve" if "too_long" in values:
            count = values["too_long"]
            return phrase("{count} passages are longer than the window", language, count=count)
        case "retrieve":
            return phrase("{count} passages", language, count=values["passages"])
        case "filter":
            left, total = values["allowed"], values["total"]
            return phrase("{left} of {total} passages", language, left=left, total=total)
        case "private":
            return phrase("{count} passages left out", language, count=values["left_out"])
        case "expand":
            return _expansion(step, language)
        case "rerank":
            return phrase(
                "{name}: {kept} of {read} passages",
                language,
                name=values["reranker"],
                kept=values["kept"],
                read=values["read"],
            )
        case "answerable":
            return phrase("yes", language) if values["answer"] else phrase("no", language)
        case "write":
            return _written(step, language)
        case "check citations":
            return phrase(
                "{cited} cited, {removed} markers removed, {added} added", language, **values
            )
        case "retrieval decision" if values.get("strict"):
            return phrase("strict: from the documents or not at all", language)
        case "retrieval decision" if values["needed"]:
            return phrase("documents are needed", language)
        case "retrieval decision":
            return phrase("documents are not needed", language)
        case "relevance" if values["relevant"]:
            return phrase("passage {number} relevant", language, number=values["passage"])
        case "relevance":
            return phrase("passage {number} irrelevant", language, number=values["passage"])
        case "support" | "support of a sentence":
            rating: Rating = values["rating"]  # type: ignore[assignment]
            return rating_text(rating, language)
        case "utility":
            return phrase("useful, 1 to 5", language)
        case "choose":
            return phrase("answer {number}", language, number=values["answer"])
        case "budget":
            return _skipped(step, language)
        case "instructions":
            return phrase("{count} sentences left out", language, count=values["left_out"])


def _expansion(step: Step, language: InterfaceLanguage | None) -> str:
    match step.values:
        case {"failed": reason}:
            return phrase(
                "the model failed, the question alone is searched: {reason}",
                language,
                reason=reason,
            )
        case {"queries": (*queries,)}:
            return " | ".join(queries) or phrase(
                "no usable rewriting: the question alone is searched", language
            )
    return str(step.values["passage"]) or phrase(
        "no passage was written: the question alone is searched", language
    )


def _written(step: Step, language: InterfaceLanguage | None) -> str:
    passages, cut_short = step.values.get("passages"), step.values.get("cut_short")
    if passages is None:
        return phrase("done", language)
    if not passages:
        if cut_short:
            return phrase("without the documents, cut short", language)
        return phrase("without the documents", language)
    if cut_short:
        return phrase("from {count} passages, cut short", language, count=passages)
    return phrase("from {count} passages", language, count=passages)


def _skipped(step: Step, language: InterfaceLanguage | None) -> str:
    count = step.values.get("count")
    match step.values["skipped"]:
        case "passages":
            return phrase("{count} passages were not read", language, count=count)
        case "answers":
            return phrase("{count} more answers were not tried", language, count=count)
        case "sentences":
            return phrase("{count} sentences were not checked", language, count=count)
        case "utility":
            return phrase("usefulness was not graded", language)
    return phrase("no time was left to write an answer", language)


def _fallback(kind: StepKind, language: InterfaceLanguage | None) -> str:
    """What counts where a grade could not be read."""
    match kind:
        case "retrieval decision":
            return phrase("the reply could not be read, the documents are searched", language)
        case "relevance":
            return phrase("the reply could not be read, the similarity was taken", language)
        case "support of a sentence":
            return phrase("the reply could not be read, it counts as not supported", language)
        case "utility":
            return phrase("the reply could not be read, 3 was taken", language)
    return phrase("the reply could not be read", language)
