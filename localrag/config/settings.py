"""Settings: frozen records, read from one TOML file and the environment.

Order, the later wins: defaults, the settings file, `LOCALRAG_*` variables, the
command line. A variable is named after its key: `llm.model` is
`LOCALRAG_LLM_MODEL`, `allow_network` is `LOCALRAG_ALLOW_NETWORK`.

The settings file belongs to the user, never to a library: a library that
somebody hands over must not be able to open the network.
"""

from __future__ import annotations

import os
import tomllib
from collections.abc import Callable, Iterable, Iterator, Mapping
from copy import deepcopy
from pathlib import Path
from typing import Annotated, Any, Literal

import msgspec
from msgspec import Meta, Struct

from localrag.errors import ConfigError
from localrag.system.files import make_folder, rewrite

Count = Annotated[int, Meta(ge=0)]
Positive = Annotated[int, Meta(ge=1)]
Probability = Annotated[float, Meta(ge=0, le=1)]


class _Section(Struct, frozen=True, forbid_unknown_fields=True):
    """Settings that belong together."""


STARTER_EMBEDDING = "use-multilingual-v3"
"""It serves Chinese, English, and questions in the one about documents in the other."""


class LlamaCppSettings(_Section, frozen=True, tag_field="backend", tag="llama.cpp"):
    """A GGUF model in this process."""

    model: str = "qwen2.5-coder-1.5b-instruct-q4"
    """Model id, or the path of a GGUF file."""
    context_window: Annotated[int, Meta(ge=512)] = 8192
    """Tokens for prompt and answer together; the model's own limit caps it."""
    threads: Count = 0
    """0 chooses by the machine."""
    gpu_layers: Annotated[int, Meta(ge=-1)] = -1
    """-1: all, where a GPU build is installed and a GPU is there."""
    kv_type: Literal["f16", "q8_0"] = "f16"
    """How the KV cache is stored: "q8_0" takes half the memory and changes grades a little."""
    kv_disk_mb: Count = 1000
    """Megabytes of read passages that a library keeps on disk, so that they need not be read
    again; 0 keeps none. A passage of 200 tokens takes about 6."""


class OpenAISettings(_Section, frozen=True, tag_field="backend", tag="openai"):
    """An OpenAI-compatible server. A host other than loopback needs `allow_network`."""

    base_url: str | Annotated[tuple[str, ...], Meta(min_length=1)] = "http://127.0.0.1:8080/v1"
    """Several servers of the same model as a list: each call goes to the least busy one."""
    model: str = "default"
    key_variable: str = "OPENAI_API_KEY"
    """Name of the environment variable that holds the key; the key is never stored."""
    key_file: str = ""
    """Where the variable is not set: a file that holds the key, as containers get secrets."""
    key_keyring: str = ""
    """Where neither is set: the entry of the system's keyring, as "service/user"."""
    context_window: Annotated[int, Meta(ge=512)] = 8192
    timeout_seconds: Annotated[float, Meta(gt=0)] = 120.0
    """Longest silence of the server before the call fails."""
    max_retries: Count = 2
    calls: Count = 0
    """Calls at once to each server; 0: as many as one on this machine says that it takes, and four
    to one elsewhere."""
    hosted: bool = False
    """Whether what is sent there goes on to another machine, as through a gateway or a tunnel on
    this one, which cannot be known from its address: then `[hosted]` holds for it."""

    @property
    def base_urls(self) -> tuple[str, ...]:
        """Of all servers."""
        return (self.base_url,) if isinstance(self.base_url, str) else self.base_url


class SentenceChunking(_Section, frozen=True, tag_field="strategy", tag="sentences"):
    """Whole sentences up to a number of tokens of the embedding model, within headings."""

    target_tokens: Annotated[int, Meta(ge=16)] = 128
    overlap_sentences: Count = 1


class WindowChunking(_Section, frozen=True, tag_field="strategy", tag="windows"):
    """Windows of characters, wherever they fall."""

    size: Annotated[int, Meta(ge=50)] = 1000
    """Code points."""
    overlap: Count = 200
    """Code points; smaller than `size`."""


class EmbeddingSettings(_Section, frozen=True):
    """The embedding model; its kind is seen from its folder."""

    model: str = ""
    """Model id, or the path of a sentence-transformers or ONNX folder, or two ids with a `+`
    between: one of many languages, and beside it one for a single language. Empty: what the library
    was built with, which for a new one are those of the preset `starter`."""
    threads: Count = 0

    @property
    def name(self) -> str:
        """The model's id or path, where no library says which; see `factory.for_new_library`."""
        return self.model or STARTER_EMBEDDING


class ParsingSettings(_Section, frozen=True):
    """How files are read."""

    hidden_text: bool = False
    """Whether text that no reader of a PDF sees (invisible, white, tiny) is taken all the same.
    Counts for files that are read from then on."""
    ocr: bool = True
    """Whether scans, pictures and pictures inside documents are read by text recognition, which
    takes seconds a page. Counts for files that are read from then on."""


class KeywordSettings(_Section, frozen=True):
    """The lexical half of the search."""

    engine: Literal["inverted-index", "rank-bm25"] = "inverted-index"
    user_dictionary: str = ""
    """Path of a jieba dictionary with the words of your field."""


class VectorSettings(_Section, frozen=True):
    """The dense half of the search."""

    engine: Literal["faiss"] = "faiss"


class RetrievalSettings(_Section, frozen=True):
    """How passages are found."""

    mode: Literal["hybrid", "dense", "keyword"] = "hybrid"
    k: Positive = 10
    """Passages that `search` lists."""
    expansion: Literal["none", "multi-query", "hyde"] = "none"
    """How the language model helps `ask`, and `search --expand`, before anything is searched:
    with other wordings of the question, or with a made-up answer to look for."""
    fusion: Literal["default", "rrf", "linear"] = "default"
    """How the two halves become one list: each weighed by the evidence for it, by ranks alone
    (reciprocal rank fusion), or by scores with the fixed `dense_weight`."""
    dense_weight: Probability = 0.6
    """For the fusion "linear": 0 is keyword only, 1 is dense only."""
    rescored: Count = 1000
    """Candidates that the dense search of more than 65,536 passages compares exactly. More finds
    more and takes longer (`bench retrieval --exact` measures it); 0 compares all passages."""


class NoReranking(_Section, frozen=True, tag_field="kind", tag="none"):
    """The order of the search stays."""


class KeywordReranking(_Section, frozen=True, tag_field="kind", tag="keyword"):
    """A bonus for each word of the question. No model."""

    candidates: Positive = 20
    """Passages that are reordered."""


class LearnedReranking(_Section, frozen=True, tag_field="kind", tag="learned"):
    """Weighs what question and passage have in common, as learnt for Chinese. No model."""

    candidates: Positive = 20
    """Passages that are reordered."""


class CrossEncoderReranking(_Section, frozen=True, tag_field="kind", tag="cross-encoder"):
    """A model that reads question and passage together."""

    candidates: Positive = 20
    model: str = ""
    """Model id, or the path of a folder; empty takes a pulled one that serves the language."""


class LLMReranking(_Section, frozen=True, tag_field="kind", tag="llm"):
    """The language model grades each passage from 0 to 10."""

    candidates: Positive = 10
    """Passages that it reads: about 4 s each on a laptop, 1 s when it has read them before."""


RerankerSettings = (
    NoReranking | KeywordReranking | LearnedReranking | CrossEncoderReranking | LLMReranking
)


class AnswerSettings(_Section, frozen=True):
    """How an answer is written."""

    mode: Literal["standard", "self-rag"] = "standard"
    """Read until a passage holds the answer; or grade passages, answer and check (Self-RAG)."""
    k: Positive = 5
    """Passages that the model may read."""
    max_tokens: Positive = 400
    temperature: Annotated[float, Meta(ge=0, le=2)] = 0.0
    seed: Count = 0
    enough: Probability = 0.8
    """A passage of this relevance is answered from without reading others; 1 reads all of them."""
    min_answerable: Probability = 0.68
    """Below this probability that a passage holds the answer, or that all do together where a list
    is asked for, localrag says that they do not. As the starter model gives it: others are brought
    to its scale by `models calibrate`."""
    tables: bool = True
    """Whether a question about all (lists, counts, sums, the largest) is computed from the rows of
    sheets, or from documents that are asked one by one, with a statement of completeness."""
    table_seconds: Count = 300
    """Longest time for which documents are asked one by one for an answer; 0 is as long as it
    takes. Where it is foreseen to be too short, nothing is counted or added up; a list begins with
    the documents that a search brings and says what was not read. `localrag table` has none."""
    strict: bool = False
    """Whether only what the documents bear out is shown: every sentence is checked before that, and
    where none is left, localrag says that they do not hold the answer."""
    min_answerable_strict: Probability = 0.76
    """`min_answerable`, and `self_rag.min_best_relevance`, with `strict`, which rather says too
    often that the documents lack the answer."""
    unsupported: Literal["mark", "remove"] = "mark"
    """What becomes of a sentence that no passage bears out; with "remove" an answer is shown once
    it has been checked."""
    read_instructions: bool = False
    """Whether an answer may follow what documents tell a language model, such as "ignore the
    above", with no check: for documents about prompts."""
    prompts: str = ""
    """Folder with prompts in your own words, as en/answer.txt or zh/answer.txt; empty takes
    localrag's."""


class SelfRAGSettings(_Section, frozen=True):
    """When Self-RAG says yes; measured in `benchmarks/self_rag.md`."""

    min_retrieval: Probability = 0.3
    """From here on a request needs the documents."""
    min_relevance: Probability = 0.4
    """From here on a passage is relevant."""
    min_best_relevance: Probability = 0.65
    """Below this for the most relevant passage, no answer is tried from the documents."""
    min_support: Probability = 0.5
    """From this expected share of full support on, an answer is fully supported."""
    min_partial_support: Probability = 0.4
    """From this one on it is partially supported; below, it is no answer from the documents."""
    good_utility: Annotated[float, Meta(ge=1, le=5)] = 3.8
    """A fully supported answer of this usefulness (1 to 5) ends the search for a better one."""
    early_stop: bool = True
    """Whether a good answer ends the run; otherwise every relevant passage answers."""
    budget_seconds: Annotated[float, Meta(ge=0)] = 0.0
    """Longest time for a question; 0 is as long as it takes. What was skipped is said."""


class AheadSettings(_Section, frozen=True):
    """How far sections are read before anybody asks about them, by a model in this process."""

    serve: bool = True
    """Whether a server does so while nobody asks it anything. `watch --ahead` and `localrag ahead`
    do it whatever this says. The first word of ten new questions about a folder of 57 files
    came after 4.5 s instead of 15 (`benchmarks/log/2026-11.md`, 2026-11-30)."""
    megabytes: Count = 800
    """Of `llm.kv_disk_mb`, for what was read ahead and not used yet; where a question needs the
    room, it has it."""
    minutes_a_day: Count = 60
    """For a server, or a watch, and all of its libraries. `localrag ahead` has its own bound."""
    share: Annotated[float, Meta(gt=0, le=1)] = 0.5
    """Of the time: at 0.5 it pauses for as long as it has read."""


class HostedSettings(_Section, frozen=True):
    """What may go to a language model on another machine (`allow_network`), and how."""

    private: tuple[str, ...] = ()
    """Patterns for the paths of documents of which nothing ever goes there: "contracts/*"."""
    redact: tuple[str, ...] = ()
    """Regular expressions: what they match is replaced by placeholders before it goes there."""
    confirm: bool = True
    """Whether the first call of each run is confirmed in the terminal."""


class DatabaseSettings(_Section, frozen=True):
    """Databases that hold libraries (`--library postgresql://host/database#library`)."""

    hosts: tuple[str, ...] = ()
    """Hosts other than this machine where one may be reached (`allow_network`)."""
    vectors: Literal["auto", "node", "pgvector"] = "auto"
    """Where vectors are searched: on this computer, which keeps a copy of them ("node"); in the
    database, by its extension pgvector; or there from `vectors_mb` on."""
    vectors_mb: Positive = 2000
    """Megabytes that the vectors of a library may take on this computer: 2,000 are 1.8 million
    passages of 512 dimensions."""


class Settings(Struct, frozen=True, forbid_unknown_fields=True):
    """Everything a person can set."""

    allow_network: bool = False
    """Lets localrag reach other machines: the language model that the settings name, and the
    databases of `database.hosts`."""
    parsing: ParsingSettings = ParsingSettings()
    embedding: EmbeddingSettings = EmbeddingSettings()
    llm: LlamaCppSettings | OpenAISettings = LlamaCppSettings()
    chunking: SentenceChunking | WindowChunking = SentenceChunking()
    keywords: KeywordSettings = KeywordSettings()
    vectors: VectorSettings = VectorSettings()
    retrieval: RetrievalSettings = RetrievalSettings()
    reranker: RerankerSettings = NoReranking()
    answer: AnswerSettings = AnswerSettings()
    self_rag: SelfRAGSettings = SelfRAGSettings()
    ahead: AheadSettings = AheadSettings()
    hosted: HostedSettings = HostedSettings()
    database: DatabaseSettings = DatabaseSettings()


RESERVED_VARIABLES = frozenset(
    {
        *("LOCALRAG_LIBRARY", "LOCALRAG_MODELS", "LOCALRAG_CONFIG", "LOCALRAG_LANG"),
        *("LOCALRAG_DEBUG", "LOCALRAG_KEYS", "LOCALRAG_WATCHED", "LOCALRAG_TOKEN"),
        *("LOCALRAG_SIGN_ON_SECRET", "LOCALRAG_COMPILE", "LOCALRAG_PREBUILT"),
    }
)
"""Variables that say where things are, how to talk or what to install, and are no settings."""

_SECTIONS: dict[str, Struct] = {
    name: default
    for name, default in msgspec.structs.asdict(Settings()).items()
    if isinstance(default, Struct)
}

_MOVED = {
    "self_rag.strict": "answer.strict",
    "self_rag.min_best_relevance_strict": "answer.min_answerable_strict",
}
"""What settings of earlier versions are called now; wherever they are given, they count as that."""

_SUCCESSORS = {"tantivy": "inverted-index"}
"""What has taken the place of engines of earlier versions."""


def settings_path(environment: Mapping[str, str] = os.environ) -> Path:
    """Where the settings file is or would be: LOCALRAG_CONFIG, else the user's config folder."""
    if explicit := environment.get("LOCALRAG_CONFIG"):
        return Path(explicit)
    from platformdirs import user_config_path

    return user_config_path("localrag", appauthor=False) / "config.toml"


def load_settings(
    overrides: Mapping[str, object] | None = None,
    environment: Mapping[str, str] = os.environ,
) -> Settings:
    """Read the settings file and the environment; `overrides` maps dotted keys to values.

    Raises `ConfigError` naming the file or variable, the key and what is allowed there.
    """
    path = settings_path(environment)
    values: dict[str, tuple[str, object]] = {
        name: (key, environment[name]) for key, name in _variables(environment).items()
    }
    values |= {key: (key, value) for key, value in (overrides or {}).items()}
    table = _read(path)
    _convert(table, str(path))
    complete = _with_values(table, values.values())
    try:
        return _convert(complete, "")
    except ConfigError:
        # Which one is to blame: the one without which all is well.
        to_blame = [
            name
            for name in values
            if _is_valid(_with_values(table, (values[other] for other in values if other != name)))
        ]
        return _convert(complete, ", ".join(to_blame or values))


def given_settings(environment: Mapping[str, str] = os.environ) -> dict[str, str]:
    """Who gives the settings that are no defaults: by dotted key a variable, or "" for the file.

    Raises `ConfigError` for a file that cannot be read.
    """
    table = _read(settings_path(environment))
    return {key: "" for key, _ in flat(table)} | _variables(environment)


def flat(table: Mapping[str, Any], prefix: str = "") -> Iterator[tuple[str, Any]]:
    """Nested settings as dotted keys and values."""
    for key, value in table.items():
        if isinstance(value, dict):
            yield from flat(value, f"{prefix}{key}.")
        else:
            yield prefix + key, value


RERANKERS = ("none", "keyword", "learned", "cross-encoder", "llm")
"""The kinds of reranker."""


def with_reranker(settings: Settings, kind: str | None) -> Settings:
    """The settings with the reranker of that kind, its own settings kept where it is in use."""
    if kind is None or settings.reranker.__struct_config__.tag == kind:
        return settings
    reranker = msgspec.convert({"kind": kind}, RerankerSettings)
    return msgspec.structs.replace(settings, reranker=reranker)


def settings_table(settings: Settings) -> dict[str, Any]:
    """The settings as nested plain values, as they would stand in the TOML file."""
    table: dict[str, Any] = msgspec.to_builtins(settings)
    return table


def _read(path: Path) -> dict[str, Any]:
    try:
        return _moved(tomllib.loads(path.read_text(encoding="utf-8-sig")))
    except FileNotFoundError:
        return {}
    except (OSError, UnicodeDecodeError) as error:
        raise ConfigError(
            "The settings file {path} cannot be read: {reason}.",
            hint="Fix or remove the file.",
            path=path,
            reason=error,
        ) from error
    except (tomllib.TOMLDecodeError, RecursionError) as error:  # brackets, thousands deep
        raise ConfigError(
            "The settings file {path} is not valid TOML: {reason}.",
            hint="Fix that line, or remove the file to return to the defaults.",
            path=path,
            reason=error,
        ) from error


def _moved(table: dict[str, Any]) -> dict[str, Any]:
    """The table with the settings of earlier versions where they belong now."""
    for old, new in _MOVED.items():
        section, _, name = old.partition(".")
        part = table.get(section)
        if isinstance(part, dict) and name in part:
            value = part.pop(name)
            if new not in dict(flat(table)):
                _set_value(table, new, value)
    return table


_LISTS = frozenset({"hosted.private", "hosted.redact", "database.hosts"})
"""Lists, which a variable or a command gives as `["one", "two"]`, or as one text alone."""
_TEXT_OR_LIST = "llm.base_url"


def _with_values(table: dict[str, Any], pairs: Iterable[tuple[str, object]]) -> dict[str, Any]:
    """A copy of the table with the values of (dotted key, value) pairs."""
    complete = deepcopy(table)
    for key, value in pairs:
        _set_value(complete, key, value)
    return complete


def _set_value(table: dict[str, Any], key: str, value: object) -> None:
    """Put a value into the table, in place; a list may be given as text."""
    key = _MOVED.get(key, key)
    if isinstance(value, str) and (
        key in _LISTS or (key == _TEXT_OR_LIST and value.lstrip().startswith("["))
    ):
        value = _listed(value)
    *sections, last = key.split(".")
    for section in sections:
        table = table.setdefault(section, {})
        if not isinstance(table, dict):
            return
    table[last] = value


def _listed(text: str) -> list[Any]:
    try:
        value = tomllib.loads(f"value = {text}")["value"]
    except (tomllib.TOMLDecodeError, RecursionError):
        value = None
    return value if isinstance(value, list) else [text]


def _variables(environment: Mapping[str, str]) -> dict[str, str]:
    """The variables that give settings, by dotted key."""
    return {
        _variable_key(name): name
        for name in environment
        if name.startswith("LOCALRAG_") and name not in RESERVED_VARIABLES
    }


def _variable_key(name: str) -> str:
    rest = name.removeprefix("LOCALRAG_").lower()
    for section in _SECTIONS:
        if rest.startswith(section + "_"):
            key = f"{section}.{rest.removeprefix(section + '_')}"
            return _MOVED.get(key, key)
    return rest


def _is_valid(table: dict[str, Any]) -> bool:
    try:
        _convert(table, "")
    except ConfigError:
        return False
    return True


def _convert(table: Mapping[str, Any], origin: str) -> Settings:
    complete: dict[str, Any] = dict(table)
    if isinstance(keywords := complete.get("keywords"), dict):
        engine = str(keywords.get("engine", KeywordSettings().engine))
        complete["keywords"] = keywords | {"engine": _SUCCESSORS.get(engine, engine)}
    for section, default in _SECTIONS.items():
        part, struct = complete.get(section), default.__struct_config__
        if isinstance(part, dict) and struct.tag_field:
            complete[section] = {struct.tag_field: struct.tag} | part
    try:
        settings = msgspec.convert(complete, Settings, strict=False)
    except msgspec.ValidationError as error:
        from localrag.config.faults import explain

        raise explain(error, complete, Settings, origin) from error
    except UnicodeEncodeError as error:  # a variable whose bytes are not text
        raise ConfigError(
            "{origin}: the value contains bytes that are not UTF-8.",
            hint="Set it again, or remove it.",
            origin=origin,
        ) from error
    chunking = settings.chunking
    if isinstance(chunking, WindowChunking) and chunking.overlap >= chunking.size:
        raise ConfigError(
            "chunking.overlap must be smaller than chunking.size ({size}), was: {overlap}.",
            hint="`localrag config` lists every setting with its value.",
            size=chunking.size,
            overlap=chunking.overlap,
        )
    if settings.hosted.redact or settings.hosted.private:
        from localrag.config.faults import check_paths, check_patterns

        check_patterns("hosted.redact", settings.hosted.redact)
        check_paths("hosted.private", settings.hosted.private)
    return settings


def set_in_file(key: str, value: str) -> Path:
    """Write one setting to the settings file, once it has been checked; returns the file.

    Comments and other lines stay. Raises `ConfigError` and writes nothing if the key
    is unknown or the value is not allowed.
    """
    table, key = _read(settings_path()), _MOVED.get(key, key)
    _set_value(table, key, value)
    checked: Any = settings_table(_convert(table, "`localrag config set`"))
    for part in key.split("."):
        checked = checked.get(part, {}) if isinstance(checked, dict) else {}
    if isinstance(checked, dict):
        raise ConfigError(
            "{key} is a section, not a setting.",
            hint="`localrag config` lists every setting with its value.",
            key=key,
        )
    return _change_file(lambda document: _set_value(document, key, checked))


def unset_in_file(key: str) -> Path:
    """Remove one setting from the settings file; returns the file. Absent is fine."""
    _read(settings_path())

    def unset(document: Any) -> None:
        now = _MOVED.get(key, key)
        for moved in (now, *(old for old, new in _MOVED.items() if new == now)):
            *sections, last = moved.split(".")
            part = document
            for section in sections:
                part = part.get(section, {})
            part.pop(last, None)

    return _change_file(unset) if settings_path().exists() else settings_path()


def _change_file(change: Callable[[Any], None]) -> Path:
    import tomlkit

    path = settings_path()
    document = tomlkit.parse(path.read_text(encoding="utf-8-sig") if path.exists() else "")
    change(document)
    make_folder(path.parent)
    rewrite(path, tomlkit.dumps(document))
    return path
