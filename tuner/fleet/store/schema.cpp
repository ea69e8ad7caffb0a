#include "tuner/fleet/store/schema.h"

namespace autotune::fleet {
namespace {

// Functions are the only interface: roles have no rights on tables. Functions that change an item first lock its row, so that two
// of them cannot wait for each other. Times come from the server's clock alone.
constexpr const char* kTables = R"sql(
CREATE SCHEMA autotune;
CREATE TABLE autotune.schema_step(
    version int PRIMARY KEY, oldest int NOT NULL, name text NOT NULL, tool text NOT NULL,
    applied_at timestamptz NOT NULL DEFAULT now(), applied_by name NOT NULL DEFAULT session_user);

CREATE TABLE autotune.setting(name text PRIMARY KEY, value double precision NOT NULL, about text NOT NULL);
INSERT INTO autotune.setting VALUES
    ('lease_s', 45, 'an item comes back when its worker has been silent for this long'),
    ('poll_s', 10, 'a worker without work asks again after about this time'),
    ('retry_s', 30, 'wait after the first loss of an item; each further loss doubles it'),
    ('poison_attempts', 3, 'losses after which an item is set aside, if they happened on two GPUs'),
    ('poison_attempts_of_one', 6, 'the same if they all happened on one GPU'),
    ('sick_losses', 3, 'losses in a row after which a worker gets no work for ten minutes'),
    ('most_items', 100000, 'open items; further problems are refused');

CREATE FUNCTION autotune.is_problem(class text, shape text, device text, catalogue text) RETURNS bool LANGUAGE sql IMMUTABLE AS $$
    SELECT coalesce(octet_length(class) <= 512 AND class ~ '^[a-z][a-z0-9_]{0,63}( [ !#-\[\]-~]*)?$'
                    AND octet_length(shape) <= 160 AND shape ~ '^([0-9]{1,13}\*)?([0-9]{1,13}(x[0-9]{1,13}){0,7})?$'
                    AND device ~ '^cc[0-9]{1,3}\.[0-9]{1,3}(-(sm|l2_|mem|bus)[0-9]{1,7}){4}$'
                    AND catalogue ~ '^[0-9a-f]{64}$', false) $$;

CREATE TABLE autotune.item(
    id bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
    class text NOT NULL, shape text NOT NULL, device text NOT NULL, catalogue text NOT NULL,
    CHECK (autotune.is_problem(class, shape, device, catalogue)),
    state text NOT NULL DEFAULT 'ready' CHECK (state IN ('ready', 'leased', 'waiting', 'poison', 'impossible')),
    priority int NOT NULL, calls bigint NOT NULL CHECK (calls > 0),
    fence bigint NOT NULL DEFAULT 0, attempts int NOT NULL DEFAULT 0, lost_on text[] NOT NULL DEFAULT '{}',
    not_before timestamptz, why text NOT NULL DEFAULT '', wanted_at timestamptz NOT NULL DEFAULT now(),
    UNIQUE (class, shape, device, catalogue)
) WITH (fillfactor = 70, autovacuum_vacuum_scale_factor = 0.01, autovacuum_vacuum_threshold = 500, autovacuum_vacuum_cost_delay = 0);
CREATE INDEX item_ready ON autotune.item(device, catalogue, priority DESC, id) WHERE state = 'ready';
CREATE INDEX item_waiting ON autotune.item(not_before) WHERE state = 'waiting';

CREATE TABLE autotune.worker(
    id uuid PRIMARY KEY, role name NOT NULL, host text NOT NULL, tool text NOT NULL, losses int NOT NULL DEFAULT 0,
    sick_until timestamptz, started_at timestamptz NOT NULL DEFAULT now(), seen_at timestamptz NOT NULL DEFAULT now()
) WITH (fillfactor = 50);
-- Narrow and without a second index: a heartbeat rewrites the row in place.
CREATE TABLE autotune.lease(
    item bigint PRIMARY KEY, fence bigint NOT NULL, worker uuid NOT NULL, gpu text NOT NULL, until timestamptz NOT NULL
) WITH (fillfactor = 50, autovacuum_vacuum_scale_factor = 0.01, autovacuum_vacuum_threshold = 500, autovacuum_vacuum_cost_delay = 0);

-- What happened to items, which leave the queue when they are done. Kept for 90 days.
CREATE TABLE autotune.outcome(
    id bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY, item bigint NOT NULL, fence bigint NOT NULL, worker uuid NOT NULL,
    gpu text NOT NULL, class text NOT NULL, shape text NOT NULL, device text NOT NULL, catalogue text NOT NULL,
    what text NOT NULL CHECK (what IN ('done', 'late', 'expired', 'released', 'failed', 'crashed', 'impossible')),
    why text NOT NULL DEFAULT '', at timestamptz NOT NULL DEFAULT now());
CREATE INDEX outcome_item ON autotune.outcome(item, fence);

CREATE TABLE autotune.result(
    id bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY, class text NOT NULL, shape text NOT NULL, device text NOT NULL,
    catalogue text NOT NULL, template text NOT NULL CHECK (template ~ '^[0-9a-f]{16}$'),
    median_us double precision NOT NULL CHECK (median_us > 0 AND median_us < 1e12), driver text NOT NULL, nvrtc text NOT NULL,
    method text NOT NULL, measured text NOT NULL, worker uuid NOT NULL, role name NOT NULL DEFAULT session_user, late bool NOT NULL,
    digest bytea NOT NULL UNIQUE, line text NOT NULL CHECK (octet_length(line) <= 1048576), at timestamptz NOT NULL DEFAULT now());
CREATE INDEX result_key ON autotune.result(class, shape, device, catalogue);
CREATE TABLE autotune.withdrawal(
    result bigint PRIMARY KEY, why text NOT NULL, by name NOT NULL DEFAULT session_user, at timestamptz NOT NULL DEFAULT now());
-- The result that answers for a problem, a device and a template.
CREATE TABLE autotune.winner(
    class text, shape text, device text, template text, result bigint NOT NULL, PRIMARY KEY (class, shape, device, template));
CREATE UNIQUE INDEX winner_result ON autotune.winner(result);

CREATE TABLE autotune.label(
    name text PRIMARY KEY CHECK (name ~ '^[a-z0-9][a-z0-9._-]{0,63}$'), digest bytea, rows bigint NOT NULL DEFAULT 0,
    note text NOT NULL DEFAULT '', by name NOT NULL DEFAULT session_user, at timestamptz NOT NULL DEFAULT now());
CREATE TABLE autotune.label_line(
    label text NOT NULL, n bigint NOT NULL, result bigint NOT NULL, line text NOT NULL CHECK (octet_length(line) <= 1048576),
    PRIMARY KEY (label, n));
CREATE TABLE autotune.channel(
    name text PRIMARY KEY CHECK (name ~ '^[a-z][a-z0-9._-]{0,63}$'), label text NOT NULL, at timestamptz NOT NULL DEFAULT now());
CREATE TABLE autotune.channel_step(
    id bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY, channel text NOT NULL, label text NOT NULL, before text NOT NULL,
    note text NOT NULL, by name NOT NULL DEFAULT session_user, at timestamptz NOT NULL DEFAULT now());

CREATE FUNCTION autotune.refuse_change() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
    RAISE EXCEPTION '% is immutable', TG_TABLE_NAME USING ERRCODE = 'AT403';
END $$;
CREATE TRIGGER immutable BEFORE UPDATE OR DELETE OR TRUNCATE ON autotune.result
    FOR EACH STATEMENT EXECUTE FUNCTION autotune.refuse_change();
CREATE TRIGGER immutable BEFORE UPDATE OR DELETE OR TRUNCATE ON autotune.label_line
    FOR EACH STATEMENT EXECUTE FUNCTION autotune.refuse_change();
CREATE FUNCTION autotune.refuse_sealed() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
    IF OLD.digest IS NOT NULL THEN
        RAISE EXCEPTION 'label % is frozen', OLD.name USING ERRCODE = 'AT409';
    END IF;
    RETURN CASE WHEN TG_OP = 'DELETE' THEN OLD ELSE NEW END;
END $$;
CREATE TRIGGER sealed BEFORE UPDATE OR DELETE ON autotune.label FOR EACH ROW EXECUTE FUNCTION autotune.refuse_sealed();
)sql";

constexpr const char* kQueue = R"sql(
CREATE FUNCTION autotune.version() RETURNS TABLE(version int, oldest int)
LANGUAGE sql STABLE SECURITY DEFINER SET search_path = autotune, pg_temp AS $$
    SELECT s.version, s.oldest FROM schema_step s ORDER BY s.version DESC LIMIT 1 $$;

CREATE FUNCTION autotune.number(p_name text) RETURNS double precision
LANGUAGE sql STABLE SET search_path = autotune, pg_temp AS $$ SELECT value FROM setting WHERE name = p_name $$;

CREATE FUNCTION autotune.seconds(p_name text) RETURNS interval
LANGUAGE sql STABLE SET search_path = autotune, pg_temp AS $$ SELECT make_interval(secs => value) FROM setting WHERE name = p_name $$;

-- Workers

CREATE FUNCTION autotune.enlist(p_worker uuid, p_host text, p_tool text) RETURNS TABLE(lease_s double precision, poll_s double precision)
LANGUAGE plpgsql SECURITY DEFINER SET search_path = autotune, pg_temp AS $$
BEGIN
    INSERT INTO worker AS w(id, role, host, tool) VALUES (p_worker, session_user, left(p_host, 256), left(p_tool, 64))
    ON CONFLICT (id) DO UPDATE SET seen_at = now() WHERE w.role = session_user;
    IF NOT FOUND THEN
        RAISE EXCEPTION 'worker % belongs to another role', p_worker USING ERRCODE = 'AT403';
    END IF;
    RETURN QUERY SELECT number('lease_s'), number('poll_s');
END $$;

CREATE FUNCTION autotune.known_worker(p_worker uuid) RETURNS autotune.worker
LANGUAGE plpgsql STABLE SET search_path = autotune, pg_temp AS $$
DECLARE w worker;
BEGIN
    SELECT * INTO w FROM worker WHERE id = p_worker;
    IF w.id IS NULL THEN
        RAISE EXCEPTION 'worker % is not enlisted', p_worker USING ERRCODE = 'AT404';
    ELSIF w.role <> session_user THEN
        RAISE EXCEPTION 'worker % belongs to another role', p_worker USING ERRCODE = 'AT403';
    END IF;
    RETURN w;
END $$;

CREATE FUNCTION autotune.note(i autotune.item, l autotune.lease, p_what text, p_why text) RETURNS void
LANGUAGE sql SET search_path = autotune, pg_temp AS $$
    INSERT INTO outcome(item, fence, worker, gpu, class, shape, device, catalogue, what, why)
    VALUES (i.id, l.fence, l.worker, l.gpu, i.class, i.shape, i.device, i.catalogue, p_what, left(p_why, 1000)) $$;

-- An item whose GPU got no result: it waits, or is set aside. REQUIRES: its row is locked, its lease is deleted.
CREATE FUNCTION autotune.lose(i autotune.item, l autotune.lease, p_what text, p_why text) RETURNS text
LANGUAGE plpgsql SET search_path = autotune, pg_temp AS $$
DECLARE
    gpus text[] := CASE WHEN l.gpu = ANY(i.lost_on) THEN i.lost_on ELSE i.lost_on || l.gpu END;
    poisoned bool := i.attempts >= number('poison_attempts_of_one')
                     OR (i.attempts >= number('poison_attempts') AND cardinality(gpus) >= 2);
    -- A silent worker says nothing about the item: the first time it goes to the next worker at once.
    doublings int := i.attempts - CASE WHEN p_what = 'expired' THEN 2 ELSE 1 END;
BEGIN
    PERFORM note(i, l, p_what, p_why);
    UPDATE item SET lost_on = gpus, why = left(p_what || CASE WHEN p_why = '' THEN '' ELSE ': ' || p_why END, 1000),
           state = CASE WHEN poisoned THEN 'poison' WHEN doublings < 0 THEN 'ready' ELSE 'waiting' END,
           not_before = CASE WHEN poisoned OR doublings < 0 THEN NULL ELSE now() + seconds('retry_s') * power(2, doublings) END
    WHERE id = i.id;
    UPDATE worker SET losses = losses + 1,
           sick_until = CASE WHEN losses + 1 >= number('sick_losses') THEN now() + interval '10 minutes' ELSE sick_until END
    WHERE id = l.worker;
    RETURN CASE WHEN poisoned THEN 'poison' ELSE 'waiting' END;
END $$;

-- The items that this GPU of the worker holds and does not know of, since a reply may have been lost; else the best one.
CREATE FUNCTION autotune.claim(p_worker uuid, p_gpu text, p_device text, p_catalogues text[], p_has bigint[])
RETURNS TABLE(id bigint, fence bigint, class text, shape text, calls bigint)
LANGUAGE plpgsql SECURITY DEFINER SET search_path = autotune, pg_temp AS $$
#variable_conflict use_column
DECLARE
    w worker := known_worker(p_worker);
    one text;
    chosen item;
BEGIN
    IF cardinality(p_catalogues) > 256 OR octet_length(p_gpu) > 96 THEN
        RAISE EXCEPTION 'a claim names too much' USING ERRCODE = 'AT422';
    END IF;
    RETURN QUERY UPDATE lease l SET until = now() + seconds('lease_s') FROM item i
        WHERE l.worker = p_worker AND l.gpu = p_gpu AND l.item <> ALL(p_has) AND i.id = l.item AND i.fence = l.fence
        RETURNING i.id, i.fence, i.class, i.shape, i.calls;
    IF FOUND OR w.sick_until > now() THEN
        RETURN;
    END IF;
    FOR one IN SELECT c.name FROM unnest(p_catalogues) AS c(name) CROSS JOIN LATERAL
                   (SELECT i.priority, i.id FROM item i WHERE i.state = 'ready' AND i.device = p_device AND i.catalogue = c.name
                    ORDER BY i.priority DESC, i.id LIMIT 1) AS best
               ORDER BY best.priority DESC, best.id LOOP
        SELECT * INTO chosen FROM item i WHERE i.state = 'ready' AND i.device = p_device AND i.catalogue = one
            ORDER BY i.priority DESC, i.id LIMIT 1 FOR UPDATE SKIP LOCKED;
        EXIT WHEN chosen.id IS NOT NULL;
    END LOOP;
    IF chosen.id IS NULL THEN
        RETURN;
    END IF;
    UPDATE item i SET state = 'leased', fence = i.fence + 1, attempts = i.attempts + 1, not_before = NULL WHERE i.id = chosen.id;
    INSERT INTO lease VALUES (chosen.id, chosen.fence + 1, p_worker, p_gpu, now() + seconds('lease_s'));
    RETURN QUERY SELECT chosen.id, chosen.fence + 1, chosen.class, chosen.shape, chosen.calls;
END $$;

-- Keeps the leases; returns the items that are not this worker's any more.
CREATE FUNCTION autotune.beat(p_worker uuid, p_items bigint[], p_fences bigint[]) RETURNS SETOF bigint
LANGUAGE plpgsql SECURITY DEFINER SET search_path = autotune, pg_temp AS $$
BEGIN
    PERFORM known_worker(p_worker);
    UPDATE worker SET seen_at = now() WHERE id = p_worker;
    RETURN QUERY
        WITH held AS (SELECT * FROM unnest(p_items, p_fences) AS h(item, fence)),
             kept AS (UPDATE lease l SET until = now() + seconds('lease_s') FROM held h
                      WHERE l.item = h.item AND l.fence = h.fence AND l.worker = p_worker RETURNING l.item)
        SELECT h.item FROM held h WHERE h.item NOT IN (SELECT k.item FROM kept k);
END $$;

-- Gives leases back whose workers are silent. Anybody calls it, and one at a time does it. After a start of the server all
-- leases look old, and when most end at once the network is the likely cause: workers then get more time.
CREATE FUNCTION autotune.reap() RETURNS int
LANGUAGE plpgsql SECURITY DEFINER SET search_path = autotune, pg_temp AS $$
DECLARE
    term interval := seconds('lease_s');
    silent int;
    leases int;
    i item;
    l lease;
    done int := 0;
BEGIN
    IF NOT pg_try_advisory_xact_lock(hashtextextended('autotune.reap', 0)) THEN
        RETURN 0;
    END IF;
    UPDATE item SET state = 'ready', not_before = NULL WHERE state = 'waiting' AND not_before <= now();
    IF now() < pg_postmaster_start_time() + term THEN
        RETURN 0;
    END IF;
    SELECT count(*) FILTER (WHERE until < now()), count(*) INTO silent, leases FROM lease;
    IF silent >= 8 AND silent * 2 > leases THEN
        term := term * 3;
    ELSE
        term := interval '0';
    END IF;
    IF silent > 0 THEN
        FOR i IN SELECT t.* FROM item t JOIN lease e ON e.item = t.id WHERE e.until < now() - term
                 ORDER BY t.id LIMIT 1000 FOR UPDATE OF t SKIP LOCKED LOOP
            DELETE FROM lease WHERE item = i.id AND until < now() - term RETURNING * INTO l;
            CONTINUE WHEN l.item IS NULL;
            PERFORM lose(i, l, 'expired', 'its worker was silent');
            done := done + 1;
        END LOOP;
    END IF;
    DELETE FROM outcome WHERE id IN (SELECT o.id FROM outcome o WHERE o.at < now() - interval '90 days' ORDER BY o.id LIMIT 1000);
    DELETE FROM worker WHERE seen_at < now() - interval '7 days' AND id NOT IN (SELECT worker FROM lease);
    RETURN done;
END $$;

CREATE FUNCTION autotune.device_of(d json) RETURNS text LANGUAGE sql IMMUTABLE AS $$
    SELECT 'cc' || (d->>'cc_major')::int || '.' || (d->>'cc_minor')::int || '-sm' || (d->>'sm_count')::int || '-l2_' ||
           (d->>'l2_mib')::int || '-mem' || ((d->>'memory_gib')::int + 7) / 8 * 8 || '-bus' || (d->>'bus_bits')::int $$;

CREATE FUNCTION autotune.shape_of(e json) RETURNS text LANGUAGE sql IMMUTABLE AS $$
    SELECT coalesce(max(value::bigint || '*') FILTER (WHERE key = 'batch' AND value <> '1'), '') ||
           coalesce(string_agg((value::bigint)::text, 'x' ORDER BY n) FILTER (WHERE key <> 'batch'), '')
    FROM json_each_text(e) WITH ORDINALITY AS m(key, value, n) $$;

-- Of two results of one key: the faster one, if they were measured alike; else the later one.
CREATE FUNCTION autotune.takes_over(theirs autotune.result, ours autotune.result) RETURNS bool LANGUAGE sql IMMUTABLE AS $$
    SELECT CASE WHEN (theirs.driver, theirs.nvrtc, theirs.method) = (ours.driver, ours.nvrtc, ours.method)
                THEN theirs.median_us < ours.median_us ELSE theirs.measured > ours.measured END $$;

-- Makes the best result of the key answer, or none.
CREATE FUNCTION autotune.elect(p_class text, p_shape text, p_device text, p_template text) RETURNS void
LANGUAGE plpgsql SET search_path = autotune, pg_temp AS $$
DECLARE
    best result;
    one result;
BEGIN
    FOR one IN SELECT * FROM result r WHERE r.class = p_class AND r.shape = p_shape AND r.device = p_device AND r.template = p_template
               AND NOT r.late AND NOT EXISTS (SELECT FROM withdrawal x WHERE x.result = r.id) ORDER BY r.id LOOP
        IF best.id IS NULL OR takes_over(one, best) THEN
            best := one;
        END IF;
    END LOOP;
    IF best.id IS NULL THEN
        DELETE FROM winner w WHERE (w.class, w.shape, w.device, w.template) = (p_class, p_shape, p_device, p_template);
    ELSE
        INSERT INTO winner VALUES (p_class, p_shape, p_device, p_template, best.id)
        ON CONFLICT (class, shape, device, template) DO UPDATE SET result = excluded.result;
    END IF;
END $$;

-- Everything that decides is read from the line here, and must agree with the item. Readers judge the rest of it.
CREATE FUNCTION autotune.complete(p_worker uuid, p_item bigint, p_fence bigint, p_line text) RETURNS text
LANGUAGE plpgsql SECURITY DEFINER SET search_path = autotune, pg_temp AS $$
DECLARE
    w worker := known_worker(p_worker);
    i item;
    l lease;
    o outcome;
    j json;
    late bool := false;
    line_class text;
    line_shape text;
    line_device text;
    stored bigint;
BEGIN
    SELECT * INTO i FROM item WHERE id = p_item FOR UPDATE;
    SELECT * INTO l FROM lease WHERE item = p_item AND fence = p_fence AND worker = p_worker;
    IF l.item IS NULL THEN
        SELECT * INTO o FROM outcome WHERE item = p_item AND fence = p_fence AND worker = p_worker ORDER BY id DESC LIMIT 1;
        IF o.what IN ('done', 'late') THEN
            RETURN 'known';
        ELSIF o.what IS DISTINCT FROM 'expired' THEN
            RAISE EXCEPTION 'item % was never leased to this worker with fence %', p_item, p_fence USING ERRCODE = 'AT403';
        END IF;
        l := ROW(o.item, o.fence, o.worker, o.gpu, now());
        -- Nobody took it since: the item is still this worker's to close.
        late := i.id IS NULL OR i.fence <> p_fence;
        i.id := o.item; i.class := o.class; i.shape := o.shape; i.device := o.device; i.catalogue := o.catalogue;
    END IF;
    IF octet_length(p_line) > 1048576 OR p_line ~ '[\n\r]' THEN
        RAISE EXCEPTION 'the line is no line of at most 1 MiB' USING ERRCODE = 'AT422';
    END IF;
    BEGIN
        j := p_line::json;
        line_class := j->'problem'->>'class';
        line_shape := shape_of(j->'problem'->'extents');
        line_device := device_of(j->'device');
    EXCEPTION WHEN data_exception OR invalid_parameter_value OR program_limit_exceeded THEN
        RAISE EXCEPTION 'the line cannot be read: %', SQLERRM USING ERRCODE = 'AT422';
    END;
    IF (line_class, line_shape, line_device) IS DISTINCT FROM (i.class, i.shape, i.device)
       OR split_part(i.class, ' ', 1) IS DISTINCT FROM j->>'op' THEN
        RAISE EXCEPTION 'the line is of another problem or device than item %', p_item USING ERRCODE = 'AT409';
    END IF;
    IF j->'doubt' IS NOT NULL OR j->'restricted_to' IS NOT NULL OR json_typeof(j->'config') IS DISTINCT FROM 'object' THEN
        RAISE EXCEPTION 'the line is no result of an open search' USING ERRCODE = 'AT422';
    END IF;
    BEGIN
        INSERT INTO result(class, shape, device, catalogue, template, median_us, driver, nvrtc, method, measured, worker, late, digest, line)
        VALUES (i.class, i.shape, i.device, i.catalogue, j->>'template', (j->'timing'->>'median_us')::double precision,
                coalesce(j->'provenance'->>'driver', ''), coalesce(j->'provenance'->>'nvrtc', ''),
                coalesce(j->'provenance'->>'method', ''), coalesce(j->'provenance'->>'date', ''), p_worker, late,
                sha256(convert_to(p_line, 'UTF8')), p_line)
        ON CONFLICT (digest) DO NOTHING RETURNING id INTO stored;
    EXCEPTION WHEN check_violation OR not_null_violation OR data_exception THEN
        RAISE EXCEPTION 'the line has a value that cannot be: %', SQLERRM USING ERRCODE = 'AT422';
    END;
    IF EXISTS (SELECT FROM withdrawal x JOIN result r ON r.id = x.result WHERE r.digest = sha256(convert_to(p_line, 'UTF8'))) THEN
        RAISE EXCEPTION 'this result was withdrawn' USING ERRCODE = 'AT409';
    END IF;
    PERFORM note(i, l, CASE WHEN late THEN 'late' ELSE 'done' END, '');
    UPDATE worker SET losses = 0, sick_until = NULL, seen_at = now() WHERE id = p_worker AND NOT late;
    IF late THEN
        RETURN 'late';
    END IF;
    IF stored IS NOT NULL THEN
        PERFORM elect(i.class, i.shape, i.device, j->>'template');
    END IF;
    DELETE FROM lease WHERE item = p_item;
    DELETE FROM item WHERE id = p_item;
    RETURN 'done';
END $$;

-- p_what: released (given back, no attempt counts), failed or crashed (a loss), impossible (no program here knows the problem).
CREATE FUNCTION autotune.fail(p_worker uuid, p_item bigint, p_fence bigint, p_what text, p_why text) RETURNS text
LANGUAGE plpgsql SECURITY DEFINER SET search_path = autotune, pg_temp AS $$
DECLARE
    i item;
    l lease;
BEGIN
    PERFORM known_worker(p_worker);
    IF p_what NOT IN ('released', 'failed', 'crashed', 'impossible') OR p_what IS NULL THEN
        RAISE EXCEPTION 'an item is released, failed, crashed or impossible' USING ERRCODE = 'AT422';
    END IF;
    SELECT * INTO i FROM item WHERE id = p_item FOR UPDATE;
    DELETE FROM lease WHERE item = p_item AND fence = p_fence AND worker = p_worker RETURNING * INTO l;
    IF l.item IS NULL THEN
        RETURN 'lost';
    END IF;
    IF p_what IN ('failed', 'crashed') THEN
        RETURN lose(i, l, p_what, coalesce(p_why, ''));
    END IF;
    PERFORM note(i, l, p_what, coalesce(p_why, ''));
    IF p_what = 'released' THEN
        UPDATE item SET state = 'ready', attempts = attempts - 1 WHERE id = p_item;
        RETURN 'ready';
    END IF;
    UPDATE item SET state = 'impossible', why = left(coalesce(p_why, ''), 1000) WHERE id = p_item;
    RETURN 'impossible';
END $$;

-- Clients

-- p_problems: an array of {class, shape, device, catalogue, calls}. Asking again wakes nothing that was set aside.
CREATE FUNCTION autotune.want(p_problems json, p_priority int) RETURNS TABLE(added int, raised int, known int, refused int)
LANGUAGE plpgsql SECURITY DEFINER SET search_path = autotune, pg_temp AS $$
#variable_conflict use_column
DECLARE
    one record;
    room bigint;
    was_new bool;
    most int := least(coalesce(p_priority, 100), 400);
BEGIN
    added := 0; raised := 0; known := 0; refused := 0;
    IF json_typeof(p_problems) <> 'array' OR json_array_length(p_problems) > 1000 THEN
        RAISE EXCEPTION 'problems come as a list of at most 1000' USING ERRCODE = 'AT422';
    END IF;
    room := number('most_items') - (SELECT count(*) FROM item);
    -- Sorted, so that two clients never wait for each other's rows.
    FOR one IN SELECT x.class, x.shape, x.device, x.catalogue, least(greatest(sum(x.calls), 1), 1000000000)::bigint AS calls
               FROM json_to_recordset(p_problems) AS x(class text, shape text, device text, catalogue text, calls numeric)
               GROUP BY 1, 2, 3, 4 ORDER BY 1, 2, 3, 4 LOOP
        IF EXISTS (SELECT FROM result r WHERE r.class = one.class AND r.shape = one.shape AND r.device = one.device
                   AND r.catalogue = one.catalogue AND NOT r.late AND NOT EXISTS (SELECT FROM withdrawal x WHERE x.result = r.id)) THEN
            known := known + 1;
            CONTINUE;
        END IF;
        IF NOT is_problem(one.class, one.shape, one.device, one.catalogue) THEN
            refused := refused + 1;
            CONTINUE;
        END IF;
        UPDATE item i SET calls = i.calls + one.calls,
               priority = greatest(i.priority, most + least(90, 3 * floor(log(2, i.calls + one.calls))::int))
        WHERE i.class = one.class AND i.shape = one.shape AND i.device = one.device AND i.catalogue = one.catalogue;
        IF FOUND THEN
            raised := raised + 1;
        ELSIF room <= 0 THEN
            refused := refused + 1;
        ELSE
            INSERT INTO item AS i(class, shape, device, catalogue, calls, priority)
            VALUES (one.class, one.shape, one.device, one.catalogue, one.calls, most + least(90, 3 * floor(log(2, one.calls))::int))
            ON CONFLICT (class, shape, device, catalogue) DO UPDATE SET calls = i.calls + excluded.calls
            RETURNING i.xmax = 0 INTO was_new;
            IF was_new THEN
                added := added + 1;
                room := room - 1;
            ELSE
                raised := raised + 1;
            END IF;
        END IF;
    END LOOP;
    RETURN NEXT;
END $$;

-- The label of this name, or the one that the channel of this name shows.
CREATE FUNCTION autotune.label_named(p_name text) RETURNS TABLE(name text, digest text, rows bigint, note text)
LANGUAGE sql STABLE SECURITY DEFINER SET search_path = autotune, pg_temp AS $$
    SELECT l.name, encode(l.digest, 'hex'), l.rows, l.note FROM label l
    WHERE l.digest IS NOT NULL AND l.name = coalesce((SELECT c.label FROM channel c WHERE c.name = p_name), p_name) $$;

CREATE FUNCTION autotune.label_lines(p_label text, p_after bigint, p_most int) RETURNS TABLE(n bigint, line text)
LANGUAGE sql STABLE SECURITY DEFINER SET search_path = autotune, pg_temp AS $$
    SELECT l.n, l.line FROM label_line l WHERE l.label = p_label AND l.n > p_after ORDER BY l.n LIMIT least(p_most, 10000) $$;
)sql";

constexpr const char* kCuration = R"sql(
CREATE FUNCTION autotune.winners_after(p_after bigint, p_most int) RETURNS TABLE(result bigint, line text)
LANGUAGE sql STABLE SECURITY DEFINER SET search_path = autotune, pg_temp AS $$
    SELECT r.id, r.line FROM winner w JOIN result r ON r.id = w.result WHERE w.result > p_after ORDER BY w.result LIMIT least(p_most, 10000) $$;

-- One transaction of the caller: freeze_begin, freeze_lines for every batch, freeze_end.
CREATE FUNCTION autotune.freeze_begin(p_label text, p_note text) RETURNS void
LANGUAGE plpgsql SECURITY DEFINER SET search_path = autotune, pg_temp AS $$
BEGIN
    IF EXISTS (SELECT FROM channel WHERE name = p_label) THEN
        RAISE EXCEPTION '% is a channel', p_label USING ERRCODE = 'AT409';
    END IF;
    INSERT INTO label(name, note) VALUES (p_label, left(p_note, 1000));
EXCEPTION WHEN unique_violation THEN
    RAISE EXCEPTION 'label % exists, and labels do not change', p_label USING ERRCODE = 'AT409';
END $$;

CREATE FUNCTION autotune.freeze_lines(p_label text, p_results bigint[], p_lines text[]) RETURNS void
LANGUAGE plpgsql SECURITY DEFINER SET search_path = autotune, pg_temp AS $$
DECLARE
    l label;
BEGIN
    SELECT * INTO l FROM label WHERE name = p_label FOR UPDATE;
    IF l.name IS NULL OR l.digest IS NOT NULL THEN
        RAISE EXCEPTION 'label % is not being frozen', p_label USING ERRCODE = 'AT409';
    END IF;
    INSERT INTO label_line(label, n, result, line)
        SELECT p_label, l.rows + x.n, x.result, x.line FROM unnest(p_results, p_lines) WITH ORDINALITY AS x(result, line, n);
    UPDATE label SET rows = l.rows + cardinality(p_lines) WHERE name = p_label;
END $$;

CREATE FUNCTION autotune.freeze_end(p_label text) RETURNS TABLE(digest text, rows bigint)
LANGUAGE plpgsql SECURITY DEFINER SET search_path = autotune, pg_temp AS $$
#variable_conflict use_column
BEGIN
    UPDATE label SET digest = (SELECT sha256(convert_to(coalesce(string_agg(x.line || E'\n', '' ORDER BY x.n), ''), 'UTF8'))
                               FROM label_line x WHERE x.label = p_label) WHERE name = p_label;
    RETURN QUERY SELECT encode(l.digest, 'hex'), l.rows FROM label l WHERE l.name = p_label;
END $$;

CREATE FUNCTION autotune.publish(p_channel text, p_label text, p_note text) RETURNS text
LANGUAGE plpgsql SECURITY DEFINER SET search_path = autotune, pg_temp AS $$
DECLARE
    was text;
BEGIN
    IF NOT EXISTS (SELECT FROM label WHERE name = p_label AND digest IS NOT NULL) THEN
        RAISE EXCEPTION 'there is no label %', p_label USING ERRCODE = 'AT404';
    ELSIF EXISTS (SELECT FROM label WHERE name = p_channel) THEN
        RAISE EXCEPTION '% is a label and no channel', p_channel USING ERRCODE = 'AT409';
    END IF;
    SELECT label INTO was FROM channel WHERE name = p_channel FOR UPDATE;
    INSERT INTO channel(name, label) VALUES (p_channel, p_label) ON CONFLICT (name) DO UPDATE SET label = excluded.label, at = now();
    INSERT INTO channel_step(channel, label, before, note) VALUES (p_channel, p_label, coalesce(was, ''), left(p_note, 1000));
    RETURN coalesce(was, '');
END $$;

-- The result answers no more, and the next best one of its key does. Labels keep what they froze.
CREATE FUNCTION autotune.withdraw(p_result bigint, p_why text) RETURNS text
LANGUAGE plpgsql SECURITY DEFINER SET search_path = autotune, pg_temp AS $$
DECLARE
    r result;
BEGIN
    SELECT * INTO r FROM result WHERE id = p_result;
    IF r.id IS NULL THEN
        RAISE EXCEPTION 'there is no result %', p_result USING ERRCODE = 'AT404';
    END IF;
    INSERT INTO withdrawal(result, why) VALUES (p_result, left(p_why, 1000)) ON CONFLICT DO NOTHING;
    PERFORM elect(r.class, r.shape, r.device, r.template);
    RETURN r.class || ' ' || r.shape || ' on ' || r.device;
END $$;

-- Items that were set aside get their attempts anew.
CREATE FUNCTION autotune.retry() RETURNS bigint
LANGUAGE sql SECURITY DEFINER SET search_path = autotune, pg_temp AS $$
    WITH woken AS (UPDATE item SET state = 'ready', attempts = 0, lost_on = '{}', why = '' WHERE state IN ('poison', 'impossible') RETURNING 1)
    SELECT count(*) FROM woken $$;

CREATE VIEW autotune.queue AS
    SELECT device, catalogue, split_part(class, ' ', 1) AS op, state, count(*) AS items, sum(calls) AS calls, min(wanted_at) AS oldest
    FROM autotune.item GROUP BY 1, 2, 3, 4;
CREATE VIEW autotune.failures AS
    SELECT id, class, shape, device, state, attempts, cardinality(lost_on) AS gpus, why FROM autotune.item WHERE state IN ('poison', 'impossible', 'waiting');
CREATE VIEW autotune.workers AS
    SELECT w.id, w.host, w.role, w.tool, w.seen_at, w.sick_until > now() AS sick, (SELECT count(*) FROM autotune.lease l WHERE l.worker = w.id) AS leases
    FROM autotune.worker w;
CREATE VIEW autotune.winners AS
    SELECT r.id, r.class, r.shape, r.device, r.template, r.median_us, r.driver, r.measured, r.role FROM autotune.winner w JOIN autotune.result r ON r.id = w.result;
CREATE VIEW autotune.labels AS
    SELECT l.name, encode(l.digest, 'hex') AS digest, l.rows, l.by, l.at, l.note,
           (SELECT count(*) FROM autotune.label_line x JOIN autotune.withdrawal w USING (result) WHERE x.label = l.name) AS withdrawn
    FROM autotune.label l WHERE l.digest IS NOT NULL;
CREATE VIEW autotune.channels AS
    SELECT c.name, c.label, s.before, s.by, s.at, s.note FROM autotune.channel c
    JOIN LATERAL (SELECT * FROM autotune.channel_step x WHERE x.channel = c.name ORDER BY x.id DESC LIMIT 1) s ON true;

REVOKE ALL ON ALL FUNCTIONS IN SCHEMA autotune FROM PUBLIC;
)sql";

// How kernels do beside another library's in programs, as patches of PyTorch found it. Problems may be longer than a key of an
// index.
constexpr const char* kVerdicts = R"sql(
INSERT INTO autotune.setting VALUES ('most_verdicts', 50000, 'verdicts of patches; further ones are refused');

CREATE FUNCTION autotune.is_verdict(problem text, device text, rival text, in_stream double precision, in_graphs double precision, measured text)
RETURNS bool LANGUAGE sql IMMUTABLE AS $$
    SELECT coalesce(octet_length(problem) BETWEEN 1 AND 4000 AND octet_length(device) BETWEEN 1 AND 256 AND octet_length(rival) BETWEEN 1 AND 256
                    AND (problem || device || rival) !~ '[\x01-\x1f\x7f]' AND in_stream > 1e-6 AND in_stream < 1e6
                    AND in_graphs > 1e-6 AND in_graphs < 1e6
                    AND measured ~ '^[0-9]{4}-[0-9]{2}-[0-9]{2}T[0-9]{2}:[0-9]{2}:[0-9]{2}Z$', false) $$;

CREATE TABLE autotune.verdict(
    id bigint GENERATED ALWAYS AS IDENTITY UNIQUE, key bytea PRIMARY KEY,
    problem text NOT NULL, device text NOT NULL, rival text NOT NULL, in_stream double precision NOT NULL, in_graphs double precision NOT NULL,
    measured text NOT NULL, CHECK (autotune.is_verdict(problem, device, rival, in_stream, in_graphs, measured)),
    role name NOT NULL DEFAULT session_user, at timestamptz NOT NULL DEFAULT now());

-- p_verdicts: an array of {problem, device, rival, in_stream, in_graphs, measured}. Of one problem, device and rival the newest stays.
CREATE FUNCTION autotune.post_verdicts(p_verdicts json) RETURNS TABLE(added int, known int, refused int)
LANGUAGE plpgsql SECURITY DEFINER SET search_path = autotune, pg_temp AS $$
#variable_conflict use_column
DECLARE
    one record;
    room bigint;
    was_new bool;
    latest text := to_char(now() AT TIME ZONE 'UTC' + interval '1 day', 'YYYY-MM-DD"T"HH24:MI:SS"Z"');
BEGIN
    added := 0; known := 0; refused := 0;
    IF json_typeof(p_verdicts) IS DISTINCT FROM 'array' OR json_array_length(p_verdicts) > 1000 THEN
        RAISE EXCEPTION 'verdicts come as a list of at most 1000' USING ERRCODE = 'AT422';
    END IF;
    room := number('most_verdicts') - (SELECT count(*) FROM verdict);
    -- Sorted, so that two clients never wait for each other's rows.
    FOR one IN SELECT sha256(convert_to(concat_ws(E'\n', x.problem, x.device, x.rival), 'UTF8')) AS key, x.*
               FROM json_to_recordset(p_verdicts) AS x(problem text, device text, rival text, in_stream double precision,
                                                       in_graphs double precision, measured text) ORDER BY 1, x.measured LOOP
        IF NOT is_verdict(one.problem, one.device, one.rival, one.in_stream, one.in_graphs, one.measured) OR one.measured > latest THEN
            refused := refused + 1;
        ELSIF room <= 0 AND NOT EXISTS (SELECT FROM verdict v WHERE v.key = one.key) THEN
            refused := refused + 1;
        ELSE
            INSERT INTO verdict AS v(key, problem, device, rival, in_stream, in_graphs, measured)
            VALUES (one.key, one.problem, one.device, one.rival, one.in_stream, one.in_graphs, one.measured)
            ON CONFLICT (key) DO UPDATE SET in_stream = excluded.in_stream, in_graphs = excluded.in_graphs, measured = excluded.measured,
                                            role = session_user, at = now() WHERE v.measured < excluded.measured
            RETURNING v.xmax = 0 INTO was_new;
            IF NOT FOUND THEN
                known := known + 1;
            ELSE
                added := added + 1;
                room := room - was_new::int;
            END IF;
        END IF;
    END LOOP;
    RETURN NEXT;
EXCEPTION WHEN data_exception THEN
    RAISE EXCEPTION 'the verdicts cannot be read: %', SQLERRM USING ERRCODE = 'AT422';
END $$;

CREATE FUNCTION autotune.verdicts_after(p_after bigint, p_most int)
RETURNS TABLE(id bigint, problem text, device text, rival text, in_stream double precision, in_graphs double precision, measured text)
LANGUAGE sql STABLE SECURITY DEFINER SET search_path = autotune, pg_temp AS $$
    SELECT v.id, v.problem, v.device, v.rival, v.in_stream, v.in_graphs, v.measured FROM verdict v
    WHERE v.id > p_after ORDER BY v.id LIMIT least(p_most, 10000) $$;

CREATE VIEW autotune.verdicts AS
    SELECT problem, device, rival, in_stream, in_graphs, role, measured FROM autotune.verdict;
-- Lines of verdicts have no result.
CREATE OR REPLACE VIEW autotune.labels AS
    SELECT l.name, encode(l.digest, 'hex') AS digest, l.rows, l.by, l.at, l.note,
           (SELECT count(*) FROM autotune.label_line x JOIN autotune.withdrawal w USING (result) WHERE x.label = l.name) AS withdrawn,
           (SELECT count(*) FROM autotune.label_line x WHERE x.label = l.name AND x.result = 0) AS verdicts
    FROM autotune.label l WHERE l.digest IS NOT NULL;

REVOKE ALL ON ALL FUNCTIONS IN SCHEMA autotune FROM PUBLIC;
)sql";

// Roles belong to the whole cluster: they may exist already, and making one may need another right than making tables does.
constexpr const char* kRoles = R"sql(
DO $$
DECLARE
    one text;
BEGIN
    FOREACH one IN ARRAY ARRAY['autotune_worker', 'autotune_client', 'autotune_curator'] LOOP
        IF NOT EXISTS (SELECT FROM pg_roles WHERE rolname = one) THEN
            EXECUTE format('CREATE ROLE %I NOLOGIN', one);
        END IF;
    END LOOP;
    -- A transaction that somebody leaves open keeps dead rows of the queue.
    EXECUTE format('ALTER DATABASE %I SET idle_in_transaction_session_timeout = %L', current_database(), '60s');
END $$;
GRANT USAGE ON SCHEMA autotune TO autotune_worker, autotune_client, autotune_curator;
GRANT EXECUTE ON FUNCTION autotune.version() TO autotune_worker, autotune_client, autotune_curator;
GRANT EXECUTE ON FUNCTION autotune.enlist, autotune.claim, autotune.beat, autotune.complete, autotune.fail, autotune.reap
    TO autotune_worker;
GRANT EXECUTE ON FUNCTION autotune.want, autotune.label_named, autotune.label_lines, autotune.post_verdicts
    TO autotune_client, autotune_curator;
GRANT EXECUTE ON FUNCTION autotune.winners_after, autotune.freeze_begin, autotune.freeze_lines, autotune.freeze_end, autotune.publish,
    autotune.withdraw, autotune.retry, autotune.reap, autotune.verdicts_after TO autotune_curator;
GRANT SELECT ON autotune.queue, autotune.failures, autotune.workers, autotune.winners, autotune.labels, autotune.channels, autotune.verdicts,
    autotune.schema_step, autotune.setting TO autotune_curator;
)sql";

}  // namespace

const char* schema_roles() {
    return kRoles;
}

const std::vector<SchemaStep>& schema_steps() {
    static const auto* const steps = new std::vector<SchemaStep>{
        {1, 1, "queue, results and labels", std::string(kTables) + kQueue + kCuration}, {2, 1, "verdicts of patches", kVerdicts}};
    return *steps;
}

}  // namespace autotune::fleet
