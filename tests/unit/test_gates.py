"""Conversations and registers become indices to wait for."""

from __future__ import annotations

from headway.core.gates import Gates, Waits


def test_a_plain_unit_waits_for_nothing() -> None:
    gates = Gates()
    assert gates.waits(0).indices == ()
    assert gates.waits(1).indices == ()


def test_a_turn_waits_for_the_turn_before_it_only() -> None:
    gates = Gates()
    turns = [gates.waits(index, conversation="c").indices for index in range(3)]
    assert turns == [(), (0,), (1,)]


def test_conversations_do_not_wait_for_each_other() -> None:
    gates = Gates()
    assert gates.waits(0, conversation="x").indices == ()
    assert gates.waits(1, conversation="y").indices == ()
    assert gates.waits(2, conversation="x").indices == (0,)
    assert gates.waits(3, conversation="y").indices == (1,)


def test_a_reader_waits_for_the_latest_writer_before_it_only() -> None:
    gates = Gates()
    gates.waits(0, writes=["r"])
    gates.waits(1, writes=["r"])
    assert gates.waits(2, reads=["r"]).indices == (1,)
    gates.waits(3, writes=["r"])
    assert gates.waits(4, reads=["r"]).indices == (3,)


def test_a_reader_of_an_unwritten_register_waits_for_nothing() -> None:
    assert Gates().waits(0, reads=["r"]).indices == ()


def test_a_writer_waits_for_neither_readers_nor_writers() -> None:
    gates = Gates()
    gates.waits(0, writes=["r"])
    gates.waits(1, reads=["r"])
    assert gates.waits(2, writes=["r"]).indices == ()


def test_a_unit_that_reads_and_writes_reads_the_earlier_value() -> None:
    gates = Gates()
    gates.waits(0, writes=["r"])
    assert gates.waits(1, reads=["r"], writes=["r"]).indices == (0,)
    assert gates.waits(2, reads=["r"], writes=["r"]).indices == (1,)


def test_several_waits_are_each_named_once_in_order() -> None:
    gates = Gates()
    gates.waits(0, writes=["p", "q"])
    gates.waits(1, writes=["r"], conversation="c")
    assert gates.waits(2, reads=["r", "q", "p"], conversation="c").indices == (0, 1)


def test_a_register_may_have_the_name_of_a_conversation() -> None:
    gates = Gates()
    gates.waits(0, conversation="same")
    assert gates.waits(1, reads=["same"]).indices == ()


def test_each_register_has_its_own_writer() -> None:
    gates = Gates()
    gates.waits(0, writes=["p"])
    gates.waits(1, writes=["q"], conversation="c")
    assert gates.waits(2, reads=["p", "q", "r"], conversation="c") == Waits(1, {"p": 0, "q": 1})
    assert "p" in gates.registers
    assert "r" not in gates.registers
