import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest
from passages import CHINESE, CHINESE_QUESTIONS, ENGLISH, ENGLISH_QUESTIONS

from localrag.errors import ModelError
from localrag.models.embeddings import runtime, use_conversion
from localrag.models.embeddings.use import UniversalSentenceEncoder

pytestmark = pytest.mark.models("use-multilingual-v3", "bge-small-en-v1.5-int8")


def test_same_vectors_as_the_published_graph(models_dir) -> None:
    """The whole graph as published, run on each text alone, is the reference."""
    folder = models_dir("use-multilingual-v3")
    session = runtime.open_session(
        next(folder.glob("*.onnx")), operators=runtime.extension_operators()
    )
    texts = [*ENGLISH, *CHINESE, "", " ".join(ENGLISH * 20)]
    reference = [
        session.run(None, {"inputs": np.array([text], dtype=object)})[0][0] for text in texts
    ]
    vectors = UniversalSentenceEncoder(folder).embed_documents(texts)
    assert np.sum(vectors * np.array(reference), axis=1).min() > 0.99999


def test_a_question_is_the_same_with_and_without_the_cache(
    models_dir, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    folder = models_dir("use-multilingual-v3")
    questions = [*ENGLISH_QUESTIONS, *CHINESE_QUESTIONS, "", "a\0b", "\ud800"]
    plain = UniversalSentenceEncoder(folder)
    expected = plain.embed_queries(questions)
    np.testing.assert_array_equal(plain.embed_documents(questions), expected)

    UniversalSentenceEncoder(folder, cache_dir=tmp_path)
    monkeypatch.delattr(use_conversion, "_convert")
    cached = UniversalSentenceEncoder(folder, cache_dir=tmp_path)
    np.testing.assert_array_equal(cached.embed_queries(questions), expected)
    assert "_tokenizer_session" not in vars(cached), "the slow tokenizer was opened"


def test_a_read_only_or_damaged_cache_is_no_error(models_dir, tmp_path: Path) -> None:
    folder = models_dir("use-multilingual-v3")
    (tmp_path / "file").write_bytes(b"in the way")
    blocked = UniversalSentenceEncoder(folder, cache_dir=tmp_path / "file" / "cache")
    expected = blocked.embed_documents(["a question"])
    np.testing.assert_array_equal(blocked.embed_queries(["a question"]), expected)

    UniversalSentenceEncoder(folder, cache_dir=tmp_path / "cache")
    (file,) = (tmp_path / "cache").iterdir()
    whole = file.read_bytes()
    for damaged in (b"", b"PK\x03\x04 cut off", b"\x93NUMPY", whole[:1000]):
        file.write_bytes(damaged)
        again = UniversalSentenceEncoder(folder, cache_dir=tmp_path / "cache")
        np.testing.assert_array_equal(again.embed_queries(["a question"]), expected)
        assert file.read_bytes() == whole


def test_text_of_any_length_is_read_to_its_end(models_dir) -> None:
    """The model itself cuts nothing: `max_tokens` is a bound of quality."""
    embedder = UniversalSentenceEncoder(models_dir("use-multilingual-v3"))
    text = " ".join(ENGLISH * 40)
    assert embedder.count_tokens([text])[0] > 3000
    first, second = embedder.embed_documents([text + " ships", text + CHINESE[4] * 20])
    assert float(first @ second) < 0.999


def test_other_files_are_refused(tmp_path: Path, models_dir) -> None:
    with pytest.raises(ModelError, match="begins with a SentencePiece operator"):
        UniversalSentenceEncoder(models_dir("bge-small-en-v1.5-int8"))
    whole = next(models_dir("use-multilingual-v3").glob("*.onnx"))
    with whole.open("rb") as file:
        (tmp_path / "cut.onnx").write_bytes(file.read(3_000_000))
    (tmp_path / "an_empty_one.onnx").touch()
    with pytest.raises(ModelError, match=r"cut\.onnx is not a Universal Sentence Encoder"):
        UniversalSentenceEncoder(tmp_path)
    (tmp_path / "cut.onnx").write_bytes(b"\x3a\x18\x0a\x16 SentencepieceTokenizer")
    with pytest.raises(ModelError, match=r"cut\.onnx is not a Universal Sentence Encoder"):
        UniversalSentenceEncoder(tmp_path)


def test_a_missing_operator_library_names_the_package(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("importlib.util.find_spec", lambda name: None)
    with pytest.raises(ModelError, match="pip install onnxruntime-extensions"):
        runtime.extension_operators()


def test_neither_torch_nor_its_friends_are_imported(models_dir, tmp_path: Path) -> None:
    program = """
import sys
from pathlib import Path
from localrag.models.embeddings.folder import kind_of
from localrag.models.embeddings.onnx import OnnxEmbedder
from localrag.models.embeddings.use import UniversalSentenceEncoder
import localrag.models.embeddings.sentence_transformers
use, bge, cache = map(Path, sys.argv[1:])
assert (kind_of(use), kind_of(bge)) == ("use", "onnx")
embedder = UniversalSentenceEncoder(use, cache_dir=cache)
embedder.embed_documents(["a"]), embedder.embed_queries(["a"]), embedder.fingerprint
OnnxEmbedder(bge, cache_dir=cache).embed_documents(["a"])
heavy = {"torch", "transformers", "sentence_transformers", "onnx", "onnxruntime_extensions"}
print(sorted(heavy & set(sys.modules)))
"""
    folders = [models_dir("use-multilingual-v3"), models_dir("bge-small-en-v1.5-int8"), tmp_path]
    result = subprocess.run(
        [sys.executable, "-c", program, *map(str, folders)],
        cwd=Path(__file__).parents[2],
        capture_output=True,
        text=True,
        timeout=120,
        check=True,
    )
    assert result.stdout.strip() == "[]"
