"""What people do at random, each with what the model says must come of it."""

from __future__ import annotations

import random
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

from tests.tenancy.person import Person, secrets_in
from tests.tenancy.world import Shelf, World

MANAGER = "/api/v1/mcp/"
POLLS = 5000
OPENING = (
    "The report was filed in the archive of the harbour office in spring, and copies of it were sent to all offices."
)
"""A job is named after the first words of its note, for whoever began it; the secret comes later."""


@dataclass(slots=True)
class Steps:
    world: World
    people: list[Person]
    admin: Person
    chance: random.Random
    words: Iterator[str]

    async def one(self) -> None:
        kinds = [step for step, weight in self._weights() for _ in range(weight)]
        await self.chance.choice(kinds)(self.chance.choice(self.people))

    def _weights(self) -> list[tuple[Any, int]]:
        return [
            (self.make_collection, 1), (self.make_corpus, 2), (self.add, 5), (self.remove_document, 2),
            (self.remove_shelf, 1), (self.grant, 3), (self.take_back, 2), (self.publish, 4), (self.judge, 5),
            (self.rename, 2), (self.show, 8), (self.read_original, 3), (self.search, 8), (self.search_named, 4),
            (self.ask_manager, 6), (self.ask_corpus, 6), (self.ask_stream, 5), (self.ask_other_tools, 5),
            (self.list_shelves, 5), (self.list_documents, 4), (self.read_resource, 4), (self.look_at_jobs, 4),
            (self.count, 3), (self.change_key, 1),
        ]  # fmt: skip

    # -- making and taking away -----------------------------------------------------------------

    async def make_collection(self, person: Person) -> None:
        word = next(self.words)
        made = await person.rest("POST", "/collections", {"title": f"shelf {word}"})
        assert made.status_code == 201, made.text
        self._keep(made.json(), person, word)

    async def make_corpus(self, person: Person) -> None:
        word, public = next(self.words), self.chance.random() < 0.5
        body = {"display_name": f"corpus {word}", "category": "legal", "is_public": public}
        made = await person.rest("POST", "/corpuses", body)
        assert made.status_code == 201, made.text
        shelf = self._keep(made.json(), person, word)
        shelf.is_corpus, shelf.is_public = True, public

    def _keep(self, made: dict[str, Any], person: Person, word: str) -> Shelf:
        shelf = Shelf(made["id"], person.name, made["name"], word)
        self.world.shelves[shelf.id] = shelf
        return shelf

    async def add(self, person: Person) -> None:
        shelf = self.world.any_shelf(self.chance)
        if shelf is None:
            return
        word = next(self.words)
        body = {"note": f"{OPENING}\n\nThis is about {word}.", "title": "Report", "collection": shelf.id}
        accepted = await person.rest("POST", "/jobs", body)
        assert accepted.status_code == self._writing(person, shelf, 202), accepted.text
        if accepted.status_code != 202:
            return
        job = accepted.json()["job_id"]
        self.world.jobs[job] = person.name
        ended = await self._ended(person, job)
        shelf.documents[ended["document_id"]] = word

    async def _ended(self, person: Person, job: int) -> dict[str, Any]:
        for _ in range(POLLS):
            told: dict[str, Any] = (await person.rest("GET", f"/jobs/{job}")).json()
            if told["status"] not in ("queued", "processing"):
                assert told["status"] == "completed", told
                return told
        raise AssertionError(f"job {job} did not end")

    async def remove_document(self, person: Person) -> None:
        found = self.world.any_document(self.chance)
        if found is None:
            return
        shelf, document, _ = found
        removed = await person.rest("DELETE", f"/documents/{document}")
        assert removed.status_code == self._writing(person, shelf, 200), removed.text
        if removed.status_code == 200:
            self.world.forget_document(shelf, document)

    async def remove_shelf(self, person: Person) -> None:
        shelf = self.world.any_shelf(self.chance)
        if shelf is None:
            return
        removed = await person.rest("DELETE", f"/{'corpuses' if shelf.is_corpus else 'collections'}/{shelf.id}")
        assert removed.status_code == self._owning(person, shelf, 200), removed.text
        if removed.status_code == 200:
            self.world.forget(shelf)

    async def rename(self, person: Person) -> None:
        found = self.world.any_document(self.chance)
        if found is None:
            return
        shelf, document, _ = found
        tagged = await person.rest("PUT", f"/documents/{document}/tags", {"add": ["seen"]})
        assert tagged.status_code == self._writing(person, shelf, 200), tagged.text

    # -- sharing --------------------------------------------------------------------------------

    async def grant(self, person: Person) -> None:
        shelf, friend = self.world.any_corpus(self.chance), self.chance.choice(self.people)
        if shelf is None or friend.name == shelf.owner:
            return
        permission = self.chance.choice(["read", "write"])
        body = {"username": friend.name, "permission": permission}
        granted = await person.rest("POST", f"/corpuses/{shelf.id}/permissions", body)
        assert granted.status_code in self._corpus(person, shelf, (200, 201)), granted.text
        if granted.status_code < 300:
            shelf.grants[friend.name] = permission

    async def take_back(self, person: Person) -> None:
        shelf = self.world.any_corpus(self.chance)
        if shelf is None or not shelf.grants:
            return
        friend = self.chance.choice(sorted(shelf.grants))
        body = {"username": friend, "permission": shelf.grants[friend]}
        taken = await person.rest("DELETE", f"/corpuses/{shelf.id}/permissions", body)
        assert taken.status_code in self._corpus(person, shelf, (200, 204)), taken.text
        if taken.status_code < 300:
            del shelf.grants[friend]

    async def publish(self, person: Person) -> None:
        shelf = self.world.any_corpus(self.chance)
        if shelf is None:
            return
        public = self.chance.random() < 0.7
        changed = await person.rest("PATCH", f"/corpuses/{shelf.id}", {"is_public": public})
        assert changed.status_code in self._corpus(person, shelf, (200,)), changed.text
        if changed.status_code == 200:
            shelf.is_public = public

    async def judge(self, person: Person) -> None:
        """An admin approves or revokes; others are told that it takes an admin."""
        shelf, verdict = self.world.any_corpus(self.chance), self.chance.choice(["approve", "approve", "revoke"])
        if shelf is None:
            return
        judge = self.admin if self.chance.random() < 0.8 else person
        judgeable = shelf.is_public or (verdict == "revoke" and shelf.is_approved)
        known = frozenset({shelf.secret} if judgeable and judge is self.admin else ())
        judged = await judge.ask("POST", f"/api/v1/admin/corpuses/{shelf.id}/{verdict}", known=known)
        if judge is not self.admin:
            assert judged.status_code == 403, judged.text
            assert judged.headers["x-mcp-error-code"] == "auth.admin_required"
        else:
            assert judged.status_code == (200 if judgeable else 404), judged.text
            shelf.is_approved = verdict == "approve" if judgeable else shelf.is_approved

    # -- looking --------------------------------------------------------------------------------

    async def show(self, person: Person) -> None:
        found = self.world.any_document(self.chance)
        if found is None:
            return
        shelf, document, word = found
        shown = await person.rest("GET", f"/documents/{document}")
        assert shown.status_code == (200 if shelf.readable(person.name) else 404), shown.text
        if shown.status_code == 200:
            assert word in secrets_in(shown.text)
        else:
            never = await person.rest("GET", "/documents/900719925474")
            assert never.text.replace("900719925474", str(document)) == shown.text

    async def read_original(self, person: Person) -> None:
        found = self.world.any_document(self.chance)
        if found is None:
            return
        shelf, document, word = found
        read = await person.rest("GET", f"/documents/{document}/file")
        assert read.status_code == (200 if shelf.readable(person.name) else 404), read.text
        assert (word in read.text) is shelf.readable(person.name)

    async def search(self, person: Person) -> None:
        found = self.world.any_document(self.chance)
        if found is None:
            return
        shelf, document, word = found
        mode = self.chance.choice(["hybrid", "text"])
        answer = (await person.rest("POST", "/search", {"query": f"report {word}", "mode": mode, "top": 20})).json()
        hits = {hit["document_id"] for hit in answer["results"]}
        assert (document in hits) is shelf.readable(person.name), answer

    async def search_named(self, person: Person) -> None:
        shelf = self.world.any_shelf(self.chance)
        if shelf is None:
            return
        body = {"query": "report archive", "collections": [shelf.id], "top": 50}
        answer = await person.rest("POST", "/search", body)
        assert answer.status_code == (200 if shelf.readable(person.name) else 404), answer.text
        if answer.status_code == 200:
            assert {hit["document_id"] for hit in answer.json()["results"]} <= set(shelf.documents)

    async def ask_manager(self, person: Person) -> None:
        found = self.world.any_document(self.chance)
        if found is None:
            return
        shelf, _, word = found
        answer = await person.tool(MANAGER, "query_knowledge", query=f"report {word}", n_results=5)
        assert answer.status_code == 200, answer.text
        assert (word in answer.json()["result"]["context"]) is shelf.readable(person.name)

    async def ask_corpus(self, person: Person) -> None:
        shelf = self.world.any_corpus(self.chance)
        if shelf is None:
            return
        answer = await person.tool(MANAGER, "query_corpus", corpus_id=shelf.id, query="report archive", n_results=20)
        assert answer.status_code == self._corpus_status(person, shelf), answer.text
        if answer.status_code == 200 and len(shelf.documents) <= 20:
            assert answer.json()["result"]["num_results"] == len(shelf.documents)

    async def ask_stream(self, person: Person) -> None:
        shelf = self.world.any_shelf(self.chance)
        if shelf is None:
            return
        body = {"query": "report archive", "n_results": 20}
        answer = await person.ask("POST", "/api/v1/mcp/query/stream", body)
        assert answer.status_code == 200, answer.text
        seen = secrets_in(answer.text)
        if shelf.readable(person.name) and len(shelf.documents) <= 20:
            assert set(shelf.documents.values()) <= seen

    async def ask_other_tools(self, person: Person) -> None:
        found = self.world.any_document(self.chance)
        if found is None:
            return
        shelf, _, word = found
        address, tool, more = self.chance.choice(
            [("/mcp/kb", "kb_search", {"top": 10}), ("/mcp", "knowledge-search", {"top_k": 20}),
             ("/mcp/rag", "search_knowledge_base", {"match_count": 20})]
        )  # fmt: skip
        answer = await person.tool(address, tool, query=f"report {word}", **more)
        if shelf.readable(person.name):
            assert answer.text.count(word) > 1 or (tool == "kb_search" and word in answer.text), answer.text

    async def list_shelves(self, person: Person) -> None:
        expected = {shelf.secret for shelf in self.world.readable(person.name)}
        listed = await person.rest("GET", "/collections?per_page=200")
        assert secrets_in(listed.text) == expected or len(expected) > 200
        corpora = {shelf.secret for shelf in self.world.readable(person.name) if shelf.is_corpus}
        listed = await person.rest("GET", "/corpuses?per_page=200")
        assert secrets_in(listed.text) >= corpora or len(corpora) > 200
        told = await person.tool(MANAGER, "list_corpuses", approved_only=True)
        approved = {shelf.id for shelf in self.world.readable(person.name) if shelf.is_corpus and shelf.is_approved}
        assert {corpus["id"] for corpus in told.json()["result"]["corpuses"]} == approved

    async def list_documents(self, person: Person) -> None:
        readable = self.world.readable(person.name)
        expected = {document for shelf in readable for document in shelf.documents}
        listed = (await person.rest("GET", "/documents?per_page=200")).json()
        assert listed["total"] == len(expected)
        assert {document["id"] for document in listed["documents"]} <= expected

    async def read_resource(self, person: Person) -> None:
        shelf = self.world.any_corpus(self.chance)
        if shelf is None:
            return
        read = await person.rpc(MANAGER, "resources/read", {"uri": f"corpus://{shelf.id}"})
        assert ("result" in read.json()) is shelf.readable(person.name), read.text
        listed = await person.rpc(MANAGER, "resources/list", {})
        uris = {resource["uri"] for resource in listed.json()["result"]["resources"]}
        corpora = [shelf for shelf in self.world.readable(person.name) if shelf.is_corpus]
        assert uris == {f"corpus://{shelf.id}" for shelf in corpora}

    async def look_at_jobs(self, person: Person) -> None:
        own = {job for job, starter in self.world.jobs.items() if starter == person.name}
        listed = (await person.rest("GET", "/jobs?per_page=200")).json()
        assert {job["id"] for job in listed["jobs"]} <= own
        assert listed["total"] == len(own)
        if self.world.jobs:
            job = self.chance.choice(sorted(self.world.jobs))
            shown = await person.rest("GET", f"/jobs/{job}")
            assert shown.status_code == (200 if job in own else 404), shown.text

    async def count(self, person: Person) -> None:
        told = (await person.rest("GET", "/status")).json()
        assert told["documents"] == sum(len(shelf.documents) for shelf in self.world.readable(person.name))

    async def change_key(self, person: Person) -> None:
        """A new key works, and the old one does not once it is taken back; it never becomes somebody else's."""
        minted = (await person.rest("POST", "/user/api-keys", {"name": "another"})).json()
        old, person.key = person.key, minted["api_key"]
        keys = (await person.rest("GET", "/user/api-keys")).json()["api_keys"]
        for key in keys:
            if key["id"] != minted["id"]:
                assert (await person.rest("DELETE", f"/user/api-keys/{key['id']}")).status_code in (200, 204)
        person.key, new = old, person.key
        for method, path in (("GET", "/documents"), ("POST", "/search")):
            refused = await person.rest(method, path, {"query": "report"} if method == "POST" else None)
            assert refused.status_code == 401, refused.text
        assert (await person.tool("/mcp", "knowledge-show")).status_code == 401
        person.key = new

    # -- what must come of it -------------------------------------------------------------------

    def _writing(self, person: Person, shelf: Shelf, success: int) -> int:
        if shelf.writable(person.name):
            return success
        return 403 if shelf.readable(person.name) else 404

    def _owning(self, person: Person, shelf: Shelf, success: int) -> int:
        if person.name == shelf.owner:
            return success
        return 403 if shelf.readable(person.name) or (shelf.is_corpus and shelf.is_public) else 404

    def _corpus(self, person: Person, shelf: Shelf, success: tuple[int, ...]) -> tuple[int, ...]:
        return success if person.name == shelf.owner else (self._owning(person, shelf, 0),)

    def _corpus_status(self, person: Person, shelf: Shelf) -> int:
        if shelf.readable(person.name):
            return 200
        return 403 if shelf.is_public else 404
