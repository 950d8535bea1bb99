//! Queries that have no rows for certain, because a table that they need has none. Clients ask of
//! policies, triggers, publications and the like in ways that the engine cannot plan; here there are
//! none of these, and so the answer is known without a plan.

use std::collections::BTreeSet;
use std::ops::ControlFlow;

use datafusion::sql::sqlparser::ast::{
    Expr, FunctionArg, FunctionArgExpr, JoinOperator, Query, Select, SelectItem, SetExpr,
    SetOperator, TableFactor, TableWithJoins, Visit, Visitor,
};
use datafusion::sql::sqlparser::dialect::PostgreSqlDialect;
use datafusion::sql::sqlparser::parser::Parser;

use super::tables::{is_empty, is_list};

/// Functions that make a row of no rows.
const AGGREGATES: [&str; 12] = [
    "array_agg",
    "avg",
    "bool_and",
    "bool_or",
    "count",
    "json_agg",
    "jsonb_agg",
    "json_object_agg",
    "max",
    "min",
    "string_agg",
    "sum",
];

/// `query` with the same columns and no plan to find, if it has no rows for certain.
pub(super) fn nothing(query: &Query) -> Option<Query> {
    if query.with.is_some() || !body_is_empty(&query.body) {
        return None;
    }
    let names = names(first(&query.body)?)?;
    let columns: Vec<String> = names
        .iter()
        .map(|name| format!("CAST(NULL AS VARCHAR) AS \"{}\"", name.replace('"', "\"\"")))
        .collect();
    let text = format!("SELECT {} WHERE false", columns.join(", "));
    let mut parser = Parser::new(&PostgreSqlDialect {}).try_with_sql(&text).ok()?;
    parser.parse_query().ok().map(|query| *query)
}

fn body_is_empty(body: &SetExpr) -> bool {
    match body {
        SetExpr::Select(select) => select_is_empty(select),
        SetExpr::Query(query) => query.with.is_none() && body_is_empty(&query.body),
        SetExpr::SetOperation { op: SetOperator::Union, left, right, .. } => {
            body_is_empty(left) && body_is_empty(right)
        }
        _ => false,
    }
}

fn select_is_empty(select: &Select) -> bool {
    let needs_rows = select.from.iter().any(needs_empty);
    needs_rows && !select.projection.iter().any(aggregates)
}

fn needs_empty(from: &TableWithJoins) -> bool {
    let keeps = |operator: &JoinOperator| {
        use JoinOperator::{CrossJoin, FullOuter, Inner, Join, Left, LeftOuter, Right, RightOuter};
        match operator {
            Join(_) | Inner(_) | CrossJoin(_) => Some(true),
            Left(_) | LeftOuter(_) => Some(false),
            Right(_) | RightOuter(_) | FullOuter(_) => None,
            _ => None,
        }
    };
    let kept: Option<Vec<bool>> =
        from.joins.iter().map(|join| keeps(&join.join_operator)).collect();
    let Some(kept) = kept else { return false };
    let needed =
        from.joins.iter().zip(kept).filter(|(_, kept)| *kept).map(|(join, _)| &join.relation);
    std::iter::once(&from.relation).chain(needed).any(factor_is_empty)
}

fn factor_is_empty(factor: &TableFactor) -> bool {
    match factor {
        TableFactor::Table { name, args: None, .. } => {
            let mut parts = name.0.iter().rev().filter_map(|part| part.as_ident());
            let table = parts.next().map(|ident| ident.value.to_lowercase());
            let schema = parts.next().map(|ident| ident.value.to_lowercase());
            schema.as_deref() == Some(super::PG_SCHEMA)
                && table.is_some_and(|table| is_empty(&table))
        }
        TableFactor::Table { name, args: Some(args), .. } => {
            let function = name.0.last().and_then(|part| part.as_ident());
            let unnests = function.is_some_and(|it| it.value.eq_ignore_ascii_case("unnest"));
            unnests
                && matches!(&args.args[..], [FunctionArg::Unnamed(FunctionArgExpr::Expr(list))] if is_null(list))
        }
        TableFactor::UNNEST { array_exprs, .. } => array_exprs.iter().all(is_null),
        TableFactor::NestedJoin { table_with_joins, .. } => needs_empty(table_with_joins),
        TableFactor::Derived { subquery, .. } => {
            subquery.with.is_none() && body_is_empty(&subquery.body)
        }
        _ => false,
    }
}

/// Whether it is a list of the catalog: no row here has one.
fn is_null(list: &Expr) -> bool {
    let Expr::CompoundIdentifier(parts) = list else { return false };
    parts.last().is_some_and(|column| is_list(&column.value.to_lowercase()))
}

/// Whether the item makes a row of no rows. What aggregates within a query of its own does not.
fn aggregates(item: &SelectItem) -> bool {
    #[derive(Default)]
    struct Found {
        yes: bool,
        within: usize,
    }
    impl Visitor for Found {
        type Break = ();
        fn pre_visit_query(&mut self, _: &Query) -> ControlFlow<()> {
            self.within += 1;
            ControlFlow::Continue(())
        }
        fn post_visit_query(&mut self, _: &Query) -> ControlFlow<()> {
            self.within = self.within.saturating_sub(1);
            ControlFlow::Continue(())
        }
        fn pre_visit_expr(&mut self, expr: &Expr) -> ControlFlow<()> {
            if let Expr::Function(function) = expr
                && self.within == 0
            {
                let name = function.name.0.last().and_then(|part| part.as_ident());
                let name = name.map(|ident| ident.value.to_lowercase()).unwrap_or_default();
                self.yes |= function.over.is_none() && AGGREGATES.contains(&name.as_str());
            }
            ControlFlow::Continue(())
        }
    }
    let mut found = Found::default();
    let _ended = item.visit(&mut found);
    found.yes
}

fn first(body: &SetExpr) -> Option<&Select> {
    match body {
        SetExpr::Select(select) => Some(select),
        SetExpr::Query(query) => first(&query.body),
        SetExpr::SetOperation { left, .. } => first(left),
        _ => None,
    }
}

/// Names of the columns, each once; `None` where a `*` hides them.
fn names(select: &Select) -> Option<Vec<String>> {
    let mut taken = BTreeSet::new();
    let mut names = Vec::new();
    for item in &select.projection {
        let name = match item {
            SelectItem::ExprWithAlias { alias, .. } => alias.value.clone(),
            SelectItem::UnnamedExpr(expr) => name_of(expr),
            _ => return None,
        };
        let mut unique = name.clone();
        let mut more = 1;
        while !taken.insert(unique.clone()) {
            more += 1;
            unique = format!("{name}_{more}");
        }
        names.push(unique);
    }
    Some(names)
}

/// As PostgreSQL names a column that has no name.
pub(super) fn name_of(expr: &Expr) -> String {
    match expr {
        Expr::Identifier(ident) => ident.value.clone(),
        Expr::CompoundIdentifier(parts) => {
            parts.last().map_or_else(|| "?column?".to_owned(), |ident| ident.value.clone())
        }
        Expr::Function(function) => {
            let last = function.name.0.last().and_then(|part| part.as_ident());
            last.map_or_else(|| "?column?".to_owned(), |ident| ident.value.to_lowercase())
        }
        Expr::Cast { expr, .. } | Expr::Nested(expr) => name_of(expr),
        Expr::Case { .. } => "case".to_owned(),
        _ => "?column?".to_owned(),
    }
}
