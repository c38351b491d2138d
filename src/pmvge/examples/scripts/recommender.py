"""Recommend films: MovieLens 100k, users and films with features, ratings of 4 or 5 as links."""

from pmvge import PMvGE
from pmvge.tables import LinkTable, Project, ViewTable, read_tables

users = ViewTable(
    "users.csv",
    id="user_id",
    features={"age": "numeric", "gender": "category", "occupation": "category"},
)
films = ViewTable(
    "films.csv",
    id="film_id",
    features={"year": "numeric", "genres": "categories"},
    name="title",
)
likes = LinkTable("likes.csv", ("user_id", "film_id"))
tables = read_tables(Project({"users": users, "films": films}, {("users", "films"): likes}))
graph = tables.graph
print(graph)

model = PMvGE(n_components=32, random_state=0, progress=False).fit(graph)
model.label(columns=tables.columns, names=tables.names)

from pmvge.tables import read_links

pair = ("users", "films")
held_out, _ = read_links(model.tables_, model.ids_, pair, "later/held_out.csv")
results = model.evaluate({pair: held_out})
rows = {
    "pmvge": results,
    "features only": results["features_only"],
    "popularity": results["popularity"],
}
for name, row in rows.items():
    score = row["pairs"]["users,films"]
    print(f"{name:13}  nDCG@10 {score['ndcg@10']:.3f}   AUC {score['roc_auc']:.3f}")

titles = dict(zip(model.ids_["films"], tables.columns["films"]["title"], strict=True))
user = 196
known = model.known_links("users", [user], among="films").indices
print("likes:", "; ".join(titles[film] for film in model.ids_["films"][known][:5]))
best, expected = model.search("users", ids=[user], among="films", k=5, exclude="known")
for film, weight in zip(best[0], expected[0], strict=True):
    print(f"  {weight:.2f}  {titles[film]}")

from pmvge.tables import rows_of

newcomers = {
    "user_id": ["ann", "bob"],
    "age": [11, 62],
    "gender": ["F", "M"],
    "occupation": ["student", "retired"],
}
ids, X = rows_of(model.tables_, "users", newcomers)
best, _ = model.search("users", X, among="films", k=3)
for name, row in zip(ids, best, strict=True):
    print(name, "without links:", "; ".join(titles[film] for film in row))
star_wars, alien = model.find("films", ["Star Wars", "Alien"])
links = {"films": ([0, 0], [star_wars, alien], [1.0, 1.0])}
best, _ = model.search("users", X[:1], links=links, among="films", k=3, exclude="known")
print("ann after Star Wars and Alien:", "; ".join(titles[film] for film in best[0]))

model.save("model")
