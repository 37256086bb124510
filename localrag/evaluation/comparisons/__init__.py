"""One question answered in several ways, side by side."""
