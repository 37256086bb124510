"""No code of a model folder is run, and none that it names."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from localrag.errors import ModelError
from localrag.models.embeddings import foreign_code
from localrag.models.embeddings.foreign_code import LARGEST, refuse_foreign_code
from localrag.models.embeddings.sentence_transformers import SentenceTransformerEmbedder
from localrag.rerankers.cross_encoder import SentenceTransformersCrossEncoder

REMOTE = {"auto_map": {"AutoModel": "modeling_evil.EvilModel"}, "model_type": "bert"}


def write(folder: Path, name: str, value: object) -> Path:
    path = folder / name
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(json.dumps(value), encoding="utf-8")
    return path


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("config.json", REMOTE),
        ("CONFIG.JSON", REMOTE),
        ("config.json", {"text_config": {"deep": [REMOTE]}}),
        ("tokenizer_config.json", {"auto_map": {"AutoTokenizer": ["evil.Tokenizer", None]}}),
        ("modules.json", [{"idx": 0, "path": "", "type": "evil.Module"}]),
        ("modules.json", [{"idx": 0, "path": "", "type": "subprocess.Popen"}]),
        ("0_Router/router_config.json", {"types": {"query": "os.system"}}),
        ("2_Dense/config.json", {"activation_function": "torch.hub.load"}),
        (
            "config.json",
            {"sentence_transformers": {"activation_fn": "torch.utils.collect_env.main"}},
        ),
        ("config.json", {"sbert_ce_default_activation_function": "evil.run"}),
        ("0_WordEmbeddings/wordembedding_config.json", {"tokenizer_class": "evil.Tokenizer"}),
        ("modules.json", [{"path": "../other", "type": "sentence_transformers.models.Pooling"}]),
        ("modules.json", [{"path": "/tmp/x", "type": "sentence_transformers.models.Pooling"}]),
        ("router_config.json", {"types": {"a\\..\\..\\b": "sentence_transformers.models.Pooling"}}),
        ("sentence_bert_config.json", {"tokenizer_name_or_path": "/tmp/elsewhere"}),
        ("adapter_config.json", {"base_model_name_or_path": "somebody/model"}),
    ],
)
def test_what_names_other_code_is_refused(tmp_path: Path, name: str, value: object) -> None:
    path = write(tmp_path, name, value)
    with pytest.raises(ModelError, match="asks to run code") as error:
        refuse_foreign_code(tmp_path)
    assert error.value.values["path"] == path


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("sentence_bert_config.json", {"model_args": {"weights_only": False}}),
        ("sentence_xlnet_config.json", {"model_kwargs": {"weights_only": True}}),
        ("0_Router/query/sentence_bert_config.json", {"model_kwargs": {"weights_only": 0}}),
        ("router_config.json", {"a": [{"b": {"tokenizer_args": {"trust_remote_code": True}}}]}),
        ("sentence_bert_config.json", {"processor_kwargs": {"subfolder": "elsewhere"}}),
        ("sentence_bert_config.json", {"config_args": {"dtype": {"text_config": "x"}}}),
        ("sentence_bert_config.json", {"config_kwargs": {"attn_implementation": "evil/kernel"}}),
    ],
)
def test_options_that_are_not_known_are_refused(tmp_path: Path, name: str, value: object) -> None:
    path = write(tmp_path, name, value)
    with pytest.raises(ModelError, match="not known to be harmless") as error:
        refuse_foreign_code(tmp_path)
    assert error.value.values["path"] == path


def test_a_folder_that_is_a_link_is_refused(tmp_path: Path) -> None:
    """What is in it would be opened, and is not looked at; a hub's cache links single files."""
    model, other = tmp_path / "model", tmp_path / "other"
    write(other, "config.json", REMOTE)
    write(other, "good.json", {"architectures": ["BertModel"]})
    (model / "deep").mkdir(parents=True)
    (model / "config.json").symlink_to(other / "good.json")
    refuse_foreign_code(model)
    for place in (model / "sub", model / "deep" / "sub"):
        place.symlink_to(other, target_is_directory=True)
        with pytest.raises(ModelError, match="is a link to a folder") as error:
            refuse_foreign_code(model)
        assert error.value.values["path"] == place
        place.unlink()
    (model / "tokenizer_config.json").symlink_to(other / "config.json")
    with pytest.raises(ModelError, match="asks to run code"):
        refuse_foreign_code(model)


def test_what_the_libraries_bring_is_taken(tmp_path: Path) -> None:
    write(tmp_path, "config.json", {"_name_or_path": "a/b", "model_type": "bert"})
    write(tmp_path, "tokenizer_config.json", {"tokenizer_class": "BertTokenizer"})
    write(tmp_path, "modules.json", [{"type": "sentence_transformers.models.Pooling"}])
    write(
        tmp_path, "2_Dense/config.json", {"activation_function": "torch.nn.modules.linear.Identity"}
    )
    options = {"torch_dtype": "bfloat16", "attn_implementation": "sdpa", "add_pooling_layer": False}
    options |= {"trust_remote_code": False, "local_files_only": True, "revision": None}
    arguments = {"model_args": options, "tokenizer_args": {"padding_side": "left"}}
    write(tmp_path, "sentence_bert_config.json", {"max_seq_length": 512, **arguments})
    write(tmp_path, "data_config.json", [{"name": "reddit.title.jsonl", "weight": 1}])
    write(tmp_path, "tokenizer.json", {"model": {"vocab": {"auto_map": 1}}})
    refuse_foreign_code(tmp_path)


def test_what_cannot_be_looked_at_is_refused(tmp_path: Path) -> None:
    path = tmp_path / "config.json"
    path.write_text("[" * 100_000)
    with pytest.raises(ModelError, match="cannot be read"):
        refuse_foreign_code(tmp_path)
    path.write_text(" " * (LARGEST + 1))
    with pytest.raises(ModelError, match="larger than"):
        refuse_foreign_code(tmp_path)


@pytest.mark.parametrize("opens", [SentenceTransformerEmbedder, SentenceTransformersCrossEncoder])
def test_it_is_refused_before_a_library_opens_the_folder(
    tmp_path: Path, opens: type, monkeypatch: pytest.MonkeyPatch
) -> None:
    import sentence_transformers

    for name in ("SentenceTransformer", "CrossEncoder"):
        monkeypatch.setattr(sentence_transformers, name, lambda *_, **__: pytest.fail("opened"))
    write(tmp_path, "config.json", REMOTE)
    (tmp_path / "model.safetensors").write_bytes(b"")
    with pytest.raises(ModelError, match="asks to run code"):
        opens(tmp_path)


@pytest.mark.parametrize("opens", [SentenceTransformerEmbedder, SentenceTransformersCrossEncoder])
def test_the_libraries_are_told_not_to_run_it_either(
    tmp_path: Path, opens: type, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The second line: with our own check taken out, code beside the model is still not run."""
    room = "localrag.models.embeddings.sentence_transformers"
    monkeypatch.setattr(f"{room}.refuse_foreign_code", lambda _: None)
    ran = tmp_path / "ran"
    code = f"open({str(ran)!r}, 'w')\nclass EvilModel: pass\nclass EvilConfig: pass\n"
    (tmp_path / "modeling_evil.py").write_text(code)
    (tmp_path / "model.safetensors").write_bytes(b"")
    mapped = {"AutoConfig": "modeling_evil.EvilConfig", "AutoModel": "modeling_evil.EvilModel"}
    write(tmp_path, "config.json", {"auto_map": mapped, "model_type": "evil"})
    with pytest.raises(ModelError, match="cannot open"):
        opens(tmp_path)
    write(
        tmp_path,
        "modules.json",
        [{"idx": 0, "name": "0", "path": "", "type": "modeling_evil.EvilModel"}],
    )
    monkeypatch.chdir(tmp_path)
    monkeypatch.syspath_prepend(str(tmp_path))
    if opens is SentenceTransformerEmbedder:
        with pytest.raises(ModelError, match="cannot open"):
            opens(tmp_path)
    assert not ran.exists()


_TRANSFORMER = "sentence_transformers.models.Transformer"
_ROUTER = "sentence_transformers.models.Router"


@pytest.mark.parametrize("opens", [SentenceTransformerEmbedder, SentenceTransformersCrossEncoder])
@pytest.mark.parametrize("place", ["", "0_Transformer", "0_Router/query"])
def test_the_libraries_are_told_to_read_weights_as_data(
    tmp_path: Path, opens: type, place: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The second line for pickles: our own check taken out, the folder's word does not count."""
    import torch
    from transformers import BertConfig

    ran = tmp_path / "ran"

    class Evil:
        def __reduce__(self) -> object:
            return (Path.touch, (ran,))

    room = "localrag.models.embeddings.sentence_transformers"
    monkeypatch.setattr(f"{room}.refuse_foreign_code", lambda _: None)
    model = tmp_path / "model"
    shape = {"hidden_size": 8, "num_hidden_layers": 1, "num_attention_heads": 1}
    architecture = "BertModel" if opens is SentenceTransformerEmbedder else _CLASSIFIER
    config = BertConfig(vocab_size=9, architectures=[architecture], num_labels=1, **shape)
    for folder in {model, model / place}:
        config.save_pretrained(folder)
        (folder / "vocab.txt").write_text("[PAD]\n[UNK]\n[CLS]\n[SEP]\n[MASK]\na\nb\nc\nd")
        write(folder, "tokenizer_config.json", {"tokenizer_class": "BertTokenizer"})
        torch.save({"evil": Evil()}, folder / "pytorch_model.bin")
        arguments = {"model_args": {"weights_only": False}, "max_seq_length": 8}
        write(folder, "sentence_bert_config.json", arguments)
    root, _, inner = place.partition("/")
    modules = [{"idx": 0, "name": "0", "path": root, "type": _ROUTER if inner else _TRANSFORMER}]
    write(model, "modules.json", modules)
    if opens is SentenceTransformersCrossEncoder:
        write(model, "config_sentence_transformers.json", {"model_type": "CrossEncoder"})
    if inner:
        router = {
            "types": {inner: _TRANSFORMER},
            "structure": {inner: [inner]},
            "parameters": {"default_route": inner},
        }
        write(model / root, "router_config.json", router)
    with pytest.raises(ModelError, match="Weights only load failed"):
        opens(model)
    assert not ran.exists()


_CLASSIFIER = "BertForSequenceClassification"


@pytest.mark.models("all-minilm-l6-v2")
def test_the_models_of_the_catalogue_pass(models_dir) -> None:  # type: ignore[no-untyped-def]
    refuse_foreign_code(models_dir("all-minilm-l6-v2"))


def test_a_description_that_is_too_deep_is_refused(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """As readers of JSON that have no limit of their own, or a higher one, may give it."""
    deep: object = 1
    for _ in range(5000):
        deep = [deep]
    write(tmp_path, "config.json", {})
    monkeypatch.setattr(foreign_code, "read_json", lambda *_: deep)
    with pytest.raises(ModelError, match="cannot be read"):
        refuse_foreign_code(tmp_path)
