"""Imports point down, and rooms on one line do not know each other."""

from __future__ import annotations

import ast
import re
from collections import Counter
from collections.abc import Iterator, Mapping, Set
from functools import cache
from graphlib import CycleError, TopologicalSorter
from pathlib import Path

PACKAGE = Path(__file__).resolve().parents[1] / "localrag"

LINES = (
    ("__main__",),
    ("cli",),
    ("server",),
    ("api",),
    ("evaluator", "ahead"),
    ("engine",),
    ("factory",),
    ("hosted", "presentation"),
    ("evaluation", "bundle", "tables", "summaries"),
    ("rag", "indexing"),
    ("retrieval", "rerankers"),
    ("documents", "models.embeddings", "models.llms", "library", "models.registry"),
    ("library.backends",),
    ("library.derived",),
    ("library.catalogue", "library.indexes"),
    ("library.folder",),
    ("library.records", "library.acting", "library.location"),
    ("text", "prompts", "egress"),
    ("languages",),
    ("config", "messages", "text.han"),
    ("system.confinement",),
    ("system.seals",),
    ("documents.formats.table", "documents.positions"),
    ("errors", "types", "system"),
    ("printable",),
)
HEIGHT = {room: len(LINES) - number for number, line in enumerate(LINES) for room in line}

MAY_READ_SETTINGS = {
    "engine",
    "factory",
    "hosted",
    "ahead",
    "evaluator",
    "api",
    "cli",
    "server",
    "bundle",
    "__main__",
}


def module_of(path: Path) -> str:
    """`library/indexes/base.py` is `library.indexes.base`, `library/__init__.py` is `library`."""
    parts = path.relative_to(PACKAGE).with_suffix("").parts
    return ".".join(parts[:-1] if parts[-1] == "__init__" else parts)


def room_of(module: str) -> str | None:
    """The longest name of a room that a module's name begins with."""
    parts = module.split(".")
    names = (".".join(parts[:n]) for n in range(len(parts), 0, -1))
    return next((name for name in names if name in HEIGHT), None)


# How the page draws them: what is at the bottom as one box, and these together.
BOTTOM = {room for line in LINES if HEIGHT[line[0]] <= HEIGHT["text"] for room in line}
DRAWN_AS = {
    "__main__": "cli",
    "hosted": "factory",
    "local": "factory",
    **{room: room.split(".")[0] for room in HEIGHT if room.startswith(("models.", "library."))},
    **dict.fromkeys(BOTTOM, "foundations"),
}

FILES = sorted(p for p in PACKAGE.rglob("*.py") if p != PACKAGE / "__init__.py")
MODULES = frozenset(module_of(path) for path in FILES)


@cache
def imported(path: Path) -> frozenset[str]:
    """The modules of localrag that a file imports, also inside functions and for types only."""
    names = set()
    for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
        if isinstance(node, ast.Import):
            names |= {alias.name for alias in node.names}
        elif isinstance(node, ast.ImportFrom):
            assert node.level == 0, f"{path}: imports are absolute here"
            full = {f"{node.module}.{alias.name}" for alias in node.names}
            names |= {
                f if f.removeprefix("localrag.") in MODULES else str(node.module) for f in full
            }
    modules = {name.removeprefix("localrag.") for name in names if name.startswith("localrag.")}
    return MODULES & modules


def circle(arrows: Mapping[str, Set[str]]) -> list[str]:
    """Names that lead back to where they began, or none."""
    try:
        TopologicalSorter(arrows).prepare()
    except CycleError as error:
        return list(error.args[1])
    return []


def box_of(room: str) -> str:
    """Where a room stands in the drawing."""
    return DRAWN_AS.get(room, room)


def drawing() -> str:
    """The rooms from top to bottom and who imports whom, as Mermaid.

    An arrow that others imply is left out: from `a` to `c` where there are `a -> b -> c`.
    """
    arrows: dict[str, set[str]] = {}
    for path in FILES:
        if room := room_of(module_of(path)):
            targets = {box_of(other) for name in imported(path) if (other := room_of(name))}
            arrows.setdefault(box_of(room), set()).update(targets - {box_of(room)})

    def below(box: str) -> set[str]:
        return arrows[box].union(*map(below, arrows[box]))

    boxes = dict.fromkeys(box_of(room) for line in LINES for room in line)
    lines = ["flowchart TB"]
    for box in filter(arrows.__contains__, boxes):
        implied = set().union(*map(below, arrows[box]))
        lines += [f"    {box} --> {other}" for other in sorted(arrows[box] - implied)]
    rows = [[room for room in line if room in BOTTOM] for line in LINES]
    names = "<br>".join(" · ".join(row) for row in rows if row)
    return "\n".join([*lines, f'    foundations["{names}"]'])


def test_imports_point_down() -> None:
    wrong = [
        f"{path.relative_to(PACKAGE)} must not import {name}"
        for path in FILES
        for name in imported(path)
        if (room := room_of(module_of(path))) is None  # a folder that only holds rooms
        or ((other := room_of(name)) and other != room and HEIGHT[other] >= HEIGHT[room])
    ]
    assert not wrong, "\n".join(wrong)


MAY_SPEAK = {"__main__", "cli", "server", "api", "presentation"}
"""Where prose is made; errors carry a template and values, and are said here."""

INSTALLER = "bundle.installer."
"""A command line of its own, which speaks to whoever runs it."""


def test_core_rooms_do_not_translate() -> None:
    speak = {module_of(path) for path in FILES if "messages" in imported(path)}
    speak = {module for module in speak if not module.startswith(INSTALLER)}
    assert {module for module in speak if room_of(module) not in MAY_SPEAK} == set()


def test_every_module_has_a_room() -> None:
    without = {module for module in MODULES if room_of(module) is None}
    assert without == {"models"}, f"give them a line in LINES: {without}"


def test_no_files_import_each_other_in_a_circle() -> None:
    assert not circle({module_of(path): imported(path) - {module_of(path)} for path in FILES})


def test_only_the_top_reads_settings() -> None:
    readers = {
        path
        for path in FILES
        if any(room_of(module) == "config" for module in imported(path))
        and room_of(module_of(path)) not in {"config", *MAY_READ_SETTINGS}
    }
    assert readers == set()


IMPLEMENTATIONS = {
    *(f"library.indexes.{name}" for name in ("faiss", "inverted", "rank_bm25", "remote")),
    *(f"models.embeddings.{name}" for name in ("onnx", "sentence_transformers", "use")),
    *(f"models.llms.{name}.model" for name in ("llama_cpp", "openai")),
    *(f"rerankers.{name}" for name in ("keyword", "learned", "llm", "routing")),
    *(f"rerankers.{name}" for name in ("cross_encoder", "onnx_cross_encoder")),
    *(f"retrieval.{name}" for name in ("documents", "expansion", "hybrid")),
    *(f"rag.{name}" for name in ("self_rag", "standard")),
}
"""Modules of which the settings choose what they make."""

BUILT_ON = {("rerankers.cross_encoder", "models.embeddings.sentence_transformers")}
"""Of two that one library runs, one may use the other."""


def test_the_factory_alone_names_implementations() -> None:
    assert IMPLEMENTATIONS <= MODULES
    uses = {
        (module_of(path), name)
        for path in FILES
        for name in imported(path) & IMPLEMENTATIONS
        if module_of(path) != "factory"
    }
    assert uses == BUILT_ON


TELLING_BACKENDS_APART = {"library.backends.opening", "library.location"}
KINDS_OF_BACKENDS = {"Path", "Database", "SqliteCatalogue", "PostgresCatalogue"}
ASKING_BACKENDS = {"library", "indexing", "factory", "engine", "ahead", "evaluator"}


def lines_that_tell_backends_apart(path: Path) -> set[int]:
    """Lines that look at the type of a location or a catalogue."""
    return {
        node.lineno
        for node in ast.walk(ast.parse(path.read_text(encoding="utf-8")))
        if isinstance(node, ast.Call)
        and ast.unparse(node.func) == "isinstance"
        and KINDS_OF_BACKENDS & set(re.findall(r"\w+", ast.unparse(node.args[1])))
    }


def test_two_places_tell_backends_apart() -> None:
    telling = {module_of(path) for path in FILES if lines_that_tell_backends_apart(path)}
    asking = {module for module in telling if module.split(".")[0] in ASKING_BACKENDS}
    assert asking == TELLING_BACKENDS_APART


def test_the_check_sees_what_tells_backends_apart(tmp_path: Path) -> None:
    sample = tmp_path / "sample.py"
    sample.write_text("isinstance(a, Path)\nisinstance(b, Thing)\nisinstance(c, X | Database)\n")
    assert lines_that_tell_backends_apart(sample) == {1, 3}


MOST_SHARED = 12
"""Names that more than one class may have."""
SAYING_NOTHING = {"Around", "Own", "Room", "Tried"}


def test_hardly_any_classes_share_a_name() -> None:
    classes = Counter(
        node.name
        for path in FILES
        for node in ast.parse(path.read_text(encoding="utf-8")).body
        if isinstance(node, ast.ClassDef)
    )
    shared = {name: count for name, count in classes.items() if count > 1}
    assert len(shared) <= MOST_SHARED, sorted(shared)
    assert not classes.keys() & SAYING_NOTHING


NAMING_NOTHING = {"each", "one"}
"""Names of variables that do not say what the thing is; `localrag.rag` is still to follow."""


def named_nothing(path: Path) -> set[tuple[int, str]]:
    """Lines of a file that bind such a name, as a variable or a parameter."""
    names = {
        (node.lineno, node.id if isinstance(node, ast.Name) else node.arg)
        for node in ast.walk(ast.parse(path.read_text(encoding="utf-8")))
        if isinstance(node, ast.arg)
        or (isinstance(node, ast.Name) and isinstance(node.ctx, ast.Store))
    }
    return {(line, name) for line, name in names if name in NAMING_NOTHING}


def test_variables_are_named_after_what_they_hold() -> None:
    outside = (path for path in FILES if path.relative_to(PACKAGE).parts[0] != "rag")
    assert not {str(path): names for path in outside if (names := named_nothing(path))}


def test_the_check_sees_variables_that_name_nothing(tmp_path: Path) -> None:
    sample = tmp_path / "sample.py"
    sample.write_text("[one for one in chunks]\nfor each, row in rows: f(lambda one: row)\n")
    assert named_nothing(sample) == {(1, "one"), (2, "each"), (2, "one")}


def test_the_check_sees_imports_inside_functions(tmp_path: Path) -> None:
    sample = tmp_path / "sample.py"
    sample.write_text(
        "def f():\n    from localrag.cli import group\n    import localrag.rag.base\n"
    )
    assert imported(sample) == {"cli.group", "rag.base"}


def test_the_check_sees_circles() -> None:
    assert set(circle({"a": {"b"}, "b": {"c"}, "c": {"a"}, "d": {"a"}})) == {"a", "b", "c"}
    assert not circle({"a": {"b", "c"}, "b": {"c"}})


def _patterns(path: Path) -> Iterator[str]:
    """The regular expressions of a module that are written out in it."""
    for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
        if isinstance(node, ast.Call) and ast.unparse(node.func).startswith("re.") and node.args:
            parts = [part for part in ast.walk(node.args[0]) if isinstance(part, ast.Constant)]
            yield "".join(str(part.value) for part in parts)


def _matches_a_marker(pattern: str) -> bool:
    """Whether a pattern takes [1] out of a text, and no number in other brackets."""
    try:
        compiled = re.compile(pattern, re.IGNORECASE)
    except re.error:  # a part of it is a name here
        return False
    markers, other = (
        {match[0].strip() for match in compiled.finditer(text)} for text in ("a [1] b", "a {1} b")
    )
    return "[1]" in markers and "{1}" not in other


def test_one_place_matches_a_marker() -> None:
    """Answers are data (`Statement`); only what a model writes is read, in one room."""
    modules = PACKAGE.rglob("*.py")
    names = {path.name for path in modules if any(map(_matches_a_marker, _patterns(path)))}
    citations = PACKAGE / "rag" / "citations.py"
    # Its pattern has a part that is named, so that it is built here as it is there.
    assert names <= {citations.name}
    assert citations.read_text(encoding="utf-8").count("\n_MARKER = re.compile(") == 1
    scripts = PACKAGE.rglob("static/*.js")
    own = [path for path in scripts if "vendor" not in path.parts]
    assert own
    number = re.compile(r"\\\[\(?(?:\\d|\[0-9)")  # such as /\[(\d+)\]/
    assert [path.name for path in own if number.search(path.read_text(encoding="utf-8"))] == []


def test_the_check_sees_what_matches_a_marker(tmp_path: Path) -> None:
    module = tmp_path / "module.py"
    module.write_text('import re\nA = re.compile(r"\\[(\\d+)\\]")\nB = re.sub(r"\\S+", "", "a")\n')
    assert [_matches_a_marker(pattern) for pattern in _patterns(module)] == [True, False]


def test_the_drawing_is_what_the_imports_say() -> None:
    page = (PACKAGE.parent / "docs" / "architecture.md").read_text("utf-8")
    assert f"```mermaid\n{drawing()}\n```" in page, "run scripts/draw_architecture.py"
