"""A role's place in the network: what it sends, what it takes and from whom, over gRPC with mutual TLS."""

from __future__ import annotations

import json
import math
import secrets
import socket
import threading
import time
from collections.abc import Callable, Iterator, Mapping
from concurrent.futures import Future, ThreadPoolExecutor
from pathlib import Path
from typing import TYPE_CHECKING, Any

import grpc

from ppkit.spnn.network import certificates as certs
from ppkit.spnn.network import frames
from ppkit.spnn.network.frames import Frame, Malformed
from ppkit.spnn.network.links import (Incoming, LinkError, Outgoing, OutOfTurn, Rejected, Silent, Stopped, detail,
                                      growing_pauses, raise_if_final)
from ppkit.spnn.network.shaping import piece_bytes

if TYPE_CHECKING:
    import torch

__all__ = ["Endpoint", "LinkError", "OutOfTurn", "Rejected", "Silent", "Stopped"]

_SERVICE, _SESSION = "ppkit.spnn", "ppkit-session"
_HANDSHAKE_SECONDS = 2.0                     # a connection that has not shown a certificate by then was refused by TLS
_REPLIES_KEPT = 64
_Code = grpc.StatusCode


class Endpoint:
    """Sends and receives for one role; serves while it is used as a context manager.

    me: this role.  addresses: {role: "host:port"}, of all roles that this one talks with, and its own, where it serves.
    run: the run's id, in every message.  certificates: the folder that holds <me>/, as `certificates.make` leaves it.
    bandwidth: bits per second of each directed link from here, 0 for unshaped; counted are the frame's bytes, not what TLS,
    HTTP/2 and TCP add.  latency: seconds after the last byte at which a message that comes here may be read; messages behind
    one another do not wait for each other's latency.  Calls are not shaped.
    timeout: seconds without a sign of life of a role.  accepts: {sender: names of messages it may send here}, None for all.
    record: a file that keeps every message and call taken, to be read with `frames.recorded`.
    log: gets a dict for every message sent, once it is acknowledged: at, sent_at (time.time() when it was given to `send` and
    when its acknowledgement came), step, phase, sender, receiver, name, n_bytes (payload), wire_bytes (frame); and for every
    refusal: event="refused", at, from, why. Called from several threads, never twice at a time.

    Refused with a gRPC status, logged, and forgotten: a certificate of another role than the sender that a frame names
    (PERMISSION_DENIED), a name that the sender may not send (PERMISSION_DENIED), another run's id or another receiver
    (FAILED_PRECONDITION), a number that is not the link's next (OUT_OF_RANGE; one that was taken already is acknowledged and
    dropped, it is a retry), a sender's process started anew (FAILED_PRECONDITION), what is no frame (INVALID_ARGUMENT). Who has
    no valid certificate of this run's authority does not get through TLS: gRPC sees no more of it than that a handshake began,
    so the log says that one did and led to nothing; gRPC's own line on stderr says why.

    ValueError, in one sentence, for certificates that do not fit, an address that cannot be served at, or a setting out of
    range; before anything is sent.
    """

    def __init__(self, me: str, addresses: Mapping[str, str], *, run: str, certificates: Path | str, bandwidth: float = 0,
                 latency: float = 0.0, timeout: float = 10.0, accepts: Mapping[str, set[str]] | None = None,
                 record: Path | str | None = None, log: Callable[[dict], None] | None = None):
        if me not in addresses:
            raise ValueError(f"addresses must have one for {me!r} itself, got {sorted(addresses)}")
        if not 0 <= bandwidth < math.inf or not 0 <= latency < math.inf or not 0 < timeout < math.inf:
            raise ValueError("bandwidth and latency must be >= 0 and timeout > 0, "
                             f"got bandwidth={bandwidth}, latency={latency}, timeout={timeout}")
        certs.check(certificates, me)
        self.me, self.run, self.timeout = me, run, timeout
        self._addresses, self._certificates, self._accepts = dict(addresses), Path(certificates), accepts
        self._bandwidth, self._latency, self._piece = bandwidth, latency, piece_bytes(bandwidth)
        self._session = secrets.token_hex(16)
        self._change = threading.Condition()             # guards all that follows, and tells of every change in it
        self._incoming = {role: Incoming() for role in addresses}
        self._sending = threading.Lock()                 # one message is numbered, cut and queued at a time
        self._outgoing: dict[str, Outgoing] = {}
        self._numbers: dict[str, int] = {}
        self._unacknowledged = 0
        self._failure: LinkError | None = None
        self._handlers: dict[str, Callable[[str, dict], dict]] = {}
        self._replies: dict[tuple[str, str, int], Future] = {}
        self._channels: dict[str, grpc.Channel] = {}
        self._calls = 0
        self._stopped, self._closed = threading.Event(), threading.Event()
        self._writing, self._log = threading.Lock(), log
        self._record = open(record, "ab") if record is not None else None
        self._shaking, self._shown, self._handshake_timer = 0, set(), None
        self._server = self._serve(addresses[me])

    def __enter__(self) -> Endpoint:
        self._server.start()
        return self

    def __exit__(self, kind, *_) -> None:
        try:
            if kind is None and not self._stopped.is_set():
                self.flush()
        finally:
            self.close()

    def send(self, receiver: str, name: str, payload: torch.Tensor | bytes | dict, *, step: int, phase: str = "online") -> None:
        """Send a message; returns at once, with the payload copied, and a thread brings it to the receiver.

        receiver: a role of addresses.  payload, name, step, phase: as in `frames.Frame`.
        Stopped, Silent or Rejected if this endpoint was stopped or a message before this one could not be delivered.
        """
        with self._sending:
            with self._change:
                self._raise_failure()
            link = self._outgoing.get(receiver) or self._link(receiver)
            number = self._numbers.get(receiver, 0)
            parts = frames.pieces(Frame(self.run, self.me, receiver, number, step, phase, name, payload), self._piece)
            head = frames.opening(parts[0])
            self._numbers[receiver] = number + 1
            with self._change:
                self._unacknowledged += 1
            link.put(parts, {"at": time.time(), "sent_at": None, "step": step, "phase": phase, "sender": self.me,
                             "receiver": receiver, "name": name, "n_bytes": head.body_bytes, "wire_bytes": head.total_bytes})

    def receive(self, sender: str, name: str, *, step: int, timeout: float | None = None) -> torch.Tensor | bytes | dict:
        """The payload of the next message of this sender, which must have this name and step.

        timeout: seconds to wait without a sign of life of the sender (a piece of a message, or a call), from now on; None
        for the endpoint's own, math.inf for as long as it takes or until somebody calls `stop`.
        Silent if the time is over, OutOfTurn if the next message is another, Stopped, Silent or Rejected if this endpoint was
        stopped or one of its own messages could not be delivered.
        """
        timeout = self.timeout if timeout is None else timeout
        link, since = self._incoming_of(sender), time.monotonic()
        with self._change:
            while True:
                self._raise_failure()
                now = time.monotonic()
                if link.waiting:
                    left = link.waiting[0][0] - now
                    if left <= 0:
                        break
                else:
                    left = max(since, link.heard_at) + timeout - now
                    if left <= 0:
                        raise Silent(sender, f"{sender} gave no sign of life for {timeout:g} s, while {self.me} waits for "
                                             f"{name!r} of step {step}")
                self._change.wait(None if left == math.inf else left)
            frame = link.waiting[0][1]
            if (frame.name, frame.step) != (name, step):
                raise OutOfTurn(sender, f"{sender} sent {frame.name!r} of step {frame.step} where {self.me} waits for {name!r} "
                                        f"of step {step}")
            link.waiting.popleft()
            return frame.payload

    def flush(self, timeout: float | None = None) -> None:
        """Wait until all that was sent is acknowledged.

        timeout: seconds, None for as long as it takes (a role that takes nothing ends the wait by being Silent).
        Stopped, Silent or Rejected as in `send`, and Silent if the time is over.
        """
        deadline = math.inf if timeout is None else time.monotonic() + timeout
        with self._change:
            while self._unacknowledged:
                self._raise_failure()
                left = deadline - time.monotonic()
                if left <= 0:
                    raise Silent(self.me, f"{self._unacknowledged} messages of {self.me} were not acknowledged in {timeout:g} s")
                self._change.wait(None if left == math.inf else left)
            self._raise_failure()

    def stop(self, reason: str) -> None:
        """Make every `send`, `receive` and `flush`, waiting or to come, raise Stopped(reason); calls still work."""
        self._fail(Stopped(self.me, reason))

    def on_call(self, method: str, handler: Callable[[str, dict], dict]) -> None:
        """Answer calls of this method with handler(caller, body); the caller is the role its certificate carries.

        Give all handlers before the endpoint is entered. They run in threads, several at a time, and may wait. Each call is
        answered by one run of the handler, however often the connection failed. A ValueError or LinkError that it raises
        becomes Rejected at the caller, with its sentence; of any other only the kind is told.
        """
        self._handlers[method] = handler

    def call(self, receiver: str, method: str, body: dict, *, timeout: float | None = None) -> dict:
        """Ask another role, and wait for its answer.

        body: a small dict of what JSON knows.  timeout: seconds for all tries together, None for the endpoint's own.
        Returns a dict.  Silent if no answer came in time, Rejected if the role refused.
        """
        timeout = self.timeout if timeout is None else timeout
        with self._change:
            self._calls += 1
            number = self._calls
        with self._sending:
            channel = self._channel(receiver)
        request = frames.pack(Frame(self.run, self.me, receiver, number, 0, "control", method, body))
        ask, deadline, pauses = channel.unary_unary(f"/{_SERVICE}/Call"), time.monotonic() + timeout, growing_pauses()
        while True:
            left = deadline - time.monotonic()
            try:
                return json.loads(ask(request, timeout=max(0.001, left), metadata=((_SESSION, self._session),)))
            except grpc.RpcError as problem:
                raise_if_final(receiver, problem)
                left = deadline - time.monotonic()
                if left <= 0 or self._closed.is_set():
                    raise Silent(receiver, f"{receiver} did not answer {method!r} for {timeout:g} s{detail(problem)}") from None
                self._closed.wait(min(next(pauses), left))
            except ValueError:                           # grpc's word for a channel that was closed meanwhile
                raise Silent(receiver, f"{self.me} closed before {receiver} answered {method!r}") from None

    def close(self) -> None:
        """Stop, and end all threads and connections.  What was not acknowledged may be lost: `flush` first."""
        if self._closed.is_set():
            return
        self.stop(f"{self.me} has closed its endpoint")
        self._closed.set()
        for link in self._outgoing.values():
            link.end()
        self._server.stop(0.5).wait()
        self._pool.shutdown(wait=False, cancel_futures=True)
        for channel in self._channels.values():
            channel.close()
        with self._writing:
            if self._handshake_timer is not None:
                self._handshake_timer.cancel()
            if self._record is not None:
                self._record.close()

    # what this role sends

    def _link(self, receiver: str) -> Outgoing:
        deliver = self._channel(receiver).stream_unary(f"/{_SERVICE}/Deliver")
        metadata = ((_SESSION, self._session),)
        self._outgoing[receiver] = Outgoing(
            receiver, lambda parts: deliver.future(parts, metadata=metadata), bandwidth=self._bandwidth, timeout=self.timeout,
            stopped=self._stopped, sent=self._acknowledged, failed=self._fail)
        return self._outgoing[receiver]

    def _channel(self, receiver: str) -> grpc.Channel:
        if receiver not in self._channels:
            if receiver not in self._addresses or receiver == self.me:
                others = sorted(set(self._addresses) - {self.me})
                raise ValueError(f"{self.me} can send to {others}, got {receiver!r}")
            self._channels[receiver] = grpc.secure_channel(
                self._addresses[receiver], certs.dialling(self._certificates, self.me),
                [("grpc.ssl_target_name_override", certs.target(receiver)), *_dialling_options(self.timeout)])
        return self._channels[receiver]

    def _acknowledged(self, about: dict) -> None:
        self._tell({**about, "sent_at": time.time()})
        with self._change:
            self._unacknowledged -= 1
            self._change.notify_all()

    def _fail(self, error: LinkError) -> None:
        """The first reason to stop is the one that everybody here is told."""
        with self._change:
            self._failure = self._failure or error
            self._change.notify_all()
        self._stopped.set()

    def _raise_failure(self) -> None:
        if self._failure is not None:
            raise type(self._failure)(self._failure.role, str(self._failure))

    # what this role takes

    def _serve(self, address: str) -> grpc.Server:
        """A server bound to the address, not started."""
        _check_free(self.me, address)
        self._pool = ThreadPoolExecutor(8 + 4 * len(self._addresses), thread_name_prefix=f"at {self.me}")
        server = grpc.server(self._pool, options=_SERVING_OPTIONS)
        server.add_generic_rpc_handlers([grpc.method_handlers_generic_handler(_SERVICE, {
            "Deliver": grpc.stream_unary_rpc_method_handler(self._on_deliver),
            "Call": grpc.unary_unary_rpc_method_handler(self._on_call)})])
        try:
            server.add_secure_port(address, certs.serving(self._certificates, self.me, self._on_handshake))
        except RuntimeError as error:
            raise ValueError(f"{self.me} cannot serve at {address}: {str(error).split(';')[0]}") from None
        return server

    def _on_deliver(self, parts: Iterator[bytes], context: grpc.ServicerContext) -> bytes:
        """Take one message, in pieces."""
        try:
            first = next(parts, b"")
            role, head = self._admitted(first, context)
            name, session, link = head.frame.name, _session_of(context), self._incoming_of(role)
            if self._accepts is not None and name not in self._accepts.get(role, ()):
                self._refuse(context, _Code.PERMISSION_DENIED, f"{role} may not send {name!r} to {self.me}", role)
            with self._change:
                problem = link.problem(head.frame.number, session)
            if problem is not None:
                self._refuse(context, *problem, role)
            pieces, size = [first], len(first)
            for part in parts:
                self._heard(role)
                pieces.append(part)
                size += len(part)
                if size > head.total_bytes:
                    break
            frame = frames.unpack(*pieces)
        except grpc.RpcError:                            # the connection was cut: the sender will try again
            return b""
        except Malformed as error:
            if not context.is_active():
                return b""
            self._refuse(context, _Code.INVALID_ARGUMENT, str(error), certs.peer(context))
        with self._change:
            if self._failure is not None:
                context.abort(_Code.UNAVAILABLE, f"{self.me} has stopped")
            problem = link.problem(frame.number, session)
            if problem is None and link.take(frame, session, time.monotonic() + self._latency):
                link.heard_at = time.monotonic()
                self._keep(pieces)
                self._change.notify_all()
        if problem is not None:
            self._refuse(context, *problem, role)
        return b""

    def _on_call(self, request: bytes, context: grpc.ServicerContext) -> bytes:
        """Answer one call; one that came before gets the answer it got, or would have got."""
        try:
            role, head = self._admitted(request, context)
            frame = frames.unpack(request)
        except Malformed as error:
            self._refuse(context, _Code.INVALID_ARGUMENT, str(error), certs.peer(context))
        handler, key = self._handlers.get(frame.name), (role, _session_of(context), frame.number)
        if handler is None or head.kind != "json":
            self._refuse(context, _Code.UNIMPLEMENTED, f"{self.me} answers no call {frame.name!r}", role)
        with self._change:
            answer, first = self._replies.get(key), key not in self._replies
            if first:
                answer = self._replies[key] = Future()
                self._keep([request])
                for old in [old for old, reply in self._replies.items() if reply.done()][:-_REPLIES_KEPT]:
                    del self._replies[old]
        if first:
            try:
                answer.set_result((None, json.dumps(handler(role, frame.payload), allow_nan=False)))
            except (ValueError, LinkError) as error:
                answer.set_result((_Code.FAILED_PRECONDITION, str(error)))
            except Exception as error:
                self._tell({"event": "failed", "at": time.time(), "from": role, "why": f"{type(error).__name__}: {error}"})
                answer.set_result((_Code.ABORTED, f"{self.me} failed to answer {frame.name!r} ({type(error).__name__})"))
        code, text = answer.result()
        if code is not None:
            context.abort(code, text)
        return text.encode()

    def _admitted(self, first: bytes, context: grpc.ServicerContext) -> tuple[str, frames.Head]:
        """The caller's role and the head of its frame; aborts the call if it is not for here, or not from there."""
        role = certs.peer(context)
        with self._writing:
            self._shown.add(context.peer())
        head = frames.opening(first)
        frame = head.frame
        if role not in self._addresses or role == self.me:
            self._refuse(context, _Code.PERMISSION_DENIED, f"{role} is no role that {self.me} talks with", role)
        if frame.sender != role:
            self._refuse(context, _Code.PERMISSION_DENIED, f"the certificate is of {role}, the frame of {frame.sender}", role)
        if frame.run != self.run:
            self._refuse(context, _Code.FAILED_PRECONDITION, f"the run is {self.run!r}, the frame is of {frame.run!r}", role)
        if frame.receiver != self.me:
            self._refuse(context, _Code.FAILED_PRECONDITION, f"this is {self.me}, the frame is for {frame.receiver}", role)
        self._heard(role)
        return role, head

    def _incoming_of(self, role: str) -> Incoming:
        if role not in self._incoming or role == self.me:
            raise ValueError(f"{self.me} can receive from {sorted(set(self._incoming) - {self.me})}, got {role!r}")
        return self._incoming[role]

    def _heard(self, role: str) -> None:
        with self._change:
            self._incoming[role].heard_at = time.monotonic()

    def _refuse(self, context: grpc.ServicerContext, code: grpc.StatusCode, why: str, who: str) -> None:
        """Log, and end the call with this status; raises."""
        self._tell({"event": "refused", "at": time.time(), "from": who, "why": why})
        context.abort(code, why)

    def _on_handshake(self) -> None:
        """Count a connection that begins; see later whether it ever showed a certificate."""
        with self._writing:
            self._shaking += 1
            if self._handshake_timer is None and not self._closed.is_set():
                self._handshake_timer = threading.Timer(_HANDSHAKE_SECONDS, self._count_handshakes)
                self._handshake_timer.daemon = True
                self._handshake_timer.start()

    def _count_handshakes(self) -> None:
        with self._writing:
            self._handshake_timer = None
            failed, self._shaking = self._shaking - len(self._shown), len(self._shown)
        if failed > 0:
            self._tell({"event": "refused", "at": time.time(), "from": "unknown",
                        "why": f"{failed} connections ended without a valid certificate of this run's authority"})

    def _tell(self, line: dict[str, Any]) -> None:
        if self._log is not None:
            with self._writing:
                self._log(line)

    def _keep(self, pieces: list[bytes]) -> None:
        if self._record is not None and not self._record.closed:
            self._record.write(sum(map(len, pieces)).to_bytes(8, "big") + b"".join(pieces))
            self._record.flush()


_SERVING_OPTIONS = [("grpc.so_reuseport", 0), ("grpc.max_receive_message_length", 2 * frames.PIECE_BYTES),
                    ("grpc.http2.min_ping_interval_without_data_ms", 100), ("grpc.http2.max_ping_strikes", 0),
                    ("grpc.server_handshake_timeout_ms", 10_000)]


def _dialling_options(timeout: float) -> list[tuple[str, int]]:
    """Connections that are tried again soon, and given up when the other end answers no ping; no proxy stands between roles."""
    ping = int(1000 * max(1.0, timeout / 4))
    return [("grpc.enable_http_proxy", 0), ("grpc.use_local_subchannel_pool", 1),
            ("grpc.max_receive_message_length", 2 * frames.PIECE_BYTES),
            ("grpc.initial_reconnect_backoff_ms", 50), ("grpc.max_reconnect_backoff_ms", 500),
            ("grpc.min_reconnect_backoff_ms", 2000), ("grpc.keepalive_time_ms", ping), ("grpc.keepalive_timeout_ms", ping),
            ("grpc.http2.max_pings_without_data", 0)]


def _session_of(context: grpc.ServicerContext) -> str:
    return str(dict(context.invocation_metadata()).get(_SESSION, ""))


def _check_free(me: str, address: str) -> None:
    """ValueError, in one sentence, if nobody can serve at this address here."""
    host, _, port = address.rpartition(":")
    try:
        family, _, _, _, place = socket.getaddrinfo(host.strip("[]"), int(port), type=socket.SOCK_STREAM)[0]
        with socket.socket(family, socket.SOCK_STREAM) as probe:
            probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
            probe.bind(place)
    except (OSError, ValueError, OverflowError) as error:
        why = getattr(error, "strerror", None) or error
        raise ValueError(f"{me} cannot serve at {address!r}: {why}") from None
