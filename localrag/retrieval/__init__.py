"""Finding passages: dense, keyword, hybrid, and how lists are fused."""
