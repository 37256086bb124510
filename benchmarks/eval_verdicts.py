"""Wordings of the judge's question, compared on the labelled set.

    python benchmarks/eval_verdicts.py [--wording confirmed --wording ...] [--cache DIR]

For each wording and language: AUC (how well P(yes) ranks right statements above the others),
kappa at 0.5, and the mean P(yes) by kind of item. Every call is kept in
the cache, so a run can be stopped and continued. The judge is the language model of the
settings; `LOCALRAG_LLM_THREADS=1` is much faster on a machine that is busy with other work.
"""

from __future__ import annotations

import argparse
from pathlib import Path

import numpy as np

from localrag.evaluation.call_cache import CachedModel
from localrag.evaluation.judging.gold_set import GoldItem, gold_items
from localrag.evaluation.statistics import cohens_kappa, ordering
from localrag.evaluator.evaluator import Evaluator, open_cache, settings_of
from localrag.prompts import YES_NO, render
from localrag.types import Message

EXAMPLE = {
    "en": "Example. Text: The mill was built in 1820 and has two floors.\n"
    "Statement: The mill dates from 1820. -> Yes\n"
    "Statement: The mill has three floors. -> No\n"
    "Statement: The mill belonged to a monastery. -> No\n\n",
    "zh": "示例。文字：磨坊建于1820年，有两层。\n陈述：磨坊是1820年建造的。 -> 是\n"
    "陈述：磨坊有三层。 -> 否\n陈述：磨坊曾属于一座寺庙。 -> 否\n\n",
}
DETAILS = {
    "en": "Statement: {statement}\n\nIs every detail of this statement confirmed by the text "
    "above? If a name, number or detail differs or is not mentioned, reply No. Reply only Yes or "
    "No.",
    "zh": "陈述：{statement}\n\n这个陈述的每个细节是否都能在以上文字中得到证实？只要有名称、"
    "数字或细节不同或没有提到，就回答“否”。只回答“是”或“否”。",
}
TRUE_FALSE = {
    "en": "According to the text above alone, true or false? {statement}\n"
    "Reply only True or False.",
    "zh": "仅根据以上文字判断对错：{statement}\n只回答“对”或“错”。",
}
CHOICE = {
    "en": "Statement: {statement}\n\nA: The text above says this.\nB: The text above says "
    "something different.\nC: The text above does not say.\nReply only A, B or C.",
    "zh": "陈述：{statement}\n\nA：以上文字说了这一点。\nB：以上文字所说的与此不同。\n"
    "C：以上文字没有说。\n只回答 A、B 或 C。",
}
WORDINGS = (
    "confirmed",
    "confirmed, with example",
    "true or false",
    "three choices",
    "details, with example",
)
"""The first is the one that localrag uses."""


def main() -> None:
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--wording", action="append", choices=WORDINGS)
    parser.add_argument("--cache", type=Path, help="otherwise that of `localrag eval`")
    arguments = parser.parse_args()
    items = [item for item in gold_items() if item.task == "support"]
    with (
        open_cache(arguments.cache) as cache,
        Evaluator(Path(), cache).open_judge(settings_of(None)) as model,
    ):
        for wording in arguments.wording or WORDINGS:
            show(wording, items, [probability(model, item, wording) for item in items])


def probability(model: CachedModel, item: GoldItem, wording: str) -> float:
    language, text = item.language, "\n\n".join(item.contexts)
    system = render("eval_support_system", language, text=text)
    if wording.endswith("with example"):
        rules, rest = system.split("\n\n", 1)
        system = f"{rules}\n\n{EXAMPLE[language]}{rest}"
    choices: tuple[str, ...] = YES_NO[language]
    task = render("eval_support", language, statement=item.statement)
    if wording == "true or false":
        choices = ("True", "False") if language == "en" else ("对", "错")
        task = TRUE_FALSE[language].format(statement=item.statement)
    elif wording == "three choices":
        choices = ("A", "B", "C")
        task = CHOICE[language].format(statement=item.statement)
    elif wording == "details, with example":
        task = DETAILS[language].format(statement=item.statement)
    messages = [Message("system", system), Message("user", task)]
    return float(model.score_choices(messages, choices, keep=1)[0])


def show(wording: str, items: list[GoldItem], scores: list[float]) -> None:
    for language in ("en", "zh"):
        chosen = [place for place, item in enumerate(items) if item.language == language]
        found = np.array([scores[place] for place in chosen])
        labels = np.array([items[place].label for place in chosen])
        kinds = np.array([items[place].kind for place in chosen])
        means = "  ".join(f"{kind} {found[kinds == kind].mean():.2f}" for kind in np.unique(kinds))
        print(
            f"{wording:22} {language}  AUC {ordering(found, labels):.3f}  "
            f"kappa at .5 {cohens_kappa(found >= 0.5, labels):.2f}  "
            f"{means}",
            flush=True,
        )


if __name__ == "__main__":
    main()
