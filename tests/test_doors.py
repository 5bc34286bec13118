"""Nothing goes around the doors: every call that opens, maps or removes a file is in a place that may, for a reason."""

import ast
import re
from collections import Counter
from collections.abc import Iterator
from pathlib import Path

from door_calls import ALLOWED

SOURCE = Path(__file__).parent.parent / "src" / "bushel"

# Calls that reach files or start programs, whatever they are called on.
NAMES = {
    *("open", "fdopen", "read_bytes", "read_text", "write_bytes", "write_text", "File", "ZipFile", "Popen"),
    *("unlink", "rmtree", "rmdir", "copytree", "copyfile", "copy2", "load_workbook", "load_dataset", "load_from_disk"),
}
# Those that are called on a library.
LIBRARIES = {
    *(("sqlite3", "connect"), ("np", "load"), ("np", "memmap"), ("pa", "memory_map"), ("os", "system")),
    *(("subprocess", "run"), ("subprocess", "check_output"), ("pickle", "load"), ("pickle", "loads")),
    *(("cloudpickle", "loads"), ("os", "remove"), ("os", "rename"), ("os", "replace"), ("os", "truncate")),
    *(("shutil", "move"), ("shutil", "copy")),
}


def walk_calls(node: ast.AST, inside: str = "") -> Iterator[str]:
    """The calls below a node, each with the function that it is in."""
    for child in ast.iter_child_nodes(node):
        is_named = isinstance(child, ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef)
        if isinstance(child, ast.Call):
            name = child.func.id if isinstance(child.func, ast.Name) else getattr(child.func, "attr", "")
            base = ast.unparse(child.func.value) if isinstance(child.func, ast.Attribute) else ""
            if name in NAMES or (base.split(".")[-1], name) in LIBRARIES:
                yield f"{inside or 'module'}: {f'{base}.{name}' if base else name}"
        yield from walk_calls(child, f"{inside}.{child.name}".lstrip(".") if is_named else inside)


def calls_in(text: str) -> set[str]:
    found = Counter(walk_calls(ast.parse(text)))
    return {f"{call} x{count}" if count > 1 else call for call, count in found.items()}


FOUND = {str(path.relative_to(SOURCE)): calls_in(path.read_text()) for path in sorted(SOURCE.rglob("*.py"))}


def test_every_call_that_reaches_files_or_starts_programs_is_listed_with_its_reason() -> None:
    around = {place: left for place, calls in FOUND.items() if (left := calls - ALLOWED.get(place, {}).keys())}
    assert around == {}, "open what data names by bushel.storage's doors, or give the reason in tests/door_calls.py"


def test_no_call_is_allowed_that_is_not_there() -> None:
    gone = {place: left for place, calls in ALLOWED.items() if (left := calls.keys() - FOUND.get(place, set()))}
    assert gone == {}


def test_a_new_call_in_a_listed_function_is_noticed() -> None:
    text = "def load(path):\n    return path.open()\n"
    assert calls_in(text) == {"load: path.open"}
    assert calls_in(text + "    path.open()\n") == {"load: path.open x2"}
    assert calls_in("class A:\n    def f(self):\n        subprocess.run(x)\n") == {"A.f: subprocess.run"}


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
