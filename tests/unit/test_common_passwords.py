"""The check for common passwords."""

from __future__ import annotations

import pytest

from knowledge.engine.passwords import is_common_password


@pytest.mark.parametrize(
    "password",
    [
        "password", "PASSWORD", "Password1", "password123!", "P@ssw0rd", "passwordpassword", "12345678", "1234567890",
        "87654321", "11111111", "aaaaaaaa", "abababab", "abcabcabc", "12341234", "abcdefgh", "qwertyui", "asdfghjkl",
        "1qaz2wsx", "1q2w3e4r", "qwerty123", "letmein!", "iloveyou", "sunshine", "football", "Welcome1", "admin123",
        "changeme", "trustno1", "superman", "secret12", "knowledge", "  password  ", "test1234", "!@#$%^&*",
    ],
)  # fmt: skip
def test_a_common_password_is_recognised(password: str) -> None:
    assert is_common_password(password)


@pytest.mark.parametrize(
    "password", ["ada.lovelace", "ADA.LOVELACE", "ecalevol.ada", "ada.lovelace1", "ada.lovelace2026!"]
)
def test_the_username_is_a_common_password_for_its_account_only(password: str) -> None:
    assert is_common_password(password, "Ada.Lovelace")
    assert not is_common_password(password, "bob")


@pytest.mark.parametrize(
    "password",
    ["correct horse", "wrong horse", "another staple", "a long enough password", "long enough", "Zb7#qLw9", "84629173",
     "password of my garden", "monkey-93847261", "тихий океан", "eine lange reise"],
)  # fmt: skip
def test_an_uncommon_password_is_accepted(password: str) -> None:
    assert not is_common_password(password, "ada")
