"""What answers mean: the body counts, and the status only where no host wrote it."""

from __future__ import annotations

import orjson
import pytest

from grundlag_bus.adapters.http.replies import read_ended, read_progress, read_response
from grundlag_bus.errors import BusUnreachableError, EnvelopeError, PublishUnsureError
from grundlag_bus.schema.envelope import Completed, Failed, Response
from grundlag_bus.schema.progress import Progress

AT = "https://host"


@pytest.mark.parametrize("status", [200, 404, 502])
@pytest.mark.parametrize(
    "response", [Completed({"a": None}), Failed("sold_out", "None is left.", {"left": 0}, retryable=True)]
)
def test_the_body_says_how_a_call_ended_whatever_the_status(status: int, response: Response) -> None:
    assert read_response(status, orjson.dumps(response.to_json()), at=AT) == response


@pytest.mark.parametrize("body", [b"", b"<html>", b"[]", b"7", b'{"detail": "no"}', b"\xff"])
@pytest.mark.parametrize(
    ("status", "code"),
    [
        (401, "unauthenticated"),
        (403, "unauthenticated"),
        (404, "provider_unavailable"),
        (302, "provider_unavailable"),
        (200, "provider_unavailable"),
    ],
)
def test_what_is_no_host_ends_the_call_as_one_that_did_not_run(status: int, code: str, body: bytes) -> None:
    failed = read_response(status, body, at=AT)
    assert isinstance(failed, Failed)
    assert (failed.code, failed.details) == (code, {"published": False})
    assert AT in failed.message


@pytest.mark.parametrize("status", [429, 503])
def test_a_proxy_without_its_host_is_tried_again(status: int) -> None:
    with pytest.raises(BusUnreachableError):
        read_response(status, b"<html>", at=AT)


@pytest.mark.parametrize("status", [500, 502, 504])
def test_a_proxy_that_lost_its_host_leaves_it_open_whether_the_call_runs(status: int) -> None:
    with pytest.raises(PublishUnsureError):
        read_response(status, b"<html>", at=AT)


@pytest.mark.parametrize("body", [b'{"status": "odd"}', b'{"status": "completed"}', b'{"status": "failed", "code": 7}'])
def test_a_response_of_another_version_is_refused(body: bytes) -> None:
    with pytest.raises(EnvelopeError):
        read_response(200, body, at=AT)


@pytest.mark.parametrize("data", [b"", b"[]", b"{}", b"null", b'{"response": 7}'])
def test_an_end_of_a_stream_that_is_none_is_refused(data: bytes) -> None:
    with pytest.raises(EnvelopeError):
        read_ended(data)


def test_progress_is_read() -> None:
    assert read_progress(b'{"done": 1, "text": "x"}') == Progress(done=1, text="x")
    with pytest.raises(EnvelopeError):
        read_progress(b"{")
