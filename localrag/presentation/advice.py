"""Advice on the embedding model of a library, as a person reads it."""

from __future__ import annotations

from typing import TYPE_CHECKING

from localrag.languages import LANGUAGES, DetectedLanguage, is_code
from localrag.messages import library_option, tr

if TYPE_CHECKING:
    from localrag.models.registry.advice import Advice

_TEXTS = {
    "unserved": "{share:.0%} of the text is {language}, which the embedding model {model} was not "
    "made for: there only words are found, not meanings. {other} serves it: {command}",
    "better": "{share:.0%} of the text is {language}: with {other}, two embedding models side by "
    "side, English questions in words of your own find more than with {model}. "
    "To switch: {command}",
    "untried": "{share:.0%} of the text is {language}, which {other} was made for; it is on this "
    "machine, and may find more than {model}. To try it: {command}",
}


def _name(language: DetectedLanguage) -> str:
    return tr(LANGUAGES[language].name) if is_code(language) else tr("Chinese and English")


def advice_text(advice: Advice) -> str:
    """What is suggested, why, and the command that does it."""
    command = f"localrag{library_option()} rebuild --embedding {advice.other}"
    if not advice.present:
        missing = advice.other.removeprefix(f"{advice.model}+")
        command = f"localrag models pull {missing}; {command}"
    return tr(
        _TEXTS[advice.kind],
        share=advice.share,
        language=_name(advice.language),
        model=advice.model,
        other=advice.other,
        command=command,
    )
