"""English."""

from __future__ import annotations

from localrag.languages.base import (
    Detection,
    DocumentWords,
    Language,
    Numbers,
    PromptWords,
    Questions,
    SentenceEnds,
    words_of,
)

_GRAMMAR_WORDS = words_of(
    """
    a an the and or but if as at by for from in into of on to with than that this these those there
    is are was were be been do does did has have had can could will would should may might must not
    it its they their he his she her we our you your i my me what which who whom whose when where
    why how mean means meant between about
    """
)

_DETECTION = Detection(
    grammar_words=_GRAMMAR_WORDS,
    # Those that German, Dutch and French do not have.
    only_grammar_words=_GRAMMAR_WORDS - words_of("a an as at has he in is me of on or was we will"),
    opening=r"\W*(?:what|which|who|whom|whose|when|where|why|how|is|are|was|were|do|does|did|can|could|"
    r"will|would|should|has|have|may|please|explain|describe|define|tell|give|list|name|"
    r"summari[sz]e|translate|compare|find|show|in|according|i|we)(?:'s|’s)?\s",
    # "用英文回答", "answer in English"
    wish=r"用(?:英文|英语)|(?:answer|reply|respond) in english",
)

_SENTENCES = SentenceEnds(
    abbreviations=words_of(
        """
        dr mr mrs ms prof st gen rep sen gov col lt sgt capt hon rev pres messrs mt e.g i.e eg ie cf
        vs viz fig figs eq eqs ref refs ca approx resp
        """
    ),
    abbreviations_before_number=words_of(
        """
        no nos vol vols p pp sec sect ch chap art tab app par para ver v jan feb mar apr jun jul aug
        sep sept oct nov dec
        """
    ),
    abbreviations_at_end=words_of(
        """
        etc al inc ltd co corp jr sr ph.d m.d b.a m.a b.sc m.sc bros dept univ assn est ave blvd rd
        """
    ),
    openers=words_of(
        """
        the a an this that these those it its they their he she his her we our you your i in on at
        for from by as if when while although however but and or so then there here after before
        since because during to with what who why how where which is are was do does did not no one
        some many most all each every such another other both
        """
    ),
)

_QUESTIONS = Questions(
    when=r"\bwhen\b|\b(?:what|which)\s+(?:year|month|date|day)\b|\bhow (?:soon|late|early)\b",
    how_much=r"\bhow\s+(?!did|do|does|is|are|was|were|can|could|has|have|to)\w+|\bwhat\s+(?:is|was|are|were)"
    r"\s+the\s+(?:\w+\s+)?(?:number|percentage|share|amount|price|cost|fee|total|size|height|length"
    r"|weight|area|age|rate|temperature|limit|maximum|minimum|depth|width|population|deposit)\b"
    r"|\bwhat (?:percentage|number|amount|time)\b",
    whether=r"^\W*(?:is|are|was|were|do|does|did|can|could|may|must|should|will|has|have|had)\b",
    answer_type=r"\b(?:what|which)\s+(?:year|month|date|day|time)\b"
    r"|\bhow\s+(?:many|much|long|old|often|far|high|tall|large|big|deep|wide|heavy|fast|soon)\b"
    r"|\b(?:can|could|may|must|shall|should|will|would)\b",
    points_back=r"\b(?:it|its|he|him|his|she|her|hers|they|them|their|theirs|those|these|this)\b"
    r"|\bthat(?=\W*$|\s+(?:is|was|one|year|time|case|happen|mean|work)\b)"
    r"|^(?:and|but|or|so|then|also)\b|\b(?:what|how) about\b"
    r"|\b(?:there|then|else|instead|otherwise|too|either|same)\W*$",
    may_point_back=r"\b(?:other|others|another|ones?|former|latter|same|above|previous|earlier|later|also|there)\b",
)

_MONTHS = [
    "january",
    "february",
    "march",
    "april",
    "may",
    "june",
    "july",
    "august",
    "september",
    "october",
    "november",
    "december",
]
_MONTHS_ALONE = "|".join(f"{m[:3]}(?:{m[3:]})?" for m in _MONTHS).replace("sep(?:", "sep(?:t|")
_MONTH = rf"(?P<month_name>{_MONTHS_ALONE})(?:\.(?=\s*\d))?"
_DAY = r"(?P<day>\d{1,2})(?:st|nd|rd|th)?"

_NUMBERS = Numbers(
    dates=(
        # 1-Jun-25, as spreadsheets write it; the 1st of June, 2025; June 1, 2025; June 2025
        rf"(?<![\w-]){_DAY}-{_MONTH}-(?P<year>\d{{4}}|\d{{2}})(?![\w-])",
        rf"\b(?:the\s+)?{_DAY}\s+(?:of\s+)?{_MONTH}(?![a-z])(?:,?\s+(?P<year>\d{{4}})\b)?",
        rf"\b{_MONTH}\s+{_DAY}\b(?!\s*[:%])(?:,?\s+(?P<year>\d{{4}})\b)?",
        rf"\b{_MONTH}(?:\s+of)?,?\s+(?P<year>\d{{4}})\b",
    ),
    months={name[:3]: number for number, name in enumerate(_MONTHS, start=1)},
    month_words=tuple(f"{name} {name[:3]}" for name in _MONTHS),
    # in May, last mar, Dec; neither "May I" nor "march on"
    month=r"(?<!\w)(?:(?:in|of|for|on|last|this|next|during|late|early|mid|\d|st|nd|rd|th)[ -]"
    rf"|(?!(?i:ma[yr])))(?i:{_MONTH})(?!\w)",
    # since, from the end of, later than, ended 31, except in, before the last week of, mid-
    before_open=r"\b(?:since|after|before|until|till?|by|from|to|through|between|and|or|than|except"
    r"|excluding|excl|besides?|ignoring|without|not|compared|versus|vs|(?:end|start|begin)(?:s|ed|n?ing)?"
    r"|mid|early|late)\b"
    r"(?:[\s,.-]+(?:the|start|beginning|end|middle|mid|early|late|in|of|on|with|to|year|month|week|day"
    r"|first|last|second|half|about|around|(?:mon|tues|wednes|thurs|fri|satur|sun)day)\b)*[\s,.-]*",
    # 7 p.m., 7 o'clock
    times=(r"\b(?P<hour>\d{1,2})(?P<minute>)\s*(?P<half>[ap]\.?m\b|o'clock)",),
    afternoon=words_of("pm p.m"),
    about=r"about|around|some|nearly|almost|over|approximately|roughly|more than|less than|at least"
    r"|up to",
    how_many=r"\bhow many\b(?:\s+(?:of|the|other|different|new|more)\b)*\s*((?:[a-z]+\s*){0,2})"
    r"|\bhow much\b",
    up_to=r"within|under|below|before|until|up to|less than|fewer than|at most"
    r"|(?:no|not) (?:more|later) than",
    beyond=r"after|over|above|beyond|past|exceed(?:s|ing)?"
    r"|(?:more|later|longer|older|heavier) than",
    measured=words_of(
        "second minute hour day week month year decade century age metre kilometre mile foot feet "
        "inch mm cm square cubic gram kilogram kg ton tonne litre liter centimetre centimeter "
        "millimetre millimeter hectare acre"
    ),
    currencies={
        "pound": "GBP", "pounds": "GBP", "euro": "EUR", "euros": "EUR",
        "dollar": "USD", "dollars": "USD", "yuan": "CNY", "yen": "JPY",
    },
    time_units={
        "day": "day", "week": "week", "month": "month", "year": "year", "hour": "hour",
        "minute": "minute",
    },
    scales={"million": 1e6, "billion": 1e9},
)  # fmt: skip

_DOCUMENTS = DocumentWords(
    kinds={
        "amendment": r"\b(?:amendment|addendum)s?\b",
        "contract": r"\b(?:contract|agreement|lease)s?\b",
        "invoice": r"\b(?:invoice)s?\b",
        "quotation": r"\b(?:quotation|quote)s?\b",
        "minutes": r"\b(?:minutes)s?\b",
        "policy": r"\b(?:policy|policies|handbook|protocol|regulations)s?\b",
        "report": r"\b(?:report)s?\b",
        "notice": r"\b(?:notice)s?\b",
        "budget": r"\b(?:budget)s?\b",
    },
    draft=r"\bdraft\b",
    withdrawn=r"\b(?:archived?|superseded|obsolete|withdrawn|outdated|old)\b",
    # Ottway Electronics Ltd; Marsh & Sons GmbH
    company=r"(?P<company>(?:[A-Z][\w'’&.-]*+[ ](?:(?:of|and|&|de|van|der)[ ])?){1,5}"
    r"(?:Ltd|Limited|LLC|LLP|Inc|Corp|Corporation|GmbH|AG|KG|SA|SAS|BV|NV|PLC|plc|Co|Company"
    r"|Group|Holdings|Partners|Associates|Trust|University|Bank|Council)\b)"
    # Of JOINT-VENTURE without one behind it no later capital begins a name, either.
    r"|[A-Z][\w'’&.-]*+",
    party=r"from|to|bill(?:ed)? to|customer|client|supplier|contractor|landlord|tenant|buyer|seller"
    r"|lessor|lessee|employer|employee|vendor",
    day_column=r"(?:(?:read|log|visit|invoice|order|delivery|shift|insp|inspection|check|entry|incident"
    r"|event|job|service|sale|trip|session)[\W_]+)?(?:date|day|month|week|when)",
)

_WORDS = PromptWords(
    yes_no=("Yes", "No"),
    support=("Fully supported", "Partially supported", "No support"),
    request_kinds=("information", "writing", "imagination", "chat", "arithmetic", "translation"),
    unstated="Unstated",
    better_answer=("Answer A", "Answer B"),
    rewritings=("other words", "keywords", "Chinese"),
    question_label="Question",
    table_documents="{count} documents in {folder}:",
    document_unit="",
)

ENGLISH = Language(
    code="en",
    name="English",
    space=" ",
    comma=", ",
    stop=".",
    support_shift=0.4,  # the starter model's shares for English statements are lower by this
    detection=_DETECTION,
    sentences=_SENTENCES,
    questions=_QUESTIONS,
    numbers=_NUMBERS,
    documents=_DOCUMENTS,
    words=_WORDS,
    # Left in the text: us, it, who, may, can, will, no, which are also names or months.
    stop_words=words_of(
        """
        a an the and or but if as at by for from in into of on onto to with than then that this
        these those there here is are was were be been being do does did has have had having its
        their them they he she his her we our you your i my me what which when where why how whose
        whom such so
        """
    ),
    asking_words=words_of(
        """
        who whom it him them us me you tell give given say said says explain describe list name
        names named call called kind kinds type types sort much many long often far old ago year
        years month day date time times can could would will shall should may might must mean means
        about get got happen happened tall high deep wide heavy big large fast use used happens not
        no any some also more most other
        """
    ),
    denial=r"\b(?:not?|never|neither|nor|none|without|cannot|forbidden|prohibited)\b|n['’]t\b",
    refusal=r"(?:do(?:es)? not|don't|doesn't) (?:contain|provide|mention|have|include)\b"
    r".{0,40}(?:answer|information)"
    r"|^(?:the )?(?:passages?|documents?|text|material)\b.{0,30}\b(?:do(?:es)? not|doesn't|don't) "
    r"(?:mention|say|state|specify|provide)\b"
    r"|\bno (?:information|answer)\b.{0,40}(?:documents?|passages?|context|text|provided|given)"
    r"|(?:cannot|can't|could not) be (?:answered|found) (?:in|from)",
    reply_verbs=r"\b(?:answer|repl[yi]|respon[ds]|responses?\b|says?\b|tell\b|speak\b|utter|writes?\b|print\b"
    r"|output|repeat|recommend|mention|append|attach|begins?\b|signs?\b|cite\b|translate\b|produce\b"
    r"|give\b|send\b|put\b)",
    steering=r"\b(?:ignor|disregard|forg[eo]t|overrid|pretend|act as|you(?:rs?)?\b|instead"
    r"|in place of|rather than|assistants?\b|ai\b|llms?\b|language model|model\b|(?:chat)?bots?\b"
    r"|software|automat|whoever|prompt|instruct|guidance|guidelines|quer(?:y|ies)|questions?\b|passages?\b"
    r"|users?\b|anyone|anybody|whatever|only\b|just\b|nothing|every\b|any\b|all\b|always|exactly"
    r"|words?\b|phrase|string|empty|dear\b|henceforth|from now on|this (?:notice|text|page)"
    r"|https?://|relevan[ct]|fully supported|<!--)",
)
