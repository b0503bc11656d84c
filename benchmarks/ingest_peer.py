"""The peer of ingest.py: embeds the chunks from stdin (JSON) with sentence-transformers and prints one line of JSON.

It runs in an interpreter with torch and sentence-transformers and imports nothing of this project.
"""

import json
import sys
import time


def main() -> None:
    import torch  # type: ignore[import-not-found]
    from sentence_transformers import SentenceTransformer  # type: ignore[import-not-found]

    model_folder, threads = sys.argv[1], int(sys.argv[2])
    chunks = json.load(sys.stdin)
    torch.set_num_threads(threads)
    model = SentenceTransformer(model_folder, device="cpu")
    model.encode(chunks[:8])
    wall, spent = time.perf_counter(), time.process_time()
    model.encode(chunks, batch_size=32)
    wall, spent = time.perf_counter() - wall, time.process_time() - spent
    question = time.process_time()
    for _ in range(20):
        model.encode(["how does incremental indexing of pdf files work"])
    question = (time.process_time() - question) / 20
    print(json.dumps({"wall": wall, "cpu": spent, "question": question}))


if __name__ == "__main__":
    main()
