"""What a check of a library found, in a reader's language."""

from __future__ import annotations

from localrag.errors import LocalragError
from localrag.messages import InterfaceLanguage, phrase
from localrag.types import Finding

_TEXTS = {
    "catalogue structure": "catalogue.sqlite is damaged: {reason}.",
    "catalogue dangling": "catalogue.sqlite: {count} rows in {table} refer to nothing in {parent}.",
    "catalogue settings": "catalogue.sqlite has no valid value for “{key}”.",
    "catalogue foreign": "catalogue.sqlite contains a setting that is not localrag's: “{key}”.",
    "catalogue values": (
        "catalogue.sqlite contains {count} values that localrag cannot have stored."
    ),
    "catalogue no-source": "The document {name} no longer belongs to any file and is not shown.",
    "catalogue content": "{name}: its stored text was altered after it was added.",
    "catalogue sources": "{name}: the record of the files it was added from was altered.",
    "catalogue passages": (
        "{name}: its stored passages or vectors were altered after they were added."
    ),
    "files foreign": "{count} saved states of the language model in kv were made under "
    "another account or by an earlier version, or have been altered.",
    "files network-drive": "The library is on a network drive ({kind}). There SQLite is safe "
    "for one computer at a time: two that use the library at once can "
    "damage it.",
    "files no-modes": "The library is on a file system without file ownership ({kind}): "
    "anyone who can read the drive can read the library.",
    "files leftover": "{name} was left behind by a process that was killed while writing.",
    "index foreign": "{Name} was not made under this account, or by an earlier version.",
    "index unreadable": "{Name} is damaged: {reason}.",
    "index missing": "The file of {name} is missing, or was built with other settings.",
    "index other-state": "{Name} belongs to another state of the catalogue.",
    "index behind": "{Name} is {count} changes behind the catalogue.",
    "index ids": "In {name}, {lost} passages of the catalogue are missing, {foreign} are not "
    "in the catalogue, and {twice} are duplicated.",
    "index values": "{count} vectors in {name} differ from those in the catalogue.",
    "index terms": "For {count} passages, the terms in {name} do not match the text.",
}

_RESTORE = "Restore the folder from a backup, or delete it and add the documents again."
_ADD_AGAIN = "Remove it with `localrag remove`, then add the file again."
_REPAIRS = {
    "catalogue structure": _RESTORE,
    "catalogue settings": _RESTORE,
    "catalogue values": _RESTORE,
    "catalogue foreign": "Run `localrag export` and `localrag import`, which leave it behind.",
    "catalogue no-source": "Add its file again with `localrag add`.",
    "catalogue content": _ADD_AGAIN,
    "catalogue sources": _ADD_AGAIN,
    "catalogue passages": "Run `localrag rebuild`, which splits and embeds everything again.",
    "files foreign": "No action is needed: they are never used.",
    "files network-drive": "Keep it on a disk of this computer, or use it from one computer at a "
    "time.",
    "files no-modes": "Keep the drive to yourself, or encrypt it.",
    "files leftover": "No action is needed: the next change to the library deletes it.",
    "index foreign": "No action is needed: it is not used, and the next search builds a new "
    "one from the catalogue.",
    "index missing": "The next search rebuilds it; `localrag rebuild` does so now.",
    "index other-state": "If the catalogue was restored from a backup, this is expected. The "
    "next search rebuilds the index; `localrag rebuild` does so now.",
    "index behind": "No action is needed: the next search catches up.",
}
"""Of what is not here, all can be derived from what is sound."""


def finding_text(finding: Finding, language: InterfaceLanguage | None = None) -> str:
    """What is wrong; `language` None is the reader's."""
    values = dict(finding.values)
    if isinstance(error := values.get("error"), LocalragError):
        return phrase(error.message, language, **error.values)
    if finding.part == "vectors":
        values["name"] = phrase("the vector index (vectors)", language)
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
