"""All encoders together: settings to network, and rows to embeddings."""

from __future__ import annotations

import copy
import math
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import nn

from pmvge.encoders import KINDS, MLP, EncoderSpec, Identity, build_encoder
from pmvge.errors import ParameterError, choose
from pmvge.features import CHUNK, Features, SparseRows, row_shape, take
from pmvge.graph import MultiViewGraph
from pmvge.similarity import build_similarity

ROWS = 2048  # rows encoded at once when a whole view is embedded: they stay in the cache
IN_PLACE = {nn.ReLU: torch.relu_, nn.Tanh: torch.tanh_, nn.Sigmoid: torch.sigmoid_}

Choice = EncoderSpec | nn.Module
Tell = Callable[[int, int], None]  # rows done, and all of them


@dataclass(frozen=True)
class ViewSchema:
    """What a view's rows look like, without the rows."""

    n: int
    row_shape: tuple[int, ...] | None  # None: featureless
    sparse: bool

    def describe(self) -> str:
        """The rows in words."""
        if self.row_shape is None:
            return "none"
        return f"{' x '.join(map(str, self.row_shape))}{', sparse' if self.sparse else ''}"


def describe_choice(choice: Choice) -> str:
    """An encoder in words."""
    if isinstance(choice, nn.Module):
        return type(choice).__name__
    sizes = "-".join(map(str, choice.hidden_sizes or ()))
    return f"mlp {sizes}" if choice.kind == "mlp" and sizes else str(choice.kind)


def schemas_of(graph: MultiViewGraph) -> dict[str, ViewSchema]:
    """The schema of every view."""
    return {
        view: ViewSchema(n, graph.input_shape(view), not _is_dense(graph.views[view]))
        for view, n in graph.sizes.items()
    }


def _is_dense(X: Features | None) -> bool:
    return X is None or isinstance(X, np.ndarray)


def choose_encoders(
    encoder: Any, defaults: EncoderSpec, schemas: Mapping[str, ViewSchema]
) -> dict[str, Choice]:
    """A complete spec, or a module, for every view, from the estimator's ``encoder`` setting."""
    given = encoder if isinstance(encoder, Mapping) else dict.fromkeys(schemas, encoder)
    for view in given:
        choose("view", view, schemas, "encoder")
    choices: dict[str, Choice] = {}
    for view, schema in schemas.items():
        where = f"view {view!r}: encoder"
        wanted = given.get(view, "mlp" if schema.row_shape is not None else "lookup")
        if isinstance(wanted, nn.Module):
            choices[view] = wanted
            continue
        if isinstance(wanted, str):
            wanted = EncoderSpec(kind=choose("encoder", wanted, KINDS, where))
        if not isinstance(wanted, EncoderSpec):
            raise ParameterError(
                f"{where}: expected a name, an EncoderSpec or a torch.nn.Module, got "
                f"{type(wanted).__name__}"
            )
        if schema.row_shape is None and not (isinstance(encoder, Mapping) and view in encoder):
            wanted = EncoderSpec(kind="lookup")  # one name for all views: this one has no features
        spec = wanted.or_else(defaults)
        if spec.input_dropout is None:
            spec = spec.or_else(EncoderSpec(input_dropout=0.5 if schema.sparse else 0.0))
        spec.check(where)
        choices[view] = spec
    return choices


class MultiViewEncoder(nn.Module):
    r"""All encoders and the similarity: (view, rows) to embeddings :math:`y`."""

    def __init__(
        self,
        choices: Mapping[str, Choice],
        schemas: Mapping[str, ViewSchema],
        n_out: int,
        similarity: str,
    ) -> None:
        super().__init__()
        # One deep copy of all: modules stay the user's own, and two views of one module share it.
        modules = copy.deepcopy({v: c for v, c in choices.items() if isinstance(c, nn.Module)})
        self._position: dict[str, int] = {}  # by number: a module's name may not hold a dot
        self.encoders = nn.ModuleList()
        for view in sorted(choices, key=lambda v: _owner(v, choices) != v):  # owners first
            owner = _check_owner(view, choices, schemas)
            if owner != view:
                self._position[view] = self._position[owner]
                continue
            choice, schema = choices[view], schemas[view]
            if isinstance(choice, EncoderSpec):
                encoder = build_encoder(
                    f"view {view!r}: encoder",
                    choice,
                    n_rows=schema.n,
                    row_shape=schema.row_shape,
                    sparse=schema.sparse,
                    n_out=n_out,
                )
            else:
                encoder = modules[view]
            self._position[view] = len(self.encoders)
            self.encoders.append(encoder)
        self.similarity = build_similarity(similarity)

    @property
    def views(self) -> tuple[str, ...]:
        """The views that it encodes."""
        return tuple(self._position)

    def of(self, view: str) -> nn.Module:
        """The encoder of a view."""
        return self.encoders[self._position[view]]

    def forward(self, view: str, x: Any) -> torch.Tensor:
        """Embed rows (or, for a featureless view, positions): (n, ...) to (n, K)."""
        encoder = self.of(view)
        if isinstance(x, SparseRows) and not isinstance(encoder, MLP | Identity):
            x = x.to_dense()  # a module of the user's: the batch alone becomes dense
        f = encoder(x)
        if f.dtype is torch.bfloat16:  # only the encoder's products are in low precision
            f = f.float()
        y: torch.Tensor = self.similarity(f)
        return y


def _owner(view: str, choices: Mapping[str, Choice]) -> str:
    """The view whose encoder this one uses: itself, unless it shares."""
    choice = choices[view]
    if isinstance(choice, EncoderSpec):
        return choice.shared_with or view
    return min(v for v, other in choices.items() if other is choice)


def _check_owner(
    view: str, choices: Mapping[str, Choice], schemas: Mapping[str, ViewSchema]
) -> str:
    owner = _owner(view, choices)
    choice = choices[view]
    if isinstance(choice, nn.Module) or choice.shared_with is None:
        return owner
    where = f"view {view!r}: shared_with"
    if owner == view:
        raise ParameterError(f"{where}: a view cannot share with itself")
    choose("view", owner, choices, where)
    if _owner(owner, choices) != owner:
        raise ParameterError(f"{where}: {owner!r} has no encoder of its own, it shares one too")
    ours, theirs = schemas[view], schemas[owner]
    if (ours.row_shape, ours.sparse) != (theirs.row_shape, theirs.sparse) or not ours.row_shape:
        raise ParameterError(
            f"{where}: expected rows like those of {owner!r} ({theirs.row_shape}, "
            f"sparse={theirs.sparse}), got ({ours.row_shape}, sparse={ours.sparse})"
        )
    return owner


def set_input_scale(
    network: MultiViewEncoder, graph: MultiViewGraph, choices: Mapping[str, Choice]
) -> None:
    """Give the built-in encoders the shift and scale of their training rows."""
    for view, choice in choices.items():
        encoder, X = network.of(view), graph.views[view]
        if not isinstance(choice, EncoderSpec) or choice.shared_with or not choice.standardize:
            continue
        if isinstance(encoder, MLP) and X is not None:
            encoder.input.adapt(X)


def check_outputs(network: MultiViewEncoder, graph: MultiViewGraph, n_out: int) -> None:
    """Encode two rows of every view: modules of the user's must put out (rows, K)."""
    network.eval()
    for view, n in graph.sizes.items():
        where, rows = f"view {view!r}: encoder", min(2, n)
        try:
            y = next(encode_chunks(network, view, graph.views[view], np.arange(rows)))
        except Exception as error:
            raise ParameterError(
                f"{where}: failed on {rows} rows of shape {graph.input_shape(view)}: {error}"
            ) from error
        if y.shape != (rows, n_out):
            raise ParameterError(
                f"{where}: expected an output of shape ({rows}, {n_out}), n_components wide, "
                f"got {tuple(y.shape)}"
            )


def encode_chunks(
    network: MultiViewEncoder,
    view: str,
    X: Features | None,
    positions: NDArray[np.int64] | None,
    *,
    tell: Tell | None = None,
) -> Iterator[NDArray[np.float32]]:
    """Embeddings of rows of X (all, or at ``positions``), a few thousand rows at a time.

    A featureless view has no X: its ``positions`` are what is embedded.
    """
    device = next(network.parameters(), torch.empty(0)).device
    n = _count(X, positions)
    step = _chunk_rows(X, network.of(view))
    network.eval()
    for start in range(0, n, step):
        part = slice(start, min(start + step, n))
        with torch.no_grad():
            if X is None and positions is not None:
                x: Any = torch.from_numpy(positions[part]).to(device)
            else:
                assert X is not None
                x = take(X, part if positions is None else positions[part], device)
            y = _encode(network, view, x).float().cpu().numpy()
        if tell is not None:
            tell(part.stop, n)
        yield y


def _encode(network: MultiViewEncoder, view: str, x: Any) -> torch.Tensor:
    """``network(view, x)`` without gradients; the activations of a built-in encoder in place.

    Memory for a second copy of its widest layer would take longer than the activation itself.
    """
    y: torch.Tensor
    if isinstance(encoder := network.of(view), MLP):
        y = encoder.input(x)
        for layer in encoder.layers:
            y = IN_PLACE.get(type(layer), layer)(y)
        y = network.similarity.in_place(y)
    else:
        y = network(view, x)
    return y


def _count(X: Features | None, positions: NDArray[np.int64] | None) -> int:
    if positions is not None:
        return len(positions)
    return 0 if X is None else int(X.shape[0])


def _chunk_rows(X: Features | None, encoder: nn.Module) -> int:
    """How many rows to encode at once: fewer if they are wide, such as images."""
    if X is None or (not _is_dense(X) and isinstance(encoder, MLP)):  # nothing wide is made
        return ROWS
    return max(1, min(ROWS, CHUNK // math.prod(row_shape(X))))


def embed_rows(
    network: MultiViewEncoder,
    view: str,
    X: Features | None,
    positions: NDArray[np.int64] | None,
    n_out: int,
    *,
    tell: Tell | None = None,
) -> NDArray[np.float32]:
    """The embeddings of :func:`encode_chunks` in one array (n, K)."""
    Y = np.empty((0, n_out), np.float32)
    start = 0
    for part in encode_chunks(network, view, X, positions, tell=tell):
        if not start:
            Y = np.empty((_count(X, positions), part.shape[1]), np.float32)
        rows = torch.from_numpy(Y[start : start + len(part)])
        rows.copy_(torch.from_numpy(part))  # by torch: all cores
        start += len(part)
    return Y
