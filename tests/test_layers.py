"""The listing of src/bushel is the data flow: a room imports only from rooms above its own."""

import ast
import re
import sys
from collections import Counter
from collections.abc import Iterator
from graphlib import CycleError, TopologicalSorter
from pathlib import Path

import pytest

ROOT = Path(__file__).parent.parent
SOURCE = ROOT / "src" / "bushel"

# In the order of the data flow; rooms of one line do not know each other.
ROOMS = [
    ["errors", "spellings"],
    ["printing", "plugins"],
    ["parallel", "local_server"],
    ["storage"],
    ["data"],
    ["pixels"],
    ["records"],
    ["sources", "transforms"],
    ["building"],
    ["reading"],
    ["feeding", "exporting"],
    ["keras"],
    ["tensorflow", "torch", "jax", "grain", "ray", "contract"],
    ["checking"],
    ["training"],
    ["viewing"],
    ["cli"],
    ["__main__"],
]
HEIGHT = {room: height for height, rooms in enumerate(ROOMS) for room in rooms}
FRAMEWORKS = {"tensorflow", "keras", "torch", "jax", "grain", "ray"}
MAY_IMPORT_FRAMEWORKS = FRAMEWORKS | {"contract", "training", "checking"}
NO_BUILDING = FRAMEWORKS - {"ray"} | {"reading", "feeding", "training", "viewing", "checking"}


def modules() -> list[Path]:
    return sorted(path for path in SOURCE.rglob("*.py") if path != SOURCE / "__init__.py")


def room_of(module: Path) -> str:
    return module.relative_to(SOURCE).parts[0].removesuffix(".py")


def imports(module: Path) -> Iterator[str]:
    for node in ast.walk(ast.parse(module.read_text())):
        if isinstance(node, ast.Import):
            yield from (alias.name for alias in node.names)
        elif isinstance(node, ast.ImportFrom):
            assert node.level == 0, f"{module}: imports are absolute"
            yield node.module or ""
            yield from (f"{node.module}.{alias.name}" for alias in node.names)


def name_of(module: Path) -> str:
    return ".".join(["bushel", *module.relative_to(SOURCE).with_suffix("").parts]).removesuffix(".__init__")


def needed(module: Path, names: set[str]) -> set[str]:
    """The modules that one imports, in functions too, but for those that only type checkers see."""
    tree = ast.parse(module.read_text())
    for node in ast.walk(tree):
        if isinstance(node, ast.If) and isinstance(node.test, ast.Name) and node.test.id == "TYPE_CHECKING":
            node.body = []
    found: set[str] = set()
    for node in ast.walk(tree):
        if isinstance(node, ast.Import):
            found |= {alias.name for alias in node.names}
        elif isinstance(node, ast.ImportFrom):
            inner = {f"{node.module}.{alias.name}" for alias in node.names}
            found |= inner & names if inner <= names else {*(inner & names), str(node.module)}
    return (found & names) - {name_of(module)}


def test_no_modules_import_each_other_in_a_circle() -> None:
    names = {name_of(module): module for module in modules()}
    try:
        TopologicalSorter({name: needed(module, set(names)) for name, module in names.items()}).prepare()
    except CycleError as error:
        raise AssertionError(" -> ".join(reversed(error.args[1]))) from None


# Public names that are older than this rule, and adapters whose classes do the same for their framework.
SHARED_NAMES = {"Loader", "Report", "Source", "Sparse"}


def test_a_class_has_a_name_of_its_own() -> None:
    homes: dict[str, list[str]] = {}
    for module in modules():
        for node in ast.parse(module.read_text()).body:
            if isinstance(node, ast.ClassDef) and not node.name.startswith("_"):
                homes.setdefault(node.name, []).append(name_of(module))
    assert {name: found for name, found in homes.items() if len(found) > 1 and name not in SHARED_NAMES} == {}


# Rooms that do the same for another thing: run a build or a training, export a dataset or a run, translate tensors.
SHARED_FILES = {"__init__", "exporting", "run", "splits", "tensors"}


def test_a_module_has_a_file_name_of_its_own() -> None:
    counts = Counter(module.stem for module in modules())
    assert {name for name, count in counts.items() if count > 1} <= SHARED_FILES


def rooms_imported(module: Path) -> set[str]:
    names = [name.split(".") for name in imports(module)]
    return {name[1] for name in names if name[0] == "bushel" and len(name) > 1 and name[1] in HEIGHT}


@pytest.mark.parametrize("module", modules(), ids=lambda path: str(path.relative_to(SOURCE)))
def test_a_room_imports_only_from_rooms_above_its_own(module: Path) -> None:
    room = room_of(module)
    assert room in HEIGHT, f"{room} has no place in the data flow: give it one in ROOMS"
    for imported in rooms_imported(module) - {room}:
        assert HEIGHT[imported] < HEIGHT[room], f"{room} must not import {imported}"


@pytest.mark.parametrize("module", modules(), ids=lambda path: str(path.relative_to(SOURCE)))
def test_frameworks_are_imported_in_their_adapters_alone(module: Path) -> None:
    if room_of(module) in MAY_IMPORT_FRAMEWORKS:
        return
    found = {name.split(".")[0] for name in imports(module)} & FRAMEWORKS
    assert not found


@pytest.mark.parametrize("module", modules(), ids=lambda path: str(path.relative_to(SOURCE)))
def test_what_reads_reaches_nothing_that_builds(module: Path) -> None:
    if room_of(module) in NO_BUILDING:
        assert "building" not in rooms_imported(module)


def test_only_the_bindings_know_python() -> None:
    native = ROOT / "src" / "native"
    assert [path.name for path in native.iterdir() if path.is_file() and "nanobind" in path.read_text()] == []
    assert (native / "bindings" / "module.cpp").is_file()


def test_importing_bushel_loads_no_framework_and_no_numpy() -> None:
    import subprocess

    code = "import sys, bushel; print(*sorted({name.split('.')[0] for name in sys.modules}))"
    loaded = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True).stdout.split()
    assert not {*FRAMEWORKS, "numpy", "msgspec", "click", "rich"} & set(loaded)


def test_the_path_of_a_record_in_the_design_names_what_exists() -> None:
    page = (ROOT / "docs" / "design.md").read_text()
    path = page[page.index("### The path of a record") : page.index("## 4. ")]
    names = [name for name in re.findall(r"`([\w.]+)`", path) if "." in name]
    assert len(names) > 20
    assert not [name for name in names if not is_there(name)]


def test_the_design_describes_every_room() -> None:
    page = (ROOT / "docs" / "design.md").read_text()
    listing = page[page.index("src/native/ ") : page.index("benchmarks/ ")]
    rooms = {room_of(module) for module in modules()} - {"__main__"}
    assert not [room for room in sorted(rooms) if not re.search(rf"\b{room}(/|\.py) ", listing)]


# What asks whether a path is in a store, and who may ask: each chooses once between two ways of working.
ASKS = {"ObjectPath", "is_in_store", "is_fetched", "parse_object", "bushel.storage.objects", "bushel.storage.stores"}
MAY_ASK = {
    "bushel.building.output.output_folder": "a build renames its folder when it is complete, but uploads to a store",
    "bushel.reading.dataset": "shards on disk are mapped into memory, those in a store are fetched in blocks",
}


def asks_for_stores(module: Path) -> bool:
    names = set(imports(module))
    return bool(names & ASKS or {name.rpartition(".")[2] for name in names if name.startswith("bushel.")} & ASKS)


def test_stores_are_a_kind_of_path_that_only_storage_tells_apart() -> None:
    asking = {name_of(module) for module in modules() if room_of(module) != "storage" and asks_for_stores(module)}
    assert asking == set(MAY_ASK), "add an operation to storage/ that means the same for both kinds of path"


def test_no_module_passes_arguments_around_the_signature() -> None:
    assert not [module for module in modules() if "ContextVar" in module.read_text()]


def is_there(name: str) -> bool:
    """Whether a dotted name below bushel is a function, a class or a method."""
    parts = name.split(".")
    for length in range(len(parts) - 1, 0, -1):
        module = SOURCE.joinpath(*parts[:length]).with_suffix(".py")
        if module.is_file():
            scope: ast.AST = ast.parse(module.read_text())
            for part in parts[length:]:
                kinds = (ast.FunctionDef, ast.ClassDef)
                found = [node for node in ast.iter_child_nodes(scope) if isinstance(node, kinds) and node.name == part]
                if not found:
                    return False
                scope = found[0]
            return True
    return False
