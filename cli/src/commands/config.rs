//! `sealcast config check | show`: is it right, and what holds.

use std::path::Path;

use crate::args::{ConfigCommand, RolesArgs};
use crate::output::{Failure, failed, line, note};
use crate::settings::{Fault, Section, SettingsFile, given, in_force, shown};

/// Exit code for "cannot be checked".
const CANNOT_CHECK: u8 = 2;

pub(crate) fn run(command: &ConfigCommand, file: Option<&Path>) -> Result<u8, Failure> {
    let read = match file.map(SettingsFile::read).transpose() {
        Ok(read) => read,
        Err(error) => return Err(failed(error).code(CANNOT_CHECK)),
    };
    match command {
        ConfigCommand::Check(roles) => Ok(check(roles, read.as_ref(), file)),
        ConfigCommand::Show { roles, origin } => Ok(show(roles, read.as_ref(), *origin)),
    }
}

type Settings = Vec<(String, toml::Value, crate::settings::Origin)>;

/// Settings by section, and everything that is wrong.
fn read_all(
    roles: &RolesArgs,
    file: Option<&SettingsFile>,
) -> (Vec<(Section, Settings)>, Vec<Fault>) {
    let mut faults = file.map_or_else(Vec::new, |file| file.faults.clone());
    let mut settings = Vec::new();
    for section in sections(roles) {
        let flags: &[String] = if roles.role.is_empty() { &[] } else { &roles.flags };
        match given(section, file, flags) {
            Err(fault) => faults.push(fault),
            Ok(given) => match in_force(section, &given) {
                Ok(in_force) => settings.push((section, in_force)),
                Err(found) => faults.extend(found),
            },
        }
    }
    (settings, faults)
}

fn sections(roles: &RolesArgs) -> Vec<Section> {
    match roles.role.as_slice() {
        [] => Section::ALL.to_vec(),
        named => named.to_vec(),
    }
}

fn told(faults: &[Fault]) -> u8 {
    let line_of =
        |fault: &&Fault| fault.place.rsplit(':').next().and_then(|line| line.parse().ok());
    let mut sorted: Vec<&Fault> = faults.iter().collect();
    sorted.sort_by_key(|fault| line_of(fault).unwrap_or(0_usize));
    for fault in sorted {
        note(format!("{}: {}", fault.place, fault.message));
    }
    note(match faults.len() {
        1 => "1 error".to_owned(),
        many => format!("{many} errors"),
    });
    crate::FAILED
}

fn check(roles: &RolesArgs, file: Option<&SettingsFile>, path: Option<&Path>) -> u8 {
    let (settings, faults) = read_all(roles, file);
    if !faults.is_empty() {
        return told(&faults);
    }
    let names: Vec<_> = settings.iter().map(|(role, _)| format!("[{}]", role.name())).collect();
    let source = path.map_or("no file, defaults".to_owned(), |path| path.display().to_string());
    line(format!("ok: {} ({source})", names.join(" ")));
    0
}

fn show(roles: &RolesArgs, file: Option<&SettingsFile>, origins: bool) -> u8 {
    let (settings, faults) = read_all(roles, file);
    if !faults.is_empty() {
        return told(&faults);
    }
    for (at, (role, settings)) in settings.iter().enumerate() {
        if at > 0 {
            line("");
        }
        line(format!("[{}]", role.name()));
        for (key, value, origin) in settings {
            let text = format!("{key} = {}", shown(value));
            line(if origins { format!("{text:<48} # {origin}") } else { text });
        }
        let is_set = |key: &str| settings.iter().any(|(set, ..)| set == key);
        for key in role.defaults().keys().filter(|key| !is_set(key)) {
            line(format!("# {key} = (none)"));
        }
    }
    0
}
