"""What a check of a library found, in a reader's language."""

from __future__ import annotations

from localrag.errors import LocalragError
from localrag.messages import InterfaceLanguage, phrase
from localrag.types import Finding

_TEXTS = {
    "catalogue structure": "catalogue.sqlite is damaged: {reason}.",
    "catalogue dangling": "catalogue.sqlite: {count} rows of {table} belong to nothing in "
    "{parent}.",
    "catalogue settings": "catalogue.sqlite does not say what it must of “{key}”.",
    "catalogue foreign": "catalogue.sqlite holds a setting that is not localrag's: “{key}”.",
    "catalogue values": "catalogue.sqlite holds {count} values that cannot have been stored.",
    "catalogue no-source": "The document {name} belongs to no file any more, and is not shown.",
    "catalogue content": "{name}: what is stored of its text is not what was stored.",
    "catalogue sources": "{name}: the files it was added from are not those stored.",
    "catalogue passages": "{name}: its passages or vectors are not what was stored.",
    "files foreign": "{count} states of the language model in kv were not made under this "
    "account, were made by an earlier version, or were altered.",
    "files network-drive": "The library lies on a network drive ({kind}). SQLite keeps its files "
    "in order there for one computer at a time: two that use the library at once can damage it.",
    "files no-modes": "The library lies on a file system without owners ({kind}): everybody who "
    "can read the drive can read the library.",
    "files leftover": "{name} was left by a process that was ended while it wrote.",
    "index foreign": "{Name} was not made under this account, or by an earlier version.",
    "index unreadable": "{Name} is damaged: {reason}.",
    "index missing": "There is no file of {name}, or one of other settings.",
    "index other-state": "{Name} belongs to another state of the catalogue.",
    "index behind": "{Name} is {count} changes behind the catalogue.",
    "index ids": "In {name}, {lost} passages of the catalogue are missing, {foreign} are not in "
    "the catalogue, and {twice} stand there twice.",
    "index values": "{count} vectors of {name} differ from those of the catalogue.",
    "index terms": "The terms of {count} passages in {name} are not those of their text.",
}

_REPAIRS = {
    "catalogue structure": "Restore the folder from a backup, or delete it and add the documents "
    "again.",
    "catalogue settings": "Restore the folder from a backup, or delete it and add the documents "
    "again.",
    "catalogue values": "Restore the folder from a backup, or delete it and add the documents "
    "again.",
    "catalogue foreign": "Take it over by `localrag export` and `localrag import`, which leave "
    "it behind.",
    "catalogue no-source": "Add its file again with `localrag add`.",
    "catalogue content": "Take it out with `localrag remove`, then add the file again.",
    "catalogue sources": "Take it out with `localrag remove`, then add the file again.",
    "catalogue passages": "Run `localrag rebuild`, which cuts and embeds everything anew.",
    "files foreign": "Nothing need be done: they are never used.",
    "files network-drive": "Keep it on a disk of this computer, or use it from one computer at a "
    "time.",
    "files no-modes": "Keep the drive to yourself, or encrypt it.",
    "files leftover": "Nothing need be done: the next change of the library deletes it.",
    "index foreign": "Nothing need be done: it is not used, and the next search makes one from "
    "the catalogue.",
    "index missing": "The next search builds it anew; `localrag rebuild` does so now.",
    "index other-state": "If the catalogue was restored from a backup, this is expected. The next "
    "search builds the index anew; `localrag rebuild` does so now.",
    "index behind": "Nothing need be done: the next search catches up.",
}
"""Of what is not here, all can be derived from what is sound."""


def finding_text(finding: Finding, language: InterfaceLanguage | None = None) -> str:
    """What is wrong; `language` None is the reader's."""
    values = dict(finding.values)
    if isinstance(error := values.get("error"), LocalragError):
        return phrase(error.message, language, **error.values)
    if finding.part == "vectors":
        values["name"] = phrase("the vector index (vectors.faiss)", language)
    elif finding.part == "keywords":
        values["name"] = phrase("the keyword index (keywords)", language)
    if name := str(values.get("name", "")):
        values["Name"] = name[:1].upper() + name[1:]
    return phrase(_TEXTS[_kind(finding)], language, **values)


def repair_text(finding: Finding, language: InterfaceLanguage | None = None) -> str:
    """What to do about it; `language` None is the reader's."""
    if isinstance(error := finding.values.get("error"), LocalragError):
        return phrase(error.hint, language, **error.values)
    if finding.values.get("mendable") or _kind(finding) not in _REPAIRS:
        return phrase("Run `localrag rebuild`.", language)
    return phrase(_REPAIRS[_kind(finding)], language)


def paragraph(finding: Finding) -> str:
    """Both, for the reader of a command."""
    return f"{finding_text(finding)} {repair_text(finding)}"


def _kind(finding: Finding) -> str:
    part = finding.part if finding.part in ("catalogue", "files") else "index"
    return f"{part} {finding.code}"
