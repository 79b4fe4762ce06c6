-- A table whose ids come from katsubushi. Debian's postgresql-15-pgmemcache has the extension; other systems build it from
-- github.com/ohmu/pgmemcache. In postgresql.conf:
--
--   shared_preload_libraries = 'pgmemcache'
--   pgmemcache.default_servers = '127.0.0.1:11212'
--   pgmemcache.default_behavior = 'TCP_NODELAY:1,CONNECT_TIMEOUT:1000,POLL_TIMEOUT:2000'    -- ms
--
-- Each session opens a connection when it needs the first id, and keeps it. Without a daemon, a function of PostgreSQL's own makes
-- ids of the same kind, with a sequence in each schema: docs/MIGRATING.md, "Staying in PostgreSQL".

CREATE EXTENSION IF NOT EXISTS pgmemcache;

-- Volatile, as functions are by default: each row calls it. An insert fails if there is no id.
CREATE OR REPLACE FUNCTION next_id() RETURNS bigint LANGUAGE plpgsql AS $$
BEGIN
  FOR try IN 1..2 LOOP -- after a restart of the daemon, the session's first call finds its connection closed
    BEGIN
      RETURN memcache_get('id');
    EXCEPTION WHEN OTHERS THEN
      IF try = 2 THEN
        RAISE EXCEPTION 'no id: %', SQLERRM USING ERRCODE = 'connection_exception';
      END IF;
    END;
  END LOOP;
END
$$;

CREATE TABLE IF NOT EXISTS orders (
  id   bigint PRIMARY KEY DEFAULT next_id(),
  item text NOT NULL
);

INSERT INTO orders (item) VALUES ('a'), ('b'), ('c'), ('d'), ('e') RETURNING id;
