"""A cross-encoder of a few kilobytes with random weights, made without any download."""

from __future__ import annotations

from pathlib import Path


def save_tiny_cross_encoder(folder: Path, *, labels: int = 1, window: int = 64) -> Path:
    """Save a BERT with two layers that sees letters and a few words; returns its folder."""
    import torch
    from transformers import BertConfig, BertForSequenceClassification, BertTokenizerFast

    letters = [chr(code) for code in range(ord("a"), ord("z") + 1)]
    digits = [str(digit) for digit in range(10)]
    words = ["[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]", "?", ".", "the", "word", "perceptron"]
    vocabulary = words + letters + [f"##{character}" for character in letters + digits] + digits
    (folder / "vocab.txt").write_text("\n".join(vocabulary), encoding="utf-8")
    tokenizer = BertTokenizerFast(str(folder / "vocab.txt"), model_max_length=window)
    torch.manual_seed(0)
    config = BertConfig(
        vocab_size=len(vocabulary),
        hidden_size=16,
        num_hidden_layers=2,
        num_attention_heads=2,
        intermediate_size=32,
        max_position_embeddings=window,
        num_labels=labels,
        initializer_range=0.5,
    )
    tokenizer.save_pretrained(folder)
    BertForSequenceClassification(config).save_pretrained(folder)
    return folder
