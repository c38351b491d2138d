"""Probabilistic Multi-view Graph Embedding: one space for things of different kinds."""

from importlib import import_module
from typing import TYPE_CHECKING, Any

from pmvge.version import __version__

if TYPE_CHECKING:
    from pmvge.background import Background
    from pmvge.embeddings import Embeddings
    from pmvge.encoders import EncoderSpec
    from pmvge.errors import PmvgeError
    from pmvge.graph import MultiViewGraph
    from pmvge.model import PMvGE

__all__ = [
    "Background",
    "Embeddings",
    "EncoderSpec",
    "MultiViewGraph",
    "PMvGE",
    "PmvgeError",
    "__version__",
]

# Loaded when they are first asked for: torch takes seconds, and `pmvge --version` needs none of it.
_HOMES = {
    "Background": "background",
    "Embeddings": "embeddings",
    "EncoderSpec": "encoders",
    "MultiViewGraph": "graph",
    "PMvGE": "model",
    "PmvgeError": "errors",
}
_MODULES = (
    "baselines",
    "datasets",
    "evaluation",
    "methods",
    "report",
    "simulation",
    "split",
    "tables",
)


def __getattr__(name: str) -> Any:
    if name in _HOMES:
        return getattr(import_module(f"pmvge.{_HOMES[name]}"), name)
    if name in _MODULES:
        return import_module(f"pmvge.{name}")
    raise AttributeError(f"module 'pmvge' has no attribute {name!r}")


def __dir__() -> list[str]:
    return sorted({*globals(), *__all__, *_MODULES})
