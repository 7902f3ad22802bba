"""Programs of other people, played on loopback sockets: they say exactly the bytes that a test wants said."""

import contextlib
import socket
import threading


class Peer:
    """A server that hands each connection to `serve(peer, connection)` in its own thread, until it is closed."""

    def __init__(self, serve):
        self._serve = serve
        self._listener = socket.create_server(("127.0.0.1", 0))
        self.port = self._listener.getsockname()[1]
        self.address = f"http://127.0.0.1:{self.port}"
        self.connections = 0
        self.requests = []  # (first line, headers, body)
        self.ended = threading.Event()
        self._open = []
        self._threads = [threading.Thread(target=self._accept, daemon=True)]
        self._threads[0].start()

    def _accept(self):
        while True:
            try:
                connection, _ = self._listener.accept()
            except OSError:
                return
            self.connections += 1
            self._open.append(connection)
            thread = threading.Thread(target=self._run, args=(connection,), daemon=True)
            self._threads.append(thread)
            thread.start()

    def _run(self, connection):
        with connection, contextlib.suppress(OSError, EOFError):
            self._serve(self, connection)

    def request(self, connection):
        """Reads one request from the connection; EOFError when there is none any more."""
        file = connection.makefile("rb")
        first = file.readline().decode().strip()
        if not first:
            raise EOFError
        headers = {}
        while line := file.readline().decode().strip():
            name, _, value = line.partition(":")
            headers[name.lower()] = value.strip()
        body = file.read(int(headers.get("content-length", 0)))
        self.requests.append((first, headers, body))
        return first, headers, body

    def close(self):
        self.ended.set()
        for each in (self._listener, *self._open):
            with contextlib.suppress(OSError):
                each.shutdown(socket.SHUT_RDWR)
        self._listener.close()
        for thread in self._threads:
            thread.join()

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.close()


def answer(body, status="200 OK", *, headers=()):
    """An answer as bytes."""
    lines = [f"HTTP/1.1 {status}", "content-type: application/json", f"content-length: {len(body)}", *headers]
    return "\r\n".join(lines).encode() + b"\r\n\r\n" + body


def always(*answers):
    """Serves one answer for each request of a connection, the last one for ever after."""

    def serve(peer, connection):
        given = 0
        while True:
            peer.request(connection)
            connection.sendall(answers[min(given, len(answers) - 1)])
            given += 1

    return serve
