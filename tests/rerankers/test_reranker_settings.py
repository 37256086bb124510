"""From settings to a reranker, and from there into an answer's trace."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest
from fakes import HashEmbedder
from rerank_passages import ENGLISH, ids, passage
from scripted_llm import ScriptedLLM

from localrag import factory
from localrag.config.settings import (
    RERANKERS,
    CrossEncoderReranking,
    KeywordReranking,
    LLMReranking,
    NoReranking,
    Settings,
    load_settings,
    with_reranker,
)
from localrag.errors import ConfigError, ModelNotFoundError
from localrag.models.llms.base import Options
from localrag.models.llms.choices import LogitChooser
from localrag.models.registry.store import ModelStore
from localrag.rag.base import Toolkit
from localrag.rag.grading import Grader
from localrag.rag.pipeline import Pipeline
from localrag.rag.reading import Bounds
from localrag.rag.standard import standard_rag
from localrag.rerankers.base import Reranking
from localrag.rerankers.keyword import KeywordReranker
from localrag.types import Answer, Place, ScoredChunk


def load(tmp_path: Path, text: str = "", **variables: str) -> Settings:
    file = tmp_path / "config.toml"
    file.write_text(text)
    return load_settings(environment={"LOCALRAG_CONFIG": str(file)} | variables)


def test_a_reranker_is_chosen_by_its_kind(tmp_path: Path) -> None:
    assert load(tmp_path).reranker == NoReranking()
    llm = load(tmp_path, '[reranker]\nkind = "llm"\ncandidates = 5\n')
    assert llm.reranker == LLMReranking(candidates=5)
    by_variable = load(
        tmp_path, LOCALRAG_RERANKER_KIND="cross-encoder", LOCALRAG_RERANKER_MODEL="mine"
    )
    assert by_variable.reranker == CrossEncoderReranking(candidates=20, model="mine")
    with pytest.raises(ConfigError, match="candidates"):
        load(tmp_path, '[reranker]\nkind = "keyword"\ncandidates = 0\n')
    with pytest.raises(ConfigError, match="model"):
        load(tmp_path, '[reranker]\nkind = "keyword"\nmodel = "x"\n')


def test_a_kind_chosen_for_one_call_keeps_what_the_settings_say_of_it(tmp_path: Path) -> None:
    settings = load(tmp_path, '[reranker]\nkind = "cross-encoder"\nmodel = "mine"\n')
    assert with_reranker(settings, None) is settings
    assert with_reranker(settings, "cross-encoder") is settings
    assert with_reranker(settings, "llm").reranker == LLMReranking()
    kinds = [with_reranker(settings, kind).reranker.__struct_config__.tag for kind in RERANKERS]
    assert kinds == list(RERANKERS)


def test_the_command_line_names_the_same_kinds() -> None:
    from localrag.cli import output

    assert output.RERANKERS == RERANKERS


def make(settings: Settings, folder: Path, model: ScriptedLLM | None = None) -> Reranking | None:
    def load_model() -> factory.Model:
        assert model is not None, "no language model was wanted"
        return factory.Model(model, model, lambda: None)

    return factory.make_reranking(settings, ModelStore(folder), load_model)


def test_none_and_keyword_and_llm(tmp_path: Path) -> None:
    assert make(Settings(), tmp_path) is None
    keyword = make(Settings(reranker=KeywordReranking(candidates=7)), tmp_path)
    assert keyword is not None
    assert (keyword.name, keyword.candidates) == ("keyword", 7)
    model = ScriptedLLM(scores=[{"Yes": 1, "No": 9}, {"Yes": 9, "No": 1}])
    llm = make(Settings(reranker=LLMReranking()), tmp_path, model)
    assert llm is not None
    assert ids(llm.apply("Who?", ENGLISH[:2], 1)[0]) == [2]


def test_without_a_cross_encoder_the_error_says_what_to_pull(tmp_path: Path) -> None:
    with pytest.raises(ModelNotFoundError, match="models pull bge-reranker-v2-m3"):
        make(Settings(reranker=CrossEncoderReranking()), tmp_path)
    with pytest.raises(ModelNotFoundError, match="bge-reranker-v2-m3"):
        make(Settings(reranker=CrossEncoderReranking(model="bge-reranker-v2-m3")), tmp_path)


@pytest.mark.models("ms-marco-minilm-l12-v2-int8")
def test_the_pulled_cross_encoder_is_found_and_told_where_it_does_not_serve(
    models_dir: Callable[[str], Path],
) -> None:
    folder = models_dir("ms-marco-minilm-l12-v2-int8").parent
    reranking = make(Settings(reranker=CrossEncoderReranking()), folder)
    assert reranking is not None
    ranking, step = reranking.apply("Who presented the perceptron?", ENGLISH, 2)
    assert (ids(ranking), step.notes) == ([2, 4], ())
    chinese = [passage(1, "茶树长在山坡上。"), passage(2, "感知机由罗森布拉特提出。")]
    ranking, step = reranking.apply("谁提出了感知机？", chinese, 2)
    assert ids(ranking) == [1, 2]
    assert [note.kind for note in step.notes] == ["language not served"]


def test_a_folder_of_ones_own_is_opened_by_what_it_holds(tmp_path: Path) -> None:
    from tiny_cross_encoder import save_tiny_cross_encoder

    save_tiny_cross_encoder(tmp_path)
    settings = Settings(reranker=CrossEncoderReranking(model=str(tmp_path)))
    reranking = make(settings, tmp_path / "models")
    assert reranking is not None
    ranking, step = reranking.apply("谁？", ENGLISH, 3)
    assert len(ranking) == 3
    assert step.notes == (), "nobody said that it does not serve Chinese"


def test_an_answer_is_written_from_the_reranked_passages_and_the_trace_says_so() -> None:
    limits: list[int] = []

    def retrieve(question: str, k: int) -> list[ScoredChunk]:
        limits.append(k)
        return list(ENGLISH)[:k]

    llm = ScriptedLLM(["Frank Rosenblatt presented the perceptron [1]."], [{"Yes": 1}])
    tools = Toolkit(
        retrieve=retrieve,
        llm=llm,
        tokenize=lambda text: text.lower().replace(".", "").split(),
        embedder=HashEmbedder(),
        place_of=lambda chunk, offset: Place(0, number=1),
        k=1,
        generation=Options(max_tokens=50),
        reranking=Reranking("keyword", KeywordReranker(), 3),
    )
    rag = Pipeline(tools, Grader(LogitChooser(llm)), standard_rag(Bounds(0.8, 0.5)))
    *_, answer = rag.stream("Who presented the perceptron?")
    assert isinstance(answer, Answer)
    assert limits == [3]
    assert ids(list(answer.contexts)) == [2]
    assert [step.kind for step in answer.trace][:2] == ["retrieve", "rerank"]
    assert dict(answer.trace[1].values) == {"reranker": "keyword", "kept": 1, "read": 3}


def test_search_without_reranking_imports_none_of_it(tmp_path: Path) -> None:
    import subprocess
    import sys

    code = (
        "import sys, localrag.api\n"
        "loaded = {name for name in sys.modules if name.startswith('localrag.rerankers')}\n"
        "assert loaded <= {'localrag.rerankers', 'localrag.rerankers.base'}, loaded\n"
        "assert 'localrag.evaluation' not in sys.modules\n"
    )
    subprocess.run([sys.executable, "-c", code], check=True, timeout=60)
