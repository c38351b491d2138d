"""Find images by tag, and tags by image, from tags that people gave and forgot to give."""

import csv

import numpy as np
from sklearn.linear_model import LogisticRegression
from sklearn.metrics import average_precision_score

from pmvge import MultiViewGraph, PMvGE

images = np.load("images.npz")
with open("image_tags.csv", newline="") as stream:
    given = [(row["image_id"], row["tag"]) for row in csv.DictReader(stream)]
row_of = {name: row for row, name in enumerate(images["image_id"])}
tags = sorted({tag for _, tag in given})
links = ([row_of[name] for name, _ in given], [tags.index(tag) for _, tag in given])

graph = MultiViewGraph(
    views={"image": images["pixels"], "tag": len(tags)},
    links={("image", "tag"): links},
    ids={"image": images["image_id"], "tag": tags},
)
print(graph)

model = PMvGE(n_components=32, random_state=0, progress=False).fit(graph)
new = np.load("later/new_images.npz")
best, expected = model.search("image", new["pixels"][:4], among="tag", k=3)
for name, row, weights in zip(new["image_id"], best, expected, strict=False):
    print(name, ", ".join(f"{tag} {w:.2f}" for tag, w in zip(row, weights, strict=True)))

found, _ = model.search("tag", ["two loops"], among="image", candidates=new["pixels"], k=5)
print("two loops:", new["image_id"][found[0]])

truth = np.zeros((len(new["image_id"]), len(tags)), dtype=bool)
with open("later/new_image_tags.csv", newline="") as stream:
    for row in csv.DictReader(stream):
        truth[new["image_id"] == row["image_id"], tags.index(row["tag"])] = True
scores = {"pmvge": model.intensity("image", new["pixels"], "tag", tags)}
W = np.zeros((len(row_of), len(tags)), dtype=bool)
W[links] = True
rivals = [LogisticRegression(C=0.01, max_iter=1000).fit(images["pixels"], w) for w in W.T]
one_by_one = [rival.predict_proba(new["pixels"])[:, 1] for rival in rivals]
scores["logistic regression per tag"] = np.column_stack(one_by_one)
scores["most frequent tags"] = np.tile(W.mean(axis=0), (len(truth), 1))
for name, score in scores.items():
    by_image = np.mean([average_precision_score(t, s) for t, s in zip(truth, score, strict=True)])
    by_tag = np.mean([average_precision_score(t, s) for t, s in zip(truth.T, score.T, strict=True)])
    print(f"{name:28} tags of an image {by_image:.3f}   images of a tag {by_tag:.3f}")

model.save("model")
