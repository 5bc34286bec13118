"""Who may see the page, and that data on it stays data."""

import base64
import json
from pathlib import Path

import pytest
from looking import EVIL, TOKEN, Page, page_of
from support import flip

import bushel
from bushel.viewing.opened import open_all
from bushel.viewing.server import make_token, require_server, serve
from bushel.viewing.viewer import Viewer


@pytest.fixture(scope="module")
def pictures(images: Path) -> Page:
    return page_of(images)


@pytest.fixture(scope="module")
def mixed(everything: Path) -> Page:
    return page_of(everything)


def test_the_page_and_its_parts_come_from_here_with_a_strict_policy(pictures: Page) -> None:
    page = pictures.get("")
    assert page.status_code == 200
    policy = page.headers["content-security-policy"]
    assert "default-src 'none'" in policy
    assert "script-src 'self'" in policy
    assert "unsafe" not in policy
    assert "//" not in page.text.replace("http://www.w3.org", "")
    for name in ("page/app.js", "page/style.css", "browse", "record"):
        answer = pictures.get(name)
        assert answer.status_code == 200
        assert answer.headers["x-content-type-options"] == "nosniff"
        assert answer.headers["referrer-policy"] == "no-referrer"


def test_a_wrong_token_sees_nothing(pictures: Page) -> None:
    for path in (
        "/",
        "/wrong/",
        "/wrong/api/overview",
        f"/{TOKEN}",
        f"/{TOKEN[:-1]}/",
        "/api/overview",
        "/page/app.js",
    ):
        answer = pictures.http.get(path)
        assert answer.status_code == 403, path
        assert "bushel view" in answer.text
    assert make_token() != make_token()
    assert len(make_token()) >= 32


@pytest.mark.parametrize(
    "host", ["evil.example", "127.0.0.1.evil.example:8757", "localhost.evil.example", "", "10.0.0.1:8757"]
)
def test_a_foreign_host_header_sees_nothing(pictures: Page, host: str) -> None:
    answer = pictures.http.get(f"/{TOKEN}/api/overview", headers={"host": host})
    assert answer.status_code == 421
    assert "images" not in answer.text


@pytest.mark.parametrize("host", ["localhost:9000", "127.0.0.1:1", "[::1]:8757", "localhost"])
def test_a_tunnel_may_have_another_port(pictures: Page, host: str) -> None:
    assert pictures.http.get(f"/{TOKEN}/api/overview", headers={"host": host}).status_code == 200


def test_a_request_from_another_site_is_refused(pictures: Page) -> None:
    answer = pictures.http.get(f"/{TOKEN}/api/overview", headers={"origin": "http://evil.example"})
    assert answer.status_code == 403


@pytest.mark.parametrize(
    "path",
    ["page/../server.py", "page/..%2fserver.py", "page/%2e%2e/%2e%2e/errors.py", "page/index.html", "page//etc/passwd"],
)
def test_a_path_outside_the_page_is_not_found(pictures: Page, path: str) -> None:
    answer = pictures.http.get(f"/{TOKEN}/{path}")
    assert answer.status_code in (403, 404)
    assert "import" not in answer.text


def test_no_request_names_a_file(pictures: Page, tmp_path: Path) -> None:
    other = tmp_path / "secret.tfrecord"
    with bushel.Writer(other) as writer:
        writer.write({"text": "secret"})
    for name in pictures.viewer.answers:
        for given in ({"d": str(other)}, {"split": str(other)}, {"feature": str(other)}, {"list": str(other)}):
            answer = pictures.get(f"api/{name}", **given)
            assert answer.status_code in (200, 400, 404, 422), (name, given)
            assert "secret" not in answer.text.replace("secret.tfrecord", "")


def test_text_of_the_data_arrives_as_text(mixed: Page) -> None:
    answer = mixed.get("api/record", row=5)
    assert answer.headers["content-type"] == "application/json"
    texts = {field["name"]: field.get("text") for field in answer.json()["fields"]}
    assert texts["text"] == EVIL


def test_the_page_never_makes_html_of_strings() -> None:
    import bushel.viewing

    folder = Path(bushel.viewing.__file__).parent / "page"
    for path in folder.glob("*.js"):
        for word in ("innerHTML", "outerHTML", "insertAdjacentHTML", "document.write", "eval(", "http://", "https://"):
            assert word not in path.read_text().replace("http://www.w3.org/2000/svg", ""), (path.name, word)


def test_broken_pictures_and_bombs_are_refused_with_the_reason(mixed: Page) -> None:
    broken = mixed.get("api/image", row=3, feature="image")
    assert broken.status_code == 422
    bomb = mixed.get("api/image", row=4, feature="image")
    assert bomb.status_code == 422
    assert bomb.json()["error"] == "60000 x 60000 is more than 64,000,000 pixels"
    assert mixed.get("api/image", row=2, feature="image").headers["content-type"] == "image/png"


def test_pictures_of_many_records_come_in_one_answer_in_order(mixed: Page) -> None:
    answer = mixed.get("api/pictures", rows="5,3,4,2,99", feature="image", side=224)
    found = [json.loads(line) for line in answer.text.splitlines()]
    assert [one["row"] for one in found] == [5, 3, 4, 2, 99]
    for one in (found[0], found[3]):
        data = base64.b64decode(one["picture"].removeprefix("data:image/png;base64,"))
        assert data == mixed.get("api/image", row=one["row"], feature="image", side=224).content
    assert found[2]["error"] == "60000 x 60000 is more than 64,000,000 pixels"
    assert found[4]["error"] == "all, 12 records: no record '99'"


def test_a_picture_is_sent_again_only_if_it_changed(pictures: Page) -> None:
    first = pictures.get("api/image", feature="image")
    address = f"/{TOKEN}/api/image?feature=image"
    same = pictures.http.get(address, headers={"if-none-match": first.headers["etag"]})
    assert (same.status_code, same.content) == (304, b"")
    other = pictures.http.get(address, headers={"if-none-match": '"of another dataset"'})
    assert (other.status_code, other.content) == (200, first.content)


def test_numbers_that_are_none_are_refused(pictures: Page) -> None:
    answer = pictures.get("api/records", start="-1")
    assert answer.status_code == 400
    assert answer.json()["error"] == "start must be a whole number of at least 0, got '-1'"
    assert pictures.get("api/record", row=10**17).status_code == 404
    assert pictures.get("api/nothing").status_code == 404


def test_whatever_fails_is_an_answer_and_the_page_goes_on(pictures: Page, monkeypatch: pytest.MonkeyPatch) -> None:
    deep = pictures.get("api/records", where="(" * 3000)
    assert deep.status_code in (400, 500)
    assert deep.json()["error"]
    monkeypatch.setitem(pictures.viewer.answers, "record", lambda given: {}["gone"])
    assert pictures.get("api/record").status_code == 404
    monkeypatch.setitem(pictures.viewer.answers, "record", lambda given: 1 / 0)
    assert pictures.get("api/record").json()["error"] == "ZeroDivisionError: division by zero"


def test_a_post_must_be_json_and_short(pictures: Page) -> None:
    assert pictures.http.post(f"/{TOKEN}/api/marks", data={"a": "b"}).status_code == 415
    long = pictures.http.post(f"/{TOKEN}/api/marks", json={"a": "b" * (2 << 20)})
    assert long.status_code == 413


def test_damaged_records_say_what_is_wrong_and_the_rest_is_shown(tmp_path: Path) -> None:
    path = tmp_path / "x.tfrecord"
    with bushel.Writer(path) as writer:
        for number in range(7):  # of one size, so that the middle of the file is inside a record
            writer.write({"x": number, "text": f"line {number}"})
    flip(path, at=path.stat().st_size // 2)
    page = page_of(path)
    records = page.ask("records")["records"]
    bad = [record for record in records if record["problem"]]
    assert len(records) == 7
    assert [record["problem"] for record in bad] == ["checksum of the data does not match"]
    assert page.ask("record", row=bad[0]["row"])["problem"] == "checksum of the data does not match"
    assert page.ask("statistics")["damaged"] == 1
    found = page.ask("records", where="x >= 0")
    assert found["total"] == 6
    assert found["problem"] is None


def test_nothing_is_written_into_the_dataset(images: Path) -> None:
    before = {path: path.stat().st_mtime_ns for path in sorted(images.rglob("*"))}
    page = page_of(images)
    for name in ("overview", "statistics", "records", "record"):
        page.ask(name)
    page.get("api/image", feature="image")
    assert {path: path.stat().st_mtime_ns for path in sorted(images.rglob("*"))} == before


def test_what_is_missing_is_named_with_the_extra(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("bushel.viewing.server.find_spec", lambda name: None)
    with pytest.raises(ImportError, match=r'bushel view needs starlette and uvicorn: pip install "bushel\[view\]"'):
        require_server()


def test_the_link_works_as_soon_as_it_is_printed(images: Path) -> None:
    import socket

    served = serve(Viewer(open_all([images])), port=0)
    with socket.create_connection(("127.0.0.1", served.port), timeout=5):  # it is answered when the server runs
        pass
    assert served.link == f"http://127.0.0.1:{served.port}/{served.token}/"
    served._socket.close()


def test_answers_are_sent_at_once(images: Path) -> None:
    import socket

    served = serve(Viewer(open_all([images])), port=0)
    assert served._socket.proto == socket.IPPROTO_TCP  # what asyncio looks at before it sets TCP_NODELAY
    served._socket.close()
