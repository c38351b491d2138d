"""The learned attributes of a model."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np
from numpy.typing import NDArray

from pmvge.checks import NotFitted
from pmvge.graph import Ids, Pair
from pmvge.likelihoods import Family
from pmvge.model.fitted import Fitted, Labels, texts_of
from pmvge.model.training_links import TrainingLinks
from pmvge.similarities import Similarity
from pmvge.training import History


class LearnedState:
    """Attributes that ``fit`` sets; those of users end in an underscore."""

    progress: bool
    embeddings_: dict[str, NDArray[np.float32]]
    ids_: dict[str, Ids]
    view_names_: tuple[str, ...]
    alpha_: NDArray[np.float64]
    log_alpha_: dict[Pair, float]
    alpha_weight_: dict[Pair, float]
    alpha_error_: dict[Pair, float]
    history_: History
    tables_: Mapping[str, Any] | None
    similarity_: Similarity
    family_: Family
    labels_: Labels
    columns_: Labels
    names_: dict[str, NDArray[Any]]
    links_: TrainingLinks | None
    checksum_: str | None

    def _set_fitted(self, fitted: Fitted) -> None:
        self._fitted = fitted
        self.embeddings_, self.ids_ = fitted.embeddings, fitted.ids
        self.view_names_, self.history_ = tuple(fitted.schemas), fitted.history
        self.tables_, self.labels_, self.links_ = fitted.tables, fitted.labels, fitted.links
        self.similarity_, self.family_ = fitted.similarity, fitted.family
        self.columns_, self.checksum_ = fitted.columns, None
        self.names_ = {view: texts_of(fitted, view)[name] for view, name in fitted.names.items()}
        self.log_alpha_ = {pair: entry.log_value for pair, entry in fitted.alpha.items()}
        self.alpha_weight_ = {pair: entry.weight for pair, entry in fitted.alpha.items()}
        self.alpha_error_ = {pair: entry.relative_error for pair, entry in fitted.alpha.items()}
        self.alpha_ = np.zeros((len(self.view_names_),) * 2)
        for (a, b), entry in fitted.alpha.items():
            i, j = self.view_names_.index(a), self.view_names_.index(b)
            self.alpha_[i, j] = self.alpha_[j, i] = entry.value

    def _check_fitted(self) -> Fitted:
        if not hasattr(self, "_fitted"):
            raise NotFitted("this PMvGE is not fitted yet: call fit(graph) first")
        return self._fitted
