//! The tables of `pg_catalog` and their columns, as PostgreSQL 15 has them: those that clients name.
//!
//! A column is `name:type`; without a type it is an oid. Types: `t` text, `b` boolean, `h` int2, `i`
//! int4, `f` float4, `l` list of texts, `v` list of int2, `z` time.

use std::sync::Arc;

use arrow::datatypes::{DataType, Field, Schema, SchemaRef, TimeUnit};

/// Those that have rows here.
const FILLED: [(&str, &str); 11] = [
    (
        "pg_class",
        "oid relname:t relnamespace reltype reloftype relowner relam relfilenode reltablespace \
         relpages:i reltuples:f relallvisible:i reltoastrelid relhasindex:b relisshared:b \
         relpersistence:t relkind:t relnatts:h relchecks:h relhasrules:b relhastriggers:b \
         relhassubclass:b relrowsecurity:b relforcerowsecurity:b relispopulated:b relreplident:t \
         relispartition:b relrewrite relfrozenxid relminmxid relacl:l reloptions:l relpartbound:t",
    ),
    ("pg_namespace", "oid nspname:t nspowner nspacl:l"),
    (
        "pg_attribute",
        "attrelid attname:t atttypid attstattarget:i attlen:h attnum:h attndims:i attcacheoff:i \
         atttypmod:i attbyval:b attalign:t attstorage:t attcompression:t attnotnull:b atthasdef:b \
         atthasmissing:b attidentity:t attgenerated:t attisdropped:b attislocal:b attinhcount:i \
         attcollation attacl:l attoptions:l attfdwoptions:l attmissingval:l",
    ),
    (
        "pg_type",
        "oid typname:t typnamespace typowner typlen:h typbyval:b typtype:t typcategory:t \
         typispreferred:b typisdefined:b typdelim:t typrelid typsubscript:t typelem typarray \
         typinput:t typoutput:t typreceive:t typsend:t typmodin:t typmodout:t typanalyze:t \
         typalign:t typstorage:t typnotnull:b typbasetype typtypmod:i typndims:i typcollation \
         typdefaultbin:t typdefault:t typacl:l",
    ),
    (
        "pg_database",
        "oid datname:t datdba encoding:i datlocprovider:t datistemplate:b datallowconn:b \
         datconnlimit:i datfrozenxid datminmxid dattablespace datcollate:t datctype:t \
         daticulocale:t datcollversion:t datacl:l",
    ),
    (
        "pg_roles",
        "rolname:t rolsuper:b rolinherit:b rolcreaterole:b rolcreatedb:b rolcanlogin:b \
         rolreplication:b rolconnlimit:i rolpassword:t rolvaliduntil:z rolbypassrls:b rolconfig:l oid",
    ),
    (
        "pg_user",
        "usename:t usesysid usecreatedb:b usesuper:b userepl:b usebypassrls:b passwd:t valuntil:z \
         useconfig:l",
    ),
    ("pg_am", "oid amname:t amhandler:t amtype:t"),
    ("pg_description", "objoid classoid objsubid:i description:t"),
    (
        "pg_settings",
        "name:t setting:t unit:t category:t short_desc:t extra_desc:t context:t vartype:t source:t \
         min_val:t max_val:t enumvals:l boot_val:t reset_val:t sourcefile:t sourceline:i \
         pending_restart:b",
    ),
    (
        "pg_tables",
        "schemaname:t tablename:t tableowner:t tablespace:t hasindexes:b hasrules:b hastriggers:b \
         rowsecurity:b",
    ),
];

/// Those that never have any.
const EMPTY: [(&str, &str); 44] = [
    ("pg_attrdef", "oid adrelid adnum:h adbin:t"),
    ("pg_auth_members", "roleid member grantor admin_option:b"),
    ("pg_available_extensions", "name:t default_version:t installed_version:t comment:t"),
    ("pg_cast", "oid castsource casttarget castfunc castcontext:t castmethod:t"),
    (
        "pg_collation",
        "oid collname:t collnamespace collowner collprovider:t collisdeterministic:b \
         collencoding:i collcollate:t collctype:t colliculocale:t collversion:t",
    ),
    (
        "pg_constraint",
        "oid conname:t connamespace contype:t condeferrable:b condeferred:b convalidated:b \
         conrelid contypid conindid conparentid confrelid confupdtype:t confdeltype:t \
         confmatchtype:t conislocal:b coninhcount:i connoinherit:b conkey:v confkey:v conbin:t",
    ),
    ("pg_conversion", "oid conname:t connamespace conowner condefault:b"),
    ("pg_cursors", "name:t statement:t is_holdable:b is_binary:b is_scrollable:b creation_time:z"),
    ("pg_db_role_setting", "setdatabase setrole setconfig:l"),
    ("pg_default_acl", "oid defaclrole defaclnamespace defaclobjtype:t defaclacl:l"),
    ("pg_depend", "classid objid objsubid:i refclassid refobjid refobjsubid:i deptype:t"),
    ("pg_enum", "oid enumtypid enumsortorder:f enumlabel:t"),
    ("pg_event_trigger", "oid evtname:t evtevent:t evtowner evtfoid evtenabled:t evttags:l"),
    (
        "pg_extension",
        "oid extname:t extowner extnamespace extrelocatable:b extversion:t extconfig:v \
         extcondition:l",
    ),
    ("pg_foreign_data_wrapper", "oid fdwname:t fdwowner fdwhandler fdwvalidator fdwoptions:l"),
    ("pg_foreign_server", "oid srvname:t srvowner srvfdw srvtype:t srvversion:t srvoptions:l"),
    ("pg_foreign_table", "ftrelid ftserver ftoptions:l"),
    (
        "pg_index",
        "indexrelid indrelid indnatts:h indnkeyatts:h indisunique:b indnullsnotdistinct:b \
         indisprimary:b indisexclusion:b indimmediate:b indisclustered:b indisvalid:b \
         indcheckxmin:b indisready:b indislive:b indisreplident:b indkey:v indcollation:v \
         indclass:v indoption:v indexprs:t indpred:t",
    ),
    ("pg_indexes", "schemaname:t tablename:t indexname:t tablespace:t indexdef:t"),
    ("pg_inherits", "inhrelid inhparent inhseqno:i inhdetachpending:b"),
    ("pg_language", "oid lanname:t lanowner lanispl:b lanpltrusted:b"),
    ("pg_locks", "locktype:t database relation pid:i mode:t granted:b"),
    ("pg_matviews", "schemaname:t matviewname:t matviewowner:t tablespace:t definition:t"),
    ("pg_opclass", "oid opcmethod opcname:t opcnamespace opcowner opcintype opcdefault:b"),
    ("pg_operator", "oid oprname:t oprnamespace oprkind:t oprleft oprright oprresult"),
    ("pg_partitioned_table", "partrelid partstrat:t partnatts:h partdefid partattrs:v"),
    (
        "pg_policy",
        "oid polname:t polrelid polcmd:t polpermissive:b polroles:v polqual:t polwithcheck:t",
    ),
    ("pg_prepared_statements", "name:t statement:t prepare_time:z from_sql:b"),
    (
        "pg_proc",
        "oid proname:t pronamespace proowner prolang provariadic prokind:t prosecdef:b \
         proleakproof:b proisstrict:b proretset:b provolatile:t proparallel:t pronargs:h \
         pronargdefaults:h prorettype proargtypes:v proallargtypes:v proargmodes:l proargnames:l \
         prosrc:t proacl:l",
    ),
    (
        "pg_publication",
        "oid pubname:t pubowner puballtables:b pubinsert:b pubupdate:b pubdelete:b pubtruncate:b \
         pubviaroot:b",
    ),
    ("pg_publication_namespace", "oid pnpubid pnnspid"),
    ("pg_publication_rel", "oid prpubid prrelid prqual:t prattrs:v"),
    ("pg_range", "rngtypid rngsubtype rngmultitypid rngcollation rngsubopc"),
    ("pg_rewrite", "oid rulename:t ev_class ev_type:t ev_enabled:t is_instead:b ev_action:t"),
    ("pg_seclabel", "objoid classoid objsubid:i provider:t label:t"),
    ("pg_sequence", "seqrelid seqtypid seqstart:i seqincrement:i seqmax:i seqmin:i seqcycle:b"),
    ("pg_sequences", "schemaname:t sequencename:t sequenceowner:t"),
    ("pg_shdescription", "objoid classoid description:t"),
    (
        "pg_stat_activity",
        "datid datname:t pid:i usesysid usename:t application_name:t client_port:i state:t query:t \
         backend_start:z xact_start:z query_start:z state_change:z wait_event_type:t wait_event:t \
         backend_type:t",
    ),
    ("pg_stat_user_tables", "relid schemaname:t relname:t seq_scan:i n_live_tup:i n_dead_tup:i"),
    (
        "pg_statistic_ext",
        "oid stxrelid stxname:t stxnamespace stxowner stxstattarget:i stxkeys:v stxkind:l",
    ),
    ("pg_tablespace", "oid spcname:t spcowner spcacl:l spcoptions:l"),
    (
        "pg_trigger",
        "oid tgrelid tgparentid tgname:t tgfoid tgtype:h tgenabled:t tgisinternal:b tgconstrrelid \
         tgconstrindid tgconstraint tgdeferrable:b tginitdeferred:b tgnargs:h tgattr:v tgqual:t",
    ),
    ("pg_views", "schemaname:t viewname:t viewowner:t definition:t"),
];

/// Whether a table has no rows, whatever is asked of it.
pub(super) fn is_empty(name: &str) -> bool {
    EMPTY.iter().any(|(known, _)| *known == name)
}

/// Whether a column of this name is a list, wherever there is one: it is null in every row.
pub(super) fn is_list(column: &str) -> bool {
    let columns = || FILLED.iter().chain(&EMPTY).flat_map(|(_, all)| all.split_whitespace());
    let mut named = columns().filter_map(|it| it.split_once(':')).filter(|it| it.0 == column);
    let lists = |(_, letter): (&str, &str)| matches!(letter, "l" | "v");
    named.next().is_some_and(lists) && named.all(lists)
}

/// All of them.
pub(super) fn names() -> impl Iterator<Item = &'static str> {
    FILLED.iter().chain(&EMPTY).map(|(name, _)| *name)
}

/// A table's columns.
pub(super) fn columns(name: &str) -> Option<SchemaRef> {
    let (_, columns) = FILLED.iter().chain(&EMPTY).find(|(known, _)| *known == name)?;
    let fields = columns.split_whitespace().map(|column| {
        let (name, letter) = column.split_once(':').unwrap_or((column, "o"));
        let list = |of| DataType::List(Arc::new(Field::new("item", of, true)));
        let data_type = match letter {
            "t" => DataType::Utf8,
            "b" => DataType::Boolean,
            "h" => DataType::Int16,
            "i" => DataType::Int32,
            "f" => DataType::Float32,
            "l" => list(DataType::Utf8),
            "v" => list(DataType::Int16),
            "z" => DataType::Timestamp(TimeUnit::Microsecond, Some("UTC".into())),
            _ => DataType::Int64,
        };
        Field::new(name, data_type, true)
    });
    Some(Arc::new(Schema::new(fields.collect::<Vec<_>>())))
}
