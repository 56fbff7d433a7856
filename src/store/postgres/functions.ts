/**
 * The PL/pgSQL functions of a store. A commit is one call to a function: one statement and one round trip.
 *
 * The statement is a transaction. No lock is held between round trips, and any connection can be used, even one through a
 * connection pooler. The server caches the plans of the statements inside a function, so nothing has to be prepared.
 *
 * A failed check raises an error, which rolls back the commit. The detail of the error lists the keys whose checks failed. If
 * several commits are sent in one statement, the failure of one does not roll back the others.
 */
import { MUL } from "./operators.js";

/** The SQLSTATE of a failed check. */
export const CONFLICT_STATE = "SP001";
/** The SQLSTATE of a replacement whose old rows have changed. */
export const ROWS_CHANGED_STATE = "SP002";

/** The result of a commit that was not tried, because an earlier one has to be sent again. */
export const RESEND = "again";

/**
 * How a record is checked. A record that is also written is locked for update from the start: two commits with shared locks
 * would deadlock when both upgrade them.
 */
export const CHECK = { value: 0, absent: 1, exists: 2, valueOfWritten: 3 } as const;
/** How a record is put: always; only if it does not exist; or with an error if it exists. */
export const PUT = { always: 0, ifAbsent: 1, mustBeNew: 2 } as const;

/** The parameters of a commit, in order. Empty lists are null. */
export const COMMIT_PARAMETERS = [
  // The current time in milliseconds; null to use the database's clock.
  "clock bigint",
  "durable boolean",
  "not_before bigint",
  // Records that are replaced, and the values that they must have before.
  "replace_keys pg_catalog.text[]",
  "replace_before pg_catalog.text[]",
  "replace_sums_before bigint[]",
  "replace_sums bigint[]",
  "replace_refs_sums bigint[]",
  "replace_refs pg_catalog.text[]",
  "replace_values pg_catalog.text[]",
  "check_keys pg_catalog.text[]",
  "check_values pg_catalog.text[]",
  "check_sums bigint[]",
  "check_kinds bigint[]",
  "delete_keys pg_catalog.text[]",
  "delete_from pg_catalog.text[]",
  "delete_to pg_catalog.text[]",
  "put_keys pg_catalog.text[]",
  "put_sums bigint[]",
  "put_refs_sums bigint[]",
  "put_refs pg_catalog.text[]",
  "put_values pg_catalog.text[]",
  "put_kinds bigint[]",
  "chunk_tapes pg_catalog.text[]",
  "chunk_firsts bigint[]",
  "chunk_counts bigint[]",
  "chunk_codecs bigint[]",
  "chunk_sums bigint[]",
  "chunk_heads pg_catalog.bytea[]",
  "chunk_bodies pg_catalog.bytea[]",
  "blob_hashes pg_catalog.text[]",
  "blob_codecs bigint[]",
  "blob_bodies pg_catalog.bytea[]",
  "wake_channel pg_catalog.text",
  "wake_names pg_catalog.text[]",
  // Keys that fail if the assumed value of a counter was wrong. If one of them fails, the commit is planned and sent again.
  "guessed pg_catalog.text[]",
] as const;

const NAMES = COMMIT_PARAMETERS.map((parameter) => parameter.split(" ")[0]);

/** The current time by the database's clock, in milliseconds since 1970. */
export const CLOCK = `(extract(epoch FROM pg_catalog.clock_timestamp()) ${MUL} 1000)::bigint`;

/** Names in the bodies of functions are resolved with this search path, not with that of the connection. */
const SEARCH_PATH = "SET search_path = pg_catalog, pg_temp";

/**
 * The statements that create the functions.
 *
 * @param s the quoted schema
 */
export function commitFunctions(s: string): string[] {
  const record = `${s}.savepoint_record`;
  const chunk = `${s}.savepoint_chunk`;
  const blob = `${s}.savepoint_blob`;
  return [
    `CREATE FUNCTION ${s}.savepoint_commit(${COMMIT_PARAMETERS.join(", ")}) RETURNS pg_catalog.void
LANGUAGE plpgsql SET enable_seqscan = off ${SEARCH_PATH} AS $body$
DECLARE
  failed text[] := '{}';
  absent text[] := '{}';
  added_keys text[];
  found_value text;
  found_sum bigint;
  moment bigint := coalesce(clock, ${CLOCK});
  waited text;
BEGIN
  IF durable AND current_setting('synchronous_commit') = 'off' THEN
    PERFORM set_config('synchronous_commit', 'on', true);
  ELSIF NOT durable THEN
    PERFORM set_config('synchronous_commit', 'off', true);
  END IF;

  -- The update waits for a concurrent change of the record, and then checks its new version.
  FOR i IN 1 .. coalesce(cardinality(replace_keys), 0) LOOP
    UPDATE ${record} SET sum = replace_sums[i], refs_sum = replace_refs_sums[i], refs = replace_refs[i],
        value = replace_values[i], reserved = NULL
      WHERE key = replace_keys[i] AND sum = replace_sums_before[i] AND value = replace_before[i];
    IF NOT FOUND THEN failed := failed || replace_keys[i]; END IF;
  END LOOP;
  FOR i IN 1 .. coalesce(cardinality(check_keys), 0) LOOP
    CASE check_kinds[i]
    WHEN ${CHECK.value} THEN
      SELECT value, sum INTO found_value, found_sum FROM ${record} WHERE key = check_keys[i] FOR SHARE;
      IF NOT FOUND OR found_sum <> check_sums[i] OR found_value IS DISTINCT FROM check_values[i] THEN failed := failed || check_keys[i]; END IF;
    WHEN ${CHECK.valueOfWritten} THEN
      SELECT value, sum INTO found_value, found_sum FROM ${record} WHERE key = check_keys[i] FOR UPDATE;
      IF NOT FOUND OR found_sum <> check_sums[i] OR found_value IS DISTINCT FROM check_values[i] THEN failed := failed || check_keys[i]; END IF;
    WHEN ${CHECK.exists} THEN
      PERFORM 1 FROM ${record} WHERE key = check_keys[i] FOR KEY SHARE;
      IF NOT FOUND THEN failed := failed || check_keys[i]; END IF;
    ELSE
      absent := absent || check_keys[i];
    END CASE;
  END LOOP;
  -- A missing row cannot be locked. Inserting and deleting it makes other transactions that insert it wait.
  IF cardinality(absent) > 0 THEN
    WITH added AS (
      INSERT INTO ${record} (key, sum, refs_sum, refs, value) SELECT k.key, 0, 0, '', '' FROM unnest(absent) AS k (key)
        ON CONFLICT DO NOTHING RETURNING key
    ) SELECT coalesce(array_agg(key), '{}') INTO added_keys FROM added;
    DELETE FROM ${record} WHERE key = ANY (added_keys);
    IF cardinality(added_keys) < cardinality(absent) THEN
      failed := failed || ARRAY(SELECT unnest(absent) EXCEPT SELECT unnest(added_keys));
    END IF;
  END IF;
  IF not_before > moment THEN failed := failed || 'notBefore'::text; END IF;
  FOR i IN 1 .. coalesce(cardinality(blob_hashes), 0) LOOP
    IF blob_bodies[i] IS NULL THEN
      UPDATE ${blob} SET used_at = greatest(used_at, moment) WHERE hash = blob_hashes[i];
      IF NOT FOUND THEN failed := failed || blob_hashes[i]; END IF;
    END IF;
  END LOOP;
  IF cardinality(failed) > 0 THEN
    -- Records that must not exist are otherwise checked when they are put, which is not reached.
    SELECT failed || coalesce(array_agg(r.key), '{}') INTO failed FROM unnest(put_keys, put_kinds) AS p (key, kind)
      JOIN ${record} r ON r.key = p.key WHERE p.kind = ${PUT.mustBeNew};
    RAISE EXCEPTION 'a check failed' USING ERRCODE = '${CONFLICT_STATE}', DETAIL = array_to_json(failed)::text;
  END IF;

  IF delete_keys IS NOT NULL THEN
    DELETE FROM ${record} WHERE key = ANY (delete_keys);
  END IF;
  FOR i IN 1 .. coalesce(cardinality(delete_from), 0) LOOP
    DELETE FROM ${record} WHERE key >= delete_from[i] AND key < delete_to[i];
  END LOOP;

  IF ${PUT.always} = ANY (put_kinds) THEN
    INSERT INTO ${record} AS r (key, sum, refs_sum, refs, value)
      SELECT p.key, p.sum, p.refs_sum, p.refs, p.value
      FROM unnest(put_keys, put_sums, put_refs_sums, put_refs, put_values, put_kinds)
        AS p (key, sum, refs_sum, refs, value, kind) WHERE p.kind = ${PUT.always}
      ON CONFLICT (key) DO UPDATE
        SET sum = excluded.sum, refs_sum = excluded.refs_sum, refs = excluded.refs, value = excluded.value, reserved = NULL;
  END IF;
  IF ${PUT.ifAbsent} = ANY (put_kinds) THEN
    INSERT INTO ${record} (key, sum, refs_sum, refs, value)
      SELECT p.key, p.sum, p.refs_sum, p.refs, p.value
      FROM unnest(put_keys, put_sums, put_refs_sums, put_refs, put_values, put_kinds)
        AS p (key, sum, refs_sum, refs, value, kind) WHERE p.kind = ${PUT.ifAbsent}
      ON CONFLICT DO NOTHING;
  END IF;
  IF ${PUT.mustBeNew} = ANY (put_kinds) THEN
    WITH added AS (
      INSERT INTO ${record} (key, sum, refs_sum, refs, value)
        SELECT p.key, p.sum, p.refs_sum, p.refs, p.value
        FROM unnest(put_keys, put_sums, put_refs_sums, put_refs, put_values, put_kinds)
          AS p (key, sum, refs_sum, refs, value, kind) WHERE p.kind = ${PUT.mustBeNew}
        ON CONFLICT DO NOTHING RETURNING key
    ) SELECT coalesce(array_agg(p.key), '{}') INTO failed FROM unnest(put_keys, put_kinds) AS p (key, kind)
      WHERE p.kind = ${PUT.mustBeNew} AND p.key NOT IN (SELECT key FROM added);
  END IF;

  -- Chunks of a tape do not overlap, so only the last one that starts before the end of the new items can collide with them.
  FOR i IN 1 .. coalesce(cardinality(chunk_tapes), 0) LOOP
    INSERT INTO ${chunk} (tape, first, count, codec, sum, head, body)
      SELECT chunk_tapes[i], chunk_firsts[i], chunk_counts[i], chunk_codecs[i], chunk_sums[i], chunk_heads[i], chunk_bodies[i]
      WHERE coalesce((SELECT first + count FROM ${chunk} WHERE tape = chunk_tapes[i]
        AND first < chunk_firsts[i] + chunk_counts[i] ORDER BY first DESC LIMIT 1), 0) <= chunk_firsts[i]
      ON CONFLICT DO NOTHING;
    IF NOT FOUND THEN failed := failed || chunk_tapes[i]; END IF;
  END LOOP;
  IF cardinality(failed) > 0 THEN
    RAISE EXCEPTION 'a check failed' USING ERRCODE = '${CONFLICT_STATE}', DETAIL = array_to_json(failed)::text;
  END IF;

  -- An acknowledged blob must be readable, so a damaged body is replaced.
  IF blob_hashes IS NOT NULL THEN
    INSERT INTO ${blob} AS b (hash, used_at, codec, body)
      SELECT n.hash, moment, n.codec, n.body FROM unnest(blob_hashes, blob_codecs, blob_bodies)
        AS n (hash, codec, body) WHERE n.body IS NOT NULL
      ON CONFLICT (hash) DO UPDATE SET used_at = greatest(b.used_at, excluded.used_at), codec = excluded.codec,
        body = CASE WHEN b.body = excluded.body THEN b.body ELSE excluded.body END;
  END IF;

  FOREACH waited IN ARRAY coalesce(wake_names, '{}') LOOP
    PERFORM pg_notify(wake_channel, waited);
  END LOOP;
END $body$`,
    // Applies one of several commits in a statement. If it fails, only its own changes are rolled back, and the keys that failed
    // are returned. If it fails because of an assumption, this commit and all later ones have to be sent again, in order.
    `CREATE FUNCTION ${s}.savepoint_try_commit(${COMMIT_PARAMETERS.join(", ")}) RETURNS pg_catalog.text
LANGUAGE plpgsql ${SEARCH_PATH} AS $body$
DECLARE
  failed text;
BEGIN
  IF current_setting('savepoint.again', true) = 'yes' THEN RETURN '${RESEND}'; END IF;
  PERFORM ${s}.savepoint_commit(${NAMES.join(", ")});
  RETURN NULL;
EXCEPTION WHEN SQLSTATE '${CONFLICT_STATE}' THEN
  GET STACKED DIAGNOSTICS failed = PG_EXCEPTION_DETAIL;
  IF ARRAY(SELECT json_array_elements_text(failed::json)) && guessed THEN
    PERFORM set_config('savepoint.again', 'yes', true);
  END IF;
  RETURN failed;
END $body$`,
    // Replaces chunks with new ones. Fails if one of the old chunks has changed.
    `CREATE FUNCTION ${s}.savepoint_replace_chunks(durable boolean, of_tape pg_catalog.text, old_firsts bigint[], old_sums bigint[],
  new_firsts bigint[], new_counts bigint[], new_codecs bigint[], new_sums bigint[], new_heads pg_catalog.bytea[], new_bodies pg_catalog.bytea[])
RETURNS pg_catalog.void LANGUAGE plpgsql ${SEARCH_PATH} AS $body$
DECLARE
  removed bigint;
BEGIN
  IF NOT durable THEN
    PERFORM set_config('synchronous_commit', 'off', true);
  END IF;
  DELETE FROM ${chunk} r USING unnest(old_firsts, old_sums) AS o (first, sum)
    WHERE r.tape = of_tape AND r.first = o.first AND r.sum = o.sum;
  GET DIAGNOSTICS removed = ROW_COUNT;
  IF removed < coalesce(cardinality(old_firsts), 0) THEN
    RAISE EXCEPTION 'chunks have changed' USING ERRCODE = '${ROWS_CHANGED_STATE}';
  END IF;
  INSERT INTO ${chunk} (tape, first, count, codec, sum, head, body)
    SELECT of_tape, n.first, n.count, n.codec, n.sum, n.head, n.body
    FROM unnest(new_firsts, new_counts, new_codecs, new_sums, new_heads, new_bodies)
      AS n (first, count, codec, sum, head, body);
END $body$`,
  ];
}
