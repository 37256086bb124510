"""The command line within the test's own process, on models that cost nothing.

What a command prints is looked at each time: nothing may steer a terminal or forge a line.
"""

from __future__ import annotations

import io
import json
import os
import re
import sys
import unicodedata
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from fakes import HashEmbedder
from numpy.typing import NDArray
from scripted_llm import ScriptedLLM

from localrag import __main__, factory
from localrag.cli import click_texts
from localrag.egress import network
from localrag.models.llms.base import Options
from localrag.types import Message

CODES = (
    "\x1b]0;owned\x07\x1b[2J\x9b31m\x85\x7f\r\u202e\u2066\u200b\u200d\u2060\U000e0041\ufeff\u2028"
)
MARKUP = "[bold]b[/bold] [link=https://evil.example]l[/link] :bomb: <b>&"
LINES = "\n[9] forged.pdf, p. 3: “x”\n 9. forged.pdf  p. 3  0.999\n✓ forged\n"
HOSTILE = f"evil{CODES}{MARKUP}{LINES}end"
NAME = f"evil{CODES}[bold]b :bomb:{LINES}.md"
NOT_UTF8 = os.fsdecode(b"caf\xe9.md")
FORGED = re.compile(r"^\s{0,2}(\[\d+\]|\d+\.|✓) forged", re.MULTILINE)
STYLES = re.compile(r"\x1b\[[0-9;]*[mAGKJ]|\x1b\[\?25[lh]|\r")
"""What rich writes: colours, and the cursor of a progress view."""
SEEN = set(map(chr, (*range(0x600, 0x606), 0x6DD, 0x890, 0x891, 0x8E2, 0x110BD, 0x110CD)))


def forbidden(text: str) -> list[str]:
    """The characters that must not reach a screen, by Unicode's own categories."""
    return [
        f"U+{ord(character):04X}"
        for character in text
        if unicodedata.category(character) in ("Cc", "Cf", "Cs", "Zl", "Zp")
        and character not in "\n\t\u200c\u200d"
        and character not in SEEN
    ]


class Model(ScriptedLLM):
    """Says the same hostile thing to everything, and finds the first choice the likeliest."""

    name = HOSTILE

    def _next(self, messages: Sequence[Message], options: Options) -> str:
        if options.schema:
            return json.dumps({"answer": HOSTILE, "reason": HOSTILE, "question": HOSTILE})
        return f"Tea is picked in spring {CODES}{MARKUP} [1]."

    def score_choices(
        self, messages: Sequence[Message], choices: Sequence[str], *, keep: int = 0
    ) -> NDArray[np.float64]:
        scores = np.full(len(choices), 0.1 / max(1, len(choices) - 1))
        scores[0] = 0.9
        return scores


class Stream(io.TextIOWrapper):
    """Standard output of a process: a pipe, or a terminal."""

    terminal = False

    def isatty(self) -> bool:
        return self.terminal


class Run:
    """What a command printed, and its exit code."""

    def __init__(self, code: int, out: str, err: str) -> None:
        self.code, self.out, self.err = code, out, err

    @property
    def json(self) -> Any:
        return json.loads(self.out)


Localrag = Callable[..., Run]


def in_process(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Localrag:
    """Run a command as the process would, within this one, with models that cost nothing."""
    for name in ("XDG_CACHE_HOME", "XDG_DATA_HOME", "LOCALRAG_MODELS"):
        monkeypatch.setenv(name, str(tmp_path / name.lower()))
    monkeypatch.setenv("TERM", "xterm-256color")
    monkeypatch.setattr(network, "close_doors", lambda: None)
    monkeypatch.setattr(click_texts, "install", lambda: None)
    monkeypatch.setattr(factory, "make_embedder", lambda *_: HashEmbedder())
    monkeypatch.setattr(
        factory, "make_model", lambda *_: factory.Model(Model(), Model(), lambda: None)
    )

    def run(*arguments: str, terminal: bool = False, typed: str = "") -> Run:
        streams = [Stream(io.BytesIO(), encoding="utf-8", errors="surrogateescape") for _ in "oe"]
        for stream in streams:
            stream.terminal = terminal
        with monkeypatch.context() as patch:
            patch.setattr(sys, "argv", ["localrag", *arguments])
            patch.setattr(sys, "stdin", io.StringIO(typed))
            patch.setattr(sys, "stdout", streams[0])
            patch.setattr(sys, "stderr", streams[1])
            with pytest.raises(SystemExit) as program_end:
                __main__.main()
        out, err = (_written(stream) for stream in streams)
        for text in (out, err):
            text = STYLES.sub("", text) if terminal else text
            assert forbidden(text) == [], (arguments, text)
            assert not FORGED.search(text), (arguments, text)
            assert "evil.example" not in text or "[link=" in text, (arguments, text)
        code = program_end.value.code
        return Run(code if isinstance(code, int) else 0, out, err)

    return run


def _written(stream: Stream) -> str:
    stream.flush()
    assert isinstance(stream.buffer, io.BytesIO)
    return stream.buffer.getvalue().decode("utf-8")
