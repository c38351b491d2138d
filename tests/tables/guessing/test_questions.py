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
