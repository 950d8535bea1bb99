//! Prepared statements, portals and cursors.

use super::MESSAGE_BYTES_MAX;
use super::lexer::split;
use super::message::{Bind, Message, Of};
use super::params::{is_open, value};
use super::query::Answer;
use super::session::{Block, Session, Trouble, shown};
use super::state::Refusal;
use super::value::{Column, columns, format};
use super::words::Wants;
use crate::serve::Format;
use crate::sql::{Oid, Params, PgType, pg_type};

/// Statements, and portals, that one connection may hold, and their texts and parameters, bytes.
const HELD_MAX: usize = 1_000;
const HELD_BYTES_MAX: usize = 4 * MESSAGE_BYTES_MAX;

/// A prepared statement.
#[derive(Clone, Debug)]
pub(super) struct Statement {
    sql: String,
    /// `None`: an empty text.
    wants: Option<Wants>,
    /// As the client calls the types of its parameters; 0: it does not.
    types: Vec<Oid>,
    /// Once it was asked for.
    outline: Option<Planned>,
}

impl Statement {
    fn bytes(&self) -> usize {
        // As it came, and as it is read.
        2 * self.sql.len() + 4 * self.types.len()
    }
}

#[derive(Clone, Debug)]
struct Planned {
    /// Of each parameter, where its place says.
    places: Vec<Option<PgType>>,
    columns: Vec<Column>,
}

/// A statement with its parameters, and how far its answer was given. One that is suspended goes on
/// to be a running query, for as long as a query may take.
#[derive(Debug)]
pub(super) struct Portal {
    /// `None`: an empty text.
    wants: Option<Wants>,
    text: String,
    params: Option<Params>,
    formats: Vec<i16>,
    answer: Option<Answer>,
    ended: bool,
    pub(super) hold: bool,
    /// What its text and parameters take.
    bytes: usize,
}

impl Portal {
    fn new(wants: Option<Wants>, text: String) -> Self {
        let (params, formats, bytes) = (None, Vec::new(), 2 * text.len());
        Portal { wants, text, params, formats, answer: None, ended: false, hold: false, bytes }
    }
}

fn unknown(of: Of, name: &str) -> Refusal {
    let (state, what) = match of {
        Of::Statement => ("26000", "prepared statement"),
        Of::Portal => ("34000", "portal"),
    };
    Refusal::new(state, format!("{what} {name:?} does not exist"))
}

/// The one statement of a text.
fn only(sql: &str) -> Result<Option<&str>, Refusal> {
    match split(sql)[..] {
        [] => Ok(None),
        [one] => Ok(Some(one)),
        _ => Err(Refusal::new("42601", "a prepared statement is one statement, found several")),
    }
}

impl Session {
    /// Answers a message of the extended protocol.
    pub(super) async fn extended(&mut self, message: Message) -> Result<(), Trouble> {
        match message {
            Message::Parse { name, sql, types } => self.parse(name, sql, types)?,
            Message::Bind(bind) => self.bind(bind).await?,
            Message::Describe { of: Of::Statement, name } => self.describe(&name).await?,
            Message::Describe { of: Of::Portal, name } => self.describe_portal(&name).await?,
            Message::Execute { portal, max } => self.execute(&portal, max).await?,
            Message::Close { of, name } => {
                match of {
                    Of::Statement => drop(self.statements.remove(&name)),
                    Of::Portal => drop(self.portals.remove(&name)),
                }
                self.wire.out.sign(b'3');
            }
            _ => {}
        }
        Ok(())
    }

    fn parse(&mut self, name: String, sql: String, types: Vec<Oid>) -> Result<(), Refusal> {
        let wants = only(&sql)?.map(|one| self.wants(one)).transpose()?;
        if !name.is_empty() && self.statements.contains_key(&name) {
            return Err(Refusal::new(
                "42P05",
                format!("prepared statement {name:?} exists already"),
            ));
        }
        // One without a name takes the place of the one before.
        self.statements.remove(&name);
        let statement = Statement { sql, wants, types, outline: None };
        self.room(self.statements.len(), statement.bytes(), "prepared statements")?;
        self.statements.insert(name, statement);
        self.wire.out.sign(b'1');
        Ok(())
    }

    /// Whether `more` bytes may be held beside the `count` things that there are of a kind.
    fn room(&self, count: usize, more: usize, what: &str) -> Result<(), Refusal> {
        let statements = self.statements.values().map(Statement::bytes);
        let held: usize = statements.chain(self.portals.values().map(|portal| portal.bytes)).sum();
        if count < HELD_MAX && held + more <= HELD_BYTES_MAX {
            return Ok(());
        }
        let message = format!(
            "connection holds {count} {what} and {held} bytes of texts and parameters; allowed are {HELD_MAX} and {HELD_BYTES_MAX}"
        );
        Err(Refusal::new("54000", message).hint("close some"))
    }

    /// What a statement gives and takes: planned once.
    async fn planned(&mut self, name: &str) -> Result<Planned, Trouble> {
        let statement = self.statements.get(name).ok_or_else(|| unknown(Of::Statement, name))?;
        if let Some(planned) = &statement.outline {
            return Ok(planned.clone());
        }
        let (sql, wants) = (statement.sql.clone(), statement.wants.clone());
        wants.iter().try_for_each(|wants| self.allow(wants))?;
        let planned = match wants {
            Some(Wants::Rows(one)) => {
                self.text.clone_from(&sql);
                let outline = self.outline(&one).await?;
                let wanted = |wanted: arrow::datatypes::DataType| {
                    pg_type(&arrow::datatypes::Field::new("", wanted, true), false)
                };
                let places = outline.places.into_iter().map(|(_, place)| {
                    place.filter(|place| *place != arrow::datatypes::DataType::Null).map(wanted)
                });
                let places = places.collect();
                let columns = columns(&Format::Postgres.columns(&outline.columns));
                Planned { places, columns }
            }
            Some(Wants::Show(name)) => Planned { places: Vec::new(), columns: shown(&name) },
            Some(Wants::Fetch { name, given: true, .. }) => {
                let columns = self.started(&name).await?;
                return Ok(Planned { places: Vec::new(), columns });
            }
            _ => Planned { places: Vec::new(), columns: Vec::new() },
        };
        if let Some(statement) = self.statements.get_mut(name) {
            statement.outline = Some(planned.clone());
        }
        Ok(planned)
    }

    async fn describe(&mut self, name: &str) -> Result<(), Trouble> {
        let planned = self.planned(name).await?;
        let types = self.statements.get(name).map(|it| it.types.clone()).unwrap_or_default();
        let oids: Vec<Oid> = (0..planned.places.len().max(types.len()))
            .map(|place| match types.get(place) {
                Some(said) if !is_open(*said) => *said,
                _ => planned.places.get(place).copied().flatten().unwrap_or(PgType::Text).oid(),
            })
            .collect();
        self.wire.out.parameters(&oids);
        self.tell(&planned.columns, &[]);
        Ok(())
    }

    fn tell(&mut self, columns: &[Column], formats: &[i16]) {
        match columns {
            [] => self.wire.out.sign(b'n'),
            columns => self.tell_columns(columns, formats),
        }
    }

    async fn bind(&mut self, bind: Bind) -> Result<(), Trouble> {
        let name = bind.statement;
        let statement = self.statements.get(&name).ok_or_else(|| unknown(Of::Statement, &name))?;
        let Statement { sql, wants, types, .. } = statement.clone();
        wants.iter().try_for_each(|wants| self.allow(wants))?;
        if !bind.portal.is_empty() && self.portals.contains_key(&bind.portal) {
            let message = format!("portal {:?} exists already", bind.portal);
            return Err(Refusal::new("42P03", message).into());
        }
        self.portals.remove(&bind.portal);
        let oid = |place: usize| types.get(place).copied().unwrap_or(0);
        // Only the statement can tell what a client does not call by its type.
        let textual =
            |oid: Oid| matches!(PgType::by_oid(oid), None | Some(PgType::Text | PgType::Varchar));
        let asks = (0..bind.values.len()).any(|place| textual(oid(place)));
        let places = if asks { self.planned(&name).await?.places } else { Vec::new() };
        let values = bind.values.iter().enumerate().map(|(place, bytes)| {
            let binary = format(&bind.formats, place) == 1;
            let wanted = places.get(place).copied().flatten();
            value(place + 1, (oid(place), binary), wanted, bytes.as_deref())
        });
        let values = values.collect::<Result<Vec<_>, _>>()?;
        let mut portal = Portal::new(wants, sql);
        portal.params = (!values.is_empty()).then_some(Params::Positional(values));
        portal.formats = bind.results;
        portal.bytes += bind.values.iter().flatten().map(Vec::len).sum::<usize>();
        self.room(self.portals.len(), portal.bytes, "portals")?;
        self.portals.insert(bind.portal, portal);
        self.wire.out.sign(b'2');
        Ok(())
    }

    /// Begins the query of a portal, if it has one; gives the answer's columns.
    async fn started(&mut self, name: &str) -> Result<Vec<Column>, Trouble> {
        let portal = self.portals.get(name).ok_or_else(|| unknown(Of::Portal, name))?;
        if let Some(answer) = &portal.answer {
            return Ok(answer.columns.clone());
        }
        let Some(Wants::Rows(sql)) = portal.wants.clone() else { return Ok(Vec::new()) };
        let params = portal.params.clone();
        self.text.clone_from(&portal.text);
        let answer = self.ask(&sql, params).await?;
        let columns = answer.columns.clone();
        if let Some(portal) = self.portals.get_mut(name) {
            portal.answer = Some(answer);
        }
        Ok(columns)
    }

    async fn describe_portal(&mut self, name: &str) -> Result<(), Trouble> {
        let portal = self.portals.get(name).ok_or_else(|| unknown(Of::Portal, name))?;
        let formats = portal.formats.clone();
        let columns = match portal.wants.clone() {
            Some(Wants::Rows(_)) => self.started(name).await?,
            Some(Wants::Show(setting)) => shown(&setting),
            Some(Wants::Fetch { name, given: true, .. }) => self.started(&name).await?,
            _ => Vec::new(),
        };
        self.tell(&columns, &formats);
        Ok(())
    }

    async fn execute(&mut self, name: &str, max: u64) -> Result<(), Trouble> {
        let portal = self.portals.get(name).ok_or_else(|| unknown(Of::Portal, name))?;
        match portal.wants.clone() {
            None => self.wire.out.sign(b'I'),
            Some(Wants::Rows(_)) => {
                self.started(name).await?;
                let max = (max > 0).then_some(max);
                let (rows, more) = self.give(name, max).await?;
                match more {
                    true => self.wire.out.sign(b's'),
                    false => self.complete(&format!("SELECT {rows}")),
                }
            }
            Some(other) => self.other(other, false).await?,
        }
        Ok(())
    }

    /// Gives rows of a portal that has begun.
    async fn give(&mut self, name: &str, max: Option<u64>) -> Result<(u64, bool), Trouble> {
        self.recognise()?;
        let Some(portal) = self.portals.get_mut(name) else { return Ok((0, false)) };
        let Some(answer) = portal.answer.as_mut().filter(|_| !portal.ended) else {
            return Ok((0, false));
        };
        let given = answer.give(&mut self.wire, &portal.formats, max).await;
        // What broke off does not go on.
        portal.ended = !matches!(given, Ok((_, true)));
        given
    }

    /// Declares a cursor.
    pub(super) fn declare(&mut self, name: String, sql: String, hold: bool) -> Result<(), Refusal> {
        if self.block == Block::Outside && !hold {
            return Err(Refusal::new("25P01", "DECLARE CURSOR stands within BEGIN … COMMIT")
                .hint("or declare it WITH HOLD"));
        }
        if self.portals.contains_key(&name) {
            return Err(Refusal::new("42P03", format!("cursor {name:?} exists already")));
        }
        self.room(self.portals.len(), sql.len(), "cursors")?;
        let wants = self.wants(&sql)?;
        if !matches!(wants, Wants::Rows(_)) {
            return Err(Refusal::new("42601", "a cursor is of a query"));
        }
        self.portals.insert(name, Portal { hold, ..Portal::new(Some(wants), sql) });
        self.complete("DECLARE CURSOR");
        Ok(())
    }

    /// Gives rows of a cursor, or passes over them.
    pub(super) async fn fetch(
        &mut self,
        name: &str,
        count: Option<u64>,
        (given, whole): (bool, bool),
    ) -> Result<(), Trouble> {
        let columns = self.started(name).await.map_err(|trouble| match trouble {
            Trouble::Refused(refusal) if refusal.state == "34000" => {
                Refusal::new("34000", format!("cursor {name:?} does not exist")).into()
            }
            other => other,
        })?;
        if given {
            if whole {
                self.tell_columns(&columns, &[]);
            }
            let (rows, _) = self.give(name, count).await?;
            self.complete(&format!("FETCH {rows}"));
            return Ok(());
        }
        let Some(portal) = self.portals.get_mut(name) else { return Ok(()) };
        let mut passed = 0;
        if let Some(answer) = portal.answer.as_mut() {
            passed = answer.pass(&mut self.wire, count).await?;
        }
        self.complete(&format!("MOVE {passed}"));
        Ok(())
    }
}
