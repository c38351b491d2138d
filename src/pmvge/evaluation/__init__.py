"""How good embeddings are: metrics (arrays to numbers) and tasks (embeddings to metrics)."""
