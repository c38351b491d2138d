"""Callbacks see the steps and records of a training run, and do not change it."""

import numpy as np
import pytest
from tensorboard.backend.event_processing.event_accumulator import EventAccumulator
from typer.testing import CliRunner

from pmvge import MultiViewGraph, PMvGE
from pmvge.cli.app import app
from pmvge.errors import ParameterError, StorageError
from pmvge.training import Callback, TensorBoard


class Log(Callback):
    """A callback that keeps what it is told, and may fail."""

    def __init__(self, fail_at: int | None = None) -> None:
        self.calls: list[tuple] = []
        self.fail_at = fail_at

    def start(self, step, schedule):
        self.calls.append(("start", step, schedule.end))

    def step(self, step, seconds):
        self.calls.append(("step", step))
        if step == self.fail_at:
            raise ZeroDivisionError

    def check(self, record, best):
        self.calls.append(("check", record, best))

    def end(self):
        self.calls.append(("end",))

    def of(self, kind: str) -> list[tuple]:
        return [call[1:] for call in self.calls if call[0] == kind]


@pytest.fixture(scope="module")
def graph() -> MultiViewGraph:
    rng = np.random.default_rng(0)
    links = {("a", "b"): (rng.integers(0, 40, 300), rng.integers(0, 30, 300))}
    return MultiViewGraph({"a": rng.normal(size=(40, 3)), "b": 30}, links)


def model(**settings) -> PMvGE:
    defaults = {"max_steps": 60, "random_state": 0, "progress": False, "schedule": "constant"}
    return PMvGE(4, **defaults | settings)


def test_a_callback_sees_every_step_and_the_records_of_the_history(graph) -> None:
    first, second = Log(), Log()
    fitted = model().fit(graph, callbacks=[first, second])
    steps = fitted.history_[-1].step
    assert first.calls == second.calls
    assert first.of("start") == [(0, 60)]
    assert first.of("step") == [(k,) for k in range(1, steps + 1)]
    records = [record for record, _ in first.of("check")]
    assert records == list(fitted.history_)
    best = np.maximum.accumulate([record.validation for record in records])
    assert [found for _, found in first.of("check")] == best.tolist()
    assert [first.calls[0][0], first.calls[-1][0]] == ["start", "end"]
    assert len(first.of("end")) == 1


def test_callbacks_do_not_change_the_result(graph) -> None:
    plain = model().fit(graph)
    watched = model().fit(graph, callbacks=[Log()])
    for view, vectors in plain.embeddings_.items():
        assert vectors.tobytes() == watched.embeddings_[view].tobytes()


def test_end_is_called_after_an_error(graph) -> None:
    log = Log(fail_at=3)
    with pytest.raises(ZeroDivisionError):
        model().fit(graph, callbacks=[log])
    assert log.of("step") == [(1,), (2,), (3,)]
    assert log.calls[-1] == ("end",)


def test_a_model_stays_as_it_was_if_a_callback_raises(graph) -> None:
    fitted = model().fit(graph)
    before = fitted.embeddings_["a"]
    with pytest.raises(ZeroDivisionError):
        fitted.fit(graph, callbacks=[Log(fail_at=3)])
    assert fitted.embeddings_["a"] is before


def test_end_of_all_callbacks_is_called_if_one_raises(graph) -> None:
    class Broken(Log):
        def end(self):
            super().end()
            raise ZeroDivisionError

    parts = [Log(), Broken(), Log(), Broken(), Log()]
    with pytest.raises(ZeroDivisionError):
        model().fit(graph, callbacks=parts)
    assert [len(part.of("end")) for part in parts] == [1] * 5


@pytest.mark.parametrize(
    ("given", "found"),
    [
        ([print], "got builtin_function_or_method in position 0"),
        ([Log(), Log], r"got the class Log in position 1; call it: Log\(\)"),
        (Log(), r"got Log; pass \[\.\.\.\]"),
        (None, "got NoneType"),
        ("log", "got str in position 0"),
    ],
)
def test_what_is_no_callback_is_rejected(graph, given, found) -> None:
    message = rf"^callbacks: expected a list of pmvge\.training\.Callback objects, {found}"
    with pytest.raises(ParameterError, match=message):
        model().fit(graph, callbacks=given)


def test_callbacks_may_come_from_a_generator(graph) -> None:
    log = Log()
    model().fit(graph, callbacks=(part for part in [log]))
    assert len(log.of("end")) == 1


def test_a_resumed_run_starts_at_its_checkpoint(graph, tmp_path) -> None:
    settings = {"checkpoint_dir": tmp_path, "checkpoint_steps": 20, "patience": None}
    with pytest.raises(ZeroDivisionError):
        model(**settings).fit(graph, callbacks=[Log(fail_at=45)])
    log = Log()
    fitted = model(**settings).fit(graph, callbacks=[log], resume=True)
    assert log.of("start") == [(40, 60)]
    assert log.of("step")[0] == (41,)
    assert list(fitted.history_)[-len(log.of("check")) :] == [r for r, _ in log.of("check")]


def scalars(folder) -> dict[str, list[tuple[int, float]]]:
    """Return what TensorBoard reads from a folder."""
    events = EventAccumulator(str(folder))
    events.Reload()
    names = events.Tags()["scalars"]
    return {name: [(e.step, e.value) for e in events.Scalars(name)] for name in names}


def test_tensorboard_reads_the_history(graph, tmp_path) -> None:
    fitted = model().fit(graph, callbacks=[TensorBoard(tmp_path / "run")])
    found = scalars(tmp_path / "run")
    columns = fitted.history_.to_dict()
    assert {*found} == {"loss", "validation", "learning_rate"}
    for name, points in found.items():
        assert [step for step, _ in points] == columns["step"].tolist()
        np.testing.assert_allclose([value for _, value in points], columns[name], rtol=1e-6)


def test_tensorboard_after_a_resume_has_every_step_once(graph, tmp_path) -> None:
    settings = {"checkpoint_dir": tmp_path / "c", "checkpoint_steps": 20, "patience": None}
    board = TensorBoard(tmp_path / "run")
    settings["max_steps"] = 200
    with pytest.raises(ZeroDivisionError):
        model(**settings).fit(graph, callbacks=[board, Log(fail_at=175)])
    fitted = model(**settings).fit(graph, callbacks=[board], resume=True)
    steps = [step for step, _ in scalars(tmp_path / "run")["loss"]]
    assert steps == fitted.history_.to_dict()["step"].tolist()


def test_tensorboard_of_another_run_replaces_the_curves(graph, tmp_path) -> None:
    board = TensorBoard(tmp_path)
    model(max_steps=60, patience=None).fit(graph, callbacks=[board])
    fitted = model(max_steps=30, patience=None).fit(graph, callbacks=[board])
    steps = [step for step, _ in scalars(tmp_path)["loss"]]
    assert steps == fitted.history_.to_dict()["step"].tolist()


def test_a_folder_that_tensorboard_cannot_write_is_named(graph, tmp_path) -> None:
    (tmp_path / "run").write_text("a file")
    with pytest.raises(StorageError, match=r"^TensorBoard: .*run: expected a folder that can be"):
        model().fit(graph, callbacks=[TensorBoard(tmp_path / "run")])


def test_the_option_of_pmvge_fit(tmp_path) -> None:
    links = "".join(f"u{k % 9},f{k % 7},1\n" for k in range(60))
    (tmp_path / "seen.csv").write_text(f"user,film,n\n{links}")
    arguments = [
        "fit", "--links", f"user,film={tmp_path / 'seen.csv'}", "-o", str(tmp_path / "model"),
        "--set", "max_steps=10", "--tensorboard", str(tmp_path / "run"),
    ]  # fmt: skip
    result = CliRunner().invoke(app, arguments)
    assert result.exit_code == 0, result.output
    assert [step for step, _ in scalars(tmp_path / "run")["loss"]][-1] == 10
