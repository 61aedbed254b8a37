"""What a role lets in: the gRPC server, and the checks that every message and every call passes before it counts."""

from __future__ import annotations

import json
import math
import threading
import time
from collections import deque
from collections.abc import Callable, Iterator, Mapping
from concurrent.futures import Future
from contextlib import contextmanager
from pathlib import Path

import grpc

from spnn_system.transport import certificates as certs
from spnn_system.transport import frames, serving
from spnn_system.transport.frames import Frame, Head, Malformed
from spnn_system.transport.links import Incoming, LinkError
from spnn_system.transport.shaping import Clock

SERVICE, SESSION = "ppkit.spnn", "ppkit-session"
_HANDSHAKE_SECONDS = 2.0                     # a connection that has not shown a certificate by then was refused by TLS
_CLOSING_SECONDS = 0.5                       # that calls get to end which are being answered when a role closes
_REPLIES_KEPT = 64
_KEEPING_BYTES = 4096                        # what a message that waits takes beside its bytes, at most
_Code = grpc.StatusCode


class _Refused(Exception):
    """What is not taken: the status and the sentence for who sent it.  logged: whether the log says so too."""

    def __init__(self, code: grpc.StatusCode, why: str, *, logged: bool = True):
        super().__init__(why)
        self.code, self.why, self.logged = code, why, logged


class Gate:
    """The server of one role.  It puts what may come in into `incoming`, answers calls, and refuses and logs the rest.

    me, run, accepts, largest, backlog: as in Endpoint.  steps: the least and the largest that a message may be of.
    roles: who may talk with this one.  change: the lock that guards `incoming` and `steps`; told of every arrival.
    latency: seconds from a message's arrival until it may be read.  clock: of these, and of when a role was heard.
    record: an open file or None.  tell: takes a line of the log.  closing: says whether this role has stopped taking
    messages.  failed: told once the record cannot be written.
    ValueError, in one sentence, if nobody can serve at this address.
    """

    def __init__(self, me: str, address: str, *, run: str, roles: set[str], certificates: Path, latency: float,
                 accepts: Mapping[str, set[str]] | None, largest: int | None, backlog: int, record,
                 clock: Clock, tell: Callable[[dict], None], change: threading.Condition, closing: Callable[[], bool],
                 failed: Callable[[OSError], None]):
        self.me, self.run, self._accepts, self._latency = me, run, accepts, latency
        self._largest, self._backlog, self.steps, self._clock = largest, backlog, (0, math.inf), clock
        self._change, self._closing, self._tell, self._record, self._failed = change, closing, tell, record, failed
        self.incoming = {role: Incoming() for role in roles}
        self.handlers: dict[str, Callable[[str, dict], dict]] = {}
        self._replies: dict[tuple[str, str, int], Future] = {}
        self._streams: set[grpc.ServicerContext] = set()
        self._shaking: deque[float] = deque()    # when the connections began that have shown nothing yet
        self._shown: set[str] = set()            # the other ends of those that have
        self._timer: threading.Timer | None = None
        serving.check_free(me, address)
        self._server = grpc.server(serving.Threads(), options=serving.OPTIONS, maximum_concurrent_rpcs=32 + 8 * len(roles))
        self._server.add_generic_rpc_handlers([grpc.method_handlers_generic_handler(SERVICE, {
            "Deliver": grpc.stream_stream_rpc_method_handler(self._on_deliver),
            "Call": grpc.unary_unary_rpc_method_handler(self._on_call)})])
        try:
            self._server.add_secure_port(address, certs.serving(certificates, me, self._on_handshake))
        except RuntimeError as error:
            raise ValueError(f"{me} cannot serve at {address}: {str(error).split(';')[0]}") from None
        self.start = self._server.start

    def close(self) -> None:
        """End the streams at once, let calls that are being answered end, and serve no more."""
        with self._change:
            streams = list(self._streams)
            if self._timer is not None:
                self._timer.cancel()
        for context in streams:
            context.cancel()
        self._server.stop(_CLOSING_SECONDS).wait()

    def _on_deliver(self, parts: Iterator[bytes], context: grpc.ServicerContext) -> Iterator[bytes]:
        """Take messages, each in its pieces, and acknowledge each by its number."""
        with self._change:
            self._streams.add(context)
        try:
            with self._guarded(context, "message"):
                while first := next(parts, b""):
                    yield self._taken(first, parts, context)
        except grpc.RpcError:                    # the connection was cut: the sender will try again
            return
        finally:
            with self._change:
                self._streams.discard(context)

    def _taken(self, first: bytes, parts: Iterator[bytes], context: grpc.ServicerContext) -> bytes:
        """One message: checked by its head, then by all of it, and kept; its number, as the acknowledgement."""
        role, head = self._admitted(first, context)
        number, session, link = head.frame.number, _session_of(context), self.incoming[role]
        if self._accepts is not None and head.frame.name not in self._accepts.get(role, ()):
            raise _Refused(_Code.PERMISSION_DENIED, f"{role} may not send {head.frame.name!r} to {self.me}")
        with self._change:
            problem, is_new = link.problem(number, session), number >= link.next_number
            problem = problem or (self._unwanted(role, head) if is_new else None)
            before = None
            if problem is None and len(first) < head.total_bytes:
                before, link.arriving = link.arriving, context
        if problem is not None:
            raise _Refused(*problem)
        if before is not None:                   # the sender has opened another stream: nobody waits for the end of that one
            before.cancel()
        try:
            pieces = self._gathered(head, first, parts, context, is_new)
        finally:
            with self._change:
                if link.arriving is context:
                    link.arriving = None
        if is_new:
            self._put(link, frames.unpack(*pieces), session, pieces)
        return number.to_bytes(8, "big")

    def _unwanted(self, role: str, head: Head) -> tuple[grpc.StatusCode, str] | None:
        """Why a message that is the next of its link is not taken, by its head; nothing is kept for it before."""
        frame, (low, high) = head.frame, self.steps
        if not low <= frame.step <= high:
            return _Code.OUT_OF_RANGE, f"{frame.name!r} of step {frame.step} is out of turn: {self.me} takes {low} to {high}"
        if self._largest is not None and head.body_bytes > self._largest:
            return _Code.INVALID_ARGUMENT, f"a message to {self.me} has at most {self._largest} bytes, this one {head.body_bytes}"
        if self.incoming[role].unread_bytes + head.total_bytes + _KEEPING_BYTES > self._backlog:
            return _Code.FAILED_PRECONDITION, (f"{self.me} keeps at most {self._backlog} bytes of {role} that it has not read, "
                                               f"and has no room for {head.total_bytes}")
        return None

    def _gathered(self, head: Head, first: bytes, parts: Iterator[bytes], context: grpc.ServicerContext,
                  is_new: bool) -> list[bytes]:
        """All pieces of a message as they come; none kept of one that was taken before."""
        pieces, missing = [first], head.total_bytes - len(first)
        while missing > 0 and (part := next(parts, b"")):
            if is_new:
                pieces.append(part)
            missing -= len(part)
            with self._change:
                self.incoming[head.frame.sender].heard_at = self._clock.now()
        if missing > 0 and serving.is_over_soon(context):
            raise grpc.RpcError("cut in the middle of a message")
        return pieces

    def _put(self, link: Incoming, frame: Frame, session: str, pieces: list[bytes]) -> None:
        """Leave a whole message to its reader, unless it came on another stream meanwhile."""
        n_bytes = sum(map(len, pieces)) + _KEEPING_BYTES
        with self._change:
            if self._closing():
                raise _Refused(_Code.UNAVAILABLE, f"{self.me} has stopped", logged=False)
            problem = link.problem(frame.number, session)
            if problem is None and link.take(frame, session, self._clock.now() + self._latency, n_bytes):
                self._keep(pieces)
                self._change.notify_all()
        if problem is not None:
            raise _Refused(*problem)

    def _on_call(self, request: bytes, context: grpc.ServicerContext) -> bytes:
        """Answer one call; one that came before gets the answer it got, or is about to get."""
        with self._guarded(context, "call"):
            role, head = self._admitted(request, context)
            frame = frames.unpack(request)
            handler, key = self.handlers.get(frame.name), (role, _session_of(context), frame.number)
            if handler is None or head.kind != "json":
                raise _Refused(_Code.UNIMPLEMENTED, f"{self.me} answers no call {frame.name!r}")
            with self._change:
                is_first = key not in self._replies
                if is_first:
                    self._keep([request])
                    self._replies[key] = Future()
                reply = self._replies[key]
                for old in [old for old, earlier in self._replies.items() if earlier.done()][:-_REPLIES_KEPT]:
                    del self._replies[old]
            if is_first:
                reply.set_result(self._answered(handler, role, frame))
            code, text = reply.result()
            if code is not None:
                raise _Refused(code, text, logged=False)
            return text.encode()

    def _answered(self, handler: Callable[[str, dict], dict], role: str, frame: Frame) -> tuple[grpc.StatusCode | None, str]:
        """The handler's answer in JSON, or the status and sentence of its failure."""
        try:
            return None, json.dumps(handler(role, frame.payload), allow_nan=False)
        except (ValueError, LinkError) as error:
            return _Code.FAILED_PRECONDITION, str(error)
        except Exception as error:               # its text may hold values that the caller is not to see
            self._tell({"event": "failed", "at": time.time(), "from": role, "why": f"{type(error).__name__}: {error}"})
            return _Code.ABORTED, f"{self.me} failed to answer {frame.name!r} ({type(error).__name__})"

    def _admitted(self, first: bytes, context: grpc.ServicerContext) -> tuple[str, Head]:
        """The caller's role and its frame's head; _Refused or Malformed for no frame, one not from there or not for here."""
        role = certs.peer(context)
        with self._change:
            if context.peer() not in self._shown:
                self._shown.add(context.peer())
                self._shaking and self._shaking.popleft()
        if role not in self.incoming:
            raise _Refused(_Code.PERMISSION_DENIED, f"{role} is no role that {self.me} talks with")
        head = frames.opening(first)
        frame = head.frame
        if frame.sender != role:
            raise _Refused(_Code.PERMISSION_DENIED, f"the certificate is of {role}, the frame of {frame.sender}")
        if frame.run != self.run:
            raise _Refused(_Code.FAILED_PRECONDITION, f"the run is {self.run!r}, the frame is of {frame.run!r}")
        if frame.receiver != self.me:
            raise _Refused(_Code.FAILED_PRECONDITION, f"this is {self.me}, the frame is for {frame.receiver}")
        with self._change:
            self.incoming[role].heard_at = self._clock.now()
        return role, head

    @contextmanager
    def _guarded(self, context: grpc.ServicerContext, what: str) -> Iterator[None]:
        """End the call with a status, and log it, when it cannot be taken: refused, or because something failed in here.

        Every one of these statuses is final for who sent it, but UNAVAILABLE: what failed once would fail again.
        """
        try:
            yield
        except grpc.RpcError:
            raise
        except Exception as error:
            if isinstance(error, Malformed):
                error = _Refused(_Code.INVALID_ARGUMENT, str(error))
            event = "refused"
            if not isinstance(error, _Refused):      # its text may hold values
                event, kind = "failed", type(error).__name__
                error = _Refused(_Code.ABORTED, f"{self.me} could not take this {what} ({kind})")
            if error.logged:
                self._tell({"event": event, "at": time.time(), "from": certs.peer(context), "why": error.why})
            context.abort(error.code, error.why)

    def _keep(self, pieces: list[bytes]) -> None:
        """Into the record; where it cannot be written this role stops, and who sent it is not to blame: it may try again."""
        if self._record is not None and not self._record.closed:
            try:
                self._record.write(sum(map(len, pieces)).to_bytes(8, "big") + b"".join(pieces))
                self._record.flush()
            except OSError as error:
                self._record = None                  # orders and calls still come in
                self._failed(error)
                raise _Refused(_Code.UNAVAILABLE, f"{self.me} has stopped", logged=False) from None

    def _on_handshake(self) -> None:
        """A connection begins; see later whether it ever showed a certificate."""
        with self._change:
            self._shaking.append(self._clock.now())
            self._look_later()

    def _look_later(self) -> None:
        if self._timer is None and self._shaking and not self._closing():
            self._timer = threading.Timer(self._shaking[0] + _HANDSHAKE_SECONDS - self._clock.now(), self._count_failed)
            self._timer.daemon = True
            self._timer.start()

    def _count_failed(self) -> None:
        """Log how many connections began long enough ago and led to nothing."""
        with self._change:
            self._timer, failed = None, 0
            while self._shaking and self._shaking[0] + _HANDSHAKE_SECONDS <= self._clock.now():
                self._shaking.popleft()
                failed += 1
            self._look_later()
        if failed:
            self._tell({"event": "refused", "at": time.time(), "from": "unknown", "times": failed,
                        "why": f"connections that showed no valid certificate of this run's authority: {failed}"})


def _session_of(context: grpc.ServicerContext) -> str:
    """Which process of the caller's role this is."""
    return str(dict(context.invocation_metadata()).get(SESSION, ""))
