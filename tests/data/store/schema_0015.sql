BEGIN TRANSACTION;
CREATE TABLE accounts (
	id INTEGER NOT NULL PRIMARY KEY AUTOINCREMENT, 
	uid CHAR(32) NOT NULL, 
	username VARCHAR(64) NOT NULL, 
	folded VARCHAR(64) NOT NULL, 
	password TEXT, 
	is_disabled BOOLEAN NOT NULL, 
	created_at BIGINT NOT NULL, 
	CONSTRAINT uq_accounts_uid UNIQUE (uid), 
	CONSTRAINT uq_accounts_folded UNIQUE (folded)
);
CREATE TABLE agents (
	id INTEGER NOT NULL, 
	owner_id BIGINT NOT NULL, 
	identity BLOB NOT NULL, 
	client VARCHAR(120) NOT NULL, 
	version VARCHAR(60) NOT NULL, 
	transport VARCHAR(20) NOT NULL, 
	toolset VARCHAR(120) NOT NULL, 
	caller VARCHAR(20) NOT NULL, 
	key_prefix VARCHAR(40) NOT NULL, 
	first_seen BIGINT NOT NULL, 
	last_seen BIGINT NOT NULL, 
	calls BIGINT NOT NULL, 
	last_tool VARCHAR(80), 
	CONSTRAINT pk_agents PRIMARY KEY (id), 
	CONSTRAINT uq_agents_owner_id_identity UNIQUE (owner_id, identity)
);
CREATE TABLE alembic_version (version_num VARCHAR(32) NOT NULL PRIMARY KEY);
INSERT INTO "alembic_version" VALUES('0015');
CREATE TABLE api_keys (
	id INTEGER NOT NULL PRIMARY KEY AUTOINCREMENT, 
	account_id BIGINT NOT NULL, 
	name TEXT NOT NULL, 
	prefix VARCHAR(32) NOT NULL, 
	digest BLOB NOT NULL, 
	created_at BIGINT NOT NULL, 
	expires_at BIGINT, 
	last_used_at BIGINT, is_login BOOLEAN DEFAULT 0 NOT NULL, 
	CONSTRAINT uq_api_keys_prefix UNIQUE (prefix), 
	CONSTRAINT fk_api_keys_account_id FOREIGN KEY(account_id) REFERENCES accounts (id)
);
CREATE TABLE browser_sessions (
	id INTEGER NOT NULL PRIMARY KEY AUTOINCREMENT, 
	account_id BIGINT, 
	api_key_id BIGINT, 
	digest BLOB NOT NULL, 
	operator_proof BLOB, 
	stay BOOLEAN NOT NULL, 
	user_agent TEXT NOT NULL, 
	created_at BIGINT NOT NULL, 
	last_used_at BIGINT NOT NULL, 
	expires_at BIGINT NOT NULL, 
	CONSTRAINT uq_browser_sessions_digest UNIQUE (digest), 
	CONSTRAINT fk_browser_sessions_account_id FOREIGN KEY(account_id) REFERENCES accounts (id)
);
CREATE TABLE changes (
	seq INTEGER NOT NULL PRIMARY KEY AUTOINCREMENT, 
	document_id BIGINT NOT NULL, 
	at BIGINT NOT NULL
, vectors_only BOOLEAN DEFAULT 0 NOT NULL);
INSERT INTO "changes" VALUES(1,1,1700000000000000,0);
CREATE TABLE chunks (
	id INTEGER NOT NULL PRIMARY KEY AUTOINCREMENT, 
	uid CHAR(32) NOT NULL, 
	content_id BIGINT NOT NULL, 
	position INTEGER NOT NULL, 
	text TEXT NOT NULL, 
	page INTEGER, 
	section JSON NOT NULL, 
	digest BLOB NOT NULL, checksum BLOB, 
	CONSTRAINT uq_chunks_content_id_position UNIQUE (content_id, position), 
	CONSTRAINT uq_chunks_uid UNIQUE (uid), 
	CONSTRAINT fk_chunks_content_id FOREIGN KEY(content_id) REFERENCES contents (id)
);
INSERT INTO "chunks" VALUES(1,'2b5c7a5c2f0a4a3c9c4a2d6c8f1e7b12',1,0,'tea in the kitchen',NULL,'[]',X'00112233445566778899AABBCCDDEEFF',X'5E8865F0C3AD64259897FAA97E510EF0');
CREATE TABLE collections (
	id INTEGER NOT NULL PRIMARY KEY AUTOINCREMENT, 
	uid CHAR(32) NOT NULL, 
	owner_id BIGINT NOT NULL, 
	name VARCHAR(200) NOT NULL, 
	title TEXT NOT NULL, 
	description TEXT NOT NULL, 
	source_type VARCHAR(20) NOT NULL, 
	url TEXT, 
	metadata JSON NOT NULL, 
	created_at BIGINT NOT NULL, 
	updated_at BIGINT NOT NULL, trusted BOOLEAN DEFAULT 0 NOT NULL, 
	CONSTRAINT uq_collections_owner_id_name UNIQUE (owner_id, name), 
	CONSTRAINT uq_collections_uid UNIQUE (uid)
);
INSERT INTO "collections" VALUES(1,'0b5c7a5c2f0a4a3c9c4a2d6c8f1e7b10',0,'documents','documents','','upload',NULL,'{}',1700000000000000,1700000000000000,0);
CREATE TABLE contents (
	id INTEGER NOT NULL PRIMARY KEY AUTOINCREMENT, 
	job_id BIGINT NOT NULL
, document_id BIGINT, retired_seq BIGINT);
INSERT INTO "contents" VALUES(1,1,1,NULL);
CREATE TABLE crawl_pages (
	id INTEGER NOT NULL, 
	job_id BIGINT NOT NULL, 
	name TEXT NOT NULL, 
	url TEXT NOT NULL, 
	depth INTEGER NOT NULL, 
	state VARCHAR(10) NOT NULL, 
	known_as TEXT, 
	page_job_uid CHAR(32), 
	outcome VARCHAR(12), 
	reason VARCHAR(40), 
	detail TEXT NOT NULL, 
	http_status INTEGER, 
	document_id BIGINT, 
	document_uid CHAR(32), 
	chunk_count INTEGER NOT NULL, 
	CONSTRAINT pk_crawl_pages PRIMARY KEY (id), 
	CONSTRAINT uq_crawl_pages_job_id_name UNIQUE (job_id, name)
);
CREATE TABLE crawls (
	job_id BIGINT NOT NULL, 
	collection_id BIGINT NOT NULL, 
	collection_uid CHAR(32) NOT NULL, 
	url TEXT NOT NULL, 
	recursive BOOLEAN NOT NULL, 
	max_pages INTEGER NOT NULL, 
	exclude JSON NOT NULL, 
	site TEXT, 
	seeded BOOLEAN NOT NULL, 
	bytes BIGINT NOT NULL, 
	CONSTRAINT pk_crawls PRIMARY KEY (job_id)
);
CREATE TABLE curations (
	collection_id BIGINT NOT NULL, 
	category VARCHAR(20) NOT NULL, 
	version TEXT NOT NULL, 
	is_public BOOLEAN NOT NULL, 
	is_approved BOOLEAN NOT NULL, 
	CONSTRAINT pk_curations PRIMARY KEY (collection_id)
);
CREATE TABLE document_tags (
	document_id BIGINT NOT NULL, 
	tag VARCHAR(200) NOT NULL, 
	CONSTRAINT pk_document_tags PRIMARY KEY (document_id, tag), 
	CONSTRAINT fk_document_tags_document_id FOREIGN KEY(document_id) REFERENCES documents (id) ON DELETE CASCADE
);
CREATE TABLE documents (
	id INTEGER NOT NULL PRIMARY KEY AUTOINCREMENT, 
	uid CHAR(32) NOT NULL, 
	collection_id BIGINT NOT NULL, 
	owner_id BIGINT NOT NULL, 
	content_id BIGINT NOT NULL, 
	title TEXT NOT NULL, 
	kind VARCHAR(10) NOT NULL, 
	doc_type VARCHAR(40) NOT NULL, 
	filename TEXT, 
	source_path TEXT, 
	url TEXT, 
	sha256 VARCHAR(64) NOT NULL, 
	size_bytes BIGINT NOT NULL, 
	status VARCHAR(12) NOT NULL, 
	method VARCHAR(20) NOT NULL, 
	warnings JSON NOT NULL, 
	tags JSON NOT NULL, 
	metadata JSON NOT NULL, 
	language VARCHAR(12), 
	page_count INTEGER, 
	chunk_count INTEGER NOT NULL, 
	created_at BIGINT NOT NULL, 
	updated_at BIGINT NOT NULL, added_by BIGINT, vector_count INTEGER DEFAULT 0 NOT NULL, 
	CONSTRAINT uq_documents_uid UNIQUE (uid), 
	CONSTRAINT fk_documents_collection_id FOREIGN KEY(collection_id) REFERENCES collections (id), 
	CONSTRAINT uq_documents_content_id UNIQUE (content_id), 
	CONSTRAINT fk_documents_content_id FOREIGN KEY(content_id) REFERENCES contents (id)
);
INSERT INTO "documents" VALUES(1,'1b5c7a5c2f0a4a3c9c4a2d6c8f1e7b11',1,0,1,'Old tea','note','note',NULL,NULL,NULL,'bd45c52b91657f4389fe79f0360e4b80a0ff6ecd956df3281b6fac54bd6e7ed3',18,'completed','text_extraction','[]','[]','{}',NULL,NULL,1,1700000000000000,1700000000000000,NULL,1);
CREATE TABLE ended_mcp_sessions (
	digest BLOB NOT NULL, 
	ended_at BIGINT NOT NULL, 
	CONSTRAINT pk_ended_mcp_sessions PRIMARY KEY (digest)
);
CREATE TABLE events (
	id INTEGER NOT NULL PRIMARY KEY AUTOINCREMENT, 
	subject VARCHAR(12) NOT NULL, 
	change VARCHAR(10) NOT NULL, 
	subject_id BIGINT NOT NULL, 
	subject_uid CHAR(32) NOT NULL, 
	owner_id BIGINT NOT NULL, 
	collection_id BIGINT NOT NULL, 
	change_seq BIGINT, 
	at BIGINT NOT NULL
);
CREATE TABLE grants (
	collection_id BIGINT NOT NULL, 
	account_id BIGINT NOT NULL, 
	permission VARCHAR(10) NOT NULL, 
	CONSTRAINT pk_grants PRIMARY KEY (collection_id, account_id)
);
CREATE TABLE "jobs" (
	id INTEGER NOT NULL PRIMARY KEY AUTOINCREMENT, 
	uid CHAR(32) NOT NULL, 
	kind VARCHAR(20) NOT NULL, 
	owner_id BIGINT NOT NULL, 
	collection_id BIGINT, 
	filename TEXT NOT NULL, 
	payload JSON NOT NULL, 
	sha256 VARCHAR(64), 
	priority INTEGER NOT NULL, 
	status VARCHAR(12) NOT NULL, 
	outcome VARCHAR(12), 
	change_seq BIGINT, 
	step TEXT NOT NULL, 
	deaths INTEGER NOT NULL, 
	token VARCHAR(32), 
	lease_until BIGINT, 
	error JSON, 
	warnings JSON NOT NULL, 
	document_id BIGINT, 
	document_uid CHAR(32), 
	chunk_count INTEGER NOT NULL, 
	created_at BIGINT NOT NULL, 
	started_at BIGINT, 
	completed_at BIGINT, unclean_starts INTEGER DEFAULT 0 NOT NULL, server_id VARCHAR(32), done INTEGER DEFAULT 0 NOT NULL, total INTEGER DEFAULT 0 NOT NULL, unit VARCHAR(20), progress FLOAT DEFAULT 0 NOT NULL, cancel_requested BOOLEAN DEFAULT 0 NOT NULL, 
	CONSTRAINT uq_jobs_owner_id_uid UNIQUE (owner_id, uid)
);
CREATE TABLE leases (
	name VARCHAR(64) NOT NULL, 
	holder VARCHAR(32) NOT NULL, 
	token BIGINT NOT NULL, 
	expires_at BIGINT NOT NULL, 
	CONSTRAINT pk_leases PRIMARY KEY (name)
);
CREATE TABLE measurements (
	owner_id BIGINT NOT NULL, 
	hour BIGINT NOT NULL, 
	documents BIGINT, 
	queued BIGINT, 
	searches BIGINT NOT NULL, 
	total_ms FLOAT NOT NULL, 
	slowest_ms FLOAT NOT NULL, 
	CONSTRAINT pk_measurements PRIMARY KEY (owner_id, hour)
);
CREATE TABLE models (
	id INTEGER NOT NULL, 
	fingerprint VARCHAR(200) NOT NULL, 
	name VARCHAR(200) NOT NULL, 
	dimension INTEGER NOT NULL, 
	active BOOLEAN DEFAULT 0 NOT NULL, 
	CONSTRAINT pk_models PRIMARY KEY (id), 
	CONSTRAINT uq_models_fingerprint UNIQUE (fingerprint)
);
INSERT INTO "models" VALUES(1,'bag-of-words/1','bag-of-words',64,1);
CREATE TABLE oauth_clients (
	client_id TEXT NOT NULL, 
	name TEXT NOT NULL, 
	redirect_uris JSON NOT NULL, 
	is_document BOOLEAN NOT NULL, 
	created_at BIGINT NOT NULL, 
	expires_at BIGINT NOT NULL, 
	CONSTRAINT pk_oauth_clients PRIMARY KEY (client_id)
);
CREATE TABLE oauth_grants (
	id INTEGER NOT NULL PRIMARY KEY AUTOINCREMENT, 
	account_id BIGINT NOT NULL, 
	client_id TEXT NOT NULL, 
	client_name TEXT NOT NULL, 
	resource TEXT NOT NULL, 
	scopes TEXT NOT NULL, 
	created_at BIGINT NOT NULL, 
	last_used_at BIGINT, 
	expires_at BIGINT NOT NULL, 
	CONSTRAINT fk_oauth_grants_account_id FOREIGN KEY(account_id) REFERENCES accounts (id) ON DELETE CASCADE
);
CREATE TABLE oauth_subjects (
	issuer TEXT NOT NULL, 
	subject TEXT NOT NULL, 
	account_id BIGINT NOT NULL, 
	CONSTRAINT pk_oauth_subjects PRIMARY KEY (issuer, subject), 
	CONSTRAINT fk_oauth_subjects_account_id FOREIGN KEY(account_id) REFERENCES accounts (id) ON DELETE CASCADE
);
CREATE TABLE oauth_tokens (
	digest BLOB NOT NULL, 
	kind VARCHAR(10) NOT NULL, 
	account_id BIGINT NOT NULL, 
	grant_id BIGINT, 
	scopes TEXT NOT NULL, 
	details JSON NOT NULL, 
	expires_at BIGINT NOT NULL, 
	used_at BIGINT, 
	CONSTRAINT pk_oauth_tokens PRIMARY KEY (digest), 
	CONSTRAINT fk_oauth_tokens_account_id FOREIGN KEY(account_id) REFERENCES accounts (id) ON DELETE CASCADE, 
	CONSTRAINT fk_oauth_tokens_grant_id FOREIGN KEY(grant_id) REFERENCES oauth_grants (id) ON DELETE CASCADE
);
CREATE TABLE page_words (
	content_id BIGINT NOT NULL, 
	page INTEGER NOT NULL, 
	data BLOB NOT NULL, 
	CONSTRAINT pk_page_words PRIMARY KEY (content_id, page), 
	CONSTRAINT fk_page_words_content_id FOREIGN KEY(content_id) REFERENCES contents (id)
);
CREATE TABLE queries (
	id INTEGER NOT NULL, 
	owner_id BIGINT NOT NULL, 
	identity BLOB NOT NULL, 
	text TEXT NOT NULL, 
	count BIGINT NOT NULL, 
	best FLOAT, 
	first_at BIGINT NOT NULL, 
	last_at BIGINT NOT NULL, 
	CONSTRAINT pk_queries PRIMARY KEY (id), 
	CONSTRAINT uq_queries_owner_id_identity UNIQUE (owner_id, identity)
);
CREATE TABLE rate_limit_entries (
	"key" BLOB NOT NULL, 
	slice BIGINT NOT NULL, 
	at BIGINT NOT NULL, 
	calls INTEGER NOT NULL, 
	ends BIGINT NOT NULL, 
	CONSTRAINT pk_rate_limit_entries PRIMARY KEY ("key", slice)
);
CREATE TABLE ratings (
	id INTEGER NOT NULL, 
	owner_id BIGINT NOT NULL, 
	identity BLOB NOT NULL, 
	text TEXT NOT NULL, 
	document_id BIGINT NOT NULL, 
	chunk_uid CHAR(32) NOT NULL, 
	good BOOLEAN NOT NULL, 
	rated_at BIGINT NOT NULL, 
	CONSTRAINT pk_ratings PRIMARY KEY (id), 
	CONSTRAINT uq_ratings_owner_id_identity_chunk_uid UNIQUE (owner_id, identity, chunk_uid)
);
CREATE TABLE refused_attempts (
	id INTEGER NOT NULL, 
	identity BLOB NOT NULL, 
	reason VARCHAR(20) NOT NULL, 
	client VARCHAR(120) NOT NULL, 
	address VARCHAR(60) NOT NULL, 
	path VARCHAR(120) NOT NULL, 
	detail VARCHAR(120) NOT NULL, 
	attempts BIGINT NOT NULL, 
	last_at BIGINT NOT NULL, 
	CONSTRAINT pk_refused_attempts PRIMARY KEY (id), 
	CONSTRAINT uq_refused_attempts_identity UNIQUE (identity)
);
CREATE TABLE schema_compatibility (
	version VARCHAR(32) NOT NULL, 
	compatible_from VARCHAR(32) NOT NULL, 
	CONSTRAINT pk_schema_compatibility PRIMARY KEY (version)
);
INSERT INTO "schema_compatibility" VALUES('0015','0013');
CREATE TABLE servers (
	id VARCHAR(32) NOT NULL, 
	address TEXT NOT NULL, 
	version VARCHAR(40) NOT NULL, 
	role VARCHAR(12) NOT NULL, 
	has_index BOOLEAN NOT NULL, 
	is_ready BOOLEAN NOT NULL, 
	applied_seq BIGINT NOT NULL, 
	checkpoint_seq BIGINT NOT NULL, 
	model_id INTEGER, 
	built_model_id INTEGER, 
	started_at BIGINT NOT NULL, 
	seen_at BIGINT NOT NULL, 
	CONSTRAINT pk_servers PRIMARY KEY (id)
);
CREATE TABLE settings (
	name VARCHAR(64) NOT NULL, 
	value TEXT NOT NULL, 
	CONSTRAINT pk_settings PRIMARY KEY (name)
);
INSERT INTO "settings" VALUES('made_by','0004');
INSERT INTO "settings" VALUES('embedding','default');
CREATE TABLE site_pages (
	collection_id BIGINT NOT NULL, 
	name TEXT NOT NULL, 
	url TEXT NOT NULL, 
	etag TEXT, 
	last_modified TEXT, 
	links JSON NOT NULL, 
	gone INTEGER NOT NULL, 
	seen_at BIGINT NOT NULL, 
	CONSTRAINT pk_site_pages PRIMARY KEY (collection_id, name)
);
CREATE TABLE suggestions (
	id INTEGER NOT NULL, 
	document_id BIGINT NOT NULL, 
	owner_id BIGINT NOT NULL, 
	collection_id BIGINT NOT NULL, 
	kind VARCHAR(12) NOT NULL, 
	sort_key VARCHAR(80) NOT NULL, 
	text TEXT NOT NULL, 
	position INTEGER, 
	CONSTRAINT pk_suggestions PRIMARY KEY (id)
);
INSERT INTO "suggestions" VALUES(1,1,0,1,'document','old tea','Old tea',NULL);
CREATE TABLE vectors (
	chunk_id BIGINT NOT NULL, 
	model_id INTEGER NOT NULL, 
	data BLOB NOT NULL, 
	CONSTRAINT pk_vectors PRIMARY KEY (chunk_id, model_id), 
	CONSTRAINT fk_vectors_chunk_id FOREIGN KEY(chunk_id) REFERENCES chunks (id) ON DELETE CASCADE, 
	CONSTRAINT fk_vectors_model_id FOREIGN KEY(model_id) REFERENCES models (id)
);
INSERT INTO "vectors" VALUES(1,1,X'2F1B2F1B2F1B2F1B2F1B2F1B2F1B2F1B2F1B2F1B2F1B2F1B2F1B2F1BAB352F1B2F1B2F1B2F1B2F1B2F1B2F1B2F1B2F1B2F1B2F1B2F1B2F1B2F1B2F1B2F1B2F1B2F1B2F1B2F1B2F1B2F1BAB35AB352F1B2F1B2F1B2F1B2F1B2F1B2F1B2F1B2F1B2F1B2F1BA4392F1BAB352F1B2F1B2F1B2F1B2F1B2F1B2F1B2F1B2F1B2F1B2F1B');
CREATE INDEX ix_contents_job_id ON contents (job_id);
CREATE INDEX ix_documents_collection_id_sha256 ON documents (collection_id, sha256);
CREATE INDEX ix_documents_sha256 ON documents (sha256);
CREATE INDEX ix_documents_collection_id_source_path ON documents (collection_id, source_path);
CREATE INDEX ix_documents_owner_id ON documents (owner_id, created_at, id);
CREATE INDEX ix_chunks_digest ON chunks (digest);
CREATE INDEX ix_document_tags_tag ON document_tags (tag, document_id);
CREATE INDEX ix_crawl_pages_frontier ON crawl_pages (job_id, state, depth, id);
CREATE INDEX ix_contents_document_id ON contents (document_id);
CREATE INDEX ix_contents_retired_seq ON contents (retired_seq);
CREATE INDEX ix_curations_is_public ON curations (is_public, is_approved);
CREATE INDEX ix_api_keys_account_id ON api_keys (account_id);
CREATE INDEX ix_grants_account_id ON grants (account_id);
CREATE INDEX ix_jobs_queue ON jobs (status, priority, id);
CREATE INDEX ix_jobs_sha256 ON jobs (sha256);
CREATE INDEX ix_jobs_owner_id ON jobs (owner_id, id);
CREATE INDEX ix_jobs_document_id ON jobs (document_id);
CREATE INDEX ix_crawl_pages_document_id ON crawl_pages (document_id);
CREATE INDEX ix_ended_mcp_sessions_ended_at ON ended_mcp_sessions (ended_at);
CREATE INDEX ix_browser_sessions_account_id ON browser_sessions (account_id);
CREATE INDEX ix_browser_sessions_expires_at ON browser_sessions (expires_at);
CREATE INDEX ix_jobs_completed_at ON jobs (owner_id, completed_at);
CREATE INDEX ix_suggestions_document_id ON suggestions (document_id);
CREATE INDEX ix_suggestions_owner_id ON suggestions (owner_id, kind, sort_key);
CREATE INDEX ix_suggestions_collection_id ON suggestions (collection_id, kind, sort_key);
CREATE INDEX ix_rate_limit_entries_ends ON rate_limit_entries (ends);
CREATE INDEX ix_agents_last_seen ON agents (last_seen);
CREATE INDEX ix_refused_attempts_last_at ON refused_attempts (last_at);
CREATE INDEX ix_queries_last_at ON queries (last_at);
CREATE INDEX ix_ratings_document_id ON ratings (document_id);
CREATE INDEX ix_oauth_clients_expires_at ON oauth_clients (expires_at);
CREATE INDEX ix_oauth_grants_account_id ON oauth_grants (account_id);
CREATE INDEX ix_oauth_grants_client_id ON oauth_grants (client_id);
CREATE INDEX ix_oauth_grants_expires_at ON oauth_grants (expires_at);
CREATE INDEX ix_oauth_tokens_account_id ON oauth_tokens (account_id);
CREATE INDEX ix_oauth_tokens_grant_id ON oauth_tokens (grant_id);
CREATE INDEX ix_oauth_tokens_expires_at ON oauth_tokens (expires_at);
CREATE INDEX ix_oauth_subjects_account_id ON oauth_subjects (account_id);
DELETE FROM "sqlite_sequence";
INSERT INTO "sqlite_sequence" VALUES('collections',1);
INSERT INTO "sqlite_sequence" VALUES('contents',1);
INSERT INTO "sqlite_sequence" VALUES('documents',1);
INSERT INTO "sqlite_sequence" VALUES('chunks',1);
INSERT INTO "sqlite_sequence" VALUES('changes',1);
INSERT INTO "sqlite_sequence" VALUES('jobs',0);
COMMIT;
