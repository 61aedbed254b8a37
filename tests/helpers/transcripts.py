"""What one party received, of what a Transcript has written down."""


def seen_by(transcript, party):
    """All messages that reached one party, in order."""
    return [message for message in transcript.messages if message.receiver == party]
