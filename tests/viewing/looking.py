"""A client of the page as a browser on this machine would be, and hostile values."""

import json
import zlib
from pathlib import Path

import numpy as np
from pictures import encode_image
from starlette.testclient import TestClient

from bushel.viewing.opened import open_all
from bushel.viewing.server import make_app
from bushel.viewing.viewer import Viewer

TOKEN = "a-token"
EVIL = "<script>window.evil = 1</script><img src=x onerror='window.evil=1'>"


class Page:
    """Asks a viewer as the page does."""

    def __init__(self, viewer: Viewer) -> None:
        self.viewer = viewer
        self.http = TestClient(make_app(viewer, TOKEN), base_url="http://127.0.0.1:8757")

    def get(self, path: str, **params: object) -> object:
        return self.http.get(f"/{TOKEN}/{path}", params=params)

    def ask(self, name: str, **params: object) -> dict:
        answer = self.get(f"api/{name}", **params)
        assert answer.status_code == 200, answer.text
        return answer.json()

    def tell(self, name: str, value: object) -> dict:
        answer = self.http.post(f"/{TOKEN}/api/{name}", json=value)
        assert answer.status_code == 200, answer.text
        return answer.json()


def page_of(*paths: Path) -> Page:
    """A page of what paths name, with all records counted."""
    viewer = Viewer(open_all(paths))
    for opened in viewer.opened:
        opened.count()
    return Page(viewer)


def bomb() -> bytes:
    """A small PNG that claims sixty thousand pixels on each side."""
    data = bytearray(encode_image(np.zeros((8, 8), np.uint8), "png"))
    data[16:24] = (60_000).to_bytes(4, "big") * 2
    data[29:33] = zlib.crc32(data[12:29]).to_bytes(4, "big")
    return bytes(data)


def run_folder(folder: Path, **options: object) -> Path:
    """The folder of a run, as training writes it."""
    folder.mkdir(parents=True)
    task = {"kind": "binary", "label": "label", "classes": ["no", "yes"]}
    (folder / "run.json").write_text(json.dumps({"data": ["nowhere"], "options": options, "task": task, "records": {}}))
    verdict = {"summary": f"It learned <b>{folder.name}</b>", "learned": True}
    metrics = {"verdict": verdict, "metrics": {"val": {"accuracy": 0.9, "loss": 0.3}}, "findings": []}
    (folder / "metrics.json").write_text(json.dumps(metrics))
    history = [{"epoch": n, "loss": 1 / n, "val_loss": None if n == 1 else 1.2 / n} for n in range(1, 5)]
    (folder / "history.json").write_text(json.dumps(history))
    return folder
