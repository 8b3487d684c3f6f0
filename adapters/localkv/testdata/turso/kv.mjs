// Reads and writes a localkv.v2 store with the Turso engine, for interop_test.go.
//
//   node kv.mjs read DATABASE          prints all rows as JSON, ordered by key
//   node kv.mjs put  DATABASE ROWS     upserts rows, given as JSON or as @FILE
//   node kv.mjs make DATABASE ROWS     makes the store first, as its original implementation does
//
// A row is {key, value, expiresAt, version}: value in hexadecimal, expiresAt in decimal or null.
import { readFileSync } from 'node:fs';
import { connect } from '@tursodatabase/database';

const [verb, path, argument] = process.argv.slice(2);

async function all(db, sql) {
  const statement = await db.prepare(sql);
  statement.safeIntegers(true);
  return statement.all();
}

async function put(db, rows) {
  const statement = await db.prepare(`
    INSERT INTO kv (key, value, expires_at, version) VALUES (?1, ?2, ?3, ?4)
    ON CONFLICT(key) DO UPDATE
    SET value = ?2, expires_at = ?3, version = ?4`);
  for (const row of rows) {
    const expiresAt = row.expiresAt === null ? null : BigInt(row.expiresAt);
    const result = await statement.run(row.key, Buffer.from(row.value, 'hex'), expiresAt, row.version);
    if (result.changes !== 1) {
      throw new Error(`the put of ${row.key} changed ${result.changes} rows`);
    }
  }
}

async function make(db) {
  for (const statement of [
    'CREATE TABLE IF NOT EXISTS meta (key TEXT PRIMARY KEY, value TEXT NOT NULL)',
    "INSERT OR IGNORE INTO meta (key, value) VALUES ('format', 'localkv.v2')",
    'CREATE TABLE IF NOT EXISTS kv (key TEXT PRIMARY KEY, value BLOB NOT NULL, expires_at INTEGER, version TEXT NOT NULL)',
  ]) {
    await db.exec(statement);
  }
}

async function check(db) {
  const [marker] = await all(db, "SELECT value FROM meta WHERE key = 'format'");
  if (marker?.value !== 'localkv.v2') {
    throw new Error(`the format marker is ${marker?.value}`);
  }
  const [{ integrity_check: verdict }] = await all(db, 'PRAGMA integrity_check');
  if (verdict !== 'ok') {
    throw new Error(`the integrity check says ${verdict}`);
  }
}

const db = await connect(path);
if (verb === 'make') {
  await make(db);
}
await check(db);
if (verb === 'read') {
  const rows = await all(db, `
    SELECT key, value, expires_at, version,
    typeof(value) || ',' || typeof(expires_at) || ',' || typeof(version) AS types
    FROM kv ORDER BY key`);
  process.stdout.write(JSON.stringify(rows.map((row) => ({
    key: row.key,
    value: Buffer.from(row.value).toString('hex'),
    expiresAt: row.expires_at === null ? null : row.expires_at.toString(),
    version: row.version,
    types: row.types,
  }))));
} else {
  await put(db, JSON.parse(argument.startsWith('@') ? readFileSync(argument.slice(1), 'utf8') : argument));
  await check(db);
}
await db.close();
