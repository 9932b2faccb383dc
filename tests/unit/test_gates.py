"""Conversations and registers become indices to wait for."""

from __future__ import annotations

from headway.core.gates import Gates


def test_a_plain_unit_waits_for_nothing() -> None:
    gates = Gates()
    assert gates.after(0) == ()
    assert gates.after(1) == ()


def test_a_turn_waits_for_the_turn_before_it_only() -> None:
    gates = Gates()
    turns = [gates.after(index, conversation="c") for index in range(3)]
    assert turns == [(), (0,), (1,)]


def test_conversations_do_not_wait_for_each_other() -> None:
    gates = Gates()
    assert gates.after(0, conversation="x") == ()
    assert gates.after(1, conversation="y") == ()
    assert gates.after(2, conversation="x") == (0,)
    assert gates.after(3, conversation="y") == (1,)


def test_a_reader_waits_for_the_latest_writer_before_it_only() -> None:
    gates = Gates()
    gates.after(0, writes=["r"])
    gates.after(1, writes=["r"])
    assert gates.after(2, reads=["r"]) == (1,)
    gates.after(3, writes=["r"])
    assert gates.after(4, reads=["r"]) == (3,)


def test_a_reader_of_what_nobody_wrote_waits_for_nothing() -> None:
    assert Gates().after(0, reads=["r"]) == ()


def test_a_writer_waits_for_neither_readers_nor_writers() -> None:
    gates = Gates()
    gates.after(0, writes=["r"])
    gates.after(1, reads=["r"])
    assert gates.after(2, writes=["r"]) == ()


def test_one_that_reads_and_writes_reads_what_was_there_before() -> None:
    gates = Gates()
    gates.after(0, writes=["r"])
    assert gates.after(1, reads=["r"], writes=["r"]) == (0,)
    assert gates.after(2, reads=["r"], writes=["r"]) == (1,)


def test_several_waits_are_each_named_once_in_order() -> None:
    gates = Gates()
    gates.after(0, writes=["p", "q"])
    gates.after(1, writes=["r"], conversation="c")
    assert gates.after(2, reads=["r", "q", "p"], conversation="c") == (0, 1)


def test_a_register_may_have_the_name_of_a_conversation() -> None:
    gates = Gates()
    gates.after(0, conversation="same")
    assert gates.after(1, reads=["same"]) == ()
