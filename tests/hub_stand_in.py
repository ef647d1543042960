"""A Hub on 127.0.0.1: as much of the Hub's API as reading a model's config needs, and every way it can go wrong.

    with HubStandIn() as hub:
        hub.add("org/good", {"config.json": b"{...}"})
        hub.add("org/gated", {}, trouble="gated")
        subprocess.run(..., env=os.environ | hub.environment(cache_folder))

huggingface_hub reads HF_ENDPOINT when it is imported, so a client runs in a process of its own.
Headers and codes: https://huggingface.co/docs/hub/api and the answers that huggingface_hub's hf_raise_for_status knows.
"""

from __future__ import annotations

import contextlib
import hashlib
import json
import threading
from collections.abc import Mapping
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Self
from urllib.parse import unquote

COMMIT = "0123456789abcdef0123456789abcdef01234567"
PAGE = b"<!DOCTYPE html><html><body>Please log in to the network.</body></html>"

STATUS_TROUBLE = {
    "private": (401, {"X-Error-Code": "RepoNotFound", "X-Error-Message": "Repository not found"}),
    "log-in-first": (401, {"X-Error-Message": "Invalid username or password."}),
    "bad-token": (401, {"X-Error-Message": "Invalid credentials in Authorization header"}),
    "forbidden": (403, {"X-Error-Message": "Access to this resource is restricted"}),
    "rate-limited": (429, {"Retry-After": "7"}),
    "broken": (500, {}),
    "bad-gateway": (502, {}),
    "unavailable": (503, {}),
}


@dataclass
class Repo:
    """Files by name, commits by revision, and what is wrong with it (None: nothing)."""

    files: Mapping[str, bytes]
    revisions: Mapping[str, str]
    trouble: str | None = None


@dataclass(frozen=True)
class Request:
    """One request that came in."""

    method: str
    path: str
    authorized: bool


@dataclass
class HubStandIn:
    """The server; `requests` is its log."""

    repos: dict[str, Repo] = field(default_factory=dict)
    requests: list[Request] = field(default_factory=list)

    def __enter__(self) -> Self:
        hub = self

        class Handler(_Handler):
            stand_in = hub

        self.closing = threading.Event()
        self.server = _Server(("127.0.0.1", 0), Handler)
        self.server.daemon_threads = True
        self.thread = threading.Thread(target=self.server.serve_forever, kwargs={"poll_interval": 0.05}, daemon=True)
        self.thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self.closing.set()
        self.server.shutdown()
        self.server.server_close()

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self.server.server_address[1]}"

    def add(
        self,
        name: str,
        files: Mapping[str, bytes],
        trouble: str | None = None,
        revisions: Mapping[str, str] | None = None,
    ) -> None:
        """A repository; `main` is at COMMIT unless `revisions` says otherwise."""
        self.repos[name] = Repo(files, revisions or {"main": COMMIT}, trouble)

    def environment(self, cache: Path, **more: str) -> dict[str, str]:
        """Variables that send huggingface_hub here, with short time-outs and a cache of its own."""
        return {
            "HF_ENDPOINT": self.url,
            "HF_HOME": str(cache),
            "HF_HUB_CACHE": str(cache / "hub"),
            "HF_HUB_DISABLE_XET": "1",
            "HF_HUB_ETAG_TIMEOUT": "10",
            "HF_HUB_DOWNLOAD_TIMEOUT": "1",
            "HF_HUB_OFFLINE": "0",
            "HF_TOKEN": "",
            "NO_PROXY": "127.0.0.1",
            **more,
        }


class _Server(ThreadingHTTPServer):
    def handle_error(self, request: object, client_address: object) -> None:
        """A client that goes away is what some tests are about."""


class Handler(BaseHTTPRequestHandler):
    """One answer for HEAD and GET, and nothing on the terminal."""

    protocol_version = "HTTP/1.1"

    def do_HEAD(self) -> None:
        self.answer()

    def do_GET(self) -> None:
        self.answer()

    def answer(self) -> None:
        raise NotImplementedError

    def log_message(self, format: str, *args: object) -> None:  # noqa: A002 - the base class names it
        """Keep the tests' output clean."""

    def parts(self) -> list[str]:
        """Of the path that was asked for."""
        return [unquote(part) for part in self.path.partition("?")[0].strip("/").split("/")]


class _Handler(Handler):
    stand_in: HubStandIn

    def answer(self) -> None:
        if self.path == "/api/agent-harnesses":  # huggingface_hub 2 asks this once a day, for its user agent
            self._say(200, {}, b'{"standardEnvVars": [], "harnesses": {}}')
            return
        authorized = "Authorization" in self.headers
        self.stand_in.requests.append(Request(self.command, self.path, authorized))
        with contextlib.suppress(ConnectionError):
            parts = self.parts()
            if parts[:2] == ["api", "models"]:
                self._listing("/".join(parts[2:4]), parts[5] if parts[4:5] == ["revision"] else "main")
            elif parts[0] == "cdn":
                self._file(parts[1] + "/" + parts[2], parts[3], parts[4], redirected=True)
            elif parts[2:3] == ["resolve"]:
                self._file(parts[0] + "/" + parts[1], parts[3], "/".join(parts[4:]))
            else:
                self._say(404)

    def _known(self, name: str, revision: str) -> tuple[Repo, str] | None:
        repo = self.stand_in.repos.get(name)
        if repo is None:
            self._say(401, {"X-Error-Code": "RepoNotFound", "X-Error-Message": "Repository not found"})
            return None
        if self._is_trouble(repo):
            return None
        commits = {**repo.revisions, **{commit: commit for commit in repo.revisions.values()}}
        if revision not in commits:
            self._say(404, {"X-Error-Code": "RevisionNotFound", "X-Error-Message": f"Invalid rev id: {revision}"})
            return None
        return repo, commits[revision]

    def _is_trouble(self, repo: Repo) -> bool:
        """Whether the answer was given: a refusal, nothing at all, or something that isn't the Hub."""
        trouble = repo.trouble or ""
        if trouble == "gated":
            code = 403 if "Authorization" in self.headers else 401
            self._say(code, {"X-Error-Code": "GatedRepo", "X-Error-Message": "Access to this model is restricted"})
        elif trouble in STATUS_TROUBLE:
            self._say(*STATUS_TROUBLE[trouble])
        elif trouble == "loop":
            self._say(307, {"Location": self.path})
        elif trouble == "web-page":
            self._say(200, {"Content-Type": "text/html", "ETag": '"page"'}, PAGE)
        elif trouble == "silent":
            self.stand_in.closing.wait(30)
            self.close_connection = True
        elif trouble == "hangs-up":
            self.close_connection = True
        else:
            return False
        return True

    def _listing(self, name: str, revision: str) -> None:
        known = self._known(name, revision)
        if known is not None:
            repo, commit = known
            siblings = [{"rfilename": file} for file in sorted(repo.files)]
            self._say(200, {}, json.dumps({"id": name, "sha": commit, "siblings": siblings}).encode())

    def _file(self, name: str, revision: str, filename: str, *, redirected: bool = False) -> None:
        known = self._known(name, revision)
        if known is None:
            return
        repo, commit = known
        stamp = {"X-Repo-Commit": commit}
        if filename not in repo.files:
            self._say(404, {**stamp, "X-Error-Code": "EntryNotFound", "X-Error-Message": "Entry not found"})
            return
        body = repo.files[filename]
        tag = f'"{hashlib.sha256(body).hexdigest()}"'
        if repo.trouble and repo.trouble.startswith("renamed:"):
            new_name = repo.trouble.removeprefix("renamed:")
            self._say(307, {**stamp, "Location": f"/{new_name}/resolve/{revision}/{filename}"})
        elif repo.trouble == "elsewhere" and not redirected:
            port = self.server.server_address[1]
            location = f"http://localhost:{port}/cdn/{name}/{revision}/{filename}"
            linked = {"X-Linked-Etag": tag, "X-Linked-Size": str(len(body)), "Location": location}
            self._say(302, {**stamp, **linked})
        else:
            self._send(repo.trouble, {**stamp, "ETag": tag, "Content-Type": "application/json"}, body)

    def _send(self, trouble: str | None, headers: dict[str, str], body: bytes) -> None:
        """A file's bytes, or fewer, or very slowly."""
        if trouble == "huge":
            self._head(200, {**headers, "Content-Length": str(200 * 10**6)})
            self.close_connection = True
        elif trouble == "truncated" and self.command == "GET":
            self._head(200, {**headers, "Content-Length": str(len(body))})
            self.wfile.write(body[: len(body) // 2])
            self.close_connection = True
        elif trouble == "drip" and self.command == "GET":
            self._head(200, {**headers, "Content-Length": str(len(body))})
            for byte in body:
                if self.stand_in.closing.wait(0.4):
                    break
                self.wfile.write(bytes([byte]))
                self.wfile.flush()
            self.close_connection = True
        else:
            self._say(200, headers, body)

    def _say(self, status: int, headers: Mapping[str, str] | None = None, body: bytes = b"") -> None:
        self._head(status, {**(headers or {}), "Content-Length": str(len(body))})
        if self.command == "GET":
            self.wfile.write(body)

    def _head(self, status: int, headers: Mapping[str, str]) -> None:
        self.send_response(status)
        for key, value in headers.items():
            self.send_header(key, value)
        self.end_headers()
