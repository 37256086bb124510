"""Write the tables of commands and settings into the pages of the guide, in both languages.

    .venv/bin/python scripts/draw_guide.py             write them
    .venv/bin/python scripts/draw_guide.py --check     say what differs or is missing; 1 if anything

Commands come with their help. Settings come with their defaults and what they allow; what they mean
is said by hand in the last column, which is kept.
"""

from __future__ import annotations

import os
import re
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any, get_args

import click
import msgspec

ROOT = Path(__file__).resolve().parents[1]
sys.path.insert(0, str(ROOT))

from localrag.config.settings import Settings  # noqa: E402 - that of this checkout

GUIDE = ROOT / "docs" / "guide"
PAGES = {
    "en": (GUIDE / "use.md", GUIDE / "keeping.md"),
    "zh": (GUIDE / "use.zh-CN.md", GUIDE / "keeping.zh-CN.md"),
}
HEADS = {
    "en": (("command", "what it does", "options"), ("setting", "default", "values", "meaning")),
    "zh": (("命令", "作用", "选项"), ("设置", "默认值", "取值", "含义")),
}
BEGIN, END = "<!-- drawn by scripts/draw_guide.py -->", "<!-- end -->"
EVERYWHERE = {"--help", "--json", "--library"}


def main() -> int:
    """Write or compare; the exit code."""
    if sys.argv[1:] == ["--commands"]:
        print("\n".join(commands()))
        return 0
    check, faults = sys.argv[1:] == ["--check"], 0
    for language, (use, keeping) in PAGES.items():
        meanings = dict(
            re.findall(r"^\| (`\S+`[^|]*) \|.*\| ([^|]*) \|$", keeping.read_text("utf-8"), re.M)
        )
        rows = {key: f"{row} {meanings.get(key, '')} |" for key, row in settings()}
        for key in rows.keys() - {key for key, meaning in meanings.items() if meaning}:
            print(f"{keeping.name}: say what {key} means", file=sys.stderr)
            faults += 1
        tables = {use: in_language(language), keeping: [*rows.values()]}
        for (page, lines), heads in zip(tables.items(), HEADS[language], strict=True):
            text = page.read_text("utf-8")
            drawn = drawn_into(text, [head(heads), *lines])
            if not check:
                page.write_text(drawn, "utf-8")
            elif drawn != text:
                print(f"{page.name}: run scripts/draw_guide.py", file=sys.stderr)
                faults += 1
    return int(faults > 0)


def head(titles: tuple[str, ...]) -> str:
    """The first two lines of a table."""
    return f"| {' | '.join(titles)} |\n|{'---|' * len(titles)}"


def drawn_into(text: str, lines: list[str]) -> str:
    """The page with these lines between its marks."""
    before, begin, rest = text.partition(BEGIN)
    _, end, after = rest.partition(END)
    if not end:
        sys.exit(f"A page has no {BEGIN} ... {END}.")
    return "\n".join([before + begin, *lines, end + after])


def in_language(language: str) -> list[str]:
    """The rows of the commands; help is translated as a command is imported."""
    command = [sys.executable, __file__, "--commands"]
    environment = os.environ | {"LOCALRAG_LANG": language, "PYTHONUTF8": "1"}
    done = subprocess.run(command, env=environment, capture_output=True, text=True, check=True)
    return done.stdout.splitlines()


def commands() -> Iterator[str]:
    """A row for each command."""
    from localrag.cli.group import cli

    def rows(path: str, command: click.Command) -> Iterator[str]:
        context = click.Context(command, info_name=path)
        if isinstance(command, click.Group):
            if command.invoke_without_command:
                yield row(path, command)
            for name in command.list_commands(context):
                inner = command.get_command(context, name)
                assert inner is not None
                yield from rows(f"{path} {name}".strip(), inner)
        else:
            yield row(path, command)

    def row(path: str, command: click.Command) -> str:
        words = [
            parameter.make_metavar(click.Context(command))
            for parameter in command.params
            if isinstance(parameter, click.Argument)
        ]
        options = [
            max(parameter.opts, key=len)
            for parameter in command.params
            if isinstance(parameter, click.Option) and not parameter.hidden
        ]
        named = " ".join(f"`{name}`" for name in options if name not in EVERYWHERE)
        used = escaped(" ".join([path, *words]))
        return f"| `{used}` | {escaped(command.short_help or '')} | {named} |"

    yield from rows("", cli)


def escaped(text: str) -> str:
    """For a cell of a table."""
    return " ".join(text.split()).replace("|", "\\|")


def settings() -> Iterator[tuple[str, str]]:
    """Each setting by its key, with a row up to its meaning."""
    for field in msgspec.structs.fields(Settings):
        kinds = [kind for kind in get_args(field.type) or (field.type,) if is_section(kind)]
        if not kinds:
            yield setting(field.name, field.default, field.type)
            continue
        if len(kinds) > 1:
            tags = [kind.__struct_config__.tag for kind in kinds]
            name = f"`{field.name}.{kinds[0].__struct_config__.tag_field}`"
            default = type(field.default).__struct_config__.tag
            yield name, f"| {name} | `{default}` | {' '.join(f'`{tag}`' for tag in tags)} |"
        for kind in kinds:
            for inner in msgspec.structs.fields(kind):
                tag = f" ({kind.__struct_config__.tag})" if len(kinds) > 1 else ""
                yield setting(f"{field.name}.{inner.name}", inner.default, inner.type, tag)


def is_section(kind: Any) -> bool:
    """Whether it holds settings."""
    return isinstance(kind, type) and issubclass(kind, msgspec.Struct)


def setting(key: str, default: object, kind: Any, tag: str = "") -> tuple[str, str]:
    """A key, and its row up to the meaning."""
    name = f"`{key}`{tag}"
    shown = str(default).lower() if isinstance(default, bool) else str(default)
    cell = f"`{'[]' if default == () else shown}`" if shown else "–"
    return name, f"| {name} | {cell} | {allowed(kind)} |"


def allowed(kind: Any) -> str:
    """The values that a type allows: choices, bounds, or nothing."""
    schema = msgspec.json.schema(kind)
    if "enum" in schema:
        return " ".join(f"`{value}`" for value in sorted(schema["enum"]))
    if schema.get("type") == "boolean":
        return "`true` `false`"
    low = schema.get("minimum", schema.get("exclusiveMinimum"))
    high = schema.get("maximum")
    if low is None:
        return ""
    sign = ">" if "exclusiveMinimum" in schema else "≥"
    return f"{low:g}–{high:g}" if high is not None else f"{sign} {low:g}"


if __name__ == "__main__":
    sys.exit(main())
