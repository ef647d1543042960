"""Headers of safetensors files on the Hub, by range requests. Never more is read than was asked for.

A server or proxy that ignores ranges would send the whole file; bytes beyond those asked for are left unread. Source:
RFC 9110, sections 14.4 and 15.3.7 (206 and Content-Range).
"""

from __future__ import annotations

import re
import time
from collections.abc import Iterator
from contextlib import AbstractContextManager, contextmanager
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from kvplan.errors import BadFile, Unreachable
from kvplan.sources.checkpoints.safetensors import LENGTH_BYTES, MOST_HEADER_BYTES, tensors_of
from kvplan.sources.checkpoints.tensors import Headers

if TYPE_CHECKING:
    from huggingface_hub import HfApi

FIRST_BYTES = 100_001
"""Bytes of each file to request first. 97 % of headers are shorter. Source: huggingface_hub's hf_api.py."""
CHUNK = 65_536
PARTIAL = 206
_PLACE = re.compile(r"bytes (?P<first>\d{1,19})-(?P<last>\d{1,19})/(?P<size>\d{1,19}|\*)", re.ASCII)


TRIES = 4
BUSY = (429, 503)
"""Status codes that ask to try again later. Source: RFC 6585, section 4; RFC 9110, section 15.6.4."""
WAIT_S, MOST_WAIT_S = 2, 8
"""Seconds to wait where the answer says none, and at most: hub_headers gives up after three times as many without any file."""


class _Busy(Exception):
    """The server asks to come again in `wait_s` seconds."""

    def __init__(self, wait_s: int) -> None:
        self.wait_s = wait_s


def _wait_s(status: int, retry_after: str | None) -> int | None:
    """Seconds after which to ask again; None if the answer isn't worth waiting for, or asks for too long."""
    if status not in BUSY:
        return None
    said = int(retry_after) if retry_after is not None and re.fullmatch(r"\d{1,9}", retry_after, re.ASCII) else WAIT_S
    return said if said <= MOST_WAIT_S else None


@dataclass(frozen=True, slots=True)
class Part:
    """Bytes of a file from some offset. size: of the whole file, None if the server doesn't state it."""

    data: bytes
    size: int | None


@dataclass(frozen=True, slots=True)
class Remote:
    """One file of a repository. headers: of each request, including the token."""

    name: str
    url: str
    headers: dict[str, str]

    def part(self, first: int, count: int) -> Part:
        """`count` bytes from offset `first`, or as many as the file has.

        Raises: Unreachable for any other answer; what the HTTP library raises.
        """
        for _ in range(TRIES - 1):
            try:
                return self._part(first, count)
            except _Busy as busy:
                time.sleep(busy.wait_s)
        return self._part(first, count, patient=False)

    def _part(self, first: int, count: int, *, patient: bool = True) -> Part:
        """One request. patient: whether to raise _Busy for an answer that asks to wait, instead of giving up."""
        from huggingface_hub.utils import hf_raise_for_status  # type: ignore[attr-defined]

        asked = {**self.headers, "range": f"bytes={first}-{first + count - 1}"}
        with _stream(self.url, asked) as (answer, chunks):
            wait_s = _wait_s(answer.status_code, answer.headers.get("retry-after")) if patient else None
            if wait_s is not None:
                raise _Busy(wait_s)
            hf_raise_for_status(answer)
            data = _at_most(chunks, count + 1)
            if answer.status_code == PARTIAL:
                place = _PLACE.fullmatch(answer.headers.get("content-range") or "")
                return self._placed(data, place, first, count)
        if len(data) > count or first:
            raise Unreachable(
                f"the server doesn't serve parts of files: it would send the whole of {self.name}",
                cause=f"it answered {answer.status_code} to a request for {count:,} bytes",
                hint="ask the Hub itself (HF_ENDPOINT, HTTPS_PROXY), or give the folder of a download",
            )
        return Part(data, len(data))

    def _placed(self, data: bytes, place: re.Match[str] | None, first: int, count: int) -> Part:
        last = None if place is None else int(place["last"])
        if place is None or last is None or int(place["first"]) != first or not first <= last < first + count:
            raise Unreachable(
                f"the server sends another part of {self.name} than it was asked for",
                hint="check HF_ENDPOINT and HTTPS_PROXY",
            )
        size = None if place["size"] == "*" else int(place["size"])
        whole = first + count if size is None else min(first + count, size)
        if len(data) != last + 1 - first or (size is not None and last + 1 < whole):
            raise Unreachable(f"the Hub's answer for {self.name} was cut short", hint="try again")
        return Part(data, size)


def hub_file(api: HfApi, repo: str, revision: str | None, name: str) -> Headers:
    """Header of one file of a repository.

    Raises: Unreachable for a server that doesn't answer as asked; BadFile for a header that contradicts itself or the
    file's size; what huggingface_hub raises.
    """
    from huggingface_hub import constants, hf_hub_url
    from huggingface_hub.utils import build_hf_headers  # type: ignore[attr-defined]

    url = hf_hub_url(repo, name, revision=revision, endpoint=constants.ENDPOINT)
    file = Remote(name, url, build_hf_headers(token=api.token, library_name="kvplan"))
    start = file.part(0, FIRST_BYTES)
    length = _length(start, name)
    end = LENGTH_BYTES + length
    header, read = start.data[LENGTH_BYTES:end], len(start.data)
    if len(header) < length:
        header += file.part(read, end - read).data
        read = end
    tensors = tensors_of(header, name, None if start.size is None else start.size - end)
    return Headers(tensors, 1, read, f"{repo}/{name}")


def _length(start: Part, name: str) -> int:
    """Bytes of the header that follows.

    Raises: BadFile if they exceed the format's limit or the file's size.
    """
    length = int.from_bytes(start.data[:LENGTH_BYTES], "little")
    most = MOST_HEADER_BYTES if start.size is None else min(MOST_HEADER_BYTES, start.size - LENGTH_BYTES)
    if len(start.data) < LENGTH_BYTES or not 0 < length <= most:
        raise BadFile(
            f"{name} claims a header of {length:,} bytes, which is impossible",
            cause=f"it can have {max(most, 0):,} at most",
            hint="the file is damaged, or is no safetensors file",
        )
    return length


def _at_most(chunks: Iterator[bytes], count: int) -> bytes:
    """The first `count` bytes. Later bytes aren't waited for."""
    held = bytearray()
    for chunk in chunks:
        held += chunk
        if len(held) >= count:
            break
    return bytes(held[:count])


@contextmanager
def _stream(url: str, headers: dict[str, str]) -> Iterator[tuple[Any, Iterator[bytes]]]:
    """An answer whose body is read only as far as needed and then dropped.

    huggingface_hub 0.34 uses sessions of requests, 1.x and 2.x those of httpx.
    """
    from huggingface_hub import constants
    from huggingface_hub.utils import get_session  # type: ignore[attr-defined]

    session: Any = get_session()
    plain, patience = {**headers, "accept-encoding": "identity"}, constants.HF_HUB_DOWNLOAD_TIMEOUT
    if callable(getattr(session, "stream", None)):
        opened: AbstractContextManager[Any] = session.stream("GET", url, headers=plain, timeout=patience)
        with opened as answer:
            yield answer, answer.iter_raw(CHUNK)
        return
    with session.get(url, headers=plain, timeout=patience, stream=True) as answer:
        yield answer, answer.iter_content(CHUNK)
