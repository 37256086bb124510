"""What an answer costs is foreseen from what is kept and how fast the model is, and told after."""

from __future__ import annotations

from fakes import HashEmbedder
from scripted_llm import MeteredLLM, ScriptedLLM

from localrag.models.llms.base import Options
from localrag.models.llms.choices import LogitChooser
from localrag.rag.base import Toolkit, answer_of
from localrag.rag.grading import Grader
from localrag.rag.pipeline import Pipeline
from localrag.rag.reading import Bounds
from localrag.rag.self_rag import self_rag
from localrag.rag.stages.grade import SelfRAGOptions
from localrag.rag.standard import standard_rag
from localrag.text.tokenize import Tokenizer
from localrag.types import Chunk, Place, ScoredChunk, Step

QUESTION = "When was the glass house opened?"
OPENED = "The glass house was opened in 1907."
TEXTS = [OPENED + " It has two hundred orchids." * 20, *(f"Tea {n} is green." for n in range(4))]
OPTIONS = SelfRAGOptions(0.3, 0.2, 0.5, 0.5, 0.3, 3.8, 0.8, early_stop=True, strict=True)
ENOUGH = {"Yes": 9, "No": 1}


def costs(llm: ScriptedLLM, budget: float | None = None) -> tuple[list[str], list[Step]]:
    """The kinds of the steps of an answer, and those that tell what it costs."""
    chunks = [
        ScoredChunk(Chunk(n, f"d{n}", n, text, "", 1, 1, 0, len(text)), 1 / n, f"{n}.txt")
        for n, text in enumerate(TEXTS, start=1)
    ]
    tools = Toolkit(
        retrieve=lambda _, k: chunks[:k],
        llm=llm,
        tokenize=Tokenizer(None),
        embedder=HashEmbedder(),
        place_of=lambda chunk, offset: Place(0, number=1),
        k=5,
        generation=Options(max_tokens=50),
        meter=llm if isinstance(llm, MeteredLLM) else None,
    )
    grader = Grader(LogitChooser(llm))
    if budget is None:
        rag = Pipeline(tools, grader, standard_rag(Bounds(0.8, 0.5)))
    else:
        rag = Pipeline(tools, grader, self_rag(OPTIONS), budget=budget)
    trace = answer_of(rag.stream(QUESTION)).trace
    return [step.kind for step in trace], [step for step in trace if step.kind == "cost"]


def asked_again(llm: MeteredLLM) -> None:
    """The next question, which has read and written nothing yet."""
    llm.begin()
    llm.replies.append(f"{OPENED} [1]")
    llm.scores.append(ENOUGH)


def test_it_is_told_before_passages_are_read_and_once_the_answer_is_there() -> None:
    llm = MeteredLLM([f"{OPENED} [1]"], [ENOUGH])
    kinds, (before, after) = costs(llm)
    assert kinds[:3] == ["retrieve", "cost", "relevance"]
    assert kinds[-1] == "cost"
    assert (before.values["read"], before.values["kept"]) == (0.0, 0.0)
    assert after.values == {
        "read": round(llm.use.reading, 1),
        "written": round(llm.use.writing, 1),
        "kept": round(llm.use.kept / 100, 1),
    }
    seconds = llm.use.reading + llm.use.writing
    # The script's reply is shorter than a usual one, and no sentence had to be checked.
    assert seconds <= before.values["least"] < before.values["most"]  # type: ignore[operator]
    assert float(str(before.values["least"])) < seconds + 2.5


def test_what_is_kept_need_not_be_read_again() -> None:
    llm = MeteredLLM([f"{OPENED} [1]"], [ENOUGH])
    _, (first, _) = costs(llm)
    asked_again(llm)
    _, (second, after) = costs(llm)
    seconds = float(str(second.values["kept"]))
    assert seconds > 1.0
    difference = float(str(first.values["least"])) - float(str(second.values["least"]))
    assert abs(difference - seconds) < 0.11
    assert float(str(after.values["kept"])) >= seconds


def test_nothing_is_foreseen_before_the_model_was_measured() -> None:
    llm = MeteredLLM([f"{OPENED} [1]"], [ENOUGH])
    llm.measured = False
    kinds, (after,) = costs(llm)
    assert kinds[-1] == "cost"
    assert after.values.keys() == {"read", "written"}
    assert costs(ScriptedLLM([f"{OPENED} [1]"], [ENOUGH])) == (
        [kind for kind in kinds if kind != "cost"],
        [],
    )


def test_a_budget_bounds_what_is_foreseen_and_one_that_is_too_small_shows() -> None:
    def forecast(seconds: float) -> dict[str, float]:
        llm = MeteredLLM([f"{OPENED} [1]"] * 9, [ENOUGH, {"5": 1}] * 9)
        _, steps = costs(llm, budget=seconds)
        return {name: float(str(value)) for name, value in steps[0].values.items()}

    free, ample, tight, short = map(forecast, (0, 1000, 9, 0.5))
    assert "budget" not in free
    assert (ample["least"], ample["most"]) == (free["least"], free["most"])
    assert tight["least"] < tight["most"] <= tight["budget"] <= 9 < free["most"]
    assert short["least"] == short["most"] == free["least"] > short["budget"]
