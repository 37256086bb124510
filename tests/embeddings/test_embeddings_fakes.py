import numpy as np
from fakes import HashEmbedder


def test_texts_that_share_words_are_similar() -> None:
    embedder = HashEmbedder()
    passages = embedder.embed_documents(["the river carries ships", "疫苗训练免疫系统", ""])
    questions = embedder.embed_queries(["Which river has ships?", "免疫系统是什么"])
    assert np.argmax(questions @ passages.T, axis=1).tolist() == [0, 1]
    np.testing.assert_allclose(np.linalg.norm(passages, axis=1), 1, atol=1e-6)
    np.testing.assert_array_equal(
        HashEmbedder().embed_queries(["a b"]), embedder.embed_queries(["a b"])
    )
    assert embedder.calls == [["the river carries ships", "疫苗训练免疫系统", ""]]
    assert embedder.count_tokens(["the river", "免疫"]) == [2, 2]
