"""ragas, asked for one metric of one sample at a time; runs in an environment that has ragas.

`ragas_comparison.py` starts it with `python ragas_worker.py API BASE_URL MODEL` and writes a
JSON object a line to its standard input: {"metric", "question", "answer", "contexts",
"reference"}. Each is answered by {"value": a number or null, "why": what ragas said}.
API is `evaluate` (`ragas.evaluate` with a LangChain model, as most of its users call it) or
`collections` (`ragas.metrics.collections` with `llm_factory`, which asks for JSON).
"""

from __future__ import annotations

import asyncio
import json
import logging
import math
import os
import sys
import warnings
from typing import Any

os.environ["RAGAS_DO_NOT_TRACK"] = "true"
warnings.simplefilter("ignore")

REPLY_TOKENS = 1024
"""What ragas' own `llm_factory` asks for at most."""
TIMEOUT = 900


def main() -> None:
    api, base_url, model = sys.argv[1:]
    # Whatever the libraries print must not come between the answers.
    answers, sys.stdout = sys.stdout, sys.stderr
    said = Said()
    logging.getLogger("ragas").addHandler(said)
    score = {"evaluate": classic, "collections": collections}[api](base_url, model)
    print(json.dumps({"ready": version()}), file=answers, flush=True)
    for line in sys.stdin:
        said.texts.clear()
        try:
            value = float(score(json.loads(line)))
        except Exception as error:
            # Whatever it is, there is no score.
            said.texts.append(f"{type(error).__name__}: {error}")
            value = math.nan
        reply = {"value": None if math.isnan(value) else value, "why": " | ".join(said.texts)[:600]}
        print(json.dumps(reply, ensure_ascii=False), file=answers, flush=True)


class Said(logging.Handler):
    """Keeps what ragas logs: that is where it says why a score is NaN."""

    def __init__(self) -> None:
        super().__init__(logging.WARNING)
        self.texts: list[str] = []

    def emit(self, record: logging.LogRecord) -> None:
        self.texts.append(record.getMessage())


def version() -> str:
    from importlib.metadata import version as of

    return of("ragas")


def classic(base_url: str, model: str) -> Any:
    """`ragas.evaluate`: what fails becomes NaN."""
    from langchain_openai import ChatOpenAI, OpenAIEmbeddings
    from ragas import EvaluationDataset, RunConfig, evaluate
    from ragas.embeddings import LangchainEmbeddingsWrapper
    from ragas.llms import LangchainLLMWrapper
    from ragas.metrics import (
        Faithfulness,
        LLMContextPrecisionWithReference,
        LLMContextRecall,
        ResponseRelevancy,
    )

    metrics = {
        "faithfulness": Faithfulness(),
        "answer_relevancy": ResponseRelevancy(),
        "context_recall": LLMContextRecall(),
        "context_precision": LLMContextPrecisionWithReference(),
    }
    chat = ChatOpenAI(
        base_url=base_url,
        api_key="none",
        model=model,
        temperature=0,
        # The client sends the limit under a name that many servers do not know yet.
        extra_body={"max_tokens": REPLY_TOKENS},
        timeout=TIMEOUT,
    )
    # The server gives one reply a request, so three replies are three requests.
    llm = LangchainLLMWrapper(chat, bypass_n=True)
    embeddings = LangchainEmbeddingsWrapper(
        OpenAIEmbeddings(
            base_url=base_url, api_key="none", model=model, check_embedding_ctx_length=False
        )
    )
    config = RunConfig(timeout=TIMEOUT, max_workers=1)

    def score(row: dict[str, Any]) -> float:
        sample = {
            "user_input": row["question"],
            "response": row["answer"],
            "retrieved_contexts": row["contexts"],
            "reference": row["reference"],
        }
        result = evaluate(
            EvaluationDataset.from_list([sample]),
            metrics=[metrics[row["metric"]]],
            llm=llm,
            embeddings=embeddings,
            run_config=config,
            raise_exceptions=False,
            show_progress=False,
        )
        ((value,),) = (each.values() for each in result.scores)
        return value

    return score


def collections(base_url: str, model: str) -> Any:
    """`ragas.metrics.collections`: what fails raises."""
    from openai import AsyncOpenAI
    from ragas.embeddings import OpenAIEmbeddings
    from ragas.llms import llm_factory
    from ragas.metrics.collections import (
        AnswerRelevancy,
        ContextPrecisionWithReference,
        ContextRecall,
        Faithfulness,
    )

    client = AsyncOpenAI(base_url=base_url, api_key="none", timeout=TIMEOUT)
    llm = llm_factory(model, client=client, temperature=0, max_tokens=REPLY_TOKENS)
    embeddings = OpenAIEmbeddings(client=client, model=model)
    wanted: dict[str, tuple[Any, tuple[str, ...]]] = {
        "faithfulness": (Faithfulness(llm=llm), ("user_input", "response", "retrieved_contexts")),
        "answer_relevancy": (
            AnswerRelevancy(llm=llm, embeddings=embeddings),
            ("user_input", "response"),
        ),
        "context_recall": (
            ContextRecall(llm=llm),
            ("user_input", "retrieved_contexts", "reference"),
        ),
        "context_precision": (
            ContextPrecisionWithReference(llm=llm),
            ("user_input", "reference", "retrieved_contexts"),
        ),
    }
    loop = asyncio.new_event_loop()

    def score(row: dict[str, Any]) -> float:
        metric, names = wanted[row["metric"]]
        known = {
            "user_input": row["question"],
            "response": row["answer"],
            "retrieved_contexts": row["contexts"],
            "reference": row["reference"],
        }
        result = loop.run_until_complete(metric.ascore(**{name: known[name] for name in names}))
        return result.value

    return score


if __name__ == "__main__":
    main()
