"""Link errors, and link-level retry at both ends of one direction of a link."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING

from verify.reference.streams import Stream

if TYPE_CHECKING:
    from verify.reading import RetryPlan
    from verify.reference.links import Channel, Packet

BILLION = 1_000_000_000


@dataclass(eq=False)
class Frame:
    """A packet with its sequence number on the link."""

    number: int
    packet: Packet


class LinkFailedError(Exception):
    """A link has sent its frames again too many times without an acknowledgement of any."""


class Retry:
    """The sender's replay buffer and timer, and the sequence number that the receiver expects.

    At one instant, heads of frames are checked after credits have returned (rank 0). Then follow tails (4,
    0), departing acknowledgements (4, 1), arriving ones (4, 2), the timer (4, 3), and replays (4, 4).
    """

    def __init__(self, channel: Channel, plan: RetryPlan, owner: int) -> None:
        self.channel, self.net, self.plan = channel, channel.net, plan
        seed = channel.net.plan.seed
        self.errors, self.losses = (
            Stream(seed, "link errors", owner),
            Stream(seed, "lost acknowledgements", owner),
        )
        #: State of the sender: unacknowledged frames, those of them to be sent again, and the timer.
        self.kept: deque[Frame] = deque()
        self.again: deque[Frame] = deque()
        self.sent = self.replays = 0
        self.deadline: int | None = None
        #: State of the receiver: the expected number, the number of the first frame whose tail has not
        #: arrived, whether it has sent a NACK, and when its last acknowledgement leaves.
        self.expected = self.complete = 0
        self.is_silent = False
        self.ack_at: int | None = None
        #: Counts of frames sent again, of bad frames, and of expiries of the timer.
        self.replayed = self.bad = self.timeouts = 0

    @property
    def is_open(self) -> bool:
        """Whether the sender may start a new frame."""
        held = sum(frame.packet.size for frame in self.kept)
        fits = len(self.kept) < self.plan.frames and held + self.plan.largest <= self.plan.bytes
        return not self.again and fits

    def has_error(self, stream: Stream) -> bool:
        """Draw at random whether a frame or an answer is bad."""
        return self.plan.error_ppb > 0 and stream.chance(self.plan.error_ppb, BILLION)

    def send(self, packet: Packet) -> None:
        """Send a packet for the first time. The link is already occupied."""
        frame = Frame(self.sent, packet)
        self.sent += 1
        self.kept.append(frame)
        if self.deadline is None:
            self.start_timer()
        self.put(frame)

    def put(self, frame: Frame) -> None:
        """Transmit a frame that starts now, with or without an error."""
        is_bad = self.has_error(self.errors)
        self.bad += is_bad
        now, delay = self.net.now, self.channel.delay
        tail = now + self.channel.span(frame.packet.size) + delay
        self.net.at(now + delay, lambda: self.judge(frame, tail, is_bad=is_bad), rank=(0, 1))

    def judge(self, frame: Frame, tail: int, *, is_bad: bool) -> None:
        """Deliver a frame if it is the expected one. Schedule the answer, which follows the tail."""
        answer: Callable[[], None] | None = None
        if not is_bad and frame.number == self.expected:
            self.expected += 1
            self.is_silent = False
            self.channel.deliver(frame.packet, self.net.now, tail)
            answer = lambda: self.came_whole(frame.number)  # noqa: E731
        elif not is_bad and frame.number < self.expected:
            answer = self.acknowledge
        elif not self.is_silent:
            self.is_silent = True
            answer = self.refuse
        if answer:
            self.net.at(tail, answer, rank=(4, 0))

    def came_whole(self, number: int) -> None:
        """Acknowledge a frame whose tail has arrived."""
        self.complete = number + 1
        self.acknowledge()

    def acknowledge(self) -> None:
        """Send an acknowledgement as soon as the spacing permits, unless another one is pending."""
        now = self.net.now
        if self.ack_at is not None and self.ack_at >= now:
            return
        spacing = self.channel.span(self.plan.ack_spacing)
        self.ack_at = now if self.ack_at is None else max(now, self.ack_at + spacing)
        is_lost = self.has_error(self.losses)
        if not is_lost:
            self.net.at(self.ack_at, lambda: self.answer(is_nack=False), rank=(4, 1))

    def refuse(self) -> None:
        """Send a NACK, unless it is lost."""
        if not self.has_error(self.losses):
            self.answer(is_nack=True)

    def answer(self, *, is_nack: bool) -> None:
        """Send an acknowledgement or a NACK with the number of frames that have arrived completely."""
        complete = self.complete
        self.net.at(
            self.net.now + self.channel.delay,
            lambda: self.take_message(complete, is_nack=is_nack),
            rank=(4, 2),
        )

    def take_message(self, complete: int, *, is_nack: bool) -> None:
        """Remove acknowledged frames from the replay buffer. After a NACK, send the rest again."""
        with self.channel.reopening():
            if self.kept and self.kept[0].number < complete:
                while self.kept and self.kept[0].number < complete:
                    self.kept.popleft()
                while self.again and self.again[0].number < complete:
                    self.again.popleft()
                self.replays = 0
                self.deadline = None
                if self.kept:
                    self.start_timer()
            if is_nack and self.kept:
                self.go_back()

    def start_timer(self) -> None:
        """Restart the timer."""
        self.deadline = deadline = self.net.now + self.plan.timer_ps

        def expires() -> None:
            if self.deadline == deadline:
                self.timeouts += 1
                with self.channel.reopening():
                    self.go_back()

        self.net.at(deadline, expires, rank=(4, 3))

    def go_back(self) -> None:
        """Send all unacknowledged frames again.

        `LinkFailedError` is raised if this has happened too often without progress.
        """
        self.replays += 1
        if self.replays > self.plan.count:
            raise LinkFailedError
        self.start_timer()
        self.again = deque(self.kept)
        self.net.at(self.net.now, self.replay, rank=(4, 4))

    def replay(self) -> None:
        """Send the next frame again, when the link is free."""
        channel = self.channel
        if not self.again:
            return
        if channel.free_at > self.net.now:
            self.net.at(channel.free_at, self.replay, rank=(4, 4))
            return
        with channel.reopening():
            frame = self.again.popleft()
            channel.occupy(frame.packet.size)
            channel.sender.link_was_used(channel.sender_port)
            self.replayed += 1
            self.put(frame)
        if self.again:
            self.net.at(channel.free_at, self.replay, rank=(4, 4))
