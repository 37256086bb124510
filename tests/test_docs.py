"""What the documents point at is there: links, headings, files, tests and names in the code."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[1]
DATED = ("CHANGELOG.md", "benchmarks/LOG.md")
"""They say what was; files that they name may be gone."""
PAGES = sorted(
    str(path.relative_to(ROOT))
    for folder, pattern in (
        *((ROOT, "*.md"), (ROOT / "docs", "**/*.md"), (ROOT / "models", "*.md")),
        (ROOT / "benchmarks", "**/*.md"),
    )
    for path in folder.glob(pattern)
)
FILE = r"(?:localrag|tests|scripts|benchmarks|docs|data)/[\w./-]+"


def headings(path: Path) -> set[str]:
    """The anchors that a page's headings get where it is shown."""
    text = re.sub(r"^ *```.*?^ *```$", "", path.read_text("utf-8"), flags=re.S | re.M)
    titles = re.findall(r"^#+ (.*)$", text, re.M)
    return {re.sub(r"[^\w\- ]", "", title.lower()).strip().replace(" ", "-") for title in titles}


@pytest.mark.parametrize("page", PAGES)
def test_links_lead_somewhere(page: str) -> None:
    path = ROOT / page
    for link in re.findall(r"\]\(([^)\s]+)\)", path.read_text("utf-8")):
        if link.startswith(("https://", "http://")):
            continue
        file, _, anchor = link.partition("#")
        target = path.parent / file if file else path
        assert target.exists(), f"{page} links to {link}"
        if anchor:
            assert anchor in headings(target), f"{page} links to {link}"


@pytest.mark.parametrize("page", [page for page in PAGES if page not in DATED])
def test_files_that_are_named_are_there(page: str) -> None:
    for file, test in re.findall(rf"`({FILE})(?:::(\w+))?`", (ROOT / page).read_text("utf-8")):
        path = ROOT / file
        assert path.exists(), f"{page} names {file}"
        if test:
            assert f"def {test}(" in path.read_text("utf-8"), f"{page} names {file}::{test}"


# "pip install 'localrag-offline[postgres]'", "pipx install localrag"; not "localrag_offline-*.whl"
INSTALLS_BY_NAME = re.compile(
    r"\b(?:pip3?|pipx|uv)\b[^\n`]*\binstall\b[^\n`]*?[ '\"]localrag(?:[-_]offline)?"
    r"(?=[ '\"`\[=<>~.]|$)",
    re.M,
)


@pytest.mark.parametrize(
    ("line", "by_name"),
    [
        ("Install it: pip install 'localrag-offline[postgres]'", True),
        ("pipx install localrag", True),
        ("uv tool install --force localrag-offline==0.2.0", True),
        ("pip install --no-index --find-links wheels localrag_offline", True),
        ("pip install --no-index wheels/localrag_offline-*.whl 'psycopg[binary]'", False),
        ("pipx install ./localrag_offline-0.2.0-py3-none-any.whl", False),
        ("pip install -r scripts/locks/postgres.txt", False),
    ],
)
def test_what_installs_by_name(line: str, by_name: bool) -> None:
    assert bool(INSTALLS_BY_NAME.search(line)) == by_name


def test_nobody_is_told_to_install_a_package_by_our_name() -> None:
    """Until it is ours on the public index, whoever takes it first would be installed."""
    kinds = {".py", ".md", ".toml", ".txt", ".html", ".js", ".yml", ".yaml", ".service", ""}
    files = [ROOT / page for page in PAGES if page not in DATED]
    for folder in ("localrag", "docs", "scripts"):
        files += [path for path in (ROOT / folder).rglob("*") if path.suffix in kinds]
    told = []
    for path in filter(Path.is_file, files):
        text = path.read_text("utf-8")
        if path.suffix == ".py":  # a message goes on in the next literal: "pip install " "localrag"
            text = re.sub(r"\"\n\s*f?\"", "", text)
        told += [f"{path.relative_to(ROOT)}: {hit[0]}" for hit in INSTALLS_BY_NAME.finditer(text)]
    assert not told


@pytest.mark.parametrize("page", PAGES)
def test_nothing_is_left_to_be_filled_in(page: str) -> None:
    """Such as MORE_A, as a cell of a table or in place of a row."""
    text = re.sub(r"^ *```.*?^ *```$", "", (ROOT / page).read_text("utf-8"), flags=re.S | re.M)
    cells = (cell.strip() for line in text.splitlines() for cell in line.split("|"))
    assert not [cell for cell in cells if re.fullmatch(r"[A-Z]+(?:_[A-Z]+)+|TODO|TBD", cell)]


@pytest.mark.parametrize("page", ["docs/architecture.md", "CONTRIBUTING.md"])
def test_names_that_are_said_to_stand_in_a_file_stand_there(page: str) -> None:
    """A cell of names, and beside it the cell of the file: each is defined in it."""
    rows = re.findall(
        rf"^\| ((?:`\w+`(?:, )?)+) \| `({FILE}\.py)` \|", (ROOT / page).read_text("utf-8"), re.M
    )
    assert rows or page != "docs/architecture.md"
    for names, file in rows:
        text = (ROOT / file).read_text("utf-8")
        for name in re.findall(r"\w+", names):
            defined = re.search(rf"^(?:class |def |){name}\b(?:\(|:| =)", text, re.M)
            assert defined, f"{page} says that {name} stands in {file}"


def test_every_box_of_the_drawing_is_explained() -> None:
    page = (ROOT / "docs" / "architecture.md").read_text("utf-8")
    boxes = set(re.findall(r"^    ([\w.]+) --> ", page, re.M))
    for box in boxes:
        assert re.search(rf"^\|.*`{box}`.*\|.*\|$", page, re.M), box
