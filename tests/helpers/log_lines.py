"""Lines of a role's log of messages."""


def sent(number, **different):
    """A line of a message."""
    return {
        "at": float(number),
        "sent_at": number + 0.5,
        "step": number,
        "phase": "online",
        "sender": "B",
        "receiver": "server",
        "name": "h1",
        "n_bytes": 8,
        "wire_bytes": 100,
        **different,
    }


def refused(role="A", event="refused", **more):
    return {"event": event, "at": 0.0, "from": role, "why": "it was junk", **more}
