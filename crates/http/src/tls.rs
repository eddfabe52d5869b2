//! TLS (RFC 8446, RFC 5246), for who serves over TCP and for who asks there, and
//! [mutual](Mutual) among those of one authority. Certificates are read again when their
//! files change.

mod mutual;
mod renewed;

use std::fmt;
use std::io;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use tokio::net::TcpStream;
use tokio_rustls::rustls::pki_types::pem::{self, PemObject};
use tokio_rustls::rustls::pki_types::{
    CertificateDer, InvalidDnsNameError, PrivateKeyDer, ServerName,
};
use tokio_rustls::rustls::{self, ClientConfig, RootCertStore, ServerConfig};
use tokio_rustls::{TlsAcceptor, TlsConnector, client, server};

pub use self::mutual::{CertificateFiles, Mutual, SecureStream, Shown};
use self::renewed::Renewed;

/// Why a certificate or a key cannot be used.
#[derive(Debug, thiserror::Error)]
#[error("{}: {reason}", .file.display())]
pub struct TlsError {
    /// The file.
    file: PathBuf,
    /// What is wrong.
    reason: String,
}

impl TlsError {
    fn of(file: &Path, reason: impl fmt::Display) -> TlsError {
        TlsError { file: file.to_owned(), reason: reason.to_string() }
    }
}

/// What a server shows.
#[derive(Clone)]
pub struct Identity(Arc<Renewed<TlsAcceptor>>);

impl fmt::Debug for Identity {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Identity")
    }
}

impl Identity {
    /// Reads a certificate, with those between it and one that clients know behind it, and
    /// its key, both in PEM (RFC 7468).
    ///
    /// # Errors
    /// [`TlsError`].
    pub fn load(certificate: &Path, key: &Path) -> Result<Identity, TlsError> {
        let files = [certificate, key].map(Path::to_owned);
        let [certificate, key] = files.clone();
        let read = move || {
            let (chain, private) = pair(&certificate, &key)?;
            let builder = ServerConfig::builder().with_no_client_auth();
            let configuration = builder.with_single_cert(chain, private);
            let configuration = configuration.map_err(unfit(&certificate, &key))?;
            Ok(TlsAcceptor::from(Arc::new(configuration)))
        };
        Ok(Identity(Arc::new(Renewed::read(files.to_vec(), read)?)))
    }

    /// Greets a client.
    pub(crate) async fn greet(&self, stream: TcpStream) -> io::Result<Greeted> {
        let mut first = [0];
        stream.peek(&mut first).await?;
        if first[0].is_ascii_alphabetic() {
            return Ok(Greeted::Plain(stream));
        }
        Ok(Greeted::Secure(self.0.current().accept(stream).await?.into()))
    }
}

/// A client that was greeted.
pub(crate) enum Greeted {
    /// It speaks TLS.
    Secure(Box<server::TlsStream<TcpStream>>),
    /// It begins with the name of a method.
    Plain(TcpStream),
}

/// Whom a client believes.
#[derive(Clone)]
pub struct Trust(Arc<ClientConfig>);

impl fmt::Debug for Trust {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Trust")
    }
}

impl Trust {
    /// Believes those whose certificate is one of these, or was signed by one of them.
    ///
    /// # Errors
    /// [`TlsError`].
    pub fn load(file: &Path) -> Result<Trust, TlsError> {
        let builder = ClientConfig::builder().with_root_certificates(roots(file)?);
        Ok(Trust(Arc::new(builder.with_no_client_auth())))
    }

    /// Greets the server at `address`, which is `HOST:PORT`.
    pub(crate) async fn connect(
        &self,
        address: &str,
        stream: TcpStream,
    ) -> io::Result<client::TlsStream<TcpStream>> {
        let host = address.rsplit_once(':').map_or(address, |(host, _)| host);
        let host = host.trim_start_matches('[').trim_end_matches(']').to_owned();
        let name = ServerName::try_from(host).map_err(|error: InvalidDnsNameError| {
            io::Error::new(io::ErrorKind::InvalidInput, error)
        })?;
        let connected = TlsConnector::from(self.0.clone()).connect(name, stream).await;
        connected.map_err(|error| match tls_error(&error) {
            Some(rustls::Error::InvalidMessage(_)) => {
                io::Error::other("TLS is not spoken there: use http://")
            }
            _ => error,
        })
    }
}

fn tls_error(error: &io::Error) -> Option<&rustls::Error> {
    error.get_ref()?.downcast_ref()
}

/// A certificate with those between it and its authority, and its key.
fn pair(
    certificate: &Path,
    key: &Path,
) -> Result<(Vec<CertificateDer<'static>>, PrivateKeyDer<'static>), TlsError> {
    let chain = certificates(certificate)?;
    let private = PrivateKeyDer::from_pem_file(key)
        .map_err(|error| TlsError::of(key, said(&error, "no private key in PEM is in it")))?;
    Ok((chain, private))
}

/// What is wrong when certificate and key are not taken.
fn unfit<'a>(certificate: &'a Path, key: &'a Path) -> impl Fn(rustls::Error) -> TlsError + 'a {
    move |error| match error {
        rustls::Error::InconsistentKeys(_) => {
            TlsError::of(key, format!("is not the key of {}", certificate.display()))
        }
        other => TlsError::of(certificate, other),
    }
}

fn roots(file: &Path) -> Result<RootCertStore, TlsError> {
    let mut roots = RootCertStore::empty();
    for certificate in certificates(file)? {
        roots.add(certificate).map_err(|error| TlsError::of(file, error))?;
    }
    Ok(roots)
}

fn certificates(file: &Path) -> Result<Vec<CertificateDer<'static>>, TlsError> {
    const NONE: &str = "no certificate in PEM is in it";
    let read = CertificateDer::pem_file_iter(file).and_then(Iterator::collect::<Result<Vec<_>, _>>);
    let certificates = read.map_err(|error| TlsError::of(file, said(&error, NONE)))?;
    if certificates.is_empty() {
        return Err(TlsError::of(file, NONE));
    }
    Ok(certificates)
}

fn said(error: &pem::Error, none: &str) -> String {
    match error {
        pem::Error::NoItemsFound => none.to_owned(),
        pem::Error::Io(reason) => reason.to_string(),
        other => format!("{none}: {other}"),
    }
}
