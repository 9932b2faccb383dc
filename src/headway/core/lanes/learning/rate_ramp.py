"""How fast a lane that knows nothing sends until its first refusal, and what its overshoot shows.

A refusal is back after about 0.1 s, and what was sent meanwhile is refused too. So a pace is a number of refusals that the end of the
bucket will cost: the *overshoot*. The ramp allows a handful at first, or a hundredth of a short job if that is more, then a tenth of what was
accepted up to a few more, and a small share of it later.

A job whose rest is small against what was accepted hurries. If buckets of every size are equally likely on a logarithmic scale, a
bucket that has given `accepted` ends within the next `left` requests log(1 + left / accepted) times on average. The fewer ends are
expected, the larger each overshoot may be. Such a job has most to gain, too: it may fit into the bucket as a whole, and then it lasts
as long as its ramp. A longer job waits for the refill anyway.

The overshoot is a measurement. The bucket is empty then, so what is accepted in that time is what flows in. A refusal from a
server nearby is back in a millisecond, when nothing has been measured yet. Then the lane goes on at the same pace for a tenth of a second,
or until a handful is refused.
"""

from __future__ import annotations

from math import log
from typing import Final

#: Starts a second before anything is known (providers.md §4.8).
FIRST_RATE: Final = 10.0
#: The pace at first: what was accepted, once more in this time.
EARLY_S: Final = 0.15
#: The time until a refusal is back.
REFUSED_AFTER_S: Final = 0.1
#: The overshoot lasts this long, unless so many refusals are back before.
OVERSHOOT_S: Final = 0.1
MOST_REFUSED: Final = 6
#: If nothing was sent for so long, something else than the pace kept the lane from it, and the bucket has refilled meanwhile.
HELD_UP_S: Final = 0.2
#: The overshoot: a handful; this share of a short job's units, up to two handfuls (a second matters little to a longer one); this
#: share of what was accepted, up to so many; and always this share.
HANDFUL: Final = 6.2
JOB_SHARE: Final = 0.01
TWO_HANDFULS: Final = 10.0
SHORT_JOB: Final = 1_500
FIRST_SHARE: Final = 0.1
MANY: Final = 15.0
SHARE: Final = 0.03
#: The refusals that the rest of the ramp may be expected to cost, where that allows more; and the largest share of what was accepted.
EXPECTED: Final = 9.4
HURRIED_SHARE: Final = 1.0 / 7.0

#: A bucket holds between one second and one minute (providers.md §2).
SHALLOW_S: Final = 1.0
DEEP_S: Final = 60.0
#: What is accepted of an overshoot is a small number: half a request more is the middle of what it stands for. The climb starts well
#: below that, because a pace that is too high is refused again.
HALF: Final = 0.5
BELOW: Final = 0.4


class Overshoot:
    """What is sent after the attempt that met the first refusal, at the pace of the ramp.

    If that refusal was back quickly, few were sent meanwhile. They show nothing, so the lane goes on at the same pace for a moment.
    """

    __slots__ = ("_back", "_last_at", "began_at", "ended", "lasted_s", "sent", "took_s")

    def __init__(self, began_at: float, now: float, sent: int) -> None:
        self.began_at = began_at
        #: The time until the first refusal was back.
        self.took_s = self.lasted_s = now - began_at
        self.sent = sent
        self.ended = self.took_s >= OVERSHOOT_S
        self._back = 1
        self._last_at = now

    def refused(self, sent_at: float) -> bool:
        """A refusal of what was sent at this instant is back. Returns whether it was part of the overshoot."""
        if sent_at < self.began_at:
            return False
        self._back += 1
        return True

    def start(self, now: float) -> bool:
        """An attempt starts. Returns whether it still belongs to the overshoot, perhaps as its last one."""
        if self.ended:
            return False
        if now - self._last_at > HELD_UP_S:
            self.stop(self._last_at)
            return False
        if now - self.began_at >= OVERSHOOT_S or self._back >= MOST_REFUSED:
            self.lasted_s = now - self.began_at
            self.ended = True
        self._last_at = now
        return True

    def stop(self, at: float) -> None:
        """Nothing was sent after this instant."""
        self.lasted_s = max(REFUSED_AFTER_S, at - self.began_at)
        self.ended = True


def ramp_pace(accepted: int, left: float) -> float:
    """Starts a second after so many acceptances, while `left` units have yet to start (infinity: not known)."""
    ends = log(1.0 + left / accepted)
    hurried = min(HURRIED_SHARE * accepted, EXPECTED / ends if ends else MANY)
    size = accepted + left
    handful = max(HANDFUL, min(JOB_SHARE * size, TWO_HANDFULS)) if size <= SHORT_JOB else HANDFUL
    overshoot = max(handful, min(FIRST_SHARE * accepted, MANY), SHARE * accepted, hurried)
    return max(FIRST_RATE, min(accepted / EARLY_S, overshoot / REFUSED_AFTER_S))


def overshoot_rate(taken: int, took_s: float, total: float, ramp_s: float) -> float:
    """Requests a second to go on with after the ramp, somewhat below what flows in.

    `taken` requests of an overshoot of `took_s` seconds were accepted. In all, the bucket has given `total` in `ramp_s` seconds.
    """
    inflow = BELOW * (taken + HALF) / took_s
    return max(total / (DEEP_S + ramp_s), min(inflow, total / (SHALLOW_S + ramp_s)))
