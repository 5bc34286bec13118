"""Object stores: one client for S3, Google Cloud Storage and Azure, retried where that helps, errors in one line.

Credentials are found by each store's own conventions and handed to its client; nothing here keeps, prints or returns
them. Of what a store answers, only the code and the message of an error are passed on.
"""

from __future__ import annotations

import importlib
import os
import random
import re
import socket
import time
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from datetime import timedelta
from functools import lru_cache, partial
from pathlib import Path
from typing import Any, NamedTuple, TypeVar
from urllib.parse import unquote, urljoin, urlsplit

import msgspec

from bushel.errors import FileProblem, missing_package
from bushel.parallel import iterate_ahead
from bushel.storage.downloads import Downloads, NotDownloaded

__all__ = ["SCHEMES", "Found", "Key", "Status"]

SCHEMES = ("s3", "gs", "az", "http", "https")
_WEB = ("http", "https")  # which are read: the bucket is the host, and pages of links list folders
COPIED_BYTES = 5 << 30  # the largest object that S3 copies in one request
PART_BYTES = 16 << 20  # of a multipart upload; S3 takes 10,000 of them
PIECE_BYTES = 4 << 20  # of a stream
PAGE = 1000
_CACHE_BYTES = 16 << 30
_UNITS = {"": 1, "K": 1 << 10, "M": 1 << 20, "G": 1 << 30, "T": 1 << 40}
_TAGS_ASKED = 3  # times, before an object counts as another
_ATTEMPTS = 5  # around the few that the client makes for each request
_RETRIES = {
    "max_retries": 6,
    "backoff": {"init_backoff": timedelta(milliseconds=100), "max_backoff": timedelta(seconds=5), "base": 2},
    "retry_timeout": timedelta(seconds=120),
}
_LASTING = re.compile(r"status code: 4(?!08|29)\d\d|status code: 3\d\d|redirect without")
T = TypeVar("T")


class Status(NamedTuple):
    """What a store says of an object without giving it."""

    size: int
    etag: str  # in quotes, as headers have it
    mtime_ns: int
    version: str = ""  # Google's generation, on which its conditions are


class Key(NamedTuple):
    """Where an object is."""

    scheme: str
    bucket: str
    name: str  # of the object in its bucket; empty for the bucket itself

    def __str__(self) -> str:
        return f"{self.scheme}://{self.bucket}" + (f"/{self.name}" if self.name else "")


class Found(NamedTuple):
    """An object of a listing, by its name in the bucket."""

    name: str
    status: Status


def head(key: Key) -> Status:
    """Size and entity tag of an object. Raises FileNotFoundError if it is not there."""
    from obstore.exceptions import BaseError

    obs, store = _client(), _store(key.scheme, key.bucket)

    def asked() -> Any:
        try:
            return obs.head(store, key.name)
        except BaseError as error:
            if _LASTING.search(str(error)):
                obs.get(store, key.name)  # fails too, with the store's words: the answer to a HEAD has none
            raise

    return _status(_ask(key, asked))


def get(key: Key, start: int, stop: int, etag: str = "") -> memoryview:
    """The bytes from `start` to `stop`, all of them; refused if the object is no longer the one that `etag` names."""
    if start >= stop:
        return memoryview(b"")
    obs, store = _client(), _store(key.scheme, key.bucket)
    options: dict[str, Any] = {"range": (start, stop)} | ({"if_match": etag} if etag else {})

    def whole() -> memoryview:
        answer = _get_same(key, etag, lambda: obs.get(store, key.name, options=options))
        data = memoryview(answer.bytes())
        if len(data) != stop - start:
            raise _ShortRead
        return data

    return _ask(key, whole)


def stream(key: Key, start: int, stop: int, status: Status) -> Iterator[memoryview]:
    """The bytes from `start` to `stop` as they come, with one request, which is continued if it breaks off."""
    from obstore.exceptions import BaseError

    obs, store = _client(), _store(key.scheme, key.bucket)
    etag, failed = status.etag, 0
    while start < stop:
        options: dict[str, Any] = {"if_match": etag} if etag else {}
        if (start, stop) != (0, status.size):  # a whole object costs some servers less than a range of it
            options["range"] = (start, stop)
        ask = partial(obs.get, store, key.name, options=options)
        answer = _ask(key, partial(_get_same, key, etag, ask))
        error: Exception = _ShortRead()
        try:
            for piece in answer.stream(min_chunk_size=PIECE_BYTES):
                view = memoryview(piece)[: stop - start]
                start += len(view)
                failed = 0
                yield view
        except (BaseError, OSError) as broken:
            error = broken
        if start < stop:
            failed += 1
            if failed == _ATTEMPTS:
                raise _in_words(key, error)
            time.sleep(_pause(failed))


def _get_same(key: Key, etag: str, ask: Callable[[], Any]) -> Any:
    """The answer about the object that `etag` names: not every server heeds the condition, and a tag may be wrong."""
    for _ in range(_TAGS_ASKED):
        answer = ask()
        if not etag or (_quoted(answer.meta["e_tag"]) or etag) == etag:
            return answer
    raise _changed(key)


def get_head(key: Key, most: int) -> bytes:
    """The first bytes of an object, at most so many."""
    obs, store = _client(), _store(key.scheme, key.bucket)
    return _ask(key, lambda: bytes(obs.get(store, key.name, options={"range": (0, most)}).bytes()))


def get_all(key: Key) -> bytes:
    """A small object whole."""
    obs, store = _client(), _store(key.scheme, key.bucket)
    return _ask(key, lambda: bytes(obs.get(store, key.name).bytes()))


def put(key: Key, data: bytes | Path) -> Status:
    """Write an object: in parts if it is large; it appears when all of it is uploaded."""
    check_writable(key)
    obs, store = _client(), _store(key.scheme, key.bucket)
    size = len(data) if isinstance(data, bytes) else data.stat().st_size
    answer = _ask(key, lambda: obs.put(store, key.name, data, chunk_size=PART_BYTES, max_concurrency=4))
    return _written(size, answer)


def put_new(key: Key, data: bytes) -> Status | None:
    """Write a small object unless there is one: None then. Raises NotImplementedError where a store cannot do that."""
    return _put_if(key, data, "create")


def put_over(key: Key, data: bytes, old: Status) -> Status | None:
    """Write a small object in place of the one that has this status; None if it is no longer that."""
    return _put_if(key, data, {"e_tag": old.etag, "version": old.version})


def check_writable(key: Key) -> None:
    """Refuse what can only be read."""
    if key.scheme in _WEB:
        help = ["Write to a folder of this machine or to a store: s3://, gs:// or az://."]
        raise FileProblem(str(key), "nothing can be written to a web server", help=help)


def _put_if(key: Key, data: bytes, mode: Any) -> Status | None:
    check_writable(key)
    from obstore.exceptions import AlreadyExistsError, NotSupportedError, PreconditionError

    obs, store = _client(), _store(key.scheme, key.bucket)

    def put_it() -> Any:
        try:
            return obs.put(store, key.name, data, mode=mode, use_multipart=False)
        except (AlreadyExistsError, PreconditionError, FileNotFoundError) as error:
            if "NoSuchBucket" in str(error) or "ContainerNotFound" in str(error):
                raise
            return None
        except NotSupportedError:
            return NotSupportedError

    answer = _ask(key, put_it)
    if answer is NotSupportedError:
        raise NotImplementedError
    return None if answer is None else _written(len(data), answer)


def copy(key: Key, name: str, status: Status) -> None:
    """Copy an object inside its bucket, without its bytes passing here unless S3 refuses one so large."""
    obs, store = _client(), _store(key.scheme, key.bucket)
    if key.scheme == "s3" and status.size > COPIED_BYTES:
        _ask(key, lambda: _pass_on(key, name, status))
    else:
        _ask(key, lambda: obs.copy(store, key.name, name))


def _pass_on(key: Key, name: str, status: Status) -> None:
    """Read an object and write it under another name, in parts. A thread reads: the client cannot while it writes."""
    with iterate_ahead(stream(key, 0, status.size, status)) as pieces:
        store = _store(key.scheme, key.bucket)
        _client().put(store, name, pieces, chunk_size=PART_BYTES, max_concurrency=4)


def delete(key: Key, names: Sequence[str]) -> None:
    """Remove objects of a bucket; those that are not there do not matter."""
    obs, store = _client(), _store(key.scheme, key.bucket)
    for begin in range(0, len(names), PAGE):
        page = list(names[begin : begin + PAGE])
        try:
            _ask(key, lambda page=page: obs.delete(store, page))  # type: ignore[misc]
        except FileNotFoundError:
            continue


def list_all(key: Key, after: str = "", until: str | None = None) -> Iterator[Found]:
    """All objects below a prefix, a page of a thousand a request: those whose names come after one, up to another."""
    if key.scheme in _WEB:
        found, folders = list_folder(key)
        yield from found
        for folder in folders:
            yield from list_all(key._replace(name=folder.rstrip("/")))
        return
    obs, store = _client(), _store(key.scheme, key.bucket)
    pages: Any = None
    last = after

    def next_page() -> Any:
        nonlocal pages
        if pages is None:  # at first, or after the last name when a page was lost
            pages = obs.list(store, key.name or None, offset=last or None, chunk_size=PAGE)
        try:
            return next(pages, None)
        except BaseException:
            pages = None
            raise

    while (page := _ask(key, next_page)) is not None:
        for found in page:
            name = found["path"]
            if name > after and (until is None or name <= until):  # not every server heeds where to start
                yield Found(name, _status(found))
            if until is not None and name >= until:
                return
        last = page[-1]["path"] if page else last


def starts_anywhere(key: Key) -> bool:
    """Whether a store lists from any name on without passing over those before it. Azurite does not."""
    return key.scheme in ("s3", "gs")


def list_folder(key: Key) -> tuple[list[Found], list[str]]:
    """The objects right below a prefix, and the names of the folders there."""
    if key.scheme in _WEB:
        return _list_page(key)
    obs, store = _client(), _store(key.scheme, key.bucket)
    answer = _ask(key, lambda: obs.list_with_delimiter(store, key.name or None))
    return [Found(found["path"], _status(found)) for found in answer["objects"]], list(answer["common_prefixes"])


def _list_page(key: Key) -> tuple[list[Found], list[str]]:
    """What a web server's page for a folder links to, right below it."""
    try:
        page = Downloads(private=True).fetch(f"{key}/").decode(errors="replace")
    except NotDownloaded:
        return [], []
    base = f"/{key.name}/" if key.name else "/"
    linked = (
        urlsplit(urljoin(f"{key}/", link)) for link in re.findall(r"""href\s*=\s*["']([^"'?#]+)["']""", page, re.I)
    )
    paths = (unquote(link.path) for link in linked if link.netloc == key.bucket)
    names = sorted(
        {path[1:] for path in paths if path.startswith(base) and "/" not in path[len(base) : -1] and path != base}
    )
    files = [name for name in names if not name.endswith("/")]
    with ThreadPoolExecutor(_HEADS_AT_ONCE) as pool:
        found = list(pool.map(lambda name: Found(name, head(key._replace(name=name))), files))
    return found, [name for name in names if name.endswith("/")]


_HEADS_AT_ONCE = 16


def _status(found: Any) -> Status:
    mtime_ns = int(found["last_modified"].timestamp() * 1000) * 1_000_000
    return Status(found["size"], _quoted(found["e_tag"]), mtime_ns, found["version"] or "")


def _written(size: int, answer: Any) -> Status:
    return Status(size, _quoted(answer["e_tag"]), 0, answer["version"] or "")


def _quoted(etag: str | None) -> str:
    """An entity tag as headers have it: Azure's listings leave the quotes out."""
    if not etag or etag.startswith("W/"):  # a weak one, which no condition can name
        return ""
    return etag if etag.endswith('"') else f'"{etag}"'


class _ShortRead(Exception):
    pass


def _ask(key: Key, call: Callable[[], T]) -> T:
    """Call a store, again if it fails in a way that passes: each time after a longer wait."""
    from obstore.exceptions import BaseError, GenericError

    for attempt in range(1, _ATTEMPTS + 1):
        try:
            return call()
        except FileNotFoundError as error:
            if "NoSuchBucket" in str(error) or "ContainerNotFound" in str(error):
                raise no_bucket(key) from None
            raise FileNotFoundError(2, "no such object", str(key)) from None
        except FileProblem:
            raise
        except (BaseError, _ShortRead, OSError, ValueError) as error:
            passes = isinstance(error, GenericError | _ShortRead) and not _LASTING.search(str(error))
            if not passes or attempt == _ATTEMPTS:
                raise _in_words(key, error) from None
        time.sleep(_pause(attempt))
    raise AssertionError("the last attempt returns or raises")


def _pause(attempt: int) -> float:
    return random.uniform(0.05, 0.1) * float(2**attempt)


def no_bucket(key: Key) -> FileProblem:
    """The error for a bucket that is not there."""
    return FileProblem(str(key), f"there is no {_bucket(key)}", help=_endpoint_help(key))


def _bucket(key: Key) -> str:
    kind = "container" if key.scheme == "az" else "server" if key.scheme in _WEB else "bucket"
    return f"{kind} {key.bucket!r}"


_CREDENTIALS = {
    "s3": "Set AWS_ACCESS_KEY_ID and AWS_SECRET_ACCESS_KEY, or AWS_PROFILE for a profile of ~/.aws.",
    "gs": "Set GOOGLE_APPLICATION_CREDENTIALS, or log in: gcloud auth application-default login",
    "az": "Set AZURE_STORAGE_ACCOUNT_NAME and AZURE_STORAGE_ACCOUNT_KEY (or a SAS token, or AZURE_CLIENT_ID …).",
    "http": "It must be readable without a password.",
    "https": "It must be readable without a password.",
}
_ENDPOINTS = {  # the first that is set counts
    "s3": ("AWS_ENDPOINT_URL_S3", "AWS_ENDPOINT_URL", "AWS_ENDPOINT"),
    "gs": ("GOOGLE_BASE_URL", "STORAGE_EMULATOR_HOST"),
    "az": ("AZURE_STORAGE_ENDPOINT", "AZURE_ENDPOINT"),
    "http": (),
    "https": (),
}
# What a client's message contains, and what that means; the first match counts.
_MEANINGS = (
    (r"Range request not supported", "ranges"),
    (
        r"PermanentRedirect|redirect without|AuthorizationHeaderMalformed|IllegalLocationConstraint|status code: 301",
        "region",
    ),
    (r"NoSuchBucket|ContainerNotFound|The specified bucket does not exist", "bucket"),
    (
        r"169\.254\.169\.254|169\.254\.170\.2|metadata\.google|[Cc]redential|Account(Name)? must|token request",
        "none",
    ),
    (
        r"InvalidAccessKeyId|SignatureDoesNotMatch|ExpiredToken|Authentication|status code: 401|Unauthenticated",
        "wrong",
    ),
    (r"AccessDenied|status code: 403|PermissionDenied", "permission"),
    (r"status code: 412|Precondition", "changed"),
    (r"error sending request|dns error|tcp connect|Connect", "reach"),
)


def _in_words(key: Key, error: Exception) -> FileProblem:
    text = f"{type(error).__name__} {error}"
    meaning = next((meaning for pattern, meaning in _MEANINGS if re.search(pattern, text)), "")
    where, said, help = _bucket(key), _own_words(text), [_CREDENTIALS[key.scheme]]
    if meaning == "bucket":
        return no_bucket(key)
    if meaning == "none":
        return FileProblem(str(key), f"there are no credentials for {where}{said}", help=help)
    if meaning == "wrong":
        return FileProblem(str(key), f"the credentials are not accepted for {where}{said}", help=help)
    if meaning == "permission":
        return FileProblem(str(key), f"there is no permission for this in {where}{said}", help=help)
    if meaning == "region":
        help = ["Set AWS_REGION to the bucket's region."]
        return FileProblem(str(key), f"{where} is in another region{said}", help=help)
    if meaning == "changed":
        return _changed(key)
    if meaning == "ranges":
        help = ["Most servers do, such as nginx and Apache; or copy the folder to this machine."]
        return FileProblem(str(key), f"{where} does not answer requests for parts of files", help=help)
    if meaning == "reach":
        return FileProblem(str(key), "the store cannot be reached", help=_endpoint_help(key))
    found = re.search(r"status code: (\d+)", text)
    what = f"the store answered {found[1]}" if found else "the store did not answer as it should"
    return FileProblem(str(key), f"{what}{said}" if _LASTING.search(text) else f"{what}, {_ATTEMPTS} times{said}")


def _own_words(text: str) -> str:
    """The code and the message in a store's answer, in brackets. The rest of it may hold what was signed."""
    code = re.search(r"<Code>\s*([A-Za-z0-9._-]+)\s*</Code>", text)
    if code is None:
        return ""
    message = re.search(r"<Message>\s*([^<\n\\]{1,300})", text)  # Azure adds lines with a number and a time
    return f" ({code[1]}: {message[1].strip().rstrip('.')})" if message else f" ({code[1]})"


def _changed(key: Key) -> FileProblem:
    return FileProblem(str(key), "has changed while it was read", help=["Start again: what was read cannot be used."])


def _endpoint_help(key: Key) -> list[str]:
    names = _ENDPOINTS[key.scheme]
    if not names:
        return ["Is its address right?"]
    name = next((name for name in names if os.environ.get(name)), names[0])
    endpoint = _endpoint(key.scheme)
    shown = f"{name} is {_without_secrets(endpoint)}" if endpoint else f"{name} names another endpoint"
    return [f"Is its name right; {shown}?"]


def _without_secrets(url: str) -> str:
    parts = urlsplit(url)
    if not parts.hostname:
        return "no address, as https://host:port is one"
    return f"{parts.scheme}://{parts.hostname}" + (f":{parts.port}" if parts.port else "")


@lru_cache(maxsize=1)
def _client() -> Any:
    try:
        import obstore
    except ImportError:
        raise missing_package("obstore", extra="stores", purpose="reading and writing object stores") from None
    return obstore


def require(scheme: str) -> None:
    """Raise the error that names the extra of a scheme if its client is not installed."""
    try:
        _client()
    except ImportError:
        raise missing_package("obstore", extra="stores", purpose=f"{scheme}://") from None


def cache_limit() -> int:
    """What $BUSHEL_CACHE_SIZE says, in bytes. It is looked at with every path, so that a mistake shows at once."""
    text = os.environ.get("BUSHEL_CACHE_SIZE", "").strip()
    if not text:
        return _CACHE_BYTES
    found = re.fullmatch(r"(\d+(?:\.\d+)?)\s*([KMGT]?)(?:I?B)?", text.upper())
    if found is None:
        raise ValueError(f"BUSHEL_CACHE_SIZE must be a size such as 20G, or 0; got {text!r}")
    return int(float(found[1]) * _UNITS[found[2]])


@lru_cache(maxsize=64)
def _store(scheme: str, bucket: str) -> Any:
    require(scheme)
    store: Any = importlib.import_module("obstore.store")
    options: dict[str, Any] = {"connect_timeout": "10s", "timeout": "120s"}
    retries: dict[str, Any] = {"retry_config": _RETRIES}
    key = Key(scheme, bucket, "")
    try:
        if (endpoint := _endpoint(scheme)) is not None:
            _check_reachable(key, endpoint)
            options["allow_http"] = endpoint.startswith("http://")
        if scheme == "s3":
            return store.S3Store(bucket, config=_aws_config(), client_options=options, **retries)
        if scheme in _WEB:
            options["allow_http"] = scheme == "http"
            return store.HTTPStore.from_url(f"{scheme}://{bucket}", client_options=options, **retries)
        if scheme == "gs":
            return store.GCSStore(bucket, config=_google_config(), client_options=options, **retries)
        return store.AzureStore(bucket, client_options=options, **retries)
    except FileProblem:
        raise
    except Exception as error:
        raise _in_words(key, error) from None


def _endpoint(scheme: str) -> str | None:
    """The address of a store that is not its vendor's."""
    named = next((os.environ[name] for name in _ENDPOINTS[scheme] if os.environ.get(name)), None)
    if scheme in _WEB:
        return None
    if scheme == "s3":
        return named or _aws_config().get("endpoint")
    if scheme == "gs":
        return os.environ.get("GOOGLE_BASE_URL") or _google_config().get("base_url")
    return named


def _google_config() -> dict[str, Any]:
    """What Google's own tools read and the client does not: the address of an emulator, which checks no credentials."""
    if os.environ.get("GOOGLE_BASE_URL"):
        return {}
    if emulator := os.environ.get("STORAGE_EMULATOR_HOST"):
        address = emulator if "://" in emulator else f"http://{emulator}"
        # The client asks for a token before it writes, even if it is told to sign nothing.
        return {"base_url": address.rstrip("/"), "bearer_token": "none"}
    names = ("GOOGLE_SERVICE_ACCOUNT", "GOOGLE_SERVICE_ACCOUNT_PATH")
    file = next((os.environ[name] for name in names if os.environ.get(name)), None)
    if file is None:
        return {}
    with suppress(OSError, msgspec.MsgspecError):
        account = msgspec.json.decode(Path(file).read_bytes(), type=dict[str, Any])
        return {"base_url": account["gcs_base_url"]} if account.get("gcs_base_url") else {}
    return {}


def _aws_config() -> dict[str, Any]:
    """What ~/.aws adds to the environment, which is all that the client itself reads."""
    import configparser

    config: dict[str, Any] = {}
    if (endpoint := os.environ.get("AWS_ENDPOINT_URL_S3")) is not None:
        config["endpoint"] = endpoint
    profile = os.environ.get("AWS_PROFILE", "default")
    found: dict[str, str] = {}
    for variable, name, section in (
        ("AWS_CONFIG_FILE", "config", profile if profile == "default" else f"profile {profile}"),
        ("AWS_SHARED_CREDENTIALS_FILE", "credentials", profile),
    ):
        parser = configparser.RawConfigParser()
        try:
            parser.read(Path(os.environ.get(variable) or Path.home() / ".aws" / name).expanduser())
        except configparser.Error:
            continue
        if parser.has_section(section):
            found |= dict(parser.items(section))
    if not os.environ.get("AWS_ACCESS_KEY_ID"):
        names = ("aws_access_key_id", "aws_secret_access_key", "aws_session_token")
        config |= {name: found[name] for name in names if name in found}
    if not os.environ.get("AWS_REGION") and not os.environ.get("AWS_DEFAULT_REGION") and "region" in found:
        config["region"] = found["region"]
    if not any(os.environ.get(name) for name in _ENDPOINTS["s3"]) and "endpoint_url" in found:
        config["endpoint"] = found["endpoint_url"]
    return config


def _check_reachable(key: Key, endpoint: str) -> None:
    """Report a wrong endpoint at once, and not after all attempts of a client."""
    if any(os.environ.get(name) for name in ("HTTP_PROXY", "http_proxy", "HTTPS_PROXY", "https_proxy", "ALL_PROXY")):
        return
    parts = urlsplit(endpoint)
    try:
        address = (parts.hostname or "", parts.port or (80 if parts.scheme == "http" else 443))
    except ValueError:
        address = ("", 0)
    for wait in (0.2, 0.5, 0.0):
        try:
            socket.create_connection(address, timeout=5).close()
        except OSError:
            time.sleep(wait)
        else:
            return
    raise FileProblem(str(key), "the store cannot be reached", help=_endpoint_help(key))
