// Reads and writes a localqueue.v1 store with the Turso engine, for interop_test.go.
//
//   node queue.mjs read DATABASE        prints all rows as JSON, ordered by id
//   node queue.mjs work DATABASE NOW    sends a message and receives two, as the original
//                                       implementation does, at the millisecond NOW; prints the two
import { randomUUID } from 'node:crypto';
import { connect } from '@tursodatabase/database';

const [verb, path, argument] = process.argv.slice(2);

async function all(db, sql, ...parameters) {
  const statement = await db.prepare(sql);
  statement.safeIntegers(true);
  return statement.all(...parameters);
}

async function run(db, sql, ...parameters) {
  const statement = await db.prepare(sql);
  return statement.run(...parameters);
}

async function check(db) {
  const [marker] = await all(db, "SELECT value FROM meta WHERE key = 'format'");
  if (marker?.value !== 'localqueue.v1') {
    throw new Error(`the format marker is ${marker?.value}`);
  }
  const [{ integrity_check: verdict }] = await all(db, 'PRAGMA integrity_check');
  if (verdict !== 'ok') {
    throw new Error(`the integrity check says ${verdict}`);
  }
}

const rowsOf = (db, where, ...parameters) => all(db, `
  SELECT CAST(id AS TEXT) AS id, payload_type AS kind, payload_data AS data,
  CAST(enqueued_at AS TEXT) AS enqueued, CAST(visible_at AS TEXT) AS visible, CAST(attempt AS TEXT) AS attempt,
  receipt_handle AS receipt,
  typeof(payload_type) || ',' || typeof(payload_data) || ',' || typeof(enqueued_at) || ',' ||
  typeof(visible_at) || ',' || typeof(attempt) || ',' || typeof(receipt_handle) AS types
  FROM messages ${where} ORDER BY messages.id`, ...parameters);

async function work(db, now) {
  await run(db, `INSERT INTO messages (payload_type, payload_data, enqueued_at, visible_at, attempt)
    VALUES (?1, ?2, ?3, ?3, 0)`, 'text', 'from the other engine', now);
  const due = await all(db, `SELECT id FROM messages WHERE visible_at <= ?1
    ORDER BY enqueued_at, id LIMIT ?2`, now, 2n);
  const claimed = [];
  await db.exec('BEGIN IMMEDIATE');
  for (const { id } of due) {
    await run(db, `UPDATE messages SET visible_at = ?1, attempt = attempt + 1, receipt_handle = ?2
      WHERE id = ?3`, now + 30_000n, randomUUID(), id);
    claimed.push(...await rowsOf(db, 'WHERE id = ?1', id));
  }
  await db.exec('COMMIT');
  return claimed;
}

const db = await connect(path);
await check(db);
const result = verb === 'read' ? await rowsOf(db, '') : await work(db, BigInt(argument));
await check(db);
await db.close();
process.stdout.write(JSON.stringify(result));
