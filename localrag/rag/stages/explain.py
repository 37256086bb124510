"""Explain why there is no answer, or how little it was made from."""

from __future__ import annotations

from dataclasses import dataclass, replace

from localrag.rag.not_found import with_not_found
from localrag.rag.pipeline import AnswerRun, Pieces
from localrag.rag.statements import own_sentence, tidy
from localrag.rag.wordings import SearchTools


@dataclass(frozen=True, slots=True)
class NotFoundExplainer:
    """Says what the documents do not hold; `few`, if the question was about all of them."""

    around: SearchTools
    few: bool

    def __call__(self, run: AnswerRun) -> Pieces:
        """Change the answer, which the stages before have made."""
        steps = tuple(run.trace.steps[run.trace.first :])
        closest = run.pointed[0].citation if run.pointed else None
        answer = with_not_found(replace(run.answer, trace=steps), self.around, closest)
        if self.few and answer.grounded:
            notice = own_sentence("from_few", run.language)
            added = replace(notice, text=f"\n\n{notice.text}")
            yield added
            answer = replace(answer, statements=tidy((*answer.statements, added)))
        run.answer = answer
