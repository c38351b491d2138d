"""``pmvge fit``: flags and files, settings, held-out links, and the files it writes."""

import json
import re
import shutil

import numpy as np
import pytest

from pmvge import PMvGE
from pmvge.cli.settings import parse_settings
from pmvge.errors import ParameterError, TableError
from pmvge.tables import read_graph
from pmvge.training import Trainer

QUICK = ("--set", "max_steps=20", "--set", "n_components=8")


@pytest.fixture
def flags(films):
    """The tables by flags, without any option for their columns."""
    return (
        "--view",
        f"films={films / 'films.csv'}",
        "--view",
        f"users={films / 'users.csv'}",
        "--links",
        f"films,genre={films / 'film_genres.csv'}",
        "--links",
        f"users,films={films / 'ratings.csv'}",
    )


def fitted(run, output, *arguments):
    return json.loads(run("fit", *arguments, "-o", output, *QUICK, "--json").out)


# -- tables ----------------------------------------------------------------------------------------


def test_flags_guess_as_init_does_and_print_the_guesses(run, films, flags, tmp_path):
    printed = run("fit", *flags, "-o", tmp_path / "flags", *QUICK)
    init = run("init", films, "-o", tmp_path / "x.toml")
    by_init, guessed = (
        [line for line in output.splitlines() if line.startswith(("view ", "links "))]
        for output in (init.out, printed.out)
    )
    assert [line.replace(f"{films}/", "") for line in guessed] == by_init
    run("fit", films / "pmvge.toml", "-o", tmp_path / "file", *QUICK)
    by_flags, by_file = PMvGE.load(tmp_path / "flags"), PMvGE.load(tmp_path / "file")
    assert by_flags.ids_.keys() == by_file.ids_.keys()
    for view in ("users", "films"):
        blocks = [model.tables_["views"][view]["recipe"] for model in (by_flags, by_file)]
        assert blocks[0] == blocks[1]
    columns = [
        [link["columns"] for link in model.tables_["links"]] for model in (by_flags, by_file)
    ]
    assert columns[0] == columns[1] == [["film_id", "genre"], ["user_id", "film_id"]]


def test_options_of_flags_win_over_guesses(run, films, tmp_path):
    rows = (films / "ratings.csv").read_text().splitlines()
    (tmp_path / "r.csv").write_text("\n".join([rows[0], *rows[1:], *rows[1:]]))  # each twice
    view = ("--view", f"users={films / 'users.csv'}:id=user_id")
    links = f"users,films={tmp_path / 'r.csv'}:columns=user_id,film_id"
    totals = {}
    for options in (":weight=stars", ":weight=stars:aggregate=max", ":aggregate=count"):
        output = tmp_path / "model"
        run("fit", *view, "--links", links + options, "-o", output, *QUICK, "--validation", 0)
        totals[options] = PMvGE.load(output).links_.training["users", "films"].total
    once = read_graph(films / "pmvge.toml").links["users", "films"].total
    assert totals[":weight=stars"] == 2 * once
    assert totals[":aggregate=count"] == 2 * (len(rows) - 1)
    assert totals[":weight=stars:aggregate=max"] < once


def test_a_view_may_be_named_without_a_table(run, films, tmp_path):
    links = ("--links", f"users,films={films / 'ratings.csv'}")
    run("fit", "--view", "films", *links, "-o", tmp_path, *QUICK)
    assert (
        json.loads(run("inspect", tmp_path, "--json").out)["views"]["films"]["features"] == "none"
    )


def test_the_project_file_is_pmvge_toml_by_default(run, tables, monkeypatch):
    monkeypatch.chdir(tables)
    run("fit", *QUICK)
    assert PMvGE.load(tables / "model").n_components == 8


@pytest.mark.parametrize(
    ("given", "says"),
    [
        (("--view", "users=u.csv"), "--view needs --links"),
        (("p.toml", "--links", "a,b=x.csv"), "give a project file, or --view and --links"),
        (("--links", "a=x.csv"), "--links: expected VIEW,VIEW=FILE, got 'a=x.csv'"),
        (("--links", "a,b"), "--links: expected VIEW,VIEW=FILE, got 'a,b'"),
        (("--links", "a,=x.csv"), "--links: expected VIEW,VIEW=FILE"),
        (
            ("--links", "a,b=x.csv:wieght=w"),
            "unknown option 'wieght': expected one of 'columns', 'weight'",
        ),
        (("--links", "a,b=x.csv:aggregate=mean"), "aggregate: expected sum, count or max"),
        (("--links", "a,b=x.csv:columns=a"), "columns: expected two names, COLUMN,COLUMN"),
        (
            ("--links", "a,b=x.csv", "--view", "a=y.csv:key=k"),
            "unknown option 'key': expected one of 'id'",
        ),
    ],
)
def test_invalid_flags_are_errors(run, tmp_path, given, says):
    with pytest.raises(ParameterError, match=says):
        run("fit", *given, "-o", tmp_path)


# -- results ---------------------------------------------------------------------------------------


def test_fit_prints_the_model_folder_and_the_scores(run, films, tmp_path, read):
    output = ("-o", tmp_path / "my [red] model")
    printed = run("fit", films / "pmvge.toml", *output, *QUICK, "--set", 'effects="none"')
    assert f"Model: {tmp_path / 'my [red] model'}. Next: pmvge report '{tmp_path}" in printed.out
    assert "Held-out links (used for early stopping)" in printed.out
    for word in ("AUC", "AP", "recall@10", "nDCG@10", "deviance", "E/O", "overall"):
        assert word in printed.out
    missing = sum(row["year"] == "" for row in read(films / "films.csv"))
    assert printed.err.startswith("note: view films: missing values, ")
    note, *warnings = printed.err.splitlines()
    assert note.endswith(f": 'year' {missing}")
    assert all(line.startswith("warning: ") for line in warnings)  # of a fit of few steps
    assert "the model is not clearly better than a list of the most popular partners" in warnings[0]
    assert "docs/settings.md, Symptoms" in warnings[-1]


def test_json_has_the_documented_shape(run, films, tmp_path):
    results = fitted(run, tmp_path, films / "pmvge.toml")
    assert set(results) == {
        "model",
        "seconds",
        "steps",
        "pairs",
        "overall",
        "uncalibrated",
        "popularity",
        "features_only",
        "warnings",
    }
    assert results["model"] == str(tmp_path)
    assert results["steps"] == 20
    assert set(results["pairs"]) == {"users,films", "films,genre"}
    held = PMvGE.load(tmp_path).links_.held_out
    assert results["pairs"]["users,films"]["links"] == len(held["users", "films"])


def test_a_tenth_of_the_links_is_held_out(run, films, tmp_path):
    graph = read_graph(films / "pmvge.toml")
    for share in (None, 0.3):
        flags = () if share is None else ("--validation", share)
        fitted(run, tmp_path, films / "pmvge.toml", *flags)
        kept = PMvGE.load(tmp_path).links_
        for pair, links in graph.links.items():
            assert len(kept.held_out[pair]) == round((share or 0.1) * len(links))
            together = kept.training[pair].matrix() + kept.held_out[pair].matrix()
            assert (together != links.matrix()).nnz == 0
            assert kept.training[pair].matrix().multiply(kept.held_out[pair].matrix()).nnz == 0


@pytest.mark.parametrize("standardize", [True, False])
def test_the_library_gives_the_same_bits(run, tables, standardize):
    path = tables / "pmvge.toml"
    text = path.read_text()
    if not standardize:
        text = text.replace("[views.users]", "[views.users]\nstandardize = false")
        assert "standardize" in text
    path.write_text(text)
    settings = {"n_components": 8, "max_steps": 20, "random_state": 5}
    flags = [word for name, value in settings.items() for word in ("--set", f"{name}={value}")]
    run("fit", path, "-o", tables / "model", *flags, "--validation", 0.2)
    by_command = PMvGE.load(tables / "model")
    by_library = PMvGE(**settings, progress=False).fit(read_graph(path), hold_out=0.2)
    for view, Y in by_library.embeddings_.items():
        np.testing.assert_array_equal(by_command.embeddings_[view], Y)
    assert by_command.log_alpha_ == by_library.log_alpha_
    saved, used = (m.describe()["settings"] for m in (by_command, by_library))
    other = {"progress", "checkpoint_dir"}
    assert {k: saved[k] for k in saved.keys() - other} == {k: used[k] for k in used.keys() - other}


def test_without_validation_all_links_are_trained_on(run, films, tmp_path):
    results = fitted(run, tmp_path, films / "pmvge.toml", "--validation", 0)
    assert results["pairs"] == {}
    model = PMvGE.load(tmp_path)
    assert model.patience is None
    assert model.history_[-1].validation is None
    kept = PMvGE.load(tmp_path).links_
    assert kept.held_out == {}
    graph = read_graph(films / "pmvge.toml")
    assert {pair: links.total for pair, links in kept.training.items()} == {
        pair: links.total for pair, links in graph.links.items()
    }
    printed = run("fit", films / "pmvge.toml", "-o", tmp_path, *QUICK, "--validation", 0).out
    assert "Held-out links" not in printed


@pytest.mark.parametrize("share", ["1", "-0.1", "nan", "2"])
def test_the_validation_share_must_be_in_range(run, films, tmp_path, share):
    with pytest.raises(ParameterError, match=r"--validation: expected a number in \[0, 1\), got"):
        run("fit", films / "pmvge.toml", "-o", tmp_path, "--validation", share)


def test_a_fit_replaces_another_and_removes_its_files(run, tables, own_model):
    (own_model / "notes.txt").write_text("mine")
    text = (tables / "pmvge.toml").read_text()
    (tables / "pmvge.toml").write_text(text.replace('country = "category"\n', ""))  # no labels
    before = {path.name for path in own_model.iterdir()}
    fitted(run, own_model, tables / "pmvge.toml", "--set", "random_state=5")
    after = {path.name for path in own_model.iterdir()}
    same = {name for name in after & before if not name.startswith("columns-")}  # by content
    assert same == {"model.json", "model_card.md", "notes.txt"}
    assert any(name.startswith("labels-") for name in before)
    assert not any(name.startswith(("labels-", ".")) for name in after)
    assert "checkpoint" not in after
    assert PMvGE.load(own_model).random_state == 5


def test_the_same_command_gives_the_same_model(run, films, effects_model, tmp_path):
    flags = ("--set", "effects=vector", "--set", "similarity=inner")
    run("fit", films / "pmvge.toml", "-o", tmp_path, *QUICK, *flags)
    for view, vectors in PMvGE.load(effects_model).embeddings_.items():
        np.testing.assert_array_equal(PMvGE.load(tmp_path).embeddings_[view], vectors)


# -- rows that cannot be used ----------------------------------------------------------------------


def test_dropped_rows_are_a_note_or_with_strict_an_error(run, tables):
    with (tables / "ratings.csv").open("a", newline="") as stream:
        stream.write("nobody,f00001,3\r\nu00001,,2\r\nu00002,f00003,0\r\n")
    printed = run("fit", tables / "pmvge.toml", "-o", tables / "model", *QUICK)
    dropped = "1 with an empty id, 1 with an unknown id, 1 with weight zero"
    message = f"3 of 1,083 rows dropped: {dropped}"
    assert f"note: links users,films: {message} (not in 'users': nobody)" in printed.err
    shutil.rmtree(tables / "model")
    with pytest.raises(TableError, match=r"3 of 1,083 rows dropped: .*; --strict allows none"):
        run("fit", tables / "pmvge.toml", "-o", tables / "model", *QUICK, "--strict")
    assert not (tables / "model" / "model.json").exists()


def test_strict_accepts_tables_without_dropped_rows(run, films, tmp_path):
    run("fit", films / "pmvge.toml", "-o", tmp_path, *QUICK, "--strict")
    assert PMvGE.load(tmp_path).n_components == 8


# -- settings --------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("text", "key", "value"),
    [
        ("n_components=32", "n_components", 32),
        ("learning_rate=1e-3", "learning_rate", 0.001),
        ("dropout=0.5", "dropout", 0.5),
        ("batch_norm=true", "batch_norm", True),
        ("batch_norm=True", "batch_norm", True),
        ("standardize=False", "standardize", False),
        ("hidden_sizes=[64, 32]", "hidden_sizes", [64, 32]),
        ("hidden_sizes=[]", "hidden_sizes", []),
        ("patience=none", "patience", None),
        ("tau=None", "tau", None),
        ("clip_norm=null", "clip_norm", None),
        ("similarity=inner", "similarity", "inner"),
        ('similarity="inner"', "similarity", "inner"),
        ("checkpoint_dir=/tmp/a=b", "checkpoint_dir", "/tmp/a=b"),
        ('encoder={users = "linear"}', "encoder", {"users": "linear"}),
        (" scheme = paper ", "scheme", "paper"),
    ],
)
def test_settings_of_every_type_are_read(text, key, value):
    found = parse_settings([text], {"n_components": 4, "max_steps": 7})
    assert found == {"n_components": 4, "max_steps": 7, key: value}
    assert type(found[key]) is type(value)


def test_settings_reach_the_model(run, films, tmp_path):
    given = {
        "hidden_sizes": "[16, 8]",
        "dropout": "0.25",
        "batch_norm": "true",
        "clip_norm": "none",
        "similarity": "inner",
        "batch_size": "64",
    }
    flags = [word for key, value in given.items() for word in ("--set", f"{key}={value}")]
    fitted(run, tmp_path, films / "pmvge.toml", *flags)
    kept = PMvGE.load(tmp_path).get_params(deep=False)
    assert tuple(kept["hidden_sizes"]) == (16, 8)
    assert kept["dropout"] == 0.25
    assert kept["batch_norm"] is True
    assert kept["clip_norm"] is None
    assert kept["similarity"] == "inner"
    assert kept["batch_size"] == 64


def test_flags_win_over_the_project_file(run, tables):
    path = tables / "pmvge.toml"
    text = path.read_text().replace("random_state = 0", "random_state = 3\nn_components = 5")
    path.write_text(text + "max_steps = 3\nvalidation_fraction = 0.25\n")
    printed = run("fit", path, "-o", tables / "model", "--set", "n_components=6", "--json")
    assert json.loads(printed.out)["steps"] == 3
    model = PMvGE.load(tables / "model")
    assert (model.n_components, model.random_state) == (6, 3)
    genres = read_graph(path).links["films", "genre"]
    assert len(model.links_.held_out["films", "genre"]) == round(0.25 * len(genres))
    assert model.validation_fraction == 0.25


@pytest.mark.parametrize(
    ("given", "says"),
    [
        ("n_component=3", "unknown setting 'n_component': .*; did you mean 'n_components'?"),
        ("leaning_rate=3", "did you mean 'learning_rate'"),
        ("n_components", "--set: expected key=value, got 'n_components'"),
        ("n_components=many", "n_components: expected an integer >= 1, got 'many'"),
        ("n_components=2.5", "n_components: expected an integer >= 1, got 2.5"),
        ("batch_norm=1", "batch_norm: expected True or False, got 1"),
        ("hidden_sizes=3", "hidden_sizes: expected a tuple of integers"),
        ("similarity=cosinus", "did you mean 'cosine'"),
        ("encoder=magic", "magic"),
        ('encoder={user = "linear"}', "'user'"),
        ("activation=rellu", "did you mean 'relu'"),
        ("device=toaster", "device: expected 'auto' or an available device among 'cpu'"),
        ("random_state=-1", "random_state: expected an integer >= 0, got -1"),
    ],
)
def test_wrong_settings_are_errors(run, films, tmp_path, given, says):
    with pytest.raises(ValueError, match=says):
        run("fit", films / "pmvge.toml", "-o", tmp_path, *QUICK, "--set", given)
    assert not (tmp_path / "model.json").exists()


def test_a_wrong_setting_in_the_project_file_is_an_error(run, tables):
    path = tables / "pmvge.toml"
    path.write_text(path.read_text() + "dropuot = 0.3\n")
    with pytest.raises(
        ParameterError, match=r"unknown setting 'dropuot': .*did you mean 'dropout'"
    ):
        run("fit", path, "-o", tables / "model")


# -- views with standardize = false ----------------------------------------------------------------


@pytest.fixture
def plain(papers, tmp_path, run):
    """A project with standardize = false."""
    path = tmp_path / "pmvge.toml"
    path.write_text(
        f"""
        [views.papers]
        source = "{papers / "papers.csv"}"
        id = "paper_id"
        standardize = false
        features = {{ x = "numeric", y = "numeric" }}

        [[links]]
        views = ["papers", "papers"]
        source = "{papers / "cites.csv"}"
        columns = ["citing", "cited"]
        symmetrize = "max"
        """
    )
    return path


def test_a_view_may_skip_standardisation(run, plain, papers, read, tmp_path):
    features = ("--set", "encoder=linear", "--set", 'effects="none"')
    run("fit", plain, "-o", tmp_path / "model", *QUICK, *features)
    model = PMvGE.load(tmp_path / "model")
    assert model.encoder == "linear"
    rows = read(papers / "papers.csv")
    X = np.array([[float(row["x"]), float(row["y"])] for row in rows], np.float32)
    found = model.embed("papers", X)
    np.testing.assert_allclose(found, model.embeddings_["papers"], atol=1e-5)


@pytest.mark.parametrize("encoder", ['{papers = "linear"}', "mlp"])
def test_encoders_by_view_are_kept_without_standardisation(run, plain, tmp_path, encoder):
    run("fit", plain, "-o", tmp_path / "model", *QUICK, "--set", f"encoder={encoder}")
    model = PMvGE.load(tmp_path / "model")
    assert model.encoder == ("mlp" if encoder == "mlp" else {"papers": "linear"})
    again = PMvGE(**model.get_params() | {"checkpoint_dir": None}).fit(read_graph(plain))
    assert again.embeddings_["papers"].tobytes() == model.embeddings_["papers"].tobytes()


def test_an_encoder_of_an_unknown_view_is_an_error(run, plain, tmp_path):
    with pytest.raises(ParameterError, match=r"encoder: unknown view 'paper': .*mean 'papers'"):
        run("fit", plain, "-o", tmp_path / "model", "--set", 'encoder={paper = "linear"}')


def test_a_fit_without_checkpoints(run, films, tmp_path):
    fit = (
        "fit",
        films / "pmvge.toml",
        "-o",
        tmp_path / "m",
        *QUICK,
        "--set",
        "checkpoint_dir=none",
    )
    run(*fit)
    assert PMvGE.load(tmp_path / "m").n_components == 8
    assert not (tmp_path / "m" / "checkpoint").exists()
    with pytest.raises(ParameterError, match="needs checkpoint_dir"):
        run(*fit, "--resume")


def test_only_checkpoints_are_removed_from_the_checkpoint_folder(run, films, tmp_path):
    mine = tmp_path / "m" / "checkpoint" / "mine.txt"
    mine.parent.mkdir(parents=True)
    mine.write_text("mine")
    run("fit", films / "pmvge.toml", "-o", tmp_path / "m", *QUICK)
    assert [path.name for path in mine.parent.iterdir()] == ["mine.txt"]


def test_checkpoints_in_other_folders_stay(run, films, tmp_path):
    fit = ("fit", films / "pmvge.toml", "-o", tmp_path / "m", *QUICK)
    run(*fit, "--set", f"checkpoint_dir={tmp_path / 'm' / 'checkpoint' / 'x'}")
    other = tmp_path / "m" / "checkpoint" / "x" / "checkpoint.json"
    assert other.exists()
    run(*fit, "--set", f"checkpoint_dir={tmp_path / 'elsewhere'}")
    assert other.exists()
    assert (tmp_path / "elsewhere" / "checkpoint.json").exists()


def test_an_interrupt_does_not_name_the_checkpoint_of_another_fit(
    run, films, tmp_path, monkeypatch
):
    fit = ("fit", films / "pmvge.toml", "-o", tmp_path / "m", *QUICK)
    run(*fit, "--set", f"checkpoint_dir={tmp_path / 'c'}")

    def interrupted(self, *arguments, **options):
        raise KeyboardInterrupt

    monkeypatch.setattr(PMvGE, "fit", interrupted)
    again = (*fit, "--set", f"checkpoint_dir={tmp_path / 'c'}")
    assert "No checkpoint was written." in run(*again, code=130).err
    assert "with --resume to continue" in run(*again, "--resume", code=130).err


def test_a_model_can_be_made_from_the_checkpoint_of_an_interrupted_fit(
    run, films, tmp_path, monkeypatch
):
    train_step = Trainer.train_step

    def interrupted(self, batch):
        train_step(self, batch)
        if self.step == 12:
            raise KeyboardInterrupt

    fit = ("fit", films / "pmvge.toml", "-o", tmp_path / "m", "--set", "n_components=4")
    fit += ("--set", "checkpoint_steps=5", "--set", "max_steps=500")
    monkeypatch.setattr(Trainer, "train_step", interrupted)
    printed = run(*fit, code=130)
    (flags,) = re.findall(r"with (--resume --set \S+) to make a model", printed.err)
    assert flags == "--resume --set max_steps=11"
    assert not (tmp_path / "m" / "model.json").exists()
    monkeypatch.setattr(Trainer, "train_step", train_step)
    assert json.loads(run(*fit, *flags.split(), "--json").out)["steps"] == 11
    assert PMvGE.load(tmp_path / "m").history_[-1].step == 11


def test_an_interrupt_after_saving_says_so(run, films, tmp_path, monkeypatch):
    evaluate, calls = PMvGE.evaluate, []

    def interrupted(*arguments, **options):
        calls.append(arguments)
        if len(calls) > 1:  # the first is for the model card, before saving
            raise KeyboardInterrupt
        return evaluate(*arguments, **options)

    monkeypatch.setattr(PMvGE, "evaluate", interrupted)
    printed = run("fit", films / "pmvge.toml", "-o", tmp_path / "m", *QUICK, code=130)
    assert f"Stopped. The model is complete, in {tmp_path / 'm'}." in printed.err
    assert PMvGE.load(tmp_path / "m").n_components == 8


def test_calibrate_fits_twice_and_keeps_the_factors(run, films, effects_model, tmp_path):
    flags = ("--set", "effects=vector", "--set", "similarity=inner", "--calibrate")
    printed = run("fit", films / "pmvge.toml", "-o", tmp_path / "model", *QUICK, *flags)
    assert "Factors of new entities, users - films: " in printed.out
    calibrated = PMvGE.load(tmp_path / "model")
    assert calibrated.uncalibrated("users", "films") == ()
    plain = PMvGE.load(effects_model)
    for view, Y in plain.embeddings_.items():
        np.testing.assert_array_equal(calibrated.embeddings_[view], Y)
    assert len(plain.uncalibrated("users", "films")) == 3


# -- families ------------------------------------------------------------------------------------


def test_the_family_is_an_option_and_weights_give_advice(run, tmp_path):
    (tmp_path / "links.csv").write_text(
        "user,film,plays\n" + "".join(f"u{n},f{n % 7},{1 if n % 5 else 400}\n" for n in range(60))
    )
    links = ("--view", "user", "--view", "film")
    links += ("--links", f"user,film={tmp_path / 'links.csv'}:weight=plays")
    printed = run("fit", *links, "-o", tmp_path / "poisson", *QUICK)
    assert "times the mean: try pmvge fit --family negative_binomial" in printed.err
    printed = run("fit", *links, "-o", tmp_path / "nb", *QUICK, "--family", "negative_binomial")
    assert "--family" not in printed.err
    assert PMvGE.load(tmp_path / "nb").family == "negative_binomial"
    flags = (*QUICK, "--set", 'family={"user,film" = "beta"}')
    run("fit", *links, "-o", tmp_path / "beta", *flags)
    assert PMvGE.load(tmp_path / "beta").describe()["family"] == "beta"
