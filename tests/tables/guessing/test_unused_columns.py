"""Notes on the columns of link tables that are not used."""

from pmvge.tables import sketch_project


def write(folder, header, row) -> None:
    users = [f"u{n},{n % 50 + 20}" for n in range(30)]
    (folder / "users.csv").write_text("\n".join(["user_id,age", *users]))
    items = [f"i{n},{n % 9}" for n in range(60)]
    (folder / "items.csv").write_text("\n".join(["item_id,size", *items]))
    rows = [f"u{n % 30},i{n * 7 % 60},{row(n)}" for n in range(600)]
    (folder / "orders.csv").write_text("\n".join([f"user_id,item_id,{header}", *rows]))


def test_columns_without_use_are_named(tmp_path) -> None:
    write(tmp_path, "qty,note,order_id", lambda n: f"{n % 4 + 1},text {n % 3},o{n // 3}")
    assert sketch_project(tmp_path).notes == ("orders.csv: columns not used: note, order_id",)


def test_a_time_can_be_used_to_split(tmp_path) -> None:
    write(tmp_path, "total,order date", lambda n: f"${n % 40}.50,2024-{n % 12 + 1:02d}-03")
    found = sketch_project(tmp_path)
    assert found.project.links["users", "items"].weight == "total"
    assert found.notes == (
        "orders.csv: columns not used: order date; to hold out the latest links: "
        "pmvge split orders.csv --time 'order date'",
    )


def test_tables_without_other_columns_have_no_note(tmp_path) -> None:
    write(tmp_path, "qty", lambda n: f"{n % 4 + 1}")
    assert sketch_project(tmp_path).notes == ()
