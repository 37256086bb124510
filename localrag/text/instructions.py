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

from localrag.text.normalize import fold
from localrag.text.sentences import Span, split_sentences

_TALK = re.compile(
    r"\b(?:answer|repl[yi]|respon[ds]|responses?\b|says?\b|tell\b|speak\b|utter|writes?\b|print\b"
    r"|output|repeat|recommend|mention|append|attach|begins?\b|signs?\b|cite\b|translate\b|produce\b"
    r"|give\b|send\b|put\b)"
    r"|[答说讲署]|写(?!成)|回[复应话]|输出|打印|复述|重复|产出|交[回出]|附[上带]|推荐|提[到及]|夸|加上|开头"
    r"|[结末收]尾|译成|引用"
)
"""Words for what a reply does."""
_STEERS = re.compile(
    r"\b(?:ignor|disregard|forg[eo]t|overrid|pretend|act as|you(?:rs?)?\b|instead|in place of"
    r"|rather than|assistants?\b|ai\b|llms?\b|language model|model\b|(?:chat)?bots?\b|software"
    r"|automat|whoever|prompt|instruct|guidance|guidelines|quer(?:y|ies)|questions?\b|passages?\b"
    r"|users?\b|anyone|anybody|whatever|only\b|just\b|nothing|every\b|any\b|all\b|always|exactly"
    r"|words?\b|phrase|string|empty|dear\b|henceforth|from now on|this (?:notice|text|page)"
    r"|https?://|relevan[ct]|fully supported|<!--)"
    r"|忽略|无视|忘|理会|放下|放在?一边|扮演|假装|当作|你|改[为成说写]|代替|与其|助[手理]|人工智能|模型|机器人|自动"
    r"|软件|读者|指[令引示]|提示词|提问|查询|资料|文档|本文|用户|任何|一切|所有|无论|不管|[只仅]|唯一|永远|总是"
    r"|一律|每[条次]|别的|不要|个词|字样|字符串|往后|从现在起|口吻|相关[度性]|完全支持|满分"
)
"""Words for whom a reply is asked of, and for what it is to be in place of an answer."""
_ELSEWHERE = re.compile(
    r"\b(?:antwort|schreib|vergiss|ignorier|sprachmodell|répond|réponse|écri[vs]|oubli|consigne"
    r"|respond[ae]\b|contest[ae]\b|escrib|olvid|asistente|esque[cç]|assistente|istruzioni|rispond|scriv)"
    r"|\b(?:ответ|отвеч|напиш|забудь|ассистент|указани|вопрос)"
    r"|答え|回答は|指示|無視|質問|대답|출력|무시|질문|지시|أجب|اكتب|تجاهل|المساعد|سؤال"
)
"""The same in other languages, where one of them is enough."""
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
    r"|\b10/10\b",
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
    found: list[Span] = []
    for first, last in split_sentences(text):
        cuts = [first, *(cell.end() for cell in _CELL.finditer(text, first, last)), last]
        for begin, stop in pairwise(cuts):
            body = text[begin:stop].rstrip(" |")
            if body:
                found.append(Span(begin, begin + len(body)))
    return found


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
