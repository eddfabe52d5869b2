//! `weft ctl certificates`: a small authority, for those who have none.

use std::fs;
use std::io::{ErrorKind, Write};
use std::os::unix::fs::{DirBuilderExt, OpenOptionsExt};
use std::path::{Path, PathBuf};

use rcgen::{
    BasicConstraints, CertificateParams, DistinguishedName, DnType, ExtendedKeyUsagePurpose, IsCa,
    Issuer, KeyPair, KeyUsagePurpose,
};
use time::{Duration, OffsetDateTime};
use weft_http::tls::Mutual;

use crate::failure::Failure;
use crate::output;

/// Files of the authority.
const AUTHORITY: &str = "authority";
/// What the authority is called in its certificate.
const COMMON_NAME: &str = "Weft authority";
/// Clocks of nodes may be behind by so much.
const BEFORE: Duration = Duration::hours(1);
/// Most days that a certificate may be valid.
const MOST_DAYS: u16 = 36_500;

#[derive(clap::Subcommand)]
pub enum CertificateCommand {
    /// Make the authority: a folder with its certificate and its key
    Init {
        #[command(flatten)]
        folder: Folder,
        /// How many days its certificate is valid
        #[arg(long, default_value_t = 3650, value_parser = clap::value_parser!(u16).range(1..=i64::from(MOST_DAYS)))]
        days: u16,
    },
    /// Issue certificates, each with a new key; those of that name are replaced
    Issue {
        #[command(flatten)]
        folder: Folder,
        /// Names of nodes and of the controller, as their configurations say them
        #[arg(value_name = "NAME", required = true)]
        names: Vec<String>,
        /// How many days they are valid
        #[arg(long, default_value_t = 365, value_parser = clap::value_parser!(u16).range(1..=i64::from(MOST_DAYS)))]
        days: u16,
    },
}

#[derive(clap::Args)]
pub struct Folder {
    /// Where the files are
    #[arg(long = "folder", value_name = "FOLDER", default_value = "certificates")]
    path: PathBuf,
}

/// Does it.
///
/// # Errors
/// When there is an authority already, or none, or a file cannot be written.
pub fn run(what: CertificateCommand) -> Result<(), Failure> {
    match what {
        CertificateCommand::Init { folder, days } => init(&folder.path, days),
        CertificateCommand::Issue { folder, names, days } => issue(&folder.path, &names, days),
    }
}

fn init(folder: &Path, days: u16) -> Result<(), Failure> {
    let made = fs::DirBuilder::new().recursive(true).mode(0o700).create(folder);
    made.map_err(|error| at(folder, error))?;
    let [certificate, key] = files(folder, AUTHORITY);
    for file in [&certificate, &key] {
        if file.exists() {
            let reason = "there is an authority already; its nodes would trust a new one no more";
            return Err(at(file, reason));
        }
    }
    let pair = KeyPair::generate().map_err(Failure::broken)?;
    let signed = authority(days).self_signed(&pair).map_err(Failure::broken)?;
    write(&key, &pair.serialize_pem(), 0o600)?;
    write(&certificate, &signed.pem(), 0o644)?;
    output::line(&format!(
        "{}: give it to all; {}: keep it, and give it to none",
        certificate.display(),
        key.display()
    ))
}

fn issue(folder: &Path, names: &[String], days: u16) -> Result<(), Failure> {
    let [_, key] = files(folder, AUTHORITY);
    let pem = fs::read_to_string(&key).map_err(|error| match error.kind() {
        ErrorKind::NotFound => at(&key, "there is no authority: `weft ctl certificates init`"),
        _ => at(&key, error),
    })?;
    let pair = KeyPair::from_pem(&pem).map_err(|error| at(&key, error))?;
    for name in names {
        if name == AUTHORITY || !Mutual::can_name(name) {
            return Err(Failure::input(format!("`{name}` cannot be the name of a certificate")));
        }
    }
    // What a signature says of the authority is its name, and that is always the same.
    let signer = Issuer::new(authority(1), pair);
    for name in names {
        let [certificate, key] = files(folder, name);
        let pair = KeyPair::generate().map_err(Failure::broken)?;
        let signed = leaf(name, days).and_then(|leaf| leaf.signed_by(&pair, &signer));
        let signed = signed.map_err(Failure::broken)?;
        write(&key, &pair.serialize_pem(), 0o600)?;
        write(&certificate, &signed.pem(), 0o644)?;
        let (certificate, key) = (certificate.display(), key.display());
        output::line(&format!("{name}: {certificate}, {key}; valid for {days} days"))?;
    }
    Ok(())
}

fn authority(days: u16) -> CertificateParams {
    let mut parameters = valid(CertificateParams::default(), days);
    parameters.distinguished_name = called(COMMON_NAME);
    parameters.is_ca = IsCa::Ca(BasicConstraints::Constrained(0));
    parameters.key_usages = vec![KeyUsagePurpose::KeyCertSign, KeyUsagePurpose::CrlSign];
    parameters
}

fn leaf(name: &str, days: u16) -> Result<CertificateParams, rcgen::Error> {
    let mut parameters = valid(CertificateParams::new([name.to_owned()])?, days);
    parameters.distinguished_name = called(name);
    parameters.key_usages = vec![KeyUsagePurpose::DigitalSignature];
    // Each is dialled, and dials.
    parameters.extended_key_usages =
        vec![ExtendedKeyUsagePurpose::ServerAuth, ExtendedKeyUsagePurpose::ClientAuth];
    Ok(parameters)
}

fn valid(mut parameters: CertificateParams, days: u16) -> CertificateParams {
    let now = OffsetDateTime::now_utc();
    parameters.not_before = now - BEFORE;
    parameters.not_after = now + Duration::days(days.into());
    parameters
}

fn called(name: &str) -> DistinguishedName {
    let mut called = DistinguishedName::new();
    called.push(DnType::CommonName, name);
    called
}

/// Certificate and key of a name.
fn files(folder: &Path, name: &str) -> [PathBuf; 2] {
    [folder.join(format!("{name}.pem")), folder.join(format!("{name}-key.pem"))]
}

/// Writes a file beside its place and puts it there whole: who reads it meanwhile reads the one
/// before.
fn write(file: &Path, text: &str, mode: u32) -> Result<(), Failure> {
    let new = file.with_extension("pem.new");
    let written = (|| {
        let _ = fs::remove_file(&new);
        let mut open = fs::OpenOptions::new();
        let mut opened = open.write(true).create_new(true).mode(mode).open(&new)?;
        opened.write_all(text.as_bytes())?;
        opened.sync_all()?;
        fs::rename(&new, file)
    })();
    written.map_err(|error| at(file, error))
}

fn at(file: &Path, reason: impl std::fmt::Display) -> Failure {
    Failure::input(format!("{}: {reason}", file.display()))
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::PermissionsExt;

    use weft_http::tls::CertificateFiles;

    use super::*;

    #[test]
    fn an_authority_issues_certificates_that_only_their_owner_can_use() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("site");
        let names = ["gateway".to_owned(), "station-a".to_owned()];
        let said = |failure: Result<(), Failure>| format!("{:?}", failure.unwrap_err());
        assert!(said(issue(&path, &names, 9)).contains("certificates init"));
        init(&path, 30).unwrap();
        assert!(said(init(&path, 30)).contains("there is an authority already"));
        issue(&path, &names, 9).unwrap();
        for wrong in ["authority", "", "a b", "10.0.0.1"] {
            assert!(issue(&path, &[wrong.to_owned()], 9).is_err(), "{wrong}");
        }
        let mode = |name: &str| fs::metadata(path.join(name)).unwrap().permissions().mode() & 0o777;
        assert_eq!(mode("authority-key.pem"), 0o600);
        assert_eq!([mode("gateway-key.pem"), mode("gateway.pem")], [0o600, 0o644]);
        let of = |name: &str| CertificateFiles {
            certificate: format!("{name}.pem").into(),
            key: format!("{name}-key.pem").into(),
            authority: "authority.pem".into(),
        };
        Mutual::load("gateway", &of("gateway").within(&path)).unwrap();
        let wrong = Mutual::load("station-a", &of("gateway").within(&path)).unwrap_err();
        assert!(wrong.to_string().contains("it is not of the name `station-a`"), "{wrong}");
        // Another authority of the same name did not sign it.
        let other = folder.path().join("other");
        init(&other, 30).unwrap();
        let mixed = CertificateFiles {
            authority: other.join("authority.pem"),
            ..of("gateway").within(&path)
        };
        assert!(Mutual::load("gateway", &mixed).is_err());
    }
}
