//! Batches as messages of Arrow Flight, made where the query runs.

use arrow::array::RecordBatch;
use arrow::datatypes::{Schema, SchemaRef};
use arrow::error::ArrowError;
use arrow::ipc::writer::{DictionaryTracker, IpcDataGenerator, IpcWriteContext, IpcWriteOptions};
use arrow_flight::{FlightData, SchemaAsIpc};

use super::body::Part;

/// The messages of one answer: its schema, then for each batch what dictionaries have changed, and
/// the batch.
pub(super) struct FlightOutput {
    schema: SchemaRef,
    begun: bool,
    generator: IpcDataGenerator,
    dictionaries: DictionaryTracker,
    options: IpcWriteOptions,
    context: IpcWriteContext,
}

impl FlightOutput {
    pub(super) fn new(schema: &SchemaRef) -> Self {
        FlightOutput {
            schema: SchemaRef::clone(schema),
            begun: false,
            generator: IpcDataGenerator::default(),
            dictionaries: DictionaryTracker::new(false),
            options: IpcWriteOptions::default(),
            context: IpcWriteContext::default(),
        }
    }

    pub(super) fn batch(&mut self, batch: &RecordBatch) -> Result<Vec<Part>, ArrowError> {
        let mut parts = self.begin();
        let (dictionaries, rows) = self.generator.encode(
            batch,
            &mut self.dictionaries,
            &self.options,
            &mut self.context,
        )?;
        let messages = dictionaries.into_iter().chain([rows]).map(FlightData::from);
        parts.extend(messages.map(|message| Part::Flight(Box::new(message))));
        Ok(parts)
    }

    pub(super) fn end(mut self) -> Vec<Part> {
        self.begin()
    }

    fn begin(&mut self) -> Vec<Part> {
        match std::mem::replace(&mut self.begun, true) {
            true => Vec::new(),
            false => {
                // Dictionaries are numbered by the columns, in the schema as in the batches.
                let message = schema_message(&self.schema, &mut self.dictionaries);
                vec![Part::Flight(Box::new(message))]
            }
        }
    }
}

fn schema_message(schema: &Schema, dictionaries: &mut DictionaryTracker) -> FlightData {
    let options = IpcWriteOptions::default();
    let encoded = IpcDataGenerator::default().schema_to_bytes_with_dictionary_tracker(
        schema,
        dictionaries,
        &options,
    );
    encoded.into()
}

/// A batch that is an answer of its own.
pub(crate) fn messages(batch: &RecordBatch) -> Result<Vec<FlightData>, ArrowError> {
    let mut output = FlightOutput::new(&batch.schema());
    let parts = output.batch(batch)?.into_iter().filter_map(|part| match part {
        Part::Flight(message) => Some(*message),
        _ => None,
    });
    Ok(parts.collect())
}

/// A schema by itself, as an IPC stream's first message.
pub(crate) fn schema_bytes(schema: &Schema) -> Result<bytes::Bytes, ArrowError> {
    let options = IpcWriteOptions::default();
    let message: arrow_flight::IpcMessage = SchemaAsIpc::new(schema, &options).try_into()?;
    Ok(message.0)
}
