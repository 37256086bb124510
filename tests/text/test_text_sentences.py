import random

import pytest
from counting import seconds

from localrag.text.sentences import split_sentences

# Sentences divided by |; Chinese ones stand without a space between them.
CHINESE = [
    "他说：“你好。”|然后走了。",
    "你好！|再见？|好的；|行……|嗯。",
    "他（真的吗？）走了。|她也走了。",
    "（他走了。）|第二天下雨。",
    "你知道RAG吗？|它是检索增强生成。",
    "版本是3.5。|下一个。",
    "我用RAG.|它很好.",
    "“天气很好！”，他说。|走吧。",
    '他说:"好。"|我走了。',
    "什么？！|真的吗？？|是的。",
    "见 https://example.com/a.b?c=d 一文。|完。",
]
ENGLISH = [
    "Dr. Smith went home.|He slept.",
    "See Fig. 3 for details.|It is good.",
    "Pi is 3.14 or so.|Yes.",
    "The U.S. Government said so.|It lied.",
    "He lives in the U.S.|He likes it.",
    "Use e.g. Python, i.e. a language.|Done!",
    "J. K. Rowling wrote it.|She is rich.",
    "Visit https://example.com/a.b?c=d now.|Then go.",
    "Wait... what?|Yes.",
    "Wait...|The end.",
    "“Really?” he asked.|“Yes.”",
    "He paid $5.50 to Acme Inc. for it.|Then he left.",
    "She works at Acme Inc.|The company is big.",
    "Born on Jan. 5, 1990.|Died later.",
    "Smith et al. (2020) showed it.|We agree.",
    "It was 5 p.m. when he left.|No. 5 is alive.",
    "1. First item is here.|2. Second item.",
    "Node.js is good.|So is .NET 8.",
    "Is it true?|Yes!|No.",
    "Yahoo! is a company.|It is old.",
    "Vitamin C is good.|I like plan B.|We use it.",
    "Mr. and Mrs. Brown left.|They were late.",
    "AI (artificial intelligence) is big.|(It really is.)|Yes.",
]


def sentences(text: str) -> list[str]:
    return [text[start:end] for start, end in split_sentences(text)]


@pytest.mark.parametrize("case", CHINESE)
def test_chinese(case: str) -> None:
    assert sentences(case.replace("|", "")) == case.split("|")


@pytest.mark.parametrize("case", ENGLISH)
def test_english(case: str) -> None:
    assert sentences(case.replace("|", " ")) == case.split("|")


def test_both_in_one_paragraph() -> None:
    assert sentences("这是 RAG。It works well. 很好！") == [
        "这是 RAG。",
        "It works well.",
        "很好！",
    ]


def test_a_newline_always_ends_a_sentence() -> None:
    assert sentences("标题\n\n  Dr.\nBrown\r\n") == ["标题", "Dr.", "Brown"]


def test_nothing_but_white_space_is_left_out() -> None:
    source = random.Random(3)
    alphabet = "人工。！？；…”“』（）() \n\t.!?\"'aBc1 ,、Dr"
    for _ in range(3000):
        text = "".join(source.choices(alphabet, k=source.randint(0, 40)))
        before = 0
        for start, end in split_sentences(text):
            assert before <= start < end <= len(text)
            assert not text[before:start].strip()
            assert text[start:end] == text[start:end].strip()
            assert "\n" not in text[start:end]
            before = end
        assert not text[before:].strip()


@pytest.mark.parametrize("text", ["." * 200_000, "（" * 200_000, '。"' * 100_000, "a. " * 100_000])
def test_odd_texts_take_no_longer(text: str) -> None:
    assert seconds(lambda: split_sentences(text)) < 5
