"""A first look at a GGUF file by llama.cpp in a process of its own.

llama.cpp ends its process where some fields of a vocabulary make no sense. For a file that nobody
vouches for this happens here, in a process that is there for it, and becomes an error.
"""

from __future__ import annotations

import hashlib
import os
import sys
from contextlib import suppress
from importlib.metadata import version
from pathlib import Path

from localrag.errors import ModelCorruptError
from localrag.models.llms.llama_cpp.gguf import check_gguf
from localrag.system import files, processes
from localrag.system.confinement import confine

SECONDS = 60.0
"""For opening the vocabulary, which takes half a second."""

PROGRAM = "from localrag.models.llms.llama_cpp.probe import main; main()"
_OPENED, _REFUSED = 0, 3
_SAMPLE = "Which year? 哪一年？ 🙂\n\u0000\ufffd <|im_start|>"


def probe_gguf(path: Path, *, seconds: float = SECONDS, program: str = PROGRAM) -> None:
    """Open the vocabulary of a GGUF file in another process, and use it.

    Raises `ModelNotFoundError` or `ModelCorruptError`, also where that process is ended by
    what it reads or does not come to an end. What llama.cpp refuses by itself is left to it.
    """
    check_gguf(path)
    command = processes.python(program, str(path.absolute()))
    try:
        code = processes.run(command, processes.LOCALRAG, seconds=seconds).returncode
    except processes.TimedOutError as error:
        raise ModelCorruptError(
            "Gave up on {path}: llama.cpp did not open its vocabulary within {seconds:.0f} s.",
            hint="It may be damaged, or designed to hang programs. Download the model from "
            "where it was published.",
            path=path,
            seconds=seconds,
        ) from error
    if code not in (_OPENED, _REFUSED):
        raise ModelCorruptError(
            "Gave up on {path}: the process that opened it on trial ended with code {code}.",
            hint="It may be damaged, or designed to crash programs. Download the model from "
            "where it was published.",
            path=path,
            code=code,
        )


def probe_once(path: Path, cache: Path) -> None:
    """`probe_gguf`, unless this file, as it is, has been opened before; `cache` remembers that."""
    state = path.stat() if path.is_file() else None
    seen = [path.resolve(), state and (state.st_size, state.st_mtime_ns, state.st_ctime_ns)]
    key = hashlib.sha256(f"{seen} {version('llama-cpp-python')}".encode(errors="replace"))
    marker = cache / f"{key.hexdigest()[:24]}.opened"
    if marker.is_file():
        return
    probe_gguf(path)
    # A cache in a read-only place costs time at the next start, nothing else.
    with suppress(OSError):
        files.make_folder(marker.parent)
        files.touch_file(marker)


# In the other process


def main() -> None:
    """Open the vocabulary of the file that the command line names, and use it."""
    from localrag.egress import network

    network.close_doors()
    path = Path(sys.argv[1])
    confine(path)
    processes.end_with_parent()
    sys.exit(_OPENED if _opens(path) else _REFUSED)


def _opens(path: Path) -> bool:
    import ctypes

    from localrag.models.llms.llama_cpp import native

    c = native.load()
    params = c.llama_model_default_params()
    params.vocab_only = True
    params.n_gpu_layers = 0
    model = c.llama_model_load_from_file(os.fsencode(path), params)
    if not model:
        return False
    vocab = c.llama_model_get_vocab(model)
    text = _SAMPLE.encode()
    tokens = (c.llama_token * (4 * len(text)))()
    for special in (False, True):
        c.llama_tokenize(vocab, text, len(text), tokens, len(tokens), special, special)
    piece = ctypes.create_string_buffer(4096)
    for token in range(c.llama_vocab_n_tokens(vocab)):
        c.llama_token_to_piece(vocab, token, piece, len(piece), 0, True)
    c.llama_model_chat_template(model, None)
    c.llama_model_free(model)
    return True
