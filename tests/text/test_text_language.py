import json
from pathlib import Path

import pytest

from localrag.text.language import answer_language, detect, shares

QUESTIONS = {
    "zh": [
        "RAG 是什么？",
        "什么是 retrieval augmented generation？",
        "请解释 The Lord of the Rings 的主题是什么？",
        "The Lord of the Rings 的作者是谁？",
        "bge-m3 和 bge-small-zh-v1.5 有什么区别？",
        "Python 和 Java 哪个快",
        "GPT-4 vs GPT-3.5 区别",
        "transformer 注意力机制",
        "把 machine learning 翻译成中文",
        "“To be or not to be” 这句话出自哪里？",
        "用中文回答：What is RAG?",
        "What is RAG? Please answer in Chinese.",
        "2024？",
        "。。。",
        "人工智慧是什麼？",
        "iPhone 15 Pro Max 電池容量多少 mAh？",
        "为什么 Transformer 使用 multi-head attention 而不是 single-head attention？",
        "怎么安装 llama.cpp",
        "pip install 报错 No module named torch 怎么办",
        "用 C++ 写 hello world",
        "what's RAG 是什么意思",
        "OK 吗",
        "WHO 是什么组织",
    ],
    "en": [
        "What does 人工智能 mean?",
        "How do I say 怎么样 in English?",
        "What is 的 in Chinese grammar?",
        "transformer attention",
        "Translate 机器学习 and 深度学习 into English",
        "Who wrote 红楼梦?",
        "Who is the author of 《红楼梦》 and when was it written?",
        "Is 北京 bigger than 上海?",
        "Please explain 注意力机制 in the context of 大语言模型 and 检索增强生成",
        "List all 公司 mentioned in the document",
        "请用英语回答：人工智能是什么？",
        "2024?",
        "3.14",
        "",
        "café résumé",
    ],
}


@pytest.mark.parametrize(
    ("language", "question"), [(key, text) for key, texts in QUESTIONS.items() for text in texts]
)
def test_answer_language(language: str, question: str) -> None:
    assert answer_language(question) == language


@pytest.mark.parametrize(
    ("text", "language"),
    [
        ("检索增强生成（Retrieval-Augmented Generation）结合了检索与生成。", "zh"),
        ("Retrieval (检索) finds the passages that an answer is built from.", "en"),
        (
            "检索增强生成把检索和语言模型结合在一起。 It looks up passages and answers from them.",
            "mixed",
        ),
        ("", "en"),
    ],
)
def test_detect_passages(text: str, language: str) -> None:
    assert detect(text) == language


ENGLISH = (
    "The reading room opens at nine, and whoever wants a rare book asks for it at the desk a day "
    "before; it may not leave the room."
)
TERSE = (
    "Route planning software shortens journeys by predicting congestion, and combining sensors "
    "improves forecasts. Dispatchers then reassign their vehicles within minutes."
)
CHINESE = "阅览室九点开门。想看善本的读者要提前一天在服务台预约，善本不能带出，只能在阅览室翻看。"
GERMAN = (
    "Die Bücherei öffnet um neun; wer in den Lesesaal will, meldet sich an der Theke an, so war es "
    "hier immer, und in der Nacht bleibt das Licht an."
)
DUTCH = (
    "De leeszaal is open van negen tot vijf; wie een boek zoekt vraagt of het er is, en of het in "
    "de kast was blijven staan is dan snel bekend."
)
TABLE = "Vienna | 8.9 | 83,879\nRome | 58.9 | 301,340"


@pytest.mark.parametrize(
    ("texts", "chinese", "english"),
    [
        ([], 0, 0),
        ([TABLE], 0, 0),
        ([ENGLISH, TERSE, TABLE], 0, 1),
        ([CHINESE, ENGLISH, ENGLISH, TERSE], 0.25, 0.75),
        ([GERMAN, DUTCH], 0, 0),
        ([f"{CHINESE} {ENGLISH}"], 0.5, 0.5),
    ],
    ids=["nothing", "a table", "english", "both", "others", "mixed"],
)
def test_the_languages_of_many_texts(texts: list[str], chinese: float, english: float) -> None:
    assert shares(texts) == {"zh": chinese, "en": english}


@pytest.mark.parametrize(
    ("name", "language"),
    [("xquad_zh", "zh"), ("xquad_en", "en"), ("cmrc2018", "zh"), ("scifact", "en")],
)
def test_real_passages_and_questions(shared_data: Path, name: str, language: str) -> None:
    for part in ("corpus", "queries"):
        lines = (shared_data / name / f"{part}.jsonl").read_text(encoding="utf-8").splitlines()
        texts = [text for line in lines if (text := json.loads(line)["text"])]
        wrong = [text for text in texts if answer_language(text) != language]
        assert len(texts) >= 240
        assert len(wrong) <= 0.001 * len(texts), wrong[:3]
        if part == "corpus":
            assert shares(texts)[language] > 0.99  # type: ignore[index]
