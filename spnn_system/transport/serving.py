"""What a gRPC server of a role needs beside its checks: an address that is free, threads, settings."""

from __future__ import annotations

import socket
import threading
from concurrent.futures import Executor, Future

import grpc

from spnn_system.transport import frames

OPTIONS = [("grpc.so_reuseport", 0), ("grpc.max_receive_message_length", 2 * frames.PIECE_BYTES),
           ("grpc.http2.min_ping_interval_without_data_ms", 100), ("grpc.http2.max_ping_strikes", 0),
           ("grpc.keepalive_time_ms", 10_000), ("grpc.keepalive_timeout_ms", 10_000),
           ("grpc.server_handshake_timeout_ms", 10_000)]

CUT_SECONDS = 0.25                           # in which gRPC says that a stream which brings no more was cut


class Threads(Executor):
    """A thread for every call, that does not hold up the process's end (a ThreadPoolExecutor's would, for ever)."""

    def submit(self, work, /, *args, **kwargs):
        done = Future()

        def run():
            try:
                done.set_result(work(*args, **kwargs))
            except BaseException as error:
                done.set_exception(error)

        threading.Thread(target=run, name="gate", daemon=True).start()
        return done


def is_over_soon(context: grpc.ServicerContext) -> bool:
    """Whether a stream that brings no more has lost its connection; gRPC may say so only a moment later."""
    over = threading.Event()
    return not context.add_callback(over.set) or over.wait(CUT_SECONDS)


def check_free(me: str, address: str) -> None:
    """ValueError, in one sentence, if nobody can serve at this address here."""
    host, _, port = address.rpartition(":")
    try:
        if not host or not 0 < int(port) < 1 << 16:
            raise ValueError("an address is host:port, the port between 1 and 65535")
        family, _, _, _, place = socket.getaddrinfo(host.strip("[]"), int(port), type=socket.SOCK_STREAM)[0]
        with socket.socket(family, socket.SOCK_STREAM) as probe:
            probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
            probe.bind(place)
    except (OSError, ValueError, OverflowError) as error:
        raise ValueError(f"{me} cannot serve at {address!r}: {getattr(error, 'strerror', None) or error}") from None
