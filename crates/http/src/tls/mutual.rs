//! Mutual TLS: both ends of a connection show a certificate of one authority, and each knows
//! by what name it speaks to the other.

use std::fmt;
use std::io;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use tokio::net::TcpStream;
use tokio_rustls::rustls::client::{Resumption, verify_server_name};
use tokio_rustls::rustls::pki_types::{CertificateDer, ServerName, UnixTime};
use tokio_rustls::rustls::server::danger::ClientCertVerifier;
use tokio_rustls::rustls::server::{
    NoServerSessionStorage, ParsedCertificate, WebPkiClientVerifier,
};
use tokio_rustls::rustls::version::TLS13;
use tokio_rustls::rustls::{ClientConfig, RootCertStore, ServerConfig};
use tokio_rustls::{TlsAcceptor, TlsConnector, TlsStream};

use super::renewed::Renewed;
use super::{TlsError, pair, roots, unfit};

/// A connection that is enciphered, and whose other end has shown who it is.
pub type SecureStream = TlsStream<TcpStream>;

/// Where one's own certificate is, and that of the authority of all.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct CertificateFiles {
    /// The certificate in PEM, with those between it and the authority behind it.
    pub certificate: PathBuf,
    /// Its private key in PEM.
    pub key: PathBuf,
    /// The certificates in PEM of which one has to sign those of others.
    pub authority: PathBuf,
}

impl CertificateFiles {
    /// The same files, where paths begin at `folder`.
    pub fn within(&self, folder: &Path) -> CertificateFiles {
        CertificateFiles {
            certificate: folder.join(&self.certificate),
            key: folder.join(&self.key),
            authority: folder.join(&self.authority),
        }
    }
}

/// Both roles of one who takes part.
#[derive(Clone)]
pub struct Mutual(Arc<Renewed<Ends>>);

#[derive(Clone)]
struct Ends {
    acceptor: TlsAcceptor,
    connector: TlsConnector,
}

impl fmt::Debug for Mutual {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Mutual")
    }
}

impl Mutual {
    /// Reads the certificate of `name`, its key and the authority.
    ///
    /// # Errors
    /// [`TlsError`]; also when the certificate is not of this authority, is of another name,
    /// or is not valid now.
    pub fn load(name: &str, files: &CertificateFiles) -> Result<Mutual, TlsError> {
        let CertificateFiles { certificate, key, authority } = files.clone();
        let all = vec![certificate, key, authority];
        let (name, files) = (name.to_owned(), files.clone());
        Ok(Mutual(Arc::new(Renewed::read(all, move || Ends::read(&name, &files))?)))
    }

    /// Greets who has connected; what they have shown.
    ///
    /// # Errors
    /// When they speak no TLS 1.3, or show no certificate of the authority.
    pub async fn accept(&self, stream: TcpStream) -> io::Result<(SecureStream, Shown)> {
        let stream = self.0.current().acceptor.accept(stream).await?;
        let shown = stream.get_ref().1.peer_certificates().and_then(<[_]>::first).cloned();
        // The verifier lets through no one who shows none.
        let shown = shown.ok_or_else(|| io::Error::other("no certificate was shown"))?;
        Ok((stream.into(), Shown(shown)))
    }

    /// Greets the one of that name at the other end.
    ///
    /// # Errors
    /// When the other end speaks no TLS 1.3, or shows no certificate of the authority for
    /// that name. Whether it takes ours shows when something is read.
    pub async fn connect(&self, name: &str, stream: TcpStream) -> io::Result<SecureStream> {
        let name = server_name(name)
            .ok_or_else(|| io::Error::other(format!("`{name}` is no name of a certificate")))?;
        Ok(self.0.current().connector.connect(name, stream).await?.into())
    }

    /// How often the files have changed and were read again. They are looked at once a second
    /// at most.
    pub fn renewals(&self) -> u64 {
        self.0.renewals()
    }

    /// Whether a certificate can be of this name (RFC 6125: a DNS name).
    pub fn can_name(name: &str) -> bool {
        server_name(name).is_some()
    }
}

/// The certificate that the other end has shown; it was verified.
#[derive(Clone)]
pub struct Shown(CertificateDer<'static>);

impl Shown {
    /// Whether it is of this name.
    pub fn is_of(&self, name: &str) -> bool {
        is_of(&self.0, name)
    }
}

fn is_of(certificate: &CertificateDer<'_>, name: &str) -> bool {
    let parsed = ParsedCertificate::try_from(certificate);
    let matches = |name| parsed.is_ok_and(|parsed| verify_server_name(&parsed, &name).is_ok());
    server_name(name).is_some_and(matches)
}

fn server_name(name: &str) -> Option<ServerName<'static>> {
    let name = ServerName::try_from(name.to_owned()).ok()?;
    matches!(name, ServerName::DnsName(_)).then_some(name)
}

impl Ends {
    fn read(name: &str, files: &CertificateFiles) -> Result<Ends, TlsError> {
        let CertificateFiles { certificate, key, authority } = files;
        let roots = Arc::new(roots(authority)?);
        let verifier = WebPkiClientVerifier::builder(roots.clone()).build();
        let verifier = verifier.map_err(|error| TlsError::of(authority, error))?;
        check(name, files, &*verifier)?;
        let acceptor = acceptor(verifier, certificate, key)?;
        let connector = connector(roots, certificate, key)?;
        Ok(Ends { acceptor, connector })
    }
}

/// What the others would say to our certificate, said here.
fn check(
    name: &str,
    files: &CertificateFiles,
    verifier: &dyn ClientCertVerifier,
) -> Result<(), TlsError> {
    let (chain, _) = pair(&files.certificate, &files.key)?;
    let wrong = |reason: String| TlsError::of(&files.certificate, reason);
    let [own, between @ ..] = &chain[..] else { return Err(wrong("it is empty".to_owned())) };
    verifier.verify_client_cert(own, between, UnixTime::now()).map_err(|error| {
        wrong(format!("not to be used with {}: {error}", files.authority.display()))
    })?;
    match is_of(own, name) {
        true => Ok(()),
        false => Err(wrong(format!("it is not of the name `{name}`, which is ours"))),
    }
}

fn acceptor(
    verifier: Arc<dyn ClientCertVerifier>,
    certificate: &Path,
    key: &Path,
) -> Result<TlsAcceptor, TlsError> {
    let (chain, private) = pair(certificate, key)?;
    let builder = ServerConfig::builder_with_protocol_versions(&[&TLS13]);
    let configuration =
        builder.with_client_cert_verifier(verifier).with_single_cert(chain, private);
    let mut configuration = configuration.map_err(unfit(certificate, key))?;
    // Every connection is verified anew: by the certificates of now.
    configuration.session_storage = Arc::new(NoServerSessionStorage {});
    configuration.send_tls13_tickets = 0;
    Ok(Arc::new(configuration).into())
}

fn connector(
    roots: Arc<RootCertStore>,
    certificate: &Path,
    key: &Path,
) -> Result<TlsConnector, TlsError> {
    let (chain, private) = pair(certificate, key)?;
    let builder = ClientConfig::builder_with_protocol_versions(&[&TLS13]);
    let configuration = builder.with_root_certificates(roots).with_client_auth_cert(chain, private);
    let mut configuration = configuration.map_err(unfit(certificate, key))?;
    configuration.resumption = Resumption::disabled();
    Ok(Arc::new(configuration).into())
}
