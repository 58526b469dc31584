"""A server that speaks as OpenAI's chat completions do, in a thread of this process: it replies what it is told."""

from __future__ import annotations

import json
import threading
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any


@dataclass(frozen=True)
class Answer:
    """What the server does with one request.

    chunks: of the stream; broken: the connection ends before the stream does; waits: it hangs after the chunks.
    """

    chunks: Sequence[dict[str, Any]] = ()
    status: int = 200
    body: Any = None
    headers: dict[str, str] = field(default_factory=dict)
    broken: bool = False
    waits: bool = False


def text(*pieces: str, finish: str | None = "stop") -> Answer:
    """Stream a text in pieces, with usage at the end as a client asks for it."""
    return Answer([*(_chunk({"content": piece}) for piece in pieces), _chunk({}, finish), _usage(20, len(pieces))])


def calls(*wanted: tuple[str, str, Sequence[str]], finish: str = "tool_calls") -> Answer:
    """Stream tool calls: (id, name, the arguments in pieces)."""
    chunks = []
    for index, (call_id, name, pieces) in enumerate(wanted):
        head = {"index": index, "id": call_id, "type": "function", "function": {"name": name, "arguments": ""}}
        chunks.append(_chunk({"tool_calls": [head]}))
        chunks += [_chunk({"tool_calls": [{"index": index, "function": {"arguments": piece}}]}) for piece in pieces]
    return Answer([*chunks, _chunk({}, finish), _usage(10, 5)])


def error(status: int, message: str, **headers: str) -> Answer:
    body = {"error": {"message": message, "type": "error", "code": None}}
    return Answer(status=status, body=body, headers={name.replace("_", "-"): value for name, value in headers.items()})


def _chunk(delta: dict[str, Any], finish: str | None = None) -> dict[str, Any]:
    choice = {"index": 0, "delta": {"role": "assistant", **delta}, "finish_reason": finish}
    return {"id": "c", "object": "chat.completion.chunk", "created": 1, "model": "fake", "choices": [choice]}


def _usage(prompt: int, completion: int) -> dict[str, Any]:
    usage = {
        "prompt_tokens": prompt,
        "completion_tokens": completion,
        "total_tokens": prompt + completion,
        "prompt_tokens_details": {"cached_tokens": 4},
    }
    return {**_chunk({}), "choices": [], "usage": usage}


class OpenAIServer:
    """Gives its answers in turn. requests: what was asked; gone: set when a client left before the end."""

    def __init__(self, answers: Sequence[Answer]) -> None:
        self._answers = iter(answers)
        self.requests: list[dict[str, Any]] = []
        self.gone = threading.Event()
        self.closing = threading.Event()
        self.url = ""

    def answer(self, request: dict[str, Any]) -> Answer:
        self.requests.append(request)
        return next(self._answers, error(500, "the server has no answer left"))


@contextmanager
def openai_server(*answers: Answer) -> Iterator[OpenAIServer]:
    server = OpenAIServer(answers)
    listener = _Listener(server)
    server.url = f"http://127.0.0.1:{listener.server_port}/v1"
    serving = threading.Thread(target=listener.serve_forever, kwargs={"poll_interval": 0.01}, daemon=True)
    serving.start()
    try:
        yield server
    finally:
        server.closing.set()
        listener.shutdown()
        listener.server_close()
        serving.join()


class _Listener(ThreadingHTTPServer):
    daemon_threads = True

    def __init__(self, fake: OpenAIServer) -> None:
        super().__init__(("127.0.0.1", 0), _Connection)
        self.fake = fake

    def handle_error(self, *_: Any) -> None:
        """Say nothing of clients that leave."""


class _Connection(BaseHTTPRequestHandler):
    server: _Listener

    def do_POST(self) -> None:
        request = json.loads(self.rfile.read(int(self.headers["content-length"])))
        answer = self.server.fake.answer(request)
        self.send_response(answer.status)
        for name, value in answer.headers.items():
            self.send_header(name, value)
        if answer.body is None:
            self._stream(answer)
        else:
            body = json.dumps(answer.body).encode()
            self.send_header("content-type", "application/json")
            self.send_header("content-length", str(len(body)))
            self.end_headers()
            self.wfile.write(body)

    def _stream(self, answer: Answer) -> None:
        self.send_header("content-type", "text/event-stream")
        self.send_header("transfer-encoding", "chunked")
        self.end_headers()
        for chunk in answer.chunks:
            self._write(f"data: {json.dumps(chunk)}\n\n")
        if answer.waits:
            self._wait()
        if answer.broken:
            self.close_connection = True
            return
        self._write("data: [DONE]\n\n")
        self.wfile.write(b"0\r\n\r\n")

    def _wait(self) -> None:
        """Write what clients pass over, until the client is gone."""
        fake = self.server.fake
        try:
            while not fake.closing.wait(0.01):
                self._write(": still there\n\n")
        except OSError:
            fake.gone.set()
            raise

    def _write(self, line: str) -> None:
        data = line.encode()
        self.wfile.write(f"{len(data):x}\r\n".encode() + data + b"\r\n")
        self.wfile.flush()

    def log_message(self, *_: Any) -> None:
        """Write no log."""
