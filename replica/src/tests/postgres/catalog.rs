//! What clients ask of the catalog, as psql 15, pgjdbc, Grafana and pgcli ask it.

use super::super::kit::Bucket;
use super::*;

/// psql's `\d`.
const LIST: &str = r"SELECT n.nspname as Schema, c.relname as Name,
  CASE c.relkind WHEN 'r' THEN 'table' WHEN 'v' THEN 'view' END as Type,
  pg_catalog.pg_get_userbyid(c.relowner) as Owner
FROM pg_catalog.pg_class c
     LEFT JOIN pg_catalog.pg_namespace n ON n.oid = c.relnamespace
     LEFT JOIN pg_catalog.pg_am am ON am.oid = c.relam
WHERE c.relkind IN ('r','p','v','m','S','f','')
      AND n.nspname <> 'pg_catalog'
      AND n.nspname !~ '^pg_toast'
      AND n.nspname <> 'information_schema'
  AND pg_catalog.pg_table_is_visible(c.oid)
ORDER BY 1,2;";

/// psql's `\d events`, from the name on.
const DESCRIBED: [&str; 8] = [
    r"SELECT c.oid, n.nspname, c.relname FROM pg_catalog.pg_class c
      LEFT JOIN pg_catalog.pg_namespace n ON n.oid = c.relnamespace
      WHERE c.relname OPERATOR(pg_catalog.~) '^(events)$' COLLATE pg_catalog.default
      AND pg_catalog.pg_table_is_visible(c.oid) ORDER BY 2, 3;",
    r"SELECT c.relchecks, c.relkind, c.relhasindex, c.relhasrules, c.relhastriggers, c.relrowsecurity,
      c.relforcerowsecurity, false AS relhasoids, c.relispartition, '', c.reltablespace,
      CASE WHEN c.reloftype = 0 THEN '' ELSE c.reloftype::pg_catalog.regtype::pg_catalog.text END,
      c.relpersistence, c.relreplident, am.amname
      FROM pg_catalog.pg_class c LEFT JOIN pg_catalog.pg_class tc ON (c.reltoastrelid = tc.oid)
      LEFT JOIN pg_catalog.pg_am am ON (c.relam = am.oid) WHERE c.oid = '16384';",
    r"SELECT a.attname, pg_catalog.format_type(a.atttypid, a.atttypmod),
      (SELECT pg_catalog.pg_get_expr(d.adbin, d.adrelid, true) FROM pg_catalog.pg_attrdef d
       WHERE d.adrelid = a.attrelid AND d.adnum = a.attnum AND a.atthasdef), a.attnotnull,
      (SELECT c.collname FROM pg_catalog.pg_collation c, pg_catalog.pg_type t
       WHERE c.oid = a.attcollation AND t.oid = a.atttypid AND a.attcollation <> t.typcollation) AS attcollation,
      a.attidentity, a.attgenerated FROM pg_catalog.pg_attribute a
      WHERE a.attrelid = '16384' AND a.attnum > 0 AND NOT a.attisdropped ORDER BY a.attnum;",
    r"SELECT pol.polname, pol.polpermissive, CASE WHEN pol.polroles = '{0}' THEN NULL ELSE
      pg_catalog.array_to_string(array(select rolname from pg_catalog.pg_roles where oid = any (pol.polroles) order by 1),',') END,
      pg_catalog.pg_get_expr(pol.polqual, pol.polrelid) FROM pg_catalog.pg_policy pol WHERE pol.polrelid = '16384' ORDER BY 1;",
    r"SELECT oid, stxrelid::pg_catalog.regclass, stxnamespace::pg_catalog.regnamespace::pg_catalog.text AS nsp, stxname,
      pg_catalog.pg_get_statisticsobjdef_columns(oid) AS columns, 'd' = any(stxkind) AS ndist_enabled
      FROM pg_catalog.pg_statistic_ext WHERE stxrelid = '16384' ORDER BY nsp, stxname;",
    r"SELECT pubname, NULL, NULL FROM pg_catalog.pg_publication p
      JOIN pg_catalog.pg_publication_namespace pn ON p.oid = pn.pnpubid
      JOIN pg_catalog.pg_class pc ON pc.relnamespace = pn.pnnspid
      WHERE pc.oid ='16384' and pg_catalog.pg_relation_is_publishable('16384')
      UNION SELECT pubname, pg_get_expr(pr.prqual, c.oid), (CASE WHEN pr.prattrs IS NOT NULL THEN
      (SELECT string_agg(attname, ', ') FROM pg_catalog.generate_series(0, pg_catalog.array_upper(pr.prattrs::pg_catalog.int2[], 1)) s,
       pg_catalog.pg_attribute WHERE attrelid = pr.prrelid AND attnum = prattrs[s]) ELSE NULL END)
      FROM pg_catalog.pg_publication p JOIN pg_catalog.pg_publication_rel pr ON p.oid = pr.prpubid
      JOIN pg_catalog.pg_class c ON c.oid = pr.prrelid WHERE pr.prrelid = '16384'
      UNION SELECT pubname, NULL, NULL FROM pg_catalog.pg_publication p
      WHERE p.puballtables AND pg_catalog.pg_relation_is_publishable('16384') ORDER BY 1;",
    r"SELECT c.oid::pg_catalog.regclass FROM pg_catalog.pg_class c, pg_catalog.pg_inherits i
      WHERE c.oid = i.inhparent AND i.inhrelid = '16384' AND c.relkind != 'p' AND c.relkind != 'I' ORDER BY inhseqno;",
    r"SELECT c.oid::pg_catalog.regclass, c.relkind, inhdetachpending, pg_catalog.pg_get_expr(c.relpartbound, c.oid)
      FROM pg_catalog.pg_class c, pg_catalog.pg_inherits i WHERE c.oid = i.inhrelid AND i.inhparent = '16384'
      ORDER BY pg_catalog.pg_get_expr(c.relpartbound, c.oid) = 'DEFAULT', c.oid::pg_catalog.regclass::pg_catalog.text;",
];

/// Others, each of which has at least one row.
const ASKED: [&str; 17] = [
    // psql's \l and \dn.
    r#"SELECT d.datname as "Name", pg_catalog.pg_get_userbyid(d.datdba) as "Owner",
       pg_catalog.pg_encoding_to_char(d.encoding) as "Encoding", d.datcollate as "Collate", d.daticulocale as "ICU Locale",
       CASE d.datlocprovider WHEN 'c' THEN 'libc' WHEN 'i' THEN 'icu' END AS "Locale Provider",
       pg_catalog.array_to_string(d.datacl, E'\n') AS "Access privileges" FROM pg_catalog.pg_database d ORDER BY 1;"#,
    r#"SELECT n.nspname AS "Name", pg_catalog.pg_get_userbyid(n.nspowner) AS "Owner" FROM pg_catalog.pg_namespace n
       WHERE n.nspname !~ '^pg_' AND n.nspname <> 'information_schema' ORDER BY 1;"#,
    // pgjdbc's getTables and getColumns.
    r"SELECT current_database() AS TABLE_CAT, n.nspname AS TABLE_SCHEM, c.relname AS TABLE_NAME, d.description AS REMARKS
      FROM pg_catalog.pg_namespace n, pg_catalog.pg_class c
      LEFT JOIN pg_catalog.pg_description d ON (c.oid = d.objoid AND d.objsubid = 0 and d.classoid = 'pg_class'::regclass)
      WHERE c.relnamespace = n.oid AND n.nspname LIKE 'public' AND c.relkind = 'r' ORDER BY TABLE_SCHEM, TABLE_NAME",
    r"SELECT n.nspname, c.relname, a.attname, a.atttypid, a.attnotnull OR (t.typtype = 'd' AND t.typnotnull) AS attnotnull,
      a.atttypmod, a.attlen, t.typtypmod, row_number() OVER (PARTITION BY a.attrelid ORDER BY a.attnum) AS attnum,
      nullif(a.attidentity, '') as attidentity, pg_catalog.pg_get_expr(def.adbin, def.adrelid) AS adsrc, dsc.description, t.typbasetype
      FROM pg_catalog.pg_namespace n JOIN pg_catalog.pg_class c ON (c.relnamespace = n.oid)
      JOIN pg_catalog.pg_attribute a ON (a.attrelid = c.oid) JOIN pg_catalog.pg_type t ON (a.atttypid = t.oid)
      LEFT JOIN pg_catalog.pg_attrdef def ON (a.attrelid = def.adrelid AND a.attnum = def.adnum)
      LEFT JOIN pg_catalog.pg_description dsc ON (c.oid = dsc.objoid AND a.attnum = dsc.objsubid)
      LEFT JOIN pg_catalog.pg_class dc ON (dc.oid = dsc.classoid AND dc.relname = 'pg_class')
      LEFT JOIN pg_catalog.pg_namespace dn ON (dc.relnamespace = dn.oid AND dn.nspname = 'pg_catalog')
      WHERE c.relkind in ('r','p','v','f','m') and a.attnum > 0 AND NOT a.attisdropped AND c.relname LIKE 'events'",
    // Grafana.
    "SELECT quote_ident(column_name) AS \"column\", data_type AS \"type\" FROM information_schema.columns WHERE quote_ident(table_name) = 'events'",
    "SELECT current_setting('server_version_num')::int/100 as version",
    // pgcli, Metabase, DBeaver.
    "SELECT n.nspname schema_name, c.relname table_name FROM pg_catalog.pg_class c LEFT JOIN pg_catalog.pg_namespace n ON n.oid = c.relnamespace WHERE c.relkind = ANY(ARRAY['r', 'p', 'f']) ORDER BY 1,2;",
    "SELECT * FROM unnest(current_schemas(true))",
    "select nspname from pg_catalog.pg_namespace where nspname = any(current_schemas(true))",
    "SELECT d.datname FROM pg_catalog.pg_database d ORDER BY 1",
    "SELECT db.oid, db.* FROM pg_catalog.pg_database db WHERE datname = 'sealcast'",
    "SELECT current_schema(), session_user, current_user, version(), pg_is_in_recovery()",
    "select 'events'::regclass::oid, 16384::regclass::text, to_regclass('nothing') is null",
    "SELECT t.oid, t.typname, t.typrelid, format_type(nullif(t.typbasetype, 0), t.typtypmod) FROM pg_catalog.pg_type t WHERE typnamespace = 11::oid",
    "SELECT c.relname, a.attname, col_description(a.attrelid, a.attnum) FROM pg_attribute a JOIN pg_class c ON c.oid = a.attrelid WHERE a.attrelid = 'events'::regclass AND a.attnum > 0",
    "SELECT has_table_privilege('events', 'SELECT'), has_schema_privilege(current_user, 'public', 'USAGE')",
    "select count(*), count(*), 1, 1 from pg_catalog.pg_index",
];

#[tokio::test(flavor = "multi_thread")]
async fn clients_find_tables_and_columns() {
    let bucket = Bucket::filled(1, 5).await;
    let replica = bucket.replica().await;
    let mut client = Client::open(&replica).await;
    let tables = client.rows(LIST).await;
    let names: Vec<_> = tables.iter().map(|row| row[1].as_deref().unwrap()).collect();
    assert_eq!(names, ["ecs", "events", "ocsf_api_activity"]);
    let mut described = Vec::new();
    for sql in DESCRIBED {
        described.push(client.rows(sql).await);
    }
    assert_eq!(described[0][0][0].as_deref(), Some("16384"));
    assert_eq!((described[1].len(), described[2].len()), (1, 25));
    let column = |place: usize| {
        described[2][place].iter().map(|value| value.as_deref().unwrap_or("-")).collect::<Vec<_>>()
    };
    assert_eq!(column(0)[..4], ["event_id", "uuid", "-", "t"]);
    assert_eq!(column(2)[..4], ["time", "timestamp with time zone", "-", "t"]);
    assert_eq!(column(5)[1], "text");
    assert!(described[3..].iter().all(Vec::is_empty));
    let mut failed = Vec::new();
    for sql in ASKED {
        let told = client.simple(sql).await;
        if rows(&told).is_empty() {
            failed.push(format!("{sql}\n{}", shown(&told)));
        }
    }
    assert!(failed.is_empty(), "{}", failed.join("\n"));
    assert_eq!(one(&client.rows("show server_version_num").await), "150000");
    // Elsewhere there is none of it.
    let (_, refusal) =
        replica.refusal(&serde_json::json!({ "sql": "select * from pg_catalog.pg_class" })).await;
    assert_eq!(refusal["code"], "unknown_table");
    replica.stop().await;
}
