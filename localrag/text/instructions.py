"""Sentences that could make a language model answer something else than the question.

A wide net of words, on purpose: what it holds is read by the model all the same, and only an
answer that shows that it followed one of them is written again without it (`rag/untrusted.py`).
So honest sentences may be caught ("answer only the questions in section B"), and nothing is
lost when they are. Knows words only.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from itertools import pairwise

from localrag.languages import any_of
from localrag.text.normalize import fold
from localrag.text.sentences import Span, split_sentences

_TALK = re.compile(any_of(lambda language: language.reply_verbs))
"""Words for what a reply does."""
_STEERS = re.compile(any_of(lambda language: language.steering))
"""Words for whom a reply is asked of, and for what it is to be in place of an answer."""
_ELSEWHERE = re.compile(
    r"\b(?:antwort|schreib|vergiss|ignorier|sprachmodell|répond|réponse|écri[vs]|oubli|consigne"
    r"|respond[ae]\b|contest[ae]\b|escrib|olvid|asistente|esque[cç]|assistente|istruzioni|rispond|scriv)"
    r"|\b(?:ответ|отвеч|напиш|забудь|ассистент|указани|вопрос)"
    r"|答え|回答は|指示|無視|質問|대답|출력|무시|질문|지시|أجب|اكتب|تجاهل|المساعد|سؤال"
)
"""The same in languages without a record of their own, where one of them is enough."""
_FRAME = re.compile(
    r"<\|[^|>\n]{1,40}\|>|</?(?:s|bos|eos|think|(?:start|end)_of_turn"
    r"|(?:tool|function)_(?:calls?|results?|response))>"
    r"|(?:(?<![a-z0-9_])<|</)(?:sys|system|user|human|assistant|ai|prompt|instructions?|tasks?"
    r"|passages?|系统|用户|助[手理]|指令)(?:_prompt|_message|[\s-][^>\n]{0,40})?>(?![@/.])"
    r"|<[a-z]+\s[^>\n]{0,40}(?:display:\s?none|visibility:\s?hidden|font-size:\s?0)"
    r"|\[/?(?:inst|system|user|assistant)\b|!\["
    r"|^\W{0,6}(?:system|user|human|assistant|ai|model|q|a|question|answer|instruction|response"
    r"|系统|用户|助[手理]|问题?|答案?|指令)\s*[:#]"
    r"|\b(?:end of|[a-z]+ ends?) (?:the )?(?:document|passage|text|context|file)|到此结束|已结束"
    r"|(?:^|\W)(?:\w[ -]+){9}"
    r"|\b10/10\b(?!/\d)",  # a grade, not 10/10/2025
    re.MULTILINE,
)
"""Marks of a chat template or of the prompt itself, hidden markup, and words that were spelt apart.

Not every angle bracket: addresses of honest mails, tags and types of technical texts have them."""

_CELL = re.compile(r"(?<!<) ?\|(?!>) ?")


def may_steer(text: str) -> tuple[Span, ...]:
    """The sentences, and cells of tables, that could tell a language model what to answer."""
    return tuple(span for span in _pieces(text) if _may_steer(text[span.start : span.end]))


def _may_steer(piece: str) -> bool:
    folded = fold(piece)
    if _FRAME.search(folded) or _ELSEWHERE.search(folded):
        return True
    steering = len(set(_STEERS.findall(folded)))
    return steering >= 3 or (steering >= 1 and _TALK.search(folded) is not None)


def _pieces(text: str) -> list[Span]:
    spans: list[Span] = []
    for first, last in split_sentences(text):
        cuts = [first, *(cell.end() for cell in _CELL.finditer(text, first, last)), last]
        for begin, stop in pairwise(cuts):
            body = text[begin:stop].rstrip(" |")
            if body:
                spans.append(Span(begin, begin + len(body)))
    return spans


def left(text: str, spans: Sequence[Span]) -> tuple[Span, ...]:
    """What stays of `text` when these spans go, without the gaps that they would leave."""
    if not spans:
        return (Span(0, len(text)),)
    stays: list[Span] = []
    begin, blank = 0, True
    for start, end in (*spans, Span(len(text), len(text))):
        while blank and begin < start and text[begin].isspace():
            begin += 1
        if begin < start:
            stays.append(Span(begin, start))
            blank = text[start - 1].isspace()
        begin = end
    if stays:
        start, end = stays[-1]
        stays[-1] = Span(start, start + len(text[start:end].rstrip()))
    return tuple(stays)
