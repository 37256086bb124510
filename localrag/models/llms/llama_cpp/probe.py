"""A first look at a GGUF file by llama.cpp in a process of its own.

llama.cpp ends its process where some fields of a vocabulary make no sense, and where some numbers
do not that it computes the first token with. For a file that nobody vouches for this happens here,
in a process that is there for it, and becomes an error.
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
from localrag.system.split_files import parts_of

SECONDS = 60.0
"""For opening the vocabulary, which takes a second."""

SLOWEST = 50e6
"""For reading tokens in addition: bytes of weights a second, from the slowest disk."""

PROGRAM = "from localrag.models.llms.llama_cpp.probe import main; main()"
_OPENED, _REFUSED = 0, 3
_SAMPLE = "Which year? 哪一年？ 🙂\n\u0000\ufffd <|im_start|>"
_TOKENS = 8
"""How many of the sample's; where a vocabulary has fewer for it, token 0 stands behind them."""


def probe_gguf(path: Path, *, seconds: float = SECONDS, program: str = PROGRAM) -> None:
    """Open a GGUF file in another process, use its vocabulary, and read some tokens.

    Raises `ModelNotFoundError` or `ModelCorruptError`, also where that process is ended by
    what it reads or does not come to an end. What llama.cpp refuses by itself is left to it.
    """
    check_gguf(path)
    seconds += sum(part.stat().st_size for part in parts_of(path)) / SLOWEST
    command = processes.python(program, str(path.absolute()))
    try:
        code = processes.run(command, processes.LOCALRAG, seconds=seconds).returncode
    except processes.TimedOutError as error:
        raise ModelCorruptError(
            "Gave up on {path}: llama.cpp did not open it and read a token within {seconds:.0f} s.",
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
    seen: list[object] = [version("llama-cpp-python")]
    for part in parts_of(path) if path.is_file() else ():
        state = part.stat()
        seen += [part.resolve(), state.st_size, state.st_mtime_ns, state.st_ctime_ns]
    key = hashlib.sha256(f"{seen}".encode(errors="replace")).hexdigest()
    # Earlier versions wrote .opened where the vocabulary alone had been tried.
    marker = cache / f"{key[:24]}.read"
    if marker.is_file():
        return
    probe_gguf(path)
    # A cache in a read-only place costs time at the next start, nothing else.
    with suppress(OSError):
        files.make_folder(marker.parent)
        files.touch_file(marker)


# In the other process


def main() -> None:
    """Open the file that the command line names, and read some tokens with it."""
    from localrag.egress import network

    network.close_doors()
    path = Path(sys.argv[1])
    confine(*parts_of(path))
    processes.end_with_parent()
    sys.exit(_OPENED if _opens(path) else _REFUSED)


def _opens(path: Path) -> bool:
    import ctypes

    from localrag.models.llms.llama_cpp import native
    from localrag.models.llms.llama_cpp.context import BATCH, FORKS

    c = native.load()
    params = c.llama_model_default_params()
    params.n_gpu_layers = 0
    # The weights stay where the disk's cache has them, and are not copied into another order.
    params.use_mmap, params.use_extra_bufts = True, False
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
    options = c.llama_context_default_params()
    options.n_ctx = options.n_batch = options.n_ubatch = BATCH
    options.n_seq_max, options.kv_unified = 1 + FORKS, True
    options.n_threads = options.n_threads_batch = 1  # several would wait for each other
    if context := c.llama_init_from_model(model, options):
        for count in (_TOKENS, 1):  # as a prompt is read, and as a reply is written
            c.llama_decode(context, c.llama_batch_get_one(tokens, count))
        c.llama_free(context)
    c.llama_model_free(model)
    return True
