"""Questions that name a person or a thing by a fact about it: "the man who bought Lorne Castle".

Where no passage holds both facts, the first can be asked by itself, and its answer put in the place
of the description. Knows words only, neither a model nor documents; in doubt there is no bridge.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass
from itertools import accumulate, pairwise

from localrag.text.language import answer_language

LONGEST = 200
"""Code points of a question that is looked at."""
LONGEST_NAME = 40
"""Code points of what can take the place of a description."""


@dataclass(frozen=True, slots=True)
class Bridge:
    """The question for whom or what is described, and what stands around the description."""

    inner: str
    before: str
    after: str

    def outer(self, name: str) -> str:
        """The question with a name in place of the description."""
        return f"{self.before}{name}{self.after}"


def bridge_of(question: str) -> Bridge | None:
    """The description in a question, or None.

    >>> bridge = bridge_of("Where was the engineer who designed the Harrow Bridge born?")
    >>> bridge.inner, bridge.outer("Ida")
    ('Who designed the Harrow Bridge?', 'Where was Ida born?')
    """
    text = " ".join(question.split())
    if len(text) > LONGEST:
        return None
    return _zh(text) if answer_language(text) == "zh" else _en(text)


def name_in(answer: str, bridge: Bridge) -> str:
    """What an answer to the inner question adds to it: the name; "" where that cannot be told."""
    text = answer.strip().splitlines()[0] if answer.strip() else ""
    if answer_language(bridge.inner) == "zh":
        name = _zh_name(text, bridge.inner)
    else:
        name = _en_name(text, bridge.inner)
    return name if len(name) <= LONGEST_NAME else ""


# -- English -----------------------------------------------------------------------

_CAPITAL = r"[A-Z0-9][\w\-'’.&]*"
_NAME = rf"{_CAPITAL}(?: (?:of |of the |the |and )?{_CAPITAL})*"
_PERSON = re.compile(
    r"(?:person|people|boy|girl|king|queen|\w*(?:er|or|ist|ian|ect|man|woman|ant|ent))$"
)
_ROLES = (
    "director|head|captain|manager|founder|author|architect|designer|engineer|inventor|president"
    "|chairman|chairwoman|chair|owner|principal|headmaster|editor|conductor|composer|commander"
    "|leader|chief|mayor|builder|creator|curator|coach|producer|painter|sculptor|discoverer|wife"
    "|husband|successor|predecessor|winner"
)
_RELATIVE = re.compile(
    r"\bthe (?P<noun>(?:[a-z\-]+ )?[a-z\-]+) (?P<rel>who|that|which) "
    r"(?!(?:he|she|it|they|we|you|the|an?|his|her|its|their)\b)"
    rf"(?P<clause>(?:[a-z\-]+ )+?{_NAME}(?: (?:in|at|for|of|from) {_NAME})*)(?=[ ,?])"
)
_WHERE = re.compile(
    rf"\bthe (?P<noun>(?:[a-z\-]+ )?[a-z\-]+) where (?P<who>(?:the )?{_NAME}) "
    r"(?P<verb>was|were|is|are) (?P<done>[a-z]+)"
)
_VERB = r"(?= (?!(?:in|at|on|by|from|to|for|of|with|before|after|and|or)\b)[a-z]+)"
_ROLE = re.compile(
    rf"\bthe (?:[a-z]+ )?(?:{_ROLES}) of (?:the )?{_NAME}"
    rf"(?:(?<=['’]s)(?: [a-z]+){{1,2}}{_VERB}|(?: [a-z]+)?{_VERB})?"
)
_OF_WHOM = re.compile(r"(?<!\bname) (?:of|at|in|for|with|by|from) $")
_SMALL = (
    "(?:in|at|on|by|from|to|for|of|with|within|under|into|during|since|until|about|before|after"
    r"|and|or|when|while|as|if|because|than|is|are|was|were|do|does|did|has|have|had|can|will)\b"
)
_FOLLOWS = re.compile(rf" (?!{_SMALL})(?P<word>[a-z][\w\-]*)")
_PARTICIPLE = re.compile(
    "(?:[a-z]+ed|born|made|built|held|sold|bought|found|sent|paid|taught|kept|lost|left|won"
    "|brought|done|gone|taken|given|written|chosen|hidden|seen|known|shown|drawn|[a-z]{3,}ing)$"
)
_BE = re.compile(r"\b(?:is|are|was|were|has|have|had)\b", re.IGNORECASE)
_DO = re.compile(
    r"\b(?:do|does|did|can|could|will|would|should|must|may)"
    r"(?: the (?:[a-z\-]+ ){1,3}?of)* $",
    re.IGNORECASE,
)
_ANOTHER_NOUN = re.compile(
    rf" [a-z\-]+ (?!{_SMALL}|(?:first|last|later|today|now|most|best|next|there|together)\b)[a-z]"
    rf"|.* {_CAPITAL} (?!{_SMALL})[a-z]"
)
_PLACE = re.compile(rf" (?:at|in|of|on|for|from) (?:the )?{_NAME} (?!{_SMALL})[a-z]")


def _goes_on(before: str, after: str) -> bool:
    """Whether the description is over where `after` begins.

    A noun that follows may belong to the name ("the Kestrel reservoir"): only a verb that the
    question still waits for, or a small word, ends it for certain.
    """
    if _PLACE.match(after):  # "the author of The Ford at Evening": the verb is still to come
        return False
    found = _FOLLOWS.match(after)
    if not found:
        return True
    if _DO.search(before):
        return not _ANOTHER_NOUN.match(after)
    return bool(_BE.search(before) and _PARTICIPLE.match(found["word"]))


def _en(text: str) -> Bridge | None:
    for pattern in (_RELATIVE, _WHERE, _ROLE):
        found = pattern.search(text)
        if not found:
            continue
        before, after = text[: found.start()], text[found.end() :]
        # "Who is the man who ...?" asks for one thing.
        if not (before and (after.strip(" ?.,") or _OF_WHOM.search(before))):
            continue
        if not _goes_on(before, after):
            continue
        if pattern is _RELATIVE:
            who = found["rel"] == "who" or _PERSON.match(found["noun"])
            asked = "Who" if who else f"Which {found['noun']}"
            inner = f"{asked} {found['clause']}?"
        elif pattern is _WHERE:
            inner = f"Where {found['verb']} {found['who']} {found['done']}?"
        else:
            inner = f"Who is {found[0]}?"
        return Bridge(inner, before, after)
    return None


_PROPER = re.compile(
    r"[A-Z][\w\-'’]*(?:\.(?= [A-Z]))?"
    r"(?: (?:(?:of|de|van|von|der|the) )*[A-Z][\w\-'’]*(?:\.(?= [A-Z]))?)*"
)
_SMALL_WORDS = "the a an it he she they in at on by from its his her their"
_NOT_NAMES = frozenset(_SMALL_WORDS.split())


def _en_name(answer: str, inner: str) -> str:
    """The first name that is not in the question."""
    known = _NOT_NAMES | {word.lower() for word in re.findall(r"[\w\-'’]+", inner)}
    for found in _PROPER.finditer(answer):
        words = found[0].split()
        while words and words[0].lower() in known:
            del words[0]
        if words:
            return re.sub(r"['’]s$", "", " ".join(words))
    return ""


# -- Chinese -----------------------------------------------------------------------

_VERBS = (
    "设计|建造|捐建|修建|兴建|创办|创立|创建|成立|发明|发现|育成|培育|选育|撰写|写|编写|编著|导演|执导"
    "|收购|购买|买下|主持|主编|负责|管理|出版|生产|制造|研制|开发|举办|存放|收藏|保存|珍藏|陈列|担任|获得"
    "|赢得|夺得|指挥|率领|带领|提出|打捞|绘制|拍摄|翻译|赞助|出资|资助|承建|经营|运营|拥有|领导|接任|救"
)
_ZH_ROLES = (
    "总设计师|总工程师|总建筑师|总经理|项目经理|董事长|设计师|工程师|建筑师|负责人|创始人|创办人|发明人"
    "|发现者|作者|导演|船长|主编|馆长|所长|队长|主教练|教练|会长|理事长|总裁|校长|院长|厂长|局长|站长|园长"
    "|主任|团长|台长|社长|班长|掌门人|店主|老板"
)
_ZH_NOUN = (
    r"[\u4e00-\u9fff]{0,3}?(?:商人?|专家|作家|画家|科学家|学者|者|设计师|工程师|建筑师|师傅|医生|教授"
    r"|人|公司|工厂|厂|小学|中学|大学|学校|学院|医院|博物馆|船厂|船|村|镇|城市|乐团|球队|出版社)"
)
_ZH_CLAUSE = re.compile(
    rf"(?P<before>(?:.*[,，])?)(?P<inner>(?P<clause>[^,，]{{0,12}}?(?:{_VERBS})[^,，]{{2,}}?)的"
    rf"(?P<that>那[所位家座名个艘支])?(?P<noun>{_ZH_NOUN}))"
)
_ZH_ROLE = re.compile(
    rf"(?P<before>(?:.*[,，])?)(?P<inner>[^,，的]{{2,}}?(?:的|那位|这位)?(?:现任|首任|时任|前任)?"
    rf"(?<![是为])(?<![^现首时前]任)(?P<noun>{_ZH_ROLES}))"
)
_WHICH = "是哪一个？"
_ZH_ASKS = re.compile(r"谁|什么|哪|几|多少|何|怎")
_ZH_ASKED_FOR = re.compile(
    r"(?:是|为|叫|有|共有|包括|都有|可能是)(?:谁|什么|哪|几|多少|何)|的?(?:名字|姓名)|[和与及兼联过、]|以及"
)
_ENDINGS = (
    "们 长 级 型 界 群 群体 组 小组 队 队伍 团 团队 班 部 室 处 奖 证 证书 费 人数 总数 数量 比例"
    " 协会 学会 联合会 俱乐部 医师 护师 技师 药师 助理 编辑 记者 科员"
)
_ZH_ENDINGS = frozenset(_ENDINGS.split())
"""With what stands before them they are one thing or many people: 医院长, 工程师们, 作家协会."""


def _zh(text: str) -> Bridge | None:
    text = text.rstrip("？?。 ")
    ends = list(_zh_ends(text))
    for pattern in (_ZH_CLAUSE, _ZH_ROLE):
        found = next(filter(None, (pattern.fullmatch(text, 0, end) for end in ends)), None)
        if not found:
            continue
        after = text[found.end() :]
        if _ZH_ASKS.search(found["inner"]) or _ZH_ASKED_FOR.match(after):
            continue
        if not _ZH_ASKS.search(after) or len(after) < 3:
            continue
        person = pattern is _ZH_ROLE or re.search("[人者商家师生授]$", found["noun"])
        return Bridge(
            f"{found['inner']}{'是谁？' if person else _WHICH}",
            found["before"],
            f"{after}？",
        )
    return None


def _zh_ends(text: str) -> Iterator[int]:
    """Where a word ends and a description may: not in 厂房, nor before 们."""
    import rjieba  # its dictionary takes 0.1 s

    words = rjieba.cut(text, False)
    for end, (_, following) in zip(accumulate(map(len, words)), pairwise(words), strict=False):
        if following not in _ZH_ENDINGS:
            yield end


def _zh_name(answer: str, inner: str) -> str:
    """The longest piece that is not in the question."""
    text = re.split("[。！？；]", answer)[0]
    # What kind of thing it is belongs to its name: 岛上的小学.
    asked = inner.rpartition("的")[0] if inner.endswith(_WHICH) else inner
    runs = [""]
    at = 0
    while at < len(text):
        longest = max(
            (size for size in range(2, len(text) - at + 1) if text[at : at + size] in asked),
            default=0,
        )
        if longest:
            runs.append("")
            at += longest
        else:
            runs[-1] += text[at]
            at += 1
    around = "^[的是为由叫在存放于，、“”《》]+|[的是为，、“”《》]+$"
    return max((re.sub(around, "", run) for run in runs), key=len)
