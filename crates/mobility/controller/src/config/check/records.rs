//! Checks where records are kept.

use std::net::IpAddr;
use std::time::Duration;

use weft_http::tls::CertificateFiles;
use weft_yaml::locate::Source;
use weft_yaml::mistake::Mistake;

use super::super::yaml::{ControllerFile, EtcdFile, MutualFile, ReplicaFile};
use super::super::{Records, Replica};
use super::{name, path};

/// Members of etcd that a file may name.
const MOST_MEMBERS: usize = 64;

/// Where records are kept, and what is probably not meant.
pub fn records(
    file: &ControllerFile,
    source: &mut Source<'_>,
) -> (Option<Records>, Option<Mistake>) {
    match (&file.records, &file.etcd, &file.replica) {
        (Some(folder), None, None) => {
            path(folder, "records", source);
            (Some(Records::Folder(folder.into())), None)
        }
        (None, Some(etcd), Some(replica)) => etcd_records(file, etcd, replica, source),
        (None, Some(_), None) => {
            let hint = "replicas of a controller have names of their own: `replica: {name: NAME}`";
            source.wrong("etcd", "with `etcd` there is a `replica`").hint(hint);
            (None, None)
        }
        (Some(_), Some(_), _) => {
            source.wrong("etcd", "records are either in a folder or in etcd, not in both");
            (None, None)
        }
        (Some(_), None, Some(_)) => {
            source
                .wrong("replica", "replicas share records: give `etcd` in the place of `records`");
            (None, None)
        }
        (None, None, _) => {
            source
                .wrong("metadata", "where records are kept is not said: give `records` or `etcd`");
            (None, None)
        }
    }
}

fn etcd_records(
    file: &ControllerFile,
    etcd: &EtcdFile,
    replica: &ReplicaFile,
    source: &mut Source<'_>,
) -> (Option<Records>, Option<Mistake>) {
    name(&replica.name, "replica.name", source);
    if let Some(address) = &replica.address
        && host(address).is_none()
    {
        let message = format!("`{address}` is not https://HOST:PORT or http://HOST:PORT");
        source.wrong("replica.address", message);
    }
    if !(1..=MOST_MEMBERS).contains(&etcd.endpoints.len()) {
        source.wrong("etcd.endpoints", format!("1 to {MOST_MEMBERS} members are named"));
    }
    let (mut is_far, mut is_plain) = (false, false);
    for (nth, endpoint) in etcd.endpoints.iter().enumerate() {
        let at = format!("etcd.endpoints.{nth}");
        let Some(host) = host(endpoint) else {
            let message = format!("`{endpoint}` is not https://HOST:PORT or http://HOST:PORT");
            source.wrong(&at, message);
            continue;
        };
        let plain = endpoint.starts_with("http://");
        if plain && etcd.tls.is_some() {
            source.wrong(&at, "there are certificates for etcd, so it is https://");
        }
        if !plain && etcd.tls.is_none() {
            source.wrong(&at, "https:// needs `etcd.tls`: the own certificate and the authority");
        }
        is_plain |= plain;
        is_far |= plain && etcd.tls.is_none() && !is_loopback(host);
    }
    if !(1..=60).contains(&etcd.lease) {
        source.wrong("etcd.lease", format!("must be 1 to 60 seconds, not {}", etcd.lease));
    }
    let tls = etcd.tls.as_ref().map(|MutualFile { certificate, key, authority }| {
        for (at, text) in [("certificate", certificate), ("key", key), ("authority", authority)] {
            path(text, &format!("etcd.tls.{at}"), source);
        }
        let [certificate, key, authority] = [certificate, key, authority].map(Into::into);
        CertificateFiles { certificate, key, authority }
    });
    let warning = plain_text(is_far, is_plain, etcd.plaintext, source);
    let records = Records::Etcd(Replica {
        name: replica.name.clone(),
        address: replica.address.as_ref().map(|url| url.trim_end_matches('/').to_owned()),
        etcd: weft_etcd::Options {
            endpoints: etcd.endpoints.clone(),
            tls,
            prefix: format!("/weft/{}/", file.metadata.name),
        },
        lease: Duration::from_secs(etcd.lease),
    });
    (Some(records), warning)
}

/// What there is to say of an etcd without certificates.
fn plain_text(
    is_far: bool,
    is_plain: bool,
    allowed: bool,
    source: &mut Source<'_>,
) -> Option<Mistake> {
    if is_far && !allowed {
        let message = "etcd would be spoken to in plain text, and who can do that decides which \
                       node owns which user";
        let hint = "give `etcd.tls`; `etcd.plaintext: true` is for a network that is trusted";
        source.wrong("etcd", message).hint(hint);
    } else if is_far {
        source
            .wrong("etcd.plaintext", "etcd is spoken to in plain text")
            .hint("give `etcd.tls` instead");
        // It is none that keeps the controller from starting.
        return source.mistakes.pop();
    } else if allowed && !is_plain {
        source.wrong("etcd.plaintext", "no member of etcd is spoken to in plain text");
    }
    None
}

/// The host of a URL without a path.
fn host(url: &str) -> Option<&str> {
    let rest = url.strip_prefix("https://").or_else(|| url.strip_prefix("http://"))?;
    let (host, port) = rest.trim_end_matches('/').rsplit_once(':')?;
    let is_right = !host.is_empty()
        && host.len() < 256
        && !host.contains(|c: char| c.is_whitespace() || c.is_control() || "/@?#".contains(c))
        && port.parse::<u16>().is_ok_and(|port| port > 0);
    is_right.then_some(host)
}

fn is_loopback(host: &str) -> bool {
    let ip = host.trim_matches(['[', ']']).parse::<IpAddr>();
    ip.map_or(host == "localhost", |ip| ip.is_loopback())
}
