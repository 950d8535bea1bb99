// InfluxDB 3's client of Node against a running replica: URL, COUNT of its events, TENANT and its count, TOKEN. It trusts
// the certificates in GRPC_DEFAULT_SSL_ROOTS_FILE_PATH.
import assert from 'node:assert/strict'
import { createRequire } from 'node:module'

const load = createRequire(`${process.env.SEALCAST_NODE_MODULES}/`)
const { InfluxDBClient } = load('@influxdata/influxdb3-client')
const [host, count, tenant, own, token] = process.argv.slice(2)

const client = new InfluxDBClient({ host, token, database: 'sealcast' })
const rows = async (sql, options = {}, database = 'sealcast', asked = client) => {
  const rows = []
  for await (const row of asked.query(sql, database, { type: 'sql', ...options })) rows.push(row)
  return rows
}

assert.deepEqual(await rows('select count(*) as n from events'), [{ n: BigInt(count) }])
const bound = 'select count(*) as n from events where tenant = $tenant'
assert.deepEqual(await rows(bound, { params: { tenant } }), [{ n: BigInt(own) }])

const events = await rows('select * from events')
assert.equal(events.length, Number(count))
const [first] = events
assert.equal(typeof first.time, 'number') // milliseconds since 1970, with a fraction
assert.ok(first.event_id instanceof Uint8Array && first.event_id.length === 16)
assert.equal(JSON.parse(first.attributes).n, Number(first.message))

let points = 0
for await (const point of client.queryPoints('select time, tenant from events', 'sealcast', { type: 'sql' })) {
  assert.ok(point.getField('tenant'))
  points += 1
}
assert.equal(points, Number(count))

await assert.rejects(rows('select zzz from events'), /column zzz does not exist/)
await assert.rejects(rows('delete from events'), /DELETE FROM is not allowed/)
await assert.rejects(rows('select 1', {}, 'other'), /database "other" does not exist/)
await assert.rejects(rows('select 1', { type: 'influxql' }), /query_type is not sql/)
await assert.rejects(rows('select count(*) from generate_series(1, 1000000000000)', { timeout: 200 }), /Deadline|DEADLINE/)
if (token.startsWith('sc_')) {
  const wrong = new InfluxDBClient({ host, token: 'wrong', database: 'sealcast' })
  await assert.rejects(rows('select 1', {}, 'sealcast', wrong), /token is not known here/)
  await wrong.close()
}
await client.close()
