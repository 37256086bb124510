"""Every benchmark runs, on tiny inputs.

The figures mean nothing here. What needs the environment of another program is in `ELSEWHERE`.
"""

from __future__ import annotations

import os
import shlex
import socket
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest
from inputs import write_inputs

ROOT = Path(__file__).resolve().parents[2]
BENCHMARKS = ROOT / "benchmarks"
SMALL, EMBEDDING = "smollm2-135m-instruct-q4", "use-multilingual-v3"
CROSS_ENCODER = "ms-marco-minilm-l12-v2-int8"

RUNS: dict[str, tuple[str, ...]] = {
    "add_size": (
        "--kinds txt md html pdf files --sizes 0.01 --json out.json --svg out.svg",
        "--kinds files --sizes 0.01 --model {models}/use-multilingual-v3",
    ),
    "answer_time": ("xquad_en work {python} {python} --mode self-rag --questions 2",),
    "disagreement": (". --each 3",),
    "embedding_start": ("{models}/use-multilingual-v3 --runs 1 --passages 4",),
    "eval_sets": ("cmrc2018 out --questions 3",),
    "eval_wordings": (
        "verdicts --wording confirmed --wording 'three choices' --cache kept",
        "useful . --seed 1 --cache kept",
    ),
    "folders": (
        "search office",
        "answers office --out answers.jsonl --kinds fact,follow",
        "references office --read",
    ),
    "garbled": ("checked",),
    "grades": (
        "measure . out.jsonl --each 6",
        "summary out.jsonl",
        "plot out.jsonl out.svg",
        "ship out.jsonl calibration.json",
    ),
    "injections": (
        "run plain.jsonl --replies replies.jsonl --modes standard --what attacks --drawn 2 --plain",
        "run out.jsonl --replies replies.jsonl --modes standard,self-rag --what attacks --drawn 2",
        "summary without=plain.jsonl with=out.jsonl",
        "held xquad_en/corpus.jsonl",
    ),
    "kv_type": ("rgb/zh_refine_first150.jsonl --pairs 2",),
    "learned_reranker": ("xquad_en xquad_zh=0.5",),
    "llm_speed": ("{small} --tokens 32 --threads 1 --batches 32",),
    "many_callers": ("--seconds 2 --callers 2 --think 0.1 --files 3",),
    "months": ("{root}/benchmarks/probes/months.jsonl",),
    "ocr": ("small.pdf --pages 2 --turns 0",),
    "pointing": (
        "read work --cases 6 --model {small}",
        "fit work --cases 6 --model {small} --out points.npz",
        "measure work office --probes points.npz --model {small}",
        "whether work --cases 2 --probes points.npz --model {small}",
    ),
    "positions": ("small.pdf --sentences 3 --rotate 90", "small.pdf --sentences 3 --drawn"),
    "postgres": ("library 20 {url}", "vectors 1000 {url}"),
    "probes": (
        "states work --questions 60 --made-up 0 --model {small}",
        "fit work --questions 60 --made-up 0 --model {small} --out probes.npz",
        "measure work office --probes probes.npz --model {small}",
    ),
    "ragas_comparison": (
        "samples . samples.jsonl",
        "run localrag-process samples.jsonl out.jsonl --first 2",
        "run localrag samples.jsonl out.jsonl --metric context_precision --first 1 --model {name}",
        "summary samples.jsonl out.jsonl",
    ),
    "reading": ("checked --missing",),
    "reranking": (
        "keyword xquad_en keyword.jsonl --questions 4",
        "learned xquad_en learned.jsonl --questions 4 --half odd",
        "cross-encoder xquad_en cross.jsonl --questions 2",
        "llm xquad_en llm.jsonl --questions 2 --grades --warm",
        "summary llm.jsonl",
    ),
    "retrieval": (
        "sets . --queries 8",
        "fetch . --queries 4",
        "sensitivity . --queries 4",
        "models . --queries 4",
        "mixed . --queries 4",
        "size 300",
    ),
    "rgb": (
        "run rgb/zh_refine_first150.jsonl out.jsonl --questions 0:2",
        "summary out.jsonl --plot out.svg",
    ),
    "scale": (
        "--passages 100 --steps build,cold,warm,both,callers",
        "--passages 100 --steps build,change,recall,commands,unchanged",
        "--passages 100 --steps build,traces --without-keywords --changes 10 --set xquad_en",
        "--passages 100 --alone --against {root}",
    ),
    "self_rag": ("small.pdf --json out.json",),
    "server_load": (
        "{library} streams --clients 2 --seconds 1",
        "{library} aborts --count 3",
        "{library} freed --count 2",
    ),
    "summaries": (
        "--work kept chosen meetings --half even",
        "--work kept written small.pdf --about bridge --seconds 5",
    ),
    "table_questions": ("tables --each --answers out.jsonl",),
    "tenants": ("requests --count 60", "timing --pairs 3", "states --pairs 1", "model --count 1"),
    "vault": ("--passages 100 --searches 5 --folder .",),
    "waits": ("--searches 2 --delay 0.1",),
    "wtq": (
        "wtq --half even --out out.jsonl",
        "{root}/benchmarks/probes/tables.jsonl --half odd --questions 2",
        "{root}/benchmarks/probes/tables.jsonl --columns --questions 1",
    ),
    "whether": ("--cases 2",),
    "with_server": ("{library} --searches 1 --asks 1 --port {port}",),
    "peers/compare": (
        "run . work none --runs 1 --libraries localrag --languages en --documents 6 --questions 1 "
        "--searches 2 --model {name} --max-tokens 8",
        "table work",
    ),
}
"""By script, commands that are run in this order in a folder of tiny inputs."""
MODELS = {
    "add_size": (EMBEDDING,),
    "embedding_start": (EMBEDDING,),
    "kv_type": (SMALL,),
    "llm_speed": (SMALL,),
    "peers/compare": (SMALL, EMBEDDING),
    "pointing": (SMALL,),
    "probes": (SMALL,),
    "ragas_comparison": (SMALL,),
    "reranking": (CROSS_ENCODER,),
    "self_rag": (SMALL,),
    "tenants": (SMALL,),
}
ELSEWHERE = {
    "peers/environments": "installs the other libraries",
    "peers/llama_bench": "compiles llama.cpp's own benchmark",
    "peers/with_langchain": "runs in the environment of LangChain",
    "peers/with_llamaindex": "runs in the environment of LlamaIndex",
    "peers/with_raglite": "runs in the environment of RAGLite",
    "peers/with_txtai": "runs in the environment of txtai",
    "peers/with_localrag": "is started by compare.py",
    "ragas_worker": "runs in the environment of ragas",
}


@pytest.fixture(scope="module")
def tiny(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("tiny")
    write_inputs(folder, BENCHMARKS)
    return folder


@pytest.fixture
def environment(tmp_path: Path) -> dict[str, str]:
    """Folders of its own, models that cost nothing, and this checkout's code in every process."""
    own = {f"XDG_{name}_HOME": str(tmp_path / name) for name in ("CACHE", "DATA", "STATE")}
    folder = Path(__file__).parent
    path = os.pathsep.join(map(str, (folder, folder.parent, ROOT)))
    more = {
        "LOCALRAG_LLM_MODEL": SMALL,
        "LOCALRAG_ANSWER_MAX_TOKENS": "8",
        "PYTHONUTF8": "1",
        "PYTHONPATH": path,
    }
    return os.environ | own | more


@pytest.mark.slow
@pytest.mark.timeout(1800)
@pytest.mark.parametrize(
    "script",
    [
        pytest.param(name, marks=[pytest.mark.models(*MODELS[name])] if name in MODELS else [])
        for name in RUNS
    ],
)
def test_a_benchmark_runs(
    script: str,
    tiny: Path,
    environment: dict[str, str],
    tmp_path: Path,
    models_dir: Callable[[str], Path],
    request: pytest.FixtureRequest,
) -> None:
    folders = {model: models_dir(model) for model in MODELS.get(script, ())}
    work = tmp_path / "work"
    work.mkdir()
    for path in tiny.iterdir():
        (work / path.name).symlink_to(path)
    values = {"python": sys.executable, "root": str(ROOT), "name": SMALL}
    commands = " ".join(RUNS[script])
    if "{models}" in commands:
        values["models"] = str(folders[EMBEDDING].parent)
    if "{small}" in commands:
        values["small"] = str(next(folders[SMALL].glob("*.gguf")))
    if "{url}" in commands:
        values["url"] = request.getfixturevalue("postgres")
    if "{port}" in commands:
        with socket.socket() as probe:
            probe.bind(("127.0.0.1", 0))
            values["port"] = str(probe.getsockname()[1])
    if "{library}" in commands:
        values["library"] = str(tmp_path / "library")
        files = str(work / "office" / "docs")
        run(["-m", "localrag", "--library", values["library"], "add", files], work, environment)
    for command in RUNS[script]:
        words = [word.format(**values) for word in shlex.split(command)]
        before = _written(work)
        output = run([str(BENCHMARKS / f"{script}.py"), *words], work, environment)
        assert output or _written(work) != before


def _written(folder: Path) -> dict[Path, int]:
    """When each file was written that is not one of the inputs."""
    return {path: path.stat().st_mtime_ns for path in folder.rglob("*") if not path.is_symlink()}


def run(command: list[str], folder: Path, environment: dict[str, str]) -> str:
    """What it prints; that and its complaints where it fails."""
    result = subprocess.run(
        [sys.executable, *command],
        cwd=folder,
        env=environment,
        capture_output=True,
        encoding="utf-8",
        timeout=550,
        check=False,
    )
    assert result.returncode == 0, f"{shlex.join(command)}\n{result.stdout}\n{result.stderr}"
    return result.stdout


def test_every_benchmark_is_run_here_or_says_why_not() -> None:
    scripts = {
        str(path.relative_to(BENCHMARKS).with_suffix(""))
        for path in BENCHMARKS.rglob("*.py")
        if '__name__ == "__main__"' in path.read_text("utf-8")
    }
    assert scripts == RUNS.keys() | ELSEWHERE.keys()
