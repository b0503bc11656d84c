"""What people do at random, each with what the model says must come of it."""

from __future__ import annotations

import random
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

from tests.tenancy.person import TenantClient, find_secrets
from tests.tenancy.world import CollectionModel, TenancyModel

MANAGER = "/api/v1/mcp/"
MAX_POLLS = 5000
NOTE_OPENING = (
    "The report was filed in the archive of the harbour office in spring, and copies of it were sent to all offices."
)
"""A job is named after the first words of its note, for whoever began it; the secret comes later."""


@dataclass(slots=True)
class Steps:
    world: TenancyModel
    people: list[TenantClient]
    admin: TenantClient
    chance: random.Random
    words: Iterator[str]

    async def take_step(self) -> None:
        kinds = [step for step, weight in self._weights() for _ in range(weight)]
        await self.chance.choice(kinds)(self.chance.choice(self.people))

    def _weights(self) -> list[tuple[Any, int]]:
        return [
            (self.make_collection, 1),
            (self.make_corpus, 2),
            (self.add, 5),
            (self.remove_document, 2),
            (self.remove_collection, 1),
            (self.grant, 3),
            (self.revoke_grant, 2),
            (self.publish, 4),
            (self.review_corpus, 5),
            (self.tag_document, 2),
            (self.show_document, 8),
            (self.read_original, 3),
            (self.search, 8),
            (self.search_named, 4),
            (self.ask_manager, 6),
            (self.ask_corpus, 6),
            (self.ask_stream, 5),
            (self.ask_other_tools, 5),
            (self.list_collections, 5),
            (self.list_documents, 4),
            (self.read_resource, 4),
            (self.list_jobs, 4),
            (self.check_counts, 3),
            (self.change_key, 1),
        ]

    # -- making and taking away -----------------------------------------------------------------

    async def make_collection(self, person: TenantClient) -> None:
        word = next(self.words)
        made = await person.send_rest("POST", "/collections", {"title": f"shelf {word}"})
        assert made.status_code == 201, made.text
        self._remember_collection(made.json(), person, word)

    async def make_corpus(self, person: TenantClient) -> None:
        word, public = next(self.words), self.chance.random() < 0.5
        body = {"display_name": f"corpus {word}", "category": "legal", "is_public": public}
        made = await person.send_rest("POST", "/corpuses", body)
        assert made.status_code == 201, made.text
        shelf = self._remember_collection(made.json(), person, word)
        shelf.is_corpus, shelf.is_public = True, public

    def _remember_collection(self, made: dict[str, Any], person: TenantClient, word: str) -> CollectionModel:
        shelf = CollectionModel(made["id"], person.name, made["name"], word)
        self.world.collections[shelf.id] = shelf
        return shelf

    async def add(self, person: TenantClient) -> None:
        shelf = self.world.choose_collection(self.chance)
        if shelf is None:
            return
        word = next(self.words)
        body = {"note": f"{NOTE_OPENING}\n\nThis is about {word}.", "title": "Report", "collection": shelf.id}
        accepted = await person.send_rest("POST", "/jobs", body)
        assert accepted.status_code == self._expect_write_status(person, shelf, 202), accepted.text
        if accepted.status_code != 202:
            return
        job = accepted.json()["job_id"]
        self.world.jobs[job] = person.name
        ended = await self._wait_for_job(person, job)
        shelf.documents[ended["document_id"]] = word

    async def _wait_for_job(self, person: TenantClient, job: int) -> dict[str, Any]:
        for _ in range(MAX_POLLS):
            told: dict[str, Any] = (await person.send_rest("GET", f"/jobs/{job}")).json()
            if told["status"] not in ("queued", "processing"):
                assert told["status"] == "completed", told
                return told
        raise AssertionError(f"job {job} did not end")

    async def remove_document(self, person: TenantClient) -> None:
        found = self.world.choose_document(self.chance)
        if found is None:
            return
        shelf, document, _ = found
        removed = await person.send_rest("DELETE", f"/documents/{document}")
        assert removed.status_code == self._expect_write_status(person, shelf, 200), removed.text
        if removed.status_code == 200:
            self.world.remove_document(shelf, document)

    async def remove_collection(self, person: TenantClient) -> None:
        shelf = self.world.choose_collection(self.chance)
        if shelf is None:
            return
        removed = await person.send_rest("DELETE", f"/{'corpuses' if shelf.is_corpus else 'collections'}/{shelf.id}")
        assert removed.status_code == self._expect_owner_status(person, shelf, 200), removed.text
        if removed.status_code == 200:
            self.world.remove_collection(shelf)

    async def tag_document(self, person: TenantClient) -> None:
        found = self.world.choose_document(self.chance)
        if found is None:
            return
        shelf, document, _ = found
        tagged = await person.send_rest("PUT", f"/documents/{document}/tags", {"add": ["seen"]})
        assert tagged.status_code == self._expect_write_status(person, shelf, 200), tagged.text

    # -- sharing --------------------------------------------------------------------------------

    async def grant(self, person: TenantClient) -> None:
        shelf, friend = self.world.choose_corpus(self.chance), self.chance.choice(self.people)
        if shelf is None or friend.name == shelf.owner:
            return
        permission = self.chance.choice(["read", "write"])
        body = {"username": friend.name, "permission": permission}
        granted = await person.send_rest("POST", f"/corpuses/{shelf.id}/permissions", body)
        assert granted.status_code in self._expect_corpus_change(person, shelf, (200, 201)), granted.text
        if granted.status_code < 300:
            shelf.grants[friend.name] = permission

    async def revoke_grant(self, person: TenantClient) -> None:
        shelf = self.world.choose_corpus(self.chance)
        if shelf is None or not shelf.grants:
            return
        friend = self.chance.choice(sorted(shelf.grants))
        body = {"username": friend, "permission": shelf.grants[friend]}
        taken = await person.send_rest("DELETE", f"/corpuses/{shelf.id}/permissions", body)
        assert taken.status_code in self._expect_corpus_change(person, shelf, (200, 204)), taken.text
        if taken.status_code < 300:
            del shelf.grants[friend]

    async def publish(self, person: TenantClient) -> None:
        shelf = self.world.choose_corpus(self.chance)
        if shelf is None:
            return
        public = self.chance.random() < 0.7
        changed = await person.send_rest("PATCH", f"/corpuses/{shelf.id}", {"is_public": public})
        assert changed.status_code in self._expect_corpus_change(person, shelf, (200,)), changed.text
        if changed.status_code == 200:
            shelf.is_public = public

    async def review_corpus(self, person: TenantClient) -> None:
        """An admin approves or revokes; others are told that it takes an admin."""
        shelf, verdict = self.world.choose_corpus(self.chance), self.chance.choice(["approve", "approve", "revoke"])
        if shelf is None:
            return
        judge = self.admin if self.chance.random() < 0.8 else person
        judgeable = shelf.is_public or (verdict == "revoke" and shelf.is_approved)
        known = frozenset({shelf.secret} if judgeable and judge is self.admin else ())
        judged = await judge.send_checked("POST", f"/api/v1/admin/corpuses/{shelf.id}/{verdict}", known=known)
        if judge is not self.admin:
            assert judged.status_code == 403, judged.text
            assert judged.headers["x-mcp-error-code"] == "auth.admin_required"
        else:
            assert judged.status_code == (200 if judgeable else 404), judged.text
            shelf.is_approved = verdict == "approve" if judgeable else shelf.is_approved

    # -- looking --------------------------------------------------------------------------------

    async def show_document(self, person: TenantClient) -> None:
        found = self.world.choose_document(self.chance)
        if found is None:
            return
        shelf, document, word = found
        shown = await person.send_rest("GET", f"/documents/{document}")
        assert shown.status_code == (200 if shelf.is_readable(person.name) else 404), shown.text
        if shown.status_code == 200:
            assert word in find_secrets(shown.text)
        else:
            never = await person.send_rest("GET", "/documents/900719925474")
            assert never.text.replace("900719925474", str(document)) == shown.text

    async def read_original(self, person: TenantClient) -> None:
        found = self.world.choose_document(self.chance)
        if found is None:
            return
        shelf, document, word = found
        read = await person.send_rest("GET", f"/documents/{document}/file")
        assert read.status_code == (200 if shelf.is_readable(person.name) else 404), read.text
        assert (word in read.text) is shelf.is_readable(person.name)

    async def search(self, person: TenantClient) -> None:
        found = self.world.choose_document(self.chance)
        if found is None:
            return
        shelf, document, word = found
        mode = self.chance.choice(["hybrid", "text"])
        answer = (
            await person.send_rest("POST", "/search", {"query": f"report {word}", "mode": mode, "top": 20})
        ).json()
        hits = {hit["document_id"] for hit in answer["results"]}
        assert (document in hits) is shelf.is_readable(person.name), answer

    async def search_named(self, person: TenantClient) -> None:
        shelf = self.world.choose_collection(self.chance)
        if shelf is None:
            return
        body = {"query": "report archive", "collections": [shelf.id], "top": 50}
        answer = await person.send_rest("POST", "/search", body)
        assert answer.status_code == (200 if shelf.is_readable(person.name) else 404), answer.text
        if answer.status_code == 200:
            assert {hit["document_id"] for hit in answer.json()["results"]} <= set(shelf.documents)

    async def ask_manager(self, person: TenantClient) -> None:
        found = self.world.choose_document(self.chance)
        if found is None:
            return
        shelf, _, word = found
        answer = await person.call_tool(MANAGER, "query_knowledge", query=f"report {word}", n_results=5)
        assert answer.status_code == 200, answer.text
        assert (word in answer.json()["result"]["context"]) is shelf.is_readable(person.name)

    async def ask_corpus(self, person: TenantClient) -> None:
        shelf = self.world.choose_corpus(self.chance)
        if shelf is None:
            return
        answer = await person.call_tool(
            MANAGER, "query_corpus", corpus_id=shelf.id, query="report archive", n_results=20
        )
        assert answer.status_code == self._expect_query_status(person, shelf), answer.text
        if answer.status_code == 200 and len(shelf.documents) <= 20:
            assert answer.json()["result"]["num_results"] == len(shelf.documents)

    async def ask_stream(self, person: TenantClient) -> None:
        shelf = self.world.choose_collection(self.chance)
        if shelf is None:
            return
        body = {"query": "report archive", "n_results": 20}
        answer = await person.send_checked("POST", "/api/v1/mcp/query/stream", body)
        assert answer.status_code == 200, answer.text
        seen = find_secrets(answer.text)
        if shelf.is_readable(person.name) and len(shelf.documents) <= 20:
            assert set(shelf.documents.values()) <= seen

    async def ask_other_tools(self, person: TenantClient) -> None:
        found = self.world.choose_document(self.chance)
        if found is None:
            return
        shelf, _, word = found
        address, tool, more = self.chance.choice(
            [("/mcp/kb", "kb_search", {"top": 10}), ("/mcp", "knowledge-search", {"top_k": 20}),
             ("/mcp/rag", "search_knowledge_base", {"match_count": 20})]
        )  # fmt: skip
        answer = await person.call_tool(address, tool, query=f"report {word}", **more)
        if shelf.is_readable(person.name):
            assert answer.text.count(word) > 1 or (tool == "kb_search" and word in answer.text), answer.text

    async def list_collections(self, person: TenantClient) -> None:
        expected = {shelf.secret for shelf in self.world.list_readable(person.name)}
        listed = await person.send_rest("GET", "/collections?per_page=200")
        assert find_secrets(listed.text) == expected or len(expected) > 200
        corpora = {shelf.secret for shelf in self.world.list_readable(person.name) if shelf.is_corpus}
        listed = await person.send_rest("GET", "/corpuses?per_page=200")
        assert find_secrets(listed.text) >= corpora or len(corpora) > 200
        told = await person.call_tool(MANAGER, "list_corpuses", approved_only=True)
        approved = {
            shelf.id for shelf in self.world.list_readable(person.name) if shelf.is_corpus and shelf.is_approved
        }
        assert {corpus["id"] for corpus in told.json()["result"]["corpuses"]} == approved

    async def list_documents(self, person: TenantClient) -> None:
        readable = self.world.list_readable(person.name)
        expected = {document for shelf in readable for document in shelf.documents}
        listed = (await person.send_rest("GET", "/documents?per_page=200")).json()
        assert listed["total"] == len(expected)
        assert {document["id"] for document in listed["documents"]} <= expected

    async def read_resource(self, person: TenantClient) -> None:
        shelf = self.world.choose_corpus(self.chance)
        if shelf is None:
            return
        read = await person.send_rpc(MANAGER, "resources/read", {"uri": f"corpus://{shelf.id}"})
        assert ("result" in read.json()) is shelf.is_readable(person.name), read.text
        listed = await person.send_rpc(MANAGER, "resources/list", {})
        uris = {resource["uri"] for resource in listed.json()["result"]["resources"]}
        corpora = [shelf for shelf in self.world.list_readable(person.name) if shelf.is_corpus]
        assert uris == {f"corpus://{shelf.id}" for shelf in corpora}

    async def list_jobs(self, person: TenantClient) -> None:
        own = {job for job, starter in self.world.jobs.items() if starter == person.name}
        listed = (await person.send_rest("GET", "/jobs?per_page=200")).json()
        assert {job["id"] for job in listed["jobs"]} <= own
        assert listed["total"] == len(own)
        if self.world.jobs:
            job = self.chance.choice(sorted(self.world.jobs))
            shown = await person.send_rest("GET", f"/jobs/{job}")
            assert shown.status_code == (200 if job in own else 404), shown.text

    async def check_counts(self, person: TenantClient) -> None:
        told = (await person.send_rest("GET", "/status")).json()
        assert told["documents"] == sum(len(shelf.documents) for shelf in self.world.list_readable(person.name))

    async def change_key(self, person: TenantClient) -> None:
        """A new key works, and the old one does not once it is taken back; it never becomes somebody else's."""
        minted = (await person.send_rest("POST", "/user/api-keys", {"name": "another"})).json()
        old, person.key = person.key, minted["api_key"]
        keys = (await person.send_rest("GET", "/user/api-keys")).json()["api_keys"]
        for key in keys:
            if key["id"] != minted["id"]:
                assert (await person.send_rest("DELETE", f"/user/api-keys/{key['id']}")).status_code in (200, 204)
        person.key, new = old, person.key
        for method, path in (("GET", "/documents"), ("POST", "/search")):
            refused = await person.send_rest(method, path, {"query": "report"} if method == "POST" else None)
            assert refused.status_code == 401, refused.text
        assert (await person.call_tool("/mcp", "knowledge-show")).status_code == 401
        person.key = new

    # -- what must come of it -------------------------------------------------------------------

    def _expect_write_status(self, person: TenantClient, shelf: CollectionModel, success: int) -> int:
        if shelf.is_writable(person.name):
            return success
        return 403 if shelf.is_readable(person.name) else 404

    def _expect_owner_status(self, person: TenantClient, shelf: CollectionModel, success: int) -> int:
        if person.name == shelf.owner:
            return success
        return 403 if shelf.is_readable(person.name) or (shelf.is_corpus and shelf.is_public) else 404

    def _expect_corpus_change(
        self, person: TenantClient, shelf: CollectionModel, success: tuple[int, ...]
    ) -> tuple[int, ...]:
        return success if person.name == shelf.owner else (self._expect_owner_status(person, shelf, 0),)

    def _expect_query_status(self, person: TenantClient, shelf: CollectionModel) -> int:
        if shelf.is_readable(person.name):
            return 200
        return 403 if shelf.is_public else 404
