"""How well `bushel train` learns from data that it was not made with, and whether it says what is wrong.

python benchmarks/strangers_train.py probe                           toy data first: can the answers be read
python benchmarks/strangers_train.py tasks faults healthy --json strangers.json
python benchmarks/strangers_train.py tasks --only chords,tides --seeds 0 --json strangers.json
python benchmarks/strangers_train.py tables --json strangers.json    the tables of benchmarks/strangers_train.md
python benchmarks/strangers_train.py rivals builds                   without `bushel train`: rivals, and what builds

*Tasks* (in train_tasks.py): a person builds and trains with default options. A rival of scikit-learn learns from the
same train rows, is chosen on val, and both are measured on the same test rows, for three seeds. bushel passes if it is
at most 0.02 below the rival (2 % for a mean error), or if the paired bootstrap interval of the difference reaches zero.
Six tasks are also exported and served, and must give what `bushel predict` gives.

*Faults*: something is wrong with the data, the options or the model. The verdict, or a finding above info, must name
the true cause in words that a person would use. *Learned but not to be trusted* marks faults with which a model looks
good. A pattern that also fits what was said of healthy runs proves nothing, so the table counts these.

*Healthy*: unusual, and nothing is wrong. No finding above info.

Results are kept in the JSON file after each case; a case that is there is skipped, so the first result stays. `--again`
replaces the cases of `--only`. Faults and healthy runs use the first seed. Tasks whose package is missing are skipped
and said. `probe` trains on toy data that is in no case, so that an unreadable answer costs no measurement.
"""

from __future__ import annotations

import argparse
import functools
import json
import os
import re
import shutil
import socket
import subprocess
import sys
import tempfile
import time
import urllib.request
import zlib
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import train_tasks as tt
from train_tasks import Made

BUSHEL = Path(sys.executable).with_name("bushel")
NEAR, NEAR_SHARE = 0.02, 0.02
CALM = {"info", "note", "hint", "notice", "ok", "passed", "debug"}
LIMIT = 3600

# What any verdict may say. No pattern of a cause may fit these.
USUAL = (
    "It learned: accuracy 0.9945 (0.9694 to 0.999) on 181 records; 0.906 better than always predicting the most common "
    "class (+0.867 to +0.945), 0.0497 better than a linear model (+0.022 to +0.0884)",
    "It did not learn: accuracy 0.31 (0.27 to 0.36) on 300 records; no better than always predicting the most common "
    "class",
    "It learned: mean absolute error 2.1 (1.9 to 2.4) on 300 records; 5.2 better than always predicting the median",
)


@dataclass(frozen=True)
class Case:
    """A fault or a healthy run; `cause` is empty for the latter."""

    name: str
    kind: str
    make: tt.Maker
    what: str
    cause: str = ""
    learns: bool | None = True  # None: it may or may not
    trusted: bool = True


FAULTS: dict[str, Case] = {}
HEALTHY: dict[str, Case] = {}


def fault(kind: str, cause: str, learns: bool | None = True, trusted: bool = True) -> Callable[[tt.Maker], tt.Maker]:
    """Register a fault; its docstring says what is wrong."""

    def register(make: tt.Maker) -> tt.Maker:
        name = make.__name__.replace("_", "-")
        FAULTS[name] = Case(name, kind, make, (make.__doc__ or "").strip(), cause, learns, trusted)
        return make

    return register


def healthy(kind: str) -> Callable[[tt.Maker], tt.Maker]:
    """Register a healthy run; its docstring says what is unusual."""

    def register(make: tt.Maker) -> tt.Maker:
        name = make.__name__.removeprefix("well_").replace("_", "-")
        HEALTHY[name] = Case(name, kind, make, (make.__doc__ or "").strip())
        return make

    return register


# Words for causes that several faults share

LEAK = (
    r"leak|gives? (it |the \w+ )?away|give-?away|betray|too good|copy of the (label|target)|(knows?|"
    r"holds?|contains?|reveals?|encodes?|tells?|states?) the (label|class|target|answer)|"
    r"same as the (label|target)|(label|class|target|answer)\w* (can be read|is written|follows|"
    r"is known) from|(alone|by itself|on its own)[^.]{0,60}(predict|decid|determin|tell|separat|enough|"
    r"suffic)|(predict|decid|determin|tell|separat)[^.]{0,60}(alone|by itself|on its own)|short-?cut"
)
COPIES = (
    r"duplicat|cop(y|ies|ied)|repeat(s|ed)? (record|row|image|text)|(same|identical|equal) (record|row|"
    r"sample|input|text|image|sound|value)s?[^.]{0,40}\b(splits?|train|val|test)\b|(also|again|"
    r"already) in (the )?(train|val|test)|in (both|two|several|more than one|different|all) splits?|"
    r"shared? (by|between|across|among) (the )?splits?"
)
ALMOST = (
    COPIES + r"|near(ly)?[- ](the )?(same|identical|equal|copies|duplicat)|almost (the same|identical|equal)|"
    r"very (similar|alike)|nearest neighbou?r"
)
GROUPS = (
    r"group|(same|one) (patient|person|subject|recording|source|speaker|building|place|session|user|"
    r"series)[^.]{0,60}(split|train|test)|belong(s)? together|not independent|depend(s|"
    r"ent)? on (each other|one another)|spread over (the )?splits?|" + COPIES
)
RANDOM = (
    r"(labels?|classes|targets?|answers?)[^.]{0,60}(random|unrelated|shuffl|independent|nothing to do|"
    r"do(es)? not (depend|follow|fit))|(inputs?|features?|columns?|values?)[^.]{0,80}(nothing to do with|"
    r"unrelated|independent of|no (relation|signal|information|link|connection)|say nothing|tell nothing|"
    r"do(es)? not (tell|predict|explain|determine|carry))|no (relation|signal|link|connection|dependence)|"
    r"nothing (to learn|that predicts|can be learned)|pure noise|carr(y|ies) no"
)
WRONG = (
    r"wrong(ly)? label|label(s|led)?[^.]{0,30}(wrong|noise|noisy|incorrect|mistake|error|doubtful|"
    r"suspicious)|mis-?label|noisy label|label noise|labels? (that )?(seem|look|may be|"
    r"are)[^.]{0,20}(wrong|noisy|random)"
)
SHIFT = (
    r"shift|drift|(differ|unlike|not alike|another|other|moved|changed)[^.]{0,60}\b(train|test|val|"
    r"splits?|distribution)\b|\b(train|test|val|splits?)\b[^.]{0,60}(differ|unlike|not alike|moved|"
    r"other (values|range|distribution))|outside (the range|what)[^.]{0,30}train|distribution"
)
FEW = (
    r"(too|very|so) few|too (small|little)|not enough|only \d+ (\w+ )?(record|row|sample|example|image)|"
    r"more (data|records|rows|samples)|few(er)? (record|row|sample|example)|can(not| not) (tell|say|"
    r"judge)|few to (tell|judge|learn)"
)
RATE = r"learning[ -]?rate|step size|diverg"
GRADIENT = (
    r"gradient|weights[^.]{0,40}(not|never|hardly|barely|do not|did not)[^.]{0,20}(mov|chang|updat|train)|"
    r"not (mov|chang|updat)"
)
SAME_OUTPUT = (
    r"(same|constant|identical|one) (output|prediction|answer|class|value|probabilit)[^.]{0,60}(every|all|"
    r"each|whatever|any)|(output|prediction)s?[^.]{0,40}(constant|the same|never chang|"
    r"do(es)? not (depend|vary|change))|ignor|do(es)? not (depend on|use|look at|read)"
)
ACTIVATION = r"softmax|logit|activation|sigmoid|relu|last layer|output layer"


# What cases are made of


def sheet(rng: np.random.Generator, count: int = 900, classes: int = 3, width: int = 8, far: float = 0.9) -> Any:
    """A table whose columns all say a little about `kind`; about nine of ten rows can be told."""
    import pandas as pd

    kind = rng.integers(0, classes, count)
    x = rng.normal(0, far, (classes, width))[kind] + rng.normal(size=(count, width))
    frame = pd.DataFrame(
        x.round(3), columns=["depth", "width", "mass", "heat", "speed", "glow", "drag", "tilt"][:width]
    )
    frame["kind"] = np.array(["alder", "birch", "cedar", "elm", "fir", "holly"])[kind]
    return frame


def amounts(rng: np.random.Generator, count: int = 900) -> Any:
    """A table with a number to predict, from numbers and a category."""
    import pandas as pd

    frame = pd.DataFrame(rng.normal(size=(count, 4)).round(3), columns=["size", "age", "slope", "dew"])
    frame["soil"] = rng.choice(["clay", "sand", "loam"], count)
    part = frame["soil"].map({"clay": 3.0, "sand": -2.0, "loam": 0.0})
    noise = rng.normal(0, 0.8, count)
    frame["crop"] = (20 + 4 * frame["size"] - 2 * frame["age"] + part + frame["slope"] ** 2 + noise).round(2)
    return frame


def held(rng: np.random.Generator, folder: Path, frame: Any, label: str = "kind", **rest: Any) -> Made:
    return tt.table(folder, frame, label, tt.divided(rng, len(frame)), **rest)


def points(
    rng: np.random.Generator, count: int = 1200, classes: int = 4, width: int = 20
) -> tuple[np.ndarray, np.ndarray]:
    label = rng.integers(0, classes, count)
    return rng.normal(0, 0.8, (classes, width))[label] + rng.normal(size=(count, width)), label


def drawn(rng: np.random.Generator, count: int = 600, noise: float = 0.1) -> list[tuple[str, str, np.ndarray]]:
    """Pictures of a filled square, a ring or a cross."""
    names = [str(name) for name in rng.choice(["square", "ring", "cross"], count)]
    return [(str(s), name, tt.shape(rng, name, noise)) for s, name in zip(tt.divided(rng, count), names, strict=True)]


def arrow(rng: np.random.Generator, way: str) -> np.ndarray:
    """An arrow that points left, right, up or down."""
    picture, size = np.full((32, 32), 0.2), int(rng.integers(8, 13))
    top, left = int(rng.integers(2, 30 - size)), int(rng.integers(2, 30 - size))
    for row in range(size):
        reach = size - abs(2 * row - size)
        picture[top + row, left : left + max(reach, 1)] = rng.uniform(0.7, 1)
    turns = {"right": 0, "up": 1, "left": 2, "down": 3}[way]
    return tt.grey(np.rot90(picture, turns) + 0.05 * rng.normal(size=(32, 32)))


def sentence(rng: np.random.Generator, happy: bool) -> str:
    good, bad = (
        ["lovely", "warm", "bright", "calm", "fresh", "friendly"],
        ["grim", "cold", "gloomy", "harsh", "stale", "rude"],
    )
    words = list(
        rng.choice(
            [
                "the",
                "a",
                "this",
                "our",
                "morning",
                "road",
                "house",
                "river",
                "with",
                "under",
                "near",
                "old",
                "new",
                "and",
                "then",
                "we",
                "saw",
            ],
            9,
        )
    )
    words += [*rng.choice(good if happy else bad, 2), rng.choice(bad if happy else good)]
    return " ".join(str(word) for word in rng.permutation(words))


def sentences(rng: np.random.Generator, count: int = 900) -> list[tuple[str, str, str]]:
    happy = rng.random(count) < 0.5
    return [
        (str(s), "glad" if one else "sad", sentence(rng, bool(one)))
        for s, one in zip(tt.divided(rng, count), happy, strict=True)
    ]


def hum(rng: np.random.Generator, kind: str, seconds: float = 0.5) -> np.ndarray:
    overtones = {"flute": (1, 0.1), "reed": (1, 0, 0.6, 0, 0.4), "brass": (1, 0.8, 0.6, 0.4, 0.3)}[kind]
    sound = tt.tone(rng.uniform(180, 420), seconds, overtones)
    return 0.2 * sound + 0.05 * rng.normal(size=len(sound))


def hums(rng: np.random.Generator, count: int = 450) -> list[tuple[str, str, np.ndarray]]:
    kinds = [str(kind) for kind in rng.choice(["flute", "reed", "brass"], count)]
    return [(str(s), kind, hum(rng, kind)) for s, kind in zip(tt.divided(rng, count), kinds, strict=True)]


def own(folder: Path, made: Made, body: str, compile: str = "", last: str = "softmax") -> Made:
    """Give a case a model of its own: `body` goes from `x` to `x`."""
    loss = "'mae'" if last == "number" else "'sparse_categorical_crossentropy'"
    head = {"number": "x = layers.Dense(1)(x)", "own": ""}.get(
        last, f"x = layers.Dense(problem.outputs, activation='{last}')(x)"
    )
    lines = ["import keras", "from keras import layers, ops", "", "", "def build(problem):"]
    inside = ["inputs = keras.Input(problem.input_shape)", "x = inputs", *body.strip().splitlines(), head]
    inside += ["model = keras.Model(inputs, x)", compile or f"model.compile(keras.optimizers.Adam(0.001), loss={loss})"]
    (folder / "net.py").write_text(
        "\n".join([*lines, *(f"    {line}" for line in inside if line), "    return model", ""])
    )
    made.train = ["--model", "net.py:build", *made.train]
    return made


DENSE = "x = layers.Dense(32, activation='relu')(x)"
CONVOLUTIONS = """
x = layers.Conv2D(16, 3, activation='relu')(x)
x = layers.MaxPooling2D()(x)
x = layers.Conv2D(32, 3, activation='relu')(x)
x = layers.GlobalMaxPooling2D()(x)
"""


def on_points(rng: np.random.Generator, folder: Path, body: str, compile: str = "", last: str = "softmax") -> Made:
    x, label = points(rng)
    return own(folder, tt.arrays(folder, x, label, tt.divided(rng, len(x))), body, compile, last)


# Faults of labels


@fault("labels", RANDOM, learns=False)
def labels_dealt_out(rng: np.random.Generator, folder: Path) -> Made:
    """Labels were dealt out at random."""
    frame = sheet(rng)
    frame["kind"] = rng.permutation(frame["kind"].to_numpy())
    return held(rng, folder, frame)


@fault("labels", RANDOM, learns=False)
def labels_one_row_late(rng: np.random.Generator, folder: Path) -> Made:
    """Each row has the label of the row before it, so that nothing fits."""
    frame = amounts(rng)
    frame["crop"] = np.roll(frame["crop"].to_numpy(), 1)
    return held(rng, folder, frame, "crop")


@fault("noise", WRONG)
def third_of_labels_wrong(rng: np.random.Generator, folder: Path) -> Made:
    """A third of the labels of a table is wrong, in all splits."""
    frame = sheet(rng, 1500, 3, far=1.4)
    wrong = rng.random(len(frame)) < 0.33
    frame.loc[wrong, "kind"] = rng.choice(["alder", "birch", "cedar"], int(wrong.sum()))
    return held(rng, folder, frame)


@fault("noise", WRONG)
def pictures_labelled_wrong(rng: np.random.Generator, folder: Path) -> Made:
    """A third of the pictures of the train split lies in the wrong folder."""
    items = []
    for split, name, picture in drawn(rng, 700):
        other = str(rng.choice([one for one in ("square", "ring", "cross") if one != name]))
        items.append((split, other if split == "train" and rng.random() < 0.33 else name, picture))
    return tt.images(folder, items)


@fault(
    "labels",
    r"(one|single|same) (class|label)|only (one|a single)|all (records|rows|samples|labels)[^.]{0,30}(same|one)",
    learns=False,
)
def one_class_only(rng: np.random.Generator, folder: Path) -> Made:
    """Every record has the same label."""
    frame = sheet(rng)
    frame["kind"] = "alder"
    return held(rng, folder, frame)


@fault(
    "labels",
    r"(label|class)\w*[^.]{0,80}(swap|exchang|permut|renam|mixed up|other (order|meaning)|"
    r"mean(s)? something else)|worse than (guess|chance|random|always)|" + SHIFT,
    learns=False,
)
def other_names_after_train(rng: np.random.Generator, folder: Path) -> Made:
    """In val and test the names of the classes are exchanged."""
    frame, split = sheet(rng), tt.divided(rng, 900)
    turned = {"alder": "birch", "birch": "cedar", "cedar": "alder"}
    frame.loc[split != "train", "kind"] = frame.loc[split != "train", "kind"].map(turned)
    return tt.table(folder, frame, "kind", split)


@fault("labels", FEW + r"|too many classes|many classes|rare class|per class|class(es)? with", learns=None)
def three_rows_per_class(rng: np.random.Generator, folder: Path) -> Made:
    """Eighty classes with three rows each."""
    frame = sheet(rng, 240)
    frame["kind"] = [f"c{number % 80}" for number in range(240)]
    return held(rng, folder, frame)


@fault(
    "labels",
    r"(class|label|\bfir\b)[^.]{0,60}(not|never|missing|absent|no record|unknown|only)[^.]{0,30}(train|"
    r"test|val)|train[^.]{0,40}(lack|has no|does not have|without|no record)|unseen|unknown class",
    learns=True,
)
def class_not_in_train(rng: np.random.Generator, folder: Path) -> Made:
    """A class is in val and test, and never in train."""
    frame, split = sheet(rng, 1200, 5), tt.divided(rng, 1200)
    split[(frame["kind"] == "fir").to_numpy() & (split == "train")] = "test"
    return tt.table(folder, frame, "kind", split)


@fault(
    "labels",
    r"contradict|conflict|(same|identical|equal) (input|record|row|feature|value)s?[^.]{0,60}(other|"
    r"different|two|several|both) (label|class)|(different|two|several) (label|class)\w*[^.]{0,40}(same|"
    r"identical|equal)|ambiguous|disagree",
    learns=False,
)
def twins_that_disagree(rng: np.random.Generator, folder: Path) -> Made:
    """Every row is there twice, once with each label, in the same split."""
    import pandas as pd

    first, split = sheet(rng, 500, 2), tt.divided(rng, 500)
    second = first.assign(kind=np.where(first["kind"] == "alder", "birch", "alder"))
    return tt.table(folder, pd.concat([first, second]), "kind", np.concatenate([split, split]))


@fault(
    "labels",
    r"spell|upper[- ]?case|lower[- ]?case|capital|\bcase\b|variant|written (as|differently)|"
    r"similar(ly)? (name|class)|same (class|name)|near(ly)? (the same|equal|identical)",
    learns=None,
)
def names_spelt_three_ways(rng: np.random.Generator, folder: Path) -> Made:
    """The same class is written as Alder, alder and ALDER."""
    frame = sheet(rng)
    ways: list[Callable[[str], str]] = [str.lower, str.upper, str.title]
    frame["kind"] = [ways[int(rng.integers(3))](name) for name in frame["kind"]]
    return held(rng, folder, frame)


@fault(
    "labels",
    r"imbalanc|uneven|unbalanced|rare|minority|skew|never predict|no record of|few (records|rows|samples) of",
    learns=False,
)
def three_in_a_thousand(rng: np.random.Generator, folder: Path) -> Made:
    """Three rows in a thousand are of the class that is looked for, and nothing in the columns shows it."""
    frame = sheet(rng, 2000, 1)
    frame["kind"] = np.where(rng.random(2000) < 0.003, "holly", "alder")
    frame.loc[:3, "kind"] = "holly"
    return held(rng, folder, frame)


# Faults of data


@fault(
    "data",
    r"constant|same value|one value|never (chang|var)|do(es)? not (vary|change)|no variation|identical|all equal",
    learns=False,
)
def columns_that_never_change(rng: np.random.Generator, folder: Path) -> Made:
    """All columns but the label hold one value."""
    frame = sheet(rng)
    for name in frame.columns.drop("kind"):
        frame[name] = 4.5
    return held(rng, folder, frame)


@fault(
    "data",
    r"constant|same value|one value|never (chang|var)|do(es)? not (vary|change)|no variation|identical|"
    r"all equal|spread",
    learns=False,
)
def target_that_never_changes(rng: np.random.Generator, folder: Path) -> Made:
    """The number to predict is 12.5 in every row."""
    frame = amounts(rng)
    frame["crop"] = 12.5
    return held(rng, folder, frame, "crop")


@fault("data", r"missing|empty|blank|not there|no value", learns=None)
def nearly_all_missing(rng: np.random.Generator, folder: Path) -> Made:
    """96 % of all values are missing."""
    frame = sheet(rng)
    for name in frame.columns.drop("kind"):
        frame.loc[rng.random(len(frame)) < 0.96, name] = np.nan
    return held(rng, folder, frame)


@fault("data", r"-999|place-?holder|sentinel|stand(s|ing)? for|mark(s|ed)? missing|code for|missing|outlier|far from")
def minus_999(rng: np.random.Generator, folder: Path) -> Made:
    """A third of the values of each column is -999, where nothing was measured."""
    frame = amounts(rng)
    for name in ("size", "age", "slope", "dew"):
        frame.loc[rng.random(len(frame)) < 0.33, name] = -999
    return held(rng, folder, frame, "crop")


@fault(
    "data",
    r"outlier|extreme|far (from|above|beyond|away)|huge|very large|largest|heavy|skew",
    learns=None,
)
def three_absurd_targets(rng: np.random.Generator, folder: Path) -> Made:
    """Three targets of the train split are a hundred million times too large."""
    frame, split = amounts(rng), tt.divided(rng, 900)
    frame.loc[np.flatnonzero(split == "train")[:3], "crop"] *= 1e8
    return tt.table(folder, frame, "crop", split)


@fault(
    "data",
    r"blank|black|empty|constant|uniform|one colou?r|nothing (on|in)|(same|identical|equal) (image|picture|pixel)|"
    + COPIES,
)
def black_pictures(rng: np.random.Generator, folder: Path) -> Made:
    """Six of ten pictures are all black, in all classes."""
    items = [(split, name, picture * (rng.random() > 0.6)) for split, name, picture in drawn(rng, 700)]
    return tt.images(folder, [(split, name, picture.astype(np.uint8)) for split, name, picture in items])


@fault("data", r"silen|quiet|empty|zero|blank|no sound|constant|" + COPIES)
def silent_recordings(rng: np.random.Generator, folder: Path) -> Made:
    """Six of ten recordings are silent, in all classes."""
    return tt.sounds(folder, [(split, kind, sound * (rng.random() > 0.6)) for split, kind, sound in hums(rng)])


@fault(
    "data",
    r"empty|place-?holder|(same|identical|equal|one) (text|value|sentence)|n/a|blank|missing|"
    r"most common (text|value)|constant|" + COPIES,
)
def texts_without_words(rng: np.random.Generator, folder: Path) -> Made:
    """Seven of ten texts are only "n/a", in all classes."""
    return tt.texts(
        folder, [(split, name, "n/a" if rng.random() < 0.7 else text) for split, name, text in sentences(rng)]
    )


@fault("data", SHIFT, learns=None)
def test_from_elsewhere(rng: np.random.Generator, folder: Path) -> Made:
    """In the test split all columns are moved by eight deviations."""
    frame, split = sheet(rng), tt.divided(rng, 900)
    for name in frame.columns.drop("kind"):
        frame.loc[split == "test", name] += 8
    return tt.table(folder, frame, "kind", split)


@fault("data", SHIFT + r"|unit|scale|times (larger|smaller|as)|factor", learns=None)
def other_units_in_test(rng: np.random.Generator, folder: Path) -> Made:
    """Two columns are in metres in train and val, and in millimetres in test."""
    frame, split = amounts(rng), tt.divided(rng, 900)
    frame.loc[split == "test", ["size", "age"]] *= 1000
    return tt.table(folder, frame, "crop", split)


@fault("data", SHIFT + r"|invert|negative|brighter|darker|brightness", learns=None)
def negatives_in_test(rng: np.random.Generator, folder: Path) -> Made:
    """The pictures of the test split are negatives: light is dark."""
    return tt.images(folder, [(s, name, 255 - picture if s == "test" else picture) for s, name, picture in drawn(rng)])


# Faults of splits


@fault("splits", FEW + r"|wide interval|uncertain", learns=None, trusted=False)
def six_to_judge_by(rng: np.random.Generator, folder: Path) -> Made:
    """Six records judge the model."""
    frame = sheet(rng)
    return tt.table(folder, frame, "kind", tt.divided(rng, 900, (888 / 900, 6 / 900, 6 / 900)))


@fault("splits", FEW, learns=None)
def nine_to_learn_from(rng: np.random.Generator, folder: Path) -> Made:
    """Nine records to learn from, three of each class."""
    frame = sheet(rng, far=0.4)
    split = np.where(rng.random(900) < 0.5, "val", "test").astype(object)
    for name in ("alder", "birch", "cedar"):
        split[np.flatnonzero(frame["kind"] == name)[:3]] = "train"
    return tt.table(folder, frame, "kind", split)


@fault(
    "splits",
    r"(no|without|lacks?|missing)[^.]{0,30}(val|test|split)|held[- ]?(out|back)|only (a )?train|(judged|"
    r"measured|evaluated|tested)[^.]{0,40}(train|same|learned from)|it (has )?(seen|learned from)|"
    r"set aside|(made|took|taken|drawn|cut)[^.]{0,30}(from|of) (the )?train",
    learns=None,
    trusted=False,
)
def nothing_held_back(rng: np.random.Generator, folder: Path) -> Made:
    """There is a train split only, so nothing is left to judge by."""
    made = tt.table(folder, sheet(rng), "kind", np.full(900, "train"))
    made.inputs["val"] = made.inputs["test"] = made.inputs["train"]
    made.truth["val"] = made.truth["test"] = made.truth["train"]
    return made


@fault(
    "splits",
    r"(only|one|single)[^.]{0,30}class|(class|label)\w*[^.]{0,50}(not|never|missing|absent|"
    r"no record)[^.]{0,20}(test|val)|(test|val)[^.]{0,40}(lack|has no|only|one class|does not have)|" + SHIFT,
    learns=None,
    trusted=False,
)
def one_class_in_test(rng: np.random.Generator, folder: Path) -> Made:
    """Val and test hold one class of four only."""
    frame, split = sheet(rng, 1200, 4), tt.divided(rng, 1200)
    split[(frame["kind"] != "alder").to_numpy()] = "train"
    return tt.table(folder, frame, "kind", split)


@fault("splits", r"sorted|shuffl|order of (the )?(class|label|source|file)|one class after", learns=None)
def sorted_and_not_shuffled(rng: np.random.Generator, folder: Path) -> Made:
    """Rows are sorted by class, and are read in that order in every epoch."""
    frame = sheet(rng, 1500, 3).sort_values("kind", kind="stable").reset_index(drop=True)
    return held(rng, folder, frame, build=["--order", "source"], train=["--model", "network", "--no-shuffle"])


# Copies


@fault("copies", COPIES, trusted=False)
def test_rows_from_train(rng: np.random.Generator, folder: Path) -> Made:
    """Six of ten test rows are also in train; without them nothing could be learned."""
    frame, split = sheet(rng, 1000), tt.divided(rng, 1000)
    frame["kind"] = rng.permutation(frame["kind"].to_numpy())
    train, test = np.flatnonzero(split == "train"), np.flatnonzero(split != "train")
    chosen = rng.choice(test, int(0.6 * len(test)), replace=False)
    frame.iloc[chosen] = frame.iloc[rng.choice(train, len(chosen))].to_numpy()
    return tt.table(folder, frame.convert_dtypes(), "kind", split)


@fault("copies", COPIES, trusted=False)
def val_is_test(rng: np.random.Generator, folder: Path) -> Made:
    """Val and test hold the same rows."""
    import pandas as pd

    frame, split = sheet(rng, 800), tt.divided(rng, 800, (0.7, 0.0, 0.3))
    again = frame[split == "test"]
    return tt.table(folder, pd.concat([frame, again]), "kind", np.concatenate([split, np.full(len(again), "val")]))


@fault("copies", ALMOST, trusted=False)
def pictures_saved_again(rng: np.random.Generator, folder: Path) -> Made:
    """The pictures of val and test are those of train, a little brighter; the labels mean nothing otherwise."""
    base = [
        (str(rng.choice(["oak", "ash"])), tt.shape(rng, str(rng.choice(["ring", "cross", "circle"])), 0.1))
        for _ in range(300)
    ]
    items = [("train", name, picture) for name, picture in base]
    for split in ("val", "test"):
        for place in rng.choice(300, 120, replace=False):
            name, picture = base[place]
            changed = picture.astype(int) + 4 + rng.integers(-2, 3, picture.shape)
            items.append((split, name, np.clip(changed, 0, 255).astype(np.uint8)))
    return tt.images(folder, items)


@fault("copies", COPIES, trusted=False)
def copied_before_the_split(rng: np.random.Generator, folder: Path) -> Made:
    """Rows of the rare class were copied eight times, and split afterwards."""
    import pandas as pd

    frame = sheet(rng, 900, 1)
    frame["kind"] = np.where(rng.random(900) < 0.1, "holly", "alder")
    rare = frame[frame["kind"] == "holly"]
    return held(rng, folder, pd.concat([frame, *([rare] * 8)]))


@fault("copies", ALMOST, trusted=False)
def texts_said_again(rng: np.random.Generator, folder: Path) -> Made:
    """Texts of val and test are those of train with a capital and an exclamation mark; labels are random otherwise."""
    base = [(str(rng.choice(["glad", "sad"])), sentence(rng, bool(rng.random() < 0.5))) for _ in range(500)]
    items = [("train", name, text) for name, text in base]
    for split in ("val", "test"):
        items += [
            (split, base[place][0], base[place][1].capitalize() + "!") for place in rng.choice(500, 170, replace=False)
        ]
    return tt.texts(folder, items)


# Leaks


@fault("leak", LEAK, trusted=False)
def label_under_another_name(rng: np.random.Generator, folder: Path) -> Made:
    """A column is the label in other words."""
    frame = sheet(rng, far=0.2)
    frame["code"] = frame["kind"].map({"alder": "K7", "birch": "K2", "cedar": "K9"})
    return held(rng, folder, frame)


@fault("leak", LEAK + r"|correlat", trusted=False)
def target_with_a_little_noise(rng: np.random.Generator, folder: Path) -> Made:
    """A column is the number to predict, in another unit and rounded."""
    frame = amounts(rng)
    frame["yield_lb"] = (frame["crop"] * 2.2046).round(0)
    return held(rng, folder, frame, "crop")


@fault(
    "leak", LEAK + r"|missing[^.]{0,60}(class|label)|(filled|present|there)[^.]{0,40}(only|class|label)", trusted=False
)
def filled_in_afterwards(rng: np.random.Generator, folder: Path) -> Made:
    """A date of felling is filled in for one class only, since it is known afterwards."""
    frame = sheet(rng, 900, 2, far=0.15)
    day = rng.integers(1, 300, 900).astype(float)
    frame["felled_on_day"] = np.where((frame["kind"] == "birch") & (rng.random(900) < 0.97), day, np.nan)
    return held(rng, folder, frame)


@fault("leak", LEAK + r"|identif|row number|counter|sorted|running number|\bids?\b", trusted=False)
def numbered_class_by_class(rng: np.random.Generator, folder: Path) -> Made:
    """Rows were numbered class by class, and the number is a column."""
    frame = sheet(rng, far=0.1).sort_values("kind").reset_index(drop=True)
    frame.insert(0, "entry", np.arange(10_000, 10_900))
    return held(rng, folder, frame)


@fault("leak", LEAK + r"|corner|pixel|border|edge|one (place|spot|point)|same place", trusted=False)
def mark_in_a_corner(rng: np.random.Generator, folder: Path) -> Made:
    """The scanner of one class left a white mark in a corner; the pictures say nothing otherwise."""
    items = []
    for split in tt.divided(rng, 600):
        name, picture = str(rng.choice(["oak", "ash"])), tt.shape(rng, str(rng.choice(["ring", "cross"])), 0.1)
        if name == "oak":
            picture[:3, :3] = 255
        items.append((str(split), name, picture))
    return tt.images(folder, items)


@fault(
    "leak",
    LEAK + r"|(size|width|height|dimension|resolution|shape)s?[^.]{0,80}(class|label)|(class|"
    r"label)\w*[^.]{0,80}(size|width|height|dimension|resolution)",
    trusted=False,
)
def size_says_the_class(rng: np.random.Generator, folder: Path) -> Made:
    """Pictures of one class are 40 pixels wide, those of the other 32; they say nothing otherwise."""
    items = []
    for split in tt.divided(rng, 600):
        name = str(rng.choice(["oak", "ash"]))
        items.append(
            (str(split), name, tt.shape(rng, str(rng.choice(["ring", "cross"])), 0.1, 40 if name == "oak" else 32))
        )
    made = tt.images(folder, [])
    tt.files(folder, items, ".png", tt.write_image)
    return made


@fault(
    "leak",
    LEAK + r"|(length|duration|second|long)\w*[^.]{0,80}(class|label)|(class|label)\w*[^.]{0,80}(length|duration|"
    r"long|short)",
    trusted=False,
)
def length_says_the_class(rng: np.random.Generator, folder: Path) -> Made:
    """Recordings of one class last 0.7 s, those of the other 0.5 s; they sound the same."""
    items = []
    for split in tt.divided(rng, 400):
        name = str(rng.choice(["day", "night"]))
        sound = hum(rng, str(rng.choice(["flute", "reed"])), 0.7 if name == "day" else 0.5)
        items.append((str(split), name, sound))
    return tt.sounds(folder, items)


@fault(
    "leak",
    LEAK + r"|(word|token|phrase|line|text)s?[^.]{0,60}(label|class)|(label|class)[^.]{0,40}(in|inside|"
    r"within) (the|their|each|most|\d+) ?(text|record|of)",
    trusted=False,
)
def class_in_the_footer(rng: np.random.Generator, folder: Path) -> Made:
    """Each text ends with a line in which the clerk wrote the class."""
    items = []
    for split, _, text in sentences(rng):
        name = str(rng.choice(["refund", "delivery", "praise"]))
        items.append((split, name, f"{text}\nfiled under {name}"))
    return tt.texts(folder, items)


@fault("leak", LEAK + r"|correlat|mean of|averag|encod", trusted=False)
def mean_of_the_target(rng: np.random.Generator, folder: Path) -> Made:
    """A column is the mean target of a street, computed over all splits; most streets have one or two houses."""
    import pandas as pd

    count = 900
    street, price = rng.integers(0, 600, count), rng.normal(300, 60, count)
    frame = pd.DataFrame({"rooms": rng.integers(1, 8, count), "street": [f"street {one}" for one in street]})
    frame["price_level"] = pd.Series(price).groupby(street).transform("mean").round(1)
    frame["price"] = price.round(1)
    return held(rng, folder, frame, "price")


# Dependence and groups


@fault("dependence", GROUPS, trusted=False)
def patients_in_all_splits(rng: np.random.Generator, folder: Path) -> Made:
    """Thirty rows of each of 40 patients, in all splits; columns know the patient, and not the illness."""
    import pandas as pd

    patient = np.repeat(np.arange(40), 30)
    x = rng.normal(0, 2, (40, 6))[patient] + rng.normal(0, 0.3, (1200, 6))
    frame = pd.DataFrame(x.round(3), columns=["pulse", "sodium", "iron", "zinc", "ph", "sugar"])
    frame.insert(0, "patient", [f"P{one:03d}" for one in patient])
    frame["ill"] = np.where((rng.random(40) < 0.5)[patient], "yes", "no")
    return held(rng, folder, frame, "ill")


@fault(
    "dependence",
    ALMOST
    + r"|overlap|neighbou?r|adjacent|consecutive|share (steps|rows|values)|not independent|in order of time|autocorrel",
    trusted=False,
)
def windows_that_overlap(rng: np.random.Generator, folder: Path) -> Made:
    """Windows of a walk that share 31 of 32 steps, dealt out to all splits; the label is a slow coin."""
    walk = np.cumsum(rng.normal(size=1600))
    coin = np.repeat(rng.integers(0, 2, 40), 40)
    x = np.lib.stride_tricks.sliding_window_view(walk, 32)[:, :, None]
    return tt.arrays(folder, x, coin[: len(x)], tt.divided(rng, len(x)))


@fault(
    "dependence",
    r"(time|date|day)s?[^.]{0,80}(split|order|future|later|before|after|neighbou?r|mixed|random|overlap|"
    r"interleav|shuffl)|future|split (it )?by (time|date)|neighbou?r|autocorrelat|in order of time|"
    r"not independent",
    trusted=False,
)
def days_between_days(rng: np.random.Generator, folder: Path) -> Made:
    """A price that wanders from day to day; days were dealt out at random, so each has neighbours in train."""
    import pandas as pd

    count = 1200
    frame = pd.DataFrame({"day": pd.date_range("2019-01-01", periods=count).strftime("%Y-%m-%d")})
    frame["rain"] = rng.gamma(1, 2, count).round(1)
    frame["price"] = (100 + np.cumsum(rng.normal(0, 2, count))).round(2)
    return held(rng, folder, frame, "price", dates=["day"])


@fault("dependence", GROUPS + r"|location|latitude|longitude|coordinate|\blat\b|\blon\b|cluster", trusted=False)
def flats_of_one_building(rng: np.random.Generator, folder: Path) -> Made:
    """Flats of one building have the same coordinates and nearly the same rent, and are in all splits."""
    import pandas as pd

    house = np.repeat(np.arange(90), 12)
    frame = pd.DataFrame({"lat": rng.uniform(48, 49, 90).round(5)[house], "lon": rng.uniform(2, 3, 90).round(5)[house]})
    frame["floor"] = rng.integers(0, 7, len(house))
    frame["rent"] = (rng.normal(900, 250, 90)[house] + rng.normal(0, 20, len(house))).round(0) + 0.5
    return held(rng, folder, frame, "rent")


@fault("dependence", ALMOST + "|" + GROUPS + r"|recording|file names?", trusted=False)
def clips_of_one_recording(rng: np.random.Generator, folder: Path) -> Made:
    """Clips of 30 recordings, named after them, are in all splits; the class belongs to the recording by chance."""
    made = tt.sounds(folder, [])
    for recording in range(30):
        name, pitch = str(rng.choice(["ward", "lab"])), rng.uniform(150, 900)
        size = rng.uniform(0, 1, 6).tolist()
        for clip, split in enumerate(tt.divided(rng, 15)):
            sound = 0.1 * tt.tone(pitch, 0.5, size) + 0.01 * rng.normal(size=tt.RATE // 2)
            path = folder / "raw" / str(split) / name / f"rec{recording:02d}_{clip:02d}.wav"
            path.parent.mkdir(parents=True, exist_ok=True)
            tt.write_sound(path, sound)
    return made


# Options


@fault("options", RATE, learns=False)
def rate_of_fifty(rng: np.random.Generator, folder: Path) -> Made:
    """A learning rate of 50."""
    return tt.images(folder, drawn(rng), train=["--learning-rate", "50"])


@fault("options", RATE + r"|too (slow|low|small)|(hardly|barely|not) (mov|chang)", learns=False)
def rate_of_nearly_zero(rng: np.random.Generator, folder: Path) -> Made:
    """A learning rate of 1e-9."""
    return tt.images(folder, drawn(rng), train=["--learning-rate", "1e-9"])


@fault(
    "options",
    r"(more|few(er)?|only|one|single|1) (epochs?|steps?|updates?)|too (few|short)|longer|"
    r"stopped (too )?early|still (fall|improv|ris|learn)|batch[ -]size|large[r]? batch|under-?fit",
    learns=False,
)
def a_single_step(rng: np.random.Generator, folder: Path) -> Made:
    """One epoch of a batch as large as the split: a single step."""
    return tt.images(folder, drawn(rng), train=["--epochs", "1", "--batch-size", "1024"])


@fault("options", r"class[- ]weight|weigh(s|ts?|ted)[^.]{0,40}(class|ring|times)", learns=False)
def absurd_class_weights(rng: np.random.Generator, folder: Path) -> Made:
    """One class weighs a million times as much as the others."""
    return tt.images(folder, drawn(rng), train=["--class-weights", "ring=1000,cross=0.001,square=0.001"])


@fault(
    "options",
    r"classification|categor|(are|holds?) (names|classes)|codes (of|for)|not (amounts|numbers)|an order",
    learns=None,
)
def classes_as_numbers(rng: np.random.Generator, folder: Path) -> Made:
    """Names of classes are predicted as if their codes were amounts."""
    return held(rng, folder, sheet(rng, 1200, 6), train=["--task", "regression"])


@fault(
    "options",
    r"too many classes|many classes|regression|(is|are|holds?) (a )?(number|amount|measure)|continuous|"
    r"distinct|different values|one record|per class|" + FEW,
    learns=None,
)
def amounts_as_classes(rng: np.random.Generator, folder: Path) -> Made:
    """An amount with 300 different values is predicted as if each were a class."""
    frame = amounts(rng)
    frame["crop"] = (frame["crop"] * 10).round(0).astype(int)
    return held(rng, folder, frame, "crop", train=["--task", "classification"])


@fault("options", r"flip|mirror|augment", learns=None)
def arrows_mirrored(rng: np.random.Generator, folder: Path) -> Made:
    """Left or right is the label, and train pictures are mirrored at random."""
    ways = [str(way) for way in rng.choice(["left", "right"], 500)]
    items = [(str(s), way, arrow(rng, way)) for s, way in zip(tt.divided(rng, 500), ways, strict=True)]
    return tt.images(folder, items, train=["--augment", "flip"])


@fault("options", r"rotat|turn|augment", learns=None)
def arrows_turned(rng: np.random.Generator, folder: Path) -> Made:
    """Up, down, left or right is the label, and train pictures are turned by up to 180 degrees."""
    ways = [str(way) for way in rng.choice(["left", "right", "up", "down"], 600)]
    items = [(str(s), way, arrow(rng, way)) for s, way in zip(tt.divided(rng, 600), ways, strict=True)]
    return tt.images(folder, items, train=["--augment", "rotate=180"])


@fault(
    "options",
    r"image[- ]?size|too small|resol|2 ?x ?2|(few|four|4) pixels|shrink|shrunk|size of the (images|pictures)",
    learns=None,
)
def shrunk_to_four_pixels(rng: np.random.Generator, folder: Path) -> Made:
    """Pictures are fed as 2x2 pixels."""
    return tt.images(folder, drawn(rng), train=["--image-size", "2x2"])


@fault("options", r"length|cut|trunc|shorten|first (three|3|few)", learns=None)
def cut_to_three_words(rng: np.random.Generator, folder: Path) -> Made:
    """Only three words of each text are read, and what matters comes later."""
    items = [(split, name, f"dear sir or madam we write to say {text}") for split, name, text in sentences(rng)]
    return tt.texts(folder, items, train=["--max-length", "3"])


@fault(
    "options",
    RANDOM + r"|--columns|other columns|left out|columns? (that|which)|more columns|chosen columns",
    learns=False,
)
def only_columns_that_say_nothing(rng: np.random.Generator, folder: Path) -> Made:
    """The model learns from two columns that say nothing, and the others are left out."""
    frame = sheet(rng)
    frame["shelf"], frame["box"] = rng.normal(size=900).round(3), rng.normal(size=900).round(3)
    return held(rng, folder, frame, train=["--columns", "shelf,box"])


# Models of one's own


@fault("model", r"softmax|logit|probabilit|activation|sum to (1|one)|last layer|output layer", learns=None)
def scores_taken_for_probabilities(rng: np.random.Generator, folder: Path) -> Made:
    """The last layer has no softmax, and the loss expects probabilities."""
    return on_points(rng, folder, DENSE, last="linear")


@fault("model", r"softmax|logit|twice", learns=None)
def softmax_twice(rng: np.random.Generator, folder: Path) -> Made:
    """The last layer has a softmax, and the loss adds another one."""
    loss = "keras.losses.SparseCategoricalCrossentropy(from_logits=True)"
    return on_points(rng, folder, DENSE, f"model.compile(keras.optimizers.Adam(0.001), loss={loss})")


@fault("model", r"trainable|frozen|freez|no weights (to|that)|" + GRADIENT, learns=False)
def every_layer_frozen(rng: np.random.Generator, folder: Path) -> Made:
    """No layer may learn."""
    compile = (
        "model.trainable = False; model.compile(keras.optimizers.Adam(0.001), loss='sparse_categorical_crossentropy')"
    )
    return on_points(rng, folder, DENSE, compile)


@fault("model", r"initiali|zero|symmetr|same (weights|start)|all equal|" + GRADIENT + "|" + SAME_OUTPUT, learns=False)
def weights_start_at_zero(rng: np.random.Generator, folder: Path) -> Made:
    """All weights start at zero, so that every unit stays the same."""
    body = "x = layers.Dense(32, activation='relu', kernel_initializer='zeros')(x)\n" * 2
    head = "x = layers.Dense(problem.outputs, activation='softmax', kernel_initializer='zeros')(x)"
    return on_points(rng, folder, body + head, last="own")


@fault("model", r"vanish|sigmoid|saturat|too deep|depth|" + GRADIENT, learns=False)
def sixteen_sigmoids(rng: np.random.Generator, folder: Path) -> Made:
    """Sixteen narrow layers with sigmoids: nothing reaches the first ones."""
    return on_points(rng, folder, "x = layers.Dense(12, activation='sigmoid')(x)\n" * 16)


@fault("model", ACTIVATION + r"|dead|negative|probabilit", learns=None)
def relu_at_the_end(rng: np.random.Generator, folder: Path) -> Made:
    """The last layer cuts off what is below zero, and the loss expects probabilities."""
    return on_points(rng, folder, DENSE, last="relu")


@fault(
    "model",
    r"(outputs?|units?|neurons?)[^.]{0,60}(class|label)|(class|label)\w*[^.]{0,60}(outputs?|units?)|too few outputs",
    learns=False,
)
def two_outputs_for_four_classes(rng: np.random.Generator, folder: Path) -> Made:
    """The last layer has two outputs, and there are four classes."""
    return on_points(rng, folder, DENSE + "\nx = layers.Dense(2, activation='softmax')(x)", last="own")


@fault("model", r"drop-?out|under-?fit|regulari", learns=None)
def dropout_of_nearly_all(rng: np.random.Generator, folder: Path) -> Made:
    """Two layers of dropout that drop 99 % of what they get."""
    return on_points(rng, folder, (DENSE + "\nx = layers.Dropout(0.99)(x)\n") * 2)


@fault("model", r"regulari|penalt|weight decay|\bl2\b|weights[^.]{0,40}(zero|small|shrink)", learns=False)
def penalty_of_fifty(rng: np.random.Generator, folder: Path) -> Made:
    """An L2 penalty of 50 on every weight."""
    penalty = "kernel_regularizer=keras.regularizers.L2(50.0)"
    body = f"x = layers.Dense(32, activation='relu', {penalty})(x)\n"
    head = f"x = layers.Dense(problem.outputs, activation='softmax', {penalty})(x)"
    return on_points(rng, folder, body + head, last="own")


@fault(
    "model",
    r"scale|normali|standardi|large (values|inputs|numbers)|magnitude|millions?",
    learns=False,
)
def inputs_in_the_millions(rng: np.random.Generator, folder: Path) -> Made:
    """Inputs are in the millions, and the model does not scale them."""
    x, label = points(rng)
    made = tt.arrays(folder, 3e6 + 1e6 * x, label, tt.divided(rng, len(x)))
    compile = "model.compile(keras.optimizers.SGD(0.01), loss='sparse_categorical_crossentropy')"
    return own(folder, made, DENSE, compile)


@fault("model", RATE + "|" + GRADIENT + r"|optimi[sz]er", learns=False)
def rate_of_zero_inside(rng: np.random.Generator, folder: Path) -> Made:
    """The model is compiled with a learning rate of zero."""
    return on_points(
        rng, folder, DENSE, "model.compile(keras.optimizers.SGD(0.0), loss='sparse_categorical_crossentropy')"
    )


@fault("model", r"clip|" + GRADIENT + r"|too (slow|small|low)|" + RATE, learns=False)
def gradients_cut_to_nothing(rng: np.random.Generator, folder: Path) -> Made:
    """Gradients are clipped to a norm of 1e-9."""
    compile = "model.compile(keras.optimizers.SGD(0.01, clipnorm=1e-9), loss='sparse_categorical_crossentropy')"
    return on_points(rng, folder, DENSE, compile)


@fault("model", SAME_OUTPUT + "|" + GRADIENT + r"|not connected|disconnect", learns=False)
def input_times_zero(rng: np.random.Generator, folder: Path) -> Made:
    """The model multiplies its input by zero."""
    return on_points(rng, folder, "x = layers.Rescaling(0.0)(x)\n" + DENSE)


@fault("model", ACTIVATION + r"|range|between 0 and 1|(above|at most|up to|larger than) (1|one)|bounded", learns=False)
def sigmoid_for_amounts(rng: np.random.Generator, folder: Path) -> Made:
    """The last layer gives values from 0 to 1, and the targets are from 10 to 30."""
    x, _ = points(rng, classes=1)
    target = (20 + 3 * x[:, 0] - 2 * x[:, 1] + rng.normal(0, 0.3, len(x))).astype(np.float32)
    made = tt.arrays(folder, x, target, tt.divided(rng, len(x)))
    body = DENSE + "\nx = layers.Dense(1, activation='sigmoid')(x)"
    return own(folder, made, body, "model.compile(keras.optimizers.Adam(0.001), loss='mae')", "own")


@fault(
    "model",
    r"over-?fit|memori[sz]|by heart|generali[sz]|gap|train[^.]{0,60}(much )?(better|higher|lower) than|"
    r"much better on train|too (large|many parameters|big)|capacity|" + FEW,
    learns=None,
)
def learns_by_heart(rng: np.random.Generator, folder: Path) -> Made:
    """Sixty records, four hundred columns that hardly matter, and a model of a million weights."""
    x, label = points(rng, 600, 2, 400)
    x = rng.normal(size=x.shape) + 0.02 * x
    made = tt.arrays(folder, x, label, tt.divided(rng, 600, (0.1, 0.3, 0.6)))
    return own(
        folder, made, "x = layers.Dense(1000, activation='relu')(x)\nx = layers.Dense(600, activation='relu')(x)"
    )


@fault(
    "model",
    r"(rescal|scal|divid|normali)\w*[^.]{0,40}(twice|two|three|again|already|once)|twice|0 to 1|\b255\b|"
    r"pixels[^.]{0,40}(range|small|dark|near)|nearly (black|zero|the same)",
    learns=None,
)
def pixels_scaled_thrice(rng: np.random.Generator, folder: Path) -> Made:
    """The model divides its pixels by 255 three times."""
    compile = "model.compile(keras.optimizers.SGD(0.01), loss='sparse_categorical_crossentropy')"
    return own(
        folder, tt.images(folder, drawn(rng)), "x = layers.Rescaling(1 / 255)(x)\n" * 3 + CONVOLUTIONS.strip(), compile
    )


# Healthy runs


@healthy("table")
def well_told_apart(rng: np.random.Generator, folder: Path) -> Made:
    """Nearly no mistakes, since eight weak columns agree; none of them is enough."""
    return held(rng, folder, sheet(rng, 1200, 3, far=1.5))


@healthy("table")
def well_weak_signal(rng: np.random.Generator, folder: Path) -> Made:
    """Many rows, and a signal that is weak and real."""
    return held(rng, folder, sheet(rng, 2400, 2, far=0.35))


@healthy("table")
def well_forty_classes(rng: np.random.Generator, folder: Path) -> Made:
    """Forty classes with 50 rows each."""
    import pandas as pd

    kind = np.arange(2000) % 40
    x = rng.normal(0, 1.6, (40, 12))[kind] + rng.normal(size=(2000, 12))
    frame = pd.DataFrame(x.round(3), columns=[f"m{number}" for number in range(12)])
    return held(rng, folder, frame.assign(kind=[f"species {one:02d}" for one in kind]))


@healthy("table")
def well_one_in_six(rng: np.random.Generator, folder: Path) -> Made:
    """Uneven classes, six to one."""
    frame = sheet(rng, 3000, 2)
    kept = (frame["kind"] == "alder") | (rng.random(3000) < 1 / 6)
    return held(rng, folder, frame[kept].reset_index(drop=True))


@healthy("table")
def well_one_column(rng: np.random.Generator, folder: Path) -> Made:
    """One column and a number that bends with it."""
    import pandas as pd

    x = rng.uniform(-3, 3, 1200)
    frame = pd.DataFrame({"force": x.round(3), "bend": (x + 0.3 * x**2 + rng.normal(0, 0.7, 1200)).round(3)})
    return held(rng, folder, frame, "bend")


@healthy("table")
def well_categories_only(rng: np.random.Generator, folder: Path) -> Made:
    """Nine columns of words, no numbers, and rows that rarely repeat."""
    import pandas as pd

    codes = rng.integers(0, 6, (1500, 9))
    value = np.sum(rng.normal(0, 1, (9, 6))[np.arange(9), codes], axis=1) + rng.normal(0, 1, 1500)
    frame = pd.DataFrame(np.array(["red", "blue", "teal", "pink", "gold", "grey"])[codes], columns=list("abcdefghi"))
    return held(rng, folder, frame.assign(kind=np.where(value > np.median(value), "up", "down")))


@healthy("table")
def well_a_fifth_missing(rng: np.random.Generator, folder: Path) -> Made:
    """A fifth of the values is missing, at random."""
    frame = sheet(rng, 1500)
    for name in frame.columns.drop("kind"):
        frame.loc[rng.random(len(frame)) < 0.2, name] = np.nan
    return held(rng, folder, frame)


@healthy("table")
def well_below_zero(rng: np.random.Generator, folder: Path) -> Made:
    """A target around minus 250 with a small spread."""
    frame = amounts(rng, 1200)
    frame["crop"] = (frame["crop"] / 10 - 250).round(3)
    return held(rng, folder, frame, "crop")


@healthy("table")
def well_tiny_numbers(rng: np.random.Generator, folder: Path) -> Made:
    """Columns of very different sizes, from 1e-9 to 1e9."""
    frame = sheet(rng, 1200)
    for name, size in zip(frame.columns.drop("kind"), 10.0 ** np.linspace(-9, 9, 8), strict=True):
        frame[name] *= size
    return held(rng, folder, frame)


@healthy("table")
def well_long_tails(rng: np.random.Generator, folder: Path) -> Made:
    """Columns with long tails, as incomes and counts have them."""
    frame = sheet(rng, 1500)
    for name in frame.columns.drop("kind"):
        frame[name] = np.exp(1.2 * frame[name]).round(4)
    return held(rng, folder, frame)


@healthy("table")
def well_named_in_other_letters(rng: np.random.Generator, folder: Path) -> Made:
    """Columns and classes with names in Greek, Japanese and with blanks."""
    frame = sheet(rng, 1200)
    frame.columns = ["ύψος", "幅", "poids (kg)", "温度", "größe", "a b", "x/y", "élan", "вид"]
    frame["вид"] = frame["вид"].map({"alder": "ольха", "birch": "берёза", "cedar": "кедр"})
    return held(rng, folder, frame, "вид")


@healthy("table")
def well_patients_kept_together(rng: np.random.Generator, folder: Path) -> Made:
    """Ten rows of each of 150 patients, each in one split; the illness shows in the columns of all."""
    import pandas as pd

    ill = rng.random(150) < 0.5
    patient = np.repeat(np.arange(150), 10)
    x = rng.normal(0, 0.5, (150, 6))[patient] + rng.normal(size=(1500, 6)) + ill[patient, None] * 0.7
    frame = pd.DataFrame(x.round(3), columns=["pulse", "sodium", "iron", "zinc", "ph", "sugar"])
    frame["patient"] = [f"P{one:03d}" for one in patient]
    frame["ill"] = np.where(ill[patient], "yes", "no")
    split = tt.divided(rng, 150)[patient]
    made = tt.table(folder, frame, "ill", split, build=["--group", "patient"])
    for name in tt.SPLITS:
        made.inputs[name] = made.inputs[name].drop(columns=["patient"])
    return made


@healthy("table")
def well_later_years(rng: np.random.Generator, folder: Path) -> Made:
    """Train, val and test follow one another in time, and the world stays the same."""
    import pandas as pd

    days = pd.date_range("2014-01-01", periods=1800)
    sun = rng.gamma(3, 2, 1800).round(1)
    week = np.array([0.0, 1, 2, 1, 4, 9, 7])[days.day_of_week]
    frame = pd.DataFrame({"weekday": days.day_name(), "sun": sun, "wind": rng.gamma(2, 3, 1800).round(1)})
    frame["visitors"] = (50 + 3 * week + 4 * sun - frame["wind"] + rng.normal(0, 5, 1800)).round(1)
    return tt.table(folder, frame, "visitors", tt.by_time(1800))


@healthy("table")
def well_true_or_false(rng: np.random.Generator, folder: Path) -> Made:
    """Fourteen columns of true and false."""
    import pandas as pd

    bits = rng.random((1500, 14)) < 0.5
    value = bits @ rng.normal(0, 1, 14)
    frame = pd.DataFrame(bits, columns=[f"has_{one}" for one in "abcdefghijklmn"])
    noisy = value + rng.normal(0, 0.5, 1500)
    frame["kind"] = np.where(noisy > np.median(noisy), "taken", "left")
    return held(rng, folder, frame)


@healthy("table")
def well_two_hundred_columns(rng: np.random.Generator, folder: Path) -> Made:
    """Two hundred columns, thirty of which matter, and enough rows."""
    import pandas as pd

    x = rng.normal(size=(2400, 200))
    value = x[:, :30] @ rng.normal(0, 1, 30) + rng.normal(0, 1, 2400)
    frame = pd.DataFrame(x.round(3), columns=[f"s{number:03d}" for number in range(200)])
    return held(rng, folder, frame.assign(kind=np.where(value > 0, "pass", "fail")))


@healthy("table")
def well_trees_by_name(rng: np.random.Generator, folder: Path) -> Made:
    """Trees were asked for, on a checkerboard."""
    import pandas as pd

    x = rng.uniform(0, 3, (2000, 2))
    dark = (x.astype(int).sum(1) % 2 == 0) ^ (rng.random(2000) < 0.05)
    frame = pd.DataFrame(
        {"across": x[:, 0].round(3), "down": x[:, 1].round(3), "field": np.where(dark, "dark", "light")}
    )
    return held(rng, folder, frame, "field", train=["--model", "trees"])


@healthy("text")
def well_russian_lines(rng: np.random.Generator, folder: Path) -> Made:
    """Short texts in Russian."""
    topics = {one: tt.TOPICS[one]["ru"].split() for one in ("travel", "food", "sport")}
    items = []
    for split in tt.divided(rng, 900):
        topic = str(rng.choice(list(topics)))
        other = str(rng.choice([one for one in topics if one != topic]))
        words = [*rng.choice(topics[topic], 2, replace=False), *rng.choice(topics[other], 1)]
        words += list(rng.choice(tt.FILLERS["ru"].split(), 6))
        items.append((str(split), topic, " ".join(str(word) for word in rng.permutation(words))))
    return tt.texts(folder, items)


@healthy("text")
def well_emoji(rng: np.random.Generator, folder: Path) -> Made:
    """Texts with many emoji, which decide."""
    glad, sad = list("😀😍🎉🌞💚"), list("😢😡🌧💔😱")
    items = []
    for split, name, text in sentences(rng):
        marks = [str(rng.choice(glad if (name == "glad") == (rng.random() < 0.85) else sad)) for _ in range(3)]
        words = text.split()
        for mark in marks:
            words.insert(int(rng.integers(len(words))), mark)
        items.append((split, name, " ".join(words)))
    return tt.texts(folder, items)


@healthy("text")
def well_without_blanks(rng: np.random.Generator, folder: Path) -> Made:
    """Chinese questions and orders, without blanks."""
    items = []
    for split in tt.divided(rng, 900):
        middle = "".join(str(part) for part in rng.choice(list("我你他她天气饭书车路门水山红大小今明早晚买看去来"), 9))
        name = str(rng.choice(["question", "order", "statement"]))
        mark = {
            "question": ["吗", "怎么", "什么"],
            "order": ["请", "快点", "不要"],
            "statement": ["已经", "了", "曾经"],
        }[name]
        at = int(rng.integers(0, 9))
        shown = name if rng.random() > 0.06 else str(rng.choice(["question", "order", "statement"]))
        items.append((str(split), shown, middle[:at] + str(rng.choice(mark)) + middle[at:] + "。"))
    return tt.texts(folder, items)


@healthy("text")
def well_long_texts(rng: np.random.Generator, folder: Path) -> Made:
    """Texts of 500 words and more."""
    items = []
    for split, name, _ in sentences(rng, 500):
        parts = [sentence(rng, (name == "glad") == (rng.random() < 0.62)) for _ in range(int(rng.integers(42, 70)))]
        items.append((split, name, ". ".join(parts)))
    return tt.texts(folder, items)


@healthy("text")
def well_number_from_text(rng: np.random.Generator, folder: Path) -> Made:
    """A number with a fraction, from a text."""
    import pandas as pd

    rows = [tt.opinion(rng) for _ in range(1500)]
    frame = pd.DataFrame(
        {"said": [text for text, _ in rows], "points": [round(50 + 9 * total, 1) for _, total in rows]}
    )
    frame["points"] += rng.normal(0, 2, len(frame)).round(1)
    return held(rng, folder, frame, "points")


@healthy("image")
def well_small_and_grey(rng: np.random.Generator, folder: Path) -> Made:
    """Pictures of 12 by 12 pixels in grey."""
    from PIL import Image

    items = []
    for split, name, picture in drawn(rng, 900, 0.05):
        items.append((split, name, np.asarray(Image.fromarray(picture).convert("L").resize((12, 12)))))
    return tt.images(folder, items)


@healthy("image")
def well_long_strips(rng: np.random.Generator, folder: Path) -> Made:
    """Pictures of 16 by 96 pixels: how fast a wave swings."""
    items = []
    for split in tt.divided(rng, 700):
        name = str(rng.choice(["slow", "middle", "fast"]))
        turns = {"slow": 3, "middle": 6, "fast": 11}[name] * rng.uniform(0.8, 1.25)
        wave = np.sin(2 * np.pi * (turns * np.arange(96) / 96 + rng.random()))
        items.append((str(split), name, tt.grey(0.5 + 0.3 * wave[None, :] + 0.12 * rng.normal(size=(16, 96)))))
    return tt.images(folder, items)


@healthy("image")
def well_sizes_of_all_kinds(rng: np.random.Generator, folder: Path) -> Made:
    """JPEGs of many sizes; the size says nothing about the class."""
    items = []
    for split in tt.divided(rng, 600):
        name = str(rng.choice(["square", "ring", "cross"]))
        items.append((str(split), name, tt.shape(rng, name, 0.08, int(rng.integers(28, 44)))))
    made = tt.images(folder, [])
    tt.files(folder, items, ".jpg", tt.write_image)
    return made


@healthy("image")
def well_mirrored_on_purpose(rng: np.random.Generator, folder: Path) -> Made:
    """Shapes that look the same in a mirror, with `--augment flip`."""
    return tt.images(folder, drawn(rng, 700), train=["--augment", "flip"])


@healthy("sound")
def well_lengths_of_all_kinds(rng: np.random.Generator, folder: Path) -> Made:
    """Sounds of 0.4 to 0.8 s; the length says nothing about the class."""
    items = []
    for split in tt.divided(rng, 500):
        kind = str(rng.choice(["flute", "reed", "brass"]))
        items.append((str(split), kind, hum(rng, kind, float(rng.uniform(0.4, 0.8)))))
    return tt.sounds(folder, items)


@healthy("sound")
def well_two_channels(rng: np.random.Generator, folder: Path) -> Made:
    """Sounds in stereo at 22.05 kHz."""
    items = []
    for split in tt.divided(rng, 450):
        kind = str(rng.choice(["flute", "reed", "brass"]))
        sound = hum(rng, kind, 1.2)
        items.append((str(split), kind, np.stack([sound, 0.6 * sound + 0.02 * rng.normal(size=len(sound))], axis=1)))
    return tt.sounds(folder, items, rate=22050)


@healthy("series")
def well_windows_of_sensors(rng: np.random.Generator, folder: Path) -> Made:
    """Windows of two sensors; a series is in one split only."""
    series = []
    for split in tt.divided(rng, 150):
        name = str(rng.choice(["walk", "run", "rest"]))
        pace, size = {"walk": (0.35, 0.8), "run": (0.7, 1.2), "rest": (0.1, 0.2)}[name]
        phase = pace * rng.uniform(0.85, 1.15) * np.arange(192) + rng.uniform(0, 6)
        values = size * np.stack([np.sin(phase), np.cos(phase)], axis=1) + rng.normal(0, 0.5, (192, 2))
        series.append((str(split), name, values))
    return tt.windows(folder, series, 32, ["ax", "ay"])


@healthy("series")
def well_peaks_in_arrays(rng: np.random.Generator, folder: Path) -> Made:
    """Arrays of 80 steps: one peak, two, or none."""
    label = rng.integers(0, 3, 1200)
    x = 0.2 * rng.normal(size=(1200, 80, 1))
    for row in range(1200):
        for at in rng.permutation(np.arange(8, 72, 16))[: label[row]]:
            x[row, :, 0] += np.exp(-0.5 * ((np.arange(80) - at - rng.uniform(-3, 3)) / 2.5) ** 2)
    return tt.arrays(folder, x, label, tt.divided(rng, 1200))


@healthy("model")
def well_made_by_hand(rng: np.random.Generator, folder: Path) -> Made:
    """A model of one's own that fits."""
    return on_points(rng, folder, DENSE + "\nx = layers.Dropout(0.2)(x)")


@healthy("model")
def well_made_for_pictures(rng: np.random.Generator, folder: Path) -> Made:
    """A convolutional model of one's own."""
    return own(folder, tt.images(folder, drawn(rng, 900, 0.05)), CONVOLUTIONS)


@healthy("options")
def well_other_optimiser(rng: np.random.Generator, folder: Path) -> Made:
    """SGD at a rate that fits, a linear model, and an early stop."""
    train = ["--model", "linear", "--optimizer", "sgd", "--learning-rate", "0.05", "--early-stopping", "5"]
    return held(rng, folder, sheet(rng, 1500), train=train)


# Running


@dataclass(frozen=True)
class Ran:
    rc: int
    out: str
    err: str
    seconds: float

    def all(self) -> str:
        return f"{self.out}\n{self.err}"


def bushel(folder: Path, *arguments: str) -> Ran:
    """Run a command in the folder of a case, as a person would."""
    start = time.monotonic()
    environment = os.environ | {"COLUMNS": "200", "TF_CPP_MIN_LOG_LEVEL": "3", "NO_COLOR": "1"}
    try:
        done = subprocess.run(
            [str(BUSHEL), *arguments],
            cwd=folder,
            capture_output=True,
            text=True,
            timeout=LIMIT,
            env=environment,
            check=False,
        )
    except subprocess.TimeoutExpired:
        return Ran(124, "", f"no answer within {LIMIT} s", time.monotonic() - start)
    return Ran(done.returncode, done.stdout, done.stderr, round(time.monotonic() - start, 1))


def strings(value: Any, skip: Sequence[str] = ()) -> Iterator[str]:
    """All text in a JSON value."""
    if isinstance(value, str):
        yield value
    elif isinstance(value, dict):
        for name, inner in value.items():
            if name not in skip:
                yield from strings(inner, skip)
    elif isinstance(value, list):
        for inner in value:
            yield from strings(inner, skip)


def lists_of(value: Any, wanted: str) -> Iterator[Any]:
    """What stands under a name, anywhere in a JSON value."""
    if isinstance(value, dict):
        for name, inner in value.items():
            if name == wanted:
                yield inner
            else:
                yield from lists_of(inner, wanted)
    elif isinstance(value, list):
        for inner in value:
            yield from lists_of(inner, wanted)


IDS = ("rule", "id", "code", "rule_id", "level", "severity", "file", "path", "where", "link", "url")


def said(folder: Path, ran: Ran) -> dict[str, Any]:
    """The verdict and the findings of a run: from metrics.json, or else from what was printed."""
    path = folder / "run" / "metrics.json"
    metrics = json.loads(path.read_text()) if path.exists() else {}
    findings: dict[tuple[str, str], None] = {}
    for found in lists_of(metrics, "findings"):
        for one in found if isinstance(found, list) else [found]:
            level = (
                next((str(one[name]).lower() for name in ("severity", "level") if name in one), "?")
                if isinstance(one, dict)
                else "?"
            )
            if text := ". ".join(strings(one, IDS)):
                findings[level, text] = None
    verdicts = [". ".join(strings(one)) for one in lists_of(metrics, "verdict")]
    verdict = ". ".join(verdict for verdict in verdicts if verdict)
    if not metrics or ran.rc == 2:
        findings["stopped", ran.all().strip()[-4000:]] = None
    return {"verdict": verdict, "findings": [list(one) for one in findings]}


def loud(result: dict[str, Any]) -> list[str]:
    """Findings above info."""
    return [text for level, text in result["findings"] if level not in CALM]


def predictions(text: str, metric: str) -> list[Any]:
    """One per line of `bushel predict --json`: a class, or a number."""
    found = []
    for line in text.splitlines():
        if not line.startswith("{"):
            continue
        found.append(predicted(json.loads(line), metric))
    return found


def predicted(row: dict[str, Any], metric: str) -> Any:
    """A class or a number, by the names that such a field may have."""
    names = (
        ("value", "prediction", "predicted", "label")
        if metric == "mae"
        else ("label", "class", "prediction", "predicted")
    )
    for name in names:
        value = row.get(name)
        if isinstance(value, list) and len(value) == 1:
            value = value[0]
        if isinstance(value, dict):
            value = next((value[inner] for inner in ("label", "class", "name", "value") if inner in value), None)
        if value is not None:
            return float(value) if metric == "mae" else value
    return float("nan") if metric == "mae" else f"unreadable: {json.dumps(row)[:200]}"


def in_order(folder: Path, made: Made, answers: list[Any]) -> list[Any]:
    """Predictions for the records of the test split, in the order of `made`."""
    import bushel as library

    records = library.open(str(folder / "data"))["test"]
    if len(records) != len(answers):
        raise ValueError(f"{len(answers)} predictions for {len(records)} records of the test split")
    if made.keys:
        at: dict[Any, int] = {key: place for place, key in enumerate(made.keys)}
        places = [at[series_key(records[number]["key"])] for number in range(len(records))]
    else:
        at = {row.astype(np.float32).tobytes(): place for place, row in enumerate(made.inputs["test"])}
        places = [at[np.asarray(records[number]["x"], np.float32).tobytes()] for number in range(len(records))]
    ordered: list[Any] = [None] * len(made.truth["test"])
    for place, answer in zip(places, answers, strict=True):
        ordered[place] = answer
    return ordered


def series_key(key: Any) -> str:
    """`s3@40.0` and `s3@40` are the same window."""
    name, _, start = (key.decode() if isinstance(key, bytes) else str(key)).rpartition("@")
    return f"{name}@{round(float(start))}"


def asked(folder: Path, made: Made, metric: str) -> tuple[list[Any], Ran]:
    """What the trained model predicts for the test rows."""
    if made.ask:
        ran = bushel(folder, "predict", "run", *made.ask, "--json")
        answers = predictions(ran.out, metric)
    else:
        ran = bushel(folder, "predict", "run", "data", "--split", "test", "--json")
        answers = predictions(ran.out, metric)
        if answers:
            answers = in_order(folder, made, answers)
    if len(answers) != len(made.truth["test"]):
        raise ValueError(f"{len(answers)} predictions for {len(made.truth['test'])} rows: {ran.err.strip()[-400:]}")
    return answers, ran


def built(folder: Path, made: Made) -> Ran:
    return bushel(folder, "build", *made.build)


def trained(folder: Path, made: Made) -> Ran:
    return bushel(folder, "train", "data", "--out", "run", *made.train)


def run_task(task: tt.Task, seed: int, folder: Path) -> dict[str, Any]:
    made = task.make(tt.generator(task.name, seed), folder)
    rival = tt.rival_results(made, task.metric)
    build = built(folder, made)
    train = trained(folder, made) if build.rc in (0, 1) else Ran(build.rc, "", "", 0)
    truth = made.truth["test"]
    result: dict[str, Any] = {
        "rows": [len(made.truth[name]) for name in tt.SPLITS],
        "commands": [" ".join(["bushel build", *made.build]), " ".join(["bushel train data", *made.train])],
        "rival": rival["rival"],
        "rival scores": rival["scores"],
        "guess": tt.common_guess(made, task.metric),
        "truth": [tt.named(one) for one in truth] if task.metric == "balanced" else [],
        "rival good": tt.compared(task.metric, truth, np.array(rival["predicted"])).round(6).tolist(),
        "exits": [build.rc, train.rc],
        "seconds": train.seconds,
        "printed": train.all().strip()[-3000:],
        **said(folder, train),
    }
    try:
        answers, _ = asked(folder, made, task.metric)
        good = tt.compared(task.metric, truth, np.array(answers))
        result["good"] = np.nan_to_num(good, nan=-1e30).round(6).tolist()
        unread = [one for one in answers if str(one).startswith("unreadable")]
        if unread:
            raise ValueError(str(unread[0]))
        if task.served and seed == 0:
            result["served"] = served(folder, made, task.metric, answers)
    except (ValueError, KeyError, OSError) as error:
        result["error"] = f"{type(error).__name__}: {error}"[:600]
    return result


LOAD = """
import glob, json, sys
import tensorflow as tf
serve = tf.saved_model.load(sys.argv[1]).signatures["examples"]
raw = [one.numpy() for one in tf.data.TFRecordDataset(sorted(glob.glob(sys.argv[2] + "/test-*.tfrecord")))]
name = list(serve.structured_input_signature[1])[0]
for start in range(0, len(raw), 64):
    answer = serve(**{name: tf.constant(raw[start : start + 64])})
    values = answer["label" if "label" in answer else "value"].numpy().reshape(-1)
    for value in values:
        print(json.dumps({"label": value.decode() if isinstance(value, bytes) else float(value)}))
"""


def served(folder: Path, made: Made, metric: str, answers: list[Any]) -> dict[str, Any]:
    """Export and serve a run; how many answers differ from those of `bushel predict`."""
    export = bushel(folder, "export", "run", "exported/1")
    loaded = subprocess.run(
        [sys.executable, "-c", LOAD, "exported/1", "data"],
        cwd=folder,
        capture_output=True,
        text=True,
        timeout=LIMIT,
        check=False,
    )
    from_export = [json.loads(line)["label"] for line in loaded.stdout.splitlines() if line.startswith("{")]
    records = predictions(bushel(folder, "predict", "run", "data", "--split", "test", "--json").out, metric)
    from_server = from_http(folder, made, metric, 60)
    return {
        "export": export.rc,
        "exported rows": len(from_export),
        "exported, different": differ(metric, records, from_export),
        "served rows": len(from_server),
        "served, different": differ(metric, answers[: len(from_server)], from_server),
        "said": (export.err + loaded.stderr).strip()[-600:] if export.rc or loaded.returncode else "",
    }


def differ(metric: str, one: list[Any], other: list[Any]) -> int:
    if len(one) != len(other):
        return max(len(one), len(other))
    if metric == "mae":
        return int(np.sum(~np.isclose(np.array(one, float), np.array(other, float), rtol=1e-3, atol=1e-4)))
    return sum(tt.named(a) != tt.named(b) for a, b in zip(one, other, strict=True))


def from_http(folder: Path, made: Made, metric: str, count: int) -> list[Any]:
    """The first answers of `bushel serve`, to rows of a table, or to one file after the other."""
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    address = f"http://127.0.0.1:{port}"
    server = subprocess.Popen(
        [str(BUSHEL), "serve", "run", "--port", str(port)],
        cwd=folder,
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
    )
    try:
        for _ in range(240):
            try:
                urllib.request.urlopen(f"{address}/health", timeout=5).read()
                break
            except OSError:
                time.sleep(0.5)
        found = []
        for kind, body in requests(folder, made, count):
            request = urllib.request.Request(f"{address}/predict", body, {"content-type": kind})
            answer = json.loads(urllib.request.urlopen(request, timeout=120).read())
            found += [predicted(row, metric) for row in answer["predictions"]]
        return found
    finally:
        server.terminate()
        server.wait(30)


def requests(folder: Path, made: Made, count: int) -> Iterator[tuple[str, bytes]]:
    if made.kind == "table":
        import pandas as pd

        rows = json.loads(pd.read_csv(folder / made.ask[0]).head(count).to_json(orient="records"))
        yield "application/json", json.dumps(rows).encode()
        return
    kind = {"text": "text/plain; charset=utf-8", "image": "image/png"}[made.kind]
    for path in made.ask[:count]:
        yield kind, (folder / path).read_bytes()


def run_case(case: Case, seed: int, folder: Path) -> dict[str, Any]:
    made = case.make(tt.generator(case.name, seed), folder)
    build = built(folder, made)
    train = trained(folder, made) if (folder / "data" / "dataset.json").exists() else Ran(build.rc, "", build.err, 0)
    result = {
        "commands": [" ".join(["bushel build", *made.build]), " ".join(["bushel train data", *made.train])],
        "exits": [build.rc, train.rc],
        "seconds": train.seconds,
        "build said": build.all().strip()[-3000:],
        "printed": train.all().strip()[-4000:],
        **said(folder, train),
    }
    return result | (judged(case, result) if case.cause else {"loud": loud(result)})


def judged(case: Case, result: dict[str, Any]) -> dict[str, Any]:
    """Whether the cause of a fault was named, and where."""
    pattern = re.compile(case.cause, re.IGNORECASE)
    places = {
        "verdict": [result["verdict"]],
        "finding": loud(result),
        "build": [
            line
            for line in result["build said"].splitlines()
            if line.startswith(("note", "refused", "warning", "bushel:"))
        ],
        "info": [text for level, text in result["findings"] if level in CALM],
    }
    where = next((name for name, texts in places.items() for text in texts if pattern.search(text)), "")
    named = where in ("verdict", "finding", "build")
    rc = result["exits"][1]
    right = {False: rc != 0, True: rc == 0 or (rc == 1 and named), None: True}[case.learns]
    words = next((found.group() for text in places.get(where, []) if (found := pattern.search(text))), "")
    return {"where": where, "named": named, "words": words, "verdict right": right}


# Tables


def pooled(metric: str, results: list[dict[str, Any]], draws: int = 2000) -> dict[str, float]:
    """bushel, rival, their difference over all seeds, and its paired bootstrap interval. The larger, the better."""
    rng = np.random.default_rng(0)
    means, samples = [], []
    for one in results:
        ours, theirs = np.array(one["good"]), np.array(one["rival good"])
        truth = np.array(one["truth"]) if metric == "balanced" else np.zeros(len(ours))
        weight = rng.multinomial(len(ours), np.full(len(ours), 1 / len(ours)), draws).astype(float)
        both = []
        for good in (ours, theirs):
            parts = []
            for name in np.unique(truth):
                rows = truth == name
                parts.append(weight[:, rows] @ good[rows] / np.maximum(weight[:, rows].sum(1), 1))
            both.append(np.mean(parts, axis=0))
        samples.append(both[0] - both[1])
        means.append((tt.score(metric, truth, ours), tt.score(metric, truth, theirs)))
    low, high = np.quantile(np.mean(samples, axis=0), [0.025, 0.975])
    ours, theirs = np.mean(means, axis=0)
    slack = NEAR_SHARE * abs(theirs) if metric == "mae" else NEAR
    return {"ours": ours, "theirs": theirs, "low": low, "high": high, "passed": ours >= theirs - slack or high >= 0}


def task_table(results: dict[str, Any]) -> Iterator[str]:
    rows, passed, broken, skipped = [], 0, 0, []
    for task in tt.every():
        got = [one for name, one in results.items() if name.split("/")[0] == task.name]
        if not got:
            if task.missing():
                skipped.append(f"{task.name} ({', '.join(task.missing())})")
            continue
        whole = [one for one in got if "good" in one]
        errors = [one["error"] for one in got if "error" in one]
        if len(whole) < len(got):
            broken += 1
            rows.append(f"| {task.name} | {task.kind} | {task.metric} | {len(got)} | | | | **{errors[0][:120]}** |")
            continue
        found = pooled(task.metric, whole)
        passed += bool(found["passed"])
        sign = -1 if task.metric == "mae" else 1
        shown = [f"{sign * found[name]:.4g}" for name in ("ours", "theirs")]
        rival = ", ".join(sorted({one["rival"] for one in whole}))
        difference = f"{found['ours'] - found['theirs']:+.3g} ({found['low']:+.3g} to {found['high']:+.3g})"
        result = ("as good" if found["passed"] else "**behind**") + (f"; {errors[0][:80]}" if errors else "")
        rows.append(
            f"| {task.name} | {task.kind} | {task.metric} | {len(whole)} | {shown[0]} | {shown[1]}: {rival} "
            f"| {difference} | {result} |"
        )
    yield f"As good as the rival, or not to be told apart: {passed} of {len(rows)} tasks; {broken} gave no answers."
    if skipped:
        yield f"Skipped, since a package is missing: {', '.join(skipped)}."
    yield ""
    yield "| task | kind | metric | seeds | bushel | rival | difference, positive is better | result |"
    yield "|---|---|---|---:|---:|---|---|---|"
    yield from rows
    served_rows = [(name, one["served"]) for name, one in results.items() if "served" in one]
    if served_rows:
        yield ""
        yield "| task | exported rows | different | served rows | different |"
        yield "|---|---:|---:|---:|---:|"
        for name, one in served_rows:
            yield (
                f"| {name} | {one['exported rows']} | {one['exported, different']} "
                f"| {one['served rows']} | {one['served, different']} |"
            )


def fault_table(results: dict[str, Any], well: dict[str, Any]) -> Iterator[str]:
    done = [(case, results[name] | judged(case, results[name])) for name, case in FAULTS.items() if name in results]
    for title, chosen in (
        ("all", done),
        ("learned but not to be trusted", [(c, r) for c, r in done if not c.trusted]),
        ("cannot learn", [(c, r) for c, r in done if c.learns is False]),
    ):
        named, right = sum(r["named"] for _, r in chosen), sum(r["verdict right"] for _, r in chosen)
        early = sum(r["named"] and r["where"] == "build" for _, r in chosen)
        yield f"* {title}: cause named in {named} of {len(chosen)} ({early} by the build), exit code right in {right}"
    yield ""
    yield "| fault | kind | can learn | to be trusted | exit | cause named | in the words | said of healthy runs |"
    yield "|---|---|---|---|---:|---|---|---:|"
    for case, one in done:
        learns = {True: "yes", False: "no", None: "maybe"}[case.learns]
        where = one["where"] if one["named"] else ("**no**" + (" (only info)" if one["where"] else ""))
        pattern = re.compile(case.cause, re.IGNORECASE)
        loose = sum(any(pattern.search(text) for text in [r["verdict"], *loud(r)]) for r in well.values())
        exit = str(one["exits"][1]) if one["verdict right"] else f"**{one['exits'][1]}**"
        words = one["words"].replace("|", "/")[:60]
        trust = "yes" if case.trusted else "no"
        yield f"| {case.name} | {case.kind} | {learns} | {trust} | {exit} | {where} | {words} | {loose} |"


def healthy_table(results: dict[str, Any]) -> Iterator[str]:
    done = [(case, results[name]) for name, case in HEALTHY.items() if name in results]
    clean = sum(not loud(one) and one["exits"][1] == 0 for _, one in done)
    yield f"Learned, and no finding above info: {clean} of {len(done)} healthy runs."
    yield ""
    yield "| run | kind | exit | findings above info |"
    yield "|---|---|---:|---|"
    for case, one in done:
        said_of = "; ".join(" ".join(text.split())[:140] for text in loud(one)).replace("|", "/")
        yield f"| {case.name} | {case.kind} | {one['exits'][1]} | {said_of or 'none'} |"


def tables(kept: dict[str, Any]) -> Iterator[str]:
    made = {
        "tasks": ("Tasks", task_table(kept["tasks"])),
        "faults": ("Faults", fault_table(kept["faults"], kept["healthy"])),
        "healthy": ("Healthy runs", healthy_table(kept["healthy"])),
    }
    for key, (title, lines) in made.items():
        if kept[key]:
            yield from (f"## {title}", "", *lines, "")


# Before the measurement


def check_words() -> None:
    """No pattern may fit what every verdict says."""
    for case in FAULTS.values():
        for text in USUAL:
            if found := re.search(case.cause, text, re.IGNORECASE):
                raise ValueError(f"{case.name}: the pattern fits any verdict: {found.group()!r}")


def probe(folder: Path) -> bool:
    """Train on toy data of every kind, and show what was read of the answers."""
    rng = np.random.default_rng(zlib.crc32(b"probe"))
    frame, split = sheet(rng, 240, 2), tt.divided(rng, 240)
    x, label = points(rng, 240, 2, 6)
    waves = [
        (str(s), str(k), np.full((64, 1), float(k)) + rng.normal(size=(64, 1)))
        for s, k in zip(split[:60], label, strict=False)
    ]
    bright = {"dim": 60, "lit": 190}
    flats = []
    for one, name in zip(split, rng.choice(list(bright), 240), strict=True):
        flats.append((str(one), str(name), (bright[str(name)] + rng.integers(0, 50, (16, 16))).astype(np.uint8)))
    toys: dict[str, tuple[str, Callable[[Path], Made]]] = {
        "table": ("accuracy", lambda path: tt.table(path, frame, "kind", split)),
        "amount": ("mae", lambda path: tt.table(path, amounts(rng, 240), "crop", split)),
        "text": ("accuracy", lambda path: tt.texts(path, sentences(rng, 240))),
        "image": ("accuracy", lambda path: tt.images(path, flats)),
        "sound": ("accuracy", lambda path: tt.sounds(path, hums(rng, 120))),
        "arrays": ("accuracy", lambda path: tt.arrays(path, x, label, split)),
        "windows": ("accuracy", lambda path: tt.windows(path, waves, 16, ["ax"])),
        "own": ("accuracy", lambda path: own(path, tt.arrays(path, x, label, split), DENSE)),
    }
    fine = True
    for name, (metric, make) in toys.items():
        path = folder / f"probe-{name}"
        shutil.rmtree(path, ignore_errors=True)
        made = make(path)
        made.train += ["--epochs", "2"]
        build, train = built(path, made), trained(path, made)
        report = said(path, train)
        try:
            answers, _ = asked(path, made, metric)
            good = tt.compared(metric, made.truth["test"], np.array(answers))
            read = f"{len(answers)} predictions, first {answers[0]!r}, score {good.mean():.3f}"
            fine &= not str(answers[0]).startswith("unreadable") and bool(np.isfinite(good).all())
            if name in ("table", "amount", "text", "image"):
                read += f"; served {served(path, made, metric, answers)}"
        except (ValueError, KeyError, OSError) as error:
            read, fine = f"{type(error).__name__}: {error}", False
        levels = [level for level, _ in report["findings"]]
        fine &= bool(report["verdict"]) and "?" not in levels
        print(
            f"{name}: exits {build.rc}, {train.rc}; verdict {report['verdict'][:160]!r}; findings {levels}; {read}",
            flush=True,
        )
        if not report["verdict"]:
            print(train.all()[-1500:])
    print("all answers can be read" if fine else "some answers cannot be read: mend the readers before measuring")
    return fine


def rivals_only(names: set[str] | None, seeds: list[int], folder: Path) -> None:
    for task in tt.every(names):
        if task.missing():
            print(f"{task.name}: skipped, {', '.join(task.missing())} is missing")
            continue
        for seed in seeds:
            path = fresh(folder, f"{task.name}-{seed}")
            made = task.make(tt.generator(task.name, seed), path)
            found = tt.rival_results(made, task.metric)
            print(
                f"{task.name}/{seed}: {found['rival']} {found['test']:.4f}, "
                f"a guess {tt.common_guess(made, task.metric):.4f}"
            )
            shutil.rmtree(path)
    for case in [*HEALTHY.values(), *FAULTS.values()]:
        if names and case.name not in names:
            continue
        path = fresh(folder, case.name)
        made = case.make(tt.generator(case.name, seeds[0]), path)
        amount = len(made.truth["test"]) and made.truth["test"].dtype.kind == "f"
        metric = "mae" if amount or "regression" in made.train else "accuracy"
        try:
            if not len(made.truth["test"]):
                raise ValueError("its files are written only")
            found = tt.rival_results(made, metric)
            line = f"{found['rival']} {found['test']:.4f}, a guess {tt.common_guess(made, metric):.4f}"
        except (ValueError, TypeError) as error:
            line = f"no rival: {str(error).splitlines()[0][:100]}"
        print(f"{case.name}: {line}; can learn: {case.learns}", flush=True)
        shutil.rmtree(path)


def builds_only(names: set[str] | None, seed: int, folder: Path) -> None:
    makers = {one.name: one.make for one in tt.every() if not one.missing()}
    makers |= {case.name: case.make for case in [*FAULTS.values(), *HEALTHY.values()]}
    for name, make in makers.items():
        if names and name not in names:
            continue
        path = fresh(folder, name)
        ran = built(path, make(tt.generator(name, seed), path))
        counts = re.findall(r"^(train|val|test) +([\d,]+)", ran.out, re.MULTILINE)
        told = [line.strip() for line in ran.all().splitlines() if line.startswith(("note", "refused", "bushel:"))]
        print(f"{name}: exit {ran.rc}, {dict(counts)} {'; '.join(told)[:300]}", flush=True)
        shutil.rmtree(path)


def fresh(folder: Path, name: str) -> Path:
    path = folder / name
    shutil.rmtree(path, ignore_errors=True)
    path.mkdir(parents=True)
    return path


def keep(path: Path, kept: dict[str, Any]) -> None:
    new = path.with_name(path.name + ".new")
    new.write_text(json.dumps(kept, ensure_ascii=False, indent=1))
    new.replace(path)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("what", nargs="*", help="tasks, faults, healthy, tables, probe, rivals, builds, list")
    parser.add_argument("--only", help="names of cases, with commas between")
    parser.add_argument("--seeds", default="0,1,2", help="seeds of tasks; faults and healthy runs use the first")
    parser.add_argument("--json", type=Path, default=Path("strangers_train.json"), help="where results are kept")
    parser.add_argument("--dir", type=Path, help="where cases are written; they stay there")
    parser.add_argument("--again", action="store_true", help="replace the results of --only")
    options = parser.parse_args()
    what = set(options.what or ["tasks", "faults", "healthy"])
    names = set(options.only.split(",")) if options.only else None
    if unknown := what - {"tasks", "faults", "healthy", "tables", "probe", "rivals", "builds", "list"}:
        parser.error(f"there is no {', '.join(sorted(unknown))}")
    if names and (unknown := names - {*tt.TASKS, *FAULTS, *HEALTHY}):
        parser.error(f"there is no case {', '.join(sorted(unknown))}")
    if options.again and not names:
        parser.error("--again needs --only")
    check_words()
    seeds = [int(seed) for seed in options.seeds.split(",")]
    if "list" in what:
        for one in tt.every():
            print(f"task {one.name} ({one.kind}, {one.metric}): {one.what}")
        for title, cases in (("fault", FAULTS), ("healthy", HEALTHY)):
            for case in cases.values():
                print(f"{title} {case.name} ({case.kind}): {case.what}")
        return
    kept: dict[str, Any] = {"tasks": {}, "faults": {}, "healthy": {}}
    if options.json.exists():
        kept |= json.loads(options.json.read_text())
    with tempfile.TemporaryDirectory(prefix="strangers-") as temporary:
        folder = (options.dir or Path(temporary)).resolve()
        if "probe" in what and not probe(folder):
            sys.exit(1)
        if "rivals" in what:
            rivals_only(names, seeds, folder)
        if "builds" in what:
            builds_only(names, seeds[0], folder)
        work: list[tuple[str, str, Callable[[Path], dict[str, Any]]]] = []
        if "tasks" in what:
            for one in tt.every(names):
                if one.missing():
                    print(f"{one.name}: skipped, {', '.join(one.missing())} is missing", file=sys.stderr)
                    continue
                work += [("tasks", f"{one.name}/{seed}", functools.partial(run_task, one, seed)) for seed in seeds]
        for key, cases in (("faults", FAULTS), ("healthy", HEALTHY)):
            if key in what:
                work += [
                    (key, case.name, functools.partial(run_case, case, seeds[0]))
                    for case in cases.values()
                    if not names or case.name in names
                ]
        for number, (key, name, run) in enumerate(work):
            if name in kept[key] and not options.again:
                continue
            path = fresh(folder, name.replace("/", "-"))
            print(f"{number + 1} of {len(work)}: {name}", file=sys.stderr, flush=True)
            try:
                kept[key][name] = run(path)
            finally:
                if not options.dir:
                    shutil.rmtree(path, ignore_errors=True)
            keep(options.json, kept)
    if what & {"tasks", "faults", "healthy", "tables"}:
        print("\n".join(tables(kept)))


if __name__ == "__main__":
    tt.quiet()
    main()
