//! A cpio archive as the kernel unpacks it at boot ("newc": `buffer-format.rst` in its documentation).
//!
//! Contract: folders are made before what lies in them; a path added twice is kept once.

use std::collections::BTreeSet;

use anyhow::{Context, Result};

/// An archive under construction, in memory.
#[derive(Debug, Default)]
pub struct Archive {
    bytes: Vec<u8>,
    paths: BTreeSet<String>,
}

impl Archive {
    /// Adds a folder with the folders above it.
    pub fn folder(&mut self, path: &str) -> Result<()> {
        self.entry(path, FOLDER | 0o755, (0, 0), &[])
    }

    /// Adds a file; `mode` are its permissions.
    pub fn file(&mut self, path: &str, mode: u32, content: &[u8]) -> Result<()> {
        self.entry(path, FILE | (mode & 0o7777), (0, 0), content)
    }

    /// Adds a symbolic link.
    pub fn link(&mut self, path: &str, target: &str) -> Result<()> {
        self.entry(path, LINK | 0o777, (0, 0), target.as_bytes())
    }

    /// Adds a character device.
    pub fn device(&mut self, path: &str, major: u32, minor: u32) -> Result<()> {
        self.entry(path, DEVICE | 0o600, (major, minor), &[])
    }

    /// The archive with its end mark.
    pub fn finish(mut self) -> Result<Vec<u8>> {
        self.record("TRAILER!!!", 0, (0, 0), &[])?;
        // Another archive may follow, at a multiple of 4.
        Ok(self.bytes)
    }

    fn entry(&mut self, path: &str, mode: u32, device: (u32, u32), content: &[u8]) -> Result<()> {
        let path = path.trim_matches('/');
        if path.is_empty() || self.paths.contains(path) {
            return Ok(());
        }
        if let Some((above, _)) = path.rsplit_once('/') {
            self.folder(above)?;
        }
        self.paths.insert(path.to_owned());
        self.record(path, mode, device, content)
    }

    fn record(&mut self, name: &str, mode: u32, (major, minor): (u32, u32), content: &[u8]) -> Result<()> {
        let inode = self.paths.len() as u32;
        let len = u32::try_from(content.len()).with_context(|| format!("{name} is too long for cpio"))?;
        let fields = [inode, mode, 0, 0, 1, 0, len, 0, 0, major, minor, name.len() as u32 + 1, 0];
        self.bytes.extend(b"070701");
        for field in fields {
            self.bytes.extend(format!("{field:08x}").bytes());
        }
        self.bytes.extend(name.bytes());
        self.bytes.push(0);
        self.pad();
        self.bytes.extend(content);
        self.pad();
        Ok(())
    }

    fn pad(&mut self) {
        self.bytes.resize(self.bytes.len().next_multiple_of(4), 0);
    }
}

/// File types of `st_mode`.
const FOLDER: u32 = 0o040000;
const FILE: u32 = 0o100000;
const LINK: u32 = 0o120000;
const DEVICE: u32 = 0o020000;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_file_comes_after_its_folders_and_once() {
        let mut archive = Archive::default();
        archive.file("/usr/bin/tool", 0o755, b"12345").unwrap();
        archive.file("usr/bin/tool", 0o755, b"other").unwrap();
        archive.link("/bin", "usr/bin").unwrap();
        let bytes = archive.finish().unwrap();
        let text = String::from_utf8_lossy(&bytes);
        let names: Vec<_> =
            text.split("070701").skip(1).map(|entry| entry[104..].split('\0').next().unwrap()).collect();
        assert_eq!(names, ["usr", "usr/bin", "usr/bin/tool", "bin", "TRAILER!!!"]);
        assert_eq!(bytes.len() % 4, 0);
        assert!(
            text.contains("tool\x00\x0012345"),
            "110 bytes of header, 13 of name and its end, 1 of padding"
        );
        assert!(!text.contains("other"));
    }
}
