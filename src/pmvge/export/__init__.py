"""Write a fitted model for other tools: encoders, vectors and indexes."""

from pmvge.export.faiss_indexes import export_faiss
from pmvge.export.onnx_encoders import export_onnx
from pmvge.export.parquet_tables import export_parquet

__all__ = ["export_faiss", "export_onnx", "export_parquet"]
