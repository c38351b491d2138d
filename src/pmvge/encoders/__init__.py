"""Maps from features to vectors, one per view."""

from pmvge.encoders.choices import Choice, choose_encoders, describe_choice
from pmvge.encoders.embedding import CHUNK_ROWS, check_outputs, embed_rows
from pmvge.encoders.layers import Dropout, Normalize, product
from pmvge.encoders.lazy_rows import LazyRows
from pmvge.encoders.modules import MLP, Identity, Lookup, batch_norms
from pmvge.encoders.network import MultiViewEncoder, set_input_scale
from pmvge.encoders.schemas import ViewSchema, schemas_of
from pmvge.encoders.specs import EncoderSpec

__all__ = [
    "CHUNK_ROWS",
    "MLP",
    "Choice",
    "Dropout",
    "EncoderSpec",
    "Identity",
    "LazyRows",
    "Lookup",
    "MultiViewEncoder",
    "Normalize",
    "ViewSchema",
    "batch_norms",
    "check_outputs",
    "choose_encoders",
    "describe_choice",
    "embed_rows",
    "product",
    "schemas_of",
    "set_input_scale",
]
