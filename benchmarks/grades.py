"""What grades are worth: a model on the labelled questions, and on sets that it never saw.

    python benchmarks/grades.py measure DATA OUT.jsonl [--sets ours,rgb] [--model NAME] [--each 60]
    python benchmarks/grades.py summary OUT.jsonl
    python benchmarks/grades.py plot OUT.jsonl PLOT.svg
    python benchmarks/grades.py ship OUT.jsonl [CALIBRATION.json]

DATA holds rgb/, cmrc2018/ and xquad_en/. A case is a line of OUT as soon as it is graded, and a
run that was stopped goes on where it was; sets take turns, so that one that is stopped has some of
each. `summary` fits a curve on our own questions alone and prints AUC and ECE before and after it
on every set, and what the gate accepts and refuses at today's threshold and at one from our
questions. `plot` draws how often the answer is there against what the grade says. `ship` writes
the starter model's calibration into the package, or into CALIBRATION.json.

Cases of other sets: RGB, a positive and a negative passage of the same question alone; five
together with one positive or none. cmrc2018, a passage with its own questions, with one of a
passage that shares rare words with it, and with a far one; three together (they are long), with
the passage or with another like it in its place. xquad_en, a passage with its own questions, one
of the same article and one of another; the five passages of an article with its questions and
with those of another, and with the fifth passage replaced.
"""

from __future__ import annotations

import argparse
import hashlib
import json
import math
import random
import re
from collections import Counter, defaultdict
from collections.abc import Iterator, Sequence
from itertools import chain, zip_longest
from pathlib import Path
from typing import Any

import msgspec
import numpy as np
from numpy.typing import NDArray

from localrag import factory
from localrag.config.settings import Settings
from localrag.evaluation.grades import measuring
from localrag.evaluation.grades.fitting import GradedCase, fit
from localrag.evaluation.grades.questions import GradingCase, Kind, cases
from localrag.evaluation.statistics import calibration_error, ordering, resampled_interval
from localrag.presentation.plots import Markup, element, picture, text
from localrag.printable import as_json
from localrag.prompts.own import Wording
from localrag.rag.calibration import Curve, Graded, calibration_key

SETS = ("ours", "rgb", "cmrc2018", "xquad_en")
STARTER = Path(__file__).parents[1] / "localrag" / "rag" / "starter_calibration.json"
TODAY = {
    "answerable": {"standard": Settings().answer.min_answerable},
    "relevance": {
        "standard": Settings().answer.min_answerable,
        "strict": Settings().answer.min_answerable_strict,
    },
}
"""What decides, before the words that a passage lacks are weighed."""
PROBABILITIES = (0.35, 0.5, 0.65)
"""Thresholds that mean the same for every grade and language."""
LEAST = 40
"""Cases of a grade in a language from which a curve is shipped."""
Blocks = list[list[GradingCase]]
"""Cases that share passages, to be read one after the other."""


def main() -> None:
    """Measure, summarise or ship."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("what", choices=["measure", "summary", "plot", "ship"])
    parser.add_argument("paths", type=Path, nargs="+")
    parser.add_argument("--sets", default=",".join(SETS))
    parser.add_argument("--graded", choices=["relevance", "answerable"])
    parser.add_argument("--model", default=Settings().llm.model)
    parser.add_argument("--threads", type=int, default=0)
    parser.add_argument("--each", type=int, default=60, help="questions of each set")
    given = parser.parse_args()
    match given.what:
        case "measure":
            data, out = given.paths
            chosen = [given.graded] if given.graded else ["relevance", "answerable"]
            blocks = [taken(name, data, given.each, chosen) for name in given.sets.split(",")]
            measure(blocks, given.sets.split(","), out, given.model, given.threads)
        case "summary":
            summarise(rows(given.paths[0]))
        case "plot":
            source, drawn = given.paths
            drawn.write_text(reliability(rows(source)), encoding="utf-8")
        case "ship":
            ship(rows(given.paths[0]), given.model, given.paths[1] if given.paths[1:] else STARTER)


# -- cases --------------------------------------------------------------------------


def taken(name: str, data: Path, each: int, graded: Sequence[str]) -> Blocks:
    """The cases of a set, of these kinds, in blocks."""
    match name:
        case "ours":
            found = ours()
        case "rgb":
            found = rgb(data / "rgb" / "zh_refine_first150.jsonl", each)
        case "cmrc2018":
            found = cmrc(data / "cmrc2018", each // 2)
        case _:
            found = xquad(data / "xquad_en", each // 2)
    blocks = [[one for one in block if one.graded in graded] for block in found]
    return [block for block in blocks if block]


def ours() -> Blocks:
    """A topic is a block."""
    blocks: dict[tuple[Graded, tuple[str, ...]], list[GradingCase]] = {}
    for case in cases():
        blocks.setdefault((case.graded, case.passages), []).append(case)
    return list(blocks.values())


def rgb(path: Path, count: int) -> Blocks:
    """Passages that answer a question, and ones that were found for it and do not."""
    found = [row for row in lines(path) if len(row["negative"]) >= 5]
    random.Random(7).shuffle(found)
    blocks: Blocks = []
    for number, row in enumerate(found[:count]):
        positive, negative = row["positive"], row["negative"][:5]
        place = 3 if number % 2 else 4
        right = [*negative[:place], positive[0], *negative[place:4]]
        wrong = [*negative[:place], negative[4], *negative[place:4]]
        blocks.append(
            [
                GradingCase("relevance", number, row["query"], (positive[0],), "holds"),
                GradingCase("relevance", number, row["query"], (negative[0],), "other"),
                GradingCase("answerable", number, row["query"], tuple(right), "holds"),
                GradingCase("answerable", number, row["query"], tuple(wrong), "other"),
            ]
        )
    return blocks


def xquad(folder: Path, count: int) -> Blocks:
    """Articles of five passages."""
    corpus, questions = retrieval_set(folder)
    articles: dict[str, list[str]] = defaultdict(list)
    for passage, row in corpus.items():
        if len(questions[passage]) > 1:
            articles[row["title"]].append(passage)
    names = sorted(name for name, held in articles.items() if len(held) == 5)
    random.Random(7).shuffle(names)
    blocks: Blocks = []
    for number, name in enumerate(names[: min(count, len(names) - 1)]):
        here, there = sorted(articles[name]), sorted(articles[names[number + 1]])
        alone, beside = here[number % 5], here[(number + 1) % 5]
        full = tuple(corpus[one]["text"] for one in here)
        less = (*full[:4], corpus[there[0]]["text"])

        def case(
            graded: Graded, question: str, passages: tuple[str, ...], kind: Kind, at: int = number
        ) -> GradingCase:
            return GradingCase(graded, at, question, passages, kind)

        one = (corpus[alone]["text"],)
        blocks.append(
            [
                *(case("relevance", text, one, "holds") for text in questions[alone][:2]),
                case("relevance", questions[beside][0], one, "other"),
                case("relevance", questions[there[0]][0], one, "elsewhere"),
                *(case("answerable", questions[each][0], full, "holds") for each in here[1:]),
                *(case("answerable", questions[each][1], full, "elsewhere") for each in there[1:3]),
                *(case("answerable", text, less, "other") for text in questions[here[4]][:2]),
            ]
        )
    return blocks


def cmrc(folder: Path, count: int) -> Blocks:
    """Passages of up to 520 characters with those that share rare pairs of characters."""
    corpus, questions = retrieval_set(folder)
    short = [one for one, row in corpus.items() if len(row["text"]) <= 520]
    pairs = {one: pairs_of(row["text"]) for one, row in corpus.items()}
    seen = Counter(pair for held in pairs.values() for pair in held)
    names = [one for one in short if len(questions[one]) >= 3]
    random.Random(7).shuffle(names)

    def like(passage: str) -> list[str]:
        def shared(other: str) -> float:
            both = pairs[passage] & pairs[other]
            return -sum(1 / seen[pair] for pair in both) / math.sqrt(len(pairs[other]))

        return sorted((one for one in short if one != passage), key=shared)[:4]

    blocks: Blocks = []
    for number, name in enumerate(names[:count]):
        near, text = like(name), corpus[name]["text"]
        asked, one = questions[name], (corpus[name]["text"],)
        beside = tuple(corpus[other]["text"] for other in near[:2])
        theirs = next(questions[other][0] for other in near if questions[other])
        far = questions[names[(number + 40) % len(names)]][0]
        blocks.append(
            [
                *(GradingCase("relevance", number, each, one, "holds") for each in asked[:2]),
                GradingCase("relevance", number, theirs, one, "other"),
                GradingCase("relevance", number, far, one, "elsewhere"),
                *(
                    GradingCase("answerable", number, each, (*beside, text), "holds")
                    for each in asked[:3]
                ),
                *(
                    GradingCase(
                        "answerable", number, each, (*beside, corpus[near[2]]["text"]), "other"
                    )
                    for each in asked[:3]
                ),
            ]
        )
    return blocks


def pairs_of(text: str) -> set[str]:
    """The pairs of characters in a text."""
    letters = re.sub(r"\W", "", text)
    return {letters[at : at + 2] for at in range(len(letters) - 1)}


def retrieval_set(folder: Path) -> tuple[dict[str, Any], dict[str, list[str]]]:
    """The passages by id, and the questions of each."""
    corpus = {row["id"]: row for row in lines(folder / "corpus.jsonl")}
    belongs = dict(
        line.split("\t")[:2] for line in (folder / "qrels.tsv").read_text("utf-8").splitlines()
    )
    questions: dict[str, list[str]] = defaultdict(list)
    for row in lines(folder / "queries.jsonl"):
        questions[belongs[row["id"]]].append(row["text"])
    return corpus, questions


def lines(path: Path) -> list[Any]:
    """The rows of a JSONL file."""
    return [json.loads(line) for line in path.read_text("utf-8").splitlines()]


# -- measuring ----------------------------------------------------------------------


def measure(sets: list[Blocks], names: list[str], out: Path, model: str, threads: int) -> None:
    """Grade every case that OUT does not hold yet, a block of each set in turn."""
    done = {row["key"] for row in rows(out)} if out.exists() else set()
    llm = {"backend": "llama.cpp", "model": model, "threads": threads, "kv_disk_mb": 0}
    loaded = factory.make_model(msgspec.convert({"llm": llm}, Settings), factory.make_models())
    named = [[(name, block) for block in blocks] for name, blocks in zip(names, sets, strict=True)]
    with out.open("a", encoding="utf-8") as file:
        for name, block in filter(None, chain.from_iterable(zip_longest(*named))):
            left = [case for case in block if key_of(case) not in done]
            for one in measuring.grade(left, loaded.chooser, Wording(), lambda: None):
                print(json.dumps(row_of(name, one), ensure_ascii=False), file=file, flush=True)
    loaded.close()


def key_of(case: GradingCase) -> str:
    """Stands for what is asked."""
    text = json.dumps([case.graded, case.passages, case.question])
    return hashlib.sha256(text.encode()).hexdigest()[:16]


def row_of(name: str, one: GradedCase) -> dict[str, Any]:
    """A line of OUT: no text of any set."""
    case = one.case
    return {
        "key": key_of(case),
        "set": name,
        "graded": case.graded,
        "language": case.language,
        "topic": case.topic,
        "kind": case.kind,
        "grade": one.grade,
    }


def rows(path: Path) -> list[Any]:
    """What was graded."""
    return lines(path)


# -- figures ------------------------------------------------------------------------


def log_odds(found: Sequence[Any]) -> NDArray[np.float64]:
    """The grades of rows."""
    grades = np.clip([row["grade"] for row in found], 1e-12, 1 - 1e-12)
    return np.asarray(np.log(grades) - np.log1p(-grades))


def labels(found: Sequence[Any]) -> NDArray[np.bool_]:
    """Whether the answer is there."""
    return np.array([row["kind"] == "holds" for row in found])


def summarise(found: Sequence[Any]) -> None:
    """AUC and ECE by set, and the gate."""
    print("| set | grade | language | n | AUC | ECE before | ECE after |")
    print("|---|---|---|---|---|---|---|")
    for _, of_what, right, odds, after in by_set(found):
        before = 1 / (1 + np.exp(-odds))
        cells = [*of_what, figure(ordering, odds, right)]
        cells += [figure(calibration_error, each, right) for each in (before, after)]
        print("| " + " | ".join(cells) + " |")
    print("\n| set | grade | language | n | threshold | answerable refused | others accepted |")
    print("|---|---|---|---|---|---|---|")
    for graded, of_what, right, odds, after in by_set(found):
        grades = 1 / (1 + np.exp(-odds))
        ways = [(f"{way}, {least}", grades >= least) for way, least in TODAY[graded].items()]
        ways += [(f"P {least}", after >= least) for least in PROBABILITIES]
        for title, accepted in ways:
            refused = figure(mean_of, (~accepted[right]).astype(float), right[right])
            let = figure(mean_of, accepted[~right].astype(float), right[~right])
            print("| " + " | ".join([*of_what, title, refused, let]) + " |")


def reliability(found: Sequence[Any]) -> str:
    """A panel for each set, grade and language, before and after calibration, as SVG."""
    side, edge, across = 170, 34, 5
    parts: list[Markup] = []
    panels = list(by_set(found))
    for at, (_, of_what, right, odds, after) in enumerate(panels):
        left, top = at % across * (side + edge) + edge, at // across * (side + 2 * edge) + edge
        box = {"x": left, "y": top, "width": side, "height": side, "fill": "none"}
        parts.append(element("rect", **box, stroke="#bbb"))
        rise = f"M{left},{top + side}L{left + side},{top}"
        parts.append(element("path", d=rise, stroke="#bbb", stroke_dasharray="3 3"))
        name, graded, language, count = of_what
        parts.append(text(left, top - 6, f"{name}, {graded}, {language} ({count})"))
        for said, colour in ((1 / (1 + np.exp(-odds)), "#b5651d"), (after, "#1f5fa8")):
            for some in np.array_split(np.argsort(said), min(8, len(said) // 6)):
                x, y = left + side * said[some].mean(), top + side * (1 - right[some].mean())
                dot = element("circle", cx=round(x, 1), cy=round(y, 1), r=4, fill=colour)
                parts.append(dot)
    width = across * (side + edge) + edge
    height = math.ceil(len(panels) / across) * (side + 2 * edge) + edge
    legend = (
        "across: what the grade says; up: how often the answer is there; orange before, blue after"
    )
    parts.append(text(edge, height - 10, legend))
    return picture("Reliability of grades", width, height, parts, font_size=11).text


def by_set(
    found: Sequence[Any],
) -> Iterator[
    tuple[Graded, list[str], NDArray[np.bool_], NDArray[np.float64], NDArray[np.float64]]
]:
    """Of each grade, language and set with enough rows: labels, log odds, and probabilities."""
    for graded, language, curve, own in curves(found):
        for name in SETS:
            here = [row for row in of(found, graded, language) if row["set"] == name]
            if len(here) < 8 or len(set(labels(here))) < 2:
                continue
            right, odds = labels(here), log_odds(here)
            after = crossed(own) if name == "ours" else applied(curve, odds)
            yield graded, [name, graded, language, str(len(here))], right, odds, after


def curves(found: Sequence[Any]) -> Iterator[tuple[Graded, str, Curve, list[Any]]]:
    """A curve of each grade and language, fitted on our own questions."""
    own = [row for row in found if row["set"] == "ours"]
    for graded, language in sorted({(row["graded"], row["language"]) for row in own}):
        here = of(own, graded, language)
        if len(set(labels(here))) == 2:
            yield graded, language, fit(log_odds(here), labels(here)), here


def of(found: Sequence[Any], graded: str, language: str) -> list[Any]:
    """The rows of one grade and language."""
    return [row for row in found if (row["graded"], row["language"]) == (graded, language)]


def applied(curve: Curve, odds: NDArray[np.float64]) -> NDArray[np.float64]:
    """Probabilities."""
    return np.asarray(1 / (1 + np.exp(-(curve.slope * odds + curve.intercept))))


def crossed(own: Sequence[Any]) -> NDArray[np.float64]:
    """Probabilities of our own questions by curves that were fitted on other topics."""
    topics, odds, right = np.array([row["topic"] for row in own]), log_odds(own), labels(own)
    after = np.empty(len(own))
    for fold in range(5):
        left = topics % 5 == fold
        if left.any():
            after[left] = applied(fit(odds[~left], right[~left]), odds[left])
    return after


def mean_of(values: NDArray[np.float64], _: NDArray[np.bool_]) -> float:
    """The mean."""
    return float(values.mean())


def figure(statistic: Any, values: NDArray[np.float64], right: NDArray[np.bool_]) -> str:
    """A statistic with its 95% bootstrap interval."""
    low, high = resampled_interval(lambda at: statistic(values[at], right[at]), len(values))
    return f"{statistic(values, right):.2f} [{low:.2f}, {high:.2f}]"


def ship(found: Sequence[Any], model: str, out: Path) -> None:
    """Write a calibration from our own questions."""
    by_key = {key_of(case): case for case in cases()}
    graded = [
        GradedCase(by_key[row["key"]], row["grade"])
        for row in found
        if row["set"] == "ours" and row["key"] in by_key
    ]
    models = factory.make_models()
    spec = models.catalogue.find(model)
    assert spec is not None
    weights = max(spec.files, key=lambda file: file.size or 0).sha256
    assert weights is not None
    count = Counter((one.case.graded, one.case.language) for one in graded)
    graded = [one for one in graded if count[one.case.graded, one.case.language] >= LEAST]
    measured = measuring.calibration(model, calibration_key(weights, Wording()), graded)
    out.write_text(as_json(msgspec.to_builtins(measured), indent=2) + "\n", "utf-8")
    print(f"{len(graded)} of {len(by_key)} cases; usable: {measured.usable}")


if __name__ == "__main__":
    main()
