"""Model folders that name code of their own: refused before any library opens them.

sentence-transformers and transformers load classes by the names that a folder's JSON files give.
They are told not to run code of the folder; which names they take nevertheless depends on their
version, so that it is not left to them. These files also say how they open the weights, and one of
the options lets them run a pickle, so that options count only by name.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from localrag.errors import ModelError
from localrag.models.embeddings.conventions import read_json, unreadable
from localrag.system.files import is_real_folder

OURS = ("sentence_transformers.", "torch.nn.")
"""Where classes may come from: those of the libraries that compute a model."""

LARGEST = 16 * 2**20
"""Bytes of a JSON file that describes a model."""

_DATA = frozenset({"tokenizer.json", "vocab.json"})
"""Vocabularies, which name no classes."""

_OUTSIDE = re.compile(r"[/\\]|[A-Za-z]:|(.*[/\\])?\.\.([/\\]|$)")
"""How the path of a module begins that leads out of the model's folder."""

_DOTTED = re.compile(r"[^\W\d]\w*(?:\.\w+)+")
_CLASS_KEYS = frozenset(
    {
        "type",
        "types",
        "activation_fn",
        "activation_function",
        "sbert_ce_default_activation_function",
        "tokenizer_class",
    }
)

_ELSEWHERE = ("tokenizer_name_or_path", "base_model_name_or_path")
"""Under which names a file has another folder, or a model of the hub, that is opened as well."""

_ARGUMENTS = re.compile(r"(model|automodel|tokenizer|processor|config)_(args|kwargs)")
"""Where a file has what goes to the functions that open a model, in all versions."""

_OPTIONS = frozenset(
    {
        *("add_bos_token", "add_eos_token", "add_pooling_layer", "add_prefix_space"),
        *("attention_probs_dropout_prob", "attn_implementation", "classifier_dropout"),
        "clean_up_tokenization_spaces",
        *("do_lower_case", "dtype", "fix_mistral_regex", "hidden_dropout_prob"),
        *("is_causal", "local_files_only", "low_cpu_mem_usage", "max_length"),
        *("max_pixels", "max_position_embeddings", "min_pixels", "model_max_length"),
        *("num_labels", "padding", "padding_side", "problem_type", "reference_compile"),
        *("sliding_window", "strip_accents", "torch_dtype", "truncation", "truncation_side"),
        *("unpad_inputs", "use_cache", "use_fast", "use_memory_efficient_attention"),
        "use_safetensors",
    }
)
"""What may stand there: how numbers are computed and texts cut."""

_WORD = re.compile(r"[\w.-]*")
"""A text in an option. One with a slash may name code on a hub (`attn_implementation`)."""


def refuse_foreign_code(folder: Path) -> None:
    """Raises `ModelError` where a JSON file of the folder names code that is not the libraries'.

    Also where one has an option that is not known, or where a folder is a link: what is in it
    would be opened without having been looked at.
    """
    for path in sorted(folder.rglob("*")):
        if path.is_dir() and not is_real_folder(path):
            raise ModelError(
                "{path} is a link to a folder; a model's folder may contain links to files only.",
                hint="Put a copy of the folder in its place, or choose another model.",
                path=path,
            )
        if path.suffix.lower() != ".json" or path.name in _DATA or not path.is_file():
            continue
        if path.stat().st_size > LARGEST:
            raise ModelError(
                "{path} is larger than any file describing a model should be.",
                hint="Download the model from where it was published.",
                path=path,
            )
        try:
            value = read_json(path, Any)
            names, options = list(_code_names(value)), list(_unknown_options(value))
        except RecursionError as error:  # which JSON's reader may still take
            raise unreadable(path, error) from error
        for name in names:
            raise ModelError(
                "{path} asks to run code that comes with the model or from elsewhere: {name}.",
                hint="localrag never runs a model's code. Choose a model that needs none.",
                path=path,
                name=name,
            )
        for option in options:
            raise ModelError(
                "{path} opens the model with an option that is not known to be harmless: {name}.",
                hint="Choose a model without it: with such options, opening a model may run code.",
                path=path,
                name=option,
            )


def _code_names(value: Any, key: str = "") -> Iterator[str]:
    """Names of code, wherever they stand, and of modules outside the folder."""
    if isinstance(value, dict):
        # Version 5 of sentence-transformers takes modules from anywhere; here they stand unseen.
        types = value.get("types")
        places = [*types] if isinstance(types, dict) else [value.get("path")]
        if types or "type" in value:
            yield from (p for p in places if isinstance(p, str) and _OUTSIDE.match(p))
        for name, inner in value.items():
            if name == "auto_map" or (name in _ELSEWHERE and inner):
                yield json.dumps(inner, ensure_ascii=False)[:200]
            yield from _code_names(inner, key if key == "types" else str(name))
    elif isinstance(value, list):
        for inner in value:
            yield from _code_names(inner, key)
    elif (
        isinstance(value, str)
        and key in _CLASS_KEYS
        and _DOTTED.fullmatch(value)
        and not value.startswith(OURS)
    ):
        yield value


def _unknown_options(value: Any) -> Iterator[str]:
    """Options for opening a model that are not of `_OPTIONS`, wherever they stand."""
    if isinstance(value, dict):
        for name, inner in value.items():
            if _ARGUMENTS.fullmatch(name) and isinstance(inner, dict):
                for option, setting in inner.items():
                    if not _is_harmless(option, setting):
                        yield f"{name}.{option}"[:200]
            yield from _unknown_options(inner)
    elif isinstance(value, list):
        for inner in value:
            yield from _unknown_options(inner)


def _is_harmless(option: str, setting: object) -> bool:
    if setting is None or (option, setting) == ("trust_remote_code", False):
        return True
    is_word = not isinstance(setting, str) or _WORD.fullmatch(setting) is not None
    return option in _OPTIONS and is_word and not isinstance(setting, dict | list)
