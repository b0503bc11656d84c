# One image for both roles: `serve` runs the whole server, `serve --toolsets kb` with KB_ENGINE_URL the MCP server of a remote engine.

FROM python:3.12-slim AS build
WORKDIR /build
RUN python -m venv /opt/knowledge
COPY requirements/run.txt requirements/cluster.txt requirements/
# run, or cluster with the drivers of PostgreSQL and S3
ARG REQUIREMENTS=run
RUN /opt/knowledge/bin/pip install --no-cache-dir --disable-pip-version-check --require-hashes -r requirements/${REQUIREMENTS}.txt
COPY pyproject.toml README.md LICENSE ./
COPY src src
RUN /opt/knowledge/bin/pip install --no-cache-dir --disable-pip-version-check --no-deps --no-build-isolation .

FROM python:3.12-slim
RUN useradd --uid 10001 --user-group --no-create-home --shell /usr/sbin/nologin knowledge \
    && install --directory --owner knowledge --group knowledge --mode 0700 /data
COPY --from=build /opt/knowledge /opt/knowledge
ENV PATH=/opt/knowledge/bin:$PATH \
    PYTHONDONTWRITEBYTECODE=1 \
    KNOWLEDGE_HOST=0.0.0.0 \
    KNOWLEDGE_PORT=8000 \
    KNOWLEDGE_DATA=/data
USER 10001:10001
WORKDIR /data
VOLUME /data
EXPOSE 8000
HEALTHCHECK --interval=10s --timeout=5s --start-period=60s --retries=3 \
    CMD ["python", "-c", "import http.client, os; line = http.client.HTTPConnection('127.0.0.1', int(os.environ['KNOWLEDGE_PORT']), timeout=4); line.request('GET', '/health'); raise SystemExit(line.getresponse().status != 200)"]
ENTRYPOINT ["knowledge"]
CMD ["serve"]
