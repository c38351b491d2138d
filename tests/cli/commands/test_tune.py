"""``pmvge tune``: the trials, the study file, and the project file that is written."""

import json
import sys
import tomllib

import pytest

from pmvge import PMvGE
from pmvge.cli.commands.tune import with_settings
from pmvge.errors import DivergedError, InputError, ParameterError, StorageError
from pmvge.tables import read_graph
from pmvge.tuning import SEARCHED, Tuned

QUICK = ("--set", "max_steps=5", "--set", "n_components=4", "--set", "hidden_sizes=[8]")


@pytest.fixture
def project(tables, monkeypatch):
    """The project file, in the current folder."""
    monkeypatch.chdir(tables)
    return tables / "pmvge.toml"


def tune(run, *flags):
    return json.loads(run("tune", *flags, *QUICK, "--json").out)


def trials_in(printed):
    return [line.split(":")[0] for line in printed.splitlines() if line.startswith("trial ")]


def test_the_best_settings_are_written_and_the_rest_is_kept(run, project):
    before = project.read_text()
    found = tune(run, project, "--trials", 3)
    assert set(found) == {"project", "settings", "gain", "default_gain", "trials"}
    assert found["project"] == str(project)
    assert found["trials"] == 3
    assert found["gain"] >= found["default_gain"]
    after = project.read_text()
    model = tomllib.loads(after)["model"]
    assert model == found["settings"]
    assert model["n_components"] == 4
    assert model["hidden_sizes"] == [8]
    assert {"dropout", "learning_rate", "similarity", "scheme", "random_state"} <= set(model)
    head, tail = before.split("[model]")
    assert after.startswith(head)  # comments and all
    assert tail == "\nrandom_state = 0\n"
    assert "[model] # the best that 'pmvge tune' found" in after
    assert read_graph(project).n_links > 0


def test_the_gain_is_that_of_a_fit_with_these_settings(run, project):
    found = tune(run, project, "--trials", 2)
    assert "max_steps" not in found["settings"]  # the limit applies to trials only
    run("fit", project, "-o", "model", "--set", "max_steps=5")
    best = PMvGE.load("model").history_.best
    assert best.validation == pytest.approx(found["gain"], rel=1e-5)


def test_the_same_command_continues(run, project):
    printed = run("tune", project, "--trials", 2, *QUICK, "-o", "one.toml")
    assert trials_in(printed.out) == ["trial 1/2", "trial 2/2"]
    printed = run("tune", project, "--trials", 4, *QUICK, "-o", "two.toml")
    assert trials_in(printed.out) == ["trial 3/4", "trial 4/4"]
    printed = run("tune", project, "--trials", 4, *QUICK, "-o", "three.toml")
    assert trials_in(printed.out) == []
    assert project.with_name("two.toml").read_text() == project.with_name("three.toml").read_text()
    assert [p.name for p in project.parent.glob("*.log")] == ["pmvge-tune.log"]


def test_an_interrupt_says_how_to_continue_and_keeps_the_trials(run, project, monkeypatch):
    usual, fits = PMvGE.fit, []

    def fit(self, *arguments, **options):
        fits.append(self.get_params(deep=False))
        if len(fits) == 2:
            raise KeyboardInterrupt
        return usual(self, *arguments, **options)

    monkeypatch.setattr(PMvGE, "fit", fit)
    before = project.read_text()
    printed = run("tune", project, "--trials", 3, *QUICK, code=130)
    assert (
        "Stopped. The trials are in pmvge-tune.log; run the same command to continue."
        in printed.out
    )
    assert project.read_text() == before
    assert tune(run, project, "--trials", 3)["trials"] == 3
    assert len(fits) == 4


def test_a_search_continues_after_its_file_was_cut(run, project):
    run("tune", project, "--trials", 2, *QUICK, "-o", "one.toml")
    study = project.with_name("pmvge-tune.log")
    study.write_bytes(study.read_bytes()[:-40])
    printed = run("tune", project, "--trials", 3, *QUICK, "-o", "two.toml")
    assert trials_in(printed.out) == ["trial 2/3", "trial 3/3"]
    assert "note: pmvge-tune.log: its last line was incomplete and has been removed" in printed.err
    printed = run("tune", project, "--trials", 3, *QUICK, "-o", "three.toml")
    assert trials_in(printed.out) == []
    assert "incomplete" not in printed.err


def test_fixed_settings_are_not_searched(run, project, monkeypatch):
    tried = []
    usual = PMvGE.fit

    def fit(self, *arguments, **options):
        tried.append(self.get_params(deep=False))
        return usual(self, *arguments, **options)

    monkeypatch.setattr(PMvGE, "fit", fit)
    tune(run, project, "--trials", 6, "--set", "similarity=inner", "--set", "dropout=0.125")
    assert {(p["similarity"], p["dropout"], p["n_components"]) for p in tried} == {
        ("inner", 0.125, 4)
    }
    assert all(tuple(p["hidden_sizes"]) == (8,) for p in tried)
    assert len({p["learning_rate"] for p in tried}) == 6


def test_searched_settings_of_the_file_are_replaced_and_others_stay(run, project):
    text = "random_state = 3\nbatch_size = 64\ndropout = 0.987\n"
    project.write_text(project.read_text().replace("random_state = 0\n", text))
    model = tune(run, project, "--trials", 1)["settings"]
    assert (model["batch_size"], model["random_state"]) == (64, 3)
    assert model["dropout"] == PMvGE().dropout  # the first trial has the defaults


def test_flags_write_a_new_project_file(run, films, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    flags = ("--view", f"users={films / 'users.csv'}")
    flags += ("--links", f"users,films={films / 'ratings.csv'}")
    found = tune(run, *flags, "--trials", 1)
    assert found["project"] == "pmvge.toml"
    run("fit", "pmvge.toml", "-o", "model", "--set", "max_steps=5")
    model = PMvGE.load("model")
    assert model.n_components == 4
    assert model.tables_["links"][0]["weight"] == "stars"
    text = (tmp_path / "pmvge.toml").read_text()
    with pytest.raises(StorageError, match=r"pmvge\.toml: the file exists; name another file by"):
        tune(run, *flags, "--trials", 1)
    assert (tmp_path / "pmvge.toml").read_text() == text


def test_other_data_or_settings_are_refused(run, project):
    tune(run, project, "--trials", 1)
    before = project.read_text()
    with pytest.raises(StorageError, match=r"pmvge-tune\.log: these trials were made with other"):
        tune(run, project, "--trials", 2, "--set", "batch_size=32")
    rows = (project.parent / "ratings.csv").read_text().splitlines(keepends=True)
    (project.parent / "ratings.csv").write_text("".join(rows[:-5]))
    with pytest.raises(StorageError, match="other data"):
        tune(run, project, "--trials", 2)
    assert project.read_text() == before
    assert tune(run, project, "--trials", 1, "--study", "new.log")["trials"] == 1


def test_a_budget_of_minutes_has_one_trial_at_least(run, project):
    assert tune(run, project, "--trials", 50, "--minutes", 0)["trials"] == 1


def test_without_optuna_the_error_says_what_to_install(refused, project, monkeypatch):
    monkeypatch.setitem(sys.modules, "optuna", None)
    before = project.read_text()
    assert (
        refused("tune", project, *QUICK)
        == "tuning needs Optuna and tomlkit: pip install 'pmvge[tune]'"
    )
    assert project.read_text() == before


@pytest.mark.parametrize("given", ["none", "18446744073"])
def test_any_seed_will_do(run, project, given):
    found = tune(run, project, "--trials", 1, "--set", f"random_state={given}")
    if given != "none":
        assert found["settings"]["random_state"] == int(given)


@pytest.mark.parametrize(
    ("flags", "error", "says"),
    [
        (
            ("--validation", "0"),
            InputError,
            "--validation must be above 0 and patience must be set",
        ),
        (("--set", "n_component=3"), ParameterError, "did you mean 'n_components'"),
        (("--study", "ratings.csv"), StorageError, r"ratings\.csv: cannot be used as a study"),
        (("--study", "/dev/null/x"), StorageError, "/dev/null/x: cannot be used as a study"),
        (("-o", "/dev/null/x.toml"), StorageError, "cannot be written"),
    ],
)
def test_invalid_options_are_errors(run, project, flags, error, says):
    before = {path: path.read_bytes() for path in project.parent.iterdir() if path.is_file()}
    with pytest.raises(error, match=says):
        run("tune", project, "--trials", 1, *QUICK, *flags)
    assert {path: path.read_bytes() for path in before} == before


def test_if_every_trial_diverges_the_file_is_unchanged(run, project, monkeypatch):
    def fit(self, *arguments, **options):
        raise DivergedError("to infinity")

    monkeypatch.setattr(PMvGE, "fit", fit)
    before = project.read_text()
    with pytest.raises(InputError, match="every trial diverged"):
        run("tune", project, "--trials", 2, *QUICK)
    assert project.read_text() == before


# -- the text of a project file --------------------------------------------------------------------


@pytest.mark.parametrize(
    "text",
    [
        '# head\n[views.a]\n# why\nid = "x"  # key\n\n# settings\n[model]\n# mine\ndropout = 0.1\n',
        '# head\n[model]\n# mine\ndropout = 0.1  # key\n\n# why\n[views.a]\nid = "x" # settings\n',
        '# head, why, mine, settings, key\n[views.a]\nid = "x"\n',
        '# head, why, mine, settings, key\nmodel = { dropout = 0.1 }\n[views.a]\nid = "x"\n',
    ],
)
def test_comments_stay(text):
    settings = {"dropout": 0.5, "hidden_sizes": (8, 4), "tau": None, "scheme": "block"}
    written = with_settings(text, settings)
    assert tomllib.loads(written) == {
        "views": {"a": {"id": "x"}},
        "model": {"dropout": 0.5, "hidden_sizes": [8, 4], "tau": "none", "scheme": "block"},
    }
    for comment in ("head", "why", "mine", "settings", "key"):
        assert comment in written


def test_none_is_written_as_a_string(run, project):
    found = tune(run, project, "--trials", 1, "--set", "clip_norm=none")["settings"]
    assert found["clip_norm"] is None
    assert tomllib.loads(project.read_text())["model"]["clip_norm"] == "none"
    run("fit", project, "-o", "model", "--set", "max_steps=5")
    assert PMvGE.load("model").clip_norm is None


def test_encoders_chosen_by_view_stay(run, project):
    project.write_text(project.read_text() + 'encoder = { users = "linear" }\n')
    found = tune(run, project, "--trials", 2)["settings"]
    assert found["encoder"] == {"users": "linear"}
    assert tomllib.loads(project.read_text())["model"]["encoder"] == {"users": "linear"}


def test_searched_settings_are_parameters():
    assert set(SEARCHED) <= set(PMvGE().get_params(deep=False))


def test_families_and_effects_are_searched_if_named(run, project):
    flags = ("--families", "poisson,negative_binomial", "--effects", "none,vector")
    found = tune(run, project, "--trials", 3, *flags)
    assert found["settings"]["family"] in ("poisson", "negative_binomial")
    assert found["settings"]["effects"] in ("none", "vector")
    assert found["settings"]["scheme"] == "block"


@pytest.mark.parametrize(
    ("flags", "gain", "warned"),
    [((), -0.05, True), ((), 0.05, False), (("--effects", "none,bias"), -3.0, False)],
)
def test_a_gain_below_zero_is_warned_of(run, project, monkeypatch, flags, gain, warned):
    """With --effects the gain is the held-out score, a log-likelihood, which is below 0."""
    tuned = Tuned({"learning_rate": 0.01}, gain, None, 1)
    monkeypatch.setattr("pmvge.tuning.tune", lambda *_, **__: tuned)
    found = run("tune", project, *flags)
    warning = "warning: the best gain is below 0: worse than equal similarities of all pairs"
    assert (warning in found.err) == warned
    assert ("docs/settings.md, Symptoms" in found.err) == warned
    assert "Wrote" in found.out
