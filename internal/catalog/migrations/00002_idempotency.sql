-- Answers that are given again for the same Idempotency-Key. kind is empty for a
-- success, else the kind of the error whose code and message follow.
-- compatible from 1
CREATE TABLE idempotency_keys (
    principal {name:255} NOT NULL,
    idempotency_key {name:36} NOT NULL,
    request_hash {name:64} NOT NULL,
    result {text} NOT NULL,
    error_kind SMALLINT NOT NULL,
    error_code {name:64} NOT NULL,
    error_message {text} NOT NULL,
    created_at BIGINT NOT NULL,
    PRIMARY KEY (principal, idempotency_key)
){table};
CREATE INDEX idempotency_keys_created ON idempotency_keys (created_at);
