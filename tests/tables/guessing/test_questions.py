"""Questions: given answers, a function that asks, and errors without both."""

import pytest

from pmvge.errors import TableError
from pmvge.tables import Question, UnsureError, sketch_project
from pmvge.tables.guessing.questions import Answers

QUESTION = Question("a.csv:weight", "which?", {"x": "x counts", "none": "rows count"})


def test_the_error_has_all_readings_and_how_to_choose_one() -> None:
    with pytest.raises(UnsureError) as unsure:
        Answers().answer(QUESTION)
    assert str(unsure.value) == (
        "which?; choose a reading: --choose a.csv:weight=x (x counts); or "
        "--choose a.csv:weight=none (rows count)"
    )
    assert unsure.value.question == QUESTION


def test_given_answers_come_first() -> None:
    def never(question):
        raise AssertionError(question)

    assert Answers({"a.csv:weight": "none"}, never).answer(QUESTION) == "none"
    assert Answers(ask=lambda question: "x").answer(QUESTION) == "x"
    for answers in (Answers({"a.csv:weight": "y"}), Answers(ask=lambda question: "y")):
        with pytest.raises(TableError, match="unknown answer 'y': expected one of 'x', 'none'"):
            answers.answer(QUESTION)


def test_answers_to_other_questions_are_errors() -> None:
    answers = Answers({"a.csv:wieght": "x"})
    answers.given("a.csv:weight")
    with pytest.raises(TableError, match=r"a.csv:wieght'.*no such decision.*one of a.csv:weight"):
        answers.check_used()


def test_answers_overrule_guesses(tmp_path) -> None:
    (tmp_path / "films.csv").write_text("film,year\n" + "".join(f"f{n},{n}\n" for n in range(20)))
    rows = [f"u{n % 7},f{n % 20},{n % 5 + 1}" for n in range(60)]
    (tmp_path / "seen.csv").write_text("\n".join(["user,film,rating", *rows]))
    guessed = sketch_project(tmp_path).project
    assert guessed.links["user", "films"].weight == "rating"
    assert guessed.views["films"].id == "film"
    with pytest.raises(TableError, match="no such decision"):
        sketch_project(tmp_path, {"seen.csv:wait": "none"})
    chosen = {"seen.csv:weight": "none", "seen.csv:film": "none", "seen.csv:user": "none"}
    project = sketch_project(tmp_path, chosen).project
    assert project.links["user", "film"].weight is None
    assert project.views["film"].source is None


def test_the_encoding_of_a_file_can_be_chosen(tmp_path) -> None:
    titles = [f"Фильм {a}{b}" for a in "абвгдежзик" for b in "лмнопр"]
    films = "title,year\n" + "".join(f"{title},{1950 + n}\n" for n, title in enumerate(titles))
    links = "user,title\n" + "".join(f"u{n % 7},{titles[n % 60]}\n" for n in range(180))
    (tmp_path / "films.csv").write_bytes(films.encode("cp1251"))
    (tmp_path / "likes.csv").write_bytes(links.encode())
    with pytest.raises(UnsureError) as unsure:
        sketch_project(tmp_path)
    assert (
        "films.csv is not UTF-8: it is read as cp1252; if letters are wrong, choose its encoding, "
        "such as --choose films.csv:encoding=cp1251"
    ) in str(unsure.value)
    sketch = sketch_project(tmp_path, {"films.csv:encoding": "windows-1251"})
    assert sketch.project.views["films"].source.dialect.encoding == "cp1251"
    assert sketch.matches == ("likes.title matches films.title in 60 of 60 values",)
    with pytest.raises(TableError, match=r"--choose films.csv:encoding: unknown encoding 'utf-99'"):
        sketch_project(tmp_path, {"films.csv:encoding": "utf-99"})


def test_ascii_ids_that_do_not_match_have_no_wrong_encoding(tmp_path) -> None:
    films = "film,title\n" + "".join(f"f{n},Été {n}\n" for n in range(60))
    links = "user,film\n" + "".join(f"u{n % 7},x{n % 60}\n" for n in range(180))
    (tmp_path / "films.csv").write_bytes(films.encode("cp1252"))
    (tmp_path / "likes.csv").write_bytes(links.encode())
    with pytest.raises(UnsureError, match="in 0 of 60 values: 'x0' against 'f0'") as unsure:
        sketch_project(tmp_path)
    assert "encoding" not in str(unsure.value)


def write_three_questions(folder) -> None:
    """Write two link tables with two weights each, one of them with ids in another form, too."""
    users = [f"user_{n},{n % 40}" for n in range(30)]
    (folder / "users.csv").write_text("\n".join(["user_id,age", *users]))
    for name, other in (("likes", "film"), ("reads", "book")):
        prefix = "u" if name == "likes" else "user_"
        rows = [f"{prefix}{n % 30},{other}{n % 20},{n % 5}.5,{n % 3}.5" for n in range(300)]
        (folder / f"{name}.csv").write_text("\n".join([f"user_id,{other},points,grade", *rows]))


def test_all_open_questions_are_in_one_error(tmp_path) -> None:
    write_three_questions(tmp_path)
    with pytest.raises(UnsureError) as unsure:
        sketch_project(tmp_path)
    keys = ["likes.csv:user_id", "likes.csv:weight", "reads.csv:weight"]
    assert [question.key for question in unsure.value.questions] == keys
    assert unsure.value.question.key == keys[0]
    message = str(unsure.value)
    assert message.startswith("3 open questions: (1) likes.csv: whose ids does column 'user_id'")
    assert message.endswith(
        "the first reading of each is --choose likes.csv:user_id=none "
        "--choose likes.csv:weight=points --choose reads.csv:weight=points"
    )
    first = {question.key: next(iter(question.choices)) for question in unsure.value.questions}
    assert sketch_project(tmp_path, first).project.links["users", "book"].weight == "points"


def test_wrong_answers_are_reported_before_open_questions(tmp_path) -> None:
    write_three_questions(tmp_path)
    with pytest.raises(TableError, match=r"--choose reads.csv:weight: unknown answer 'x'"):
        sketch_project(tmp_path, {"reads.csv:weight": "x"})
