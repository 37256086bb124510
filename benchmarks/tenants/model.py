"""What language models take from what another library had them read."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Sequence
from random import Random
from unittest.mock import patch

from localrag.models.llms.base import ChoiceScorer
from localrag.models.llms.llama_cpp.context import LlamaContext
from localrag.types import Message
from tenants.asking import Asking
from tenants.finding import Found
from tenants.sending import Asked
from tenants.timing import Difference, difference, fresh_text
from tenants.world import ALDER, BIRCH, CEDAR, World


class Watched:
    """What language models take from what they read before, by the library that asks."""

    def __init__(self) -> None:
        self.library = ""
        self.prompts = self.held = 0
        self.hits: list[str] = []
        """Prefixes that a library was given which only another one had read."""
        self._read: dict[str, list[tuple[int, ...]]] = {}

    def wrapped(self, read: Callable[..., int]) -> Callable[..., int]:
        """In the place of `LlamaContext.read`."""

        def reading(context: LlamaContext, tokens: Sequence[int], *, keep: int = 0) -> int:
            count = read(context, tokens, keep=keep)
            held = tuple(tokens[: len(tokens) - count])
            self.prompts, self.held = self.prompts + len(tokens), self.held + len(held)
            own = self._read.setdefault(self.library, [])
            if held and not any(one[: len(held)] == held for one in own):
                self.hits.append(f"{self.library}: {len(held)} tokens")
            own.append(tuple(tokens))
            return count

        return reading


async def asks_of_model(world: World, count: int, seed: int) -> tuple[Found, Watched]:
    """Ask the language model, one after the other, also about what two libraries have."""
    found, watched, asking = Found(), Watched(), Asking(world, Random(seed), {})
    turns = [("ann", BIRCH), ("cai", CEDAR), ("bo", BIRCH), ("ann", ALDER), ("cai", CEDAR)]
    with patch.object(LlamaContext, "read", watched.wrapped(LlamaContext.read)):
        for number in range(count):
            user, watched.library = turns[number % len(turns)]
            asking.user = user
            both = watched.library != ALDER and number % 4 < 3
            question = "When was the lamp lit two hours early?" if both else asking.question()
            body = {"question": question, "library": watched.library, "k": 2}
            asked = Asked("POST", "/api/ask", body=body, library=watched.library)
            before = watched.prompts, watched.held
            reply = await world.send(asked, user)
            found.judge(world, user, asked, reply)
            read, held = watched.prompts - before[0], watched.held - before[1]
            answer = next((one for one in reply.events() if "sentences" in one), {})
            print(
                f"{user:4}{watched.library:12}{question[:44]:46}{reply.taken[0]:6.1f} s "
                f"{read:6} tokens, {held:6} of them kept: {answer.get('answer', '')[:60]!r}",
                flush=True,
            )
    return found, watched


def states(world: World, pairs: int) -> Iterator[Difference]:
    """Whether a passage is read sooner once another library's model has read it."""
    engines = world.libraries.opened()
    one, other = (engines[name].model for name in (BIRCH, CEDAR))
    assert one.scorer is not None
    assert other.scorer is not None

    def grade(scorer: ChoiceScorer, number: int, question: str = "Is it about ships?") -> float:
        messages = [Message("system", fresh_text(number)), Message("user", question)]
        begun = time.perf_counter()
        scorer.score_choices(messages, ["yes", "no"], keep=1)
        return time.perf_counter() - begun

    for name, warming, start in (
        ("a passage's state: warmed by another library / by none", other.scorer, 0),
        ("(control) warmed by the library itself / by none", one.scorer, 10_000),
    ):
        first, second, random = list[float](), list[float](), Random(3)
        for number in range(start, start + pairs):
            grade(warming, 2 * number, "Is it about tea?")
            grade(one.scorer, 5 * 10**6 + number)  # what is live is another passage
            cold = [(first, 2 * number), (second, 2 * number + 1)]
            for times, text in random.sample(cold, 2):
                times.append(grade(one.scorer, text))
        yield difference(name, first, second)
