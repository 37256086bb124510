"""What the documents point at is there: links, headings, files, tests and names in the code."""

from __future__ import annotations

import re
from pathlib import Path

import pytest
from given_commands import commands, fault_of

ROOT = Path(__file__).resolve().parents[1]
PAGES = sorted(
    str(path.relative_to(ROOT))
    for folder, pattern in (
        *((ROOT, "*.md"), (ROOT / "docs", "**/*.md"), (ROOT / "models", "*.md")),
        (ROOT / "benchmarks", "**/*.md"),
    )
    for path in folder.glob(pattern)
)
DATED = {"CHANGELOG.md", *(page for page in PAGES if page.startswith("benchmarks/log/"))}
"""They say what was; files that they name may be gone."""
FILE = r"(?:localrag|tests|scripts|benchmarks|docs|data)/[\w./-]+"


def headings(path: Path) -> set[str]:
    """The anchors that a page's headings get where it is shown."""
    text = re.sub(r"^ *```.*?^ *```$", "", path.read_text("utf-8"), flags=re.S | re.M)
    titles = re.findall(r"^#+ (.*)$", text, re.M)
    return {re.sub(r"[^\w\- ]", "", title.lower()).strip().replace(" ", "-") for title in titles}


def leads_nowhere(page: str, link: str) -> bool:
    """Whether a link of a page names a file or a heading that is not there."""
    if link.startswith(("https://", "http://")):
        return False
    path = ROOT / page
    file, _, anchor = link.partition("#")
    target = path.parent / file if file else path
    return not target.exists() or bool(anchor and anchor not in headings(target))


def test_links_lead_somewhere() -> None:
    faults = [
        f"{page} links to {link}"
        for page in PAGES
        for link in re.findall(r"\]\(([^)\s]+)\)", (ROOT / page).read_text("utf-8"))
        if leads_nowhere(page, link)
    ]
    assert not faults, "\n".join(faults)


@pytest.mark.parametrize(
    ("link", "wrong"),
    [
        ("docs/guide.md", False),
        ("docs/none.md", True),
        ("#localrag", False),
        ("#none", True),
        ("https://example.org", False),
    ],
)
def test_what_leads_nowhere(link: str, wrong: bool) -> None:
    assert leads_nowhere("README.md", link) == wrong


def test_files_that_are_named_are_there() -> None:
    faults = [
        f"{page} names {file}{f'::{test}' if test else ''}"
        for page in PAGES
        if page not in DATED
        for file, test in re.findall(rf"`({FILE})(?:::(\w+))?`", (ROOT / page).read_text("utf-8"))
        if (
            "CODE" not in file  # stands for a language in a recipe
            and not (ROOT / file).exists()
        )
        or (test and f"def {test}(" not in (ROOT / file).read_text("utf-8"))
    ]
    assert not faults, "\n".join(faults)


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
    faults = []
    for path in filter(Path.is_file, files):
        text = path.read_text("utf-8")
        if path.suffix == ".py":  # a message goes on in the next literal: "pip install " "localrag"
            text = re.sub(r"\"\n\s*f?\"", "", text)
        faults += [f"{path.relative_to(ROOT)}: {hit[0]}" for hit in INSTALLS_BY_NAME.finditer(text)]
    assert not faults


def test_nothing_is_left_to_be_filled_in() -> None:
    """Such as MORE_A, as a cell of a table or in place of a row."""
    faults = []
    for page in PAGES:
        text = re.sub(r"^ *```.*?^ *```$", "", (ROOT / page).read_text("utf-8"), flags=re.S | re.M)
        cells = (cell.strip() for line in text.splitlines() for cell in line.split("|"))
        faults += [
            f"{page}: {cell}"
            for cell in cells
            if re.fullmatch(r"[A-Z]+(?:_[A-Z]+)+|TODO|TBD", cell)
        ]
    assert not faults


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


def test_every_command_that_is_given_can_be_run() -> None:
    places = [ROOT / page for page in PAGES if page not in DATED]
    for folder in ("benchmarks", "scripts"):
        places += (ROOT / folder).rglob("*.py")
    examples = [(path, command) for path in places for command in commands(path)]
    assert len(examples) > 200
    faults = [
        f"{path.relative_to(ROOT)}: {command}: {fault}"
        for path, command in examples
        if (fault := fault_of(command))
    ]
    assert not faults, "\n".join(faults)


@pytest.mark.parametrize(
    ("command", "fault"),
    [
        ("python benchmarks/rgb.py run RGB.jsonl OUT.jsonl --questions 0:50", ""),
        ("python benchmarks/rgb.py summary OUT.jsonl [--plot OUT.svg]", ""),
        ("python benchmarks/gone.py DATA", "there is no benchmarks/gone.py"),
        ("python benchmarks/rgb.py draw OUT.jsonl", "has no draw"),
        ("python benchmarks/rgb.py run RGB.jsonl --gone", "has no --gone"),
        ("localrag bench retrieval DIR --queries 9", ""),
        ("localrag bench generation DIR", "has no generation"),
        ("localrag search --gone", "has no --gone"),
    ],
)
def test_what_is_wrong_with_a_command(command: str, fault: str) -> None:
    assert fault in fault_of(command)
    assert bool(fault) == bool(fault_of(command))


def test_what_is_new_can_be_read() -> None:
    """A version that nobody has yet is told in a hundred lines."""
    versions = re.split(r"^## ", (ROOT / "CHANGELOG.md").read_text("utf-8"), flags=re.M)[1:]
    unreleased = [version for version in versions if "(unreleased)" in version.split("\n", 1)[0]]
    assert unreleased
    assert [len(version.splitlines()) for version in unreleased if version.count("\n") > 100] == []
