"""How often passages are said to disagree on questions of one fact.

    python benchmarks/disagreement.py DATA [--each 150]

Takes the five best passages of questions of xquad_en and cmrc2018, where none contradicts another,
and prints what is found all the same; then it changes the figure that answers a question in a copy
of its passage, and counts how often that is found. Pairs that do contradict each other are in
`tests/rag/contradictions.json`.
"""

from __future__ import annotations

import argparse
import json
import random
import re
from dataclasses import replace
from pathlib import Path

from retrieval import STARTER, Searched, cut

from localrag.evaluation.retrieval.beir import read_retrieval_set
from localrag.rag.disagreement import disagreement
from localrag.text.figures import figures
from localrag.text.tokenize import Tokenizer
from localrag.types import Chunk, ScoredChunk

K = 5
terms = Tokenizer()


def main() -> None:
    """Count on both sets."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("data", type=Path)
    parser.add_argument("--each", type=int, default=150, help="questions of each set")
    given = parser.parse_args()
    for name in ("xquad_en", "cmrc2018"):
        alarms(given.data / name, given.each)


def alarms(folder: Path, each: int) -> None:
    """Print false alarms of a set, and how many changed figures are found."""
    dataset = read_retrieval_set(folder)
    asked = random.Random(16).sample(sorted(dataset.qrels), each)
    dataset = replace(dataset, qrels={query: dataset.qrels[query] for query in asked})
    answers = {}
    for line in (folder / "queries.jsonl").read_text("utf-8").splitlines():
        query = json.loads(line)
        answers[query["id"]] = query["answers"][0]
    searched = Searched(dataset, STARTER)
    fired = changed = noticed = 0
    for query in asked:
        question = dataset.queries[query]
        hits = searched.fuse(question, cut(searched.runs[query], 30))[:K]
        texts = [dataset.corpus[searched.passages.ids[hit.chunk_id]] for hit in hits]
        if found := disagreement(question, passages(texts), terms):
            fired += 1
            print(
                question,
                *(f"  [{s.chunk + 1}] {s.figure}: {s.text}" for s in found.statements),
                sep="\n",
            )
        text = dataset.corpus[next(iter(dataset.qrels[query]))]
        other = re.sub(r"\d+", lambda digits: str(int(digits[0]) + 3), answers[query])
        if len(figures(answers[query])) == 1 and other != answers[query] and answers[query] in text:
            changed += 1
            copy = text.replace(answers[query], other)
            noticed += disagreement(question, passages([text, copy]), terms) is not None
    print(f"{folder.name}: {fired} of {each} alarms; {noticed} of {changed} changed figures found")


def passages(texts: list[str]) -> list[ScoredChunk]:
    """Each text as a passage of a document of its own."""
    return [
        ScoredChunk(Chunk(n, f"d{n}", 0, text, "", 1, 1, 0, len(text)), 1.0 / n, f"{n}.txt")
        for n, text in enumerate(texts, start=1)
    ]


if __name__ == "__main__":
    main()
