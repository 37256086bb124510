"""Measuring what a model's grades are worth, with calls that are kept."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import closing
from pathlib import Path

from localrag import factory
from localrag.config.settings import Settings
from localrag.errors import UsageError
from localrag.evaluation.call_cache import CachedModel, CallCache
from localrag.evaluation.grades import measuring
from localrag.evaluation.grades.questions import cases
from localrag.evaluation.runner import TimeLeft
from localrag.rag.calibration import Calibration, save_calibration


def calibrate_grades(
    settings: Settings, cache: CallCache, progress: Callable[[int, int, float | None], None]
) -> tuple[Calibration, Path]:
    """Measure the model of the settings; what was measured, and where it is kept.

    What a stopped run has asked is not asked again. `progress` hears cases done, all, and the
    seconds left. Raises `UsageError` for a model behind a server, which shows no probabilities.
    """
    models = factory.make_models()
    key = factory.calibration_key_of(settings, models)
    if key is None:
        raise UsageError(
            "{model} shows no probabilities, so its grades cannot be calibrated.",
            hint="Name a GGUF model on this machine: `localrag models list` lists them.",
            model=settings.llm.model,
        )
    everything = cases()
    wording = factory.make_wording(settings)
    with closing(factory.make_model(settings, models)) as model:
        steps = TimeLeft(len(everything), progress)
        cached_model = CachedModel(model.llm, model.scorer, key, cache)
        samples = list(measuring.grade(everything, cached_model.chooser, wording, steps.done))
    measured = measuring.calibration(settings.llm.model, key, samples)
    return measured, save_calibration(measured, factory.calibrations_folder())
