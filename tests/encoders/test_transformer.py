"""A transformer as encoder: frozen it keeps its weights, otherwise it is trained."""

import warnings

import numpy as np
import pytest
import torch
from torch import nn

from pmvge import MultiViewGraph, PMvGE

with warnings.catch_warnings():
    warnings.simplefilter("ignore")  # of its import
    from transformers import BertConfig, BertModel

pytestmark = pytest.mark.slow  # the import takes seconds


class Encoder(nn.Module):
    """The first output of a transformer, and a linear layer."""

    def __init__(self, freeze: bool) -> None:
        super().__init__()
        torch.manual_seed(0)
        config = BertConfig(
            vocab_size=12, hidden_size=8, intermediate_size=8, num_hidden_layers=1,
            num_attention_heads=2, max_position_embeddings=4,
        )  # fmt: skip
        self.transformer, self.head = BertModel(config), nn.Linear(8, 3)
        self.transformer.requires_grad_(not freeze)

    def forward(self, rows):
        return self.head(self.transformer(rows.long()).last_hidden_state[:, 0])


@pytest.fixture(scope="module")
def graph() -> MultiViewGraph:
    rng = np.random.default_rng(0)
    links = {("text", "user"): (rng.integers(0, 30, 120), rng.integers(0, 9, 120))}
    return MultiViewGraph({"text": rng.integers(0, 12, (30, 4)), "user": 9}, links)


@pytest.mark.parametrize("freeze", [True, False])
def test_frozen_weights_stay_and_others_are_trained(graph, tmp_path, freeze) -> None:
    given = Encoder(freeze)
    before = {name: value.clone() for name, value in given.state_dict().items()}
    model = PMvGE(
        3, encoder={"text": given}, effects={"text": "none"}, max_steps=20, batch_size=16,
        weight_decay=1.0, random_state=0, progress=False,
    ).fit(graph)  # fmt: skip
    for name, value in given.state_dict().items():
        assert torch.equal(value, before[name])  # fit trains a copy
    model.save(tmp_path / "model")
    again = PMvGE.load(tmp_path / "model", encoders={"text": Encoder(freeze)})
    rows = graph.views["text"][:5]
    assert np.array_equal(again.embed("text", rows), model.embed("text", rows))
    with torch.no_grad():
        unchanged = Encoder(freeze).eval().transformer(torch.tensor(rows).long())
        own = model._fitted.network.encoder_of("text").eval()
        trained = own.transformer(torch.tensor(rows).long())
    same = torch.equal(unchanged.last_hidden_state, trained.last_hidden_state)
    assert same is freeze
    assert not torch.equal(own.head.weight, before["head.weight"])
