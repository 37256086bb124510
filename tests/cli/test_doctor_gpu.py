"""`doctor --gpu` keeps the faster of processor and graphics chip."""

from __future__ import annotations

import json
from pathlib import Path
from types import TracebackType
from typing import Self, cast

import pytest
from click.testing import CliRunner

from localrag.cli import gpu
from localrag.cli.group import cli
from localrag.config.settings import LlamaCppSettings, Settings, load_settings
from localrag.errors import BackendError
from localrag.models.llms.llama_cpp.context import OffloadReport
from localrag.models.llms.llama_cpp.model import Speed
from localrag.models.registry.store import ModelStore

MODELS = cast(ModelStore, None)
PROCESSOR = Speed(prefill=100, decode=10)
CHIPS = {
    "fast": (("CUDA0 (NVIDIA RTX 4060)",), Speed(2000, 60)),
    "weak": (("Vulkan0 (Intel UHD 620)",), Speed(120, 6)),
    "equal": (("Vulkan0 (AMD Radeon 680M)",), Speed(104, 10)),
    "none": ((), PROCESSOR),
}
"""Backends by name: the chips that llama.cpp lists, and how fast a model runs there."""


@pytest.fixture
def backend(monkeypatch: pytest.MonkeyPatch) -> dict[str, str]:
    """Which of `CHIPS` this machine has, under "chip"."""
    machine = {"chip": "none"}

    class Model:
        def __init__(self, settings: LlamaCppSettings, models: object) -> None:
            gpu_layers = settings.gpu_layers
            if gpu_layers and machine["chip"] == "full":
                raise BackendError("There is not enough memory.")
            self._on_chip = gpu_layers != 0

        def __enter__(self) -> Self:
            return self

        def __exit__(
            self,
            kind: type[BaseException] | None,
            error: BaseException | None,
            trace: TracebackType | None,
        ) -> None: ...

        def speed(self) -> Speed:
            return CHIPS[machine["chip"]][1] if self._on_chip else PROCESSOR

        def offload_report(self) -> OffloadReport:
            devices = CHIPS.get(machine["chip"], CHIPS["fast"])[0]
            layers = 29 if self._on_chip and devices else 0
            return OffloadReport(bool(devices), layers, 29, devices if layers else ())

    monkeypatch.setattr("localrag.factory.make_local_model", Model)
    return machine


@pytest.fixture
def settings_file(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    path = tmp_path / "设置 settings.toml"
    monkeypatch.setenv("LOCALRAG_CONFIG", str(path))
    return path


def layers() -> int:
    llm = load_settings().llm
    assert isinstance(llm, LlamaCppSettings)
    return llm.gpu_layers


@pytest.mark.parametrize(
    ("chip", "kept", "words"),
    [
        ("fast", -1, "CUDA0 (NVIDIA RTX 4060): reads 2000 and writes 60"),
        ("weak", 0, "Vulkan0 (Intel UHD 620): reads 120 and writes 6"),
        ("equal", 0, "not faster here"),
        ("full", 5, "not timed on the graphics chip"),
    ],
)
def test_what_is_faster_is_kept(
    backend: dict[str, str], settings_file: Path, chip: str, kept: int, words: str
) -> None:
    backend["chip"] = chip
    settings_file.write_text("# mine\n[llm]\ngpu_layers = 5\n", encoding="utf-8")
    llm = load_settings().llm
    assert isinstance(llm, LlamaCppSettings)
    report = list(gpu.compare(llm, MODELS))
    text = "\n".join(line for _, line in report)
    assert report[0] == (
        True,
        "processor: reads 100 and writes 10 tokens a second; an answer takes about 22 s",
    )
    assert words in text
    assert (f"llm.gpu_layers = {kept}" in text) == (chip != "full")
    assert layers() == kept
    assert settings_file.read_text("utf-8").startswith("# mine\n")
    assert all(well for well, _ in report) == (chip != "full")


def test_a_build_without_a_graphics_backend_changes_nothing(
    backend: dict[str, str], settings_file: Path
) -> None:
    _, (well, text) = gpu.compare(LlamaCppSettings(), MODELS)
    assert well
    assert "no graphics backend" in text
    assert "-DGGML_VULKAN=on" in text
    assert not settings_file.exists()
    assert layers() == Settings().llm.gpu_layers  # type: ignore[union-attr]


def test_settings_that_cannot_be_written_are_named(
    backend: dict[str, str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """As in a read-only home; a file in place of the folder is refused to root as well."""
    (tmp_path / "home").write_text("")
    monkeypatch.setenv("LOCALRAG_CONFIG", str(tmp_path / "home" / "settings.toml"))
    backend["chip"] = "weak"
    with pytest.raises(Exception, match=r"settings\.toml|home"):
        list(gpu.compare(LlamaCppSettings(), MODELS))


def test_quick_and_gpu_exclude_each_other() -> None:
    result = CliRunner().invoke(cli, ["doctor", "--quick", "--gpu", "--json"])
    assert result.exit_code != 0
    assert "--quick" in json.dumps(result.output) or "--quick" in str(result.exception)
