from __future__ import annotations

import json
import re
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from localrag.documents.files import parse_file, walk
from localrag.types import Document

ROOT = Path(__file__).resolve().parents[2]
DATA = ROOT / "data"
QUESTIONS: list[dict[str, Any]] = json.loads((DATA / "val.json").read_text(encoding="utf-8"))


@pytest.fixture(scope="module")
def documents() -> dict[str, Document]:
    return {path.name: parse_file(path) for path in walk([DATA], [])}


def test_what_is_there(documents: dict[str, Document]) -> None:
    assert sorted(documents) == [
        "ai-overview.en.pdf",
        "ai-overview.zh.pdf",
        "garden-handbook.en.md",
        "garden-handbook.zh.md",
    ]
    assert all(
        len(documents[f"ai-overview.{language}.pdf"].pages) >= 6 for language in ("en", "zh")
    )
    assert sum(path.stat().st_size for path in DATA.rglob("*")) < 2**20


def test_questions_have_both_languages_and_both_kinds() -> None:
    for language in ("en", "zh"):
        questions = [q for q in QUESTIONS if q["language"] == language]
        assert len(questions) == 6
        assert [q["has_answer"] for q in questions].count(False) == 1


@pytest.mark.parametrize(
    "question", [q for q in QUESTIONS if q["has_answer"]], ids=lambda q: q["question"]
)
def test_the_numbers_of_the_answer_are_on_the_page(
    question: dict[str, Any], documents: dict[str, Document]
) -> None:
    document = documents[question["source"]]
    page = document.pages[question["page"] - 1].text
    numbers = re.findall(r"\d+(?:\.\d+)?", question["ideal_answer"])
    assert numbers
    for number in numbers:
        assert re.search(rf"(?<![\d.]){re.escape(number)}(?!\d)", page), number
    assert question["reference"] in {heading.text for heading in document.headings}


@pytest.mark.parametrize("language", ["en", "zh"])
def test_no_text_of_a_source_is_lost_or_added(
    language: str, documents: dict[str, Document]
) -> None:
    source = parse_file(ROOT / "scripts" / "sample_sources" / f"ai-overview.{language}.md")
    document = documents[f"ai-overview.{language}.pdf"]
    # A paragraph may break at a page end, and the layout drops spaces beside Chinese characters.
    assert "".join(document.text.split()) == "".join(source.text.split())
    assert [(h.level, h.text) for h in document.headings] == [
        (h.level, h.text) for h in source.headings
    ]
    assert document.title == source.title


def test_the_script_makes_the_same_bytes_again(tmp_path: Path) -> None:
    script = ROOT / "scripts" / "make_sample_data.py"
    for folder in (tmp_path / "1", tmp_path / "2"):
        subprocess.run([sys.executable, str(script), str(folder)], check=True, capture_output=True)
    for language in ("en", "zh"):
        name = f"ai-overview.{language}.pdf"
        assert (tmp_path / "1" / name).read_bytes() == (tmp_path / "2" / name).read_bytes()
        assert parse_file(tmp_path / "1" / name).text == parse_file(DATA / name).text
