//! Statements as PostgreSQL's clients write them, as statements that the engine can plan.

use std::collections::BTreeSet;
use std::ops::ControlFlow;

use datafusion::sql::sqlparser::ast::{
    BinaryOperator, DataType, Expr, Function, FunctionArg, FunctionArgExpr, FunctionArgumentList,
    FunctionArguments, Ident, ObjectName, ObjectNamePart, Query, Select, SelectItem, Statement,
    TableFactor, Value, VisitMut as _, VisitorMut,
};

use super::PG_SCHEMA;
use super::empty::{name_of, nothing};
use super::tables::columns;

/// Rewrites `statement` in place.
pub(in crate::sql) fn rewrite(statement: &mut Statement) {
    let mut own = Own::default();
    let _ended = statement.visit(&mut own);
    let _ended = statement.visit(&mut Names(own.0));
    let _ended = statement.visit(&mut Forms);
}

fn ident(part: &ObjectNamePart) -> Option<String> {
    part.as_ident().map(|ident| match ident.quote_style {
        Some(_) => ident.value.clone(),
        None => ident.value.to_lowercase(),
    })
}

/// Takes `pg_catalog.` off.
fn unqualified(name: &mut ObjectName) {
    if name.0.len() == 2 && name.0.first().and_then(ident).as_deref() == Some(PG_SCHEMA) {
        name.0.remove(0);
    }
}

/// First names: whether a query needs a table without rows is asked of whole names. Those that the
/// statement itself gives are no tables of the catalog.
struct Names(BTreeSet<String>);

impl VisitorMut for Names {
    type Break = ();

    fn pre_visit_table_factor(&mut self, factor: &mut TableFactor) -> ControlFlow<()> {
        match factor {
            TableFactor::Table { name, args: Some(_), .. } | TableFactor::Function { name, .. } => {
                unqualified(name);
            }
            TableFactor::Table { name, args: None, .. } => {
                let alone = name.0.len() == 1;
                let table = name.0.first().and_then(ident).filter(|_| alone);
                let of_catalog = |table: &String| {
                    table.starts_with("pg_") && !self.0.contains(table) && columns(table).is_some()
                };
                if table.is_some_and(|table| of_catalog(&table)) {
                    name.0.insert(0, ObjectNamePart::Identifier(Ident::new(PG_SCHEMA)));
                }
            }
            _ => {}
        }
        ControlFlow::Continue(())
    }
}

/// Then everything else, from the inside.
struct Forms;

impl VisitorMut for Forms {
    type Break = ();

    fn pre_visit_query(&mut self, query: &mut Query) -> ControlFlow<()> {
        if let Some(nothing) = nothing(query) {
            *query = nothing;
        }
        ControlFlow::Continue(())
    }

    fn post_visit_select(&mut self, select: &mut Select) -> ControlFlow<()> {
        name_columns(select);
        ControlFlow::Continue(())
    }

    fn pre_visit_expr(&mut self, expr: &mut Expr) -> ControlFlow<()> {
        match expr {
            // One value of no rows; the engine would want to know that there is one row at most.
            Expr::Subquery(query) if nothing(query).is_some() => *expr = Expr::value(Value::Null),
            Expr::Function(function) => {
                if let FunctionArguments::Subquery(query) = &function.args
                    && function.name.to_string().eq_ignore_ascii_case("array")
                    && nothing(query).is_some()
                {
                    *expr = call("make_array", Vec::new());
                }
            }
            _ => {}
        }
        ControlFlow::Continue(())
    }

    fn post_visit_expr(&mut self, expr: &mut Expr) -> ControlFlow<()> {
        match expr {
            Expr::Collate { expr: inner, .. } => *expr = (**inner).clone(),
            Expr::Function(function) => unqualified(&mut function.name),
            Expr::BinaryOp { op, .. } => operator(op),
            Expr::Cast { expr: inner, data_type, .. } => {
                if let Some(other) = cast(inner, data_type) {
                    *expr = other;
                }
            }
            Expr::Identifier(ident)
                if ident.quote_style.is_none()
                    && ident.value.eq_ignore_ascii_case("current_schema") =>
            {
                *expr = call("current_schema", Vec::new());
            }
            _ => {}
        }
        ControlFlow::Continue(())
    }
}

/// `OPERATOR(pg_catalog.~)`.
fn operator(op: &mut BinaryOperator) {
    let BinaryOperator::PGCustomBinaryOperator(parts) = op else { return };
    let known = match parts.last().map(String::as_str) {
        Some("~") => BinaryOperator::PGRegexMatch,
        Some("~*") => BinaryOperator::PGRegexIMatch,
        Some("!~") => BinaryOperator::PGRegexNotMatch,
        Some("!~*") => BinaryOperator::PGRegexNotIMatch,
        Some("~~") => BinaryOperator::PGLikeMatch,
        Some("!~~") => BinaryOperator::PGNotLikeMatch,
        Some("=") => BinaryOperator::Eq,
        Some("<>") => BinaryOperator::NotEq,
        Some("||") => BinaryOperator::StringConcat,
        Some("+") => BinaryOperator::Plus,
        _ => return,
    };
    *op = known;
}

/// A cast to a type that the engine does not have: another cast, in place, or a call.
fn cast(inner: &mut Expr, data_type: &mut DataType) -> Option<Expr> {
    let name = match data_type {
        DataType::Regclass => "regclass".to_owned(),
        DataType::Custom(name, _) => {
            unqualified(name);
            name.0.first().and_then(ident).filter(|_| name.0.len() == 1)?
        }
        _ => return None,
    };
    match name.as_str() {
        "oid" | "xid" | "cid" | "xid8" => *data_type = DataType::BigInt(None),
        "int2" => *data_type = DataType::SmallInt(None),
        "int4" => *data_type = DataType::Integer(None),
        "int8" => *data_type = DataType::BigInt(None),
        "bool" => *data_type = DataType::Boolean,
        "float4" => *data_type = DataType::Real,
        "float8" => *data_type = DataType::DoublePrecision,
        "name" | "char" | "bpchar" | "text" | "varchar" | "cstring" | "citext" | "uuid"
        | "json" | "jsonb" | "inet" | "information_schema" => *data_type = DataType::Varchar(None),
        "regclass" | "regtype" | "regnamespace" | "regproc" | "regrole" | "regprocedure" => {
            let kind = Expr::value(Value::SingleQuotedString(name));
            let is_text = match &*inner {
                Expr::Value(value) => {
                    matches!(value.value, Value::SingleQuotedString(_) | Value::Placeholder(_))
                }
                _ => false,
            };
            let function = if is_text { "sealcast_oid" } else { "sealcast_oid_text" };
            return Some(call(function, vec![kind, inner.clone()]));
        }
        _ => {}
    }
    None
}

fn call(name: &str, args: Vec<Expr>) -> Expr {
    let args = args.into_iter().map(|arg| FunctionArg::Unnamed(FunctionArgExpr::Expr(arg)));
    Expr::Function(Function {
        name: ObjectName(vec![ObjectNamePart::Identifier(Ident::new(name))]),
        uses_odbc_syntax: false,
        parameters: FunctionArguments::None,
        args: FunctionArguments::List(FunctionArgumentList {
            duplicate_treatment: None,
            args: args.collect(),
            clauses: Vec::new(),
        }),
        filter: None,
        null_treatment: None,
        over: None,
        within_group: Vec::new(),
    })
}

/// Columns are named as PostgreSQL names them: `count`, not `count(*)`. Names are unique, because
/// those that are written alike are one column for the engine.
fn name_columns(select: &mut Select) {
    let star = select
        .projection
        .iter()
        .any(|item| matches!(item, SelectItem::Wildcard(_) | SelectItem::QualifiedWildcard(..)));
    let mut seen = BTreeSet::new();
    for item in &mut select.projection {
        match item {
            SelectItem::UnnamedExpr(expr) => {
                let column = matches!(expr, Expr::Identifier(_) | Expr::CompoundIdentifier(_));
                let name = if star && !column { expr.to_string() } else { name_of(expr) };
                let mut unique = name.clone();
                let mut more = 1;
                // A `*` may hold the column too.
                while !seen.insert(unique.clone()) || (column && star && more == 1) {
                    more += 1;
                    unique = format!("{name}_{more}");
                }
                if more > 1 || !(column || star) {
                    let alias = Ident::with_quote('"', unique);
                    *item = SelectItem::ExprWithAlias { expr: expr.clone(), alias };
                }
            }
            SelectItem::ExprWithAlias { alias, .. } => drop(seen.insert(alias.value.clone())),
            _ => {}
        }
    }
}

/// The names that a statement gives to queries of its own.
#[derive(Default)]
struct Own(BTreeSet<String>);

impl VisitorMut for Own {
    type Break = ();

    fn pre_visit_query(&mut self, query: &mut Query) -> ControlFlow<()> {
        let tables = query.with.iter().flat_map(|with| &with.cte_tables);
        self.0.extend(tables.map(|table| table.alias.name.value.to_lowercase()));
        ControlFlow::Continue(())
    }
}
