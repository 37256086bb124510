"""Steps and notes of a run, in a reader's language."""

from __future__ import annotations

from collections.abc import Callable
from itertools import zip_longest

from localrag.documents.formats.table import shown_name
from localrag.messages import InterfaceLanguage, Say, phrase, speaker, tr
from localrag.types import Note, Plain, Rating, Step, StepKind

_NOTES = {
    "grades unread": "The model gave no grade for {unread} of {total} passages; "
    "their similarity was used instead.",
    "language not served: zh": "The reranker {reranker} does not serve Chinese; the order of the "
    "search is kept.",
    "language not served: en": "The reranker {reranker} does not serve English; the order of the "
    "search is kept.",
    "private left out": "{left_out} passages of private documents were left out: they do not go to "
    "the hosted model.",
    "not judged": "{count} answers are not judged: their passages are of private documents, or of "
    "unknown origin, and the judge is on another machine.",
    "not read": "Not read: {path}",
    "cut otherwise": "The library was split with other [chunking] settings and is evaluated as"
    " it is. `localrag rebuild` splits it again.",
    "index damaged: vectors": "The vector index is of an earlier version or another account, or "
    "damaged: it is being rebuilt from the catalogue; nothing is embedded again.",
    "index damaged: keywords": "The keyword index is of an earlier version or another account, or "
    "damaged: it is being rebuilt from the catalogue; no file is read again.",
}

_DECISIONS = {
    "scope": "about all",
    "retrieve": "{passages} {passages:passage|passages}",
    "filter": "{allowed} of {total} passages",
    "cell": "{file}: {state}, {left} left",
    "private": "{left_out} {left_out:passage|passages} left out",
    "rerank": "{reranker}: {kept} of {read} passages",
    "check citations": "{cited} cited, {removed} {removed:marker|markers} removed, {added} added",
    "draft": "an answer tried from passage {passage}",
    "utility": "useful, 1 to 5",
    "choose": "answer {answer}",
    "instructions": "{left_out} {left_out:sentence|sentences} left out",
}

_MOST_NAMES = 4
"""Files of a plan that are named on its line."""

_UNNAMED = "…"
"""A file of a kept conversation, which does not have the names of files that were tried."""

_STATES = {
    "found": "found",
    "not stated": "not stated",
    "doubtful": "doubtful",
    "not read": "not read",
}

_SKIPPED = {
    "passages": "{count} {count:passage was|passages were} not read",
    "answers": "{count} more {count:answer was|answers were} not tried",
    "sentences": "{count} {count:sentence was|sentences were} not checked",
    "utility": "usefulness was not graded",
    "answer": "no time was left to write an answer",
}

_COST = {
    "read": "{read:.1f} s read",
    "kept": "{kept:.1f} s kept",
    "written": "{written:.1f} s written",
    "least": "about {least} to {most} s to come",
    "most": "about {most} s to come",
    "budget": "the budget leaves {budget:.0f} s",
}

_UNREAD = {
    "retrieval decision": "the reply could not be read, so the documents are searched",
    "relevance": "the reply could not be read, so the similarity was used",
    "support of a sentence": "the reply could not be read, so it counts as not supported",
    "utility": "the reply could not be read, so 3 was used",
    "support": "the reply could not be read",
    "answerable": "the reply could not be read",
}
"""What counts where a grade could not be read."""


def state_text(state: str, say: Say = tr) -> str:
    """The state of a cell."""
    return say(_STATES[state])


def step_name(kind: StepKind, language: InterfaceLanguage | None = None) -> str:
    """What a step of that kind is called; `language` None is the reader's."""
    return speaker(language)(kind)


def decision(step: Step, language: InterfaceLanguage | None = None) -> str:
    """What a step decided, without its score; `language` None is the reader's."""
    say = speaker(language)
    text = _decision(step, say)
    if "part" in step.values:
        text = say("part {number}: {text}", number=step.values["part"], text=text)
    if step.values.get("unread"):
        text = say("{text} ({note})", text=text, note=say(_UNREAD[step.kind]))
    elif "calibrated" in step.values:
        text = _with_calibration(text, step, say)
    if isinstance(lacks := step.values.get("lacks"), tuple):
        text = say("{text}; it lacks: {words}", text=text, words=say(", ").join(lacks[:3]))
    if step.notes:
        notes = " ".join(note_text(note, language) for note in step.notes)
        text = say("{text}. {notes}", text=text, notes=notes)
    return text


def _with_calibration(text: str, step: Step, say: Say) -> str:
    """Whether the grade's probability means the same for every model, and that probability."""
    if not step.values["calibrated"]:
        return say("{text} (not calibrated)", text=text)
    return say("{text} (calibrated: {percent}%)", text=text, percent=_percent(step))


def _percent(step: Step) -> int:
    return round(100 * float(str(step.values["probability"])))


def scored(step: Step, language: InterfaceLanguage | None = None) -> str:
    """What a step decided, and its score."""
    score = "" if step.score is None else f" {step.score:.2f}"
    return decision(step, language) + score


def step_line(step: Step) -> str:
    """A step on a line of its own."""
    return tr("{part}: {text}", part=step_name(step.kind), text=scored(step))


def note_text(note: Note, language: InterfaceLanguage | None = None) -> str:
    """A note as a sentence; `language` None is the reader's."""
    kind: str = note.kind
    if kind == "language not served":
        kind = f"{kind}: {note.values['language']}"
    elif kind == "index damaged":
        kind = f"{kind}: {note.values['name']}"
    return phrase(_NOTES[kind], language, **note.values)


class NotesOnce:
    """Tells a person what steps have to tell, each thing once."""

    def __init__(self, tell: Callable[[str], object]) -> None:
        self._tell = tell
        self._texts: set[str] = set()

    def hearing(self, on_step: Callable[[Step], object]) -> Callable[[Step], None]:
        """What hears steps and passes them on to `on_step`."""

        def hear(step: Step) -> None:
            for text in map(note_text, step.notes):
                if text not in self._texts:
                    self._texts.add(text)
                    self._tell(text)
            on_step(step)

        return hear


def rating_text(rating: Rating) -> str:
    """How far passages bear something out."""
    return tr(rating)


def _decision(step: Step, say: Say) -> str:
    values = step.values
    match step.kind:
        case "plan":
            files = values.get("files", () if step.score is None else (_UNNAMED,))
            return _files(files, say) if files else say("no sheets or documents are surely meant")
        case "columns":
            return _join(values["questions"])
        case "compute" if values["sure"]:
            return say("both readings agree")
        case "compute":
            return say("not sure: the two readings settle nothing")
        case "retrieve" if "too_long" in values:
            return say("{too_long} passages are longer than the window", **values)
        case "expand":
            return _expansion_text(step, say)
        case "parts" if "missing" in values:
            return say("not in the documents: {missing}", missing=_join(values["missing"]))
        case "parts":
            return _join(values["parts"])
        case "first asked":
            return f"{values['asked']} → {values.get('name') or '?'}"
        case "answerable":
            return say("yes") if values["answer"] else say("no")
        case "write":
            return _writing_text(step, say)
        case "retrieval decision" if values.get("strict"):
            return say("strict: from the documents or not at all")
        case "retrieval decision" if values.get("close"):
            return say("documents are needed: they have something close to it")
        case "retrieval decision":
            needed = values["needed"]
            return say("documents are needed" if needed else "documents are not needed")
        case "relevance" if values.get("fewer_words"):
            return say("passage {passage} not read: it has fewer words of the question", **values)
        case "relevance" if values["relevant"]:
            return say("passage {passage} relevant", **values)
        case "relevance":
            return say("passage {passage} irrelevant", **values)

        case "says" if values["says"]:
            return say("passage {passage} says so", **values)
        case "says":
            return say("passage {passage} does not say so", **values)
        case "decides" if values["decides"]:
            return say("passage {passage} says yes or no", **values)
        case "decides":
            return say("passage {passage} says neither yes nor no", **values)
        case "point" if values["sure"]:
            return say("a sentence of passage {passage} surely answers", **values)
        case "point":
            return say("no sentence of passage {passage} surely answers", **values)
        case "check sentences":
            return _check_text(step, say)
        case "disagreement":
            return _disagreement_text(step, say)
        case "support" | "support of a sentence":
            rating: Rating = values["rating"]  # type: ignore[assignment]
            return say(rating)
        case "budget":
            return say(_SKIPPED[str(values["skipped"])], **values)
        case "cost":
            return _cost(step, say)
    if step.kind == "cell":
        values = {
            **values,
            "state": state_text(str(values["state"]), say),
            "file": shown_name(str(values.get("file", _UNNAMED))),
        }
    text = say(_DECISIONS[step.kind], **values)
    if "to_come" in values:
        text = say("{text}, about {to_come:.0f} s to come", text=text, to_come=values["to_come"])
    return text


def _cost(step: Step, say: Say) -> str:
    values, names = dict(step.values), ["read", "kept", "written"]
    if "most" in values:
        least, most = (max(1, round(float(str(values[name])))) for name in ("least", "most"))
        names = [name for name in ("read", "kept") if values[name]]  # of nothing nothing is told
        names += ["most" if least == most else "least", "budget"]
        values |= {"least": least, "most": most}
    return say(", ").join(say(_COST[name], **values) for name in names if name in values)


def _files(names: Plain, say: Say) -> str:
    """File names, the first of many."""
    assert isinstance(names, tuple), "files are listed"  # noqa: S101
    short = [shown_name(name) for name in names[:_MOST_NAMES]]
    more = ["…"] if len(names) > _MOST_NAMES else []
    return say(", ").join([*short, *more])


def _join(texts: Plain) -> str:
    assert isinstance(texts, tuple), "parts are listed"  # noqa: S101
    return " | ".join(texts)


def _expansion_text(step: Step, say: Say) -> str:
    match step.values:
        case {"failed": reason}:
            return say(
                "the model failed, only the question itself is searched: {reason}", reason=reason
            )
        case {"queries": (*queries,)}:
            return " | ".join(queries) or say(
                "no usable rewriting: only the question itself is searched"
            )
    return str(step.values.get("passage", "")) or say(
        "no passage was written: only the question itself is searched"
    )


def _check_text(step: Step, say: Say) -> str:
    text = say(
        "{checked} {checked:sentence|sentences} checked, {unsupported} without support; the model "
        "was asked about {asked}",
        **step.values,
    )
    if not step.values["unchecked"]:
        return text
    note = say("{unchecked} could not be checked", **step.values)
    return say("{text} ({note})", text=text, note=note)


def _disagreement_text(step: Step, say: Say) -> str:
    pairs = zip_longest(step.values["passages"], step.values.get("figures", ()), fillvalue="")  # type: ignore[arg-type]
    return say(", ").join(f"[{number}] {figure}".strip() for number, figure in pairs)


def _writing_text(step: Step, say: Say) -> str:
    values = step.values
    match values.get("passages"), bool(values.get("cut_short")):
        case None, _:
            return say("done")
        case 0, cut_short:
            return say("without the documents, cut short" if cut_short else "without the documents")
        case _, True:
            return say("from {passages} {passages:passage|passages}, cut short", **values)
    return say("from {passages} {passages:passage|passages}", **values)
