"""Vectors with their ids."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow
from numpy.typing import NDArray
from pyarrow import parquet
from scipy import sparse

from pmvge.errors import StorageError
from pmvge.graph import Ids
from pmvge.progress import OnProgress
from pmvge.search.exact import top_k


@dataclass(frozen=True, eq=False)
class Embeddings:
    """The vectors of one view's entities: ``ids`` (n,) and ``vectors`` (n, K)."""

    ids: Ids
    vectors: NDArray[np.float32]

    def __len__(self) -> int:
        return len(self.ids)

    def nearest(
        self,
        queries: NDArray[Any],
        k: int,
        exclude: sparse.csr_array | None = None,
        *,
        on_progress: OnProgress | None = None,
    ) -> tuple[Ids, NDArray[np.float32]]:
        """Return the k vectors with the largest inner products with each query, best first.

        Return ids and inner products, both (queries, min(k, n)). The stored entries of ``exclude``
        (queries, n) are skipped. Where fewer than k are left, the last inner products are -inf and
        their ids are arbitrary. Raise InputError if ``k`` or a shape is not valid.
        """
        positions, g = top_k(queries, self.vectors, k, exclude, on_progress=on_progress)
        return self.ids[positions], g

    def save(self, path: Path | str) -> None:
        """Write a Parquet file with the columns ``id`` and ``vector``."""
        parquet.write_table(self.to_arrow(), path)

    def to_arrow(self) -> pyarrow.Table:
        """Return an Arrow table with the columns ``id`` and ``vector``."""
        flat = pyarrow.array(np.ascontiguousarray(self.vectors, np.float32).ravel())
        vectors = pyarrow.FixedSizeListArray.from_arrays(flat, self.vectors.shape[1])
        return pyarrow.table({"id": pyarrow.array(self.ids), "vector": vectors})

    @classmethod
    def load(cls, path: Path | str) -> Embeddings:
        """Read a file that :meth:`save` wrote; raise StorageError if it is not valid."""
        try:
            # A path could be a URL, which pyarrow would fetch. A Python file object would be closed
            # by an Arrow thread, which aborts the process if the interpreter is shutting down.
            with pyarrow.OSFile(str(path)) as file:
                table = parquet.read_table(file)
            ids = table.column("id").to_numpy()
            column = table.column("vector")
            width = column.type.list_size
            parts = [chunk.flatten().to_numpy() for chunk in column.chunks]
        except (pyarrow.ArrowException, OSError, KeyError, AttributeError, ValueError) as error:
            raise StorageError(f"{path}: not a Parquet file of ids and vectors: {error}") from error
        flat = np.concatenate(parts) if parts else np.empty(0, np.float32)
        ids = ids.astype(str) if ids.dtype == object else ids
        if flat.dtype.kind != "f" or ids.dtype.kind not in "iuU" or len(flat) != len(ids) * width:
            raise StorageError(
                f"{path}: expected an id and {width} numbers in each row, got {len(ids)} "
                f"{ids.dtype} ids and {len(flat)} {flat.dtype} numbers"
            )
        if not np.isfinite(flat).all():
            n_bad = int((~np.isfinite(flat)).sum())
            raise StorageError(
                f"{path}: expected vectors of finite numbers, got {n_bad} that are NaN or infinite"
            )
        return cls(ids, flat.reshape(len(ids), width))
