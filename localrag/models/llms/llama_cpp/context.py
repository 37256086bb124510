"""One llama.cpp context: tokens in, logits out, and the KV cache in between.

Knows nothing about chats, templates or text; `model.py` does. Not
thread-safe: its owner holds the lock. All values that llama.cpp reports about a
sequence (positions, cached tokens) are kept in step here: sequence 0 is the
conversation, the sequences above it are short-lived forks.

A prefix that will come back (a passage, asked about again) can be marked: its state is
kept in memory and restored instead of read again. Batches are cut at its end, so that a
restored prefix, a cached one and one that is read again give the same logits, bit by bit.
"""

from __future__ import annotations

import ctypes
import os
import re
import threading
import time
import weakref
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from functools import cache, partial
from itertools import pairwise
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from localrag.errors import BackendError, StoppedError, UsageError
from localrag.models.llms.base import LAST, TokenUse
from localrag.models.llms.llama_cpp import native
from localrag.models.llms.llama_cpp.decoding import STOPPED, Decoder, StopSign
from localrag.models.llms.llama_cpp.gguf import check_gguf
from localrag.models.llms.llama_cpp.hidden_states import Heads, HiddenStates
from localrag.models.llms.llama_cpp.native import KVType
from localrag.models.llms.llama_cpp.prefix_states import PrefixStates

BATCH = 64
"""Tokens that one call of llama.cpp reads on a CPU, and the grain in which a prefix is reused.

The logits of a token depend a little (0.4 to 0.9 was seen) on how many tokens are read
with it. So a prompt is always cut at multiples of this number, and a prefix is kept up
to one: then a reused prefix gives the same logits, bit by bit, as reading it again.
Reads 95% as fast as 512 (benchmarks/llm_speed.py) in an eighth of the working memory.
"""

GPU_BATCH = 512

FORKS = 16
"""Sequences beside the conversation, for choices that are read side by side."""

_ALL_LAYERS = 999
LONGEST_RUN = 1000
"""Characters of one kind, such as letters, that llama.cpp is given in a row."""


@dataclass(frozen=True, slots=True)
class OffloadReport:
    """`gpu_build`: llama.cpp sees a GPU; `layers_offloaded` of `layers` lie on it.

    `devices` names the graphics chips that llama.cpp uses, such as "Vulkan0 (Intel Iris Xe)".
    """

    gpu_build: bool
    layers_offloaded: int
    layers: int
    devices: tuple[str, ...] = ()


class LlamaContext:
    """A loaded model with its context. Call `close` (or drop it) to free the memory."""

    def __init__(
        self,
        path: Path,
        *,
        context_window: int,
        decode_threads: int,
        prefill_threads: int,
        gpu_layers: int,
        states: PrefixStates,
        kv_type: KVType = "f16",
        shows_states: bool = False,
    ) -> None:
        check_gguf(path)
        self._c = c = native.load()
        self._hidden = HiddenStates(c, native.ggml(), kv_type) if shows_states else None
        gpu = bool(c.llama_supports_gpu_offload())
        parameters = c.llama_model_default_params()
        parameters.n_gpu_layers = (_ALL_LAYERS if gpu_layers < 0 else gpu_layers) if gpu else 0
        native.forget_log()
        model = c.llama_model_load_from_file(os.fsencode(path), parameters)
        if not model:
            raise BackendError(
                "llama.cpp cannot load {path}: {reason}",
                hint="The file may be damaged, too large for this machine's memory, or of a "
                "type that this llama.cpp does not support. `localrag models verify` "
                "checks the file; a smaller model or fewer GPU layers need less memory.",
                path=path,
                reason=native.log_reason(),
            )
        self.training_window = int(c.llama_model_n_ctx_train(model))
        self.context_window = min(context_window, self.training_window)
        options = c.llama_context_default_params()
        options.n_ctx = self.context_window
        batch = GPU_BATCH if parameters.n_gpu_layers else BATCH
        options.n_batch = options.n_ubatch = min(batch, self.context_window)
        options.n_threads = decode_threads
        options.n_threads_batch = prefill_threads
        options.n_seq_max = 1 + FORKS
        options.kv_unified = True
        options.type_k = options.type_v = getattr(c, f"GGML_TYPE_{kv_type.upper()}")
        self._stop = StopSign(c)
        options.abort_callback = self._stop.callback
        self.width = int(c.llama_model_n_embd(model))
        if self._hidden:
            options.cb_eval = self._hidden.callback
        context = c.llama_init_from_model(model, options)
        if not context:
            reason = native.log_reason()
            c.llama_model_free(model)
            raise BackendError(
                "There is not enough memory for {path} with a context window of {window} "
                "tokens: {reason}",
                hint="Set a smaller context window, choose a smaller model, "
                "or put fewer layers on the GPU.",
                path=path,
                window=self.context_window,
                reason=reason,
            )
        self._model, self._context = model, context
        self._vocab = c.llama_model_get_vocab(model)
        self._memory = c.llama_get_memory(context)
        self._decoder = Decoder(c, context, self._stop)
        self._batch_size = self._decoder.batch_size
        self._cached: list[int] = []
        self._ends: list[int] = []  # where each batch that was read ended
        self._fresh = False
        self._depth = LAST  # the layer up to which the cache was computed
        self._states = states
        self.use = TokenUse()
        """What was read and written since the last `begin`."""
        self._bytes_per_token = 0.0
        self.vocabulary_size = int(c.llama_vocab_n_tokens(self._vocab))
        queries, keys = int(c.llama_model_n_head(model)), int(c.llama_model_n_head_kv(model))
        self._heads = Heads.of(queries, keys, self.width)
        log = "\n".join(native.log_lines())
        found = re.findall(r"offloaded (\d+)/(\d+) layers", log)
        offloaded, layers = found[-1] if found else (0, c.llama_model_n_layer(model) + 1)
        # As in "using device CUDA0 (NVIDIA H100) (0000:01:00.0) - 80000 MiB free".
        devices = re.findall(r"using device (\S+ \([^\n]*?\))(?: \(|\s+-)", log)
        self.offload = OffloadReport(gpu, int(offloaded), int(layers), tuple(devices))
        self._close = weakref.finalize(self, _free, c, model, context, self._decoder.close)

    def close(self) -> None:
        """Free the model; the context must not be used afterwards."""
        self._states.clear()
        self._close()

    # -- vocabulary ---------------------------------------------------------------

    def tokenize(self, text: str, *, special: bool = False) -> list[int]:
        """Token ids; only with `special` may the text name control tokens."""
        if not self._close.alive:
            raise UsageError("This language model has been closed.", hint="Load it again.")
        parts = within_the_stack(text)
        return [token for part in parts for token in self._tokenize(part, special=special)]

    def _tokenize(self, text: str, *, special: bool) -> list[int]:
        data = text.encode("utf-8", "replace")
        room = len(data) + 8
        while True:
            buffer = (ctypes.c_int32 * room)()
            count = self._c.llama_tokenize(
                self._vocab, data, len(data), buffer, room, False, special
            )
            if count >= 0:
                return list(buffer[:count])
            room = -count

    def piece(self, token: int, *, special: bool = False) -> bytes:
        """The bytes of a token; a control token has some only with `special`."""
        room = 64
        while True:
            buffer = ctypes.create_string_buffer(room)
            count = self._c.llama_token_to_piece(self._vocab, token, buffer, room, 0, special)
            if count >= 0:
                return buffer.raw[:count]
            room = -count

    def is_control(self, token: int) -> bool:
        """Whether a token steers the model and so must never come from a document."""
        return bool(
            self._c.llama_vocab_is_control(self._vocab, token)
            or self._c.llama_vocab_is_eog(self._vocab, token)
        )

    def is_special(self, token: int) -> bool:
        """Whether a token is anything but a piece of plain text."""
        plain = self._c.LLAMA_TOKEN_ATTR_NORMAL | self._c.LLAMA_TOKEN_ATTR_BYTE
        attributes = int(self._c.llama_vocab_get_attr(self._vocab, token))
        return self.is_control(token) or not attributes & plain

    def is_end(self, token: int) -> bool:
        """Whether a token ends the reply."""
        return bool(self._c.llama_vocab_is_eog(self._vocab, token))

    @property
    def bos(self) -> int | None:
        """The token that every prompt begins with, if this model wants one."""
        token = int(self._c.llama_vocab_bos(self._vocab))
        return token if token >= 0 and self._c.llama_vocab_get_add_bos(self._vocab) else None

    def token_text(self, name: str) -> str:
        """The text of the "bos" or "eos" token, or "" where there is none."""
        token = int(getattr(self._c, f"llama_vocab_{name}")(self._vocab))
        return self.piece(token, special=True).decode("utf-8", "replace") if token >= 0 else ""

    @property
    def chat_template(self) -> str | None:
        """The Jinja template in the file. Untrusted, like everything in it."""
        template = self._c.llama_model_chat_template(self._model, None)
        return template.decode("utf-8", "replace") if template else None

    # -- evaluation ---------------------------------------------------------------

    def reset(self) -> None:
        """Forget everything that was read."""
        self._cached.clear()
        self._ends.clear()
        self._fresh, self._depth = False, LAST
        self._c.llama_memory_clear(self._memory, True)

    def forget(self) -> None:
        """The same, and the states that are kept in memory."""
        if not self._close.alive:
            return
        self.reset()
        self._states.clear()
        self._decoder.forget()

    def read(
        self,
        tokens: Sequence[int],
        *,
        keep: int = 0,
        remember: Callable[[Sequence[int], Any], object] | None = None,
        collecting: bool = False,
        depth: int = LAST,
    ) -> int:
        """Bring the cache to exactly `tokens`, logits of the last one ready; says how many it read.

        The longest prefix of whole batches that the cache already holds is kept. The state
        of the first `keep` tokens is remembered, and restored where the cache holds less of
        them; it goes to `remember` with them where that is given. Up to the layer `depth` is
        enough for these.
        """
        if self._depth not in (LAST, depth):
            self._cut(0)
        ends = _batch_ends(len(tokens), keep, self._batch_size)
        common, reading = self._common(tokens), 0.0
        if self._fresh and common == len(tokens) == len(self._cached) and ends == self._ends:
            self.use += TokenUse(kept=common)
            return 0
        whole = self._whole(ends, common)
        held = ends[whole - 1] if whole else 0
        if held < keep and self._restore(tokens[:keep], depth):
            held, whole = keep, ends.index(keep) + 1
        else:
            if not self._cached:  # a state that llama.cpp refused has cost what was there
                held = whole = 0
            if not self._cut(held):
                held = whole = 0
        if not held:
            if depth != LAST:
                # What lies behind the layer is kept with the state: nothing of another passage.
                self.reset()
            self._depth = depth
        self._fresh = False
        self._ends = ends[:whole]
        for end in ends[whole:]:
            start = len(self._cached)
            part = tokens[start:end]
            last = len(tokens) - 1
            started = time.perf_counter()
            if self._hidden:
                stops = start < keep and self._depth != LAST
                collects = collecting and start >= keep
                self._hidden.watch(collects=collects, stops=stops, first=start)
            self._decode([(token, at, 0, at == last) for at, token in enumerate(part, start)])
            reading += time.perf_counter() - started
            self._cached.extend(part)
            self._ends.append(end)
            if end == keep:
                put = partial(self._states.put, layer=self._depth)
                self._remember(tokens[:keep], remember or put)
        self._fresh = True
        read = len(tokens) - held
        self.use += TokenUse(read=read, kept=held, reading=reading)
        return read

    def unread(self, tokens: Sequence[int], *, keep: int = 0) -> int:
        """About how many tokens `read` would read now. May be asked while another thread reads."""
        ends = _batch_ends(len(tokens), keep, self._batch_size)
        whole = self._whole(ends, self._common(tokens))
        held = ends[whole - 1] if whole else 0
        return len(tokens) - (keep if held < keep and self._states.has(tokens[:keep]) else held)

    def _common(self, tokens: Sequence[int]) -> int:
        """How many of the first tokens the cache holds."""
        pairs = enumerate(zip(self._cached, tokens, strict=False))
        differs = (at for at, (ours, theirs) in pairs if ours != theirs)
        return next(differs, min(len(self._cached), len(tokens)))

    def _whole(self, ends: Sequence[int], common: int) -> int:
        """How many batches of a prompt the cache holds; the last is read again for its logits."""
        whole = 0
        for ours, theirs in zip(self._ends, ends[:-1], strict=False):
            if ours != theirs or theirs > common:
                break
            whole += 1
        return whole

    @property
    def states(self) -> PrefixStates:
        """Those of prefixes that come back."""
        return self._states

    def state_size(self, tokens: int) -> int:
        """About how many bytes the state of so many tokens has; 0 while none was kept."""
        return int(self._bytes_per_token * tokens)

    def _remember(self, prefix: Sequence[int], put: Callable[[Sequence[int], Any], object]) -> None:
        """Keep the state of the cache, which holds exactly `prefix`."""
        size = int(self._c.llama_state_seq_get_size(self._context, 0))
        self._bytes_per_token = size / len(prefix)
        if size > self._states.limit:
            return
        state = (ctypes.c_uint8 * size)()
        if self._c.llama_state_seq_get_data(self._context, state, size, 0) == size:
            put(prefix, state)

    def _restore(self, prefix: Sequence[int], depth: int) -> bool:
        """Bring the cache to exactly `prefix` from its kept state; False where there is none.

        Of the whole state, or else of that up to the layer `depth`.
        """
        state, layer = self._states.get(prefix), LAST
        if state is None and depth != LAST:
            state, layer = self._states.get(prefix, depth), depth
        if state is None:
            return False
        self._fresh = False
        self._cached.clear()
        self._ends.clear()
        if layer == LAST:
            self._c.llama_memory_seq_rm(self._memory, 0, -1, -1)
        else:  # as in `read`
            self._c.llama_memory_clear(self._memory, True)
        if self._c.llama_state_seq_set_data(self._context, state, len(state), 0) != len(state):
            self.reset()
            return False
        self._cached.extend(prefix)
        self._depth = layer
        return True

    def append(self, token: int) -> None:
        """Read one more token, which the model has written."""
        started = time.perf_counter()
        self._append(token)
        self.use += TokenUse(written=1, writing=time.perf_counter() - started)

    def _append(self, token: int) -> None:
        self._fresh = False
        self._decode([(token, len(self._cached), 0, True)])
        self._cached.append(token)
        self._ends.append(len(self._cached))
        self._fresh = True

    def logits(self, row: int = -1) -> NDArray[np.float32]:
        """A copy of the logits of an output row of the last read, shape (vocabulary_size,)."""
        pointer = self._c.llama_get_logits_ith(self._context, row)
        return np.ctypeslib.as_array(pointer, shape=(self.vocabulary_size,)).copy()

    def activations(
        self,
        tokens: Sequence[int],
        layer: int,
        *,
        keep: int = 0,
        attending: range = range(0),
        shallow: bool = False,
    ) -> tuple[NDArray[np.float32], Callable[[], NDArray[np.float32]] | None]:
        """The mean of the hidden states behind a layer, over all but the first `keep` tokens.

        Shape (width,). And what computes what these pay to each of the first, by heads of the
        layers `attending`, shape (layers, heads, keep), means of shares of 1; None where it is not
        wanted or shown. The cache holds the first `keep` tokens afterwards; `shallow`, what they
        come to behind the layer is not computed.
        """
        if self._hidden is None:
            raise BackendError("llama.cpp shows no states of this model.")
        # What is averaged is read anew, whole.
        self._fresh = False
        self._ends = [end for end in self._ends if end <= keep]
        heads = self._heads if attending else None
        self._hidden.begin(layer, self.width, heads, keep, attending)
        try:
            depth = layer if shallow and keep else LAST
            self.read(tokens, keep=keep, collecting=True, depth=depth)
            return self._hidden.mean(), self._hidden.attention() if heads else None
        finally:
            self._hidden.watch(collects=False)
            self._fresh = False
            self._ends = [end for end in self._ends if end <= keep]
            self._cut(self._ends[-1] if self._ends else 0)

    def _cut(self, count: int) -> bool:
        """Leave the first `count` tokens in the cache; False where none could be left."""
        del self._cached[count:]
        if not count:
            self._depth = LAST
        if self._c.llama_memory_seq_rm(self._memory, 0, count, -1):
            return True
        self.reset()  # recurrent models cannot forget a part
        return False

    def branch_logits(self, paths: Sequence[Sequence[int]]) -> list[NDArray[np.float32]]:
        """Logits behind what was read plus each path; what was read stays as it was.

        A path holds at least one token and at most `BATCH`.
        """
        result: list[NDArray[np.float32]] = []
        for group in _groups(paths, self._batch_size):
            result += self._fork(group)
        return result

    def _fork(self, paths: Sequence[Sequence[int]]) -> list[NDArray[np.float32]]:
        base = len(self._cached)
        rows: list[tuple[int, int, int, bool]] = []
        ends: list[int] = []
        self._fresh = False  # the output buffer is about to be overwritten
        try:
            for fork, path in enumerate(paths, start=1):
                self._c.llama_memory_seq_cp(self._memory, 0, fork, -1, -1)
                last = len(path) - 1
                rows += [(token, base + i, fork, i == last) for i, token in enumerate(path)]
                ends.append(len(rows) - 1)
            self._decode(rows)
            return [self.logits(end) for end in ends]
        finally:
            for fork in range(1, len(paths) + 1):
                self._c.llama_memory_seq_rm(self._memory, fork, -1, -1)

    def _decode(self, rows: Sequence[tuple[int, int, int, bool]]) -> None:
        """Read rows of (token, position, sequence, wants logits)."""
        try:
            status = self._decoder.decode(rows)
        except BaseException:
            self.reset()
            raise
        if status == 0:
            return
        self.reset()
        if status == STOPPED:
            raise StoppedError("The language model was stopped.")
        raise BackendError(
            "llama.cpp failed while reading the prompt (status {status}): {reason}",
            hint="Try again; if it happens again, use a smaller context window or model.",
            status=status,
            reason=native.log_reason(),
        )

    def begin(self, stopped: threading.Event) -> None:
        """A new call, which raises `StoppedError` once `stopped` is set, from any thread."""
        self.use = TokenUse()
        self._stop.begin(stopped)

    # -- sampling -----------------------------------------------------------------

    @contextmanager
    def sampler(
        self, temperature: float, seed: int, grammar: str | None
    ) -> Iterator[Callable[[], int]]:
        """What picks the next token from the logits of the last read.

        Greedy at temperature 0, else by llama.cpp's usual truncation.
        """
        c = self._c
        chain = c.llama_sampler_chain_init(c.llama_sampler_chain_default_params())
        try:
            stages = []
            if grammar is not None:
                stages.append(c.llama_sampler_init_grammar(self._vocab, grammar.encode(), b"root"))
                if not stages[0]:
                    raise native.refused_grammar(native.log_reason())
            if temperature <= 0:
                stages.append(c.llama_sampler_init_greedy())
            else:
                stages += [
                    c.llama_sampler_init_top_k(40),
                    c.llama_sampler_init_top_p(0.95, 1),
                    c.llama_sampler_init_min_p(0.05, 1),
                    c.llama_sampler_init_temp(temperature),
                    c.llama_sampler_init_dist(seed & 0xFFFFFFFF),
                ]
            for stage in stages:
                c.llama_sampler_chain_add(chain, stage)
            yield lambda: int(c.llama_sampler_sample(chain, self._context, -1))
        finally:
            c.llama_sampler_free(chain)


def _batch_ends(count: int, keep: int, batch_size: int) -> list[int]:
    """Where batches end: at multiples of their size up to `keep`, there, and so on from there."""
    ends = [*range(batch_size, keep, batch_size), keep] if keep else []
    return [*ends, *range(keep + batch_size, count, batch_size), *[count] * (count > keep)]


def _groups(paths: Sequence[Sequence[int]], batch_size: int) -> Iterator[list[Sequence[int]]]:
    """Paths that fit into one batch and one set of forks together."""
    group: list[Sequence[int]] = []
    size = 0
    for path in paths:
        if group and (len(group) == FORKS or size + len(path) > batch_size):
            yield group
            group, size = [], 0
        group.append(path)
        size += len(path)
    if group:
        yield group


def within_the_stack(text: str) -> list[str]:
    """The text in parts that llama.cpp can cut into tokens on a small stack.

    For some vocabularies it looks for words by `std::regex`, which calls itself for every
    character of a match: 30,000 letters without a space end the process, fewer in a thread.
    """
    if len(text) <= LONGEST_RUN:
        return [text]
    cuts = [
        cut
        for match in _long_runs().finditer(text)
        for cut in range(match.start() + LONGEST_RUN, match.end(), LONGEST_RUN)
    ]
    return [text[start:end] for start, end in pairwise([0, *cuts, len(text)])]


@cache
def _long_runs() -> Any:
    import regex  # type: ignore[import-untyped]

    # What the patterns of vocabularies may match in one go; tried where a run begins, and once.
    runs = (r"\s", r"[^\s\p{L}\p{N}]", r"[^\s\p{P}\p{S}]")
    return regex.compile("|".join(f"(?<!{run}){run}{{{LONGEST_RUN + 1},}}+" for run in runs))


def _free(c: Any, model: Any, context: Any, close_decoder: Callable[[], object]) -> None:
    close_decoder()
    c.llama_free(context)
    c.llama_model_free(model)
