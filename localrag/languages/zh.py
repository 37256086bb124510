"""Chinese, simplified and traditional: texts are compared in simplified characters."""

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
from localrag.text.han import HAN

HAN_DIGITS = "〇零一二三四五六七八九"
_SMALL = rf"(?:\d{{1,2}}|[{HAN_DIGITS}十]{{1,3}})"

_DETECTION = Detection(
    grammar="[的是了在和与吗呢吧有不这那请被把对从将会能我你他她它们及或也就都于谁哪几怎]"
    "|什么|如何|多少|为何|是否|可以|介绍|解释|说明|哪里",
    # "用中文回答", "answer in Chinese"
    wish=r"用(?:中文|汉语|普通话)|(?:answer|reply|respond) in (?:(?:simpl|trad)\w+ )?chinese",
)

_QUESTIONS = Questions(
    when=r"何时|什么时[候间]|哪[一]?[年月天日]|几[年月号日]|哪个月|日期|年份|何年|什么年",
    how_much=r"多少|几(?!乎)|多[长高大远久重宽深快]|百分之几|占比",
    whether=r"吗[？?]?\s*$|是否|能否|可否|有无|[能可]不[能可]|会不会|要不要|有没有|是不是",
    answer_type=r"[必]?须|应该?|将|会|可以|能"
    r"|[在于]?哪[一]?[年月天日]|第?几[年月号日个名人]|多少[名个位人种天年]?|什么时[候间]|多[长高大远久重宽深快]",
    points_back=r"[他她它]|呢[？?]?$|^(?:那|还有|另外|其中|同)|还有(?:谁|什么|哪)|(?:这|那|此)(?=是|有|里|时|么|怎)|"
    r"前者|后者|上述|刚才",
    may_point_back=r"[这那该此其又还也再]|之前|之后|后来|当时|同[年届时样]|另外|哪[个些]呢",
)

_NUMBERS = Numbers(
    dates=(
        # 2025年6月1日, 六月一日, 6月底, 每月五日
        rf"(?P<year>\d{{3,4}}|[{HAN_DIGITS}]{{4}})\s*年"
        rf"(?:\s*(?P<month>{_SMALL})\s*月(?:份|\s*(?P<day>{_SMALL})\s*[日号])?)?",
        rf"(?P<month>{_SMALL})\s*月\s*(?P<day>{_SMALL})\s*[日号]",
        rf"(?<![\d.])(?P<month>{_SMALL})\s*月(?:份|(?=[初中底末至到起]))",
        rf"(?<![\d.])(?P<day>\d{{1,2}}|(?<=每月)[{HAN_DIGITS}十]{{1,3}})\s*日",
    ),
    month_words=tuple(
        f"{number}月份 {name}月份"
        for number, name in enumerate((*"一二三四五六七八九十", "十一", "十二"), start=1)
    ),
    # 3月, 十二月的; not the last of 1-3月, 1到3月
    month=rf"(?<![\d.{HAN_DIGITS}十])(?<![\d{HAN_DIGITS}十][-~—–～、和与及同或到至/])(?P<month>1[0-2]|0?[1-9]|十[一二]?|[一二三四五六七八九])\s*月",
    # 以来, 初以后, 到, 期, 除外
    behind_open=r"\s*(?:份|底|末|初|[上中下]旬)?(?:[（(]含[)）])?及?"
    r"(?:以来|[之以]?[后前内外]|[过往]后|结束|除外|相比|止|起|开始|到|至|期|龄|[-~—–～、和与或/])",
    times=(
        # 下午3点半
        rf"(?P<half>上午|下午|晚上|晚|早上|中午)?(?P<hour>{_SMALL})[点时]"
        rf"(?!间|候|代|期)(?P<minute>半|{_SMALL}(?=分))?(?![\d{HAN_DIGITS}])",
    ),
    afternoon=words_of("下午 晚上 晚"),
    about="约|近|大约|将近|超过|多达|至少|逾|余|多",
    how_many=r"(?:多少|几)(?![乎何])([个只支枚种项所家座台辆件条头棵株名位人次张本艘架部间套篇份笔票趟箱户]|单(?!位)|)",
    up_to="不到|不足|未满|不满|少于|低于|小于|不超过|至多|最多",
    beyond="超过|超出|多于|大于|高于|逾|不止",
    up_to_behind=r"个?[\u4e00-\u9fff]{1,2}?(?:以内|之内|内|以下|以前|之前|前)",
    beyond_behind=r"个?[\u4e00-\u9fff]{1,2}?(?:以上|以后|之后|以外|后)",
    measured=words_of(
        "年 月 日 天 周 岁 时 分 秒 点 小时 分钟 世纪 米 里 千米 公里 英里 厘米 平方 立方 "
        "克 公斤 千克 吨 度 元"
    ),
    currencies={
        "英镑": "GBP", "欧元": "EUR", "美元": "USD", "元": "CNY", "人民币": "CNY", "圆": "CNY",
        "块": "CNY", "日元": "JPY", "港元": "HKD", "港币": "HKD",
    },
    time_units={
        "日": "day", "天": "day", "周": "week", "月": "month", "年": "year", "小时": "hour",
        "分钟": "minute", "分": "minute",
    },
    scales={"千": 1e3, "万": 1e4, "亿": 1e8},
)  # fmt: skip

_DOCUMENTS = DocumentWords(
    kinds={
        "amendment": "补充协议|变更协议|修订协议",
        "contract": "合同|协议",
        "invoice": "发票|账单",
        "quotation": "报价",
        "minutes": "纪要|会议记录",
        "policy": "制度|规定|办法|手册|规程",
        "report": "报告|报表",
        "notice": "通知|公告",
        "budget": "预算",
    },
    draft="草案|草稿|征求意见|讨论稿",
    withdrawn="废止|作废|已失效|旧版|归档",
    # 云翼航空有限公司
    company=rf"(?P<company>[{HAN}（）()]{{2,20}}?(?:有限责任公司|股份有限公司|有限公司|集团|事务所|公司|大学|学院|医院|银行))",
    # 甲方（出租方）：
    party="甲方|乙方|丙方|出租[方人]|承租[方人]|供应商|供货方|客户|委托[方人]|受托[方人]|发件人|收件人",
    day_column="(?:抄表|巡[查检]|记录|登记|[到发收送]货|[出入]库|出运|开船|开票|发票|订单|值班|检查|维修|报修"
    "|上报|寄送|交易|会议)?(?:日期|时间|月份)|[月日]",
)

_WORDS = PromptWords(
    yes_no=("是", "否"),
    support=("完全支持", "部分支持", "不支持"),
    request_kinds=("信息", "写作", "想象", "闲聊", "算术题", "翻译"),
    unstated="未提及",
    better_answer=("回答A", "回答B"),
    rewritings=("换一种说法", "关键词", "英文"),
    question_label="问题",
    table_documents="{folder}中的{count}份文档：",
    document_unit="份",
)

CHINESE = Language(
    code="zh",
    name="Chinese",
    space="",
    comma="、",
    stop="。",
    # Of questions by somebody who did not know this, the starter model has it for 9 of 12 that the
    # passage answers and none of 10 that it does not (relevance: 3 and none). In English it tells
    # nothing (.60 to .89, .55 to .90): there a model has to be surer (log of 2026-11-25).
    said_from=0.7,
    decides_from=0.5,
    density=2.5,
    detection=_DETECTION,
    sentences=SentenceEnds(marks="。！？；｡…"),
    questions=_QUESTIONS,
    numbers=_NUMBERS,
    documents=_DOCUMENTS,
    words=_WORDS,
    stop_words=words_of(
        """
        的 了 是 在 和 与 吗 呢 吧 什么 哪 哪个 哪些 谁 多少 怎么 怎样 如何 为什么 有 被 把 对 从 以
        及 或 而 也 都 就 于 由 所 其 之 这 那 个 为
        """
    ),
    asking_words=words_of(
        """
        请问 请 介绍 说明 解释 告诉 列出 一下 哪些 哪里 哪年 哪一年 一年 两个 哪位 哪一 何时 何地
        何处 何人 何种 何年 时候 什么时候 多久 多大 多高 多长 多远 多少 几个 叫 叫做 称为 名字 属于
        分别 是否 不是 该 各 需 需要 应 应该 想 要 做 当 使 更 最 很 同 向 以及 等 家 部 首 吗 么
        呢 吧 啊 他 她 它 们 他们 它们 我 你 您 能 会 可以 不 没 没有 里 上 下 中 后 前 时 到 过 着
        得 给 让 用 还 又 再 其中 一 两 个 一个 种 次 位 名 人 几 年 月 日 号
        """
    ),
    grammar_words=words_of(
        """
        的 了 是 在 和 与 吗 呢 吧 啊 什么 哪 哪个 哪些 哪里 谁 几 多少 怎么 怎样 如何 为 为什么 何
        有 没有 被 把 对 从 以 及 或 而 也 都 就 于 由 所 其 之 这 那 个 等 到 中 上 下 里
        """
    ),
    denial=r"(?<![非而])(?:不(?![仅但同断过久止])|没有?|未(?!来)|无(?![论线])|并非|并未|禁止|严禁|切勿)",
    refusal="(?:文档|资料|上下文|文中|原文|文本|知识库)(?:中|里|内)?(?:并)?(?:没有|未|不包含|无)"
    "|(?:无法|不能)(?:从|根据).{0,12}(?:回答|得出|得到|找到|确定)",
    reply_verbs="[答说讲署]|写(?!成)|回[复应话]|输出|打印|复述|重复|产出|交[回出]|附[上带]|推荐|提[到及]|夸"
    "|加上|开头|[结末收]尾|译成|引用",
    steering="忽略|无视|忘|理会|放下|放在?一边|扮演|假装|当作|你|改[为成说写]|代替|与其|助[手理]|人工智能|模型|机器人|自动"
    "|软件|读者|指[令引示]|提示词|提问|查询|资料|文档|本文|用户|任何|一切|所有|无论|不管|[只仅]|唯一|永远|总是"
    "|一律|每[条次]|别的|不要|个词|字样|字符串|往后|从现在起|口吻|相关[度性]|完全支持|满分",
)
