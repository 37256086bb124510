"""What a library keeps of the passages that the model has read, and when it goes."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest

from localrag import LocalRAG, load_settings
from localrag.library.folder.gate import KV_FOLDER

LAMP = "The lamp of the lighthouse is lit at dusk by its keeper."
TEA = "Tea is served in the garden at four in the afternoon."


def states(rag: LocalRAG) -> list[Path]:
    return sorted((rag.library.directory / KV_FOLDER).glob("*"))


@pytest.mark.models("use-multilingual-v3", "smollm2-135m-instruct-q4")
def test_states_of_passages_go_with_a_document(
    models_dir: Callable[[str], Path], tmp_path: Path
) -> None:
    models_dir("use-multilingual-v3")
    model = next(models_dir("smollm2-135m-instruct-q4").glob("*.gguf"))
    lamp, tea = tmp_path / "lamp.txt", tmp_path / "tea.txt"
    lamp.write_text(LAMP)
    tea.write_text(TEA)

    def opened(**options: object) -> LocalRAG:
        defaults = {
            "llm.model": str(model),
            "llm.context_window": 1024,
            "llm.threads": 1,
            "answer.mode": "self-rag",
            "answer.k": 1,
            "answer.max_tokens": 4,
            "self_rag.min_retrieval": 0.0,
            "answer.strict": True,
        }
        return LocalRAG.open(tmp_path / "library", settings=load_settings(defaults | options))

    with opened(**{"llm.kv_disk_mb": 0}) as rag:
        rag.add([lamp, tea])
        assert rag.ask("When is the lamp of the lighthouse lit?").metrics is not None
        assert states(rag) == [], "a cap of 0 keeps nothing"
    with opened() as rag:
        first = rag.ask("When is the lamp of the lighthouse lit?")
        files = states(rag)
        assert files
    with opened() as rag:
        again = rag.ask("When is the lamp of the lighthouse lit?")
        assert states(rag) == files, "found again, not written again"
        scores, before = (
            [step.score for step in answer.trace if step.kind != "cost"]
            for answer in (again, first)
        )
        assert scores == before
        assert again.text == first.text
        rag.remove([tea])
        assert states(rag) == [], "which file holds which passage is not known: all go"
        after = rag.ask("When is the lamp of the lighthouse lit?")
        assert after.text == first.text
