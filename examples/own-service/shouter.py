"""A service like yours: takes events, answers each with a louder one. Only the standard library, no SDK.

Its environment says where to listen: POD_IP and PORT, as of every Pod of penstock.
"""

import os
import uuid
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer


class Shouter(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"

    def do_GET(self) -> None:
        self.answer(204, {}, b"")

    def do_POST(self) -> None:
        data = self.rfile.read(int(self.headers.get("content-length") or 0))
        greeting = os.environ.get("GREETING", "")
        print(f"{self.headers.get('ce-type')} {self.headers.get('ce-id')}: {data.decode()}", flush=True)
        reply = {
            "ce-specversion": "1.0",
            "ce-id": str(uuid.uuid4()),
            "ce-source": "/shouter",
            "ce-type": "shout",
            "content-type": "text/plain",
        }
        self.answer(200, reply, greeting.encode() + data.upper())

    def answer(self, status: int, headers: dict[str, str], body: bytes) -> None:
        self.send_response(status)
        for name, value in headers.items():
            self.send_header(name, value)
        self.send_header("content-length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, format: str, *args: object) -> None:
        """Only events are worth a line."""


if __name__ == "__main__":
    address = (os.environ.get("POD_IP", "127.0.0.1"), int(os.environ.get("PORT", "8080")))
    ThreadingHTTPServer(address, Shouter).serve_forever()
