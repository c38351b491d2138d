"""Extreme values and other edge cases of fitting."""

from __future__ import annotations

import numpy as np
import pytest
import torch

from pmvge import EncoderSpec, MultiViewGraph, PMvGE
from pmvge.errors import DivergedError, InputError, ParameterError, StorageError


@pytest.mark.parametrize("sign", [1, -1])
def test_similarities_beyond_the_range_of_exp(sign, tmp_path):
    """With |g| = 1600 alpha is no float64, but log alpha and mu are."""
    X = np.full((3, 4), 20.0)
    graph = MultiViewGraph({"a": X, "b": sign * X}, {("a", "b"): ([0, 1], [1, 2], [2.0, 7.0])})
    fitted = PMvGE(4, encoder="identity", similarity="inner", effects="none", patience=None).fit(
        graph
    )
    fitted.save(tmp_path / "model")
    for model in (fitted, PMvGE.load(tmp_path / "model")):
        np.testing.assert_allclose(model.intensity("a", X, "b", sign * X), np.ones((3, 3)))
        assert model.search("a", X, among="b", k=1)[1] == pytest.approx(np.ones((3, 1)))
        assert model.log_likelihood(graph) == pytest.approx(-9.0)  # log mu = 0, sum mu = 9


def test_a_pair_observed_without_links_is_saved_with_alpha_zero(tmp_path):
    views = {"a": 3, "b": 3, "c": 2}
    links = {("a", "b"): np.eye(3), ("a", "c"): np.zeros((3, 2))}
    model = PMvGE(2, max_steps=3).fit(MultiViewGraph(views, links))
    model.save(tmp_path / "model")
    loaded = PMvGE.load(tmp_path / "model")
    assert loaded.alpha_[0, 2] == 0
    assert (loaded.alpha_ == model.alpha_).all()
    assert not loaded.intensity("a", [0], "c", [1]).any()


@pytest.mark.parametrize("scheme", ["block", "paper"])
def test_batch_norm_on_a_view_of_one_entity_is_refused(scheme):
    X = np.random.default_rng(0).normal(size=(20, 3))
    graph = MultiViewGraph({"a": X, "b": X[:1]}, {("a", "b"): np.ones((20, 1))})
    with pytest.raises(ParameterError, match="view 'b': batch normalisation needs at least two"):
        PMvGE(2, batch_norm=True, scheme=scheme).fit(graph)
    spec = {"b": EncoderSpec(batch_norm=False)}
    PMvGE(2, batch_norm=True, scheme=scheme, encoder=spec, max_steps=2).fit(graph)


def graph_of(seed: int = 0, **changed: np.ndarray) -> MultiViewGraph:
    rng = np.random.default_rng(seed)
    X, W = rng.normal(size=(300, 3)), rng.poisson(0.1, (300, 20))
    return MultiViewGraph({"a": changed.get("X", X), "b": 20}, {("a", "b"): W})


def test_validation_links_may_reverse_the_view_pair():
    graph = graph_of()
    held = graph_of(1)
    links = held.links["a", "b"]
    turned = held.with_links({("b", "a"): links.transposed()})
    assert (turned.links["b", "a"].matrix() != links.matrix().T).nnz == 0
    fits = [
        PMvGE(2, max_steps=30, random_state=0).fit(graph, validation=v).alpha_
        for v in (graph.with_links({("a", "b"): links}), graph.with_links(turned.links))
    ]
    np.testing.assert_array_equal(*fits)


def test_a_checkpoint_of_other_data_or_validation_is_refused(tmp_path):
    graph, held = graph_of(), graph_of(1)
    held = graph.with_links(held.links)
    settings = {"n_components": 2, "max_steps": 5, "random_state": 0, "checkpoint_dir": tmp_path}
    PMvGE(**settings).fit(graph, validation=held)
    PMvGE(**settings).fit(graph, validation=held, resume=True)
    X = np.array(graph.views["a"])
    X[1, 0] += 1e-3
    with pytest.raises(StorageError, match="other data"):
        PMvGE(**settings).fit(graph_of(X=X), validation=held, resume=True)
    other = graph.with_links(graph_of(2).links)
    with pytest.raises(StorageError, match="other data"):
        PMvGE(**settings).fit(graph, validation=other, resume=True)


def test_a_checkpoint_folder_is_made_before_training(tmp_path):
    (tmp_path / "file").write_text("")
    model = PMvGE(2, max_steps=5, checkpoint_dir=tmp_path / "file")
    with pytest.raises(StorageError, match="cannot write the checkpoint"):
        model.fit(graph_of())
    assert not hasattr(model, "history_")


def test_a_list_of_lists_is_a_matrix():
    graph = MultiViewGraph({"a": 2, "b": 2}, {("a", "b"): [[0, 1], [1, 1]]})
    assert graph.links["a", "b"].matrix().toarray().tolist() == [[0, 1], [1, 1]]


def test_numpy_scalars_as_settings_can_be_saved(tmp_path):
    settings = {
        "hidden_sizes": (np.int64(8),),
        "dropout": np.float32(0.5),
        "max_steps": np.int32(3),
    }
    spec = {"a": EncoderSpec(hidden_sizes=(np.int64(4),), batch_norm=np.bool_(True))}
    model = PMvGE(np.int64(2), encoder=spec, **settings).fit(graph_of())
    model.save(tmp_path / "model")
    assert PMvGE.load(tmp_path / "model").hidden_sizes == (8,)


def test_a_view_cannot_share_an_encoder_with_itself():
    with pytest.raises(ParameterError, match="view 'a': shared_with: a view cannot share"):
        PMvGE(2, encoder={"a": EncoderSpec(shared_with="a")}).fit(graph_of())


class NanInEvaluation(torch.nn.Linear):
    def forward(self, x):
        return super().forward(x) if self.training or len(x) == 2 else super().forward(x) * np.nan


def test_nan_in_validation_is_a_diverged_error():
    model = PMvGE(2, encoder={"a": NanInEvaluation(3, 2)}, standardize=False, max_steps=60)
    model.set_params(effects="none")
    X = np.random.default_rng(0).normal(size=(300, 3)).astype(np.float32)
    with pytest.raises(DivergedError, match="held-out links' profile likelihood is nan"):
        model.fit(graph_of(X=X))


def test_score_takes_a_graph():
    model = PMvGE(2, max_steps=2).fit(graph_of())
    with pytest.raises(InputError, match="expected a MultiViewGraph, got int"):
        model.score(5)
