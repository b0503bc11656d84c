"""The scripted agents of `benchmarks/agent_tasks.py`: three of their tasks, and how an answer is recognized."""

from __future__ import annotations

from collections import Counter

from agent_documents import Lookup, Task, TaskKind, make_documents, make_tasks
from agent_tasks import Outcome, render_report, run_all_agents


def find_task(kind: TaskKind) -> Task:
    return next(task for task in make_tasks() if task.kind is kind)


def test_three_tasks_are_answered_by_the_agents_of_two_toolsets() -> None:
    tasks = [find_task(kind) for kind in (TaskKind.FACT, TaskKind.COMBINE, TaskKind.ADD)]
    outcomes = run_all_agents(["knowledge", "kb"], tasks, embedding="none")
    assert [(outcome.toolset, outcome.answered) for outcome in outcomes] == [("knowledge", True)] * 3 + [
        ("kb", True)
    ] * 3
    assert [outcome.calls for outcome in outcomes] == [1, 2, 2, 1, 2, 3]


def test_there_are_thirty_tasks_and_the_documents_have_the_answers() -> None:
    tasks = make_tasks()
    assert Counter(task.kind for task in tasks) == {
        TaskKind.FACT: 8, TaskKind.READ_ON: 6, TaskKind.COMBINE: 6, TaskKind.ABSENT: 5, TaskKind.ADD: 5
    }  # fmt: skip
    texts = make_documents().values()
    for task in tasks:
        if task.kind in (TaskKind.FACT, TaskKind.READ_ON, TaskKind.ABSENT):
            found = [answer for text in texts if (answer := task.lookups[0].find_answer(text)) is not None]
            assert found == ([] if task.expected is None else [task.expected]), task


def test_an_answer_counts_only_after_its_subject() -> None:
    lookup = Lookup("", "inventory of the map room", r"The sum is (\d+)")
    assert lookup.find_answer("The sum is 1. Here begins the inventory of the map room. The sum is 2.") == "2"
    assert lookup.find_answer("Here begins the inventory of the salt store. The sum is 3.") is None


def test_the_report_counts_answers_and_averages_calls_and_characters() -> None:
    outcomes = [
        Outcome("kb", TaskKind.FACT, True, 1, 1000), Outcome("kb", TaskKind.FACT, False, 2, 2000),
        Outcome("manager", TaskKind.ADD, False),
    ]  # fmt: skip
    answered, calls, characters = render_report(outcomes).split("\n\n")
    assert answered.splitlines()[2:] == [
        "| kb | 1 of 2 | no tool | 1 of 2 |",
        "| manager | no tool | no tool | no tool |",
    ]
    assert calls.splitlines()[2] == "| kb | 1.5 |  | 1.5 |"
    assert characters.splitlines()[2] == "| kb | 1,500 |  | 1,500 |"
