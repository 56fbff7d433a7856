/**
 * Makes the database check every commit: one that lowers the epoch of a session, or the number of its newest checkpoint,
 * is recorded in the same transaction. Periodic checks would miss a violation that the next commit hides.
 */
import pg from "pg";

/** @param {string} url */
export async function watchCommits(url) {
  const client = new pg.Client({ connectionString: url });
  await client.connect();
  await client.query(`
    CREATE TABLE chaos_violation (what text NOT NULL);
    CREATE FUNCTION chaos_watch() RETURNS trigger LANGUAGE plpgsql AS $$
    DECLARE
      is_journal boolean := NEW.key LIKE 'r%';
      was json := CASE WHEN is_journal THEN OLD.value ELSE split_part(OLD.value, E'\\n', 1) END;
      now json := CASE WHEN is_journal THEN NEW.value ELSE split_part(NEW.value, E'\\n', 1) END;
      epoch_was integer := CASE WHEN is_journal THEN was->>1 ELSE was->>'e' END;
      epoch_now integer := CASE WHEN is_journal THEN now->>1 ELSE now->>'e' END;
      -- The number of the newest checkpoint.
      head_was integer := CASE WHEN is_journal THEN was->>6 ELSE was->'h'->>0 END;
      head_now integer := CASE WHEN is_journal THEN now->>6 ELSE now->'h'->>0 END;
    BEGIN
      IF epoch_now < epoch_was THEN
        INSERT INTO chaos_violation VALUES (format('a commit of epoch %s came after one of epoch %s: %s',
          epoch_now, epoch_was, translate(NEW.key, E'\\t', ' ')));
      END IF;
      IF head_now < head_was THEN
        INSERT INTO chaos_violation VALUES (format('a commit with checkpoint #%s came after one with #%s: %s',
          head_now, head_was, translate(NEW.key, E'\\t', ' ')));
      END IF;
      RETURN NULL;
    END $$;
    CREATE TRIGGER chaos_watch AFTER UPDATE ON savepoint.savepoint_record FOR EACH ROW
      WHEN (NEW.key LIKE E's\\tsession-%\\tmain' OR NEW.key LIKE E'r\\tsession-%\\tmain\\tj')
      EXECUTE FUNCTION chaos_watch();`);
  await client.end();
}
