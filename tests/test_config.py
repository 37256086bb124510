from __future__ import annotations

import datetime
import re
from pathlib import Path
from typing import Any

import msgspec
import pytest

from localrag.config.faults import explain
from localrag.config.settings import (
    RESERVED_VARIABLES,
    LlamaCppSettings,
    OpenAISettings,
    Settings,
    WindowChunking,
    given_settings,
    load_settings,
    set_in_file,
    settings_path,
    unset_in_file,
)
from localrag.errors import ConfigError


@pytest.fixture
def file(tmp_path: Path) -> Path:
    return tmp_path / "config.toml"


def load(file: Path, **variables: str) -> Settings:
    return load_settings(environment={"LOCALRAG_CONFIG": str(file)} | variables)


def test_defaults_need_no_file(file: Path) -> None:
    assert load(file) == Settings()
    assert not load(file).allow_network


def test_a_backend_is_chosen_by_its_tag_and_the_tag_has_a_default(file: Path) -> None:
    file.write_text('[llm]\nmodel = "my.gguf"\n[chunking]\nstrategy = "windows"\n')
    settings = load(file)
    assert settings.llm == LlamaCppSettings(model="my.gguf")
    assert settings.chunking == WindowChunking()


def test_the_environment_beats_the_file_and_overrides_beat_both(file: Path) -> None:
    file.write_text("[answer]\nk = 3\n[llm]\nthreads = 1\n")
    variables = {
        "LOCALRAG_CONFIG": str(file),
        "LOCALRAG_ANSWER_K": "5",
        "LOCALRAG_LLM_THREADS": "2",
    }
    settings = load_settings({"answer.k": 7}, variables)
    assert (settings.answer.k, settings.llm.threads) == (7, 2)  # type: ignore[union-attr]


def test_sections_and_underscores_in_variables(file: Path) -> None:
    settings = load(
        file,
        LOCALRAG_LLM_BACKEND="openai",
        LOCALRAG_LLM_BASE_URL="http://127.0.0.1:9/v1",
        LOCALRAG_ALLOW_NETWORK="true",
    )
    assert settings.llm == OpenAISettings(base_url="http://127.0.0.1:9/v1")
    assert settings.allow_network


@pytest.mark.parametrize(
    ("given", "read"),
    [
        ("http://127.0.0.1:9/v1", "http://127.0.0.1:9/v1"),
        ("http://[::1]:9/v1", "http://[::1]:9/v1"),
        ('["http://127.0.0.1:9/v1"]', ("http://127.0.0.1:9/v1",)),
        (' ["http://a/v1", "http://b/v1"]', ("http://a/v1", "http://b/v1")),
        ("[http://a/v1", ("[http://a/v1",)),  # no list; said where it is used
    ],
)
def test_one_server_of_the_language_model_or_several(
    file: Path, given: str, read: str | tuple[str, ...]
) -> None:
    variables = {"LOCALRAG_LLM_BACKEND": "openai", "LOCALRAG_LLM_BASE_URL": given}
    settings = load(file, **variables)
    assert settings.llm == OpenAISettings(base_url=read)
    assert settings.llm.base_urls == ((read,) if isinstance(read, str) else read)
    if isinstance(read, tuple):
        file.write_text(f'[llm]\nbackend = "openai"\nbase_url = {list(read)}\n')
        assert load(file).llm == settings.llm


@pytest.mark.parametrize("given", ["3", "[]", "[3]"])
def test_a_server_of_the_language_model_that_is_none(file: Path, given: str) -> None:
    file.write_text(f'[llm]\nbackend = "openai"\nbase_url = {given}\n')
    with pytest.raises(ConfigError, match=r"base_url must be text in quotes or a list such as"):
        load(file)


@pytest.mark.parametrize(
    ("text", "named"),
    [
        ("colour = 1", "colour"),
        ("[llm]\ngpu_layer = 1", "gpu_layer"),
        ("[answer]\nk = 0", "answer.k"),
        ('[llm]\nbackend = "hal"', "hal"),
        ("[answer]\nmin_answerable = 1.5", "min_answerable"),
        ('[chunking]\nstrategy = "windows"\nsize = 100\noverlap = 100', "overlap"),
        ("llm = 3", "llm"),
        ("[llm\n", "TOML"),
    ],
)
def test_a_wrong_file_is_named_with_the_key(file: Path, text: str, named: str) -> None:
    file.write_text(text)
    with pytest.raises(ConfigError) as error:
        load(file)
    assert named in str(error.value)
    assert error.value.exit_code == 2


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("colour = 1", "names the setting colour, which does not exist. Valid names here: allow"),
        ("[llm]\ngpu_layer = 1", "llm.gpu_layer, which does not exist. Valid names here: backend"),
        ("[answer]\nk = 0", "answer.k must be a whole number of at least 1, but {file} says 0."),
        ('[answer]\nk = "x"', 'answer.k must be a whole number of at least 1, but {file} says "x"'),
        ("[answer]\nmin_answerable = 2", "must be a number from 0 to 1, but {file} says 2."),
        ('[llm]\nbackend = "hal"', 'must be one of llama.cpp, openai, but {file} says "hal".'),
        ('[llm]\nbackend="openai"\ntimeout_seconds=0', "must be a number above 0, but"),
        ("[self_rag]\nbudget_seconds = -1", "must be a number of at least 0, but {file} says -1."),
        ('[retrieval]\nmode = "x"', "retrieval.mode must be one of dense, hybrid, keyword, but"),
        ('allow_network = "maybe"', "allow_network must be true or false, but"),
        ("[llm]\nmodel = 3", "llm.model must be text in quotes, but {file} says 3."),
        ("llm = 3", "llm is a section with settings of its own, but {file} says 3."),
        ("answer = [1]", "answer is a section with settings of its own, but {file} says [1]."),
    ],
)
def test_a_wrong_setting_says_what_is_allowed_and_what_was_given(
    file: Path, text: str, said: str
) -> None:
    file.write_text(text)
    with pytest.raises(ConfigError) as error:
        load(file)
    assert said.replace("{file}", str(file)) in str(error.value)


def test_a_fault_of_another_kind_stays_in_the_words_of_msgspec() -> None:
    class Odd(msgspec.Struct):
        when: datetime.date

    table = {"when": "soon"}
    with pytest.raises(msgspec.ValidationError) as error:
        msgspec.convert(table, Odd)
    assert str(error.value) in str(explain(error.value, table, Odd, "x.toml"))


def test_a_wrong_variable_is_named(file: Path) -> None:
    with pytest.raises(ConfigError, match="LOCALRAG_LLM_THREDS"):
        load(file, LOCALRAG_LLM_THREDS="2")


def test_variables_count_together_whatever_their_order(file: Path) -> None:
    settings = load(
        file,
        LOCALRAG_CHUNKING_OVERLAP="1500",
        LOCALRAG_CHUNKING_SIZE="2000",
        LOCALRAG_CHUNKING_STRATEGY="windows",
    )
    assert settings.chunking == WindowChunking(size=2000, overlap=1500)


def test_only_the_wrong_variable_is_blamed(file: Path) -> None:
    with pytest.raises(ConfigError) as error:
        load(file, LOCALRAG_ANSWER_K="2", LOCALRAG_ANSWER_SEED="-1", LOCALRAG_LLM_THREADS="1")
    assert "LOCALRAG_ANSWER_SEED" in str(error.value)
    assert "LOCALRAG_ANSWER_K" not in str(error.value)


def test_bytes_that_are_no_text(file: Path) -> None:
    file.write_bytes(b"\xff\xfe\x00")
    with pytest.raises(ConfigError, match="cannot be read"):
        load(file)


def test_the_settings_file_is_the_users(tmp_path: Path) -> None:
    assert settings_path({"LOCALRAG_CONFIG": "x.toml"}) == Path("x.toml")
    assert settings_path({}).name == "config.toml"


def test_set_keeps_comments_and_unset_takes_it_back(
    file: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("LOCALRAG_CONFIG", str(file))
    file.write_text("# mine\n[answer]\nk = 3 # few\n")
    set_in_file("answer.max_tokens", "99")
    set_in_file("allow_network", "true")
    text = file.read_text()
    assert "# mine" in text
    assert "# few" in text
    assert load(file).answer.max_tokens == 99
    assert load(file).allow_network is True
    unset_in_file("answer.max_tokens")
    assert load(file).answer.max_tokens == Settings().answer.max_tokens
    assert load(file).answer.k == 3


@pytest.mark.parametrize(
    ("key", "value"), [("answer.k", "none"), ("answer", "3"), ("no.such", "1")]
)
def test_set_refuses_what_load_would_refuse(
    file: Path, monkeypatch: pytest.MonkeyPatch, key: str, value: str
) -> None:
    monkeypatch.setenv("LOCALRAG_CONFIG", str(file))
    with pytest.raises(ConfigError):
        set_in_file(key, value)
    assert not file.exists()


def test_hidden_text_is_left_out_unless_asked_for(tmp_path: Path) -> None:
    environment = {"LOCALRAG_CONFIG": str(tmp_path / "none.toml")}
    assert not load_settings(environment=environment).parsing.hidden_text
    environment["LOCALRAG_PARSING_HIDDEN_TEXT"] = "true"
    assert load_settings(environment=environment).parsing.hidden_text


def test_what_documents_say_to_the_model_is_not_read_unless_asked_for(tmp_path: Path) -> None:
    environment = {"LOCALRAG_CONFIG": str(tmp_path / "none.toml")}
    assert not load_settings(environment=environment).answer.read_instructions
    environment["LOCALRAG_ANSWER_READ_INSTRUCTIONS"] = "true"
    assert load_settings(environment=environment).answer.read_instructions


def test_brackets_thousands_deep_are_one_clear_error(tmp_path: Path) -> None:
    path = tmp_path / "config.toml"
    path.write_text("a = " + "[" * 5000)
    with pytest.raises(ConfigError, match="not valid TOML"):
        load_settings(environment={"LOCALRAG_CONFIG": str(path)})


def test_self_rag_and_the_states_of_passages(file: Path) -> None:
    file.write_text('[answer]\nmode = "self-rag"\n[self_rag]\nbudget_seconds = 30\n')
    settings = load(file, LOCALRAG_SELF_RAG_MIN_RELEVANCE="0.7", LOCALRAG_LLM_KV_TYPE="q8_0")
    assert settings.answer.mode == "self-rag"
    assert settings.self_rag.budget_seconds == 30.0
    assert settings.self_rag.min_relevance == 0.7
    assert settings.llm == LlamaCppSettings(kv_type="q8_0")
    assert settings.llm.kv_disk_mb > 0
    assert Settings().self_rag.min_partial_support <= Settings().self_rag.min_support


def test_a_keyword_engine_of_earlier_versions_is_its_successor(file: Path) -> None:
    file.write_text('[keywords]\nengine = "tantivy"\n')
    assert load(file).keywords.engine == "inverted-index"
    assert load(file, LOCALRAG_KEYWORDS_ENGINE="rank-bm25").keywords.engine == "rank-bm25"
    assert load(file, LOCALRAG_KEYWORDS_ENGINE="tantivy").keywords.engine == "inverted-index"


OLD = "[self_rag]\nstrict = true\nmin_best_relevance_strict = 0.9\n"


def test_settings_of_earlier_versions_count_where_they_belong_now(file: Path) -> None:
    file.write_text(OLD)
    settings = load(file)
    assert settings.answer.strict
    assert settings.answer.min_answerable_strict == 0.9
    assert not load(file, LOCALRAG_SELF_RAG_STRICT="false").answer.strict
    sources = given_settings({"LOCALRAG_CONFIG": str(file), "LOCALRAG_SELF_RAG_STRICT": "false"})
    assert sources["answer.strict"] == "LOCALRAG_SELF_RAG_STRICT"
    file.write_text(f"[answer]\nstrict = false\n{OLD}")
    assert not load(file).answer.strict


def test_a_setting_of_an_earlier_version_is_set_and_unset_by_either_name(
    file: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("LOCALRAG_CONFIG", str(file))
    file.write_text(OLD)
    set_in_file("self_rag.strict", "false")
    assert not load(file).answer.strict
    unset_in_file("answer.min_answerable_strict")
    assert load(file).answer.min_answerable_strict == Settings().answer.min_answerable_strict
    unset_in_file("self_rag.strict")
    assert "strict" not in file.read_text()


@pytest.mark.parametrize(
    ("text", "named"),
    [
        ("[self_rag]\nmin_support = 1.1", "min_support"),
        ("[self_rag]\ngood_utility = 0.5", "good_utility"),
        ("[self_rag]\nbudget_seconds = -1", "budget_seconds"),
        ('[answer]\nmode = "best"', "mode"),
        ('[llm]\nkv_type = "q4_0"', "kv_type"),
        ("[llm]\nkv_disk_mb = -1", "kv_disk_mb"),
    ],
)
def test_wrong_values_for_self_rag(file: Path, text: str, named: str) -> None:
    file.write_text(text)
    with pytest.raises(ConfigError, match=named):
        load(file)


@pytest.mark.parametrize(
    ("given", "read"),
    [
        ('["contracts/*", "hr"]', ("contracts/*", "hr")),
        ("['a\\d', \"合同\"]", ("a\\d", "合同")),
        ("contracts/*", ("contracts/*",)),
        ("[0-9]{11}", ("[0-9]{11}",)),
        ("[]", ()),
        ("[" * 5000, ("[" * 5000,)),
    ],
)
def test_lists_from_variables_and_commands(file: Path, given: str, read: tuple[str, ...]) -> None:
    assert load(file, LOCALRAG_HOSTED_PRIVATE=given).hosted.private == read


def test_a_list_is_written_as_one(file: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("LOCALRAG_CONFIG", str(file))
    set_in_file("hosted.redact", r"['\d{11}', '张三']")
    assert load(file).hosted.redact == (r"\d{11}", "张三")
    unset_in_file("hosted.redact")
    assert load(file).hosted.redact == ()


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("private = 3", 'hosted.private must be a list of strings such as ["one", "two"]'),
        ("private = [3]", "hosted.private must be a list of strings"),
        ("redact = ['(a']", r"hosted.redact contains (a, which is not a valid regular expression"),
        (
            "private = ['$HOME/x']",
            "hosted.private contains $HOME/x, which cannot match",
        ),
        ("private = ['a', '../b']", "hosted.private contains ../b"),
        ("private = ['file:///home/a']", "hosted.private contains file:///home/a"),
        ("confirm = 3", "hosted.confirm must be true or false"),
    ],
)
def test_wrong_settings_about_hosted_models(file: Path, text: str, said: str) -> None:
    file.write_text("[hosted]\n" + text)
    with pytest.raises(ConfigError) as error:
        load(file)
    assert said in str(error.value)


ROOT = Path(__file__).parents[1]
NAMED = re.compile(r"(?<![A-Za-z_])LOCALRAG_[A-Z][A-Z_]*")
OF_CHILDREN = {"LOCALRAG_DRIVE"}
"""Given to a program of somebody else's, in its own environment, and read by that alone."""


def named_in(folder: str, *endings: str) -> set[str]:
    """The variables that files of the project name."""
    files = [path for ending in endings for path in (ROOT / folder).glob(f"**/*{ending}")]
    assert files
    return {name for path in files for name in NAMED.findall(path.read_text("utf-8"))}


def settings_of(kind: Any, prefix: str = "") -> set[str]:
    """The variables of all settings, of whatever kind a section is."""
    match kind:
        case msgspec.inspect.UnionType():
            return {name for member in kind.types for name in settings_of(member, prefix)}
        case msgspec.inspect.StructType():
            own = {f"{prefix}_{kind.tag_field}".upper()} if kind.tag_field else set()
            return own.union(
                *(settings_of(field.type, f"{prefix}_{field.name}") for field in kind.fields)
            )
    return {prefix.upper()}


def test_every_variable_that_is_named_anywhere_is_a_setting_or_set_apart(file: Path) -> None:
    """Else whoever sets one as the guide says could start nothing."""
    in_code = named_in("localrag", ".py", ".toml")
    names = named_in("docs", ".md", ".yaml", ".service", "Dockerfile")
    names |= {name for path in ROOT.glob("*.md") for name in NAMED.findall(path.read_text("utf-8"))}
    settings_names = settings_of(msgspec.inspect.type_info(Settings), "localrag")
    assert {
        "LOCALRAG_LLM_KEY_FILE",
        "LOCALRAG_LLM_BACKEND",
        "LOCALRAG_ALLOW_NETWORK",
    } <= settings_names
    assert (in_code | names) - OF_CHILDREN - settings_names == RESERVED_VARIABLES
    variables = dict.fromkeys(RESERVED_VARIABLES - {"LOCALRAG_CONFIG"}, "1")
    assert load(file, **variables) == Settings()
    assert given_settings({"LOCALRAG_CONFIG": str(file)} | variables) == {}
