"""Questions that ask for several things, taken apart by their words.

"Who built A, and when was B opened?" is two questions, and so are "How long are A and B?" and
"Which is older, A or B?". Each part can be asked by itself: what it is about is carried over.
Knows words only, neither a model nor documents; in doubt a question asks for one thing.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence

from localrag.text.language import answer_language

MOST_PARTS = 4
"""A question of more parts is taken as one."""
LONGEST_APART = 300
"""Code points: a longer text is no plain question, and is left as it is."""

Parts = tuple[str, ...]
Tokenize = Callable[[str], Sequence[str]]


def parts_of(question: str, tokenize: Tokenize | None = None) -> Parts:
    """The questions that this one is made of, in their order; () where it asks for one thing.

    `tokenize` gives the words of a Chinese question, within which no "and" is looked for.

    >>> parts_of("How long are the Rhine and the Elbe?")
    ('How long is the Rhine?', 'How long is the Elbe?')
    >>> parts_of("How long is the Rhine?")
    ()
    """
    return _taken_apart(question, tokenize)[0]


def compares(question: str) -> bool:
    """Whether the parts of a question are there to be compared: "Which is older, A or B?"."""
    return _taken_apart(question, None)[1]


def _taken_apart(question: str, tokenize: Tokenize | None) -> tuple[Parts, bool]:
    """The parts of a question, and whether they are there to be compared."""
    text = " ".join(question.split())
    if len(text) > LONGEST_APART:
        return (), False
    ways = (_en_sentences, _en_compared, _en_clauses, _en_listed)
    if answer_language(text) == "zh":
        ways = (_zh_sentences, _zh_compared, _zh_listed, _zh_clauses)
        text = _with_words_closed(text, tokenize)
    for way in ways:
        parts = tuple(dict.fromkeys(part.translate(_OPENED) for part in way(text) if part))
        if len(parts) > 1:
            few = len(parts) <= MOST_PARTS
            return (parts, way in (_en_compared, _zh_compared)) if few else ((), False)
    return (), False


def joined_names(question: str) -> Parts:
    """Each "A and B" of a question where it may be taken apart: one name, where texts have it."""
    text = " ".join(question.split()).rstrip("?？。. ")
    if answer_language(text) == "zh":
        found = (way.fullmatch(text) for way in (_ZH_LISTED, _ZH_WHICH, _ZH_GAP))
        spans = (
            each.span("names")
            if "names" in each.re.groupindex
            else (each.start("a"), each.end("b"))
            for each in found
            if each
        )
        return tuple(text[start:end] for start, end in spans)
    asks = re.compile(rf"(?:{_ASKS.pattern}) ", re.IGNORECASE)
    names = [asks.sub("", each["names"], count=1) for each in _NAMES.finditer(text)]
    return (
        *names,
        *(text[each.start("one") : each.end("other")] for each in _WORDS.finditer(text)),
    )


def _shape(text: str) -> str:
    """Capitals, digits and Chinese numerals as one of each: X7 and M40 look alike."""
    text = re.sub("[A-Z]+", "A", text)
    return re.sub(r"[\d一二三四五六七八九十百]+", "0", text)


def _headed(first: str, other: str) -> str:
    """A name with the beginning of the one before it: "the Vireo M60 and the M40"."""
    name = re.sub("^the ", "", other)
    for at in range(1, len(first)):
        inside = re.fullmatch("[A-Za-z]{2}|[0-9]{2}", first[at - 1 : at + 1])
        if not inside and _shape(first[at:]) == _shape(name) != "A":
            return first[:at] + name
    return other


# -- English -----------------------------------------------------------------------

_WH = r"(?:who|whom|whose|what|when|where|which|why|how)"
_PREPOSITION = r"(?:(?:in|at|on|by|from|to|for|within|of|with|under|since|until|about|after)\s+)"
_AUXILIARY = r"(?:is|are|was|were|do|does|did|has|have|had|can|could|will|would|should)"
_ASKS = re.compile(rf"{_PREPOSITION}?{_WH}\b|{_AUXILIARY}\b", re.IGNORECASE)
_JOINT = re.compile(rf",?\s+and\s+(?:also\s+)?(?={_PREPOSITION}?{_WH}\b)", re.IGNORECASE)
_TWO_WH = re.compile(rf"({_WH}) and ({_WH}) (.+)", re.IGNORECASE)
_RELATIVE = re.compile(r"[a-z] (?:who|whom|which|whose)\b")
_BACK = re.compile(
    r"\b(?:in|of|for|is|was|do|does|did) each\b|\beach$|\b(?:both|either|them|those|the two)\b",
    re.IGNORECASE,
)
_WHERE = re.compile(
    rf"{_WH}(?: many| much)?(?: that)? (?P<place>(?P<in>{_PREPOSITION})(?!.*\b{_AUXILIARY}\b).+)",
    re.IGNORECASE,
)
_BARE = re.compile(rf"{_PREPOSITION}{_WH}(?: \w+)?", re.IGNORECASE)
_ONE = re.compile(rf"{_WH} (the \w+) ones?", re.IGNORECASE)

_CAPITAL = r"[A-Z0-9][\w\-'’&]*(?:\.\d+)?"
_NAME = rf"(?:the )?{_CAPITAL}(?: (?:of |of the )?{_CAPITAL})*"
_NAMES = re.compile(
    rf"(?<!between )(?P<in>\b{_PREPOSITION})?(?P<names>(?:{_NAME}, )*{_NAME},? and "
    rf"(?P<again>{_PREPOSITION})?{_NAME})"
)
_WORDS = re.compile(r"\b(?:do|are|were) (?P<one>[a-z\-]+) and (?P<other>[a-z\-]+) (?=[a-z])")
_OF_SEVERAL = re.compile(
    r"\b(?:how (?:much|many|long|old|high|tall|big|large|far|deep|wide|heavy|fast)|respectively)\b"
    r"|^(?!why).*\b(?:are|were|do|have)\b|\b(?:which|what) \w+s (?:did|should|can|may|will)\b",
    re.IGNORECASE,
)
_TOGETHER = re.compile(
    r"\b(?:relat\w+|differ\w*|between|compar\w+|together|connect\w+|shares?d?|common|same|both"
    r"|join\w*|marr\w+|met|meet|merge\w*|combin\w+)\b",
    re.IGNORECASE,
)
_DATES = (
    "January|February|March|April|May|June|July|August|September|October|November|December"
    "|Monday|Tuesday|Wednesday|Thursday|Friday|Saturday|Sunday|I"
)
_ABOUT = re.compile(rf"(?<=\s)(?!(?:{_DATES})\b)(?=(?:the )?[A-Z]\w){_NAME}")
_IT = re.compile(r"\b(?:it|he|she|they)\b", re.IGNORECASE)
_ITS = re.compile(r"\b(?:its|his|her|their)\b", re.IGNORECASE)
_OF_ANOTHER = re.compile(r"\b(?:it|its|he|him|his|she|her)\b")
_OF_OTHERS = re.compile(r"\b(?:they|them|their)\b")

_MEASURES = {
    "old": "older oldest newer newest younger youngest",
    "long": "longer longest shorter shortest",
    "high": "higher highest taller tallest lower lowest",
    "large": "larger largest bigger biggest smaller smallest greater greatest",
    "heavy": "heavier heaviest lighter lightest",
    "fast": "faster fastest slower slowest",
    "wide": "wider widest narrower",
    "deep": "deeper deepest",
    "expensive": "cheaper cheapest dearer",
    "warm": "warmer colder hotter cooler",
    "many": "more fewer most fewest",
    "much": "less least",
    "early": "earlier earliest later latest first last",
}
_MEASURE = {word: base for base, words in _MEASURES.items() for word in words.split()}
_MORE = rf"(?P<more>{'|'.join(_MEASURE)})"
_OR = re.compile(
    rf"which\b.*? (?P<verb>is|are|was|were|has|have|costs|sells|sold) (?P<rest>.*?)\b{_MORE}\b"
    r"(?P<of>[^,:]*)[,:] (?P<a>[^,]+?),? or (?P<b>[^,]+)(?:, .*)?",
    re.IGNORECASE,
)
_EITHER = re.compile(
    rf"(?P<verb>is|are|was|were|do|does|did|has|have) (?P<a>.+?)(?: or |, or )(?P<b>.+?)"
    rf"(?P<rest> (?:[a-z]+ )?)\b{_MORE}\b(?P<of>[^,]*)(?:, .*)?",
    re.IGNORECASE,
)
_THAN = re.compile(
    rf"how (?:many|much) {_MORE}(?P<of>.*?) (?P<verb>is|was|are|were|does|do|did) "
    r"(?P<a>.+?)(?P<rest>(?: [a-z]+)?) than (?!it |they |in |on |at |any |ever |other )(?P<b>.+)",
    re.IGNORECASE,
)
_IS_THAN = re.compile(
    rf"(?P<verb>is|was|are|were) (?P<a>.+?) (?:[a-z]+ )?{_MORE} than (?P<b>.+)", re.IGNORECASE
)
_SINGLE = {"are": "is", "were": "was", "do": "does", "have": "has"}


def _en_sentences(text: str) -> Parts:
    """Two questions, one after the other."""
    asked = [
        re.sub(r"^.*[.!:;] (?=[A-Z])|^(?:and|also|then)\b[ ,]*", "", each.strip(), flags=re.I)
        for each in re.split(r"\?+", text)
    ]
    return _en_standing([each for each in asked if _ASKS.match(each)])


def _en_clauses(text: str) -> Parts:
    """Two questions with "and" between them, or two question words with one sentence."""
    text = text.rstrip("? .")
    if both := _TWO_WH.fullmatch(text):
        return _en_asked(f"{both[1]} {both[3]}"), _en_asked(f"{both[2]} {both[3]}")
    clauses = _JOINT.split(text)
    # "the man who built it and who ...": what follows is no question.
    whole = all(_ASKS.match(each) and len(each.split()) > 2 for each in clauses)
    if len(clauses) < 2 or not whole or _RELATIVE.search(clauses[0]) or _BACK.search(clauses[-1]):
        return ()
    # "who repaired A, and for how much": of the same thing, which only the whole says.
    if any(_BARE.fullmatch(each) for each in clauses):
        return ()
    # "how many does B have": of what the first one counts.
    counted = re.match(rf"how (?:many|much) (.+?) {_AUXILIARY}\b", clauses[0], re.IGNORECASE)
    short = re.compile(rf"(how (?:many|much)) (?={_AUXILIARY}\b)", re.IGNORECASE)
    if counted:
        clauses = [clauses[0], *(short.sub(rf"\1 {counted[1]} ", each) for each in clauses[1:])]
    return _en_standing([clauses[0], *(_filled(clauses[0], each) for each in clauses[1:])])


def _filled(first: str, short: str) -> str:
    """A clause without a verb, "when in winter" or "who the southern one", with the first one's."""
    if one := _ONE.fullmatch(short):
        return re.sub(r"\bthe \w+", one[1], first, count=1)
    if not (where := _WHERE.fullmatch(short)):
        return short
    places = list(re.finditer(rf" {where['in']}(?:{_NAME}|.*$)", first))
    if not places:
        return short
    before, after = first[: places[-1].start()], first[places[-1].end() :]
    return f"{before} {where['place'].removesuffix(after)}{after}"


def _en_compared(text: str) -> Parts:
    """What is asked of each of the two that are compared."""
    text = text.rstrip("? .")
    if found := _OR.fullmatch(text):
        verb, more = found["verb"].lower(), found["more"].lower()
        if _MEASURE[more] == "old":  # what is a thing has no age in documents, but a year
            verb, rest, more = "was", "built or opened", "first"
            return _each((found["a"], found["b"]), verb, rest, more, "")
        return _each(
            (found["a"], found["b"]), verb, found["rest"].strip(), more, found["of"].strip()
        )
    if found := _EITHER.fullmatch(text):
        first, second = found["a"], found["b"]
        if whose := re.match(r"(?:the )?[a-z]+ (?=of )", first):
            second = re.sub(r"^that (?=of )", whose[0], second)
        more = found["more"].lower()
        return _each((first, second), found["verb"].lower(), found["rest"].strip(), more, "")
    if found := _IS_THAN.fullmatch(text):
        more = found["more"].lower()
        return _each((found["a"], found["b"]), found["verb"].lower(), "", more, "")
    if found := _THAN.fullmatch(text):
        base = _MEASURE[found["more"].lower()]
        names = (found["a"], _headed(found["a"], found["b"]))
        ask = "How {base}{of} {verb} {name}{rest}"
        return _en_standing(
            [ask.format_map(found.groupdict() | {"base": base, "name": name}) for name in names]
        )
    return ()


def _each(names: tuple[str, str], verb: str, rest: str, more: str, of: str) -> Parts:
    """The measure of each: "How old is A?", "How many rooms does A have?"."""
    base = _MEASURE[more]
    second = _headed(names[0], names[1])

    def ask(name: str) -> str:
        if base == "early":
            return f"When {verb} {name} {rest or of}"
        if base in ("many", "much"):
            aux = "did" if verb == "sold" else "does"
            acts = {"has": "have", "sold": "sell"}.get(verb, verb.removesuffix("s"))
            counted = f"many {of}" if of else "much"
            return f"How {counted} {aux} {name} {acts}"
        if verb in ("has", "have"):
            return f"How {base} is the {of} of {name}"
        if verb in ("do", "does", "did"):
            return f"How {base} {verb} {name} {rest}"
        return f"How {base} {verb} {name}"

    return _en_standing([ask(names[0]), ask(second)])


def _en_listed(text: str) -> Parts:
    """The same of each of several that are named."""
    text = text.rstrip("? .")
    if _TOGETHER.search(text):
        return ()
    if (found := _NAMES.search(text)) and (found["again"] or _OF_SEVERAL.search(text)):
        names = re.split(rf",? and {_PREPOSITION}?|, ", found["names"])
        names = [names[0], *(_headed(names[0], name) for name in names[1:])]
        start, end, plain = found.start("names"), found.end(), _SINGLE
    elif found := _WORDS.search(text):
        names = [found["one"], found["other"]]
        start, end, plain = found.start("one"), found.end("other"), {}
    else:
        return ()
    before, after = text[:start], text[end:]
    if not _ASKS.match(before) or not re.search(rf"\b{_AUXILIARY}\b", before):
        return ()
    before = re.sub(
        r"\b(?:are|were|do|have) $",
        lambda plural: plain.get(plural[0].strip(), plural[0].strip()) + " ",
        before,
    )
    return _en_standing([f"{before}{name}{after}" for name in names])


def _en_standing(clauses: Sequence[str]) -> Parts:
    """The clauses as questions, each with the name of what it is about.

    () where one speaks of "it", and no name says of what.
    """
    subjects = [match[0] for match in _ABOUT.finditer(clauses[0])] if clauses else []
    asked = []
    for number, clause in enumerate(clauses):
        if number and subjects and not _ABOUT.search(clause):
            about = subjects[-1]
            carried = _IT.sub(about, clause, count=1)
            carried = carried if carried != clause else _ITS.sub(f"{about}'s", clause, count=1)
            clause = carried if carried != clause else f"{clause} ({about})"
        elif number and (
            _OF_ANOTHER.search(clause) or (_OF_OTHERS.search(clause) and not _ABOUT.search(clause))
        ):
            return ()
        asked.append(_en_asked(clause))
    return tuple(asked)


def _en_asked(clause: str) -> str:
    return f"{clause[0].upper()}{clause[1:].rstrip('? .,')}?"


# -- Chinese -----------------------------------------------------------------------

_ZH_ASKS = re.compile(
    r"谁|什么|哪|几(?![乎何内])|多(?:少|久|长|高|大|远|重|快|深|宽|厚|早|晚)|(?<!任)何(?:时|地|处|人|种|年|事)"
    r"|怎么|怎样|如何|为什么|为何|吗$|是否|能否|可否|啥"
)
_ZH_AND = r"(?:以及|和(?![平谐田尚睦解气蔼])|(?<![参给])与(?!会)|跟|、)"
_CLOSED = {ord(sign): chr(0xE000 + at) for at, sign in enumerate("和与跟、")}
_OPENED = {ord(closed): chr(sign) for sign, closed in _CLOSED.items()}
_QUOTED = re.compile(r"《[^》]*》|“[^”]*”|「[^」]*」|（[^）]*）")
_ZH_LISTED = re.compile(
    rf"(?P<before>(?:.*[,，])?)(?P<names>[^,，]{{2,}}?{_ZH_AND}[^,，]{{2,}}?)"
    r"(?P<of>(?:[的在里中上][^,，]*?)?)(?:分别|各自?(?![种类个位地国项界级省市州县行方族层科处]))(?P<rest>.+)"
)
_ZH_WHICH = re.compile(
    rf"(?P<before>(?:.*[,，])?)(?P<a>[^,，]{{2,}}?)(?:{_ZH_AND}|还是|或者?)(?P<b>[^,，]{{2,}}?)"
    r"(?:相比|比较|比起来|之间)?[,，]?(?:哪(?:个|边|里|一?[座条款家种只部台间所位栋项])?|谁)"
    r"(?P<rest>[^,，]*)(?:[,，].*)?"
)
_ZH_THAN = re.compile(
    r"(?P<before>(?:.*[,，])?)(?P<a>[^,，]{2,}?)比(?P<b>[^,，]{2,})"
    r"(?P<rest>[高长大重快深宽厚早晚多少远贵])(?:出|了)?(?:多少|几|吗)[^,，]*"
)
_ZH_GAP = re.compile(
    rf"(?P<before>(?:.*[,，])?)(?P<a>[^,，]{{2,}}?){_ZH_AND}(?P<b>[^,，]{{2,}}?)"
    r"(?P<of>(?:的[^,，]*?)?)(?:相差|差)(?:多少|几).*"
)
_ZH_MEASURE = re.compile(
    r"(.*?)得?(?:要|会|更|比较|最)?([高长大重快深宽厚早晚多少远贵新老])(?:一些|一点|些|呢)?"
)
_ZH_JOINT = re.compile(r"[,，;；]?(?:以及|并且|而且)|[,，;；]|和(?=[^和]*$)")
_ZH_ADVERBIAL = re.compile(r"(?:在(?!哪).*[下中时里后前]|无论.*|不管.*|不论.*|当.*时)$")
_ZH_WHO = re.compile(r"(?:谁|哪[个位家座所])(?!.*的$).{3,}")
_ZH_TOPIC_ENDS = re.compile(
    r"是|有(?!限)|在|位于|由|属于|每|最|一共|共有|需要|用|使|可以|能|要|会|预计|采用|应当?|被|把|将|从"
)


def _with_words_closed(text: str, tokenize: Tokenize | None) -> str:
    """The text with other signs for each "and" that is part of a word, as in 共和国, or quoted."""
    text = _QUOTED.sub(lambda quoted: quoted[0].translate(_CLOSED), text)
    words = {word for word in tokenize(text) if len(word) > 1} if tokenize else set()
    for word in sorted(words, key=len, reverse=True):
        text = text.replace(word, word.translate(_CLOSED))
    return text


def _zh_each(before: str, names: Sequence[str], asked: str) -> Parts:
    """The same of each name; () where one is but a piece of a name."""
    if any(len(name) < 2 or name.startswith("的") or _is_torn(name) for name in names):
        return ()
    return tuple(f"{before}{name}{asked}" for name in names)


def _is_torn(name: str) -> bool:
    return any(
        name.count(opens) != name.count(ends) for opens, ends in ("《》", "“”", "「」", "（）")
    )


def _zh_sentences(text: str) -> Parts:
    """Two questions, one after the other."""
    asked = [re.sub(r"^.*[。！：]", "", each).strip(" ，,") for each in re.split(r"[？?]", text)]
    return _zh_standing([each for each in asked if _ZH_ASKS.search(each)])


def _zh_clauses(text: str) -> Parts:
    """Clauses that each have a question word."""
    clauses = [each.strip() for each in _ZH_JOINT.split(text.rstrip("？?。 ")) if each.strip()]
    asked = [each for each in clauses if _ZH_ASKS.search(each)]
    if len(asked) < 2 or any(_ZH_ADVERBIAL.search(each) for each in asked[:-1]):
        return ()
    before = "".join(f"{each}，" for each in clauses[: clauses.index(asked[0])])
    return _zh_standing([before + asked[0], *asked[1:]])


def _zh_compared(text: str) -> Parts:
    """What is asked of each of the two that are compared."""
    text = text.rstrip("？?。 ")
    if found := _ZH_GAP.fullmatch(text):
        of = found["of"]
        names = (found["a"], _headed(found["a"], found["b"]))
        return _zh_each(found["before"], names, f"{of}是多少？")
    found = _ZH_WHICH.fullmatch(text) or _ZH_THAN.fullmatch(text)
    measure = _ZH_MEASURE.fullmatch(found["rest"]) if found else None
    if not found or not measure or re.search("[最更]", measure[1]):
        return ()
    first, second, noun = found["a"], found["b"], measure[1].removeprefix("的")
    if second.endswith("的") and "的" in first:
        second += first.partition("的")[2]
    elif not noun:  # "X6比X9亩产高多少": what is measured stands behind the second name
        ends = [at for at in range(1, len(second) + 1) if _shape(second[:at]) == _shape(first)]
        if ends:
            second, noun = second[: ends[-1]], second[ends[-1] :]
    if measure[2] in "多少" and not noun:
        return ()
    asked = _zh_measured(noun, measure[2])
    return _zh_each(found["before"], (first, _headed(first, second)), asked)


def _zh_measured(noun: str, adjective: str) -> str:
    match adjective:
        case "早" | "晚" | "新" | "老":
            return f"是什么时候{noun}的？"
        case "多" | "少":
            return f"有多少{noun}？"
        case "贵":
            return "的价格是多少？"
    return f"的{noun}有多{adjective}？" if noun else f"有多{adjective}？"


def _zh_listed(text: str) -> Parts:
    """The same of each of several that are named."""
    found = _ZH_LISTED.fullmatch(text.rstrip("？?。 "))
    if not found or (found["of"] == "的" and found["rest"].startswith("是")):
        return ()
    names = [name.strip() for name in re.split(_ZH_AND, found["names"])]
    owner = re.match(".*在|.*的", names[0])
    others = [
        f"{owner[0]}{name}" if owner and not re.search("[在的]", name) else _headed(names[0], name)
        for name in names[1:]
    ]
    return _zh_each(found["before"], (names[0], *others), f"{found['of']}{found['rest']}？")


def _zh_standing(clauses: Sequence[str]) -> Parts:
    """The clauses as questions, each with what it is about; () where one does not say of what."""
    if len(clauses) < 2:
        return ()
    topic = _zh_topic(clauses[0])
    asked = [clauses[0]]
    for clause in clauses[1:]:
        begins = clause[: found.start()] if (found := _ZH_ASKS.search(clause)) else clause
        is_bare = not begins.strip("由在从是又该应需要会能可以") and not _ZH_WHO.match(clause)
        of_another = is_bare or re.search(r"[他她它]|^其", clause)
        if of_another and not topic:
            return ()
        if re.search(r"[他她它]", clause):
            clause = re.sub(r"[他她它]", topic, clause, count=1)
        elif clause.startswith("其"):
            clause = f"{topic}的{clause[1:].removeprefix('中')}"
        elif topic and "的" not in begins and topic not in clause:
            clause = topic + clause
        asked.append(clause)
    return tuple(f"{each}？" for each in asked)


def _zh_topic(clause: str) -> str:
    """What a clause is about: the owner where it names one, else what stands before its verb."""
    asks = _ZH_ASKS.search(clause)
    head = clause[: asks.start()] if asks else clause
    ends = _ZH_TOPIC_ENDS.search(head)
    subject = head[: ends.start()] if ends else head
    owner = subject.rpartition("的")[0]
    if owner:
        return owner
    # "合同总价是多少": an attribute of what is not named.
    is_attribute = (
        ends and ends[0] == "是" and head[ends.end() :] == "" and not clause.endswith("的")
    )
    # The 用 of 试用期 ends no subject.
    return "" if is_attribute or len(subject) < 2 else subject
