//! One statement: asked as over HTTP, its rows written as they come.

use std::sync::Arc;

use arrow::record_batch::RecordBatch;

use super::copy::CopyOut;
use super::session::{Block, Session, Trouble};
use super::state::{Refusal, notice};
use super::value::{Cells, Column, Misfit, columns};
use super::wire::Wire;
use crate::serve::{Asks, Format, Head, Part, Parts, QueryRequest, start};
use crate::sql::{Outline, Params};

/// Rows of one step: what is made ready before the first of them is written.
const STEP_ROWS: usize = 1_024;

/// An answer that is being given, and may be suspended.
#[derive(Debug)]
pub(super) struct Answer {
    pub(super) columns: Vec<Column>,
    parts: Parts,
    /// What came and has not been given, from a row on.
    waiting: Option<(RecordBatch, usize)>,
    ended: bool,
}

impl From<Misfit> for Trouble {
    fn from(misfit: Misfit) -> Self {
        let refusal = Refusal::new("22003", misfit.to_string());
        Trouble::from(refusal.hint("cast it in the statement, to text for one"))
    }
}

impl Session {
    /// Asks `sql`: the answer's columns are known, its rows follow.
    pub(super) async fn ask(
        &mut self,
        sql: &str,
        params: Option<Params>,
    ) -> Result<Answer, Trouble> {
        let (head, mut parts) = self.start(sql, params, Asks::Rows).await?;
        if !head.missing.is_empty() {
            let text = format!("answer is incomplete: {} ranges are missing", head.missing.len());
            notice(&mut self.wire.out, &text);
        }
        match parts.next().await {
            Some(Part::Columns(schema)) => {
                Ok(Answer { columns: columns(&schema), parts, waiting: None, ended: false })
            }
            _ => Err(broken(&mut parts)),
        }
    }

    /// What `sql` gives and takes.
    pub(super) async fn outline(&mut self, sql: &str) -> Result<Outline, Trouble> {
        let (head, _nothing) = self.start(sql, None, Asks::Places).await?;
        head.outline.ok_or_else(|| Refusal::new("XX000", "statement has no outline").into())
    }

    async fn start(
        &mut self,
        sql: &str,
        params: Option<Params>,
        asks: Asks,
    ) -> Result<(Head, Parts), Trouble> {
        self.recognise()?;
        let random = self.server.random.bytes16();
        let id = uuid::Builder::from_random_bytes(random).into_uuid();
        self.key.runs(id);
        let asked = self.settings.asked.clone();
        let request = QueryRequest {
            sql: sql.to_owned(),
            params,
            asks,
            format: Format::Postgres,
            timeout_ms: asked.timeout_ms,
            max_rows: asked.max_rows,
            min: asked.min,
            as_of: self.as_of.clone().or(asked.as_of),
            wait_ms: asked.wait_ms,
            allow_partial: asked.allow_partial,
            allow_stale: asked.allow_stale,
            end_marker: false,
            query_id: Some(id),
            if_none_match: None,
            grant: Arc::clone(&self.grant),
        };
        let node = Arc::clone(&self.server.node);
        // Who leaves while it is planned or waits for its turn ends it.
        let started = tokio::select! {
            started = Box::pin(start(&node, request)) => started,
            () = self.wire.left() => return Err(Trouble::Gone),
        };
        let (head, parts) = started
            .map_err(|problem| Trouble::from(Refusal::from(problem).within(&self.text, sql)))?;
        // The first statement of a block says which state all of them see.
        if self.block == Block::Repeatable && self.as_of.is_none() {
            self.as_of = Some(head.as_of.clone());
        }
        Ok((head, parts))
    }
}

/// Why an answer ended before its end.
fn broken(parts: &mut Parts) -> Trouble {
    match parts.take_problem() {
        Some(problem) => Refusal::from(problem).into(),
        None => Refusal::new("XX000", "query ended before its answer was complete").into(),
    }
}

impl Answer {
    /// The next rows, `max` at most.
    async fn step(&mut self, wire: &mut Wire, max: usize) -> Result<Option<RecordBatch>, Trouble> {
        loop {
            if let Some((batch, from)) = self.waiting.take()
                && from < batch.num_rows()
            {
                let count = max.min(STEP_ROWS).min(batch.num_rows() - from);
                let rows = batch.slice(from, count);
                self.waiting = Some((batch, from + count));
                return Ok(Some(rows));
            }
            if self.ended {
                return Ok(None);
            }
            let part = tokio::select! {
                biased;
                part = self.parts.next() => part,
                () = wire.left() => return Err(Trouble::Gone),
            };
            match part {
                Some(Part::Rows(batch)) => self.waiting = Some((batch, 0)),
                Some(Part::End { .. }) => self.ended = true,
                _ => return Err(broken(&mut self.parts)),
            }
        }
    }

    /// Writes rows, at most `max` of them; gives how many, and whether there may be more.
    pub(super) async fn give(
        &mut self,
        wire: &mut Wire,
        formats: &[i16],
        max: Option<u64>,
    ) -> Result<(u64, bool), Trouble> {
        let mut given = 0;
        loop {
            let left = max.map_or(u64::MAX, |max| max - given);
            if left == 0 {
                return Ok((given, true));
            }
            let left = usize::try_from(left).unwrap_or(usize::MAX);
            let Some(rows) = self.step(wire, left).await? else { return Ok((given, false)) };
            let cells = Cells::new(&rows, &self.columns, formats)?;
            for row in 0..rows.num_rows() {
                cells.row(row, &mut wire.out)?;
                wire.relieve().await?;
            }
            given += rows.num_rows() as u64;
        }
    }

    /// Passes over rows.
    pub(super) async fn pass(&mut self, wire: &mut Wire, max: Option<u64>) -> Result<u64, Trouble> {
        let mut passed = 0;
        loop {
            let left = max.map_or(u64::MAX, |max| max - passed);
            let left = usize::try_from(left).unwrap_or(usize::MAX);
            if left == 0 {
                return Ok(passed);
            }
            let Some(rows) = self.step(wire, left).await? else { return Ok(passed) };
            passed += rows.num_rows() as u64;
        }
    }

    /// Writes all rows as the lines of `copy`; gives how many.
    pub(super) async fn copy(&mut self, wire: &mut Wire, copy: &CopyOut) -> Result<u64, Trouble> {
        wire.out.begin(b'H');
        wire.out.raw(&[0]);
        wire.out.i16(i16::try_from(self.columns.len()).unwrap_or(i16::MAX));
        self.columns.iter().for_each(|_| wire.out.i16(0));
        wire.out.end();
        let line = |wire: &mut Wire, line: Vec<u8>| {
            wire.out.begin(b'd');
            wire.out.raw(&line);
            wire.out.end();
        };
        if copy.header {
            let names = self.columns.iter().map(|column| Some(column.name.as_bytes()));
            line(wire, copy.line(names));
        }
        let mut given = 0;
        while let Some(rows) = self.step(wire, usize::MAX).await? {
            let cells = Cells::new(&rows, &self.columns, &[])?;
            for row in 0..rows.num_rows() {
                let values = cells.texts(row)?;
                line(wire, copy.line(values.iter().map(Option::as_deref)));
                wire.relieve().await?;
            }
            given += rows.num_rows() as u64;
        }
        wire.out.sign(b'c');
        Ok(given)
    }
}
