//! Functions of PostgreSQL that clients call on their way to a query. None reads a row of events.

use std::sync::Arc;

use arrow::array::{Array as _, ArrayRef, AsArray as _, ListBuilder, StringArray, StringBuilder};
use arrow::compute::cast;
use arrow::datatypes::{DataType, Field};
use datafusion::error::Result;
use datafusion::execution::FunctionRegistry as _;
use datafusion::execution::session_state::SessionState;
use datafusion::logical_expr::{
    ColumnarValue, ScalarFunctionArgs, ScalarUDF, ScalarUDFImpl, Signature, TypeSignature,
    Volatility,
};

use super::rows::{NAMESPACES, RELATIONS, ROLE_OID, SETTINGS, comment, namespace};
use super::types::PgType;
use super::{PG_SCHEMA, ROLE};
use crate::sql::catalog::{CATALOG, EVENTS_SCHEMA};

/// What a function does with its arguments' texts.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
enum Does {
    /// Always the same text, truth or number.
    Gives(&'static str),
    /// There is none of it here.
    Nothing,
    ColDescription,
    FormatType,
    HasPrivilege,
    IsVisible,
    OidOf,
    OidText,
    QuoteIdent,
    Schemas,
    Setting,
    ToOid(&'static str),
    UserOf,
}

use Does::{
    ColDescription, FormatType, Gives, HasPrivilege, IsVisible, Nothing, OidOf, OidText,
    QuoteIdent, Schemas, Setting, ToOid, UserOf,
};

/// Names, what they do, and what they give: `t` text, `b` a truth, `o` a number.
const FUNCTIONS: [(&str, Does, char); 62] = [
    ("version", Gives(VERSION), 't'),
    ("current_database", Gives(CATALOG), 't'),
    ("current_catalog", Gives(CATALOG), 't'),
    ("current_schema", Gives(EVENTS_SCHEMA), 't'),
    ("current_user", Gives(ROLE), 't'),
    ("current_role", Gives(ROLE), 't'),
    ("session_user", Gives(ROLE), 't'),
    ("user", Gives(ROLE), 't'),
    ("getdatabaseencoding", Gives("UTF8"), 't'),
    ("pg_client_encoding", Gives("UTF8"), 't'),
    ("pg_encoding_to_char", Gives("UTF8"), 't'),
    ("pg_is_in_recovery", Gives("true"), 'b'),
    ("pg_is_wal_replay_paused", Gives("false"), 'b'),
    ("pg_is_other_temp_schema", Gives("false"), 'b'),
    ("pg_my_temp_schema", Gives("0"), 'o'),
    ("pg_backend_pid", Gives("0"), 'o'),
    ("pg_type_is_visible", Gives("true"), 'b'),
    ("pg_function_is_visible", Gives("true"), 'b'),
    ("pg_relation_is_publishable", Gives("false"), 'b'),
    ("pg_has_role", Gives("true"), 'b'),
    ("pg_advisory_unlock_all", Nothing, 't'),
    ("row_security_active", Gives("false"), 'b'),
    ("pg_get_userbyid", UserOf, 't'),
    ("pg_table_is_visible", IsVisible, 'b'),
    ("format_type", FormatType, 't'),
    ("col_description", ColDescription, 't'),
    ("quote_ident", QuoteIdent, 't'),
    ("current_setting", Setting, 't'),
    ("set_config", Setting, 't'),
    ("current_schemas", Schemas, 'l'),
    ("to_regclass", ToOid("regclass"), 'o'),
    ("to_regtype", ToOid("regtype"), 'o'),
    ("to_regnamespace", ToOid("regnamespace"), 'o'),
    ("sealcast_oid", OidOf, 'o'),
    ("sealcast_oid_text", OidText, 't'),
    ("has_table_privilege", HasPrivilege, 'b'),
    ("has_any_column_privilege", HasPrivilege, 'b'),
    ("has_column_privilege", HasPrivilege, 'b'),
    ("has_schema_privilege", HasPrivilege, 'b'),
    ("has_database_privilege", HasPrivilege, 'b'),
    ("has_function_privilege", HasPrivilege, 'b'),
    ("has_sequence_privilege", HasPrivilege, 'b'),
    ("has_language_privilege", HasPrivilege, 'b'),
    ("has_tablespace_privilege", HasPrivilege, 'b'),
    ("obj_description", Nothing, 't'),
    ("shobj_description", Nothing, 't'),
    ("pg_get_expr", Nothing, 't'),
    ("pg_get_constraintdef", Nothing, 't'),
    ("pg_get_indexdef", Nothing, 't'),
    ("pg_get_viewdef", Nothing, 't'),
    ("pg_get_ruledef", Nothing, 't'),
    ("pg_get_triggerdef", Nothing, 't'),
    ("pg_get_functiondef", Nothing, 't'),
    ("pg_get_partkeydef", Nothing, 't'),
    ("pg_get_serial_sequence", Nothing, 't'),
    ("pg_tablespace_location", Nothing, 't'),
    ("pg_size_pretty", Nothing, 't'),
    ("pg_relation_size", Nothing, 'o'),
    ("pg_table_size", Nothing, 'o'),
    ("pg_indexes_size", Nothing, 'o'),
    ("pg_total_relation_size", Nothing, 'o'),
    ("pg_database_size", Nothing, 'o'),
];

const VERSION: &str =
    concat!("PostgreSQL 15.0 (Sealcast ", env!("CARGO_PKG_VERSION"), "), read-only, by DataFusion");

/// Adds them to the sessions of the protocol.
pub(in crate::sql) fn register(state: &mut SessionState) -> Result<()> {
    for (name, does, gives) in FUNCTIONS {
        let arguments = vec![TypeSignature::Nullary, TypeSignature::VariadicAny];
        let signature = Signature::one_of(arguments, Volatility::Stable);
        let function = PgFunction { name, does, gives, signature };
        state.register_udf(Arc::new(ScalarUDF::new_from_impl(function)))?;
    }
    Ok(())
}

#[derive(Debug, PartialEq, Eq, Hash)]
struct PgFunction {
    name: &'static str,
    does: Does,
    gives: char,
    signature: Signature,
}

impl ScalarUDFImpl for PgFunction {
    fn name(&self) -> &str {
        self.name
    }

    fn signature(&self) -> &Signature {
        &self.signature
    }

    fn return_type(&self, _: &[DataType]) -> Result<DataType> {
        Ok(match self.gives {
            'b' => DataType::Boolean,
            'o' => DataType::Int64,
            'l' => DataType::List(Arc::new(Field::new("item", DataType::Utf8, true))),
            _ => DataType::Utf8,
        })
    }

    fn invoke_with_args(&self, args: ScalarFunctionArgs) -> Result<ColumnarValue> {
        let rows = args.number_rows;
        let texts = args.args.into_iter().map(|arg| {
            let array = arg.into_array(rows)?;
            // What has no text is not looked at.
            Ok(cast(&array, &DataType::Utf8)
                .unwrap_or_else(|_| Arc::new(StringArray::new_null(rows))))
        });
        let texts = texts.collect::<Result<Vec<ArrayRef>>>()?;
        if self.does == Schemas {
            return Ok(ColumnarValue::Array(schemas(texts.first(), rows)));
        }
        let given = (0..rows).map(|row| {
            let text = |array: &ArrayRef| {
                let texts = array.as_string::<i32>();
                texts.is_valid(row).then(|| texts.value(row).to_owned())
            };
            let args: Vec<Option<String>> = texts.iter().map(text).collect();
            let args: Vec<Option<&str>> = args.iter().map(Option::as_deref).collect();
            given(self.does, &args)
        });
        let given: StringArray = given.collect();
        Ok(ColumnarValue::Array(cast(&given, &self.return_type(&[])?)?))
    }
}

fn given(does: Does, args: &[Option<&str>]) -> Option<String> {
    let arg = |place: usize| args.get(place).copied().flatten();
    let number = |place: usize| arg(place).and_then(|text| text.parse::<u32>().ok());
    match does {
        Gives(value) => Some(value.to_owned()),
        Nothing => None,
        ColDescription => comment(number(0)?, arg(1)?.parse().ok()?).map(str::to_owned),
        FormatType => {
            let known = PgType::by_oid(number(0)?);
            Some(known.map_or("???", |known| known.facts().3).to_owned())
        }
        // The last one says which; whoever is let in reads everything that it is shown.
        HasPrivilege => {
            let wanted = args.last().copied().flatten()?.to_lowercase();
            let granted = ["select", "usage", "connect", "execute"];
            Some(wanted.split(',').any(|word| granted.contains(&word.trim())).to_string())
        }
        IsVisible => {
            let relation = RELATIONS.iter().find(|relation| Some(relation.oid) == number(0));
            let visible = relation.map(|it| [EVENTS_SCHEMA, PG_SCHEMA].contains(&it.schema));
            visible.map(|visible| visible.to_string())
        }
        OidOf => oid(arg(0)?, arg(1)?).map(|oid| oid.to_string()),
        OidText => Some(oid_text(arg(0)?, arg(1)?)),
        QuoteIdent => arg(0).map(quoted),
        // Handled apart, for whole columns.
        Schemas => None,
        Setting => {
            let name = arg(0)?.to_lowercase();
            let known = SETTINGS.iter().find(|(known, _)| *known == name);
            known.map(|(_, value)| (*value).to_owned())
        }
        ToOid(kind) => oid(kind, arg(0)?).map(|oid| oid.to_string()),
        UserOf => (number(0)? == ROLE_OID).then(|| ROLE.to_owned()),
    }
}

/// The number of a thing that is named as people write it; `None`: there is no such thing.
fn oid(kind: &str, name: &str) -> Option<u32> {
    if let Ok(oid) = name.parse() {
        return Some(oid);
    }
    let bare = |part: &str| part.trim_matches('"').to_owned();
    let mut parts = name.rsplit('.').map(bare);
    let (last, schema) = (parts.next()?, parts.next());
    match kind {
        "regclass" => {
            let fits = |of: &str| match &schema {
                Some(schema) => schema == of,
                None => [EVENTS_SCHEMA, PG_SCHEMA].contains(&of),
            };
            let found = RELATIONS.iter().find(|it| it.name == last && fits(it.schema));
            found.map(|relation| relation.oid)
        }
        "regtype" => {
            let mut known = PgType::ALL.into_iter().map(PgType::facts);
            known.find(|(_, _, name, shown, _)| *name == last || *shown == last).map(|it| it.0)
        }
        "regnamespace" => Some(namespace(&last)).filter(|oid| *oid > 0),
        "regrole" => (last == ROLE).then_some(ROLE_OID),
        _ => None,
    }
}

fn oid_text(kind: &str, number: &str) -> String {
    let Ok(oid) = number.parse::<u32>() else { return number.to_owned() };
    let found = match kind {
        "regclass" => RELATIONS.iter().find(|relation| relation.oid == oid).map(|relation| {
            match relation.schema {
                EVENTS_SCHEMA | PG_SCHEMA => relation.name.to_owned(),
                schema => format!("{schema}.{}", relation.name),
            }
        }),
        "regtype" => PgType::by_oid(oid).map(|known| known.facts().3.to_owned()),
        "regnamespace" => {
            NAMESPACES.iter().find(|(_, known)| *known == oid).map(|(name, _)| (*name).to_owned())
        }
        "regrole" => (oid == ROLE_OID).then(|| ROLE.to_owned()),
        _ => None,
    };
    found.unwrap_or_else(|| if oid == 0 { "-".to_owned() } else { oid.to_string() })
}

/// A name, quoted where it has to be.
fn quoted(name: &str) -> String {
    let plain = |byte: u8| byte.is_ascii_lowercase() || byte.is_ascii_digit() || byte == b'_';
    let starts = name.bytes().next().is_some_and(|byte| !byte.is_ascii_digit());
    match starts && name.bytes().all(plain) {
        true => name.to_owned(),
        false => format!("\"{}\"", name.replace('"', "\"\"")),
    }
}

/// The schemas where names are looked for, with those that nobody names if the argument says so.
fn schemas(implicit: Option<&ArrayRef>, rows: usize) -> ArrayRef {
    let mut lists = ListBuilder::new(StringBuilder::new());
    for row in 0..rows {
        let all = implicit.is_some_and(|texts| {
            let texts = texts.as_string::<i32>();
            texts.is_valid(row) && texts.value(row) == "true"
        });
        if all {
            lists.values().append_value(PG_SCHEMA);
        }
        lists.values().append_value(EVENTS_SCHEMA);
        lists.append(true);
    }
    Arc::new(lists.finish())
}
