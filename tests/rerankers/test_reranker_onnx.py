from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest
from rerank_passages import passage

from localrag.errors import ModelError
from localrag.rerankers.onnx_cross_encoder import OnnxCrossEncoder

BERLIN = "How many people live in Berlin?"
CARD = [
    "Berlin had a population of 3,520,031 registered inhabitants in an area of 891.82 "
    "square kilometers.",
    "Berlin is well known for its museums.",
]


@pytest.fixture(scope="module")
def model(models_dir: Callable[[str], Path]) -> OnnxCrossEncoder:
    return OnnxCrossEncoder(models_dir("ms-marco-minilm-l12-v2-int8"))


@pytest.mark.models("ms-marco-minilm-l12-v2-int8", "bge-small-en-v1.5-int8")
def test_the_pair_of_the_model_card(model: OnnxCrossEncoder) -> None:
    scores = model.scores(BERLIN, CARD)
    assert scores.dtype == np.float32
    assert scores.shape == (2,)
    # The card of the fp32 release says 9.22 and -4.08. What int8 gives depends on the processor:
    # 9.2 with instructions for it (AVX-512 VNNI), 8.87 with AVX2, which saturates.
    assert scores == pytest.approx([9.22, -4.08], abs=0.7)


@pytest.mark.models("ms-marco-minilm-l12-v2-int8", "bge-small-en-v1.5-int8")
def test_neighbours_and_their_number_change_nothing(model: OnnxCrossEncoder) -> None:
    neighbours = ["word " * length for length in range(1, 30)]
    together = model.scores(BERLIN, [*neighbours, *CARD])
    assert together[-2:].tolist() == model.scores(BERLIN, CARD).tolist()


@pytest.mark.models("ms-marco-minilm-l12-v2-int8", "bge-small-en-v1.5-int8")
def test_a_long_passage_is_cut_at_its_end_and_a_long_question_leaves_room(
    model: OnnxCrossEncoder,
) -> None:
    first, longer = model.scores(BERLIN, [CARD[0] + " word" * 600, CARD[0] + " word" * 2000])
    assert first == longer
    assert first > 0
    by_question = model.scores("word " * 2000, ["tea " * 400, "museum " * 400])
    assert by_question[0] != by_question[1]


@pytest.mark.models("ms-marco-minilm-l12-v2-int8", "bge-small-en-v1.5-int8")
def test_an_answer_deep_in_a_long_passage_counts_as_if_it_stood_alone(
    model: OnnxCrossEncoder,
) -> None:
    filler = "Tea grows on the slopes above the river, where the fog keeps the leaves soft. "
    deep, alone = model.scores(BERLIN, [filler * 18 + CARD[0], CARD[0]])
    assert deep > 0.7 * alone > 6


@pytest.mark.models("ms-marco-minilm-l12-v2-int8", "bge-small-en-v1.5-int8")
def test_the_heading_is_read_with_the_passage(model: OnnxCrossEncoder) -> None:
    under, bare = model.scores(BERLIN, ["Berlin\nIt has 3.5 million.", "It has 3.5 million."])
    ranking = model.rerank(
        BERLIN,
        [passage(1, "It has 3.5 million."), passage(2, "It has 3.5 million.", 0, "Berlin")],
        2,
    )
    assert [chunk.chunk.id for chunk in ranking] == [2, 1]
    assert [chunk.score for chunk in ranking] == pytest.approx([under, bare])


@pytest.mark.models("ms-marco-minilm-l12-v2-int8", "bge-small-en-v1.5-int8")
def test_no_torch_is_imported(models_dir: Callable[[str], Path]) -> None:
    import subprocess
    import sys

    folder = models_dir("ms-marco-minilm-l12-v2-int8")
    code = (
        "import sys; from pathlib import Path\n"
        "from localrag.rerankers.onnx_cross_encoder import OnnxCrossEncoder\n"
        f"OnnxCrossEncoder(Path({str(folder)!r})).scores('a', ['b'])\n"
        "assert not {'torch', 'transformers', 'sentence_transformers'} & set(sys.modules)\n"
    )
    subprocess.run([sys.executable, "-c", code], check=True, timeout=120)


def test_a_folder_without_such_a_model(tmp_path: Path) -> None:
    with pytest.raises(ModelError, match=r"tokenizer\.json"):
        OnnxCrossEncoder(tmp_path)


@pytest.mark.models("ms-marco-minilm-l12-v2-int8", "bge-small-en-v1.5-int8")
def test_an_embedding_model_is_not_a_cross_encoder(models_dir: Callable[[str], Path]) -> None:
    with pytest.raises(ModelError, match="not a cross-encoder"):
        OnnxCrossEncoder(models_dir("bge-small-en-v1.5-int8"))
