# The commands of everyday work; everything is also a plain command. `just` lists them.

default:
    @just --list

# The first thing to see: events in, sealed, shipped, verified, queried.
demo *args:
    cargo run -- demo {{ args }}

# All roles in one process until Ctrl-C.
dev *args:
    cargo run -- dev {{ args }}

# After every edit: format, the tree's rules, lints.
check:
    cargo fmt --all --check
    cargo test -p sealcast-tidy
    cargo clippy --workspace --all-targets --locked -- -D warnings

# Every test; arguments select, as in `just test crash`.
test *args:
    scripts/test {{ args }}

# Tests that start whole roles.
cluster *args:
    scripts/test -p sealcast-tests {{ args }}

# What must hold before a change is accepted.
gate:
    .ci/run

fmt:
    cargo fmt --all

# The library's documentation, warnings denied.
docs:
    cargo doc --workspace --no-deps --locked

# Licences, advisories and sources of the dependencies (needs cargo-deny).
deny:
    cargo deny --locked check

# What is shipped: thin LTO, stripped.
dist:
    cargo build --locked --profile dist --workspace --bins

# The Python environment of the tests.
setup:
    scripts/setup
