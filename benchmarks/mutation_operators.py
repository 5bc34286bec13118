"""Faults to put into correct pipeline scripts: one operator for each way in which real pipelines went wrong.

Each operator yields mutants: the changed source, and the lines at which a reader would point. The row of FAILURES.md,
or the sentence of the issue, that an operator follows is named beside it. Written before the rules that must find them.
"""

from __future__ import annotations

import ast
import re
from collections.abc import Callable, Iterator
from dataclasses import dataclass


@dataclass(frozen=True)
class Mutant:
    operator: str
    source: str
    lines: frozenset[int]  # any of them is the right place


@dataclass(frozen=True)
class Operator:
    name: str
    follows: str
    mutate: Callable[[Script], Iterator[Change]]
    seen_when_run: bool = True  # False: the fault is one of time, memory or files, and leaves the batches as they were


@dataclass(frozen=True)
class Edit:
    start: int
    end: int
    text: str


@dataclass(frozen=True)
class Change:
    edits: tuple[Edit, ...]
    at: tuple[int, ...]  # offsets in the old source whose lines are the right place


class Script:
    """The source of one script, and where its parts are."""

    def __init__(self, source: str) -> None:
        self.source = source
        self.tree = ast.parse(source)
        self.starts = [0]
        for line in source.encode().splitlines(keepends=True):
            self.starts.append(self.starts[-1] + len(line))
        self.parents = {child: node for node in ast.walk(self.tree) for child in ast.iter_child_nodes(node)}

    def start(self, node: ast.AST) -> int:
        return self.starts[node.lineno - 1] + node.col_offset

    def end(self, node: ast.AST) -> int:
        return self.starts[node.end_lineno - 1] + node.end_col_offset

    def text(self, node: ast.AST) -> str:
        return self.source[self.start(node) : self.end(node)]

    def calls(self, *names: str) -> Iterator[ast.Call]:
        """Calls whose function's last name is one of `names`, in the order of the source."""
        found = [n for n in ast.walk(self.tree) if isinstance(n, ast.Call) and last_name(n.func) in names]
        yield from sorted(found, key=self.end)

    def link(self, call: ast.Call) -> Edit:
        """What removes `.name(...)` from a chain."""
        return Edit(self.end(call.func.value), self.end(call), "")

    def chain(self, call: ast.Call) -> list[ast.Call]:
        """The calls of a chain up to `call`, the first one first."""
        links = []
        node: ast.AST = call
        while isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute):
            links.append(node)
            node = node.func.value
        return links[::-1]

    def whole_chain(self, call: ast.Call) -> list[ast.Call]:
        """The calls of the whole chain in which `call` stands."""
        node: ast.AST = call
        while isinstance(attribute := self.parents.get(node), ast.Attribute) and isinstance(
            outer := self.parents.get(attribute), ast.Call
        ):
            node = outer
        assert isinstance(node, ast.Call)
        return self.chain(node)

    def statement(self, node: ast.AST) -> ast.stmt:
        while not isinstance(node, ast.stmt):
            node = self.parents[node]
        return node

    def dataset_links(self, name: str) -> Iterator[ast.Call]:
        """Links `.name(...)` of datasets: not of layers, modules or Python's own random."""
        for call in self.calls(name):
            if isinstance(call.func, ast.Attribute) and last_name(call.func.value) not in ("random", "np", "layers"):
                yield call

    def line_end(self, offset: int) -> int:
        return self.source.index("\n", offset)

    def indent(self, statement: ast.stmt) -> str:
        return " " * statement.col_offset


def last_name(node: ast.AST) -> str:
    if isinstance(node, ast.Attribute):
        return node.attr
    return node.id if isinstance(node, ast.Name) else ""


def keyword(call: ast.Call, name: str) -> ast.keyword | None:
    return next((k for k in call.keywords if k.arg == name), None)


def without_keyword(script: Script, call: ast.Call, name: str) -> Edit:
    """What removes one keyword and the comma before or after it."""
    found = keyword(call, name)
    start, end = script.start(found), script.end(found)
    before = re.search(r",\s*$", script.source[:start])
    if before:
        return Edit(before.start(), end, "")
    comma = re.match(r"\s*,\s*", script.source[end:])
    return Edit(start, end + (comma.end() if comma else 0), "")


def replace(script: Script, node: ast.AST, text: str) -> Edit:
    return Edit(script.start(node), script.end(node), text)


def insert(at: int, text: str) -> Edit:
    return Edit(at, at, text)


def is_for_training(script: Script, call: ast.Call) -> bool:
    """Whether a chain shuffles, or is assigned to a name that says train."""
    names = {last_name(link.func) for link in script.whole_chain(call)}
    return "shuffle" in names or "train" in script.text(script.statement(call)).split("=")[0]


# Order of operations


def shuffle_after_batch(script: Script) -> Iterator[Change]:
    for batch in script.dataset_links("batch"):
        before = [link for link in script.chain(batch) if last_name(link.func) == "shuffle"]
        if before:
            moved = script.link(before[-1])
            text = script.source[moved.start : moved.end]
            yield Change((moved, insert(script.end(batch), text)), (script.end(batch) - 1,))
        else:
            yield from _swap_statements(script, batch, "shuffle")


def _swap_statements(script: Script, later: ast.Call, name: str) -> Iterator[Change]:
    """Move `x = x.name(...)` after the statement of `later`, where both stand in one block."""
    here = script.statement(later)
    block = next((b for b in _blocks(script.tree) if here in b), [])
    for statement in block[: block.index(here)] if block else []:
        call = statement.value if isinstance(statement, ast.Assign) else None
        if not (isinstance(call, ast.Call) and last_name(call.func) == name and isinstance(here, ast.Assign)):
            continue
        if ast.unparse(statement.targets[0]) != ast.unparse(here.targets[0]):
            continue
        start, end = script.start(statement), script.line_end(script.end(statement)) + 1
        text = f"{script.indent(statement)}{script.text(statement)}\n"
        target = script.line_end(script.end(here)) + 1
        yield Change((Edit(start - statement.col_offset, end, ""), insert(target, text)), (target,))


def _blocks(tree: ast.AST) -> Iterator[list[ast.stmt]]:
    for node in ast.walk(tree):
        for field in ("body", "orelse"):
            block = getattr(node, field, None)
            if isinstance(block, list):
                yield block


def repeat_before_shuffle(script: Script) -> Iterator[Change]:
    for shuffle in script.dataset_links("shuffle"):
        at = script.end(shuffle.func.value)
        yield Change((insert(at, ".repeat()"),), (at, script.end(shuffle) - 1))


def shuffle_thrown_away(script: Script) -> Iterator[Change]:
    for shuffle in script.dataset_links("shuffle"):
        statement = script.statement(shuffle)
        if not (isinstance(statement, ast.Assign) and isinstance(statement.targets[0], ast.Name)):
            continue
        removed = script.link(shuffle)
        end = script.line_end(script.end(statement))
        text = (
            f"\n{script.indent(statement)}{statement.targets[0].id}{script.source[removed.start : removed.end].strip()}"
        )
        if isinstance(statement.value, ast.Call) and statement.value is shuffle:
            yield Change(
                (Edit(script.start(statement), script.start(statement.value), ""),), (script.start(statement),)
            )
        else:
            yield Change((removed, insert(end, text)), (end + 1,))


def shuffle_then_split(script: Script) -> Iterator[Change]:
    for shuffle in script.dataset_links("shuffle"):
        if keyword(shuffle, "reshuffle_each_iteration"):
            edit = without_keyword(script, shuffle, "reshuffle_each_iteration")
            users = [*script.calls("take"), *script.calls("skip")]
            yield Change((edit,), (script.start(shuffle), *(script.end(user) - 1 for user in users)))


def random_map_before_cache(script: Script) -> Iterator[Change]:
    for augment in script.dataset_links("map"):
        if "augment" not in script.text(augment.args[0]).lower():
            continue
        caches = [link for link in script.chain(augment) if last_name(link.func) == "cache"]
        edits = [insert(script.end(augment), ".cache()")] + [script.link(cache) for cache in caches]
        yield Change(tuple(edits), (script.end(augment) - 1, script.start(augment.args[0])))


def shuffle_before_cache(script: Script) -> Iterator[Change]:
    for shuffle in script.dataset_links("shuffle"):
        following = {last_name(link.func) for link in script.whole_chain(shuffle)[len(script.chain(shuffle)) :]}
        if keyword(shuffle, "reshuffle_each_iteration") or "cache" in following:
            continue
        caches = [link for link in script.chain(shuffle) if last_name(link.func) == "cache"]
        edits = [insert(script.end(shuffle), ".cache()")] + [script.link(cache) for cache in caches]
        yield Change(tuple(edits), (script.end(shuffle) - 1,))


def augmented_validation(script: Script) -> Iterator[Change]:
    augment = next(
        (m.args[0] for m in script.dataset_links("map") if "augment" in script.text(m.args[0]).lower()), None
    )
    for batch in script.dataset_links("batch"):
        statement = script.statement(batch)
        where = next((f for f in ast.walk(script.tree) if isinstance(f, ast.FunctionDef) and statement in f.body), None)
        said = script.text(statement) + (where.name if where else "")
        if augment is None or not re.search(r"\bval|_val", said) or "train" in said:
            continue
        at = script.end(batch)
        yield Change((insert(at, f".map({script.text(augment)})"),), (at, script.line_end(at)))


def batched_twice(script: Script) -> Iterator[Change]:
    for batch in script.dataset_links("batch"):
        if "adapt" not in script.text(script.statement(batch)):
            at = script.end(batch)
            yield Change((insert(at, ".batch(8)"),), (at,))


def never_batched(script: Script) -> Iterator[Change]:
    for batch in script.dataset_links("batch"):
        if "adapt" in script.text(script.statement(batch)) or "parse_example" in script.source:
            continue
        statement = script.statement(batch)
        fits = [script.start(fit) for fit in script.calls("fit")]
        if isinstance(statement, ast.Assign) and statement.value is batch and isinstance(batch.func.value, ast.Name):
            whole = Edit(script.start(statement), script.end(statement), "pass")
            yield Change((whole,), (script.start(statement), *_following(script, statement), *fits))
        else:
            yield Change((script.link(batch),), (script.start(batch), script.end(batch), *fits))


def _following(script: Script, statement: ast.stmt) -> tuple[int, ...]:
    at = script.line_end(script.end(statement)) + 1
    return (at,) if at < len(script.source) else ()


def batch_of_one(script: Script) -> Iterator[Change]:
    for batch in script.dataset_links("batch"):
        if is_for_training(script, batch) and batch.args and "adapt" not in script.text(script.statement(batch)):
            yield Change((replace(script, batch.args[0], "1"),), (script.start(batch.args[0]),))


def batch_larger_than_data(script: Script) -> Iterator[Change]:
    for batch in script.dataset_links("batch"):
        if is_for_training(script, batch) and batch.args and "adapt" not in script.text(script.statement(batch)):
            edit = Edit(script.start(batch.args[0]), script.end(batch) - 1, "100_000, drop_remainder=True")
            yield Change((edit,), (script.start(batch.args[0]),))


def never_shuffled(script: Script) -> Iterator[Change]:
    shuffles = list(script.dataset_links("shuffle"))
    if len(shuffles) != 1 or keyword(shuffles[0], "reshuffle_each_iteration") or "sensors" not in script.source:
        return
    shuffle, fits = shuffles[0], [script.start(fit) for fit in script.calls("fit")]
    loops = [script.start(n) for n in ast.walk(script.tree) if isinstance(n, ast.For)]
    opened = [script.start(call) for call in script.calls("TFRecordDataset")]
    statement = script.statement(shuffle)
    if isinstance(statement, ast.Assign) and statement.value is shuffle and isinstance(shuffle.func.value, ast.Name):
        edit = Edit(script.start(statement), script.end(statement), "pass")
    else:
        edit = script.link(shuffle)
    yield Change((edit,), (script.start(statement), *fits, *loops, *opened))


def buffer_too_small(script: Script) -> Iterator[Change]:
    for shuffle in script.dataset_links("shuffle"):
        size = shuffle.args[0] if shuffle.args else keyword(shuffle, "buffer_size").value
        if "sensors" in script.source and not keyword(shuffle, "reshuffle_each_iteration"):
            yield Change((replace(script, size, "50"),), (script.start(size),))
        yield Change((replace(script, size, "1"),), (script.start(size),))


def shuffled_prediction(script: Script) -> Iterator[Change]:
    for predict in script.calls("predict"):
        name = script.text(predict.args[0])
        for node in ast.walk(script.tree):
            if isinstance(node, ast.Assign) and ast.unparse(node.targets[0]) == name:
                at = script.end(node.value)
                yield Change((insert(at, ".shuffle(500)"),), (at, script.start(predict)))


def short_validation(script: Script) -> Iterator[Change]:
    for fit in script.calls("fit"):
        if keyword(fit, "validation_data"):
            yield Change(
                (insert(script.end(fit) - 1, ", validation_steps=1"),), (script.start(fit), script.end(fit) - 1)
            )


# What the data really holds


def glob_handed_to_reader(script: Script) -> Iterator[Change]:
    for call in script.calls("TFRecordDataset"):
        inner = call.args[0] if call.args else None
        if isinstance(inner, ast.Call) and last_name(inner.func) == "sorted":
            inner = inner.args[0]
        if isinstance(inner, ast.Call) and last_name(inner.func) == "glob":
            yield Change((replace(script, call.args[0], script.text(inner.args[0])),), (script.start(call),))
    for call in script.calls("glob", "list_files"):
        statement = script.statement(call)
        if isinstance(statement, ast.Assign) and statement.value is call and "interleave" not in script.source:
            reader = next(script.calls("TFRecordDataset"))
            yield Change((replace(script, call, script.text(call.args[0])),), (script.start(reader),))


def pattern_matches_nothing(script: Script) -> Iterator[Change]:
    for node in ast.walk(script.tree):
        if isinstance(node, ast.Constant) and isinstance(node.value, str) and "train-" in node.value:
            start = script.start(node)
            readers = [script.start(c) for c in script.calls("TFRecordDataset", "list_files", "glob")]
            for wrong in ("trian-", " train-"):
                text = script.text(node).replace("train-", wrong, 1)
                yield Change((replace(script, node, text),), (start, *readers))


def compression_not_said(script: Script) -> Iterator[Change]:
    for call in script.calls("TFRecordDataset"):
        if keyword(call, "compression_type"):
            yield Change((without_keyword(script, call, "compression_type"),), (script.start(call),))


def compression_not_there(script: Script) -> Iterator[Change]:
    for call in script.calls("TFRecordDataset"):
        if call.args and not keyword(call, "compression_type"):
            yield Change((insert(script.end(call) - 1, ', compression_type="GZIP"'),), (script.start(call),))


def _specs(script: Script) -> Iterator[tuple[ast.Constant, ast.Call]]:
    for node in ast.walk(script.tree):
        if isinstance(node, ast.Dict):
            for key, value in zip(node.keys, node.values, strict=True):
                if isinstance(value, ast.Call) and last_name(value.func) == "FixedLenFeature":
                    yield key, value


def feature_renamed(script: Script) -> Iterator[Change]:
    for key, _ in _specs(script):
        name = key.value
        uses = [n for n in ast.walk(script.tree) if isinstance(n, ast.Constant) and n.value == name and n is not key]
        edits = [replace(script, node, repr(f"{name}s")) for node in (key, *uses)]
        yield Change(tuple(edits), (script.start(key),))


def feature_of_another_type(script: Script) -> Iterator[Change]:
    other = {"string": "tf.int64", "int64": "tf.float32", "float32": "tf.int64"}
    for key, spec in _specs(script):
        dtype = spec.args[1]
        yield Change((replace(script, dtype, other[last_name(dtype)]),), (script.start(key), script.start(dtype)))


def feature_of_another_shape(script: Script) -> Iterator[Change]:
    for key, spec in _specs(script):
        shape = "[32]" if script.text(spec.args[0]) == "[64]" else "[2]"
        yield Change((replace(script, spec.args[0], shape),), (script.start(key), script.start(spec.args[0])))


def feature_hidden_by_default(script: Script) -> Iterator[Change]:
    for key, spec in _specs(script):
        if last_name(spec.args[1]) != "int64":
            continue
        name = key.value
        uses = [n for n in ast.walk(script.tree) if isinstance(n, ast.Constant) and n.value == name and n is not key]
        edits = [replace(script, node, repr(f"{name}_id")) for node in (key, *uses)]
        yield Change((*edits, insert(script.end(spec) - 1, ", default_value=0")), (script.start(key),))


def sparse_where_dense(script: Script) -> Iterator[Change]:
    for key, spec in _specs(script):
        if last_name(spec.args[1]) == "float32":
            text = f"tf.io.VarLenFeature({script.text(spec.args[1])})"
            yield Change((replace(script, spec, text),), (script.start(key),))


def raw_dtype(script: Script) -> Iterator[Change]:
    for call in script.calls("decode_raw"):
        for dtype in ("tf.float32", "tf.int16"):
            yield Change((replace(script, call.args[1], dtype),), (script.start(call), script.start(call.args[1])))


def reshape_constant(script: Script) -> Iterator[Change]:
    for call in script.calls("reshape"):
        if "28" in script.text(call.args[1]):
            text = script.text(call.args[1]).replace("28", "32")
            yield Change((replace(script, call.args[1], text),), (script.start(call), script.start(call.args[1])))


def raw_decoding_of_jpeg(script: Script) -> Iterator[Change]:
    for call in script.calls("decode_jpeg"):
        text = f"tf.io.decode_raw({script.text(call.args[0])}, tf.uint8)"
        yield Change((replace(script, call, text),), (script.start(call),))


def jpeg_decoding_of_raw(script: Script) -> Iterator[Change]:
    for call in script.calls("decode_raw"):
        yield Change((replace(script, call, f"tf.io.decode_jpeg({script.text(call.args[0])})"),), (script.start(call),))


# Values


def converted_after_resize(script: Script) -> Iterator[Change]:
    for convert in script.calls("convert_image_dtype"):
        for resize in script.calls("resize"):
            one, two = script.statement(convert), script.statement(resize)
            if one is not two and one.end_lineno + 1 == two.lineno:
                edits = (replace(script, one, script.text(two)), replace(script, two, script.text(one)))
                yield Change(edits, (script.start(two),))


def scaled_twice(script: Script) -> Iterator[Change]:
    for node in ast.walk(script.tree):
        if isinstance(node, ast.BinOp) and isinstance(node.op, ast.Div) and script.text(node.right) == "255.0":
            yield Change((insert(script.end(node), " / 255.0"),), (script.start(node), script.end(node)))
    for call in script.calls("convert_image_dtype"):
        yield Change((insert(script.end(call), " / 255.0"),), (script.start(call), script.end(call)))


def scaled_before_rescaling(script: Script) -> Iterator[Change]:
    for layer in script.calls("Rescaling"):
        for call in script.calls("ensure_shape"):
            edit = replace(script, call.args[0], f"tf.cast({script.text(call.args[0])}, tf.float32) / 255.0")
            yield Change((edit,), (script.start(call), script.start(layer)))


def float64_images(script: Script) -> Iterator[Change]:
    for call in script.calls("cast"):
        yield Change((replace(script, call.args[1], "tf.float64"),), (script.start(call), script.start(call.args[1])))


# Labels, losses and steps


def logits_taken_for_probabilities(script: Script) -> Iterator[Change]:
    for call in script.calls("SparseCategoricalCrossentropy"):
        if keyword(call, "from_logits"):
            compiles = [script.start(c) for c in script.calls("compile")]
            yield Change((without_keyword(script, call, "from_logits"),), (script.start(call), *compiles))


def probabilities_taken_for_logits(script: Script) -> Iterator[Change]:
    for node in ast.walk(script.tree):
        if isinstance(node, ast.Constant) and node.value == "sparse_categorical_crossentropy":
            text = "tf.keras.losses.SparseCategoricalCrossentropy(from_logits=True)"
            if "import tensorflow as tf" in script.source:
                yield Change((replace(script, node, text),), (script.start(node),))
    for call in script.calls("SparseCategoricalCrossentropy"):
        if not call.keywords:
            yield Change((insert(script.end(call) - 1, "from_logits=True"),), (script.start(call),))


def loss_for_other_labels(script: Script) -> Iterator[Change]:
    swapped = {
        "sparse_categorical_crossentropy": "categorical_crossentropy",
        "categorical_crossentropy": "sparse_categorical_crossentropy",
    }
    for node in ast.walk(script.tree):
        if isinstance(node, ast.Constant) and node.value in swapped:
            yield Change((replace(script, node, repr(swapped[node.value])),), (script.start(node),))
    for call in script.calls("SparseCategoricalCrossentropy"):
        text = script.text(call.func).replace("SparseCategorical", "Categorical")
        compiles = [script.start(c) for c in script.calls("compile")]
        yield Change((replace(script, call.func, text),), (script.start(call), *compiles))


def head_too_small(script: Script) -> Iterator[Change]:
    for call in script.calls("Dense"):
        size = call.args[0]
        if isinstance(size, ast.Constant) and size.value in (4, 5, 10):
            yield Change((replace(script, size, str(size.value - 1)),), (script.start(call),))


def step_without_training(script: Script) -> Iterator[Change]:
    for call in script.calls("model", "augmentation", "flip"):
        value = keyword(call, "training")
        if value and isinstance(value.value, ast.Constant) and value.value.value is True:
            yield Change((without_keyword(script, call, "training"),), (script.start(call),))


def never_adapted(script: Script) -> Iterator[Change]:
    for call in script.calls("adapt"):
        statement = script.statement(call)
        made = [script.start(c) for c in script.calls("Normalization", "TextVectorization")]
        uses = [script.start(c) for c in script.calls(last_name(call.func.value))]
        yield Change((replace(script, statement, "pass"),), (*made, *uses, script.start(statement)))


def adapted_in_map(script: Script) -> Iterator[Change]:
    for call in script.calls("adapt"):
        layer = script.text(call.func.value)
        for function in ast.walk(script.tree):
            if isinstance(function, ast.FunctionDef) and function.name in ("to_ids", "to_pair"):
                first = function.body[0]
                argument = function.args.args[0].arg
                text = f"{layer}.adapt({argument})\n{script.indent(first)}"
                if layer == "vectorize":
                    yield Change((insert(script.start(first), text),), (script.start(first),))


def adapted_to_validation(script: Script) -> Iterator[Change]:
    for call in script.calls("adapt"):
        data = script.text(call.args[0])
        if "train" in data:
            yield Change((replace(script, call.args[0], data.replace("train", "val")),), (script.start(call),))


def removed_from_keras(script: Script) -> Iterator[Change]:
    for fit in script.calls("fit"):
        edit = Edit(script.end(fit.func) - 3, script.end(fit.func), "fit_generator")
        yield Change((edit,), (script.start(fit), script.end(fit.func)))
    for call in script.calls("Adam", "SGD"):
        if rate := keyword(call, "learning_rate"):
            yield Change(
                (Edit(script.start(rate), script.start(rate) + len("learning_rate"), "lr"),), (script.start(rate),)
            )


# Writing


def writer_not_closed(script: Script) -> Iterator[Change]:
    for node in ast.walk(script.tree):
        if isinstance(node, ast.With) and "TFRecordWriter" in script.text(node.items[0].context_expr):
            item = node.items[0]
            head = f"{script.text(item.optional_vars)} = {script.text(item.context_expr)}\n"
            body = script.source[script.starts[node.body[0].lineno - 1] : script.end(node)]
            dedented = "\n".join(line.removeprefix("    ") for line in body.split("\n"))
            yield Change((Edit(script.start(node), script.end(node), head + dedented),), (script.start(node),))
        is_close = isinstance(node, ast.Expr) and isinstance(node.value, ast.Call)
        if is_close and last_name(node.value.func) == "close":
            made = [script.start(call) for call in script.calls("TFRecordWriter")]
            yield Change((replace(script, node, "pass"),), (*made,))


def copy_shuffled(script: Script) -> Iterator[Change]:
    for call in script.calls("shuffle"):
        if last_name(call.func.value) == "random":
            inner = script.text(call.args[0])
            yield Change((replace(script, call.args[0], f"list({inner})"),), (script.start(call),))


def classes_in_any_order(script: Script) -> Iterator[Change]:
    for call in script.calls("sorted"):
        if isinstance(call.args[0], ast.SetComp):
            users = [script.start(c) for c in script.calls("enumerate")]
            yield Change((replace(script, call, script.text(call.args[0])),), (script.start(call), *users))


def all_images_in_memory(script: Script) -> Iterator[Change]:
    for node in ast.walk(script.tree):
        if isinstance(node, ast.For) and "writer.write(to_example(" in script.text(node):
            indent = script.indent(node)
            text = (
                "import multiprocessing\n"
                f"{indent}pool = multiprocessing.Pool()\n"
                f"{indent}examples = pool.starmap(to_example, [(path, class_ids) for path in paths])\n"
                f"{indent}for example in examples:\n"
                f"{indent}    writer.write(example.SerializeToString())"
            )
            yield Change((replace(script, node, text),), (script.line_end(script.start(node)) + 1,))


def fitted_before_split(script: Script) -> Iterator[Change]:
    for call in script.calls("train_test_split"):
        split = script.statement(call)
        yield Change(
            (
                insert(script.start(split), 'vectors = TfidfVectorizer().fit_transform(table["text"])\n'),
                replace(script, call.args[0], "vectors"),
            ),
            (script.start(split),),
        )
        balance = 'text, label = RandomOverSampler().fit_resample(table[["text"]], table["label"])\n'
        yield Change(
            (
                insert(script.start(split), balance),
                Edit(script.start(call.args[0]), script.end(call.args[1]), "text, label"),
            ),
            (script.start(split),),
        )


def dense_vectors_written(script: Script) -> Iterator[Change]:
    for call in script.calls("tocsr"):
        edit = Edit(script.end(call.func.value), script.end(call), ".toarray()")
        yield Change((edit,), (script.start(call), *(script.start(c) for c in script.calls("write"))))


def written_in_training_loop(script: Script) -> Iterator[Change]:
    for node in ast.walk(script.tree):
        if isinstance(node, ast.For) and isinstance(node.body[0], ast.For) and "train_step" in script.text(node):
            first = node.body[0].body[0]
            text = (
                'with tf.io.TFRecordWriter("seen.tfrecord") as writer:\n'
                f"{script.indent(first)}    writer.write(tf.io.serialize_tensor(x).numpy())\n{script.indent(first)}"
            )
            yield Change((insert(script.start(first), text),), (script.start(first),))


# Speed


def map_not_parallel(script: Script) -> Iterator[Change]:
    for call in script.dataset_links("map"):
        if keyword(call, "num_parallel_calls"):
            edit = without_keyword(script, call, "num_parallel_calls")
            yield Change((edit,), (script.start(call), script.end(call.func)))


def not_prefetched(script: Script) -> Iterator[Change]:
    for call in script.dataset_links("prefetch"):
        if not is_for_training(script, call):
            continue
        fits = [script.start(fit) for fit in script.calls("fit")]
        loops = [script.start(n) for n in ast.walk(script.tree) if isinstance(n, ast.For)]
        statement = script.statement(call)
        at = (script.start(call), script.end(call.func.value) - 1, *fits, *loops)
        if isinstance(statement, ast.Assign) and statement.value is call and isinstance(call.func.value, ast.Name):
            yield Change((Edit(script.start(statement), script.end(statement), "pass"),), at)
        else:
            yield Change((script.link(call),), at)


def parsed_before_batching(script: Script) -> Iterator[Change]:
    for parse in script.calls("parse_example"):
        batches = [b for b in script.dataset_links("batch") if b.func.value is not None]
        maps = [
            m
            for m in script.dataset_links("map")
            if "parse" in script.text(m.args[0]) or "to_pair" in script.text(m.args[0])
        ]
        for batch, mapped in zip(batches, maps, strict=False):
            chain = script.chain(mapped)
            if batch not in chain:
                continue
            moved = script.link(mapped)
            edits = (
                Edit(script.start(parse.func), script.end(parse.func), "tf.io.parse_single_example"),
                moved,
                insert(script.end(batch.func.value), script.source[moved.start : moved.end]),
            )
            yield Change(edits, (script.start(batch), script.end(batch.func.value), script.start(parse)))


def decoded_before_shuffling(script: Script) -> Iterator[Change]:
    for mapped in script.dataset_links("map"):
        names = [last_name(link.func) for link in script.chain(mapped)]
        before = [link for link in script.chain(mapped) if last_name(link.func) == "shuffle"]
        if before and "batch" not in names and "cache" not in names:
            moved = script.link(before[-1])
            text = script.source[moved.start : moved.end]
            yield Change((moved, insert(script.end(mapped), text)), (script.end(mapped) - 1, script.end(mapped)))


OPERATORS = [
    Operator("shuffle-after-batch", "S05", shuffle_after_batch),
    Operator("repeat-before-shuffle", "S06", repeat_before_shuffle),
    Operator("shuffle-thrown-away", "S04", shuffle_thrown_away),
    Operator("shuffle-then-split", "S07", shuffle_then_split),
    Operator("random-map-before-cache", "S08", random_map_before_cache),
    Operator("shuffle-before-cache", "S09", shuffle_before_cache),
    Operator("augmented-validation", "S11", augmented_validation),
    Operator("batched-twice", "L28", batched_twice),
    Operator("never-batched", "L27", never_batched),
    Operator("batch-of-one", "S33", batch_of_one),
    Operator("batch-larger-than-data", "L30", batch_larger_than_data),
    Operator("never-shuffled", "S01, S02", never_shuffled),
    Operator("buffer-too-small", "S02, S36", buffer_too_small),
    Operator("shuffled-prediction", "S19", shuffled_prediction),
    Operator("short-validation", "S34", short_validation, seen_when_run=False),
    Operator("glob-handed-to-reader", "L10", glob_handed_to_reader),
    Operator("pattern-matches-nothing", "L08, L09", pattern_matches_nothing),
    Operator("compression-not-said", "L02", compression_not_said),
    Operator("compression-not-there", "L02", compression_not_there),
    Operator("feature-renamed", "L14", feature_renamed),
    Operator("feature-of-another-type", "L15", feature_of_another_type),
    Operator("feature-of-another-shape", "L16", feature_of_another_shape),
    Operator("feature-hidden-by-default", "S32", feature_hidden_by_default),
    Operator("sparse-where-dense", "L19", sparse_where_dense),
    Operator("raw-dtype", "L20", raw_dtype),
    Operator("reshape-constant", "L20, L22", reshape_constant),
    Operator("raw-decoding-of-jpeg", "L21", raw_decoding_of_jpeg),
    Operator("jpeg-decoding-of-raw", "L23", jpeg_decoding_of_raw),
    Operator("converted-after-resize", "S14", converted_after_resize),
    Operator("scaled-twice", "S15", scaled_twice),
    Operator("scaled-before-rescaling", "S13", scaled_before_rescaling),
    Operator("float64-images", "images stored as float64", float64_images),
    Operator("logits-taken-for-probabilities", "S17", logits_taken_for_probabilities, seen_when_run=False),
    Operator("probabilities-taken-for-logits", "S17", probabilities_taken_for_logits, seen_when_run=False),
    Operator("loss-for-other-labels", "L29", loss_for_other_labels, seen_when_run=False),
    Operator("head-too-small", "L24", head_too_small, seen_when_run=False),
    Operator("step-without-training", "S12", step_without_training, seen_when_run=False),
    Operator("never-adapted", "S28", never_adapted, seen_when_run=False),
    Operator("adapted-in-map", "adapted inside map", adapted_in_map, seen_when_run=False),
    Operator("adapted-to-validation", "S26", adapted_to_validation, seen_when_run=False),
    Operator("removed-from-keras", "calls that Keras 3 removed", removed_from_keras, seen_when_run=False),
    Operator("writer-not-closed", "L03", writer_not_closed, seen_when_run=False),
    Operator("copy-shuffled", "S01", copy_shuffled, seen_when_run=False),
    Operator("classes-in-any-order", "S21", classes_in_any_order, seen_when_run=False),
    Operator("all-images-in-memory", "13", all_images_in_memory, seen_when_run=False),
    Operator("fitted-before-split", "fit_transform before the split", fitted_before_split, seen_when_run=False),
    Operator("dense-vectors-written", "dense .toarray() written", dense_vectors_written, seen_when_run=False),
    Operator("written-in-training-loop", "written in a loop", written_in_training_loop, seen_when_run=False),
    Operator("map-not-parallel", "speed", map_not_parallel, seen_when_run=False),
    Operator("not-prefetched", "speed", not_prefetched, seen_when_run=False),
    Operator("parsed-before-batching", "speed", parsed_before_batching, seen_when_run=False),
    Operator("decoded-before-shuffling", "speed", decoded_before_shuffling, seen_when_run=False),
]


def mutants(source: str) -> Iterator[Mutant]:
    """Every mutant of a script that is still Python."""
    script = Script(source)
    for operator in OPERATORS:
        seen = set()
        for change in operator.mutate(script):
            mutated, lines = apply(source, change)
            try:
                ast.parse(mutated)
            except SyntaxError:
                continue
            if mutated not in seen:
                seen.add(mutated)
                yield Mutant(operator.name, mutated, lines)


def apply(source: str, change: Change) -> tuple[str, frozenset[int]]:
    """The changed source, and the lines of the right places in it."""
    result, shifted, last, length = [], [], 0, 0
    edits = sorted(change.edits, key=lambda edit: (edit.start, edit.end))
    written = []  # where calls and lines that were put in stand
    for edit in edits:
        result += [source[last : edit.start], edit.text]
        length += edit.start - last + len(edit.text)
        last = edit.end
        if edit.text.strip() and (edit.start == edit.end or "\n" in edit.text):
            written.append((length - len(edit.text.lstrip()), length))
    text = "".join([*result, source[last:]])
    for at in change.at:
        moved = at
        for edit in edits:
            if edit.end <= at and not (edit.start == edit.end == at):
                moved += len(edit.text) - (edit.end - edit.start)
            elif edit.start < at < edit.end:
                moved = moved - at + edit.start
        shifted.append(text.count("\n", 0, max(moved, 0)) + 1)
    for start, end in written:
        shifted += range(text.count("\n", 0, start) + 1, text.count("\n", 0, end) + 2)
    return text, frozenset(shifted)
