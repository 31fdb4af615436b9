"""A server that says of a Kafka cluster what a test wants: that it has one broker, or, as a real one may, none."""

from __future__ import annotations

import socketserver
import struct
import threading

API_VERSIONS, METADATA = 18, 3
UNSUPPORTED_VERSION, LEADER_NOT_AVAILABLE = 35, 5


class NamelessKafka(socketserver.ThreadingTCPServer):
    """Answers what a client asks first: which requests there are, and who is in the cluster."""

    daemon_threads = allow_reuse_address = True

    def __init__(self) -> None:
        super().__init__(("127.0.0.1", 0), _Connection)
        self.names_itself = True
        self.port = int(self.server_address[1])
        threading.Thread(target=self.serve_forever, args=(0.05,), daemon=True).start()

    @property
    def bootstrap(self) -> str:
        return f"127.0.0.1:{self.port}"

    def cluster(self) -> bytes:
        """A Metadata response of version 1 about the topic `t`."""
        there = self.names_itself
        broker = struct.pack(">i", 1) + _text("127.0.0.1") + struct.pack(">ih", self.port, -1)
        partition = struct.pack(">hii", 0 if there else LEADER_NOT_AVAILABLE, 0, 1 if there else -1)
        topic = struct.pack(">ih", 1, 0) + _text("t") + struct.pack(">?i", False, 1) + partition
        replicas = struct.pack(">iiii", 1, 1, 1, 1)
        return struct.pack(">i", there) + (broker if there else b"") + struct.pack(">i", there or -1) + topic + replicas


class _Connection(socketserver.StreamRequestHandler):
    server: NamelessKafka

    def handle(self) -> None:
        while size := self.rfile.read(4):
            asked = self.rfile.read(*struct.unpack(">i", size))
            api, version, correlation = struct.unpack_from(">hhi", asked)
            if api == API_VERSIONS:
                known = struct.pack(">hhhhhh", API_VERSIONS, 0, 0, METADATA, 0, 1)
                answer = struct.pack(">hi", UNSUPPORTED_VERSION if version else 0, 2) + known
            elif api == METADATA:
                answer = self.server.cluster()
            else:
                return
            self.wfile.write(struct.pack(">ii", len(answer) + 4, correlation) + answer)


def _text(text: str) -> bytes:
    return struct.pack(">h", len(text)) + text.encode()
