"""How findings are selected, suppressed, printed and turned into exit codes."""

import json
import re
import subprocess
import sys
import xml.etree.ElementTree as ET
from pathlib import Path

import numpy as np
import pytest
from click.testing import CliRunner, Result

import bushel
from bushel.checking import Finding, Location, ReadingPlan, all_rules, rule
from bushel.checking import finding_formats as formats
from bushel.cli import cli


@pytest.fixture
def sorted_data(tmp_path: Path) -> Path:
    path = tmp_path / "data" / "train.tfrecord"
    path.parent.mkdir()
    random = np.random.default_rng(0)
    with bushel.Writer(path) as writer:
        for i in range(500):
            writer.write({"x": random.normal(size=8).astype(np.float32), "label": i // 100})
    return path.parent


def run(*arguments: object) -> Result:
    return CliRunner().invoke(cli, ["check", *map(str, arguments)])


def test_every_rule_has_a_page_with_all_its_sections() -> None:
    for found in all_rules():
        assert set(found.page.sections) == {"Why", "Example", "Fix", "Ignore"}, found.id
        assert found.page.what.endswith((".", "text")), found.id


def test_names_of_rules_are_unique_and_state_a_fault() -> None:
    names = [found.name for found in all_rules()]
    assert sorted(set(names)) == sorted(names)
    assert all(re.fullmatch(r"[a-z0-9]+(-[a-z0-9]+)*", name) for name in names)


def test_what_a_run_sees_belongs_to_a_rule_with_a_page() -> None:
    from bushel.checking.findings import _SEEN

    assert _SEEN.keys() <= {found.id for found in all_rules()}


def test_ids_of_rules_stand_only_where_the_rules_declare_themselves() -> None:
    ids = "|".join(f'"{found.id}"' for found in all_rules())
    for path in (Path(__file__).parents[2] / "src").rglob("*.py"):
        code = re.sub(r"@(?:rule|seen)\((?:[^()]|\([^()]*\))*\)", "", path.read_text())  # with its tuples
        code = re.sub(r'(""")(.*?)\1', "", code, flags=re.DOTALL)  # pages and examples
        assert not re.findall(ids, code), path


def test_a_finding_that_explains_another_silences_it(tmp_path: Path) -> None:
    for split, value in (("train", 1), ("val", 1.5)):
        with bushel.Writer(tmp_path / f"{split}.tfrecord") as writer:
            writer.write({"age": value, "label": 1})
    assert [f.rule for f in bushel.check(tmp_path, select=["SCH"])] == ["SCH008"]
    assert [f.rule for f in bushel.check(tmp_path, select=["SCH002"])] == ["SCH002"]


def test_the_pass_collects_only_what_the_selected_rules_need() -> None:
    from bushel.checking.findings import aspects_needed, select

    assert aspects_needed(select(["FIL", "SCH"], [])) == set()
    assert aspects_needed(select(["SPL002"], [])) == {"images", "near_images"}
    assert "contents" in aspects_needed(select(["LBL"], []))


def test_causes_come_before_what_they_explain() -> None:
    from bushel.checking.findings import causes_first

    found = [Finding("", "error", rule=id) for id in ("RUN002", "MDL002", "RUN007", "FIL001", "ACME001")]
    assert [finding.rule for finding in causes_first(found)] == ["FIL001", "RUN007", "MDL002", "RUN002", "ACME001"]


def test_json_has_the_shape_that_programs_rely_on(sorted_data: Path) -> None:
    result = run(sorted_data, "--json", "--batch-size", 10, "--shuffle-buffer", 10)
    printed = json.loads(result.stdout)
    assert set(printed) == {"findings", "checked"}
    finding = printed["findings"][0]
    assert list(finding) == [
        "rule",
        "name",
        "severity",
        "confidence",
        "known",
        "message",
        "locations",
        "evidence",
        "help",
    ]
    assert set(finding["locations"][0]) == {"file", "record", "byte", "feature", "line", "column"}
    assert result.exit_code == 1


def test_exit_is_0_without_errors_1_with_them_and_2_where_nothing_can_be_checked(
    sorted_data: Path, tmp_path: Path
) -> None:
    assert run(sorted_data).exit_code == 0  # sorted, and no plan: a warning
    assert run(sorted_data, "--fail-on", "warning").exit_code == 1
    assert run(sorted_data, "--batch-size", 10, "--shuffle-buffer", 10).exit_code == 1
    assert run(tmp_path / "nothing").exit_code == 2
    assert run().exit_code == 2
    assert run(sorted_data, "--select", "NOPE").exit_code == 2


def test_select_and_ignore_take_ids_and_how_they_begin(sorted_data: Path) -> None:
    assert {f.rule for f in bushel.check(sorted_data)} == {"ORD001"}
    assert bushel.check(sorted_data, select=["FIL", "SCH"]).findings == []
    assert bushel.check(sorted_data, ignore=["ord"]).findings == []


def test_the_terminal_form_has_fact_place_proof_and_help(sorted_data: Path) -> None:
    lines = run(sorted_data, "--batch-size", 64, "--shuffle-buffer", 10).stdout.splitlines()
    assert lines[0].startswith("error[ORD001] label-sorted-shards: ")
    assert lines[1].startswith(f"  --> {sorted_data / 'train.tfrecord'}")
    assert lines[2].startswith("   = evidence: mean run length: 100")
    assert lines[3] == "   = confidence: proven"
    assert lines[-3] == "note: bushel explain ORD001"
    assert lines[-1] == "1 error in 500 records, 1 file"


def test_a_suppression_needs_a_reason(sorted_data: Path) -> None:
    settings = sorted_data / "bushel.toml"
    settings.write_text('[[check.suppress]]\nrule = "ORD001"\nreason = "read by index"\n')
    report = bushel.check(sorted_data, trust_settings=True)
    assert (report.findings, report.checked["suppressed"]) == ([], 1)
    settings.write_text('[[check.suppress]]\nrule = "ORD001"\nreason = " "\n')
    with pytest.raises(bushel.FormatError, match="reason must say why"):
        bushel.check(sorted_data, trust_settings=True)


def test_what_data_says_about_its_own_report_is_told_and_not_done(
    sorted_data: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (sorted_data / "bushel.toml").write_text('[[check.suppress]]\nrule = "ORD001"\nreason = "hide it"\n')
    for path in (sorted_data, "."):
        if path == ".":
            monkeypatch.chdir(sorted_data)
        with pytest.warns(UserWarning, match="comes with the data and is not applied; --trust-settings applies it"):
            report = bushel.check(path)
        assert [finding.rule for finding in report] == ["ORD001"]


def test_a_baseline_leaves_only_what_is_new(sorted_data: Path, tmp_path: Path) -> None:
    baseline = tmp_path / "old.json"
    assert run(sorted_data, "--write-baseline", baseline).exit_code == 0
    report = bushel.check(sorted_data, baseline=baseline)
    assert (report.findings, report.checked["baseline"]) == ([], 1)


def test_an_own_rule_is_one_function(sorted_data: Path) -> None:
    (sorted_data / "rules.py").write_text(
        "from bushel.checking import Finding, rule\n"
        '@rule("ACME001", "too-few-records", severity="warning")\n'
        'def too_few_records(data):\n    """Fewer than 1,000 records."""\n'
        '    if data.records < 1000:\n        yield Finding(f"{data.records} records")\n'
    )
    (sorted_data / "bushel.toml").write_text('[check]\nrules = ["rules.py"]\n')
    # The folder holds more than records now: name the shard. Its folder is data all the same.
    with pytest.warns(UserWarning, match="comes with the data and is not applied"):
        CliRunner().invoke(cli, ["check", str(sorted_data / "train.tfrecord"), "--json"], catch_exceptions=False)
    with pytest.warns(UserWarning, match="names Python files, which do not run"):
        bushel.check([sorted_data], trust_settings=True)
    (sorted_data / "bushel.toml").unlink()
    report = bushel.check([sorted_data], select=["ACME"], rules=[sorted_data / "rules.py"])
    assert [(f.rule, f.name, f.message) for f in report] == [("ACME001", "too-few-records", "500 records")]


def test_an_id_that_is_taken_is_refused() -> None:
    with pytest.raises(ValueError, match="id must be a new one, got 'ORD001'"):
        rule("ORD001", "mine")(lambda data: iter(()))
    with pytest.raises(ValueError, match="capital letters and three digits"):
        rule("ord1", "mine")


def test_sarif_junit_and_github_carry_every_finding(sorted_data: Path) -> None:
    report = bushel.check(sorted_data, plan=ReadingPlan(64, 10))
    sarif = formats.to_sarif(report.findings)
    assert [r["ruleId"] for r in sarif["runs"][0]["results"]] == ["ORD001"]
    assert sarif["runs"][0]["tool"]["driver"]["rules"][0]["id"] == "ORD001"
    junit = ET.fromstring(formats.to_junit(report.findings, report.rules))
    assert junit.find("testsuite").get("failures") == "1"  # type: ignore[union-attr]
    assert formats.to_github(report.findings)[0].startswith(f"::error file={sorted_data!s}")


def test_hostile_text_moves_no_cursor_and_breaks_no_format() -> None:
    finding = Finding(
        "a\x1b[2Jb\n]]>&", "error", locations=[Location(file="x\ny,z", line=1, column=1)], rule="ORD001", name="n"
    )
    assert "\x1b" not in "".join(formats.finding_lines(finding))
    ET.fromstring(formats.to_junit([finding], []))
    assert "\n" not in formats.to_github([finding])[0]


def test_samples_are_capped_and_counts_are_not(tmp_path: Path) -> None:
    path = tmp_path / "train.tfrecord"
    with bushel.Writer(path) as writer:
        for _ in range(100):
            writer.write({"x": [float("nan")] * 3})
    finding = next(f for f in bushel.check(path) if f.rule == "VAL001")
    assert len(finding.locations) == 5
    assert finding.evidence["measured"]["NaN"] == 300


def test_explain_prints_a_page_and_offers_the_nearest() -> None:
    assert bushel.explain("ord001").startswith(
        "ORD001 label-sorted-shards (error)\n\nRecords in the order of their labels"
    )
    assert bushel.explain("label-sorted-shards") == bushel.explain("ORD001")
    with pytest.raises(bushel.MissingName, match="did you mean 'ORD001'"):
        bushel.explain("ORD01")


@pytest.mark.parametrize("batch", [7, 64])
def test_the_buffer_that_is_named_is_clean(sorted_data: Path, batch: int) -> None:
    finding = next(iter(bushel.check(sorted_data, plan=ReadingPlan(batch, 10))))
    safe = finding.evidence["clean_from_buffer_size"]
    assert bushel.check(sorted_data, plan=ReadingPlan(batch, safe)).findings == []


def test_a_dict_of_arrays_is_checked_like_a_file() -> None:
    x = np.random.default_rng(0).normal(size=(200, 8)).astype(np.float32)
    x[3, 2] = np.nan
    assert {f.rule for f in bushel.check({"x": x, "label": np.arange(200) % 4})} == {"VAL001"}
    both = {"train": {"x": x[:100], "label": np.arange(100) % 4}, "val": {"x": x[:50], "label": np.arange(50) % 4}}
    assert "SPL001" in {f.rule for f in bushel.check(both)}


def test_data_of_another_kind_is_refused_with_its_type() -> None:
    with pytest.raises(ValueError, match=r"data must be paths, .* or a dict of arrays; got int"):
        bushel.check(3)


def test_ctrl_c_prints_what_was_found_so_far(tmp_path: Path) -> None:
    folder = tmp_path / "data"
    folder.mkdir()
    (folder / "a.tfrecord").write_text("this is plain text, and no record at all")
    random = np.random.default_rng(0)
    for shard in range(3):
        with bushel.Writer(folder / f"b{shard}.tfrecord") as writer:
            writer.write_batch({"x": random.normal(size=(150_000, 64)).astype(np.float32)})
    code = (
        "import os, signal, sys, bushel.checking.collect.one_pass as reading\n"
        "signal.signal(signal.SIGINT, signal.default_int_handler)\n"
        "take = reading._Reader._read_file\n"
        "def stop(self, part, *rest):\n"
        "    if part.file.number == 2: os.kill(os.getpid(), signal.SIGINT)\n"
        "    take(self, part, *rest)\n"
        "reading._Reader._read_file = stop\n"
        "from bushel.cli import main\nmain()\n"
    )
    done = subprocess.run(
        [sys.executable, "-c", code, "check", str(folder)], capture_output=True, text=True, check=False
    )
    assert "error[FIL001]" in done.stdout
    assert "stopped before the end" in done.stdout
    assert done.returncode == 1


def test_a_feature_whose_name_is_no_utf8_is_reported(tmp_path: Path) -> None:
    from bushel import _native

    # An Example { features { feature { key: "\xb8" value { float_list { value: NaN } } } } }
    example = b"\x0a\x0f\x0a\x0d\x0a\x01\xb8\x12\x08\x12\x06\x0a\x04\x00\x00\xc0\x7f"
    path = tmp_path / "odd.tfrecord"
    path.write_bytes(_native.frame(example) * 3)
    for form in ("--json", "--sarif", "--junit", "--github"):
        assert "dcb8" in run(path, form).stdout
    assert run(path, "--write-baseline", tmp_path / "old.json").exit_code == 0


def test_a_label_that_no_record_has_is_refused_with_the_nearest(sorted_data: Path) -> None:
    with pytest.raises(bushel.MissingName, match="no feature 'labels'; did you mean 'label'"):
        bushel.check(sorted_data, label="labels")


def test_the_readme_states_how_many_rules_there_are() -> None:
    root = Path(__file__).parents[2]
    pages = re.findall(r"^### ", (root / "docs" / "checks.md").read_text(), re.MULTILINE)
    assert f"[{len(pages)} rules](docs/checks.md)" in (root / "README.md").read_text()
