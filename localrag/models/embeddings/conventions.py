"""How families of embedding models want to be used where their folder does not say."""

from __future__ import annotations

import json
import re
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal

import msgspec

from localrag.errors import ModelError

Pooling = Literal["cls", "mean"]


@dataclass(frozen=True, slots=True)
class Convention:
    """How token vectors become one vector, and what stands before a query or a passage."""

    pooling: Pooling
    query_prefix: str = ""
    passage_prefix: str = ""


def convention(folder: Path) -> Convention:
    """What the folder's files say, else what its model family is known to want.

    Sources of the prefixes: the model cards of BAAI/bge-*-v1.5 and intfloat/*e5-*.
    Raises ModelError where a JSON file of the folder is damaged.
    """
    family = _family(folder)
    prompts = read_json(folder / "config_sentence_transformers.json").get("prompts") or {}
    pooling = read_json(folder / "1_Pooling" / "config.json")
    mode: Pooling = "cls" if family.pooling == "cls" else "mean"
    if pooling:
        mode = "cls" if pooling.get("pooling_mode_cls_token") else "mean"
    # sentence-transformers writes empty prompts where nobody set any: they say nothing.
    return Convention(
        mode,
        str(prompts.get("query") or family.query_prefix),
        str(prompts.get("passage") or prompts.get("document") or family.passage_prefix),
    )


def languages(folder: Path) -> tuple[str, ...]:
    """The languages that the model's family was made for; empty where its name does not say."""
    names = _names(folder)
    if made_for := re.search(r"\b(?:bge|gte)-(?:small|base|large)-(zh|en)\b", names):
        return (made_for[1],)
    if re.search(r"\bm3e-(small|base|large)\b", names):
        return ("zh",)
    if re.search(r"(?<!multilingual-)\be5-(small|base|large)\b|\ball-minilm-", names):
        return ("en",)
    return ()


def _family(folder: Path) -> Convention:
    names = _names(folder)
    if re.search(r"\bbge-(small|base|large)-zh", names):
        return Convention("cls", "为这个句子生成表示以用于检索相关文章：")
    if re.search(r"\bbge-(small|base|large)-en", names):
        return Convention("cls", "Represent this sentence for searching relevant passages: ")
    if "bge-" in names:
        return Convention("cls")
    if re.search(r"\be5-(small|base|large)", names) and "instruct" not in names:
        return Convention("mean", "query: ", "passage: ")
    return Convention("mean")


def _names(folder: Path) -> str:
    """What the model is called by its folder and by its config, with - for _."""
    # A hub's cache keeps a model at models--OWNER--NAME/snapshots/COMMIT.
    named = folder.parent.parent if folder.parent.name == "snapshots" else folder
    original = str(read_json(folder / "config.json").get("_name_or_path", "")).rstrip("/\\")
    base = re.split(r"[/\\]", original)[-1]
    return f"{named.name} {base}".lower().replace("_", "-")


def read_json(path: Path, kind: Any = dict[str, Any]) -> Any:
    """What a JSON file holds, which must be of a kind; an empty object where there is no file.

    Raises ModelError where it holds anything else.
    """
    try:
        # Not decoded by msgspec, which refuses the NaN and Infinity that Python writes.
        return msgspec.convert(json.loads(path.read_bytes()), kind)
    except FileNotFoundError:
        return {}
    except (OSError, ValueError, RecursionError) as error:
        raise unreadable(path, error) from error


def unreadable(path: Path, error: Exception, library: str = "") -> ModelError:
    """What is said of a file that is damaged, or of a model that a library cannot open."""
    return ModelError(
        "{library} cannot open the model {path}: {reason}"
        if library
        else "The model file {path} cannot be read: {reason}",
        hint="Verify the model's files with `localrag models verify`.",
        library=library,
        path=str(path),
        reason=str(error).strip() or type(error).__name__,
    )
