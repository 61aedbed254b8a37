"""What a role lets in: the gRPC server, and the checks that every message and every call passes
before it counts.
"""

import json
import threading
import time
from collections.abc import Callable, Iterator
from concurrent.futures import Executor, Future
from contextlib import contextmanager
from typing import BinaryIO

import grpc

from spnn_system.transport import addresses, certificates, frames
from spnn_system.transport.admission import Admission, Identity
from spnn_system.transport.frames import Frame, Head, Malformed
from spnn_system.transport.handshakes import Handshakes
from spnn_system.transport.links import Inbox, Incoming, LinkError, Refused
from spnn_system.transport.shaping import WallClock

SERVICE, SESSION = "ppkit.spnn", "ppkit-session"
CUT_SECONDS = 0.25  # in which gRPC says that a stream which brings no more was cut
CLOSING_SECONDS = 0.5  # that calls get to end which are being answered when a role closes
_REPLIES_KEPT = 64
_KEEPING_BYTES = 4096  # what a message that waits takes beside its bytes, at most
_OPTIONS = [
    ("grpc.so_reuseport", 0),
    ("grpc.max_receive_message_length", 2 * frames.PIECE_BYTES),
    ("grpc.http2.min_ping_interval_without_data_ms", 100),
    ("grpc.http2.max_ping_strikes", 0),
    ("grpc.keepalive_time_ms", 10_000),
    ("grpc.keepalive_timeout_ms", 10_000),
    ("grpc.server_handshake_timeout_ms", 10_000),
]
_Code = grpc.StatusCode


class _Threads(Executor):
    """A thread for every call, that does not hold up the process's end (a ThreadPoolExecutor's
    would, for ever).
    """

    def submit(self, work, /, *args, **kwargs):
        done = Future()

        def run():
            try:
                done.set_result(work(*args, **kwargs))
            except BaseException as error:
                done.set_exception(error)

        threading.Thread(target=run, name="listener", daemon=True).start()
        return done


class Listener:
    """The server of one role.  It puts what may come in into an inbox, answers calls, and refuses
    and logs the rest.

    address: where it serves.  latency: seconds from a message's arrival until it may be read.
    clock: of these.
    record: an open file that keeps all that comes, or None.  failed: told once that cannot be
    written.
    log: takes a line for every refusal.  handlers: {method: what answers calls of it}.

    Refused with a gRPC status, logged, and forgotten: a certificate of another role than the sender
    that a frame names (PERMISSION_DENIED), a name that the sender may not send (PERMISSION_DENIED),
    another run's id or another receiver (FAILED_PRECONDITION), a number that is not the link's next
    (OUT_OF_RANGE; one that was taken already is acknowledged and dropped, it is a retry), a step
    that `turn` does not allow (OUT_OF_RANGE), a sender's process started anew
    (FAILED_PRECONDITION), what is no frame or too large (INVALID_ARGUMENT), what there is no room
    for (FAILED_PRECONDITION), what this role fails at (ABORTED): all of them are final, so that the
    sender ends with Rejected and the reason. Who has no valid certificate of this run's authority
    does not get through TLS: gRPC sees no more of it than that a handshake began, so the log says
    that one did and led to nothing; gRPC's own line on stderr says why.

    ValueError, in one sentence, if nobody can serve at this address.
    """

    def __init__(
        self,
        identity: Identity,
        address: str,
        *,
        inbox: Inbox,
        admission: Admission,
        latency: float,
        clock: WallClock,
        record: BinaryIO | None,
        log: Callable[[dict], None],
        failed: Callable[[OSError], None],
    ):
        self.me, self.run, self._inbox, self._admission = (
            identity.role,
            identity.run,
            inbox,
            admission,
        )
        self._latency, self._clock, self._record = latency, clock, record
        self._log, self._failed = log, failed
        self.handlers: dict[str, Callable[[str, dict], dict]] = {}
        self.handshakes = Handshakes(clock, log)
        self._replies: dict[tuple[str, str, int], Future] = {}
        self._streams: set[grpc.ServicerContext] = set()
        self._server = grpc.server(
            _Threads(), options=_OPTIONS, maximum_concurrent_rpcs=32 + 8 * len(inbox.senders)
        )
        self._server.add_generic_rpc_handlers(
            [
                grpc.method_handlers_generic_handler(
                    SERVICE,
                    {
                        "Deliver": grpc.stream_stream_rpc_method_handler(self._on_deliver),
                        "Call": grpc.unary_unary_rpc_method_handler(self._on_call),
                    },
                )
            ]
        )
        shown = certificates.serving(identity.certificates, self.me, self.handshakes.begin)
        try:
            addresses.listening(address).close()
            self._server.add_secure_port(address, shown)
        except (OSError, ValueError, RuntimeError) as error:
            why = getattr(error, "strerror", None) or str(error).split(";")[0]
            raise ValueError(f"{self.me} cannot serve at {address!r}: {why}") from None
        self.start = self._server.start

    def close(self) -> None:
        """End the streams at once, let calls that are being answered end, and serve no more."""
        with self._inbox.change:
            streams = list(self._streams)
        for context in streams:
            context.cancel()
        self._server.stop(CLOSING_SECONDS).wait()

    def _on_deliver(self, parts: Iterator[bytes], context: grpc.ServicerContext) -> Iterator[bytes]:
        """Take messages, each in its pieces, and acknowledge each by its number."""
        with self._inbox.change:
            self._streams.add(context)
        try:
            with self._guarded(context, "message"):
                while first := next(parts, b""):
                    yield self._taken(first, parts, context)
        except grpc.RpcError:  # the connection was cut: the sender will try again
            return
        finally:
            with self._inbox.change:
                self._streams.discard(context)

    def _taken(self, first: bytes, parts: Iterator[bytes], context: grpc.ServicerContext) -> bytes:
        """One message: checked by its head, then by all of it, and kept; its number, as the
        acknowledgement.
        """
        role, head = self._admitted(first, context)
        number, session, link = head.frame.number, _session_of(context), self._inbox.senders[role]
        accepts = self._admission.accepts
        if accepts is not None and head.frame.name not in accepts.get(role, ()):
            raise Refused(
                _Code.PERMISSION_DENIED, f"{role} may not send {head.frame.name!r} to {self.me}"
            )
        with self._inbox.change:
            link.check(number, session)
            is_new = number >= link.next_number
            if is_new:
                self._refuse_unwanted(role, head)
            before = None
            if len(first) < head.total_bytes:
                before, link.arriving = link.arriving, context
        # the sender has opened another stream: nobody waits for the end of that one
        if before is not None:
            before.cancel()
        try:
            pieces = self._gathered(head, first, parts, context, is_new)
        finally:
            with self._inbox.change:
                if link.arriving is context:
                    link.arriving = None
        if is_new:
            self._put(link, frames.unpack(*pieces), session, pieces)
        return number.to_bytes(8, "big")

    def _refuse_unwanted(self, role: str, head: Head) -> None:
        """Refuse a message that is the next of its link by its head; nothing is kept for it
        before.
        """
        frame, (low, high) = head.frame, self._inbox.steps
        if not low <= frame.step <= high:
            raise Refused(
                _Code.OUT_OF_RANGE,
                f"{frame.name!r} of step {frame.step} is out of turn: "
                f"{self.me} takes {low} to {high}",
            )
        largest, backlog = self._admission.largest, self._admission.backlog
        if largest is not None and head.body_bytes > largest:
            raise Refused(
                _Code.INVALID_ARGUMENT,
                f"a message to {self.me} has at most {largest} bytes, this one {head.body_bytes}",
            )
        if self._inbox.senders[role].unread_bytes + head.total_bytes + _KEEPING_BYTES > backlog:
            raise Refused(
                _Code.FAILED_PRECONDITION,
                f"{self.me} keeps at most {backlog} bytes of {role} that it has not "
                f"read, and has no room for {head.total_bytes}",
            )

    def _gathered(
        self,
        head: Head,
        first: bytes,
        parts: Iterator[bytes],
        context: grpc.ServicerContext,
        is_new: bool,
    ) -> list[bytes]:
        """All pieces of a message as they come; none kept of one that was taken before."""
        pieces, missing = [first], head.total_bytes - len(first)
        while missing > 0 and (part := next(parts, b"")):
            if is_new:
                pieces.append(part)
            missing -= len(part)
            self._inbox.heard(head.frame.sender, self._clock.now())
        if missing > 0 and _is_over_soon(context):
            raise grpc.RpcError("cut in the middle of a message")
        return pieces

    def _put(self, link: Incoming, frame: Frame, session: str, pieces: list[bytes]) -> None:
        """Leave a whole message to its reader, unless it came on another stream meanwhile."""
        n_bytes = sum(map(len, pieces)) + _KEEPING_BYTES
        with self._inbox.change:
            if self._inbox.closed.is_set():
                raise Refused(_Code.UNAVAILABLE, f"{self.me} has stopped", logged=False)
            link.check(frame.number, session)
            if link.take(frame, session, self._clock.now() + self._latency, n_bytes):
                self._keep(pieces)
                self._inbox.change.notify_all()

    def _on_call(self, request: bytes, context: grpc.ServicerContext) -> bytes:
        """Answer one call; one that came before gets the answer it got, or is about to get."""
        with self._guarded(context, "call"):
            role, head = self._admitted(request, context)
            frame = frames.unpack(request)
            handler, key = self.handlers.get(frame.name), (role, _session_of(context), frame.number)
            if handler is None or head.kind != "json":
                raise Refused(_Code.UNIMPLEMENTED, f"{self.me} answers no call {frame.name!r}")
            with self._inbox.change:
                is_first = key not in self._replies
                if is_first:
                    self._keep([request])
                    self._replies[key] = Future()
                reply = self._replies[key]
                answered = [old for old, earlier in self._replies.items() if earlier.done()]
                for old in answered[:-_REPLIES_KEPT]:
                    del self._replies[old]
            if is_first:
                reply.set_result(self._answered(handler, role, frame))
            code, text = reply.result()
            if code is not None:
                raise Refused(code, text, logged=False)
            return text.encode()

    def _answered(
        self, handler: Callable[[str, dict], dict], role: str, frame: Frame
    ) -> tuple[grpc.StatusCode | None, str]:
        """The handler's answer in JSON, or the status and sentence of its refusal or failure."""
        try:
            return None, json.dumps(handler(role, frame.payload), allow_nan=False)
        except (ValueError, LinkError) as error:
            self._log({"event": "refused", "at": time.time(), "from": role, "why": str(error)})
            return _Code.FAILED_PRECONDITION, str(error)
        except Exception as error:  # its text may hold values that the caller is not to see
            kind = type(error).__name__
            self._log(
                {"event": "failed", "at": time.time(), "from": role, "why": f"{kind}: {error}"}
            )
            return _Code.ABORTED, f"{self.me} failed to answer {frame.name!r} ({kind})"

    def _admitted(self, first: bytes, context: grpc.ServicerContext) -> tuple[str, Head]:
        """The caller's role and its frame's head; Refused or Malformed for no frame, one not from
        there or not for here.
        """
        role = certificates.peer(context)
        self.handshakes.succeed(context.peer())
        if role not in self._inbox.senders:
            raise Refused(_Code.PERMISSION_DENIED, f"{role} is no role that {self.me} talks with")
        head = frames.opening(first)
        frame = head.frame
        if frame.sender != role:
            raise Refused(
                _Code.PERMISSION_DENIED,
                f"the certificate is of {role}, the frame of {frame.sender}",
            )
        if frame.run != self.run:
            raise Refused(
                _Code.FAILED_PRECONDITION, f"the run is {self.run!r}, the frame is of {frame.run!r}"
            )
        if frame.receiver != self.me:
            raise Refused(
                _Code.FAILED_PRECONDITION, f"this is {self.me}, the frame is for {frame.receiver}"
            )
        self._inbox.heard(role, self._clock.now())
        return role, head

    @contextmanager
    def _guarded(self, context: grpc.ServicerContext, what: str) -> Iterator[None]:
        """End the call with a status, and log it, when it cannot be taken: refused, or because
        something failed in here.

        Every one of these statuses is final for who sent it, but UNAVAILABLE: what failed once
        would fail again.
        """
        try:
            yield
        except grpc.RpcError:
            raise
        except Exception as error:
            if isinstance(error, Malformed):
                error = Refused(_Code.INVALID_ARGUMENT, str(error))
            event = "refused"
            if not isinstance(error, Refused):  # its text may hold values
                event, kind = "failed", type(error).__name__
                error = Refused(_Code.ABORTED, f"{self.me} could not take this {what} ({kind})")
            if error.logged:
                self._log(
                    {
                        "event": event,
                        "at": time.time(),
                        "from": certificates.peer(context),
                        "why": error.why,
                    }
                )
            context.abort(error.code, error.why)

    def _keep(self, pieces: list[bytes]) -> None:
        """Into the record; where it cannot be written this role stops, and the sender is not to
        blame: it may try again.
        """
        if self._record is not None and not self._record.closed:
            try:
                self._record.write(sum(map(len, pieces)).to_bytes(8, "big") + b"".join(pieces))
                self._record.flush()
            except OSError as error:
                self._record = None  # orders and calls still come in
                self._failed(error)
                raise Refused(_Code.UNAVAILABLE, f"{self.me} has stopped", logged=False) from None


def _session_of(context: grpc.ServicerContext) -> str:
    """Which process of the caller's role this is."""
    return str(dict(context.invocation_metadata()).get(SESSION, ""))


def _is_over_soon(context: grpc.ServicerContext) -> bool:
    """Whether a stream that brings no more has lost its connection; gRPC may say so only a moment
    later.
    """
    over = threading.Event()
    return not context.add_callback(over.set) or over.wait(CUT_SECONDS)
