"""Nothing goes around the doors: every call that opens, maps or removes a file is in a place that may, for a reason."""

import ast
import re
from collections.abc import Iterator
from pathlib import Path

SOURCE = Path(__file__).parent.parent / "src" / "bushel"

# Calls that reach files, by what they are.
READS = {"open", "read_bytes", "read_text"}
WRITES = {"write_bytes", "write_text", "unlink", "rmtree", "rmdir"}
LIBRARIES = {("h5py", "File"), ("sqlite3", "connect"), ("np", "load"), ("np", "memmap"), ("pa", "memory_map")}
NAMES = {"ZipFile", "load_dataset", "load_from_disk"}

OWN = "files of bushel's own, in folders that doors.check_own_folder looked at before"
OURS = "temporary files that this process made, or files that the caller named to be written"
MEMORY = "bytes in memory, not a file: Pillow, tarfile or NumPy over io.BytesIO"
NAMED = "a file that the user names on the command line or in a call, not one that data names"
LISTED = "files that a listing found: os.scandir says that they are ordinary ones"
CHECKED = "after doors.open_inside, why_not_inside or refuse_special has looked at it"
DOOR = "a door itself, or a verb of storage that the doors and all rooms use"
SYSTEM = "files of the system, such as those in /proc, or of the package"
SCRIPT = "code that the user named as code, and its copy"
FITTED = "files of transforms, which transforms.by_name lets through only inside the data, or if they are trusted"

ALLOWED = {
    "building/engines.py": OWN,
    "building/output/journal.py": OWN,
    "building/output/output_folder.py": OWN,
    "building/output/writer.py": OURS,
    "building/planning/draft.py": OWN,
    "building/planning/plan.py": OWN,
    "building/planning/planner.py": OWN,
    "building/planning/synthesis.py": OWN,
    "building/recipe.py": NAMED,
    "building/record_encoding.py": OWN,
    "building/run.py": OWN,
    "building/shard_files.py": OWN,
    "building/tasks.py": OWN,
    "checking/collect/duplicates.py": OURS,
    "checking/collect/facts.py": LISTED,
    "checking/collect/image_and_sound_facts.py": MEMORY,
    "checking/collect/memory.py": OURS,
    "checking/findings.py": "settings of the working folder, which storage.trust has judged; baselines that are named",
    "checking/rules/model_rules.py": NAMED,
    "checking/running/child.py": SCRIPT,
    "checking/running/execution.py": SCRIPT,
    "checking/running/processes.py": SYSTEM,
    "checking/script/followed_script.py": SCRIPT,
    "checking/script/tensorflow_calls.py": SCRIPT,
    "cli/__init__.py": SYSTEM,
    "cli/file_commands.py": NAMED,
    "cli/train.py": NAMED,
    "data/columns.py": OWN,
    "data/sound_decoding.py": "ffmpeg, with `file:` before an absolute name, so that none is taken for an address",
    "data/tf_descriptions.py": CHECKED,
    "exporting.py": OURS,
    "feeding/trees.py": "a model of a run that the user names; arrays without pickles, checked when they are loaded",
    "keras.py": NAMED,
    "parallel.py": SYSTEM,
    "pixels/codecs.py": MEMORY,
    "ray/cluster.py": OURS,
    "reading/feed.py": "bushel.open, which opens datasets by their manifest",
    "records/files.py": LISTED,
    "records/record_roles.py": MEMORY,
    "sources/array_source.py": CHECKED,
    "sources/detection/annotation_files.py": LISTED,
    "sources/detection/boxed_images.py": MEMORY,
    "sources/folders.py": LISTED,
    "sources/image_checks.py": MEMORY,
    "sources/image_tiles.py": LISTED,
    "sources/in_memory.py": OURS,
    "sources/marked.py": NAMED,
    "sources/series_rows.py": OURS,
    "sources/tables/delimited.py": "TextFile.open, which opens by storage.open_to_read",
    "sources/tables/json_lines.py": "TextFile.open, which opens by storage.open_to_read",
    "sources/tables/row_sources.py": "SQLite to read only, with an authorizer; Excel files that the user names",
    "sources/tables/table.py": CHECKED,
    "sources/tables/table_files.py": LISTED,
    "sources/tars.py": "a tar that the user names; its members are read into memory, and none is unpacked",
    "sources/text_files.py": "TextFile.open, which opens by storage.open_to_read",
    "sources/video_files.py": "ffmpeg, with `file:` before an absolute name, so that none is taken for an address",
    "storage/cache.py": DOOR,
    "storage/doors.py": DOOR,
    "storage/downloads.py": "addresses, by an opener that knows http and https alone; a folder that the user names",
    "storage/file_kinds.py": DOOR,
    "storage/objects.py": DOOR,
    "storage/stores.py": SYSTEM,
    "storage/whole_files.py": DOOR,
    "storage/whole_folders.py": DOOR,
    "training/exporting.py": OURS,
    "training/inputs/choose.py": MEMORY,
    "training/report.py": MEMORY,
    "training/run_folder.py": "the run that the user names; arrays without pickles",
    "transforms/image.py": MEMORY,
    "transforms/text_vectors.py": FITTED,
    "transforms/texts.py": FITTED,
    "viewing/finding_views.py": MEMORY,
    "viewing/runs.py": "arrays of the run that the user names, without pickles",
    "viewing/server.py": SYSTEM,
    "viewing/showing.py": MEMORY,
}


def calls_in(module: Path) -> Iterator[tuple[int, str]]:
    for node in ast.walk(ast.parse(module.read_text())):
        if isinstance(node, ast.Call):
            name = node.func.id if isinstance(node.func, ast.Name) else getattr(node.func, "attr", "")
            base = ast.unparse(node.func.value) if isinstance(node.func, ast.Attribute) else ""
            is_library = any(name == call and package in base for package, call in LIBRARIES)
            if name in READS | WRITES | NAMES or is_library or (name == "remove" and base in ("os", "shutil")):
                yield node.lineno, f"{base}.{name}".lstrip(".")


def test_every_call_that_reaches_files_is_in_a_place_that_may() -> None:
    found = {str(path.relative_to(SOURCE)): list(calls_in(path)) for path in SOURCE.rglob("*.py")}
    around = {place: calls for place, calls in found.items() if calls and place not in ALLOWED}
    assert around == {}, (
        "open what data names by storage.open_inside, read_named or open_named, or give the reason here"
    )


def test_no_place_is_allowed_that_needs_no_door() -> None:
    assert {place for place in ALLOWED if not list(calls_in(SOURCE / place))} == set()


def test_python_never_looks_for_modules_where_it_is_started() -> None:
    """A process that bushel starts may have a folder of data as its working folder."""
    for module in SOURCE.rglob("*.py"):
        for node in ast.walk(ast.parse(module.read_text())):
            if isinstance(node, ast.List) and "sys.executable" in map(ast.unparse, node.elts):
                words = [element.value for element in node.elts if isinstance(element, ast.Constant)]
                is_script = "bushel.checking.running.child" in words  # whose folder is the copy of the user's code
                assert "-P" in words or is_script, f"{module}:{node.lineno}"


def test_a_library_that_knows_addresses_is_given_names_that_are_none() -> None:
    for name in ("sources/video_files.py", "data/sound_decoding.py"):
        text = (SOURCE / name).read_text()
        assert text.count(".open(") - text.count("container.open(") >= 1
        assert "file:{name_for_library(" in text


def test_every_line_about_files_on_the_page_of_security_names_a_test_that_is_there() -> None:
    root = Path(__file__).parent.parent
    page = (root / "docs" / "security.md").read_text()
    lines = page.partition("## Files\n")[2].partition("\n## ")[0].split("\n* ")[1:]
    assert len(lines) > 10
    for line in lines:
        named = re.findall(r"`(tests/[^`]+)`", line)
        assert named, line
        assert all((root / name).is_file() for name in named), line
