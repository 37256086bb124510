"""rjieba against jieba on real text: are the words the same, and how fast are they?

Usage: python benchmarks/segmentation.py FOLDER...

Each folder holds a `corpus.jsonl` with a `text` a line. Both cut the same runs of
Chinese characters, in search mode, with and without the hidden Markov model. The
index uses the mode without it.
"""

from __future__ import annotations

import json
import re
import sys
import time
from collections.abc import Callable, Iterable
from pathlib import Path

import jieba
import rjieba

from localrag.text.normalize import fold
from localrag.text.sentences import split_sentences

HAN_RUN = re.compile("[\u3400-\u4dbf\u4e00-\u9fff\U00020000-\U000323af]+")


def han_runs(folder: Path) -> list[list[str]]:
    """The runs of Chinese characters of each sentence."""
    sentences: list[list[str]] = []
    for line in (folder / "corpus.jsonl").read_text(encoding="utf-8").splitlines():
        text = fold(json.loads(line)["text"])
        sentences += [HAN_RUN.findall(text[a:b]) for a, b in split_sentences(text)]
    return sentences


def timed(
    cut: Callable[[str], Iterable[str]], sentences: list[list[str]]
) -> tuple[list[list[str]], float]:
    started = time.perf_counter()
    words = [[word for run in runs for word in cut(run)] for runs in sentences]
    return words, time.perf_counter() - started


def main(folders: list[Path]) -> None:
    segmenter = jieba.Tokenizer()
    segmenter.FREQ, segmenter.total = segmenter.gen_pfdict(segmenter.get_dict_file())
    segmenter.initialized = True
    for folder in folders:
        sentences = han_runs(folder)
        characters = sum(len(run) for runs in sentences for run in runs)
        for markov in (False, True):
            python, slow = timed(
                lambda run, m=markov: segmenter.cut_for_search(run, HMM=m), sentences
            )
            rust, fast = timed(lambda run, m=markov: rjieba.cut_for_search(run, m), sentences)
            differing = sum(one != other for one, other in zip(python, rust, strict=True))
            print(
                f"{folder.name}: HMM {'on' if markov else 'off'}, {len(sentences)} sentences, "
                f"{characters} characters, {differing} differ, "
                f"jieba {characters / slow / 1e6:.2f} M characters/s, "
                f"rjieba {characters / fast / 1e6:.2f} M characters/s"
            )


if __name__ == "__main__":
    main([Path(argument) for argument in sys.argv[1:]])
