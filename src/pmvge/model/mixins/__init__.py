"""Methods of a fitted model by job; the estimator PMvGE inherits them."""

from pmvge.model.mixins.embedding import EmbeddingMixin
from pmvge.model.mixins.evaluation import EvaluationMixin
from pmvge.model.mixins.search import SearchMixin

__all__ = ["EmbeddingMixin", "EvaluationMixin", "SearchMixin"]
