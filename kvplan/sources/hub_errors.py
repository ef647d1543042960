"""Translates the Hub's many errors into kvplan's few.

Nothing of an exception's own text is shown, because a proxy address or a header in it could contain a secret.
Exceptions are told apart by class name and status code, which are the same in huggingface_hub 0.34 (requests), 1.x
(httpx) and 2.x (httpx2).
"""

from __future__ import annotations

import errno
from urllib.parse import urlsplit

from kvplan.errors import Gated, KvplanError, NotFound, Problem, SourceError, UnknownName, Unreachable

_HTTP_LIBRARIES = frozenset({"requests", "urllib3", "httpx", "httpx2", "httpcore", "httpcore2", "h11", "ssl", "socket"})
_DISK = frozenset(
    {errno.EACCES, errno.EPERM, errno.EROFS, errno.ENOSPC, errno.EDQUOT, errno.ENOTDIR, errno.ENAMETOOLONG}
)


def is_temporary(problem: KvplanError) -> bool:
    """Whether a cached copy may be used: the Hub is in trouble or refuses access, but didn't say the file is gone."""
    return isinstance(problem, Unreachable | Gated)


def explained(error: BaseException, repo: str, revision: str | None) -> KvplanError:
    """The error to raise for a failed request for a file of `repo`."""
    names = {cls.__name__ for cls in type(error).__mro__}
    if "LocalEntryNotFoundError" in names and error.__cause__ is not None:
        return explained(error.__cause__, repo, revision)
    status = _status(error)
    if status is not None:
        return _by_answer(error, names, status, repo, revision)
    if "HFValidationError" in names:
        return UnknownName(f"{repo!r} is not a Hub id", hint="a Hub id looks like org/name or org/name@revision")
    for classes, problem in _BY_CLASS:
        if names & classes:
            return Unreachable(problem.what, cause=problem.cause or f"asked {endpoint()}", hint=problem.hint)
    return _by_text(error)


def page(repo: str) -> str:
    """The repository's page on the Hub."""
    return f"https://huggingface.co/{repo}"


def gated(repo: str) -> Gated:
    """The error for a repository that wants an accepted licence."""
    return Gated(
        f"{repo} is gated",
        cause="the Hub shows its files only to people who accepted its licence",
        hint=f"accept it on {page(repo)}, then set HF_TOKEN to a token of that account (or run `hf auth login`)",
    )


_UNAUTHORISED, _FORBIDDEN, _NOT_FOUND, _TOO_MANY, _SERVER = 401, 403, 404, 429, 500


def _by_answer(error: BaseException, names: set[str], status: int, repo: str, revision: str | None) -> KvplanError:
    """The error for an answer of the Hub, by its own code or by its status."""
    if "GatedRepoError" in names:
        return gated(repo)
    if "RevisionNotFoundError" in names:
        return NotFound(
            f"{repo} has no revision {revision or 'main'}",
            hint=f"branches, tags and commits are listed on {page(repo)}/tree/main",
        )
    if _header(error, "X-Error-Code") == "RepoNotFound" or status == _NOT_FOUND:
        return NotFound(
            f"the Hub has no model {repo}",
            cause="it doesn't exist, or it is private",
            hint="check the spelling; for a private model set HF_TOKEN to a token that may read it",
        )
    if status >= _SERVER:
        return Unreachable("the Hub has an internal error", cause=f"it answered {status}", hint="try again in a while")
    return _by_status(status, repo, error)


def _by_status(status: int, repo: str, error: BaseException) -> KvplanError:
    if status == _UNAUTHORISED:
        return Gated(
            f"the Hub wants a valid token to read {repo}",
            cause="it answered 401: there is no token, or it is wrong or has expired",
            hint=f"set HF_TOKEN to a valid token (or run `hf auth login`); {page(repo)} says who may read it",
        )
    if status == _FORBIDDEN:
        return Gated(
            f"the Hub doesn't let this account read {repo}",
            cause="it answered 403",
            hint=f"accept the licence on {page(repo)}, or set HF_TOKEN to a token that may read gated models",
        )
    if status == _TOO_MANY:
        return Unreachable(
            "too many requests to the Hub from this address",
            cause="it answered 429",
            hint=f"wait {_retry_after(error)}, or set HF_TOKEN: logged-in users have a higher limit",
        )
    return Unreachable(f"the Hub refused to send {repo}", cause=f"it answered {status}", hint="try again in a while")


_BY_CLASS = (
    (frozenset({"TimeoutException", "Timeout", "TimeoutError"}), Problem(
        "the Hub didn't answer in time",
        hint="try again, raise HF_HUB_ETAG_TIMEOUT or HF_HUB_DOWNLOAD_TIMEOUT (seconds), or give a local config.json",
    )),
    (frozenset({"ProxyError"}), Problem(
        "the proxy refused the connection", hint="check HTTPS_PROXY, HTTP_PROXY and NO_PROXY",
    )),
    (frozenset({"TooManyRedirects", "RecursionError"}), Problem("the Hub redirects in circles", hint="check HF_ENDPOINT")),
    (frozenset({"FileMetadataError"}), Problem(
        "the answer is not the Hub's",
        cause="it names no commit; a proxy, a log-in page or another server answered",
        hint="check HF_ENDPOINT and HTTPS_PROXY",
    )),
    (frozenset({"SSLError", "SSLCertVerificationError"}), Problem(
        "the Hub's certificate can't be checked", hint="check the clock, the proxy and SSL_CERT_FILE",
    )),
    (frozenset({"RemoteProtocolError", "ChunkedEncodingError", "IncompleteRead"}), Problem(
        "the Hub's answer was cut short", hint="try again",
    )),
)  # fmt: skip


def _by_text(error: BaseException) -> KvplanError:
    """The error for exceptions that their class alone doesn't tell apart."""
    if "CERTIFICATE" in str(error):
        return Unreachable("the Hub's certificate can't be checked", hint="check the clock and SSL_CERT_FILE")
    if "Consistency check" in str(error):
        return Unreachable("the Hub's answer was cut short", cause=f"asked {endpoint()}", hint="try again")
    if isinstance(error, OSError) and error.errno in _DISK:
        return SourceError(
            "the Hub cache can't be used",
            cause=f"{error.strerror}: {error.filename or 'its folder'}",
            hint="set HF_HUB_CACHE to a folder that can be written",
        )
    return _no_connection(error)


def _no_connection(error: BaseException) -> KvplanError:
    """The error for everything else: no route, no name, a refused connection, an invalid address."""
    library = type(error).__module__.partition(".")[0]
    if library in _HTTP_LIBRARIES or isinstance(error, OSError):
        return Unreachable(
            "the Hub can't be reached",
            cause=f"no connection to {endpoint()}",
            hint="check the network, HF_ENDPOINT and HTTPS_PROXY, or use a bundled model (kvplan models) or a local file",
        )
    return SourceError(
        "the Hub can't be asked",
        cause=f"huggingface_hub gave up with {type(error).__name__}",
        hint="check HF_ENDPOINT, HF_TOKEN and HTTPS_PROXY",
    )


def endpoint() -> str:
    """Host of the Hub in use. An address may contain a password, so only the host is shown."""
    from huggingface_hub import constants

    try:
        parts = urlsplit(constants.ENDPOINT)
        port = f":{parts.port}" if parts.port else ""
    except ValueError:
        return "HF_ENDPOINT"
    return f"{parts.hostname or 'HF_ENDPOINT'}{port}"


def _status(error: BaseException) -> int | None:
    status = getattr(getattr(error, "response", None), "status_code", None)
    return status if isinstance(status, int) else None


def _header(error: BaseException, name: str) -> str | None:
    headers = getattr(getattr(error, "response", None), "headers", None)
    value = headers.get(name) if headers is not None else None
    return value if isinstance(value, str) else None


def _retry_after(error: BaseException) -> str:
    value = _header(error, "Retry-After") or ""
    return f"{value} s" if value.isdecimal() and len(value) < len("123456") else "a few minutes"
