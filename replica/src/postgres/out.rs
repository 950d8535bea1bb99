//! Messages to clients, in a buffer until they are sent.

/// What is about to be sent.
#[derive(Debug, Default)]
pub(super) struct Out {
    bytes: Vec<u8>,
    /// Where the message that is being written has its length.
    open: usize,
}

/// A column as `RowDescription` tells it: name, type, size, format.
pub(super) type Described<'c> = (&'c str, u32, i16, i16);

impl Out {
    pub(super) fn len(&self) -> usize {
        self.bytes.len()
    }

    pub(super) fn take(&mut self) -> Vec<u8> {
        std::mem::take(&mut self.bytes)
    }

    /// Begins a message.
    pub(super) fn begin(&mut self, tag: u8) {
        self.bytes.push(tag);
        self.open = self.bytes.len();
        self.i32(0);
    }

    /// Ends it.
    pub(super) fn end(&mut self) {
        let length = u32::try_from(self.bytes.len() - self.open).unwrap_or(u32::MAX);
        if let Some(place) = self.bytes.get_mut(self.open..self.open + 4) {
            place.copy_from_slice(&length.to_be_bytes());
        }
    }

    /// Takes back what was written of a message that cannot be finished.
    pub(super) fn abandon(&mut self) {
        self.bytes.truncate(self.open.saturating_sub(1));
    }

    pub(super) fn i16(&mut self, number: i16) {
        self.bytes.extend(number.to_be_bytes());
    }

    pub(super) fn i32(&mut self, number: i32) {
        self.bytes.extend(number.to_be_bytes());
    }

    /// Text and its zero, which it cannot hold itself.
    pub(super) fn text(&mut self, text: &str) {
        self.bytes.extend(text.bytes().filter(|byte| *byte != 0));
        self.bytes.push(0);
    }

    pub(super) fn raw(&mut self, bytes: &[u8]) {
        self.bytes.extend_from_slice(bytes);
    }

    /// A value with its length.
    pub(super) fn value(&mut self, value: Option<&[u8]>) {
        match value {
            None => self.i32(-1),
            Some(value) => {
                self.i32(i32::try_from(value.len()).unwrap_or(i32::MAX));
                self.bytes.extend_from_slice(value);
            }
        }
    }

    /// A message without a body.
    pub(super) fn sign(&mut self, tag: u8) {
        self.begin(tag);
        self.end();
    }

    pub(super) fn complete(&mut self, tag: &str) {
        self.begin(b'C');
        self.text(tag);
        self.end();
    }

    pub(super) fn parameter(&mut self, name: &str, value: &str) {
        self.begin(b'S');
        self.text(name);
        self.text(value);
        self.end();
    }

    pub(super) fn ready(&mut self, status: u8) {
        self.begin(b'Z');
        self.raw(&[status]);
        self.end();
    }

    pub(super) fn columns<'c>(&mut self, columns: impl ExactSizeIterator<Item = Described<'c>>) {
        self.begin(b'T');
        self.i16(i16::try_from(columns.len()).unwrap_or(i16::MAX));
        for (name, oid, size, format) in columns {
            self.text(name);
            self.i32(0);
            self.i16(0);
            self.i32(oid.cast_signed());
            self.i16(size);
            self.i32(-1);
            self.i16(format);
        }
        self.end();
    }

    pub(super) fn parameters(&mut self, oids: &[u32]) {
        self.begin(b't');
        self.i16(i16::try_from(oids.len()).unwrap_or(i16::MAX));
        for oid in oids {
            self.i32(oid.cast_signed());
        }
        self.end();
    }
}
