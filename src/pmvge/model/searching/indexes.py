"""Candidates of one view, ready to be searched by entities of another."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any, Literal

import numpy as np
import pyarrow
import torch
from numpy.typing import NDArray

from pmvge import storage
from pmvge.errors import InputError, StorageError, choose
from pmvge.graph import Ids
from pmvge.model.embedding import find_entities
from pmvge.model.fitted import Fitted, texts_of
from pmvge.model.fold_in.fold_in import find_or_fold_in
from pmvge.model.searching.search import Candidates, Filters, search
from pmvge.progress import progress_bar
from pmvge.search import ExactIndex, HnswIndex, VectorIndex, save_tables
from pmvge.similarities import Similarity
from pmvge.version import __version__

KINDS = ("exact", "hnsw")
SAMPLE = 10_000  # queries that an approximate index is built for
BATCH = 1024  # queries of a batch


class Index:
    """The entities of one view as candidates, for queries of another view or of the same.

    :meth:`PMvGE.index <pmvge.PMvGE.index>` makes one. It holds the candidates' vectors, with their
    biases, so that many searches cost less than the same calls of
    :meth:`PMvGE.search <pmvge.PMvGE.search>`. It keeps the model as it was.
    """

    def __init__(
        self,
        fitted: Fitted,
        candidates: Candidates,
        queries: str,
        *,
        progress: bool,
        similarity: Similarity | None = None,
    ) -> None:
        self._fitted, self._candidates, self._progress = fitted, candidates, progress
        self.view, self.among = candidates.view, queries
        pair = fitted.pair_similarity.for_pair(queries, candidates.view)
        self._similarity = pair if similarity is None else similarity

    @property
    def kind(self) -> str:
        """ "exact" or "hnsw"."""
        return self._candidates.vectors.kind

    @property
    def recall(self) -> float:
        """The share of the true best 10 candidates that a search finds, on sampled queries."""
        vectors = self._candidates.vectors
        return float(vectors.recall or 0.0) if isinstance(vectors, HnswIndex) else 1.0

    def __len__(self) -> int:
        return len(self._candidates.vectors)

    def __repr__(self) -> str:
        recall = f", recall@10 {self.recall:.3f}" if self.kind != "exact" else ""
        return f"<{self.kind} index of {len(self):,} {self.view} for {self.among}{recall}>"

    def search(
        self,
        X: Any = None,
        *,
        ids: Any = None,
        links: Any = None,
        exposure: float | None = None,
        k: int = 10,
        by: Literal["intensity", "similarity"] = "intensity",
        exclude: Any = None,
        allow: Any = None,
        deny: Any = None,
        min_weight: float | None = None,
    ) -> tuple[Ids, NDArray[np.float64]]:
        """Return the k best candidates of each entity of view ``among``, best first.

        Parameters, results and errors are those of :meth:`PMvGE.search <pmvge.PMvGE.search>`, whose
        ``view`` is the view of the queries and whose ``among`` is the view of this index. Scores
        are exact. An approximate index can miss candidates; it returns none that a filter leaves
        out.
        """
        choose("ranking", by, ("intensity", "similarity"), "search: by")
        with progress_bar(f"embedding {self.among}", self._progress) as on_progress:
            queries = find_or_fold_in(
                self._fitted,
                self.among,
                X,
                ids,
                links=links,
                exposure=exposure,
                on_progress=on_progress,
            )
        with progress_bar(f"searching {self.view}", self._progress) as on_progress:
            return search(
                self._fitted,
                self.among,
                queries,
                self._candidates,
                self._similarity,
                k=k,
                by=by,
                filters=Filters(exclude, allow, deny, min_weight),
                on_progress=on_progress,
            )

    def search_to(
        self,
        path: str | Path,
        *,
        ids: Any = None,
        k: int = 10,
        by: str = "intensity",
        **filters: Any,
    ) -> int:
        """Write the k best candidates of known entities to a Parquet file; return the row count.

        Entities are those with the given ids, or all training entities of view ``among``. They are
        searched in batches, so that memory does not depend on their number. The columns are ``id``,
        ``partner``, ``rank`` (from 1), ``expected_weight`` or ``similarity``, and ``name`` and
        ``partner_name`` for views with names. The file is replaced atomically when it is complete.
        Filters are those of :meth:`search`. Raise InputError as :meth:`search` does, and
        StorageError if the file cannot be written.
        """
        wanted = find_entities(self._fitted, self.among, None, ids).positions
        rows: list[int] = []

        def tables() -> Iterator[pyarrow.Table]:
            with progress_bar(f"searching {self.view}", self._progress) as on_progress:
                for start in range(0, max(1, len(wanted)), BATCH):
                    part = wanted[start : start + BATCH]
                    yield self._table(part, k, by, filters)
                    if on_progress is not None:
                        on_progress(min(start + BATCH, len(wanted)), max(1, len(wanted)))

        storage.replace_file(
            Path(path), lambda partial: rows.append(save_tables(partial, tables()))
        )
        return rows[0]

    def _table(
        self, positions: NDArray[np.int64], k: int, by: str, filters: dict[str, Any]
    ) -> pyarrow.Table:
        """Return the best candidates of some known entities, one row for each."""
        quiet = Index(
            self._fitted,
            self._candidates,
            self.among,
            progress=False,
            similarity=self._similarity,
        )
        own = self._fitted.ids[self.among][positions]
        score: Any = choose("ranking", by, ("intensity", "similarity"), "search: by")
        partners, scores = quiet.search(ids=own, k=k, by=score, **filters)
        row, rank = np.nonzero(~np.isnan(scores))
        columns = {
            "id": own[row],
            "partner": partners[row, rank],
            "rank": (rank + 1).astype(np.int32),
            "expected_weight" if by == "intensity" else "similarity": scores[row, rank],
        }
        if (name := self._fitted.names.get(self.among)) is not None:
            columns["name"] = texts_of(self._fitted, self.among)[name][positions[row]]
        if (name := self._fitted.names.get(self.view)) is not None:
            at = self._fitted.positions_of(self.view, columns["partner"])
            columns["partner_name"] = texts_of(self._fitted, self.view)[name][at]
        return pyarrow.table({column: pyarrow.array(values) for column, values in columns.items()})

    def save(self, folder: str | Path) -> None:
        """Write an approximate index to a folder, such as that of the model, atomically.

        :meth:`PMvGE.load_index <pmvge.PMvGE.load_index>` reads it. Raise InputError for an exact
        index, which needs no file, and StorageError if the folder cannot be written.
        """
        vectors = self._candidates.vectors
        if not isinstance(vectors, HnswIndex):
            raise InputError("save: an exact index needs no file: expected kind='hnsw'")
        name = _name(self.view, self.among)
        content = {
            "pmvge": __version__,
            "view": self.view,
            "among": self.among,
            "index": vectors.kind,
            "vectors": {"sha256": vectors.checksum(), "shape": list(vectors.vectors.shape)},
            "effort": vectors.effort,
            "recall": vectors.recall,
        }
        axes = storage.tensors_writer({"axes": torch.from_numpy(vectors.axes)})
        parts = {f"{name}.hnsw": vectors.write, f"{name}.safetensors": axes}
        storage.commit(Path(folder), name, content, parts)


def build_index(
    fitted: Fitted, view: str, among: str | None, kind: str, *, progress: bool
) -> Index:
    """Return an index of a view's training entities for queries of view ``among``.

    Raise InputError if a view or the kind is unknown, or if faiss is not installed.
    """
    choose("index", kind, KINDS, "index: kind", error=InputError)
    among = view if among is None else among
    candidates = training_candidates(fitted, view, among, many=True)
    if kind == "hnsw":
        similarity = fitted.pair_similarity.for_pair(among, view)
        n = len(fitted.ids[among])
        sample = np.random.default_rng(0).permutation(n)[:SAMPLE]
        with progress_bar(f"indexing {view}", progress) as on_progress:
            vectors: VectorIndex = HnswIndex.build(
                candidates.vectors.vectors,
                similarity.query_array(fitted.outputs[among][sample]),
                on_progress=on_progress,
            )
        candidates = Candidates(
            view, vectors, candidates.names, candidates.positions, candidates.new
        )
    return Index(fitted, candidates, among, progress=progress)


def similar_index(fitted: Fitted, view: str, *, progress: bool) -> Index:
    """Return an index that finds the most similar entities of a view, by their vectors alone.

    Search it ``by="similarity"``. Raise InputError if the view is unknown.
    """
    fitted.schema_of(view)
    ids = fitted.ids[view]
    candidates = Candidates(
        view, ExactIndex(fitted.similar_vectors(view)), ids, None, np.zeros(len(ids), bool)
    )
    return Index(fitted, candidates, view, progress=progress, similarity=fitted.vector_similarity)


def training_candidates(fitted: Fitted, view: str, among: str, *, many: bool = False) -> Candidates:
    """Return the training entities of a view as candidates for queries of view ``among``.

    ``many`` searches are worth a copy of vectors that were computed for them: NumPy asks for huge
    pages of memory, torch does not, and a product with many vectors is faster with them.
    """
    for name in (view, among):
        fitted.schema_of(name)
    vectors = fitted.candidate_vectors(view, among)
    stored = vectors is fitted.outputs[view] or (view, among) in fitted.candidates
    ids = fitted.ids[view]
    kept = ExactIndex(np.array(vectors) if many and not stored else vectors)
    return Candidates(view, kept, ids, None, np.zeros(len(ids), bool))


def new_candidates(fitted: Fitted, view: str, among: str, given: Any) -> Candidates:
    """Return entities given by features, or by ids in a featureless view, as candidates."""
    pool = find_entities(fitted, view, given, None)
    similarity = fitted.pair_similarity.for_pair(among, view)
    vectors = ExactIndex(similarity.candidate_array(pool.outputs))
    return Candidates(view, vectors, np.arange(len(vectors)), pool.positions, pool.new)


def load_index(
    fitted: Fitted, folder: Path, view: str, among: str | None, *, progress: bool
) -> Index:
    """Return the approximate index that :meth:`Index.save` wrote.

    Raise StorageError if there is none, if it is damaged, or if it was built from other vectors.
    """
    among = view if among is None else among
    exact = training_candidates(fitted, view, among)
    name = _name(view, among)
    command = f"model.index({view!r}, among={among!r}, kind='hnsw').save(folder)"

    def load(manifest: dict[str, Any], parts: storage.Parts) -> HnswIndex:
        vectors = exact.vectors
        try:
            saved, effort, recall = manifest["vectors"], manifest["effort"], manifest["recall"]
            shape, digest = tuple(saved["shape"]), saved["sha256"]
            valid = isinstance(effort, int) and isinstance(recall, float | None)
        except (KeyError, TypeError) as error:
            raise storage.DamagedValue(f"its manifest: {error!r}") from error
        if not valid or effort < 1:
            raise storage.DamagedValue(f"effort and recall: got {effort!r} and {recall!r}")
        if shape != vectors.vectors.shape or digest != vectors.checksum():
            raise StorageError(
                f"{folder}: the index of {view!r} for {among!r} is stale: it was built from other "
                f"vectors than those of the model; build it again: pmvge index, or {command}"
            )
        axes = storage.read_tensors(storage.find_part(parts, f"{name}.safetensors")).get("axes")
        if axes is None or axes.ndim != 2:
            raise storage.DamagedValue("its axes: expected a matrix")
        path = storage.find_part(parts, f"{name}.hnsw")
        return HnswIndex.read(
            path, vectors.vectors, axes.float().numpy(), effort=effort, recall=recall
        )

    if not storage.exists(folder, name):
        raise StorageError(
            f"{folder}: there is no saved index of {view!r} for {among!r}; build it: pmvge index, "
            f"or {command}"
        )
    found = storage.read(folder, name, load)
    candidates = Candidates(view, found, exact.names, None, exact.new)
    return Index(fitted, candidates, among, progress=progress)


def _name(view: str, among: str) -> str:
    """Return the name of the manifest of a saved index; it has no "-" and ".".

    Storage removes old files by the first word of their names, which has to differ by index.
    """
    words = (storage.file_name(name) for name in (view, among))
    return "+".join(["index", *(w.replace("-", "%2D").replace(".", "%2E") for w in words)])
