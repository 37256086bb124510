from __future__ import annotations

import json
import threading
import time

import pytest

from localrag.egress.redaction import Redactor
from localrag.errors import ConfigError


def test_the_same_text_has_the_same_placeholder() -> None:
    redactor = Redactor([r"\d{11}", "张三"])
    first, count = redactor.redact("张三 has 13912345678, and 13800000000 is Li's.")
    assert first == "[REDACTED-1] has [REDACTED-2], and [REDACTED-3] is Li's."
    assert count == 3
    assert redactor.redact("Call 13912345678, 张三!") == ("Call [REDACTED-2], [REDACTED-1]!", 2)


def test_overlapping_matches_go_as_a_whole_and_empty_ones_count_for_nothing() -> None:
    redactor = Redactor(["abc", "cde", "x*"])
    assert redactor.redact("1abcde2") == ("1[REDACTED-1]2", 1)
    assert redactor.restore("[REDACTED-1]") == "abcde"


def test_a_pattern_does_not_match_within_a_placeholder() -> None:
    redactor = Redactor([r"\w+@\w+", r"\d", "RED"])
    assert redactor.redact("a@b 7") == ("[REDACTED-1] [REDACTED-2]", 2)


def test_replies_get_back_what_was_taken_out() -> None:
    redactor = Redactor(['say "hi"'])
    redactor.redact('She will say "hi".')
    assert redactor.restore("[REDACTED-1], [REDACTED-2], [REDACTED-0]") == (
        'say "hi", [REDACTED-2], [REDACTED-0]'
    )
    reply = redactor.restore('{"answer": "[REDACTED-1]"}', in_json=True)
    assert json.loads(reply) == {"answer": 'say "hi"'}


@pytest.mark.parametrize("size", [1, 2, 3, 7, 100])
def test_a_reply_in_pieces_gets_it_back_too(size: int) -> None:
    redactor = Redactor(["secret"])
    redactor.redact("secret")
    reply = "It is [REDACTED-1]. See [1] and [RED] or [REDACTED-1"
    pieces = [reply[start : start + size] for start in range(0, len(reply), size)]
    assert "".join(redactor.restored(iter(pieces))) == (
        "It is secret. See [1] and [RED] or [REDACTED-1"
    )


def test_a_catastrophic_pattern_is_given_up_and_nothing_is_returned() -> None:
    redactor = Redactor([r"(x+x+)+y"], seconds=0.2)
    began = time.monotonic()
    with pytest.raises(ConfigError, match="takes too long"):
        redactor.redact("x" * 5000)
    assert time.monotonic() - began < 30


def test_threads_agree_on_numbers() -> None:
    redactor = Redactor([r"n\d+"])
    texts = [f"n{number}" for number in range(50)]
    replacements: list[dict[str, str]] = [{} for _ in range(4)]

    def work(replacement: dict[str, str]) -> None:
        for text in texts:
            replacement[text] = redactor.redact(text)[0]

    threads = [threading.Thread(target=work, args=(replacement,)) for replacement in replacements]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert all(replacement == replacements[0] for replacement in replacements)
    assert len(set(replacements[0].values())) == 50


@pytest.mark.parametrize(
    "secret",
    [
        "１３９１２３４５６７８",
        "139１２３45678",
        "①③⑨12345678",
        "𝟭𝟯𝟵𝟭𝟮𝟯𝟰𝟱𝟲𝟳𝟴",
        "١٣٩١٢٣٤٥٦٧٨",
        "139\u00ad1234\u200b5678",
        "139\u034f1234\u115f5678",
        "139\ufe0f1234\U000e01005678",
        "139\u31641234\uffa05678",
        "139\b1234\x005678",
        "1\ufe0f\u20e33\ufe0f\u20e39\ufe0f\u20e312345678",
        "1\u03363\u03369\u033612345678",
        "f\u0336ile",
        "ＡＢ－１２",
        "ⒶⒷ-12",
        "ｃａｆｅ\u0301",
        "cafe\u0301",
        "ﬁle",
        "㎏",
    ],
)
def test_it_matches_however_the_characters_are_written(secret: str) -> None:
    redactor = Redactor([r"1[3-9][0-9]{9}", "[A-Z]{2}-[0-9]{2}", "café", "file", "kg"])
    text = f"请致电：{secret}，谢谢。ﬃ"
    redacted_text, count = redactor.redact(text)
    assert (redacted_text, count) == ("请致电：[REDACTED-1]，谢谢。ﬃ", 1)
    # What comes back is what stood there, to the letter.
    assert redactor.restore(redacted_text) == text


def test_a_pattern_may_ask_for_the_wide_form() -> None:
    assert Redactor(["（机密）", "Ａ"]).redact("（机密）ＡA") == ("[REDACTED-1][REDACTED-2]A", 2)


def test_part_of_a_character_is_the_whole_of_it() -> None:
    redactor = Redactor(["g"])
    assert redactor.redact("5㎏!") == ("5[REDACTED-1]!", 1)
    assert redactor.restore("[REDACTED-1]") == "㎏"


def test_folding_a_long_text_is_quick() -> None:
    began = time.monotonic()
    Redactor(["x{30}"]).redact("甲方应在２０２４年，支付。" * 20_000)
    assert time.monotonic() - began < 20
