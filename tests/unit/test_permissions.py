"""The permission table of engine verbs."""

from __future__ import annotations

import pytest

from knowledge.engine.permissions import ADMINS, EVERYBODY, OPERATOR, check_verb
from knowledge.engine.proxy import REINDEX_WITH_MODEL, VERBS
from knowledge.errors import AdminRequired, Forbidden
from knowledge.model import Caller, CallerKind

ACCOUNT = Caller(CallerKind.ACCOUNT, 2, "ada")
ADMIN = Caller(CallerKind.ACCOUNT, 3, "root", is_admin=True)
OPERATORS = (Caller(), Caller(CallerKind.KEY))


def test_every_verb_of_the_engine_has_exactly_one_permission() -> None:
    assert sorted([*EVERYBODY, *ADMINS, *OPERATOR]) == sorted([*VERBS, REINDEX_WITH_MODEL])
    assert {"search", "backup", "accounts.login", "corpora.approve"} <= VERBS


def test_verbs_of_admins_and_of_the_operator_are_refused_to_others() -> None:
    for verb in EVERYBODY:
        check_verb(ACCOUNT, verb)
    for verb in ADMINS:
        check_verb(ADMIN, verb)
        with pytest.raises(AdminRequired):
            check_verb(ACCOUNT, verb)
    for verb in OPERATOR:
        for caller in (ACCOUNT, ADMIN):
            with pytest.raises(AdminRequired):
                check_verb(caller, verb)
        for caller in OPERATORS:
            check_verb(caller, verb)


@pytest.mark.parametrize("caller", [ACCOUNT, ADMIN, *OPERATORS])
def test_an_unlisted_verb_is_refused_to_every_caller(caller: Caller) -> None:
    with pytest.raises(Forbidden):
        check_verb(caller, "accounts.steal")
