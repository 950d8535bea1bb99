//! Reads the dependency entries of a `Cargo.toml`.
//!
//! Only what the rules need: section headers, `name = …` and `name.key = …` entries with values
//! that may run over several lines, and `[dependencies.name]` tables.

/// One dependency as written.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Dependency {
    /// The name on the left; an alias when `spec` renames a package.
    pub name: String,
    /// Everything on the right, with `key = value` of dotted keys and tables; spaces removed.
    pub spec: String,
    /// One-based line of the first part.
    pub line: usize,
    /// The table that it stands in, such as `dev-dependencies`.
    pub table: String,
}

impl Dependency {
    /// The package that is meant, behind an alias.
    pub fn package(&self) -> &str {
        let renamed = self.spec.split_once("package=\"").and_then(|(_, rest)| rest.split_once('"'));
        renamed.map_or(&self.name, |(package, _)| package)
    }

    /// Whether this is the workspace's own entry, where versions belong.
    pub fn is_shared(&self) -> bool {
        self.table == "workspace.dependencies"
    }
}

/// Every dependency of a manifest, in order.
pub fn dependencies(text: &str) -> Vec<Dependency> {
    let mut found: Vec<Dependency> = Vec::new();
    let mut section = Section::default();
    for (line, statement) in statements(text) {
        if let Some(header) = statement.strip_prefix('[') {
            section = Section::parse(header.trim_end_matches(']'));
            continue;
        }
        let Some((key, value)) = statement.split_once('=').filter(|_| section.dependencies) else {
            continue;
        };
        let (name, spec, partial) = match (&section.name, key.split_once('.')) {
            (Some(name), _) => (name.clone(), statement.clone(), true),
            (None, Some((name, rest))) => (unquoted(name), format!("{rest}={value}"), true),
            (None, None) => (unquoted(key), value.to_owned(), false),
        };
        let table = section.table.clone();
        match found.iter_mut().find(|known| known.name == name && known.table == table) {
            Some(known) if partial => known.spec = format!("{},{spec}", known.spec),
            _ => found.push(Dependency { name, spec, line, table }),
        }
    }
    found
}

/// Whether the manifest opens a workspace of its own.
pub fn is_workspace(text: &str) -> bool {
    statements(text).iter().any(|(_, statement)| statement == "[workspace]")
}

/// The table that a line stands in.
#[derive(Default)]
struct Section {
    dependencies: bool,
    table: String,
    /// The dependency that the whole table describes, as in `[dependencies.name]`.
    name: Option<String>,
}

impl Section {
    fn parse(header: &str) -> Self {
        let is_table = |part: &str| part.ends_with("dependencies");
        let (table, name) = match header.rsplit_once('.') {
            Some((table, name)) if is_table(table) => (table, Some(unquoted(name))),
            _ => (header, None),
        };
        Self { dependencies: is_table(table), table: table.to_owned(), name }
    }
}

fn unquoted(name: &str) -> String {
    name.trim_matches(['"', '\'']).to_owned()
}

/// The manifest's statements without comments and spaces; brackets join lines.
fn statements(text: &str) -> Vec<(usize, String)> {
    let mut found = Vec::new();
    let (mut pending, mut first) = (String::new(), 0);
    for (at, line) in text.lines().enumerate() {
        let bare: String = uncommented(line).chars().filter(|c| !c.is_whitespace()).collect();
        if pending.is_empty() {
            first = at + 1;
        }
        pending.push_str(&bare);
        if balanced(&pending) && !pending.is_empty() {
            found.push((first, std::mem::take(&mut pending)));
        }
    }
    found
}

fn uncommented(line: &str) -> &str {
    let mut quoted = false;
    for (at, c) in line.char_indices() {
        match c {
            '"' => quoted = !quoted,
            '#' if !quoted => return &line[..at],
            _ => {}
        }
    }
    line
}

fn balanced(statement: &str) -> bool {
    let count = |set: [char; 2]| statement.matches(set).count();
    count(['[', '{']) == count([']', '}'])
}
