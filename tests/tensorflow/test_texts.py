"""Text in TensorFlow: the ids of bushel's own transforms, by ops and by a Keras layer; sparse features."""

from pathlib import Path
from typing import Any

import numpy as np
import pytest
from corpus import ODD, documents

import bushel
from bushel import Dense, Order
from bushel import transforms as t
from bushel.data.columns import BytesColumn
from bushel.tensorflow import dataset, keras_objects, parse_fn, text_vectorization

tf = pytest.importorskip("tensorflow")

ENGINES = ["native", "graph"]
TEXTS = [*documents()[:150], *ODD]


@pytest.fixture(scope="module")
def texts(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Texts as they are, and their TF-IDF."""
    out = tmp_path_factory.mktemp("texts") / "data"
    rows = {
        "text": TEXTS,
        "kind": [["red", "green", "blue"][i % 3] for i in range(len(TEXTS))],
        "label": np.arange(len(TEXTS)) % 4,
    }
    bushel.build(rows, out, transforms=[t.tfidf(out="tfidf", size=300)])
    return out


def fitted(transform: Any, texts: list[str] = TEXTS, feature: str = "text") -> Any:
    if getattr(transform, "is_given", False):
        return transform
    fit = transform.begin_fit()
    fit.add([{feature: text} for text in texts])
    return fit.finish()


def chained(unit: Any, cleaning: dict[str, Any], **settings: Any) -> list[Any]:
    """What cleans, and what cuts, with a vocabulary of cleaned texts."""
    clean = t.clean(form="none", **cleaning)
    texts = [clean.clean_text(text) for text in TEXTS]
    return [clean, fitted(t.tokenise(unit=unit, size=2000, **settings), texts)]


@pytest.mark.parametrize("unit", ["word", "whitespace", "character", "byte"])
@pytest.mark.parametrize("length", [None, 12])
@pytest.mark.parametrize("out", [None, "ids"])
def test_engines_give_the_same_ids(texts: Path, unit: Any, length: int | None, out: str | None) -> None:
    chain = chained(unit, {"lower": True, "strip_control": length is None}, length=length, out=out)
    columns = ["text", "label"]
    native, graph = (
        dataset(texts, batch_size=16, columns=columns, transforms=chain, engine=engine) for engine in ENGINES
    )
    assert native.element_spec == graph.element_spec
    for (one, label), (other, same) in zip(native, graph, strict=True):
        assert np.array_equal(label, same)
        ids, others = (one, other) if out is None else (one["ids"], other["ids"])
        assert (ids.to_list() if length is None else ids.numpy().tolist()) == (
            others.to_list() if length is None else others.numpy().tolist()
        )


def test_a_graph_that_makes_ids_serialises(texts: Path, tmp_path: Path) -> None:
    chain = [fitted(t.tokenise(length=8))]
    made = dataset(texts, batch_size=16, columns=["text", "label"], transforms=chain, engine="graph")
    variant = tf.data.experimental.to_variant(made)
    graph = tf.raw_ops.DatasetToGraphV2(input_dataset=variant, external_state_policy=2).numpy()
    again = tf.data.experimental.from_variant(tf.raw_ops.DatasetFromGraph(graph_def=graph), made.element_spec)
    for (one, _), (other, _) in zip(made, again, strict=True):
        assert np.array_equal(one, other)


@pytest.mark.parametrize("settings", [{"unknown": "zero", "most": 2}, {}])
def test_engines_give_the_same_one_hot_vectors(texts: Path, settings: dict[str, Any]) -> None:
    for feature in ("kind", "label"):
        values = ["red", "red", "green", "green", "blue"] if feature == "kind" else [0, 0, 3, 3, 1, 2]
        chain = [fitted(t.one_hot(feature, **settings), values, feature)]
        columns = ["kind", "label"] if feature == "kind" else ["label"]
        native, graph = (
            dataset(texts, batch_size=16, columns=columns, label="label", transforms=chain, engine=engine)
            for engine in ENGINES
        )
        assert native.element_spec == graph.element_spec
        for one, other in zip(native, graph, strict=True):
            for mine, theirs in zip(tf.nest.flatten(one), tf.nest.flatten(other), strict=True):
                assert np.array_equal(mine, theirs)


def test_codes_are_the_same_and_unknown_ones_refused(texts: Path) -> None:
    known = fitted(t.encode("kind"), ["red", "green", "blue"], "kind")
    native, graph = (dataset(texts, batch_size=16, columns=["kind"], transforms=[known], engine=e) for e in ENGINES)
    for one, other in zip(native, graph, strict=True):
        assert np.array_equal(one, other)
    few = fitted(t.encode("kind", unknown="code"), ["red", "green"], "kind")
    native, graph = (dataset(texts, batch_size=16, columns=["kind"], transforms=[few], engine=e) for e in ENGINES)
    for one, other in zip(native, graph, strict=True):
        assert np.array_equal(one, other)


@pytest.mark.parametrize("settings", [{"form": "NFC"}, {"form": "none", "strip_accents": True}])
def test_unicode_forms_are_refused_by_the_graph(texts: Path, settings: dict[str, Any]) -> None:
    chain = [t.clean(**settings), fitted(t.tokenise(length=8))]
    with pytest.raises(ValueError, match='^engine must be "native" for clean'):
        dataset(texts, batch_size=16, columns=["text"], transforms=chain, engine="graph")


@pytest.mark.parametrize("engine", ENGINES)
def test_sparse_features_are_sparse_tensors_or_dense_on_request(texts: Path, engine: str) -> None:
    settings: dict[str, Any] = {"batch_size": 16, "columns": ["tfidf", "label"], "engine": engine}
    sparse = dataset(texts, **settings)
    dense = dataset(texts, layout=[Dense("tfidf")], **settings)
    assert sparse.element_spec[0] == tf.SparseTensorSpec([None, 300], tf.float32)
    assert dense.element_spec[0] == tf.TensorSpec([None, 300], tf.float32)
    ours = bushel.batches(bushel.open(texts)["train"], batch_size=16)
    for batch, (x, _), (full, _) in zip(ours, sparse, dense, strict=True):
        assert np.array_equal(batch["tfidf"].indices, x.indices)
        assert np.array_equal(batch["tfidf"].values, x.values)
        assert batch["tfidf"].shape == tuple(x.dense_shape)
        assert np.array_equal(batch["tfidf"].to_dense(), full)


def test_a_sparse_feature_parses_by_hand(texts: Path) -> None:
    data = bushel.open(texts)["train"]
    records = [record.numpy() for record in tf.data.TFRecordDataset([str(path) for path in data.paths]).take(20)]
    parsed = parse_fn(data.schema, ["tfidf"])(records)["tfidf"]
    assert np.array_equal(tf.sparse.to_dense(parsed), data[:20]["tfidf"].to_dense())
    one = parse_fn(data.schema, ["tfidf"])(records[0])["tfidf"]
    assert np.array_equal(tf.sparse.to_dense(one), data[0]["tfidf"].to_dense())


def test_a_model_learns_from_sparse_tensors(texts: Path) -> None:
    import keras

    model = keras.Sequential([keras.Input([300], sparse=True), keras.layers.Dense(4)])
    model.compile("adam", keras.losses.SparseCategoricalCrossentropy(from_logits=True))
    made = dataset(texts, batch_size=16, columns=["tfidf", "label"], order=Order(shuffle=True))
    assert np.isfinite(model.fit(made, verbose=0, shuffle=False).history["loss"][0])


@pytest.mark.parametrize("unit", ["word", "whitespace", "character"])
@pytest.mark.parametrize("cleaning", [{"strip_control": True}, {"lower": True}, {"lower": True, "strip_control": True}])
def test_a_keras_layer_gives_the_same_ids(unit: Any, cleaning: dict[str, Any]) -> None:
    if unit == "character" and not cleaning.get("strip_control"):
        with pytest.raises(ValueError, match="no token that ends with NUL"):
            text_vectorization(chained(unit, cleaning))
        return
    chain = chained(unit, cleaning, length=20)
    column: dict[str, Any] = {"text": BytesColumn.of(TEXTS)}
    for step in chain:
        column = step.apply_columns(column)
    layer = text_vectorization(chain)
    assert np.array_equal(layer(tf.constant(TEXTS)), column["text"])
    assert layer.vocabulary_size() == len(chain[-1].fitted)


def test_a_layer_without_a_length_is_ragged() -> None:
    transform = fitted(t.tokenise(size=250))
    expected = transform.apply_columns({"text": BytesColumn.of(TEXTS)})["text"].to_list()
    assert text_vectorization(transform)(tf.constant(TEXTS)).to_list() == expected


def test_words_that_keras_reserves_are_words_like_others() -> None:
    transform = fitted(t.tokenise(unit="whitespace", length=4), ["[UNK] [UNK] [MASK] a"])
    ids = transform.apply({"text": "[UNK] a b"}, t.Draw(0, 0, 0))["text"].tolist()
    assert ids == [2, 4, 1, 0]
    assert text_vectorization(transform)(tf.constant(["[UNK] a b"])).numpy().tolist() == [ids]


def test_a_model_with_the_layer_is_saved_and_loaded(tmp_path: Path) -> None:
    import keras

    transform = fitted(t.tokenise(size=250, length=20))
    layer = text_vectorization([t.clean(form="none", lower=True), transform])
    model = keras.Sequential([keras.Input([], dtype="string"), layer, keras.layers.Embedding(250, 4)])
    model.save(tmp_path / "model.keras")
    again = keras.models.load_model(tmp_path / "model.keras", custom_objects=keras_objects())
    assert np.array_equal(again.layers[0](tf.constant(TEXTS)), layer(tf.constant(TEXTS)))
    assert np.array_equal(again(tf.constant(TEXTS)), model(tf.constant(TEXTS)))


@pytest.mark.parametrize(
    ("chain", "what"),
    [
        ([t.clean(), t.tokenise()], "TensorFlow has no ops for Unicode forms"),
        ([t.tokenise(unit="byte")], "got 'byte'"),
        ([t.clean(form="none")], "must hold a tokenise of 'text'"),
        ([t.hash_ngrams(), t.tokenise()], "must only clean before they tokenise"),
    ],
)
def test_what_no_layer_can_do_is_said(chain: list[Any], what: str) -> None:
    with pytest.raises(ValueError, match=what):
        text_vectorization(chain)
