// Node's pg against PostgreSQL's port of a running replica: SEALCAST_PG_HOST, _PORT, _TOKEN, _COUNT of its events, and
// _CA, the file of its root certificate, if it speaks TLS.
import assert from 'node:assert/strict'
import { readFileSync } from 'node:fs'
import { createRequire } from 'node:module'

const load = createRequire(`${process.env.SEALCAST_NODE_MODULES}/`)
const { Client, Pool, Query } = load('pg')
const Cursor = load('pg-cursor')
const { SEALCAST_PG_HOST: host, SEALCAST_PG_PORT: port, SEALCAST_PG_CA: ca } = process.env
const count = Number(process.env.SEALCAST_PG_COUNT)
const options = {
  host,
  port: Number(port),
  user: 'me',
  password: process.env.SEALCAST_PG_TOKEN || 'word',
  database: 'sealcast',
  ssl: ca ? { ca: readFileSync(ca, 'utf8'), servername: 'localhost' } : false,
}
const ENDLESS = 'select count(*) from generate_series(1, 1000000000000)'

const client = new Client(options)
await client.connect()
const rows = async (...asked) => (await client.query(...asked)).rows

// Simple, and several in one text. Big integers are text for pg, as from any server.
assert.deepEqual(await rows('select count(*) as n from events'), [{ n: String(count) }])
const both = await client.query('select 1 as a; select 2 as b')
assert.deepEqual(both.map((result) => result.rows), [[{ a: '1' }], [{ b: '2' }]])

// Parameters, also of a statement that has a name.
assert.deepEqual(await rows('select count(*) as n from events where tenant = $1', ['nobody']), [{ n: '0' }])
const named = { name: 'by_seq', text: 'select tenant, time, _shard, _seq from events where _seq = $1 and _shard = $2' }
for (const { _shard, _seq } of await rows('select _shard, _seq from events limit 2')) {
  const [row] = await rows({ ...named, values: [_seq, _shard] })
  assert.ok(row.time instanceof Date && row._seq === _seq && row._shard === _shard, row)
}
const [none] = await rows('select $1::text as t', [null])
assert.equal(none.t, null)

// A cursor, read by pages, and one that is closed before its end.
const cursor = client.query(new Cursor('select _seq from events'))
const sizes = []
for (let page = await cursor.read(250); page.length > 0; page = await cursor.read(250)) sizes.push(page.length)
assert.equal(sizes.reduce((sum, size) => sum + size, 0), count)
assert.ok(sizes.every((size, i) => size === 250 || i === sizes.length - 1), sizes)
await cursor.close()
const left = client.query(new Cursor('select value from generate_series(1, 1000000000000)'))
assert.equal((await left.read(3)).length, 3)
await left.close()

// What is refused leaves the connection as it was.
await assert.rejects(rows('select zzz from events'), { code: '42703', message: /zzz does not exist/ })
await assert.rejects(rows('delete from events'), { code: '25006' })
assert.deepEqual(await rows("select 'on' as a"), [{ a: 'on' }])

// Stopped by a bound of its own, and by the request of another connection.
await rows('set statement_timeout = 200')
await assert.rejects(rows(ENDLESS), { code: '57014' })
await rows('set statement_timeout = 0')
const query = new Query(ENDLESS)
let code
query.on('error', (error) => (code = error.code))
client.query(query)
while (code === undefined) {
  const other = new Client(options)
  const closed = new Promise((resolve) => other.connection.once('end', resolve))
  other.cancel(client, query) // too early it finds nothing to cancel
  await closed
}
assert.equal(code, '57014')
assert.deepEqual(await rows("select 'on' as a"), [{ a: 'on' }])
await client.end()

const pool = new Pool({ ...options, max: 3 })
const answers = await Promise.all([1, 2, 3, 4, 5, 6].map((n) => pool.query('select $1::bigint as n', [n])))
assert.deepEqual(answers.map((answer) => answer.rows[0].n), ['1', '2', '3', '4', '5', '6'])
await pool.end()

if (options.password.startsWith('sc_')) {
  const wrong = new Client({ ...options, password: 'wrong' })
  await assert.rejects(wrong.connect(), { code: '28P01' })
}
if (ca) await assert.rejects(new Client({ ...options, ssl: false }).connect(), { code: '28000' })
