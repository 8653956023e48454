"""Curl commands, run as a document writes them: the address they name leads to the server of the test."""

from __future__ import annotations

import json
import os
import shlex
import shutil
import subprocess
from dataclasses import dataclass
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

import httpx

WRITTEN_ADDRESS = "localhost:8000"


@dataclass(frozen=True, slots=True)
class CurlAnswer:
    """What the server answered."""

    status: int
    body: str

    def json(self) -> Any:
        return json.loads(self.body)


def curl(command: str, url: str, folder: Path) -> CurlAnswer:
    """Run the command in a shell; where there is no curl, send what it would send."""
    if shutil.which("curl") is None:
        return _translated(command, url)
    # Its own settings file sends the address elsewhere, so that not a letter of the command has to change.
    (folder / ".curlrc").write_text(
        f'connect-to = "{WRITTEN_ADDRESS}:{urlsplit(url).netloc}"\n'
        'noproxy = "*"\nsilent\nshow-error\nmax-time = 240\nwrite-out = "\\n%{http_code}"\n',
        encoding="utf-8",
    )
    environment = os.environ | {"CURL_HOME": str(folder)}
    done = subprocess.run(["sh", "-c", command], env=environment, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    body, _, status = done.stdout.rpartition("\n")
    return CurlAnswer(int(status), body)


def _translated(command: str, url: str) -> CurlAnswer:
    """The request of a curl command that has no more than an address, `-X` and `-d`."""
    words = iter(shlex.split(command.replace("\\\n", " "))[1:])
    method, address, fields = "GET", "", list[str]()
    for word in words:
        match word:
            case "-X":
                method = next(words)
            case "-d":
                fields.append(next(words))
            case _:
                address = word.replace(f"http://{WRITTEN_ADDRESS}", url)
    headers = {"Content-Type": "application/x-www-form-urlencoded"} if fields else {}
    answer = httpx.request(method, address, content="&".join(fields), headers=headers, timeout=300)
    return CurlAnswer(answer.status_code, answer.text)
