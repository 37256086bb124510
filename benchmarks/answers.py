"""Answers to a question file, for a person to read and judge.

    python benchmarks/answers.py LIBRARY QUESTIONS.json [...] [--json OUT]

A question file is a list of {question, ideal_answer, has_answer}. Prints each
answer beside its reference with citations, the best grade and seconds. It does
not judge: whether an answer is right is for the reader to say.
"""

from __future__ import annotations

import argparse
import json
from dataclasses import asdict
from pathlib import Path, PurePath

from localrag import Answer, LocalRAG


def main() -> None:
    """Ask every question of every file."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("library", type=Path)
    parser.add_argument("questions", type=Path, nargs="+")
    parser.add_argument("--json", type=Path)
    arguments = parser.parse_args()
    rows = []
    with LocalRAG.open(arguments.library, create=False) as rag:
        for file in arguments.questions:
            for item in json.loads(file.read_text("utf-8")):
                answer = rag.ask(item["question"])
                rows.append({"file": file.name, "reference": item, "answer": asdict(answer)})
                show(len(rows), item, answer)
    if arguments.json:
        arguments.json.write_text(json.dumps(rows, ensure_ascii=False, indent=1), "utf-8")


def show(number: int, item: dict[str, object], answer: Answer) -> None:
    """Print one question with everything needed to judge its answer."""
    graded = ("relevance", "answerable")
    best = max((step.score or 0.0 for step in answer.trace if step.kind in graded), default=0.0)
    known = "answerable" if item["has_answer"] else "UNANSWERABLE"
    print(
        f"\n{number}. {answer.question}   [{known}, best grade {best:.2f}, {answer.seconds:.0f} s]"
    )
    print(f"   reference: {item['ideal_answer']}")
    print(f"   answer:    {answer.text}")
    for citation in answer.citations:
        name = PurePath(citation.source).name
        print(f"   [{citation.marker}] {name} p. {citation.page}: {citation.quote}")


if __name__ == "__main__":
    main()
