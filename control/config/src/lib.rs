//! The TOML file: schema, validation, conversion to domain types
