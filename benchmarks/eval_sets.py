"""Documents and questions for `localrag eval run`, made of a retrieval set.

    python benchmarks/eval_sets.py ../shared/data/cmrc2018 OUT --questions 60
    localrag eval run OUT/questions.jsonl --documents OUT/documents --config A.toml --config B.toml

Each passage of the corpus becomes a Markdown file named by its place in the corpus, so that
passages are cut as those of a user's files are. The questions are taken evenly from all; the
references are all answers that the set gives, and `source` the file that holds them.
"""

from __future__ import annotations

import argparse
import json
from pathlib import Path
from typing import Any


def main() -> None:
    """Write `documents/*.md` and `questions.jsonl` into a folder."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("set", type=Path)
    parser.add_argument("out", type=Path)
    parser.add_argument("--questions", type=int, default=60)
    arguments = parser.parse_args()
    documents = arguments.out / "documents"
    documents.mkdir(parents=True, exist_ok=True)
    names: dict[str, str] = {}
    for place, passage in enumerate(_rows(arguments.set / "corpus.jsonl")):
        names[passage["id"]] = f"{place:05}.md"
        heading = f"# {passage['title']}\n\n" if passage.get("title") else ""
        (documents / names[passage["id"]]).write_text(heading + passage["text"] + "\n", "utf-8")
    answered_by: dict[str, str] = {}
    for line in (arguments.set / "qrels.tsv").read_text("utf-8").splitlines():
        query, passage_id, _ = line.split("\t")
        answered_by.setdefault(query, names[passage_id])
    queries = _rows(arguments.set / "queries.jsonl")
    count = min(arguments.questions, len(queries))
    with (arguments.out / "questions.jsonl").open("w", encoding="utf-8") as out:
        for place in range(count):
            query = queries[place * len(queries) // count]
            row = {
                "id": query["id"],
                "question": query["text"],
                "references": query["answers"],
                "has_answer": True,
                "source": answered_by[query["id"]],
                "page": 1,
            }
            out.write(json.dumps(row, ensure_ascii=False) + "\n")
    print(f"{len(names)} documents, {count} questions")


def _rows(file: Path) -> list[dict[str, Any]]:
    return [json.loads(line) for line in file.read_text("utf-8").splitlines() if line]


if __name__ == "__main__":
    main()
