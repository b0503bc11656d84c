"""Passwords that are tried first: a short list of our own, and the simple patterns that make more of them."""

from __future__ import annotations

WORDS = """
abc123 abcd access account admin administrator alexander amanda america andrea andrew angel anthony apple arsenal
asdf asdfgh ashley austin azerty baseball basketball batman biteme blessed buster butterfly changeit changeme
charlie cheese chelsea chocolate computer cookie corvette creative daniel database default demo dragon elephant
facebook family fender ferrari flower football forever freedom friends gandalf george ginger google guest hallo
hammer hannah harley heaven hello hockey hunter iloveyou internet jackson jasmine jennifer jessica jesus jordan
joshua justin killer knight knowledge knowledgeserver letmein lifehack liverpool login london lovely loveme manager
master matrix matthew merlin michael michelle mickey minecraft monkey monster mustang mynoob mypassword naruto
nicole ninja nothing number oracle orange p4ssw0rd p4ssword p@ssw0rd p@ssword pa55w0rd pa55word passphrase passw0rd
password passwort patrick pepper pokemon princess private public purple qazwsx qwer qwert qwerty qwertz rainbow
ranger robert root samsung secret secure server service shadow silver snoopy soccer solo spiderman spring starwars
student summer sunshine superman superuser support sysadmin system taylor temp temporary test tester testing thomas
thunder tigger trustno trustnoone user vagrant welcome whatever william winter wizard xxxxxx yankees zaq12wsx zxcvbn
"""
COMMON = frozenset(WORDS.split())
"""In lower case; with digits and signs around them they are no better."""
ROWS = (
    "01234567890123456789", "abcdefghijklmnopqrstuvwxyz", "qwertyuiopasdfghjklzxcvbnm", "qwertzuiopasdfghjklyxcvbnm",
    "azertyuiopqsdfghjklmwxcvbn", "1qaz2wsx3edc4rfv5tgb6yhn7ujm8ik9ol0p", "1q2w3e4r5t6y7u8i9o0p",
    "q1w2e3r4t5y6u7i8o9p0", "!@#$%^&*()_+",
)  # fmt: skip
"""Keys side by side and signs in their order: any piece of these, forwards or backwards, is a pattern."""
AROUND = "0123456789!\"#$%&'()*+,-./:;<=>?@[\\]^_`{|}~ "
MOST_AROUND = 6
"""With more digits and signs than this around a word, the password is not that word any longer."""
SHORT_REPEAT = 4
FEWEST_DIFFERENT = 3


def is_common(password: str, username: str = "") -> bool:
    """Whether somebody who guesses would come to this password soon."""
    folded, name = password.casefold().strip(), username.casefold()
    period = _period(folded)
    if len(set(folded)) < FEWEST_DIFFERENT or period <= SHORT_REPEAT:
        return True
    word = folded[:period]
    core = word.strip(AROUND)
    around = len(word) - len(core)
    if word in COMMON or (around <= MOST_AROUND and core in COMMON):
        return True
    if name and (name in (word, word[::-1]) or (around <= MOST_AROUND and core == name.strip(AROUND))):
        return True
    return any(word in row or word[::-1] in row for row in ROWS)


def _period(text: str) -> int:
    """The length of the shortest piece that makes the text when it is repeated; its own length for most."""
    return (text + text).find(text, 1)
