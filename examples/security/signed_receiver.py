"""A receiver of signed events that needs only Python: `WEBHOOK_SECRET=whsec_… python signed_receiver.py 9000`."""

import base64
import hashlib
import hmac
import json
import os
import sys
import time
from collections.abc import Mapping
from http.server import BaseHTTPRequestHandler, HTTPServer
from typing import ClassVar

TOLERANCE_SECONDS = 300


def is_genuine(secret: str, headers: Mapping[str, str], body: bytes, now: float) -> bool:
    """Whether somebody who has the secret signed this body lately. Names of headers are in lower case."""
    ident, timestamp = headers.get("webhook-id", ""), headers.get("webhook-timestamp", "")
    if not timestamp.isdecimal() or abs(now - int(timestamp)) > TOLERANCE_SECONDS:
        return False  # somebody may have kept it to send it again
    key = base64.b64decode(secret.removeprefix("whsec_"))
    signed = f"{ident}.{timestamp}.".encode() + body
    expected = b"v1," + base64.b64encode(hmac.digest(key, signed, hashlib.sha256))
    # There are several while secrets are changed. Comparing in constant time tells nobody how close they got.
    shown = headers.get("webhook-signature", "").encode().split(b" ")
    return any(hmac.compare_digest(expected, one) for one in shown)


class Receiver(BaseHTTPRequestHandler):
    """Takes events that are genuine, and each only once."""

    seen: ClassVar[set[str]] = set()

    def do_POST(self) -> None:
        body = self.rfile.read(int(self.headers.get("content-length", 0)))
        headers = {name.lower(): value for name, value in self.headers.items()}
        genuine = is_genuine(os.environ["WEBHOOK_SECRET"], headers, body, time.time())
        if genuine and headers["webhook-id"] not in self.seen:
            self.seen.add(headers["webhook-id"])  # keep them where they outlive the process, for as long as it matters
            print("genuine:", json.loads(body), flush=True)
        self.send_response(202 if genuine else 401)
        self.end_headers()

    def log_message(self, *_: object) -> None:
        """Prints events only."""


if __name__ == "__main__":
    HTTPServer(("127.0.0.1", int(sys.argv[1])), Receiver).serve_forever()
