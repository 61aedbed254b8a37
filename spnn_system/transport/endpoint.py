"""A role's place in the network: what it sends, what it takes and from whom, over gRPC with mutual
TLS.
"""

from __future__ import annotations

import json
import math
import secrets
import threading
import time
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

import grpc

from spnn_system.transport import certificates as certs
from spnn_system.transport import frames
from spnn_system.transport.addresses import Address
from spnn_system.transport.links import (
    Inbox,
    Interrupted,
    LinkError,
    Outgoing,
    OutOfTurn,
    Silent,
    Stopped,
    detail,
    pause,
    raise_if_final,
)
from spnn_system.transport.listener import SERVICE, SESSION, Handler, Listener, Log
from spnn_system.transport.shaping import Links, WallClock, piece_bytes

if TYPE_CHECKING:
    import torch

LOOK_SECONDS = 0.5  # from one look at all links to the next


class Endpoint:
    """Sends and receives for one role; serves while it is used as a context manager.

    me: this role.  addresses: of all roles that this one talks with, and its own, where it serves.
    run: the run's id, in every message.  certificates: the folder that holds <me>/, as
    `certificates.make` leaves it.
    links: bandwidth, latency and timeout.  accepts: {sender: names of messages it may send here},
    None for all.
    record: a file that keeps every message and call taken, to be read with `frames.recorded`;
    where it cannot be written, none is taken.
    log: gets a dict for every message sent, once it is acknowledged: at, sent_at (time.time() when
    it was given to `send` and when its acknowledgement came), step, phase, sender, receiver, name,
    n_bytes (payload), wire_bytes (frame); and for every refusal: event="refused", at, from, why.
    Called from several threads, one at a time.
    clock: of silence, latency and bandwidth, None for the machine's own; times in the log are
    time.time().

    What it refuses to take, and how: `listener.Listener`. That its certificates hold is the
    caller's to ask (`certificates.check`).

    ValueError, in one sentence, for an address that cannot be served at.
    """

    def __init__(
        self,
        me: str,
        addresses: Mapping[str, Address],
        *,
        run: str,
        certificates: Path | str,
        links: Links = Links(),
        accepts: Mapping[str, set[str]] | None = None,
        record: Path | None = None,
        log: Log = lambda line: None,
        clock: WallClock | None = None,
    ):
        self.me, self.run, self.timeout = me, run, links.timeout
        self._addresses, self._certificates = dict(addresses), Path(certificates)
        self._bandwidth, self._session = links.bandwidth, secrets.token_hex(16)
        self._log = log
        self._inbox = Inbox(set(addresses) - {me}, latency=links.latency, clock=clock)
        self._change, self._stopped = self._inbox.change, self._inbox.closed
        self._clock = self._inbox.clock
        # this and the next line are guarded by the inbox's lock
        self._failure: LinkError | None = None
        self._unacknowledged = self._calls = 0
        self._sending, self._writing = threading.Lock(), threading.Lock()
        self._closed = threading.Event()
        self._outgoing: dict[str, Outgoing] = {}
        self._channels: dict[str, grpc.Channel] = {}
        self._record = open(record, "ab") if record is not None else None
        self._listener = Listener(
            me,
            addresses[me],
            run=run,
            folder=self._certificates,
            inbox=self._inbox,
            accepts=accepts,
            record=self._record,
            log=self._tell,
        )

    def __enter__(self) -> Endpoint:
        self._listener.start()
        threading.Thread(target=self._watch, name=f"watch of {self.me}", daemon=True).start()
        return self

    def __exit__(self, kind, *_) -> None:
        try:
            if kind is None and not self._stopped.is_set():
                self.flush()
        finally:
            self.close()

    def send(
        self,
        receiver: str,
        name: str,
        payload: torch.Tensor | bytes | dict,
        *,
        step: int,
        phase: str = "online",
    ) -> None:
        """Send a message; returns at once, with the payload copied, and a thread brings it to the
        receiver.

        receiver: a role of addresses.  payload, name, step, phase: as in `frames.Frame`.
        Stopped, Silent or Rejected if this endpoint was stopped or a message before this one could
        not be delivered.
        """
        with self._sending:
            self.check()
            link = self._outgoing.get(receiver) or self._link(receiver)
            frame = frames.Frame(
                self.run, self.me, receiver, link.number, step, phase, name, payload
            )
            content, size = frames.pack(frame), piece_bytes(self._bandwidth)
            with self._change:
                self._unacknowledged += 1
            link.put(
                [content[at : at + size] for at in range(0, len(content), size)],
                {
                    "at": time.time(),
                    "sent_at": None,
                    "step": step,
                    "phase": phase,
                    "sender": self.me,
                    "receiver": receiver,
                    "name": name,
                    "n_bytes": len(frames.body(payload)[1]),
                    "wire_bytes": len(content),
                },
            )

    def receive(self, sender: str, name: str, *, step: int) -> torch.Tensor | bytes | dict:
        """The payload of the next message of this sender, which must have this name and step.

        Waits for as long as it takes: who finds the sender gone calls `stop`.
        OutOfTurn if the next message is another, Stopped, Silent or Rejected if this endpoint was
        stopped or one of its own messages could not be delivered.
        """
        waiting = self._inbox.senders[sender].waiting
        with self._change:
            self.check()
            while not waiting or waiting[0][0] > self._clock.now():
                self._clock.wait(self._change, waiting[0][0] if waiting else math.inf)
                self.check()
            frame = waiting[0][1]
            if (frame.name, frame.step) == (name, step):
                waiting.popleft()
                return frame.payload
        raise OutOfTurn(
            sender,
            f"{sender} sent {frame.name!r} of step {frame.step} where {self.me} waits for "
            f"{name!r} of step {step}",
        )

    def flush(self) -> None:
        """Wait until all that was sent is acknowledged, for as long as it takes: a role that takes
        nothing ends the wait by being Silent.  Stopped, Silent or Rejected as in `send`.
        """
        with self._change:
            self._change.wait_for(lambda: not self._unacknowledged or self._failure is not None)
            self.check()

    def check(self) -> None:
        """Stopped, Silent or Rejected if this endpoint was stopped, or could not go on."""
        if self._failure is not None:
            raise type(self._failure)(self._failure.role, str(self._failure))

    def stop(self, reason: str) -> None:
        """Make every `send`, `receive` and `flush`, waiting or to come, raise Stopped(reason);
        calls still work.
        """
        self._fail(Stopped(self.me, reason))

    def interrupt(self) -> None:
        """As `stop`, but they raise Interrupted."""
        self._fail(Interrupted(self.me, "interrupted"))

    def on_call(self, method: str, handler: Handler) -> None:
        """Before the endpoint is entered: answer calls of this method with handler(caller, body);
        the caller is the role its certificate carries.

        Handlers run in threads, several at a time, and may wait. Each call is answered by one run
        of the handler, however often the connection failed. A ValueError or LinkError that it
        raises becomes Rejected at the caller, with its sentence; of any other only the kind is
        told.
        """
        self._listener.handlers[method] = handler

    def call(
        self,
        receiver: str,
        method: str,
        body: dict,
        *,
        timeout: float | None = None,
        until: threading.Event | None = None,
    ) -> dict:
        """Ask another role, and wait for its answer.

        body: a small dict of what JSON knows.  timeout: seconds for all tries together, None for
        the endpoint's own.
        until: once it is set there is no other try.
        Returns a dict.  Silent if no answer came in time, Rejected if the role refused.
        """
        timeout = self.timeout if timeout is None else timeout
        with self._sending:
            self._calls += 1
            request = frames.pack(
                frames.Frame(self.run, self.me, receiver, self._calls, 0, "control", method, body)
            )
            ask = self._channel(receiver).unary_unary(f"/{SERVICE}/Call")
        deadline, tries = self._clock.now() + timeout, 0
        problem: grpc.RpcError | None = None
        while (
            (remaining := deadline - self._clock.now()) > 0
            and not self._closed.is_set()
            and not (until and until.is_set())
        ):
            try:
                return json.loads(
                    ask(request, timeout=remaining, metadata=((SESSION, self._session),))
                )
            except grpc.RpcError as error:
                problem = error
                raise_if_final(receiver, error)
                self._closed.wait(min(pause(tries), max(0.0, deadline - self._clock.now())))
                tries += 1
            # gRPC's word for a channel that was closed meanwhile
            except ValueError:
                break
        raise Silent(
            receiver, f"{receiver} did not answer {method!r} for {timeout:g} s{detail(problem)}"
        )

    def close(self) -> None:
        """Stop, and end all threads and connections.  What was not acknowledged may be lost:
        `flush` first.
        """
        if self._closed.is_set():
            return
        self.stop(f"{self.me} has closed its endpoint")
        self._closed.set()
        with self._sending:
            links, channels = list(self._outgoing.values()), list(self._channels.values())
        for link in links:
            link.end()
        self._listener.close()
        for channel in channels:
            channel.close()
        if self._record is not None:
            self._record.close()

    def _link(self, receiver: str) -> Outgoing:
        channel, name = self._channel(receiver), f"/{SERVICE}/Deliver"
        # the same on the wire: but gRPC starts a thread for every iterator
        whole, in_pieces = channel.unary_unary(name), channel.stream_unary(name)
        about = ((SESSION, self._session),)

        def deliver(parts: Iterable[bytes]) -> grpc.Future:
            if isinstance(parts, list):
                return whole.future(*parts, metadata=about)
            return in_pieces.future(parts, metadata=about)

        self._outgoing[receiver] = Outgoing(
            receiver,
            deliver,
            bandwidth=self._bandwidth,
            timeout=self.timeout,
            stopped=self._stopped,
            clock=self._clock,
            sent=self._acknowledged,
            failed=self._fail,
        )
        return self._outgoing[receiver]

    def _channel(self, receiver: str) -> grpc.Channel:
        if receiver not in self._channels:
            # tried again soon, and given up when the other end answers no ping; no proxy between
            ping = int(1000 * max(1.0, self.timeout / 4))
            self._channels[receiver] = grpc.secure_channel(
                str(self._addresses[receiver]),
                certs.dialling(self._certificates, self.me),
                [
                    ("grpc.ssl_target_name_override", certs.target(receiver)),
                    ("grpc.enable_http_proxy", 0),
                    ("grpc.use_local_subchannel_pool", 1),
                    ("grpc.max_receive_message_length", 2 * frames.PIECE_BYTES),
                    ("grpc.initial_reconnect_backoff_ms", 50),
                    ("grpc.max_reconnect_backoff_ms", 500),
                    ("grpc.min_reconnect_backoff_ms", 2000),
                    ("grpc.keepalive_time_ms", ping),
                    ("grpc.keepalive_timeout_ms", ping),
                    ("grpc.http2.max_pings_without_data", 0),
                ],
            )
        return self._channels[receiver]

    def _acknowledged(self, about: dict) -> None:
        self._tell({**about, "sent_at": time.time()})
        with self._change:
            self._unacknowledged -= 1
            self._change.notify_all()

    def _watch(self) -> None:
        """Give up receivers that take nothing."""
        while not self._stopped.wait(min(LOOK_SECONDS, self.timeout / 8)):
            for link in list(self._outgoing.values()):
                link.end_if_silent()

    def _fail(self, error: LinkError) -> None:
        """The first reason to stop is the one that everybody here is told."""
        with self._change:
            self._failure = self._failure or error
            self._stopped.set()
            self._change.notify_all()
        for link in list(self._outgoing.values()):
            link.wake()

    def _tell(self, line: dict[str, Any]) -> None:
        with self._writing:
            self._log(line)
