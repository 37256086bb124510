"""A GGUF model in this process, by llama.cpp.

Prefill is nearly all the cost on a laptop, so the KV cache of the last call
stays and the prefix that a prompt shares with it is not read again (in whole
batches, so that greedy text does not depend on what was asked before).
One lock serves one call at a time. A stream holds it until it ends or is
closed, so a thread must close its stream before it makes the next call.
"""

from __future__ import annotations

import json
import math
import os
import re
import threading
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from copy import copy
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, Literal, Self

import numpy as np
from numpy.typing import NDArray

from localrag.errors import ContextOverflowError, UsageError
from localrag.models.llms.base import (
    Activations,
    Attention,
    Completion,
    Options,
    Pace,
    ReadAhead,
    TokenUse,
    check_stopped,
)
from localrag.models.llms.llama_cpp import native
from localrag.models.llms.llama_cpp.chat_template import ChatTemplate, Prompt
from localrag.models.llms.llama_cpp.context import (
    BATCH,
    LlamaContext,
    OffloadReport,
)
from localrag.models.llms.llama_cpp.native import KVType
from localrag.models.llms.llama_cpp.pace import PaceRecord
from localrag.models.llms.llama_cpp.prefix_states import PrefixStates, key_of
from localrag.models.llms.llama_cpp.state_files import StateFiles
from localrag.models.llms.reply_text import ReplyText
from localrag.system.seals import Seal
from localrag.types import Message

KEPT_BYTES = 256 * 2**20
"""For the states of prefixes that come back: about 9,000 tokens of the starter model."""

SHORTEST_REPLY = 32
"""Where the window leaves fewer tokens than this for the answer, the call is refused."""

_SPEED_SAMPLE = (
    "A model reads its prompt in large batches and writes its answer token by token. "
    "模型成批读取提示，然后逐字写出回答。"
)


@dataclass(frozen=True, slots=True)
class Speed:
    """Tokens per second when reading a prompt (prefill) and when writing (decode)."""

    prefill: float
    decode: float


@dataclass(frozen=True, slots=True)
class StatesOnDisk:
    """Where the states of prefixes go: at most `limit` bytes in `folder`.

    `weights_sha256` is the hash of the model file: a state serves these weights only. `seal` is
    that of this user, or of the group that the library was opened to.
    """

    folder: Path
    limit: int
    weights_sha256: str
    seal: Seal | None = None


class LlamaCppModel:
    """An instruct model in GGUF: an `LLM`, `ChoiceScorer`, `StateReader` and `CostMeter`.

    `context_window` is capped by what the model was trained for. `threads` None
    takes the physical cores that this process may use for decode and all logical
    ones for prefill. `gpu_layers` -1 puts all layers on a GPU where llama.cpp was
    built for one and sees it. `kv_type` "q8_0" halves the memory of the KV cache.
    `kept_bytes` bounds the memory for the states of prefixes that come back (`keep`), `disk`
    says where they outlive the process, if anywhere. How fast it is here is kept in the file
    `pace`. Only one that `shows_states` is a `StateReader`; it writes no slower. Raises
    `ModelNotFoundError`, `ModelCorruptError` or `BackendError`.
    """

    def __init__(
        self,
        path: Path,
        *,
        context_window: int = 4096,
        threads: int | None = None,
        gpu_layers: int = -1,
        kv_type: KVType = "f16",
        kept_bytes: int = KEPT_BYTES,
        disk: StatesOnDisk | None = None,
        pace: Path | None = None,
        shows_states: bool = False,
    ) -> None:
        decode_threads, prefill_threads = (threads, threads) if threads else _threads()
        self.name = path.stem
        with native.interrupts_wait():
            self._context = context = LlamaContext(
                path,
                context_window=context_window,
                decode_threads=decode_threads,
                prefill_threads=prefill_threads,
                gpu_layers=gpu_layers,
                states=PrefixStates(kept_bytes, _files(disk, kv_type, gpu_layers)),
                kv_type=kv_type,
                shows_states=shows_states,
            )
        self._template = ChatTemplate(
            context.chat_template,
            context,
            bos_text=context.token_text("bos"),
            eos_text=context.token_text("eos"),
        )
        # Some files mark these as control tokens, whose text would be swallowed.
        self._thought_marks = frozenset(
            tokens[0]
            for mark in ("<think>", "</think>")
            if len(tokens := context.tokenize(mark, special=True)) == 1
        )
        self.context_window = context.context_window
        self._lock = threading.Lock()
        self._stopped = threading.Event()
        self._forgetting = threading.Event()
        self._pace = PaceRecord(pace)
        self._use, self._met = TokenUse(), set[int]()

    def close(self) -> None:
        """Free the memory; the model cannot be used afterwards."""
        with self._lock:
            self._context.close()
            self._pace.save()

    def forget(self) -> None:
        """Keep nothing of what was read in memory; the call under way does so as it ends."""
        self._forgetting.set()
        if self._lock.acquire(timeout=1.0):
            try:
                self._forget_if_asked()
            finally:
                self._lock.release()

    def _forget_if_asked(self) -> None:
        if self._forgetting.is_set():
            self._forgetting.clear()
            self._context.forget()

    def for_call(self, stopped: threading.Event | None) -> Self:
        """The same model, whose calls raise `StoppedError` once `stopped` is set, by any thread.

        On a CPU this takes milliseconds, also while a prompt is being read or another call is
        waited for. Its `use` is that of its own calls.
        """
        view = copy(self)
        view._stopped = stopped or self._stopped
        view._use, view._met = TokenUse(), set()
        return view

    @property
    def use(self) -> TokenUse:
        """As `CostMeter` has it."""
        return self._use

    @property
    def pace(self) -> Pace | None:
        """As `CostMeter` has it."""
        return self._pace.pace

    def prompt_use(self, messages: Sequence[Message], *, keep: int = 0) -> TokenUse:
        """As `CostMeter` has it. Waits for no other call."""
        tokens = self._prompt(messages, thoughts=False).tokens
        prefix = self._prefix_length(messages, keep, tokens) if keep else 0
        unread = self._context.unread(tokens, keep=prefix)
        return TokenUse(read=unread, kept=len(tokens) - unread)

    @contextmanager
    def _turn(self, prefix: Sequence[int] = ()) -> Iterator[LlamaContext]:
        """The context, for one call at a time; `prefix` comes back with other calls."""
        while not self._lock.acquire(timeout=0.1):
            check_stopped(self._stopped)
        try:
            check_stopped(self._stopped)
            self._context.begin(self._stopped)
            try:
                yield self._context
            finally:
                self._count(self._context.use, prefix)
        finally:
            try:
                self._forget_if_asked()
            finally:
                self._lock.release()

    def _count(self, use: TokenUse, prefix: Sequence[int]) -> None:
        self._pace.add(use)
        key = hash(tuple(prefix))
        if not prefix or key in self._met:  # else it is kept since this caller has read it
            use = replace(use, kept=0)
        self._met.add(key)
        self._use += use

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def count_tokens(self, text: str) -> int:
        """Tokens of a plain text, never read as control tokens."""
        return len(self._context.tokenize(text))

    def count_prompt_tokens(self, messages: Sequence[Message]) -> int:
        """Tokens of the whole prompt, with what the chat template puts around the messages."""
        return len(self._template.prompt(messages).tokens)

    def complete(self, messages: Sequence[Message], options: Options) -> Completion:
        """Generate a whole answer. Raises `ContextOverflowError` or `BackendError`."""
        reply = _Generation(self, messages, options)
        text = "".join(reply.pieces())
        return Completion(
            text=text,
            prompt_tokens=len(reply.prompt.tokens),
            completion_tokens=reply.written,
            finish_reason=reply.finish_reason,
            cached_prompt_tokens=len(reply.prompt.tokens) - reply.read,
        )

    def stream(self, messages: Sequence[Message], options: Options) -> Iterator[str]:
        """Generate piece by piece; closing the iterator stops the model.

        Whether the prompt fits is checked at once, before the first piece is asked for.
        """
        return self._streamed(_Generation(self, messages, options))

    def _streamed(self, reply: _Generation) -> Iterator[str]:
        yield from reply.pieces()
        self._pace.add_reply(reply.written)

    def score_choices(
        self, messages: Sequence[Message], choices: Sequence[str], *, keep: int = 0
    ) -> NDArray[np.float64]:
        """Probability of each choice as the reply, shape (len(choices),), summing to 1.

        A choice of several tokens has the product of their probabilities. Where it is
        the beginning of another choice ("1" of "10"), what goes on to the longer one is
        taken off, so that the choices exclude each other.

        The first `keep` messages (a passage with its rules) are a prefix that comes back
        with other questions: its state is kept in memory and not read again.
        """
        if not choices or len(set(choices)) != len(choices) or not all(choices):
            raise UsageError("Choices must be given, all different and none of them empty.")
        tokens = self._prompt(messages, thoughts=False).tokens
        prefix = self._prefix_length(messages, keep, tokens) if keep else 0
        paths = [tuple(self._context.tokenize(choice)) for choice in choices]
        if max(map(len, paths)) > BATCH:
            raise UsageError("A choice may have at most {limit} tokens.", limit=BATCH)
        self._check_window(len(tokens), max(map(len, paths)))
        branches = sorted({path[:length] for path in paths for length in range(1, len(path))})
        with self._turn(tokens[:prefix]) as context:
            context.read(tokens, keep=prefix)
            logits = [context.logits(), *context.branch_logits(branches)]
        log_probabilities = dict(zip([(), *branches], map(_log_softmax, logits), strict=True))
        scores = np.empty(len(paths))
        for row, path in enumerate(paths):
            scores[row] = sum(
                log_probabilities[path[:depth]][token] for depth, token in enumerate(path)
            )
            longer = {other[len(path)] for other in paths if other[: len(path)] == path != other}
            if longer:
                going_on = sum(math.exp(log_probabilities[path][token]) for token in longer)
                scores[row] += math.log(max(1.0 - going_on, 1e-12))
        weights = np.exp(scores - scores.max())
        return np.asarray(weights / weights.sum(), dtype=np.float64)

    def activations(
        self,
        messages: Sequence[Message],
        layer: int,
        *,
        keep: int = 0,
        attending: range = range(0),
        shallow: bool = False,
    ) -> Activations:
        """As `StateReader` has it. Raises `ContextOverflowError` or `BackendError`."""
        tokens = self._prompt(messages, thoughts=False).tokens
        prefix = self._prefix_length(messages, keep, tokens) if keep else 0
        self._check_window(len(tokens), 1)
        with self._turn(tokens[:prefix]) as context:
            state, compute = context.activations(
                tokens, layer, keep=prefix, attending=attending, shallow=shallow
            )
            if compute is None:
                return Activations(state)
            pieces = [context.piece(token, special=True) for token in tokens[:prefix]]
        ends = np.cumsum([len(piece) for piece in pieces])
        return Activations(state, Attention(compute, ends, b"".join(pieces)))

    @property
    def keeps_on_disk(self) -> bool:
        """Whether what it has read outlives this process."""
        return self._context.states.files is not None

    def read_ahead(
        self,
        messages: Sequence[Message],
        *,
        keep: int,
        limit: int,
        tier: int | None,
        still: Callable[[], bool],
    ) -> ReadAhead:
        """As `AheadReader` has it. Nothing of it stays in memory but the last prompt."""
        tokens = self._prompt(messages, thoughts=False).tokens
        prefix = tokens[: self._prefix_length(messages, keep, tokens)]
        self._check_window(len(prefix), 1)
        key, files, sizes = key_of(prefix), self._context.states.files, list[int]()
        if files is None or files.has(key):
            return ReadAhead("there")

        def put(_: Sequence[int], state: Any) -> None:
            if tier is None:
                is_kept = len(state) <= limit and files.put(key, state)
            else:
                is_kept = files.put_ahead(key, state, limit, tier, still)
            if is_kept:
                sizes.append(len(state))

        with self._turn() as context:
            size = context.state_size(len(prefix))
            if size > context.states.limit:  # such a state is kept nowhere
                return ReadAhead("gone")
            if tier is not None and not files.fits_ahead(size, limit, tier):
                return ReadAhead("full")
            in_memory = context.states.get(prefix)
            if in_memory is not None:
                put(prefix, in_memory)
            read = 0 if sizes else context.read(prefix, keep=len(prefix), remember=put)
            size = context.state_size(len(prefix))
        if sizes:
            return ReadAhead("kept", read, sizes[0])
        fits = tier is None or files.fits_ahead(size, limit, tier)
        return ReadAhead("gone" if fits else "full", read)

    def offload_report(self) -> OffloadReport:
        """Whether llama.cpp sees a GPU, and how many layers lie on it."""
        return self._context.offload

    def speed(self) -> Speed:
        """Measure for about three seconds. The cache of the last prompt is lost."""
        text = self._context.tokenize(_SPEED_SAMPLE)
        limit = self.context_window - SHORTEST_REPLY
        with self._turn() as context:
            context.reset()
            context.read(text[:8])  # the first pass pays for reading the weights from disk
            context.reset()
            tokens: list[int] = []
            began = time.perf_counter()
            while (prefill := time.perf_counter() - began) < 1.5 and len(tokens) < limit:
                tokens += (text * 4)[: min(64, limit - len(tokens))]
                context.read(tokens)
            written = 0
            began = time.perf_counter()
            with context.sampler(0.0, 0, None) as pick:
                while (decode := time.perf_counter() - began) < 1.5 and written < SHORTEST_REPLY:
                    context.append(pick())
                    written += 1
            context.reset()
        return Speed(len(tokens) / prefill, written / decode)

    def _prompt(self, messages: Sequence[Message], *, thoughts: bool) -> Prompt:
        """The prompt; without `thoughts`, one that the template has opened is closed again."""
        prompt = self._template.prompt(messages)
        if thoughts or not prompt.thinking:
            return prompt
        end = self._context.tokenize("\n</think>\n\n", special=True)
        return Prompt((*prompt.tokens, *end), thinking=False)

    def _prefix_length(self, messages: Sequence[Message], keep: int, tokens: Sequence[int]) -> int:
        """How many tokens of the prompt depend on the first `keep` messages alone.

        Found by putting other texts into the rest: a template may write anything around
        them, and the tokens at the seam may depend on what follows.
        """
        if not 0 < keep < len(messages):
            raise ValueError(f"between 1 and {len(messages) - 1} messages can be kept, not {keep}")
        shared = len(tokens) - 1
        for probe in ("?", "1 a"):
            rest = [Message(message.role, probe) for message in messages[keep:]]
            other = self._template.prompt([*messages[:keep], *rest]).tokens
            pairs = enumerate(zip(tokens, other, strict=False))
            shared = min(shared, next((i for i, (a, b) in pairs if a != b), len(other)))
        return shared

    def _check_window(self, prompt_tokens: int, needed: int) -> None:
        if prompt_tokens + needed > self.context_window:
            raise ContextOverflowError(
                "The prompt has {tokens} tokens and the answer needs {needed}, but the context "
                "window of {model} holds {window}.",
                hint="Use fewer or shorter passages, a shorter question, "
                "or a larger context window in the settings.",
                tokens=prompt_tokens,
                needed=needed,
                window=self.context_window,
                model=self.name,
            )


class _Generation:
    """One reply being written."""

    def __init__(self, model: LlamaCppModel, messages: Sequence[Message], options: Options) -> None:
        self._model = model
        self._options = options
        # A grammar leaves no room for a thought before the JSON.
        self.prompt: Prompt = model._prompt(messages, thoughts=options.schema is None)
        tokens = self.prompt.tokens
        self._keep = model._prefix_length(messages, options.keep, tokens) if options.keep else 0
        used = len(tokens)
        wanted = options.max_tokens or SHORTEST_REPLY
        model._check_window(used, min(wanted, SHORTEST_REPLY))
        left = model.context_window - used
        self._limit = min(options.max_tokens or left, left)
        self.read = 0
        self.written = 0
        self.finish_reason: Literal["stop", "length"] = "length"

    def pieces(self) -> Iterator[str]:
        """Text as it comes, thoughts removed."""
        model, options = self._model, self._options
        text = ReplyText(thinking=self.prompt.thinking)
        grammar = None if options.schema is None else _grammar(options.schema)
        with (
            model._turn(self.prompt.tokens[: self._keep]) as context,
            context.sampler(options.temperature, options.seed, grammar) as pick,
        ):
            self.read = context.read(self.prompt.tokens, keep=self._keep)
            while self.written < self._limit:
                token = pick()
                self.written += 1
                if context.is_end(token):
                    self.finish_reason = "stop"
                    break
                data = context.piece(token, special=token in model._thought_marks)
                if shown := text.feed(data):
                    yield shown
                if self.written < self._limit:
                    context.append(token)
        if rest := text.finish():
            yield rest


def _files(disk: StatesOnDisk | None, kv_type: KVType, gpu_layers: int) -> StateFiles | None:
    """The states on disk that were made in just this way, if there may be any."""
    if disk is None or disk.limit <= 0:
        return None
    c = native.load()
    layers = gpu_layers if c.llama_supports_gpu_offload() else 0  # a GPU computes otherwise
    made = f"{native.identity()} {kv_type} {BATCH} gpu {layers}"
    identity = f"{disk.weights_sha256} {made}"
    return StateFiles(disk.folder, disk.limit, identity, disk.seal)


def _grammar(schema: Mapping[str, object]) -> str:
    from llama_cpp.llama_grammar import SchemaConverter

    class Converter(SchemaConverter):
        def _format_literal(self, literal: str) -> str:
            # Theirs escapes no backslash: the quote in the cell `24" Dell`, which JSON writes with
            # one, ended the literal, and what followed was read as grammar.
            text = json.dumps(json.loads(literal), ensure_ascii=False)
            return '"' + re.sub(r'[\\"]', r"\\\g<0>", text) + '"'

    try:
        untyped: Any = Converter
        converter = untyped(prop_order={}, allow_fetch=False, dotall=False, raw_pattern=False)
        plain = json.loads(json.dumps(schema))
        converter.visit(converter.resolve_refs(plain, "stdin"), "")
        return str(converter.format_grammar())
    except Exception as error:
        raise native.refused_grammar(repr(error)) from error


def _log_softmax(logits: NDArray[np.float32]) -> NDArray[np.float64]:
    wide = logits.astype(np.float64)
    shifted = wide - wide.max()
    return np.asarray(shifted - np.log(np.exp(shifted).sum()))


def _threads() -> tuple[int, int]:
    """Threads for (decode, prefill): decode waits for memory and gains nothing from SMT."""
    import psutil

    usable = os.cpu_count() or 1
    if hasattr(os, "sched_getaffinity"):
        usable = len(os.sched_getaffinity(0))
    quota = _cgroup_cpus()
    if quota is not None:
        usable = max(1, min(usable, quota))
    return min(psutil.cpu_count(logical=False) or usable, usable), usable


def _cgroup_cpus() -> int | None:
    """The CPU quota of a container (cgroup v2), in whole CPUs."""
    try:
        limit, period = Path("/sys/fs/cgroup/cpu.max").read_text(encoding="ascii").split()
        return None if limit == "max" else max(1, int(limit) // int(period))
    except (OSError, ValueError):
        return None
