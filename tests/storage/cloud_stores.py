"""Google's and Azure's stores in memory, as far as bushel speaks to them: listings, conditions and error codes."""

import hashlib
import itertools
import re
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from email.utils import formatdate
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import NamedTuple
from urllib.parse import parse_qs, unquote, urlsplit
from xml.sax.saxutils import escape


class Stored(NamedTuple):
    data: bytes
    etag: str  # without quotes
    generation: int
    time: float


class Refused(Exception):
    def __init__(self, status: int, code: str, message: str) -> None:
        self.status, self.code, self.message = status, code, message


class CloudStore(BaseHTTPRequestHandler):
    """What both stores have in common; a store adds its verbs."""

    protocol_version = "HTTP/1.1"
    no_bucket = ("NoSuchBucket", "The specified bucket does not exist.")
    no_object = ("NoSuchKey", "The specified key does not exist.")
    server: "Serving"

    def log_message(self, *_: object) -> None:
        pass

    def do_GET(self) -> None:
        self._do(self.get)

    do_HEAD = do_GET  # noqa: N815

    def do_PUT(self) -> None:
        self._do(self.put)

    def do_DELETE(self) -> None:
        self._do(self.delete)

    def do_POST(self) -> None:
        self._do(self.post)

    def _do(self, verb) -> None:
        length = int(self.headers.get("content-length") or 0)
        self.body = self.rfile.read(length)
        parts = urlsplit(self.path)
        self.query = {name: values[0] for name, values in parse_qs(parts.query, keep_blank_values=True).items()}
        _, self.bucket, *name = parts.path.split("/", 2)
        self.name = unquote(name[0]) if name else ""
        with self.server.lock:
            try:
                if self.server.refuses is not None:
                    raise self.server.refuses
                if self.bucket not in self.server.buckets:
                    raise Refused(404, *self.no_bucket)
                self.objects = self.server.buckets[self.bucket]
                verb()
            except Refused as refused:
                body = f'<?xml version="1.0"?><Error><Code>{refused.code}</Code><Message>{refused.message}</Message>'
                self.answer(refused.status, f"{body}</Error>".encode())

    def answer(self, status: int, body: bytes = b"", **headers: str) -> None:
        self.send_response(status)
        for name, value in headers.items():
            self.send_header(name.replace("_", "-"), value)
        self.send_header("content-length", str(len(body)))
        self.end_headers()
        if self.command != "HEAD":
            self.wfile.write(body)

    def stored(self) -> Stored:
        if self.name not in self.objects:
            raise Refused(404, *self.no_object)
        return self.objects[self.name]

    def keep(self, data: bytes) -> Stored:
        generation = next(self.server.numbers)
        etag = f"0x8{hashlib.sha256(data + b'%d' % generation).hexdigest()[:14].upper()}"
        self.objects[self.name] = found = Stored(data, etag, generation, 1.7e9 + generation)
        return found

    def headers_of(self, stored: Stored) -> dict[str, str]:
        return {
            "etag": f'"{stored.etag}"',
            "last_modified": formatdate(stored.time, usegmt=True),
            "x_goog_generation": str(stored.generation),
        }

    def get(self) -> None:
        if not self.name:
            self.answer(200, self.listing().encode(), content_type="application/xml")
            return
        stored = self.stored()
        if (wanted := self.headers.get("if-match")) and wanted != f'"{stored.etag}"':
            raise Refused(412, "ConditionNotMet", "The condition specified was not met.")
        asked, headers = re.match(r"bytes=(\d+)-(\d+)", self.headers.get("range") or ""), self.headers_of(stored)
        if asked is None:
            self.answer(200, stored.data, **headers)
            return
        start, stop = int(asked[1]), min(int(asked[2]) + 1, len(stored.data))
        headers["content_range"] = f"bytes {start}-{stop - 1}/{len(stored.data)}"
        self.answer(206, stored.data[start:stop], **headers)

    def delete(self) -> None:
        self.stored()
        del self.objects[self.name]
        self.answer(204)

    def page(self) -> tuple[list[str], list[str]]:
        """Names of a listing, and what they have in common up to the delimiter."""
        prefix, delimiter = self.query.get("prefix", ""), self.query.get("delimiter", "")
        names, folders = [], {}
        for name in sorted(self.objects):
            if not name.startswith(prefix):
                continue
            rest = name[len(prefix) :]
            if delimiter and delimiter in rest:
                folders[prefix + rest.split(delimiter)[0] + delimiter] = True
            else:
                names.append(name)
        return names, list(folders)


class Azure(CloudStore):
    """ETags have no quotes in listings, and have them in headers."""

    no_bucket = ("ContainerNotFound", "The specified container does not exist.")
    no_object = ("BlobNotFound", "The specified blob does not exist.")

    def put(self) -> None:
        exists = self.name in self.objects
        if self.headers.get("if-none-match") == "*" and exists:
            raise Refused(409, "BlobAlreadyExists", "The specified blob already exists.")
        if (wanted := self.headers.get("if-match")) and not (exists and f'"{self.stored().etag}"' == wanted):
            raise Refused(412, "ConditionNotMet", "The condition specified was not met.")
        if self.query.get("comp") == "block":
            self.server.parts[(self.path.partition("?")[0], self.query["blockid"])] = self.body
            self.answer(201)
            return
        data = self.body
        if self.query.get("comp") == "blocklist":
            order = re.findall(r"<(?:Latest|Uncommitted)>([^<]*)<", self.body.decode())
            data = b"".join(self.server.parts.pop((self.path.partition("?")[0], block)) for block in order)
        if source := self.headers.get("x-ms-copy-source"):
            data = self.objects[unquote(urlsplit(source).path.split("/", 2)[2])].data
            self.answer(202, **self.headers_of(self.keep(data)), x_ms_copy_status="success")
            return
        self.answer(201, **self.headers_of(self.keep(data)))

    def post(self) -> None:
        """Several objects are removed at once."""
        between = re.search(r"boundary=(\S+)", self.headers["content-type"])
        assert between is not None
        answers = []
        for number, path in enumerate(re.findall(r"DELETE (\S+) HTTP", self.body.decode())):
            name = unquote(urlsplit(path).path.split("/", 2)[2])
            said = "202 Accepted" if self.objects.pop(name, None) else "404 The specified blob does not exist."
            code = "" if said.startswith("202") else "x-ms-error-code: BlobNotFound\r\n"
            answers.append(
                f"--batchresponse\r\nContent-Type: application/http\r\nContent-ID: {number}\r\n\r\nHTTP/1.1 {said}\r\n"
                f"{code}x-ms-request-id: {number}\r\nx-ms-version: 2023-11-03\r\n\r\n"
            )
        body = "".join([*answers, "--batchresponse--\r\n"]).encode()
        self.answer(202, body, content_type="multipart/mixed; boundary=batchresponse")

    def listing(self) -> str:
        names, folders = self.page()
        blobs = "".join(
            f"<Blob><Name>{escape(name)}</Name><Properties><Last-Modified>{formatdate(stored.time, usegmt=True)}"
            f"</Last-Modified><Etag>{stored.etag}</Etag><Content-Length>{len(stored.data)}</Content-Length>"
            "<Content-Type>application/octet-stream</Content-Type></Properties></Blob>"
            for name in names
            for stored in [self.objects[name]]
        )
        below = "".join(f"<BlobPrefix><Name>{escape(name)}</Name></BlobPrefix>" for name in folders)
        return (
            f'<?xml version="1.0" encoding="utf-8"?><EnumerationResults><Blobs>{blobs}{below}</Blobs>'
            "<NextMarker/></EnumerationResults>"
        )


class Google(CloudStore):
    """Conditions are on generations, and not on ETags."""

    def put(self) -> None:
        if (wanted := self.headers.get("x-goog-if-generation-match")) is not None:
            present = self.objects[self.name].generation if self.name in self.objects else 0
            if int(wanted) != present:
                raise Refused(412, "PreconditionFailed", "At least one of the pre-conditions did not hold.")
        if "uploadId" in self.query:
            self.server.parts[(self.query["uploadId"], self.query["partNumber"])] = self.body
            self.answer(200, etag=f'"{self.query["partNumber"]}"')
            return
        data = self.body
        if source := self.headers.get("x-goog-copy-source"):
            data = self.objects[unquote(source).lstrip("/").split("/", 1)[1]].data
        stored = self.keep(data)
        body = f'<CopyObjectResult><ETag>"{stored.etag}"</ETag></CopyObjectResult>'.encode() if source else b""
        self.answer(200, body, **self.headers_of(stored))

    def post(self) -> None:
        """The beginning and the end of an upload in parts."""
        if "uploads" in self.query:
            number = next(self.server.numbers)
            self.answer(
                200,
                f"<InitiateMultipartUploadResult><UploadId>u{number}</UploadId></InitiateMultipartUploadResult>".encode(),
            )
            return
        order = re.findall(r"<PartNumber>(\d+)<", self.body.decode())
        data = b"".join(self.server.parts.pop((self.query["uploadId"], number)) for number in order)
        stored = self.keep(data)
        body = f'<CompleteMultipartUploadResult><ETag>"{stored.etag}"</ETag></CompleteMultipartUploadResult>'
        self.answer(200, body.encode(), **self.headers_of(stored))

    def listing(self) -> str:
        names, folders = self.page()
        names = [name for name in names if name > self.query.get("start-after", "")]
        contents = "".join(
            f"<Contents><Key>{escape(name)}</Key><Generation>{stored.generation}</Generation>"
            f"<LastModified>2024-01-01T00:00:{stored.generation % 60:02d}.000Z</LastModified>"
            f'<ETag>"{stored.etag}"</ETag><Size>{len(stored.data)}</Size></Contents>'
            for name in names
            for stored in [self.objects[name]]
        )
        below = "".join(f"<CommonPrefixes><Prefix>{escape(name)}</Prefix></CommonPrefixes>" for name in folders)
        found = f"{contents}{below}<IsTruncated>false</IsTruncated>"
        return f'<?xml version="1.0"?><ListBucketResult>{found}</ListBucketResult>'


class Serving(ThreadingHTTPServer):
    daemon_threads = True

    def __init__(self, kind: type[CloudStore]) -> None:
        super().__init__(("127.0.0.1", 0), kind)
        self.buckets: dict[str, dict[str, Stored]] = {"box": {}}
        self.parts: dict[tuple[str, str], bytes] = {}
        self.numbers = itertools.count(1)
        self.lock = threading.RLock()
        self.refuses: Refused | None = None

    @property
    def address(self) -> str:
        return f"http://127.0.0.1:{self.server_address[1]}"


@contextmanager
def cloud(kind: type[CloudStore]) -> Iterator[Serving]:
    """A store with one bucket, `box`."""
    with Serving(kind) as serving:
        thread = threading.Thread(target=serving.serve_forever, kwargs={"poll_interval": 0.05}, daemon=True)
        thread.start()
        try:
            yield serving
        finally:
            serving.shutdown()
            thread.join()
