"""Find what a new paper may cite, from its words alone."""

import csv

import numpy as np
from sklearn.feature_extraction.text import TfidfVectorizer

from pmvge import PMvGE
from pmvge.tables import LinkTable, Project, ViewTable, read_tables, rows_of

papers = ViewTable("papers.csv", id="paper_id", features={"words": "text"}, labels=("label",))
citations = LinkTable("citations.csv", ("paper", "cited_paper"), symmetrize="max")
tables = read_tables(Project({"papers": papers}, {("papers", "papers"): citations}))
print(tables.graph)

model = PMvGE(n_components=64, random_state=0, progress=False).fit(tables.graph)
model.label(tables.labels)

ids, X = rows_of(model.tables_, "papers", "later/new_papers.csv")
best, _ = model.search("papers", X, among="papers", k=10)

field = dict(zip(model.ids_["papers"], tables.labels["papers"]["label"], strict=True))
with open("later/new_papers.csv", newline="") as stream:
    new = {int(row["paper_id"]): row for row in csv.DictReader(stream)}
for paper, row in list(zip(ids, best, strict=True))[:3]:
    print(f"{new[paper]['label']:22} may cite:", ", ".join(field[cited] for cited in row[:4]))

with open("papers.csv", newline="") as stream:
    words = {int(row["paper_id"]): row["words"] for row in csv.DictReader(stream)}
tfidf = TfidfVectorizer().fit(words.values())
overlap = tfidf.transform(new[paper]["words"] for paper in ids) @ tfidf.transform(words.values()).T
same_words = np.array(list(words))[np.argsort(-overlap.toarray(), axis=1)[:, :10]]
degrees = tables.graph.links["papers", "papers"].matrix().sum(axis=0)
most_linked = np.tile(model.ids_["papers"][np.argsort(-degrees)[:10]], (len(ids), 1))

linked: dict[int, set[int]] = {}
with open("later/new_citations.csv", newline="") as stream:
    for line in csv.DictReader(stream):
        one, other = int(line["paper"]), int(line["cited_paper"])
        for paper, partner in ((one, other), (other, one)):
            if paper in new and partner in field:
                linked.setdefault(paper, set()).add(partner)
total = sum(map(len, linked.values()))
for title, lists in (("pmvge", best), ("same words", same_words), ("most linked", most_linked)):
    rows = dict(zip(ids, lists, strict=True))
    hits = sum(len(partners & set(rows[paper])) for paper, partners in linked.items())
    same = np.mean([field[p] == new[paper]["label"] for paper in ids for p in rows[paper]])
    print(f"{title:12} recall@10 {hits / total:.3f}   of the same field {same:.3f}")

model.save("model")
