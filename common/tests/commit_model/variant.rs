//! The protocol variants under test, by the letters of the store study.

/// What happens to old commit records.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) enum Trim {
    Never,
    /// A boundary is published, then the records up to it are deleted.
    Delete,
    /// A boundary is published, then the records up to it are overwritten with tombstones.
    Tombstone,
}

/// How a reader concludes that it has seen everything that was acknowledged.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) enum Freshness {
    NotClaimed,
    /// The next record does not exist.
    Absence,
    /// The next record does not exist, and then the boundary is not ahead of the reader.
    AbsenceThenBoundary,
}

/// One protocol: which of its parts are switched on.
#[derive(Clone, Copy)]
pub(crate) struct Variant {
    pub(crate) name: &'static str,
    /// The store refuses to create a record that exists; otherwise the last put wins.
    pub(crate) create_only: bool,
    /// A shipper whose create was refused reads the record, and knows its own by the nonce.
    pub(crate) compares_nonce: bool,
    pub(crate) trim: Trim,
    /// A shipper reads the boundary before it trusts that its create counts.
    pub(crate) shipper_checks_boundary: bool,
    /// A reader reads the boundary before it applies a record.
    pub(crate) reader_checks_boundary: bool,
    pub(crate) freshness: Freshness,
    /// Without a reader the counterexample is about shippers alone.
    pub(crate) has_reader: bool,
}

/// What Sealcast does.
pub(crate) const A: Variant = Variant {
    name: "A: create-only log, never trimmed",
    create_only: true,
    compares_nonce: true,
    trim: Trim::Never,
    shipper_checks_boundary: false,
    reader_checks_boundary: false,
    freshness: Freshness::NotClaimed,
    has_reader: true,
};

/// What Sealcast's replicas claim on top of it.
pub(crate) const A_PRIME: Variant =
    Variant { name: "A': A and freshness by absence", freshness: Freshness::Absence, ..A };

pub(crate) const B: Variant = Variant { name: "B: no conditional put", create_only: false, ..A };

pub(crate) const C: Variant =
    Variant { name: "C: an existing record is taken for a conflict", compares_nonce: false, ..A };

pub(crate) const D: Variant = Variant {
    name: "D: old records are deleted, nobody checks the boundary",
    trim: Trim::Delete,
    has_reader: false,
    ..A
};

pub(crate) const E: Variant = Variant {
    name: "E: old records are deleted, only shippers check the boundary",
    trim: Trim::Delete,
    shipper_checks_boundary: true,
    ..A
};

pub(crate) const F: Variant = Variant {
    name: "F: old records are deleted, shippers and readers check the boundary",
    reader_checks_boundary: true,
    ..E
};

pub(crate) const G: Variant =
    Variant { name: "G: F and freshness by absence", freshness: Freshness::Absence, ..F };

pub(crate) const H: Variant = Variant {
    name: "H: F and freshness by absence, then the boundary",
    freshness: Freshness::AbsenceThenBoundary,
    ..F
};

pub(crate) const I: Variant =
    Variant { name: "I: old records become tombstones", trim: Trim::Tombstone, ..A };

pub(crate) const J: Variant =
    Variant { name: "J: I and freshness by absence", freshness: Freshness::Absence, ..I };
