"""A Hub on 127.0.0.1 with checkpoints too large to exist: it serves ranges of files that are a header and then nothing.

    with RangeServer({"org/big": {"model.safetensors": (header, 10**12)}}) as hub:
        ... HF_ENDPOINT=hub.url ...
        hub.sent      bytes of file contents sent so far

Headers and codes are those of https://huggingface.co/docs/hub/api.
"""

from __future__ import annotations

import json
import threading
from collections.abc import Mapping
from http.server import ThreadingHTTPServer
from typing import Self

from hub_stand_in import COMMIT, Handler

File = tuple[bytes, int]
"""What a file starts with, and how many bytes it has in all; the rest would be zeros."""


class RangeServer:
    """The server; `sent` counts bytes of files, `ranges` the requests for a part of one, of which the first `busy` are refused."""

    def __init__(self, repos: Mapping[str, Mapping[str, File]]) -> None:
        self.repos = repos
        self.sent = 0
        self.ranges = 0
        self.busy = 0
        self.lock = threading.Lock()

    def __enter__(self) -> Self:
        hub = self

        class Own(_Handler):
            server_of = hub

        self.server = ThreadingHTTPServer(("127.0.0.1", 0), Own)
        self.server.daemon_threads = True
        threading.Thread(target=self.server.serve_forever, kwargs={"poll_interval": 0.05}, daemon=True).start()
        return self

    def __exit__(self, *_: object) -> None:
        self.server.shutdown()
        self.server.server_close()

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self.server.server_address[1]}"


class _Handler(Handler):
    server_of: RangeServer

    def answer(self) -> None:
        parts, hub = self.parts(), self.server_of
        if parts[:2] == ["api", "models"] and "/".join(parts[2:4]) in hub.repos:
            files = hub.repos["/".join(parts[2:4])]
            answer = {"id": "/".join(parts[2:4]), "sha": COMMIT, "siblings": [{"rfilename": name} for name in files]}
            self._say(200, {"Content-Type": "application/json"}, json.dumps(answer).encode())
        elif parts[2:3] == ["resolve"] and parts[-1] in hub.repos.get("/".join(parts[:2]), {}):
            self._file(*hub.repos["/".join(parts[:2])][parts[-1]])
        else:
            self._say(404, {"X-Error-Code": "EntryNotFound"}, b"")

    def _file(self, start: bytes, size: int) -> None:
        about = {"ETag": '"abc"', "X-Repo-Commit": COMMIT, "Accept-Ranges": "bytes"}
        wanted = self.headers.get("Range") or self.headers.get("range")
        if wanted is None:
            if self.command == "GET" and size > 10**7:
                raise AssertionError("the whole of a huge file was asked for")
            self._say(200, about, start + bytes(size - len(start)) if self.command == "GET" else b"", size)
            return
        first, _, last = wanted.removeprefix("bytes=").partition("-")
        begin, end = int(first), min(int(last or size), size - 1)
        body = start[begin : end + 1] + bytes(max(0, end + 1 - max(begin, len(start))))
        with self.server_of.lock:
            self.server_of.ranges += 1
            busy = self.server_of.busy > 0
            self.server_of.busy -= busy
        if busy:
            self._say(429, {"Retry-After": "0"}, b"")
            return
        self._say(206, {**about, "Content-Range": f"bytes {begin}-{end}/{size}"}, body)

    def _say(self, code: int, headers: Mapping[str, str], body: bytes, length: int | None = None) -> None:
        self.send_response(code)
        for name, value in headers.items():
            self.send_header(name, value)
        self.send_header("Content-Length", str(len(body) if length is None else length))
        self.end_headers()
        if self.command == "GET":
            self.wfile.write(body)
            with self.server_of.lock:
                self.server_of.sent += len(body) if "Content-Range" in headers or "ETag" in headers else 0
