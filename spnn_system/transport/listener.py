"""What a role lets in: the gRPC server, and the checks that every message and every call passes
before it counts.
"""

import json
import time
from collections.abc import Callable, Iterator, Mapping
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import contextmanager
from pathlib import Path
from typing import BinaryIO

import grpc

from spnn_system.transport import certificates, frames
from spnn_system.transport.addresses import Address
from spnn_system.transport.frames import Frame, Malformed
from spnn_system.transport.links import Inbox, LinkError, Refused

SERVICE, SESSION = "ppkit.spnn", "ppkit-session"
CLOSING_SECONDS = 0.5  # that calls get to end which are being answered when a role closes
_REPLIES_KEPT = 64
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
Handler = Callable[[str, dict], dict]  # takes the caller and what it says, gives the answer
Log = Callable[[dict], None]


class Listener:
    """The server of one role.  It puts what may come in into an inbox, answers calls, and refuses
    and logs the rest.

    me: the role.  address: where it serves.  run: the run's id.  folder: of the certificates, that
    holds <me>/, as `certificates.make` leaves it.
    accepts: {sender: names of messages it may send here}, None for all.
    record: an open file that keeps all that comes, or None.
    log: takes a line for every refusal.  handlers: {method: what answers calls of it}.

    Refused with a gRPC status, logged, and forgotten: a certificate of another role than the sender
    that a frame names (PERMISSION_DENIED), a name that the sender may not send (PERMISSION_DENIED),
    another run's id or another receiver (FAILED_PRECONDITION), a number that is not the link's next
    (OUT_OF_RANGE; one that was taken already is acknowledged and dropped, it is a retry), a
    sender's process started anew (FAILED_PRECONDITION), what is no frame (INVALID_ARGUMENT), what
    this role fails at (ABORTED): all of them are final, so that the sender ends with Rejected and
    the reason. Who has no valid certificate of this run's authority does not get through TLS;
    gRPC's own line on stderr says why.

    ValueError, in one sentence, if nobody can serve at this address.
    """

    def __init__(
        self,
        me: str,
        address: Address,
        *,
        run: str,
        folder: Path,
        inbox: Inbox,
        accepts: Mapping[str, set[str]] | None,
        record: BinaryIO | None,
        log: Log,
    ):
        self.me, self.run, self._inbox, self._accepts = me, run, inbox, accepts
        self._record, self._log = record, log
        self.handlers: dict[str, Handler] = {}
        self._replies: dict[tuple[str, str, int], Future] = {}
        # a long message takes a thread for as long as it comes
        self._server = grpc.server(
            ThreadPoolExecutor(8 + 4 * len(inbox.senders), "listener"), options=_OPTIONS
        )
        methods = {
            "Deliver": grpc.stream_unary_rpc_method_handler(self._on_deliver),
            "Call": grpc.unary_unary_rpc_method_handler(self._on_call),
        }
        self._server.add_generic_rpc_handlers(
            [grpc.method_handlers_generic_handler(SERVICE, methods)]
        )
        try:
            self._server.add_secure_port(str(address), certificates.serving(folder, me))
        except RuntimeError as error:
            why = str(error).split(";")[0]
            raise ValueError(f"{me} cannot serve at {address}: {why}") from None
        self.start = self._server.start

    def close(self) -> None:
        """Let what is being answered end, and serve no more."""
        self._server.stop(CLOSING_SECONDS).wait()

    def _on_deliver(self, parts: Iterator[bytes], context: grpc.ServicerContext) -> bytes:
        """Take one message in its pieces, and keep it for its reader."""
        with self._guarded(context, "message"):
            role = self._caller(context)
            content = b"".join(parts)
            frame = self._admitted(content, role)
            if self._accepts is not None and frame.name not in self._accepts.get(role, ()):
                raise Refused(
                    _Code.PERMISSION_DENIED, f"{role} may not send {frame.name!r} to {self.me}"
                )
            with self._inbox.change:
                link, session = self._inbox.senders[role], _session_of(context)
                if link.is_new(frame.number, session):
                    if self._inbox.closed.is_set():
                        raise Refused(_Code.UNAVAILABLE, f"{self.me} has stopped")
                    self._keep(content)
                    link.session, link.next_number = session, frame.number + 1
                    link.waiting.append((self._inbox.clock.now() + self._inbox.latency, frame))
                    self._inbox.change.notify_all()
        return b""

    def _on_call(self, request: bytes, context: grpc.ServicerContext) -> bytes:
        """Answer one call; one that came before gets the answer it got, or is about to get."""
        with self._guarded(context, "call"):
            role = self._caller(context)
            frame = self._admitted(request, role)
            handler, key = self.handlers.get(frame.name), (role, _session_of(context), frame.number)
            if handler is None or not isinstance(frame.payload, dict):
                raise Refused(_Code.UNIMPLEMENTED, f"{self.me} answers no call {frame.name!r}")
            with self._inbox.change:
                is_first = key not in self._replies
                if is_first:
                    self._keep(request)
                    self._replies[key] = Future()
                reply = self._replies[key]
                self._replies.pop((*key[:2], frame.number - _REPLIES_KEPT), None)
            if is_first:
                try:
                    reply.set_result(json.dumps(handler(role, frame.payload)).encode())
                except (ValueError, LinkError) as error:
                    reply.set_exception(Refused(_Code.FAILED_PRECONDITION, str(error)))
                except Exception as error:  # its text may hold values
                    why = f"{self.me} failed to answer {frame.name!r} ({type(error).__name__})"
                    reply.set_exception(Refused(_Code.ABORTED, why))
            return reply.result()

    def _caller(self, context: grpc.ServicerContext) -> str:
        """The role whose certificate the connection shows.  Refused if it has no part in this."""
        role = certificates.peer(context)
        if role not in self._inbox.senders:
            raise Refused(_Code.PERMISSION_DENIED, f"{role} is no role that {self.me} talks with")
        return role

    def _admitted(self, content: bytes, role: str) -> Frame:
        """A frame; Refused or Malformed for no frame, one not from this role or not for here."""
        frame = frames.unpack(content)
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
        return frame

    @contextmanager
    def _guarded(self, context: grpc.ServicerContext, what: str) -> Iterator[None]:
        """Run the body of one call. If it raises, the refusal is logged and the call is aborted
        with its status.

        A sender tries again on UNAVAILABLE only: whatever else failed once would fail again.
        """
        try:
            yield
        except grpc.RpcError:
            raise  # of gRPC itself: the call has its status already
        except Exception as error:
            refusal = self._refusal_of(error, what)
            if context.is_active():  # else the connection was cut, and half a message is no fault
                role = certificates.peer(context)
                self._log({"event": "refused", "at": time.time(), "from": role, "why": refusal.why})
            context.abort(refusal.code, refusal.why)

    def _refusal_of(self, error: Exception, what: str) -> Refused:
        """The status and the sentence with which a call ends after an error."""
        if isinstance(error, Refused):
            return error
        if isinstance(error, Malformed):
            return Refused(_Code.INVALID_ARGUMENT, str(error))
        kind = type(error).__name__  # and not its text, which may hold values
        return Refused(_Code.ABORTED, f"{self.me} could not take this {what} ({kind})")

    def _keep(self, content: bytes) -> None:
        """Into the record, if there is one."""
        if self._record is not None:
            self._record.write(len(content).to_bytes(8, "big") + content)
            self._record.flush()


def _session_of(context: grpc.ServicerContext) -> str:
    """Which process of the caller's role this is."""
    return str(dict(context.invocation_metadata()).get(SESSION, ""))
