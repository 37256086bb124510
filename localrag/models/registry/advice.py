"""Which embedding model would serve a library's documents better than the one it was built with."""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping
from dataclasses import dataclass
from typing import Literal

from localrag.languages import DetectedLanguage, LanguageCode
from localrag.models.registry.spec import Catalogue, PackageSource

NEARLY_ALL = 0.9
"""From this share on documents are in one language; what is left is tables, or code."""

SOME = 0.05
"""Up to this share a language is that of a title or a quotation."""


@dataclass(frozen=True, slots=True)
class Advice:
    """`other` in place of `model`, for the `share` of the documents that is in `language`.

    "unserved": `model` was not made for the language. "better": `other` has been measured to find
    more. "untried": `other` is on this machine and was made for such documents. `present` says
    whether `other` is on this machine.
    """

    kind: Literal["unserved", "better", "untried"]
    model: str
    other: str
    language: DetectedLanguage
    share: float
    present: bool


def advise(
    model: str,
    served: Collection[str],
    shares: Mapping[LanguageCode, float],
    known: Catalogue,
    starter: str,
    is_present: Callable[[str], bool],
) -> Advice | None:
    """What to say of a library with these `shares` of languages, built with `model`.

    `served` are the languages that `model` was made for, empty where nobody says. Only the
    `starter` embedding has been compared with others, so only in its place is another suggested:
    beside it, what is better for a language, since passages of others are found as before.
    """
    for language, share in shares.items():
        if served and language not in served and share > SOME:
            both = [name for name in known.untried.get("mixed", ()) if is_present(name)]
            other = next(iter(both), starter)
            return Advice("unserved", model, other, language, share, is_present(other))
    if model != starter or sum(shares.values()) < NEARLY_ALL:
        return None
    most = max(shares, key=lambda language: shares[language])
    alone = sum(shares.values()) - shares[most] <= SOME
    share = shares[most] if alone else sum(shares.values())
    of: DetectedLanguage = most if alone else "mixed"
    for name in known.untried.get(of, ()):
        if is_present(name):
            return Advice("untried", model, name, of, share, present=True)
    for language, share in shares.items():
        for name in known.better.get(language, ()):
            packed = any(isinstance(source, PackageSource) for source in known.get(name).sources)
            if share > SOME and (packed or is_present(name)):
                return Advice("better", model, f"{model}+{name}", language, share, is_present(name))
    return None
