"""Random actions of accounts, each compared with the model of the permissions."""

from __future__ import annotations

import random
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

from knowledge.model import Job
from knowledge.model.events import DocumentChange, EventKind
from tests.tenancy.client import TenantClient, find_secrets
from tests.tenancy.model import CollectionModel, TenancyModel

MANAGER = "/api/v1/mcp/"
MAX_POLLS = 5000
NOTE_OPENING = (
    "The report was filed in the archive of the harbour office in spring, and copies of it were sent to all offices."
)
"""Comes before the secret, because a job shows the first words of its note to the account that started it."""


@dataclass(slots=True)
class Steps:
    model: TenancyModel
    people: list[TenantClient]
    admin: TenantClient
    rng: random.Random
    words: Iterator[str]

    async def take_step(self) -> None:
        kinds = [step for step, weight in self._weights() for _ in range(weight)]
        await self.rng.choice(kinds)(self.rng.choice(self.people))

    def _weights(self) -> list[tuple[Any, int]]:
        return [
            (self.make_collection, 1),
            (self.make_corpus, 2),
            (self.add_note, 5),
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
            (self.suggest, 4),
            (self.read_map, 2),
            (self.watch, 3),
            (self.fail_and_retry, 2),
            (self.read_pages, 4),
            (self.read_crawl, 2),
        ]

    # -- changes --------------------------------------------------------------------------------

    async def make_collection(self, person: TenantClient) -> None:
        word = next(self.words)
        made = await person.send_rest("POST", "/collections", {"title": f"collection {word}"})
        assert made.status_code == 201, made.text
        self._remember_collection(made.json(), person, word)

    async def make_corpus(self, person: TenantClient) -> None:
        word, public = next(self.words), self.rng.random() < 0.5
        body = {"display_name": f"corpus {word}", "category": "legal", "is_public": public}
        made = await person.send_rest("POST", "/corpuses", body)
        assert made.status_code == 201, made.text
        collection = self._remember_collection(made.json(), person, word)
        collection.is_corpus, collection.is_public = True, public

    def _remember_collection(self, made: dict[str, Any], person: TenantClient, word: str) -> CollectionModel:
        collection = CollectionModel(made["id"], person.name, made["name"], word)
        self.model.collections[collection.id] = collection
        return collection

    async def add_note(self, person: TenantClient) -> None:
        collection = self.model.choose_collection(self.rng)
        if collection is None:
            return
        word = next(self.words)
        body = {"note": f"{NOTE_OPENING}\n\nThis is about {word}.", "title": "Report", "collection": collection.id}
        accepted = await person.send_rest("POST", "/jobs", body)
        assert accepted.status_code == self._expect_write_status(person, collection, 202), accepted.text
        if accepted.status_code != 202:
            return
        job = accepted.json()["job_id"]
        self.model.jobs[job] = person.name
        ended = await self._wait_for_job(person, job)
        collection.documents[ended["document_id"]] = word

    async def _wait_for_job(self, person: TenantClient, job: int) -> dict[str, Any]:
        for _ in range(MAX_POLLS):
            answer: dict[str, Any] = (await person.send_rest("GET", f"/jobs/{job}")).json()
            if answer["status"] not in ("queued", "processing"):
                assert answer["status"] == "completed", answer
                return answer
        raise AssertionError(f"job {job} did not end")

    async def remove_document(self, person: TenantClient) -> None:
        found = self.model.choose_document(self.rng)
        if found is None:
            return
        collection, document, _ = found
        removed = await person.send_rest("DELETE", f"/documents/{document}")
        assert removed.status_code == self._expect_write_status(person, collection, 200), removed.text
        if removed.status_code == 200:
            self.model.remove_document(collection, document)

    async def remove_collection(self, person: TenantClient) -> None:
        collection = self.model.choose_collection(self.rng)
        if collection is None:
            return
        removed = await person.send_rest(
            "DELETE", f"/{'corpuses' if collection.is_corpus else 'collections'}/{collection.id}"
        )
        assert removed.status_code == self._expect_owner_status(person, collection, 200), removed.text
        if removed.status_code == 200:
            self.model.remove_collection(collection)

    async def tag_document(self, person: TenantClient) -> None:
        found = self.model.choose_document(self.rng)
        if found is None:
            return
        collection, document, _ = found
        tagged = await person.send_rest("PUT", f"/documents/{document}/tags", {"add": ["seen"]})
        assert tagged.status_code == self._expect_write_status(person, collection, 200), tagged.text

    # -- sharing --------------------------------------------------------------------------------

    async def grant(self, person: TenantClient) -> None:
        collection, friend = self.model.choose_corpus(self.rng), self.rng.choice(self.people)
        if collection is None or friend.name == collection.owner:
            return
        permission = self.rng.choice(["read", "write"])
        body = {"username": friend.name, "permission": permission}
        granted = await person.send_rest("POST", f"/corpuses/{collection.id}/permissions", body)
        assert granted.status_code in self._expect_corpus_change(person, collection, (200, 201)), granted.text
        if granted.status_code < 300:
            collection.grants[friend.name] = permission

    async def revoke_grant(self, person: TenantClient) -> None:
        collection = self.model.choose_corpus(self.rng)
        if collection is None or not collection.grants:
            return
        friend = self.rng.choice(sorted(collection.grants))
        body = {"username": friend, "permission": collection.grants[friend]}
        taken = await person.send_rest("DELETE", f"/corpuses/{collection.id}/permissions", body)
        assert taken.status_code in self._expect_corpus_change(person, collection, (200, 204)), taken.text
        if taken.status_code < 300:
            del collection.grants[friend]

    async def publish(self, person: TenantClient) -> None:
        collection = self.model.choose_corpus(self.rng)
        if collection is None:
            return
        public = self.rng.random() < 0.7
        changed = await person.send_rest("PATCH", f"/corpuses/{collection.id}", {"is_public": public})
        assert changed.status_code in self._expect_corpus_change(person, collection, (200,)), changed.text
        if changed.status_code == 200:
            collection.is_public = public

    async def review_corpus(self, person: TenantClient) -> None:
        """Approve a corpus or revoke its approval; other accounts than the admin are refused."""
        collection, verdict = self.model.choose_corpus(self.rng), self.rng.choice(["approve", "approve", "revoke"])
        if collection is None:
            return
        reviewer = self.admin if self.rng.random() < 0.8 else person
        is_reviewable = collection.is_public or (verdict == "revoke" and collection.is_approved)
        known = frozenset({collection.secret} if is_reviewable and reviewer is self.admin else ())
        reviewed = await reviewer.send_checked("POST", f"/api/v1/admin/corpuses/{collection.id}/{verdict}", known=known)
        if reviewer is not self.admin:
            assert reviewed.status_code == 403, reviewed.text
            assert reviewed.headers["x-mcp-error-code"] == "auth.admin_required"
        else:
            assert reviewed.status_code == (200 if is_reviewable else 404), reviewed.text
            collection.is_approved = verdict == "approve" if is_reviewable else collection.is_approved

    # -- reading --------------------------------------------------------------------------------

    async def show_document(self, person: TenantClient) -> None:
        found = self.model.choose_document(self.rng)
        if found is None:
            return
        collection, document, word = found
        answer = await person.send_rest("GET", f"/documents/{document}")
        assert answer.status_code == (200 if collection.is_readable(person.name) else 404), answer.text
        if answer.status_code == 200:
            assert word in find_secrets(answer.text)
        else:
            unknown = await person.send_rest("GET", "/documents/900719925474")
            assert unknown.text.replace("900719925474", str(document)) == answer.text

    async def read_original(self, person: TenantClient) -> None:
        found = self.model.choose_document(self.rng)
        if found is None:
            return
        collection, document, word = found
        read = await person.send_rest("GET", f"/documents/{document}/file")
        assert read.status_code == (200 if collection.is_readable(person.name) else 404), read.text
        assert (word in read.text) is collection.is_readable(person.name)

    async def search(self, person: TenantClient) -> None:
        found = self.model.choose_document(self.rng)
        if found is None:
            return
        collection, document, word = found
        mode = self.rng.choice(["hybrid", "text"])
        answer = (
            await person.send_rest("POST", "/search", {"query": f"report {word}", "mode": mode, "top": 20})
        ).json()
        hits = {hit["document_id"] for hit in answer["results"]}
        assert (document in hits) is collection.is_readable(person.name), answer

    async def search_named(self, person: TenantClient) -> None:
        collection = self.model.choose_collection(self.rng)
        if collection is None:
            return
        body = {"query": "report archive", "collections": [collection.id], "top": 50}
        answer = await person.send_rest("POST", "/search", body)
        assert answer.status_code == (200 if collection.is_readable(person.name) else 404), answer.text
        if answer.status_code == 200:
            assert {hit["document_id"] for hit in answer.json()["results"]} <= set(collection.documents)

    async def ask_manager(self, person: TenantClient) -> None:
        found = self.model.choose_document(self.rng)
        if found is None:
            return
        collection, _, word = found
        answer = await person.call_tool(MANAGER, "query_knowledge", query=f"report {word}", n_results=5)
        assert answer.status_code == 200, answer.text
        assert (word in answer.json()["result"]["context"]) is collection.is_readable(person.name)

    async def ask_corpus(self, person: TenantClient) -> None:
        collection = self.model.choose_corpus(self.rng)
        if collection is None:
            return
        answer = await person.call_tool(
            MANAGER, "query_corpus", corpus_id=collection.id, query="report archive", n_results=20
        )
        assert answer.status_code == self._expect_query_status(person, collection), answer.text
        if answer.status_code == 200 and len(collection.documents) <= 20:
            assert answer.json()["result"]["num_results"] == len(collection.documents)

    async def ask_stream(self, person: TenantClient) -> None:
        collection = self.model.choose_collection(self.rng)
        if collection is None:
            return
        body = {"query": "report archive", "n_results": 20}
        answer = await person.send_checked("POST", "/api/v1/mcp/query/stream", body)
        assert answer.status_code == 200, answer.text
        seen = find_secrets(answer.text)
        if collection.is_readable(person.name) and len(collection.documents) <= 20:
            assert set(collection.documents.values()) <= seen

    async def ask_other_tools(self, person: TenantClient) -> None:
        found = self.model.choose_document(self.rng)
        if found is None:
            return
        collection, _, word = found
        address, tool, more = self.rng.choice(
            [("/mcp/kb", "kb_search", {"top": 10}), ("/mcp", "knowledge-search", {"top_k": 20}),
             ("/mcp/rag", "search_knowledge_base", {"match_count": 20})]
        )  # fmt: skip
        answer = await person.call_tool(address, tool, query=f"report {word}", **more)
        if collection.is_readable(person.name):
            assert answer.text.count(word) > 1 or (tool == "kb_search" and word in answer.text), answer.text

    async def list_collections(self, person: TenantClient) -> None:
        expected = {collection.secret for collection in self.model.list_readable(person.name)}
        listed = await person.send_rest("GET", "/collections?per_page=200")
        assert find_secrets(listed.text) == expected or len(expected) > 200
        corpora = {collection.secret for collection in self.model.list_readable(person.name) if collection.is_corpus}
        listed = await person.send_rest("GET", "/corpuses?per_page=200")
        assert find_secrets(listed.text) >= corpora or len(corpora) > 200
        answer = await person.call_tool(MANAGER, "list_corpuses", approved_only=True)
        approved = {
            collection.id
            for collection in self.model.list_readable(person.name)
            if collection.is_corpus and collection.is_approved
        }
        assert {corpus["id"] for corpus in answer.json()["result"]["corpuses"]} == approved

    async def list_documents(self, person: TenantClient) -> None:
        readable = self.model.list_readable(person.name)
        expected = {document for collection in readable for document in collection.documents}
        listed = (await person.send_rest("GET", "/documents?per_page=200")).json()
        assert listed["total"] == len(expected)
        assert {document["id"] for document in listed["documents"]} <= expected

    async def read_resource(self, person: TenantClient) -> None:
        collection = self.model.choose_corpus(self.rng)
        if collection is None:
            return
        read = await person.send_rpc(MANAGER, "resources/read", {"uri": f"corpus://{collection.id}"})
        assert ("result" in read.json()) is collection.is_readable(person.name), read.text
        listed = await person.send_rpc(MANAGER, "resources/list", {})
        uris = {resource["uri"] for resource in listed.json()["result"]["resources"]}
        corpora = [collection for collection in self.model.list_readable(person.name) if collection.is_corpus]
        assert uris == {f"corpus://{collection.id}" for collection in corpora}

    async def list_jobs(self, person: TenantClient) -> None:
        own = {job for job, starter in self.model.jobs.items() if starter == person.name}
        listed = (await person.send_rest("GET", "/jobs?per_page=200")).json()
        assert {job["id"] for job in listed["jobs"]} <= own
        assert listed["total"] == len(own)
        if self.model.jobs:
            job = self.rng.choice(sorted(self.model.jobs))
            answer = await person.send_rest("GET", f"/jobs/{job}")
            assert answer.status_code == (200 if job in own else 404), answer.text

    async def check_counts(self, person: TenantClient) -> None:
        answer = (await person.send_rest("GET", "/status")).json()
        assert answer["documents"] == sum(
            len(collection.documents) for collection in self.model.list_readable(person.name)
        )

    async def change_key(self, person: TenantClient) -> None:
        """Replace the key of an account, revoke the old one, and check that it is refused."""
        created = (await person.send_rest("POST", "/user/api-keys", {"name": "another"})).json()
        old, person.key = person.key, created["api_key"]
        keys = (await person.send_rest("GET", "/user/api-keys")).json()["api_keys"]
        for key in keys:
            if key["id"] != created["id"]:
                assert (await person.send_rest("DELETE", f"/user/api-keys/{key['id']}")).status_code in (200, 204)
        person.key, new = old, person.key
        person.session, session = "", person.session
        for method, path in (("GET", "/documents"), ("POST", "/search")):
            refused = await person.send_rest(method, path, {"query": "report"} if method == "POST" else None)
            assert refused.status_code == 401, refused.text
        assert (await person.call_tool("/mcp", "knowledge-show")).status_code == 401
        person.key, person.session = new, session

    # -- what the page uses -----------------------------------------------------------------------

    async def suggest(self, person: TenantClient) -> None:
        collection = self.model.choose_collection(self.rng)
        if collection is None:
            return
        answer = await person.send_rest("GET", f"/suggest?q={collection.name[:12]}")
        readable = {each.secret for each in self.model.list_readable(person.name)}
        assert find_secrets(answer.text) <= readable | {collection.secret}
        named = await person.send_rest("GET", f"/suggest?q={collection.name}")
        texts = [each["text"] for each in named.json()["suggestions"]]
        assert (collection.name in texts) is collection.is_readable(person.name), named.text

    async def read_map(self, person: TenantClient) -> None:
        """Ask for maps, also of one collection: nothing of others is named, and their collections do not exist."""
        readable = {each.secret for each in self.model.list_readable(person.name)}
        answer = await person.send_rest("GET", "/map")
        assert answer.status_code == 200 and find_secrets(answer.text) <= readable, answer.text
        collection = self.model.choose_collection(self.rng)
        if collection is not None:
            found = await person.send_rest("GET", f"/map?collection={collection.id}")
            assert found.status_code == (200 if collection.is_readable(person.name) else 404), found.text
            assert find_secrets(found.text) <= readable

    async def watch(self, person: TenantClient) -> None:
        """Read what has happened from the beginning: all that a person may read now, and nothing else that exists."""
        told: set[int] = set()
        events = await person.read_events(after=0)
        if any(event.kind is EventKind.RESET for event in events):
            return
        for event in events:
            if isinstance(event.data, DocumentChange):
                told.add(event.data.id)
            elif isinstance(event.data, Job):
                assert self.model.jobs.get(event.data.id) == person.name
        for collection in self.model.collections.values():
            if collection.is_readable(person.name):
                assert set(collection.documents) <= told
            else:
                assert not told & set(collection.documents), f"{person.name} was told of {collection.name}"

    async def fail_and_retry(self, person: TenantClient) -> None:
        accepted = await person.http.post(
            "/api/v1/jobs", files={"file": ("empty.txt", b"  ")}, headers={"X-API-Key": person.key}
        )
        assert accepted.status_code == 202, accepted.text
        job = accepted.json()["job_id"]
        self.model.jobs[job] = person.name
        for _ in range(MAX_POLLS):
            if (await person.send_rest("GET", f"/jobs/{job}")).json()["status"] == "failed":
                break
        result = (await person.send_checked("POST", "/api/v1/jobs/retry", {})).json()
        named = {each["id"] for each in result["refused"]}
        assert result["retried"] == 0 and job in named
        assert all(self.model.jobs[each] == person.name for each in named)

    async def read_pages(self, person: TenantClient) -> None:
        found = self.model.choose_document(self.rng)
        if found is None:
            return
        collection, document, _ = found
        is_readable = collection.is_readable(person.name)
        for path in ("places?from=0", "outline", "pages", "pages/1?width=900", "pages/1/words", "thumbnail"):
            answer = await person.send_rest("GET", f"/documents/{document}/{path}")
            if is_readable:  # notes have passages and headings, but no pages
                assert answer.status_code == 200 or "no pages" in answer.text, answer.text
            else:
                unknown = await person.send_rest("GET", f"/documents/900719925474/{path}")
                assert answer.status_code == 404
                assert unknown.text.replace("900719925474", str(document)) == answer.text

    async def read_crawl(self, person: TenantClient) -> None:
        if not self.model.jobs:
            return
        job = self.rng.choice(sorted(self.model.jobs))  # none of them is a crawl
        answer = await person.send_rest("GET", f"/crawls/{job}/pages")
        unknown = await person.send_rest("GET", "/crawls/900719925474/pages")
        assert answer.status_code == unknown.status_code == 404
        if self.model.jobs[job] == person.name:
            assert "is not a crawl" in answer.text
        else:
            assert unknown.text.replace("900719925474", str(job)) == answer.text

    # -- expected statuses ----------------------------------------------------------------------

    def _expect_write_status(self, person: TenantClient, collection: CollectionModel, success: int) -> int:
        if collection.is_writable(person.name):
            return success
        return 403 if collection.is_readable(person.name) else 404

    def _expect_owner_status(self, person: TenantClient, collection: CollectionModel, success: int) -> int:
        if person.name == collection.owner:
            return success
        return 403 if collection.is_readable(person.name) or (collection.is_corpus and collection.is_public) else 404

    def _expect_corpus_change(
        self, person: TenantClient, collection: CollectionModel, success: tuple[int, ...]
    ) -> tuple[int, ...]:
        return success if person.name == collection.owner else (self._expect_owner_status(person, collection, 0),)

    def _expect_query_status(self, person: TenantClient, collection: CollectionModel) -> int:
        if collection.is_readable(person.name):
            return 200
        return 403 if collection.is_public else 404
