"""How fast `bushel view` shows a large dataset, and in how much memory.

python benchmarks/view.py                  100 GB, of hard links to one shard
python benchmarks/view.py --shards 3       quick

Start to first paint is from the start of the process to the first content in Chromium, which is running already. A page
of 60 thumbnails is measured in new contexts, so that the browser has nothing cached; warm is after the first time, when
the server has the thumbnails.
"""

import argparse
import io
import os
import shutil
import signal
import statistics
import subprocess
import sys
import tempfile
import time
import urllib.request
from collections.abc import Callable
from pathlib import Path

import msgspec
import numpy as np
from PIL import Image

import bushel
from bushel.records.manifest import read_manifest, write_manifest

RECORDS, PICTURES = 1_000, 100  # of the shard, and how many of them differ
TOKEN = "benchmark"
ARGS = ["--no-sandbox", "--disable-gpu", "--disable-background-networking", "--disable-component-update"]


def picture(number: int) -> bytes:
    draw = np.random.default_rng(number)
    small = Image.fromarray(draw.integers(0, 255, (24, 32, 3), dtype=np.uint8)).resize(
        (640, 480), Image.Resampling.BICUBIC
    )
    noisy = np.clip(np.asarray(small, np.int16) + draw.integers(-14, 14, (480, 640, 3)), 0, 255).astype(np.uint8)
    file = io.BytesIO()
    Image.fromarray(noisy).save(file, "JPEG", quality=88)
    return file.getvalue()


def make(folder: Path, shards: int) -> Path:
    """A dataset of so many shards that are all the same file."""
    some = [picture(number) for number in range(PICTURES)]
    rows = ({"image": some[n % PICTURES], "label": n % 10, "key": str(n)} for n in range(RECORDS))
    bushel.build(rows, folder / "data", shards=1, shard_size="4G", run=bushel.Run(workers=1))
    data = folder / "data"
    manifest = read_manifest(data)
    (first,) = manifest.splits["train"].shards
    linked = []
    for number in range(shards):
        name = f"train-{number:05}-of-{shards:05}.tfrecord"
        if name != first.path:
            os.link(data / first.path, data / name)
            for suffix in (".idx", ".keys"):
                source = data / "_index" / (first.path + suffix if suffix == ".idx" else f"{first.path}.keys")
                os.link(source, data / "_index" / (name + suffix))
        linked.append(msgspec.structs.replace(first, path=name))
    split = msgspec.structs.replace(manifest.splits["train"], shards=linked)
    write_manifest(data, msgspec.structs.replace(manifest, splits={"train": split}))
    return data


def start(data: Path, port: int, cache: Path) -> subprocess.Popen[str]:
    command = [sys.executable, "-m", "bushel", "view", str(data), "--no-browser", "--port", str(port)]
    environment = {**os.environ, "BUSHEL_VIEW_TOKEN": TOKEN, "XDG_CACHE_HOME": str(cache)}
    return subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True, env=environment)


def anonymous(process: int) -> float:
    """RssAnon of a process, in MB."""
    lines = Path(f"/proc/{process}/status").read_text().splitlines()
    return next(int(line.split()[1]) for line in lines if line.startswith("RssAnon")) / 1000


def processor(process: int) -> float:
    """Seconds of processor time that a process took: what a busy machine does not change."""
    fields = Path(f"/proc/{process}/stat").read_text().rpartition(")")[2].split()
    return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")


def timed(work: Callable[[], object]) -> float:
    begun = time.perf_counter()
    work()
    return time.perf_counter() - begun


def until(page: object, condition: str) -> None:
    """Wait for a condition; Playwright's own way is forbidden by the policy of the page."""
    while not page.evaluate(condition):
        time.sleep(0.005)


def first_paint(browser: object, data: Path, port: int, cache: Path) -> tuple[float, float, float]:
    """Seconds from the start to the first paint and to the overview, and the processor time until then."""
    page = browser.new_context().new_page()
    begun = time.perf_counter()
    process = start(data, port, cache)
    link = process.stdout.readline().strip()
    page.goto(link, wait_until="commit")
    until(page, "performance.getEntriesByName('first-contentful-paint').length > 0")
    painted = time.perf_counter() - begun
    page.wait_for_selector(".splits", timeout=60_000)
    shown, worked = time.perf_counter() - begun, processor(process.pid)
    page.context.close()
    process.send_signal(signal.SIGINT)
    process.wait(30)
    return painted, shown, worked


def page_of_thumbnails(browser: object, link: str, first: int) -> float:
    """Milliseconds from the request for a page until its last thumbnail is loaded."""
    context = browser.new_context(viewport={"width": 1600, "height": 2600})
    context.add_init_script("document.addEventListener('load', () => { window.loaded = performance.now() }, true)")
    page = context.new_page()
    page.goto(f"{link}browse?start={first}")
    until(page, "document.querySelectorAll('.tile img').length === 60")
    ready = "[...document.querySelectorAll('.tile img')].every(image => image.complete && image.naturalWidth)"
    until(page, ready)
    asked = "performance.getEntriesByType('resource').find(one => one.name.includes('api/records')).startTime"
    taken = page.evaluate(f"window.loaded - {asked}")
    context.close()
    return taken


def main() -> None:
    from playwright.sync_api import sync_playwright

    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--shards", type=int, default=0, metavar="N", help="[default: as many as make 100 GB]")
    parser.add_argument("--rounds", type=int, default=5, metavar="N")
    options = parser.parse_args()
    print(f"load {os.getloadavg()[0]:.1f} on {os.cpu_count()} cores")
    with tempfile.TemporaryDirectory(prefix="bushel-view-") as folder, sync_playwright() as started:
        size = sum(len(picture(number)) for number in range(5)) * RECORDS / 5
        data = make(Path(folder), options.shards or round(100e9 / size) + 1)
        manifest = read_manifest(data)
        print(f"{manifest.splits['train'].records:,} records, {manifest.splits['train'].bytes / 1e9:.1f} GB in "
              f"{len(manifest.splits['train'].shards):,} shards")  # fmt: skip
        browser = started.chromium.launch(executable_path=shutil.which("chromium"), args=ARGS)
        cache = Path(folder) / "cache"
        starts = [first_paint(browser, data, 8700 + turn, cache) for turn in range(options.rounds)]
        report("start to first paint", [painted for painted, _, _ in starts], "s", 1.0)
        report("start to overview", [shown for _, shown, _ in starts], "s", None)
        report("processor time until the overview", [worked for _, _, worked in starts], "s", None)
        process = start(data, 8699, cache)
        link = process.stdout.readline().strip()
        try:
            measure(browser, link, manifest.splits["train"].records, options.rounds)
            before = processor(process.pid)
            page_of_thumbnails(browser, link, manifest.splits["train"].records - 60)
            print(f"processor time of a warm page: {1000 * (processor(process.pid) - before):.0f} ms")
            print(f"memory after all this: {anonymous(process.pid):.0f} MB, wanted below 300 MB")
        finally:
            process.send_signal(signal.SIGINT)
            process.wait(30)
        browser.close()


def measure(browser: object, link: str, records: int, rounds: int) -> None:
    last = records - 60
    report(
        "60 thumbnails, the first time",
        [page_of_thumbnails(browser, link, last - 60 * n) for n in range(rounds)],
        "ms",
        None,
    )
    report("60 thumbnails, warm", [page_of_thumbnails(browser, link, last) for _ in range(rounds)], "ms", 300)
    for name, row in (("first", 0), ("last", records - 1)):
        address = f"{link}api/record?row={row}"
        seconds = [timed(lambda: urllib.request.urlopen(address).read()) for _ in range(rounds)]  # noqa: B023
        report(f"the {name} record, the first time", seconds[:1], "s", None)
        report(f"the {name} record, again", seconds[1:] or seconds, "s", None)
    report("statistics", [timed(lambda: urllib.request.urlopen(f"{link}api/statistics").read())], "s", None)


def report(name: str, values: list[float], unit: str, wanted: float | None) -> None:
    said = f", wanted below {wanted:g} {unit}" if wanted is not None else ""
    print(f"{name}: {statistics.median(values):.3g} {unit} ({min(values):.3g} to {max(values):.3g}){said}", flush=True)


if __name__ == "__main__":
    main()
