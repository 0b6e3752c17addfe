//! Text files, compressed or not.

use super::Error;
use flate2::read::MultiGzDecoder;
use std::fs::File;
use std::io::Read;
use std::path::Path;

/// The text of the file at `path`, decompressed when its name ends in `.gz`.
///
/// # Errors
/// It cannot be read, or it is no text.
pub fn read(path: &Path) -> Result<String, Error> {
    let error = |error| Error::new(path.display(), error);
    let mut file = File::open(path).map_err(error)?;
    let mut text = String::new();
    if path.extension().is_some_and(|extension| extension == "gz") {
        MultiGzDecoder::new(file).read_to_string(&mut text).map_err(error)?;
    } else {
        file.read_to_string(&mut text).map_err(error)?;
    }
    Ok(text)
}
