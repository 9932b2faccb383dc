"""The signals that end a command. Nothing else is imported here: every command needs it before it does anything."""

import signal


def stop_signals() -> tuple[signal.Signals, ...]:
    """Ctrl-C, SIGTERM, and SIGHUP: a terminal that is closed. What `nohup` started ignores that one, and goes on."""
    stops = (signal.SIGINT, signal.SIGTERM)
    return stops if signal.getsignal(signal.SIGHUP) is signal.SIG_IGN else (*stops, signal.SIGHUP)
