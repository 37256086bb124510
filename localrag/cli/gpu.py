"""`localrag doctor --gpu`: times the processor against the graphics chip, and keeps the faster."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from importlib.metadata import version
from typing import TYPE_CHECKING

from localrag.messages import tr

if TYPE_CHECKING:
    from localrag.config.settings import LlamaCppSettings
    from localrag.models.llms.llama_cpp.context import OffloadReport
    from localrag.models.registry.store import ModelStore

ANSWER_TOKENS = (1000, 120)
"""Tokens read and written for a typical answer, to say what a measured speed means."""

WORTHWHILE = 0.9
"""A chip that needs more than this share of the processor's time is left alone: it is no slower
then by mere chance, and what it takes of memory and battery is saved."""


@dataclass(frozen=True, slots=True)
class SpeedTrial:
    """One way to run the model: tokens a second when reading (prefill) and writing (decode)."""

    prefill: float
    decode: float
    offload: OffloadReport

    @property
    def seconds(self) -> float:
        """How long a typical answer takes."""
        read, written = ANSWER_TOKENS
        return read / self.prefill + written / self.decode


def measure(settings: LlamaCppSettings, models: ModelStore) -> SpeedTrial:
    """Load the model as it is set and time it, in a few seconds."""
    from localrag.factory import make_local_model

    with make_local_model(settings, models) as model:
        speed = model.speed()
        return SpeedTrial(speed.prefill, speed.decode, model.offload_report())


def compare(settings: LlamaCppSettings, models: ModelStore) -> Iterator[tuple[bool, str]]:
    """Time both and keep the faster one in the settings file; yields whether it is well, and why.

    Raises `BackendError` where the model does not load at all, `ConfigError` where the settings
    cannot be written.
    """
    from msgspec.structs import replace

    from localrag.config.settings import set_in_file
    from localrag.errors import BackendError
    from localrag.messages import spoken

    processor = measure(replace(settings, gpu_layers=0), models)
    yield True, _speed_text(tr("processor"), processor)
    if not processor.offload.gpu_build:
        yield (
            True,
            tr(
                "this llama.cpp has no graphics backend, so there is nothing to compare; a build "
                'with one: CMAKE_ARGS="-DGGML_VULKAN=on" (or -DGGML_CUDA=on) pip install '
                "--force-reinstall --no-deps --no-cache-dir llama-cpp-python=={version}",
                version=version("llama-cpp-python"),
            ),
        )
        return
    try:
        chip = measure(replace(settings, gpu_layers=-1), models)
    except BackendError as error:
        yield False, spoken(error)
        yield (
            False,
            tr("the model was not timed on the graphics chip; llm.gpu_layers stays as it is."),
        )
        return
    name = tr(", ").join(chip.offload.devices) or tr("graphics chip")
    yield True, _speed_text(name, chip)
    faster = chip.seconds < WORTHWHILE * processor.seconds
    layers = -1 if faster else 0
    if faster:
        text = tr("the graphics chip is faster and is used (llm.gpu_layers = -1).")
    else:
        text = tr(
            "the graphics chip is not faster here, as is usual for chips that share the "
            "processor's memory: the model runs on the processor (llm.gpu_layers = 0)."
        )
    if layers != settings.gpu_layers:
        set_in_file("llm.gpu_layers", str(layers))
    yield True, text


def _speed_text(name: str, trial: SpeedTrial) -> str:
    return tr(
        "{name}: reads {prefill:.0f} and writes {decode:.0f} tokens a second; an answer takes "
        "about {seconds:.0f} s",
        name=name,
        prefill=trial.prefill,
        decode=trial.decode,
        seconds=trial.seconds,
    )
