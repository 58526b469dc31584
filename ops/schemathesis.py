"""Run schemathesis on the OpenAPI document of a host that serves the demo.

    python -m ops.schemathesis PROGRAM [OPTION...]

Every status and body has to be one that the document declares, and 500 is none of them. Statuses of 502 and above are
how calls fail by the document, so that the check that takes them for defects is left out.
"""

from __future__ import annotations

import json
import subprocess
import sys

CHECKS = (
    "status_code_conformance",
    "content_type_conformance",
    "response_headers_conformance",
    "response_schema_conformance",
    "negative_data_rejection",
    "unsupported_method",
)
LONG = ("/api/events", "/api/actions/demo/sleep", "/api/actions/demo/countdown")
"""What takes as long as it is told to."""


def main(program: str, *options: str) -> int:
    """Serve the demo, and return the exit code of schemathesis."""
    command = [sys.executable, "-m", "grundlag_bus", "serve", "grundlag_bus.demo:registry", "--port", "0"]
    with subprocess.Popen(command, stderr=subprocess.PIPE, text=True) as host:
        try:
            if host.stderr is None:
                return 1
            told = (json.loads(line) for line in host.stderr if line.startswith("{"))
            url = next((line["url"] for line in told if line["event"] == "serving"), None)
            if url is None:
                return 1
            wanted = [
                "--max-examples",
                "20",
                "--checks",
                ",".join(CHECKS),
                *(f"--exclude-path={path}" for path in LONG),
            ]
            return subprocess.run([program, "run", f"{url}/openapi.json", *wanted, *options], check=False).returncode
        finally:
            host.terminate()


if __name__ == "__main__":
    sys.exit(main(*sys.argv[1:]))
