import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

from localrag.errors import ConfigError
from localrag.text.normalize import fold
from localrag.text.tokenize import Tokenizer


@pytest.fixture(scope="module")
def terms() -> Tokenizer:
    return Tokenizer()


def test_a_long_word_and_its_parts(terms: Tokenizer) -> None:
    assert terms("人工智能") == ["人工", "智能", "人工智能"]


@pytest.mark.parametrize(
    ("document", "query"),
    [
        ("按 GB/T 3620.1 执行", "GB/T 3620.1"),
        ("按 GB/T 3620.1 执行", "3620.1"),
        ("按 GB/T 3620.1 执行", "GB/T3620.1"),
        ("按GB/T3620.1执行", "GB/T 3620.1"),
        ("按GB/T3620.1执行", "3620.1"),
        ("COVID-19 spread", "covid19"),
        ("the bge-m3 model", "BGE-M3"),
        ("an e-mail", "email"),
        ("1,234,567 people", "1234567"),
        ("体重100kg", "100 kg"),
        ("running models", "model runs"),
        ("naïve café", "naive cafe"),
        ("機器學習", "机器学习"),
        ("ＲＡＧ系统", "rag"),
        ("⼈⼯智能", "人工智能"),
        ("the company's", "company"),
        ("snake_case", "snake case"),
    ],
)
def test_both_spellings_meet(terms: Tokenizer, document: str, query: str) -> None:
    common_terms = [part for part in terms(query) if part in terms(document)]
    assert len(common_terms) >= len(query.split())


@pytest.mark.parametrize("code", ["3.14", "2024-05-01", "c++", "c#", "3620.1", "v1.2.3"])
def test_codes_stay_whole(terms: Tokenizer, code: str) -> None:
    assert code in terms(f"before {code} after，{code}。")


def test_a_number_is_not_glued_to_the_next(terms: Tokenizer) -> None:
    assert "34" not in terms("3-4 3/4 3_4")


def test_grammar_words_are_left_out_and_names_kept(terms: Tokenizer) -> None:
    assert terms("What is the WHO of the US?") == ["who", "us"]
    assert terms("这是什么") == []


def test_rare_characters_are_terms_of_their_own(terms: Tokenizer) -> None:
    assert terms("𠮷野") == ["𠮷", "野"]


def test_noise_gives_no_endless_terms(terms: Tokenizer) -> None:
    noise = terms("x" * 5000 + " " + "ab1" * 5000)
    assert max(map(len, noise)) <= 64


def test_user_dictionary(tmp_path: Path, terms: Tokenizer) -> None:
    path = tmp_path / "words.txt"
    path.write_text("\ufeff嵌入向量庫 5 n\nＣ羅\n\n量子糖果机\n", encoding="utf-8")
    tokenizer = Tokenizer(path)
    assert "嵌入向量库" in tokenizer("嵌入向量库很大")
    assert "量子糖果机" in tokenizer("量子糖果機")
    assert "c罗" in tokenizer("C罗来了")
    assert "嵌入向量库" not in terms("嵌入向量库很大")
    assert tokenizer.fingerprint != terms.fingerprint
    path.write_text("嵌入向量庫 5 n\n", encoding="utf-8")
    assert Tokenizer(path).fingerprint not in (tokenizer.fingerprint, terms.fingerprint)
    assert Tokenizer().fingerprint == terms.fingerprint


def test_unreadable_user_dictionary(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match="cannot be read"):
        Tokenizer(tmp_path / "missing.txt")
    (tmp_path / "latin.txt").write_bytes(b"\xff\xfe\x00")
    with pytest.raises(ConfigError, match="UTF-8"):
        Tokenizer(tmp_path / "latin.txt")


def test_jieba_is_silent_and_leaves_no_cache(tmp_path: Path) -> None:
    (tmp_path / "words.txt").write_text("嵌入向量库\n", encoding="utf-8")
    code = (
        "from pathlib import Path; from localrag.text.tokenize import Tokenizer;"
        "Tokenizer(Path('words.txt'))('嵌入向量库')"
    )
    root = Path(__file__).parents[2]
    environment = os.environ | {"TMPDIR": str(tmp_path / "tmp"), "PYTHONPATH": str(root)}
    (tmp_path / "tmp").mkdir()
    result = subprocess.run(
        [sys.executable, "-W", "error", "-c", code],
        cwd=tmp_path,
        env=environment,
        capture_output=True,
        text=True,
        check=False,
    )
    assert (result.returncode, result.stdout, result.stderr) == (0, "", "")
    assert not list((tmp_path / "tmp").iterdir())


def test_english_loads_no_segmenter() -> None:
    code = (
        "import sys; from localrag.text.tokenize import Tokenizer; Tokenizer()('plain words');"
        "sys.exit('jieba' in sys.modules or 'rjieba' in sys.modules)"
    )
    assert subprocess.run([sys.executable, "-c", code], check=False).returncode == 0


@pytest.mark.parametrize("name", ["cmrc2018", "xquad_zh"])
def test_rjieba_cuts_as_jieba_does(shared_data: Path, tmp_path: Path, name: str) -> None:
    # A word that no text has, so that only the segmenter differs.
    (tmp_path / "words.txt").write_text("龘靐齉爩 1\n", encoding="utf-8")
    python, rust = Tokenizer(tmp_path / "words.txt"), Tokenizer()
    lines = (shared_data / name / "corpus.jsonl").read_text(encoding="utf-8").splitlines()[:300]
    texts = [json.loads(line)["text"] for line in lines]
    assert len(texts) >= 200
    assert [fold(text)[:20] for text in texts if python(text) != rust(text)] == []
