"""The search for settings: trials, evaluation on held-out links, resuming."""

import itertools
import json
import sys
from types import SimpleNamespace

import numpy as np
import optuna
import pytest

from pmvge import MultiViewGraph, PMvGE
from pmvge.errors import DivergedError, GraphError, InputError, ParameterError, StorageError
from pmvge.graph import hold_out_links
from pmvge.training import History, Record
from pmvge.tuning import SEARCHED, tune
from pmvge.tuning import search as tuning_search
from pmvge.tuning.space import DROPOUT, HIDDEN

FIXED = {"max_steps": 3, "batch_size": 32}


@pytest.fixture(scope="module")
def parts():
    rng = np.random.default_rng(0)
    a, b = rng.normal(size=(40, 4)), rng.normal(size=(30, 3))
    order = np.argsort(-(a[:, :1] * b[:, 0] + 0.3 * rng.normal(size=(40, 30))).ravel())[:120]
    graph = MultiViewGraph({"a": a, "b": b}, {("a", "b"): (order // 30, order % 30)})
    return hold_out_links(graph, 0.2, rng)


@pytest.fixture
def search(parts, tmp_path):
    """Return a function that calls tune and returns its result and the finished trials."""

    def call(trials, *, graphs=parts, study="s.log", **options):
        finished = []
        options = {"fixed": FIXED, **options}
        found = tune(
            *graphs, study=tmp_path / study, trials=trials, on_trial=finished.append, **options
        )
        return found, finished

    return call


def test_the_first_trial_has_the_default_settings(search):
    found, (first, *_) = search(2)
    usual = PMvGE().get_params(deep=False)
    assert {key: usual[key] for key in SEARCHED} == dict(first.settings)
    assert found.default_gain == first.gain


def test_the_gain_is_that_of_the_weights_that_a_fit_keeps(monkeypatch):
    held = Record(10, 1.0, -0.5, 0.75, 0.01, 1.0, "hold")
    end = Record(20, 2.0, -0.9, 0.25, 0.0, 2.0, "decay")
    fitted = SimpleNamespace(history_=History([held, end]))
    monkeypatch.setattr(tuning_search, "_fit", lambda *_: fitted)
    assert tuning_search._gain(None, None, {}, 0) == 0.25


def test_the_gain_is_the_validation_of_the_fit(search, parts):
    found, finished = search(3)
    for trial in finished:
        model = PMvGE(**FIXED, **trial.settings, random_state=0, progress=False).fit(*parts)
        assert trial.gain == model.history_.kept.validation
    best = max(finished, key=lambda trial: trial.gain)
    assert found.gain == best.gain
    assert found.trials == len(finished) == 3
    plain = {key: list(v) if isinstance(v, tuple) else v for key, v in best.settings.items()}
    assert found.settings == {**FIXED, **plain}
    assert [trial.number for trial in finished] == [0, 1, 2]


def test_all_of_the_search_space_is_covered(search, monkeypatch):
    monkeypatch.setattr(tuning_search, "_gain", lambda graph, held, settings, seed: 0.0)
    _, finished = search(60)
    settings = [trial.settings for trial in finished]
    assert {s["encoder"] for s in settings} == {"mlp", "linear"}
    assert {s.get("hidden_sizes") for s in settings} == {None, *HIDDEN.values()}
    assert {s["similarity"] for s in settings} == {"auto", "cosine", "inner"}
    assert {s["dropout"] for s in settings} == set(DROPOUT)
    assert {s["scheme"] for s in settings} == {"block", "paper"}
    for key, low, high in (("n_components", 8, 256), ("learning_rate", 3e-4, 2e-2)):
        values = [s[key] for s in settings]
        assert low <= min(values) < max(values) <= high
    assert all(isinstance(s["n_components"], int) for s in settings)


def test_fixed_settings_are_passed_to_the_model_and_not_searched(search, monkeypatch):
    seen = []
    monkeypatch.setattr(
        tuning_search, "_gain", lambda g, h, settings, seed: seen.append(settings) or 1.0
    )
    fixed = {"encoder": "linear", "dropout": 0.1, "n_components": 5}
    found, finished = search(5, fixed=fixed)
    for trial, settings in zip(finished, seen, strict=True):
        assert set(trial.settings) == {"learning_rate", "similarity", "scheme"}
        assert fixed.items() <= settings.items()
    assert fixed.items() <= found.settings.items()


# -- resuming --------------------------------------------------------------------------------------


def test_a_second_call_resumes_the_search(search):
    _, first = search(2)
    found, second = search(4)
    assert [trial.number for trial in (*first, *second)] == [0, 1, 2, 3]
    assert found.trials == 4
    assert found.gain == max(trial.gain for trial in (*first, *second))
    assert found.default_gain == first[0].gain
    tried = [tuple(trial.settings.items()) for trial in (*first, *second)]
    assert len(set(tried)) == 4
    again, nothing = search(4)
    assert nothing == []
    assert again == found


def test_an_interrupted_trial_does_not_count(search, monkeypatch):
    usual, calls = tuning_search._gain, []

    def gain(*arguments):
        calls.append(arguments)
        if len(calls) == 1:
            raise KeyboardInterrupt
        return usual(*arguments)

    monkeypatch.setattr(tuning_search, "_gain", gain)
    with pytest.raises(KeyboardInterrupt):
        search(2)
    found, finished = search(2)
    assert [trial.number for trial in finished] == [0, 1]
    assert found.trials == 2
    assert found.default_gain == finished[0].gain  # the defaults are tried again
    assert finished[0].settings["n_components"] == PMvGE().n_components


def test_a_time_limit_allows_at_least_one_trial(search):
    assert len(search(9, minutes=0)[1]) == 1
    assert len(search(9, minutes=0)[1]) == 0


@pytest.mark.parametrize("what", ["settings", "links", "held out", "seed"])
def test_trials_of_another_problem_are_refused(search, parts, what):
    search(1)
    graph, held = parts
    options = {
        "settings": {"fixed": {**FIXED, "max_steps": 4}},
        "links": {"graphs": (hold_out_links(graph, 0.1, np.random.default_rng(0))[0], held)},
        "held out": {"graphs": (graph, hold_out_links(held, 0.1, np.random.default_rng(0))[0])},
        "seed": {"seed": 1},
    }[what]
    with pytest.raises(StorageError, match=r"s\.log: these trials were made with other data or ot"):
        search(2, **options)
    assert len(search(2)[1]) == 1  # the study is unchanged
    assert search(1, study="deep/other.log", **options)[0].trials == 1


@pytest.mark.parametrize("text", ["dear diary\n", "[1, 2]\n", '{"a": 1}\n', "7", "\x00\xff"])
def test_a_file_that_is_no_study_is_refused_and_not_changed(search, tmp_path, text):
    (tmp_path / "s.log").write_text(text)
    with pytest.raises(StorageError, match=r"s\.log: cannot be used as a study"):
        search(1)
    assert (tmp_path / "s.log").read_text() == text
    with pytest.raises(StorageError, match="cannot be used as a study"):
        search(1, study="s.log/deep.log")


# -- damaged journals ------------------------------------------------------------------------------


@pytest.fixture
def journal(search, tmp_path, monkeypatch):
    """The journal of two trials with gains 0 and 1."""
    gains = itertools.count()
    monkeypatch.setattr(tuning_search, "_gain", lambda *_: float(next(gains)))
    search(2)
    return tmp_path / "s.log"


@pytest.mark.parametrize("cut", [1, 5, 40, 100, 300, 1500])
def test_an_incomplete_last_line_is_removed(search, journal, cut):
    data, notes = journal.read_bytes(), []
    journal.write_bytes(data[:-cut])
    found, finished = search(3, on_note=notes.append)
    assert found.trials == 3
    assert len(finished) >= 2  # the truncated trial, and the third
    assert notes == [f"{journal}: its last line was incomplete and has been removed"]
    after = journal.read_bytes()
    kept = data[:-cut].rpartition(b"\n")[0] + b"\n"
    assert after.startswith(kept)
    assert all(json.loads(line)["worker_id"] for line in after.splitlines())
    assert search(3, on_note=notes.append) == (found, [])
    assert len(notes) == 1
    assert not [path for path in journal.parent.iterdir() if path != journal]


@pytest.mark.parametrize("kept", [1, 5, 11, 60])
def test_an_incomplete_first_line_is_removed(search, journal, kept):
    journal.write_bytes(journal.read_bytes()[:kept])
    assert search(1)[0].trials == 1


def test_trailing_zero_bytes_are_removed(search, journal):
    journal.write_bytes(journal.read_bytes() + bytes(4096))
    assert len(search(3)[1]) == 1


@pytest.mark.parametrize(
    "line",
    [
        '{"op_code":6,"worker_id":"x","tr{"op_code":99,"worker_id":"x"}',
        '{"op_code":99,"worker_id":"x"}',
        '{"op_code":"0","worker_id":"x"}',
        '{"op_code":[],"worker_id":"x"}',
        '{"op_code":1}',
        "[" * 100_000,
        "9" * 5000,
        " " * (1 << 20),
        "",
        "[]",
        "\x00",
    ],
)
@pytest.mark.parametrize("number", [1, 5])
def test_the_error_names_the_damaged_line(search, journal, line, number):
    lines = journal.read_text().splitlines()
    lines[number - 1] = line
    journal.write_text("\n".join([*lines, "{"]))
    before = journal.read_bytes()
    says = (
        rf"s\.log: cannot be used as a study: line {number} is damaged or was not written by "
        r"Optuna; name another file with --study, or remove this one$"
    )
    with pytest.raises(StorageError, match=says):
        search(3)
    assert journal.read_bytes() == before
    assert search(1, study="new.log")[0].trials == 1


@pytest.mark.parametrize(
    ("old", "new"),
    [
        ('"directions":[2]', '"directions":[1]'),
        ('"directions":[2]', '"directions":[2,2]'),
        ('"directions":[2]', '"directions":[7]'),
        ('"values":[1.0]', '"values":[NaN]'),
        ('"values":[1.0]', '"values":[]'),
        ('"values":[1.0]', '"values":"x"'),
        ('"trial_id":1,"state":1', '"state":1'),
        ('"user_attr":{"settings"', '"user_attr":{"x":1,"settings"'),
        ('"user_attr":{"settings":{', '"user_attr":{"settings":{"tau":1,'),
        ('"user_attr":{"settings"', '"user_attr":{"sittings"'),
        ('"param_name":"dropout"', '"param_name":"droplet"'),
        ('"study_name":"pmvge"', '"study_name":"other"'),
        ('"datetime_start":"20', '"datetime_start":"x'),
        ('\\"low\\": 8', '\\"low\\": \\"x\\"'),
    ],
)
def test_entries_with_wrong_values_are_refused(search, journal, old, new):
    text = journal.read_text()
    assert old in text
    journal.write_text(text.replace(old, new))
    before = journal.read_bytes()
    with pytest.raises(StorageError, match=r"cannot be used as a study: it is damaged .*; name an"):
        search(3)
    assert journal.read_bytes() == before


def test_trials_without_a_fingerprint_are_refused(search, journal):
    journal.write_text(journal.read_text().replace('"fingerprint"', '"fingermark"'))
    before = journal.read_bytes()
    with pytest.raises(StorageError, match="these trials were made with other data"):
        search(3)
    assert journal.read_bytes() == before


@pytest.mark.parametrize("room", [0, 1, 3, 7, 8])
def test_a_full_disk_is_a_storage_error(search, journal, monkeypatch, room):
    backend = optuna.storages.journal.JournalFileBackend
    usual, written = backend.append_logs, []

    def append(self, logs):
        if len(written) == room:
            raise OSError(28, "No space left on device")
        written.append(logs)
        usual(self, logs)

    monkeypatch.setattr(backend, "append_logs", append)
    with pytest.raises(StorageError, match=r"s\.log: cannot be used as a study: .*No space left"):
        search(3)


def test_an_empty_file_is_accepted_as_a_new_study(search, tmp_path):
    (tmp_path / "s.log").touch()
    assert search(1)[0].trials == 1


# -- trials that fail ------------------------------------------------------------------------------


def test_a_trial_that_diverges_has_no_gain(search, monkeypatch):
    usual, fits = PMvGE.fit, []

    def fit(self, *arguments, **options):
        fits.append(1)
        if len(fits) == 1:
            raise DivergedError("to infinity")
        return usual(self, *arguments, **options)

    monkeypatch.setattr(PMvGE, "fit", fit)
    found, finished = search(3)
    assert finished[0].gain is None
    assert found.default_gain is None
    assert found.gain == max(trial.gain for trial in finished[1:])
    assert found.trials == 3


def test_an_error_is_raised_if_all_trials_diverge(search, monkeypatch):
    monkeypatch.setattr(tuning_search, "_gain", lambda *arguments: None)
    with pytest.raises(InputError, match="every trial diverged: standardise the features"):
        search(2)


def test_patience_is_required(search):
    with pytest.raises(InputError, match="tuning needs held-out links and patience"):
        search(1, fixed={**FIXED, "patience": None})


# -- Optuna ----------------------------------------------------------------------------------------


def test_the_error_without_optuna_names_the_package_to_install(search, monkeypatch):
    monkeypatch.setitem(sys.modules, "optuna", None)
    with pytest.raises(
        InputError, match=r"tuning needs Optuna and tomlkit: pip install 'pmvge\[tune\]'"
    ):
        search(1)


def test_optuna_is_silenced_and_its_log_level_restored(search, capfd):
    level = optuna.logging.get_verbosity()
    search(1)
    assert optuna.logging.get_verbosity() == level
    assert capfd.readouterr() == ("", "")
    with pytest.raises(StorageError):
        search(2, seed=1)
    assert optuna.logging.get_verbosity() == level


@pytest.mark.parametrize("seed", [0, 2**62])
def test_large_seeds_are_accepted(search, seed):
    assert search(1, seed=seed)[0].trials == 1


# -- families and effects -----------------------------------------------------------------------


def test_families_and_effects_are_compared_by_the_held_out_score(search, parts):
    options = {"families": ["bernoulli", "negative_binomial"], "effects": ["bias", "vector"]}
    found, finished = search(4, **options)
    first = finished[0].settings
    # The default family is not among them; the default effects, "auto", are vectors.
    assert (first["family"], first["effects"]) == ("bernoulli", "vector")
    assert {trial.settings["family"] for trial in finished} <= set(options["families"])
    for trial in finished:
        settings = {**FIXED, **trial.settings, "scheme": "block"}
        assert "scheme" not in trial.settings
        model = PMvGE(**settings, random_state=0, progress=False).fit(*parts)
        assert trial.gain == model.evaluate()["overall"]["held_out_score"]
    assert found.gain == max(trial.gain for trial in finished)
    assert found.settings["scheme"] == "block"


def test_a_study_of_other_families_is_refused(search):
    search(1, families=["poisson"])
    with pytest.raises(StorageError, match="other data or other settings"):
        search(2, families=["poisson", "bernoulli"])


def test_families_that_cannot_be_compared_are_errors(search):
    with pytest.raises(ParameterError, match="expected families with a likelihood, got 'beta'"):
        search(1, families=["poisson", "beta"])
    with pytest.raises(ParameterError, match="unknown effects 'many'"):
        search(1, effects=["many"])
    heavy = MultiViewGraph({"a": 4, "b": 4}, {("a", "b"): ([0, 1, 2], [0, 1, 2], [1.0, 2.0, 3.0])})
    with pytest.raises(GraphError, match="family 'bernoulli': expected weights of 1"):
        search(1, graphs=(heavy, heavy), families=["bernoulli"])
