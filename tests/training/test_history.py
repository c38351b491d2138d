"""The training history: a list of records, columns, a figure."""

import json
from dataclasses import replace

import numpy as np
import pandas as pd
import plotly.graph_objects
import pytest

from pmvge.training import History, Record

RECORDS = [
    Record(step=10, epoch=0.5, loss=-0.25, validation=0.5, learning_rate=0.01, seconds=1.0),
    Record(step=20, epoch=1.0, loss=-0.5, validation=0.75, learning_rate=0.01, seconds=2.0),
    Record(step=30, epoch=1.5, loss=-0.75, validation=0.75, learning_rate=0.005, seconds=3.04),
]
UNSCORED = [Record(10, 0.5, -0.25, None, 0.01, 1.0), Record(20, 1.0, 0.125, None, 0.01, 2.0)]


def test_a_history_is_a_sequence_of_records() -> None:
    history = History(RECORDS[:2])
    history.check(RECORDS[2])
    assert len(history) == 3
    assert list(history) == RECORDS
    assert history[-1] is RECORDS[2]
    assert len(History()) == 0


def test_appending_does_not_change_the_list_that_was_given() -> None:
    given = RECORDS[:1]
    History(given).check(RECORDS[1])
    assert given == RECORDS[:1]


def test_the_best_record_has_the_highest_validation_and_is_the_first_such() -> None:
    assert History(RECORDS).best is RECORDS[1]
    assert History(UNSCORED).best is None
    assert History().best is None
    assert History([*UNSCORED, RECORDS[0]]).best is RECORDS[0]


def test_the_kept_record_is_the_last_after_a_decay_and_else_the_best() -> None:
    decayed = replace(RECORDS[2], validation=0.1, phase="decay")
    assert History([*RECORDS[:2], decayed]).kept is decayed
    assert repr(History([*RECORDS[:2], decayed])).endswith("validation 0.1000 at step 30")
    assert History(RECORDS).kept is RECORDS[1]
    held = replace(RECORDS[2], validation=0.1, phase="hold")
    assert History([*RECORDS[:2], held]).kept is RECORDS[1]


def test_stale_counts_checks_since_the_best_one_before_a_decay() -> None:
    decayed = replace(RECORDS[2], validation=0.9, phase="decay")
    assert History(RECORDS).stale == 1
    assert History(RECORDS[:2]).stale == 0
    assert History([*RECORDS, decayed]).stale == 1
    assert History([decayed]).stale == History(UNSCORED).stale == History().stale == 0


def test_a_phase_that_is_no_text_is_refused() -> None:
    with pytest.raises(TypeError, match="phase"):
        History.from_records([{**History(RECORDS).to_records()[0], "phase": 3}])


@pytest.mark.parametrize("highest", [-1.0, 0.0])
def test_validation_of_zero_or_less_can_be_the_best(highest) -> None:
    low = [Record(k, 0.0, 0.0, value, 0.1, 0.0) for k, value in enumerate([-3.0, highest, -2.0])]
    assert History(low).best is low[1]


@pytest.mark.parametrize(
    ("records", "shown"),
    [
        (RECORDS, "History: 30 steps in 3.0 s, loss -0.7500, validation 0.7500 at step 20"),
        (UNSCORED, "History: 20 steps in 2.0 s, loss 0.1250"),
        ([], "History: no records"),
    ],
)
def test_repr(records, shown) -> None:
    assert repr(History(records)) == shown


@pytest.mark.parametrize("records", [RECORDS, UNSCORED, [*UNSCORED, *RECORDS]])
def test_to_dict_makes_a_data_frame(records) -> None:
    frame = pd.DataFrame(History(records).to_dict())
    assert list(frame.columns) == [
        "step",
        "epoch",
        "loss",
        "validation",
        "learning_rate",
        "seconds",
        "phase",
    ]
    assert frame["step"].dtype == np.int64
    assert set(frame.dtypes[1:-1]) == {np.dtype(np.float64)}
    assert frame["phase"].tolist() == [record.phase for record in records]
    for name in frame.columns[:-1]:
        values = [getattr(record, name) for record in records]
        assert frame[name].tolist() == pytest.approx(
            [np.nan if value is None else value for value in values], nan_ok=True
        )


def test_to_dict_of_an_empty_history_has_all_columns() -> None:
    assert pd.DataFrame(History().to_dict()).shape == (0, 7)


@pytest.mark.parametrize("records", [RECORDS, UNSCORED, []])
def test_records_survive_json(records) -> None:
    plain = json.loads(json.dumps(History(records).to_records()))
    assert list(History.from_records(plain)) == records


def test_the_figure_shows_gains_against_steps_and_marks_the_best() -> None:
    figure = History(RECORDS).plot()
    assert isinstance(figure, plotly.graph_objects.Figure)
    training, validation = figure.data
    assert (training.name, validation.name) == ("training", "validation")
    assert list(training.x) == list(validation.x) == [10, 20, 30]
    assert list(training.y) == [0.25, 0.5, 0.75]
    assert list(validation.y) == [0.5, 0.75, 0.75]
    (line,) = figure.layout.shapes
    assert line.x0 == line.x1 == 20
    assert figure.layout.xaxis.title.text == "step"
    assert "nats per unit of weight" in figure.layout.yaxis.title.text


def test_the_figure_without_validation_shows_the_training_only() -> None:
    figure = History(UNSCORED).plot()
    assert [trace.name for trace in figure.data] == ["training"]
    assert list(figure.data[0].y) == [0.25, -0.125]
    assert not figure.layout.shapes
