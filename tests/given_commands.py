"""The commands that pages and programs give, and whether each can be run."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator
from functools import cache
from pathlib import Path

import click

from localrag.cli.group import cli

ROOT = Path(__file__).resolve().parents[1]
COMMAND = re.compile(
    r"(?:\$ )?(?:[A-Z_]+=\S+ )*(?:python3? ((?:benchmarks|scripts)/\S+\.py)|localrag|"
    r"docker compose run --rm admin)(?: (.*))?"
)
"""`python benchmarks/rgb.py run RGB.jsonl OUT.jsonl --questions 0:50`, `localrag add ~/papers`"""


def commands(path: Path) -> Iterator[str]:
    """Of a page those between fences, indented or in backticks; of a program, its docstring's."""
    text = path.read_text("utf-8")
    if path.suffix == ".py":
        text = ast.get_docstring(ast.parse(text)) or ""
    text = re.sub(r"\\\n\s+|\n {8,}(?=[\[-])", " ", text)
    blocks = re.findall(r"^ *```(\w*)\n(.*?)^ *```$", text, re.S | re.M)
    shells = [block for kind, block in blocks if kind in ("", "sh", "console")]
    lines = [line for block in shells for line in block.splitlines()]
    if "```" not in text:
        lines += re.findall(r"^ {4}(?=\S).*", text, re.M)
    prose = re.sub(r"^ *```.*?^ *```$", "", text, flags=re.S | re.M)
    lines += [" ".join(quoted.split()) for quoted in re.findall(r"`([^`]+)`", prose)]
    yield from (line.strip() for line in lines if COMMAND.fullmatch(line.strip()))


@cache
def words_of(script: Path) -> frozenset[str]:
    """The strings in a program, and in functions that it takes from those beside it.

    Its options and what it may be told to do are among them.
    """
    parts: list[ast.AST] = [ast.parse(script.read_text("utf-8"))]
    for statement in list(ast.walk(parts[0])):
        if not isinstance(statement, ast.ImportFrom) or statement.level:
            continue
        beside = script.with_name(f"{statement.module}.py")
        if beside.is_file():
            names = {alias.name for alias in statement.names}
            parts += [
                node
                for node in ast.parse(beside.read_text("utf-8")).body
                if isinstance(node, ast.FunctionDef) and node.name in names
            ]
    values = (
        node.value for part in parts for node in ast.walk(part) if isinstance(node, ast.Constant)
    )
    return frozenset(value for value in values if isinstance(value, str))


def options_of(command: click.Command) -> set[str]:
    """All ways to write the options of a command."""
    return {name for option in command.params for name in (*option.opts, *option.secondary_opts)}


def fault_of(command: str) -> str:
    """Why this cannot be run, or nothing."""
    match = COMMAND.fullmatch(command)
    assert match is not None
    script, rest = match.groups()
    rest = re.split(r"\s[#|&;>]|  +|[;)]", rest or "")[0]  # a comment, another command
    words = re.sub(r"[\[\]]|\.\.\.", " ", rest).split()
    options = [re.split(r"[=|]", word)[0] for word in words if word.startswith("--")]
    if script:
        path = ROOT / script
        if not path.is_file():
            return f"there is no {script}"
        vocabulary = set(words_of(path))
        if words and re.fullmatch(r"[a-z][a-z-]+", words[0]):
            options.append(words[0])
    else:
        target: click.Command = cli
        vocabulary = options_of(cli) | {"--help"}
        for word in words:
            if not isinstance(target, click.Group) or not re.fullmatch(r"[a-z][a-z-]+", word):
                continue
            inner = target.get_command(click.Context(target), word)
            if inner is None:
                return f"localrag has no {word}"
            target, vocabulary = inner, vocabulary | options_of(inner)
    missing = [option for option in options if option not in vocabulary]
    return f"{script or 'localrag'} has no {', '.join(missing)}" if missing else ""
