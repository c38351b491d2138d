"""The encoders of all views in one module."""

from __future__ import annotations

import copy
from collections.abc import Mapping, Sequence
from typing import Any

import torch
from torch import nn

from pmvge.encoders.choices import Choice
from pmvge.encoders.effects import Effects, Zero
from pmvge.encoders.modules import MLP, Identity, Lookup, build_encoder
from pmvge.encoders.schemas import ViewSchema
from pmvge.encoders.sharing import check_owner, owner_of
from pmvge.encoders.specs import EncoderSpec
from pmvge.errors import ParameterError
from pmvge.graph import MultiViewGraph, Pair, SparseRows
from pmvge.similarities import Similarity, WithBiases, build_similarity


class MultiViewEncoder(nn.Module):
    r"""The encoders of all views and the similarity: maps (view, rows) to vectors :math:`y`.

    ``family`` is the likelihood family, whose parameters are learned with the weights.
    """

    def __init__(
        self,
        choices: Mapping[str, Choice],
        schemas: Mapping[str, ViewSchema],
        n_out: int,
        similarity: str,
        family: nn.Module | None = None,
        *,
        effects: Mapping[str, str] | None = None,
        pairs: Sequence[Pair] = (),
    ) -> None:
        super().__init__()
        kinds = dict.fromkeys(schemas, "none") | dict(effects or {})
        compared = build_similarity(similarity, n_out)
        _check_biases(similarity, compared, kinds)
        self.n_components = n_out
        # The view pairs of the biases of each view, in the order of its outputs.
        self.bias_pairs = {
            view: own
            for view, kind in kinds.items()
            if (kind != "none" or compared.always_biased)
            and (own := [pair for pair in pairs if view in pair])
        }
        # Modules that were passed in stay unchanged. One deep copy of all keeps what they share.
        modules = copy.deepcopy({v: c for v, c in choices.items() if isinstance(c, nn.Module)})
        self._position: dict[str, int] = {}  # a view's name may contain a dot, a module's may not
        self.encoders = nn.ModuleList()
        for view in sorted(choices, key=lambda v: owner_of(v, choices) != v):  # owners first
            owner = check_owner(view, choices, schemas)
            if owner != view:
                self._position[view] = self._position[owner]
                continue
            choice, schema = choices[view], schemas[view]
            if schema.row_shape is None and kinds[view] == "vector" and _is_lookup(choice):
                encoder: nn.Module = Zero(n_out)
            elif isinstance(choice, EncoderSpec):
                encoder = build_encoder(
                    f"view {view!r}: encoder",
                    choice,
                    n_rows=schema.n,
                    row_shape=schema.row_shape,
                    sparse=schema.sparse,
                    n_out=n_out + (self.n_biases(view) if _has_extra(view, choices, kinds) else 0),
                )
            else:
                encoder = modules[view]
            self._position[view] = len(self.encoders)
            self.encoders.append(encoder)
        self.similarity: Similarity = compared
        self.family: Any = family  # a likelihoods.Family: a layer above this one
        self._add_effects(choices, schemas, kinds, n_out)

    def _add_effects(
        self,
        choices: Mapping[str, Choice],
        schemas: Mapping[str, ViewSchema],
        kinds: Mapping[str, str],
        n_out: int,
    ) -> None:
        """Add the effects of entities, and heads u(f) where the encoder has no outputs for u."""
        self._effects: dict[str, int] = {}
        self._heads: dict[str, int] = {}
        self._shifts: dict[str, str] = {}
        self._featureless: set[str] = set()
        self._extra: set[str] = set()  # views whose encoder has outputs for u
        self.effects, self.heads = nn.ModuleList(), nn.ModuleList()
        for view, schema in schemas.items():
            count = self.n_biases(view)
            if not count:
                continue
            featureless, extra = schema.row_shape is None, _has_extra(view, choices, kinds)
            if extra:
                self._extra.add(view)
            elif not featureless:
                self._heads[view] = len(self.heads)
                self.heads.append(nn.Linear(n_out, count))
            if not featureless or extra:
                self._zero_biases(view)
            if kinds[view] != "none":
                vector = n_out if kinds[view] == "vector" else 0
                self._featureless |= {view} if featureless else set()
                self._effects[view] = len(self.effects)
                module = Effects(schema.n, vector, count, featureless=featureless)
                if not featureless:
                    module.prior[0] = self.similarity.effect_sigma
                self.effects.append(module)
            # Centres the biases, so that log alpha has the constant.
            self._shifts[view] = f"shift_{len(self._shifts)}"
            self.register_buffer(self._shifts[view], torch.zeros(count))

    def _zero_biases(self, view: str) -> None:
        """Set the weights of u to 0: noise in u(x) would be the bias of every new entity."""
        K, encoder = self.n_components, self.encoder_of(view)
        if view in self._heads:
            layer: Any = self.heads[self._heads[view]]
            weights = [layer.weight, layer.bias]
        elif isinstance(encoder, Lookup):
            weights = [encoder.weight[:, K:]]
        else:
            layer = [m for m in encoder.modules() if isinstance(m, nn.Linear)][-1]
            weights = [layer.weight[:, K:], layer.bias[K:]]
        with torch.no_grad():
            for weight in weights:
                weight.zero_()

    @property
    def views(self) -> tuple[str, ...]:
        """The names of the views."""
        return tuple(self._position)

    @property
    def device(self) -> torch.device:
        """The device of the weights; the default device if there are none."""
        return next(self.parameters(), torch.empty(0)).device

    def encoder_of(self, view: str) -> nn.Module:
        """Return the encoder of a view."""
        return self.encoders[self._position[view]]

    def n_biases(self, view: str) -> int:
        """Return the number of biases of a view's entities: one for each view pair."""
        return len(self.bias_pairs.get(view, ()))

    @property
    def pair_similarity(self) -> Similarity:
        """The similarity of outputs, with biases if a view has any."""
        if not self.bias_pairs:
            return self.similarity
        return WithBiases(self.similarity, self.n_components, self.bias_pairs)

    def effects_of(self, view: str) -> Effects | None:
        """Return the effects of a view's entities, None if it has none."""
        at = self._effects.get(view)
        effects: Any = None if at is None else self.effects[at]
        return effects  # type: ignore[no-any-return]

    def is_featureless(self, view: str) -> bool:
        """Return whether a view with effects has no features."""
        return view in self._featureless

    def modules_of(self, view: str) -> list[nn.Module]:
        """Return the modules that the outputs of a view depend on, without the similarity."""
        found: list[nn.Module] = [self.encoder_of(view)]
        found += [self.effects[self._effects[view]]] if view in self._effects else []
        return found + ([self.heads[self._heads[view]]] if view in self._heads else [])

    def centre(self, view: str, mean: torch.Tensor) -> None:
        """Subtract ``mean`` (P,) from the biases of a view's entities."""
        shift = getattr(self, self._shifts[view])
        shift += mean.to(shift)

    def forward(
        self,
        view: str,
        x: Any,
        index: torch.Tensor | None = None,
        *,
        effects: bool | torch.Tensor = True,
    ) -> torch.Tensor:
        """Return the vectors (n, K) of rows (n, ...), or of positions in a featureless view.

        A view with biases returns (n, K + P): the vectors, and the biases of its P view pairs.
        ``index`` are the positions of the entities, -1 for new ones; without it, all are new.
        ``effects=False`` leaves out the effects; a tensor has the effects (e, b) of the rows.
        """
        f = self.encode(view, x)
        if not self.n_biases(view):
            y: torch.Tensor = self.similarity(f)
            return y
        module = self.effects_of(view)
        rows = effects if isinstance(effects, torch.Tensor) else None
        if effects is True and module is not None:
            at = x if view in self._featureless else index
            rows = None if at is None else module.of_known(at)
        return self._outputs(view, f, module, rows)

    def before_effects(self, view: str, x: Any) -> tuple[torch.Tensor, torch.Tensor]:
        """Return f (n, K) and the biases (n, P) of a view with biases, without effects."""
        return self._split(view, self.encode(view, x))

    def n_outputs(self, view: str) -> int:
        """Return the number of outputs of a view's encoder: K, and the biases it computes."""
        return self.n_components + (self.n_biases(view) if view in self._extra else 0)

    def encode(self, view: str, x: Any) -> torch.Tensor:
        """Return the outputs of a view's encoder."""
        encoder = self.encoder_of(view)
        if isinstance(x, SparseRows) and not isinstance(encoder, MLP | Identity):
            x = x.to_dense()  # user-defined modules take dense rows, one batch at a time
        f: torch.Tensor = encoder(x)
        if f.dtype is torch.bfloat16:  # low precision is for the encoder's products only
            f = f.float()
        return f

    def _split(self, view: str, f: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
        """Return f (n, K) and the biases (n, P) without effects, from the encoder's outputs."""
        K = self.n_components
        if view in self._heads:
            u = self.heads[self._heads[view]](f)
        elif view in self._extra:
            f, u = f[:, :K], f[:, K:]
        else:  # featureless, with effects
            u = f.new_zeros(len(f), self.n_biases(view))
        return f, u - getattr(self, self._shifts[view])

    def _outputs(
        self, view: str, f: torch.Tensor, module: Effects | None, rows: torch.Tensor | None
    ) -> torch.Tensor:
        """Return the vectors and biases of a view from the encoder's outputs and from effects."""
        encoder = self.encoder_of(view)
        f, bias = self._split(view, f)
        e = None
        if module is not None and rows is not None:
            vectors, b = module.split(rows)
            e, bias = vectors if module.n_vector else None, bias + b
        if isinstance(encoder, Zero):
            y = self.similarity.from_effects(f if e is None else e)
        else:
            y = self.similarity(f) if e is None else self.similarity(f, e)
        return torch.cat([y, bias], 1)


def _check_biases(name: str, similarity: Similarity, kinds: Mapping[str, str]) -> None:
    """Raise ParameterError if a view has effects and the similarity takes no biases."""
    if similarity.takes_biases:
        return
    for view, kind in kinds.items():
        if kind != "none":
            raise ParameterError(
                f"similarity {name!r}: expected no effects, because it takes no biases, got "
                f"{kind!r} for view {view!r}; use effects='none' or another similarity"
            )


def _has_extra(view: str, choices: Mapping[str, Choice], kinds: Mapping[str, str]) -> bool:
    """Return whether the encoder of a view has outputs of its own for the biases."""
    choice = choices[view]
    if isinstance(choice, EncoderSpec) and choice.kind == "lookup":
        return kinds[view] == "none"  # otherwise the effects have the biases
    return (
        isinstance(choice, EncoderSpec)
        and choice.kind in ("mlp", "linear")
        and (choice.kind == "linear" or choice.output_activation == "identity")
        and all(owner_of(other, choices) != view for other in choices if other != view)
        and owner_of(view, choices) == view
    )


def _is_lookup(choice: Choice) -> bool:
    return isinstance(choice, nn.Module) or choice.kind == "lookup"


def set_input_scale(
    network: MultiViewEncoder, graph: MultiViewGraph, choices: Mapping[str, Choice]
) -> None:
    """Set the input shift and scale of the built-in encoders from the rows of a graph."""
    for view, choice in choices.items():
        encoder, X = network.encoder_of(view), graph.views[view]
        if not isinstance(choice, EncoderSpec) or choice.shared_with or not choice.standardize:
            continue
        if isinstance(encoder, MLP) and X is not None:
            encoder.input.adapt(X)
