"""The fixtures of this room."""

from registry_hub import hub, own_pip, store

__all__ = ["hub", "own_pip", "store"]
