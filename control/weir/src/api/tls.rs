//! TLS by files that are read again when they change, so that a certificate is renewed without a restart.

use super::files::{Files, secret};
use crate::say::complain;
use anyhow::{Context, Result};
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, PoisonError};
use tokio_rustls::TlsAcceptor;
use tokio_rustls::rustls::ServerConfig;
use tokio_rustls::rustls::crypto::ring;
use tokio_rustls::rustls::pki_types::pem::PemObject;
use tokio_rustls::rustls::pki_types::{CertificateDer, PrivateKeyDer};

/// A certificate and its key.
pub struct Tls {
    cert: PathBuf,
    key: PathBuf,
    known: Mutex<Known>,
}

struct Known {
    files: Files,
    config: Arc<ServerConfig>,
}

impl Tls {
    /// What these files hold.
    ///
    /// # Errors
    /// They cannot be read, do not go together, or the key is readable by everybody.
    pub fn open(cert: &Path, key: &Path) -> Result<Self> {
        let (cert, key) = (cert.to_owned(), key.to_owned());
        let files = Files::new(vec![cert.clone(), key.clone()]);
        let known = Mutex::new(Known { files, config: read(&cert, &key)? });
        Ok(Self { cert, key, known })
    }

    /// Encrypts the next connection. Files that are wrong now are told of, and the last ones stay.
    pub fn acceptor(&self) -> TlsAcceptor {
        let mut known = self.known.lock().unwrap_or_else(PoisonError::into_inner);
        if known.files.have_changed() {
            match read(&self.cert, &self.key) {
                Ok(config) => known.config = config,
                Err(error) => complain(&format!("weir: warning: the last certificate stays: {error:#}")),
            }
        }
        known.config.clone().into()
    }
}

fn read(cert: &Path, key: &Path) -> Result<Arc<ServerConfig>> {
    let chain: Vec<_> = CertificateDer::pem_file_iter(cert)
        .and_then(Iterator::collect)
        .with_context(|| format!("tls-cert: {}: is no certificate in PEM", cert.display()))?;
    let private = PrivateKeyDer::from_pem_slice(&secret(key, 0o007).context("tls-key")?)
        .with_context(|| format!("tls-key: {}: is no private key in PEM", key.display()))?;
    let config = ServerConfig::builder_with_provider(Arc::new(ring::default_provider()))
        .with_safe_default_protocol_versions()?
        .with_no_client_auth()
        .with_single_cert(chain, private)
        .with_context(|| format!("{} and {} cannot be used", cert.display(), key.display()))?;
    Ok(Arc::new(config))
}
