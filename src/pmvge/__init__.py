"""Probabilistic Multi-view Graph Embedding: one space for entities of different kinds."""

from importlib import import_module
from typing import TYPE_CHECKING, Any

from pmvge.version import __version__

if TYPE_CHECKING:
    from pmvge.encoders import EncoderSpec
    from pmvge.errors import PmvgeError
    from pmvge.graph import MultiViewGraph
    from pmvge.model import PMvGE
    from pmvge.search import Embeddings

__all__ = [
    "Embeddings",
    "EncoderSpec",
    "MultiViewGraph",
    "PMvGE",
    "PmvgeError",
    "__version__",
]

# Imported on first use: importing torch takes seconds, and `pmvge --version` does not need it.
_NAMES = {
    "Embeddings": "search",
    "EncoderSpec": "encoders",
    "MultiViewGraph": "graph",
    "PMvGE": "model",
    "PmvgeError": "errors",
}
_MODULES = {
    "baselines": "baselines",
    "datasets": "datasets",
    "evaluation": "evaluation",
    "interop": "interop",
    "methods": "experiments.methods",
    "report": "report",
    "simulation": "simulation",
    "split": "graph.split",
    "tables": "tables",
    "tuning": "tuning",
}


def __getattr__(name: str) -> Any:
    if name in _NAMES:
        return getattr(import_module(f"pmvge.{_NAMES[name]}"), name)
    if name in _MODULES:
        return import_module(f"pmvge.{_MODULES[name]}")
    raise AttributeError(f"module 'pmvge' has no attribute {name!r}")


def __dir__() -> list[str]:
    return sorted({*globals(), *__all__, *_MODULES})
