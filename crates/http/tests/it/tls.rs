//! TLS between a server and its clients, with certificates of these tests.

use std::io::{Read, Write};
use std::net::{SocketAddr, TcpStream};
use std::path::PathBuf;
use std::thread;
use std::time::Duration;

use axum::Router;
use axum::routing::{get, post};
use rcgen::{BasicConstraints, CertificateParams, IsCa, Issuer, KeyPair};
use tempfile::TempDir;
use tokio::net::TcpListener;
use tokio::runtime::Builder;
use weft_http::client::{Client, ClientError, Server};
use weft_http::connection::{Persistence, serve_remote};
use weft_http::tls::{Identity, Trust};

/// A folder with an authority that signs, and a certificate for some names.
struct Files(TempDir);

impl Files {
    fn new(names: &[&str]) -> Files {
        let files = Files(tempfile::tempdir().unwrap());
        let signer_key = KeyPair::generate().unwrap();
        let mut signer = CertificateParams::default();
        signer.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
        files.write("ca.pem", &signer.self_signed(&signer_key).unwrap().pem());
        let signer = Issuer::new(signer, signer_key);
        let key = KeyPair::generate().unwrap();
        let names: Vec<String> = names.iter().map(|name| (*name).to_owned()).collect();
        let leaf = CertificateParams::new(names).unwrap().signed_by(&key, &signer).unwrap();
        files.write("certificate.pem", &leaf.pem());
        files.write("key.pem", &key.serialize_pem());
        files
    }

    fn path(&self, name: &str) -> PathBuf {
        self.0.path().join(name)
    }

    fn write(&self, name: &str, text: &str) {
        std::fs::write(self.path(name), text).unwrap();
    }

    fn identity(&self) -> Identity {
        Identity::load(&self.path("certificate.pem"), &self.path("key.pem")).unwrap()
    }

    fn trust(&self) -> Trust {
        Trust::load(&self.path("ca.pem")).unwrap()
    }

    fn refusal(&self, certificate: &str, key: &str) -> String {
        let error = Identity::load(&self.path(certificate), &self.path(key)).unwrap_err();
        error.to_string().replace(&format!("{}/", self.0.path().display()), "")
    }
}

/// A server, for as long as the tests run.
fn server(identity: Option<Identity>) -> SocketAddr {
    let (tell, told) = std::sync::mpsc::channel();
    thread::spawn(move || {
        let runtime = Builder::new_current_thread().enable_all().build().unwrap();
        runtime.block_on(async {
            let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
            tell.send(listener.local_addr().unwrap()).unwrap();
            let echo = post(async |body: String| body);
            let app = Router::new().route("/seven", get(async || "7")).route("/echo", echo);
            let terms = (Persistence::ManyRequests, Duration::from_secs(60));
            serve_remote(listener, identity, app, terms).await;
        });
    });
    told.recv().unwrap()
}

fn ask(address: String, trust: Option<Trust>) -> Result<u32, ClientError> {
    let server = Server::Remote { address, token: "a-token-of-clients".to_owned(), trust };
    Client::of("server", server)?.get("/seven")
}

#[test]
fn who_is_signed_for_is_believed() {
    let files = Files::new(&["localhost", "127.0.0.1"]);
    let address = server(Some(files.identity()));
    assert_eq!(ask(address.to_string(), Some(files.trust())).unwrap(), 7);
    let by_name = format!("localhost:{}", address.port());
    assert_eq!(ask(by_name, Some(files.trust())).unwrap(), 7);
    // More than fits a record of TLS.
    let token = "a-token-of-clients".to_owned();
    let server = Server::Remote { address: address.to_string(), token, trust: Some(files.trust()) };
    let long = format!("\"{}\"", "x".repeat(200_000));
    let client = Client::of("server", server).unwrap();
    assert_eq!(client.post::<String>("/echo", long).unwrap().len(), 200_000);
}

#[test]
fn who_is_not_signed_for_is_refused() {
    let (files, others) = (Files::new(&["127.0.0.1"]), Files::new(&["127.0.0.1"]));
    let address = server(Some(files.identity())).to_string();
    let error = ask(address.clone(), Some(others.trust())).unwrap_err().to_string();
    assert!(error.contains("invalid peer certificate"), "{error}");
    let elsewhere = Files::new(&["elsewhere.example"]);
    let address = server(Some(elsewhere.identity())).to_string();
    let error = ask(address, Some(elsewhere.trust())).unwrap_err().to_string();
    assert!(error.contains("not valid for name"), "{error}");
}

#[test]
fn a_client_without_tls_is_told_so_and_one_with_it_too() {
    let files = Files::new(&["127.0.0.1"]);
    let secure = server(Some(files.identity()));
    let error = ask(secure.to_string(), None).unwrap_err();
    assert_eq!(error.to_string(), "TLS is spoken here: use https://");
    let error = ask(server(None).to_string(), Some(files.trust())).unwrap_err().to_string();
    assert!(error.ends_with("TLS is not spoken there: use http://"), "{error}");
    let mut stream = TcpStream::connect(secure).unwrap();
    stream.write_all(b"GET /seven HTTP/1.1\r\nHost: x\r\n\r\n").unwrap();
    let mut answer = String::new();
    stream.read_to_string(&mut answer).unwrap();
    assert!(answer.starts_with("HTTP/1.1 400 Bad Request\r\n"), "{answer}");
}

/// FAULTS 61: greetings that never end, or are none.
#[test]
fn fault_61_hostile_greetings_cost_no_other_client_anything() {
    let files = Files::new(&["127.0.0.1"]);
    let address = server(Some(files.identity()));
    // As many as there are places.
    let mut slow: Vec<_> = (0..32).map(|_| TcpStream::connect(address).unwrap()).collect();
    for (nth, stream) in slow.iter_mut().enumerate() {
        let said: &[u8] = [b"".as_slice(), b"\x16\x03\x01\xff\xff\x01", b"\x16", b"GET "][nth % 4];
        stream.write_all(said).unwrap();
    }
    for octets in [&[0; 64][..], b"\x16\x03\x01\x00\x04\x01\x00\x00\x00", b"\x80\x80\x01"] {
        let mut stream = TcpStream::connect(address).unwrap();
        stream.write_all(octets).unwrap();
        slow.push(stream);
    }
    // Once those have been shown out.
    assert_eq!(ask(address.to_string(), Some(files.trust())).unwrap(), 7);
}

#[test]
fn what_is_wrong_with_files_is_one_line() {
    let (files, others) = (Files::new(&["127.0.0.1"]), Files::new(&["127.0.0.1"]));
    std::fs::copy(others.path("key.pem"), files.path("other.pem")).unwrap();
    files.write("empty.pem", "");
    files.write("broken.pem", "-----BEGIN CERTIFICATE-----\n!\n-----END CERTIFICATE-----\n");
    for (certificate, key, says) in [
        ("certificate.pem", "other.pem", "other.pem: is not the key of certificate.pem"),
        ("certificate.pem", "empty.pem", "empty.pem: no private key in PEM is in it"),
        ("certificate.pem", "ca.pem", "ca.pem: no private key in PEM is in it"),
        ("empty.pem", "key.pem", "empty.pem: no certificate in PEM is in it"),
        ("key.pem", "key.pem", "key.pem: no certificate in PEM is in it"),
        ("none.pem", "key.pem", "none.pem: No such file or directory (os error 2)"),
    ] {
        assert_eq!(files.refusal(certificate, key), says);
    }
    let said = files.refusal("broken.pem", "key.pem");
    assert!(said.starts_with("broken.pem: no certificate in PEM is in it: "), "{said}");
    assert!(Trust::load(&files.path("key.pem")).is_err());
}
