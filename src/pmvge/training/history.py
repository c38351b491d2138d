"""The record of a training run."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import asdict, dataclass, fields
from typing import Any

import numpy as np
from numpy.typing import NDArray

from pmvge.training.callbacks import Callback


@dataclass(frozen=True)
class Record:
    """The state of the training at one check: a row of the history."""

    step: int
    epoch: float
    loss: float  # mean since the last record
    # Gain on held-out links in nats, per unit of weight (Poisson) or per link (other families);
    # higher is better.
    validation: float | None
    learning_rate: float
    seconds: float
    phase: str = ""  # of the schedule; "decay": the weights at the end are kept


class History(Callback):
    """The records of a training run, a callback that keeps them.

    Iterate over it, index it, convert it to columns with :meth:`to_dict` (which
    ``pandas.DataFrame`` accepts), or draw it with :meth:`plot`.
    """

    def __init__(self, records: list[Record] | None = None) -> None:
        self._records = list(records or [])

    def check(self, record: Record, best: float | None = None) -> None:
        """Add a record."""
        self._records.append(record)

    def __len__(self) -> int:
        return len(self._records)

    def __iter__(self) -> Iterator[Record]:
        return iter(self._records)

    def __getitem__(self, index: int) -> Record:
        return self._records[index]

    def __repr__(self) -> str:
        if not self._records:
            return "History: no records"
        last, kept = self._records[-1], self.kept
        tail = f", validation {kept.validation:.4f} at step {kept.step}" if kept else ""
        return f"History: {last.step} steps in {last.seconds:.1f} s, loss {last.loss:.4f}{tail}"

    @property
    def best(self) -> Record | None:
        """The record with the highest validation; None without validation."""
        scored = [record for record in self._records if record.validation is not None]
        return max(scored, key=lambda record: record.validation or 0.0) if scored else None

    @property
    def kept(self) -> Record | None:
        """The record whose weights the model has: the last after a decay, else the best.

        None without validation.
        """
        last = self._records[-1] if self._records else None
        if last is not None and last.phase == "decay" and last.validation is not None:
            return last
        return self.best

    @property
    def stale(self) -> int:
        """The number of checks since the best validation, those of a decay left out."""
        held = [r for r in self._records if r.validation is not None and r.phase != "decay"]
        best = History(held).best
        return len(held) - 1 - held.index(best) if best else 0

    def to_dict(self) -> dict[str, NDArray[Any]]:
        """Return one array per field of the records; NaN where there is no validation."""
        return {
            field.name: np.array(
                [getattr(r, field.name) for r in self._records],
                dtype={"step": np.int64, "phase": np.str_}.get(field.name, np.float64),
            )
            for field in fields(Record)
        }

    def to_records(self) -> list[dict[str, Any]]:
        """Return the records as dictionaries of plain numbers."""
        return [asdict(record) for record in self._records]

    @classmethod
    def from_records(cls, records: list[dict[str, Any]]) -> History:
        """Return the history that :meth:`to_records` was called on.

        Raise TypeError if a field is missing or not a number.
        """
        parsed = [Record(**record) for record in records]
        for record in parsed:
            values = asdict(record)
            if not isinstance(values.pop("phase"), str):
                raise TypeError(f"expected the name of a phase, got {record.phase!r}")
            if values["validation"] is None:
                del values["validation"]
            if not all(isinstance(value, int | float) for value in values.values()):
                raise TypeError(f"expected a record of numbers, got {values}")
        return cls(parsed)

    def plot(self) -> Any:
        """Return a plotly figure of the training and validation gain against steps."""
        from plotly import graph_objects

        columns = self.to_dict()
        figure = graph_objects.Figure()
        figure.add_scatter(x=columns["step"], y=-columns["loss"], name="training", mode="lines")
        if self.kept:
            figure.add_scatter(
                x=columns["step"], y=columns["validation"], name="validation", mode="lines+markers"
            )
            figure.add_vline(x=self.kept.step, line_dash="dot")
        figure.update_layout(
            template="plotly_white",
            xaxis_title="step",
            yaxis_title="gain over constant expected weights (nats per unit of weight or per link)",
        )
        return figure
