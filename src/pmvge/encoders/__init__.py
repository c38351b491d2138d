"""Maps from features to vectors, one per view."""

from pmvge.encoders.choices import Choice, choose_encoders, describe_choice
from pmvge.encoders.effects import KINDS as EFFECTS
from pmvge.encoders.effects import Effects, Zero, choose_effects, choose_priors
from pmvge.encoders.embedding import CHUNK_ROWS, check_outputs, embed_rows
from pmvge.encoders.layers import Dropout, Normalize, product
from pmvge.encoders.lazy_rows import LazyRows
from pmvge.encoders.modules import MLP, Identity, Lookup, batch_norms
from pmvge.encoders.network import MultiViewEncoder, set_input_scale
from pmvge.encoders.schemas import ViewSchema, schemas_of, sparse_within
from pmvge.encoders.specs import EncoderSpec

__all__ = [
    "CHUNK_ROWS",
    "EFFECTS",
    "MLP",
    "Choice",
    "Dropout",
    "Effects",
    "EncoderSpec",
    "Identity",
    "LazyRows",
    "Lookup",
    "MultiViewEncoder",
    "Normalize",
    "ViewSchema",
    "Zero",
    "batch_norms",
    "check_outputs",
    "choose_effects",
    "choose_encoders",
    "choose_priors",
    "describe_choice",
    "embed_rows",
    "product",
    "schemas_of",
    "set_input_scale",
    "sparse_within",
]
